"""The time that no layer by layer execution of a network goes below on a GPU: python floor.py [--peaks FILE] [--rows FILE] [--layers TEXT]

A layer is a convolution, a product or a pool with the element-wise operators, norms and concatenations around it, fused: it reads its
input, its weights and what else is added or multiplied, and writes its output, once. The floor sums, layer by layer, the larger of
flops / peak and bytes / bandwidth. Peaks are measured on the card: a product of the type, multiply-adds in f32 for depthwise
convolutions, a copy. `edges` also counts no layer as less than an empty kernel of a captured graph, which decides at batch 1; what is
small enough stays in the L2 cache, so there `bytes` are no bound.
"""
import argparse
import collections
import copy
import datetime
import json
import math
import pathlib
import statistics
import sys

import peer_networks
import torch

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4}
PRODUCT = 8192  # rows and columns of the matrices that measure a peak
COPY_BYTES = 4 << 30
CHAIN = 1000  # empty kernels in a graph
REPEATS = 10

Layer = collections.namedtuple("Layer", "name kind flops numbers weights")  # numbers: of activations, read and written


def layers(module, shape):
    """Of an fx.GraphModule without batch norms (peer_networks.folded) on an input of this shape; nothing is computed."""
    from torch import nn
    from torch.fx.passes.shape_prop import ShapeProp
    module = copy.deepcopy(module).to("meta")
    with torch.no_grad():
        ShapeProp(module).propagate(torch.empty(shape, device="meta"))
    size = lambda node: node.meta["tensor_meta"].shape.numel() if "tensor_meta" in node.meta else 0  # noqa: E731
    found, behind = [], {}  # behind: the layer whose execution an operator is fused with
    for node in module.graph.nodes:
        part = module.get_submodule(node.target) if node.op == "call_module" else None
        operands = [each for each in node.all_input_nodes if size(each) and each.op != "get_attr"]
        behind[node] = max((behind[each] for each in operands), default=-1)
        if isinstance(part, (nn.modules.conv._ConvNd, nn.Linear)):
            x, y, weights = size(operands[0]), size(node), sum(each.numel() for each in part.parameters())
            per_output = part.weight.numel() / part.weight.shape[0]
            transposed = isinstance(part, nn.modules.conv._ConvTransposeNd)
            flops = 2 * per_output * (x if transposed else y)
            found.append(Layer(node.target, kind_of(part), flops, x + y, weights))
        elif "pool" in (type(part).__name__ if part else getattr(node.target, "__name__", "")).lower():
            found.append(Layer(node.target if part else node.name, "pool", 0, size(operands[0]) + size(node), 0))
        else:
            if len(operands) == 2 and "cat" not in str(node.target) and behind[node] >= 0:  # the other operand is read, too
                last = found[behind[node]]
                found[behind[node]] = last._replace(numbers=last.numbers + min(map(size, operands)))
            continue
        behind[node] = len(found) - 1
    return found


def kind_of(part):
    groups = getattr(part, "groups", 1)
    if groups == 1:
        return "dense"
    return "depthwise" if groups == part.in_channels else "grouped"


def seconds(layer, type_, peaks):
    peak = peaks["f32" if layer.kind == "depthwise" else type_]
    return max(layer.flops / peak, (layer.numbers + layer.weights) * BYTES[type_] / peaks["bandwidth"])


def floor(found, type_, peaks):
    """Milliseconds: the floor, by kind of layer, and with edges."""
    kinds = collections.defaultdict(float)
    for layer in found:
        kinds[layer.kind] += 1e3 * seconds(layer, type_, peaks)
    edges = sum(max(seconds(layer, type_, peaks), peaks["edge_seconds"]) for layer in found)
    return {"layers": len(found), "gigaflops": sum(layer.flops for layer in found) / 1e9, "floor_ms": sum(kinds.values()),
            "with_edges_ms": 1e3 * edges, "by_kind_ms": dict(kinds)}


def event_seconds(run, repeats=REPEATS):
    """The median of executions between two events."""
    for _ in range(3):
        run()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for begin, end in pairs:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs) * 1e-3


def multiply_adds():
    """f32 multiply-adds a second, twice: chains in registers, as many as hide their latency."""
    import triton
    import triton.language as tl

    @triton.jit
    def chains(out, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = at.to(tl.float32)
        for _ in range(count):
            for _ in tl.static_range(32):
                value = value * 0.999 + 0.5
        tl.store(out + at, value)

    block, count = 1024, 512  # 8 chains a thread of 128
    blocks = 64 * torch.cuda.get_device_properties(0).multi_processor_count
    out = torch.empty(blocks * block, device="cuda")
    return 2 * 32 * blocks * block * count / event_seconds(lambda: chains[(blocks,)](out, count, BLOCK=block, num_warps=4))


def measured_peaks():
    """Of the GPU: flops and bytes a second."""
    peaks = {"device": torch.cuda.get_device_name(), "date": str(datetime.date.today()), "torch": torch.__version__, "f32": multiply_adds()}
    torch.backends.cuda.matmul.allow_tf32 = True
    for name in ("f16", "bf16", "tf32"):
        a, b = (torch.randn(PRODUCT, PRODUCT, device="cuda").to(peer_networks.dtype(name)) for _ in range(2))
        peaks[name] = 2 * PRODUCT**3 / event_seconds(lambda: torch.mm(a, b))
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    peaks["bandwidth"] = 2 * COPY_BYTES / event_seconds(lambda: target.copy_(source))
    one, graph = torch.zeros(32, device="cuda"), torch.cuda.CUDAGraph()
    one.add_(1)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(CHAIN):
            one.add_(1)
    peaks["edge_seconds"] = event_seconds(graph.replay) / CHAIN
    return peaks


def shares(row, floor_ms):
    """Of the floor, that each peer of a row of peers.py reaches, run in a row where that was timed."""
    times = {name: (found.get("row_ms") or found.get("single_ms") or {}).get("median") for name, found in row["peers"].items()}
    return {name: floor_ms / time for name, time in times.items() if time}


def rows(peaks, measured):
    """A row for each that is compared, and its layers."""
    found = {}
    for network, type_, batch in peer_networks.cells():
        shape = (batch, *peer_networks.dims(network))
        if (network, batch) not in found:
            found[network, batch] = layers(peer_networks.folded(network), shape)
        row = {"network": network, "type": type_, "batch": batch, **floor(found[network, batch], type_, peaks)}
        beside = measured.get((network, type_, batch))
        yield row | ({"share": shares(beside, row["floor_ms"])} if beside and tuple(beside["shape"]) == shape else {}), found[network, batch]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peaks", type=pathlib.Path, help="a record of this script's, whose peaks hold; else they are measured here")
    parser.add_argument("--rows", type=pathlib.Path, help="a record of peers.py")
    parser.add_argument("--layers", metavar="NETWORK", help="print the layers of this network, too")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if not options.peaks and not torch.cuda.is_available():
        sys.exit("no GPU here whose peaks could be measured: --peaks FILE takes those of a record")
    peaks = json.loads(options.peaks.read_text())["peaks"] if options.peaks else measured_peaks()
    print(f"{peaks['device']}: " + ", ".join(f"{name} {peaks[name] / 1e12:.0f} TFLOP/s" for name in ("f16", "bf16", "tf32", "f32")) +
          f", {peaks['bandwidth'] / 1e12:.2f} TB/s, {peaks['edge_seconds'] * 1e6:.2f} us an empty kernel")
    measured = {(row["network"], row["type"], row["batch"]): row for row in json.loads(options.rows.read_text())["rows"]} if options.rows else {}
    kept = []
    for row, found in rows(peaks, measured):
        kept.append(row)
        kinds = "  ".join(f"{kind} {time:.3f}" for kind, time in row["by_kind_ms"].items())
        said = "  ".join(f"{name} {share:.0%}" for name, share in row.get("share", {}).items())
        print(f"{row['network']:16} {row['type']:4} {row['batch']:4} {row['layers']:3} layers  floor {row['floor_ms']:.3f} ms, "
              f"{row['with_edges_ms']:.3f} with edges  ({kinds})  {said}")
        if options.layers == row["network"]:
            for layer in found:
                bound = "flops" if math.isclose(seconds(layer, row["type"], peaks), seconds(layer._replace(numbers=0, weights=0), row["type"], peaks)) else "bytes"
                print(f"    {layer.name:40} {layer.kind:9} {1e3 * seconds(layer, row['type'], peaks):.4f} ms by {bound}")
    if options.output:
        options.output.write_text(json.dumps({"date": str(datetime.date.today()), "command": " ".join(["python bench/gpu/floor.py", *sys.argv[1:]]),
                                              "commit": peer_networks.commit(), "peaks": peaks, "rows": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
