"""Networks on a GPU, the ways that people run them beside each other and Convoy, on the same weights: python peers.py [--only TEXT ...]

  eager        PyTorch, channels_last, cudnn.benchmark, batch norms folded: for volumes only, unless asked for
  graph        (a) PyTorch, batch norms folded, channels_last, cudnn.benchmark, captured as a CUDA graph
  jit          (b) torch.jit.freeze and optimize_for_inference of the same, captured
  compile      (c) torch.compile with frozen weights, captured by hand
  called       (c) the same with mode="reduce-overhead", timed as people call it
  autotune     (d) compile with max_autotune, conv_1x1_as_mm, coordinate_descent_tuning; minutes a row, so for three networks only
  onnxruntime  (e) ONNX Runtime's CUDA provider with its CUDA graph, prefer_nhwc, fuse_conv_bias; and
  onnxruntime-unfused  without the last, with which transposed convolutions fail in 1.31
  convoy       the command, on the exported file, with the engines that the heuristic chooses
  convoy-measured  the same after a run that measures engines for up to half a minute

A row is a network, type and batch. Its peers take turns: a round is a block of each, of single runs (each waited for) and of runs in a
row (the last waited for), by the wall clock, since ONNX Runtime and Convoy have streams of their own. What counts are ratios to `graph`,
which is in each row's rounds. Outputs are compared with PyTorch's in f32 first. A peer that can't be measured says why. A row is written
when it is done; what is in the file is not measured again, and a peer that is new to a row is measured beside `graph`.
"""
import argparse
import copy
import datetime
import gc
import importlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import peer_networks
import torch

PEERS = ("eager", "graph", "jit", "compile", "called", "autotune", "onnxruntime", "onnxruntime-unfused", "convoy", "convoy-measured")
COMPILED = ("compile", "called")
AUTOTUNE = {"max_autotune": True, "conv_1x1_as_mm": True, "coordinate_descent_tuning": True}
WARM_UPS = 3  # torch.jit's executor specializes in the first two
MEASURING_SECONDS = 30  # of convoy-measured
BLOCK_SECONDS = 0.04  # of single runs, and as long of runs in a row
MOST_RUNS = 200
ROUNDS = 7


class NotMeasured(Exception):
    """Why a peer has no times."""


class InProcess:
    """A peer that this process runs: launch() begins a run, output() is what the last one gave."""
    details = {}

    def __init__(self, launch, output):
        self.launch, self.output = launch, output

    def block(self):
        once = timed(self.launch, 1)
        count = max(2, min(MOST_RUNS, round(BLOCK_SECONDS / once)))
        singles = [timed(self.launch, 1) for _ in range(count)]
        return {"single": statistics.median(singles), "row": timed(self.launch, count) / count}


class Cell:
    """What the peers of a row share: the module in its type, an input, the answer in f32, the exported file."""

    def __init__(self, network, type_, batch, device, size, folder, command):
        self.network, self.type, self.batch, self.device, self.command = network, type_, batch, device, command
        self.dtype = peer_networks.dtype(type_)
        self.folder = pathlib.Path(folder)
        self.shape = (batch, *peer_networks.dims(network, size))
        module = copy.deepcopy(peer_networks.folded(network)).to(device)
        self.x = torch.rand(self.shape, generator=torch.Generator().manual_seed(2)).sub(0.5).mul(4).to(self.dtype).to(device)
        set_backends(tf32=False, benchmark=False)
        with torch.no_grad():
            self.expected = module(self.x.float())
        set_backends(tf32=type_ == "tf32", benchmark=True)
        self.module = peer_networks.channels_last(module.to(self.dtype), len(self.shape))
        self.free = self.folder / f"{network}-{type_}.onnx"
        self.x_last = peer_networks.channels_last(self.x, len(self.shape))

    def file(self):
        """The exported model, of this batch."""
        if not self.free.exists():
            contiguous = copy.deepcopy(peer_networks.folded(self.network)).to(self.device, self.dtype)
            peer_networks.export(contiguous, self.x[:1].contiguous(), self.free)
        file = self.folder / f"{self.network}-{self.type}-{self.batch}.onnx"
        if not file.exists():
            peer_networks.with_batch(self.free, self.batch, file)
        return file

    def relative_error(self, output):
        output = output.to(self.expected.device).float().reshape(self.expected.shape)
        return (torch.linalg.vector_norm(output - self.expected) / torch.linalg.vector_norm(self.expected)).item()


def set_backends(tf32, benchmark):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = benchmark


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(launch, count):
    """Seconds of so many runs, the last waited for."""
    wait()
    start = time.perf_counter()
    for _ in range(count):
        launch()
    wait()
    return time.perf_counter() - start


def called(call, x):
    answer = []

    def launch():
        with torch.no_grad():
            answer[:] = [call(x)]

    for _ in range(WARM_UPS):
        launch()
    return InProcess(launch, lambda: answer[0])


def captured(call, x):
    """On a processor nothing is captured: there the peers' logic is tested."""
    if x.device.type != "cuda":
        return called(call, x)
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                call(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = call(x)
    graph.replay()
    return InProcess(graph.replay, lambda kept=call: y)  # its weights are what the graph reads


def jit(cell):
    with torch.no_grad():
        traced = torch.jit.trace(cell.module, cell.x_last, check_trace=False)
        return captured(torch.jit.optimize_for_inference(torch.jit.freeze(traced.eval())), cell.x_last)


def compiled(cell, how, **options):
    """torch.compile as inference has it. Configurations of a kernel are compared in this process, not looked up: what filled the cache may
    have run beside others. The options are told to torch.compile, which otherwise takes what it compiled with others for the same."""
    import torch._inductor.config as config
    with config.patch(freezing=True, autotune_local_cache=False):
        return how(torch.compile(cell.module, dynamic=False, options=options), cell.x_last)


def onnxruntime(cell, fuse_conv_bias=True):
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise NotMeasured(str(error)) from error
    onnx_types = {"f16": 10, "bf16": 16, "tf32": 1, "f32": 1}
    provider = f"{cell.device.upper()}ExecutionProvider"
    if provider not in ort.get_available_providers():
        raise NotMeasured(f"onnxruntime {ort.__version__} has no {provider}; the package onnxruntime-gpu has")
    settings = {"enable_cuda_graph": "1", "prefer_nhwc": "1", "fuse_conv_bias": str(int(fuse_conv_bias)), "cudnn_conv_use_max_workspace": "1",
                "cudnn_conv_algo_search": "EXHAUSTIVE", "use_tf32": str(int(cell.type == "tf32"))}
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(cell.file()), options, providers=[(provider, settings if cell.device == "cuda" else {})])
    if session.get_providers()[0] != provider:
        raise NotMeasured(f"onnxruntime {ort.__version__}: its {provider} does not load here")
    x, y = cell.x.contiguous(), torch.empty(cell.expected.shape, dtype=cell.dtype, device=cell.device)
    binding = session.io_binding()
    for bind, name, tensor in ((binding.bind_input, "x", x), (binding.bind_output, "y", y)):
        bind(name, cell.device, 0, onnx_types[cell.type], list(tensor.shape), tensor.data_ptr())
    wait()
    for _ in range(WARM_UPS):
        session.run_with_iobinding(binding)
    without_waiting = ort.RunOptions()
    without_waiting.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def launch(kept=(x, y)):
        session.run_with_iobinding(binding, without_waiting)

    return InProcess(launch, lambda: y)


class Convoy:
    """The command, a process a block. On a GPU it tells the GPU's own time of a run, without copies, which counts as that of a run in a
    row: nothing is launched and waited for in it."""

    def __init__(self, cell, budget=None):
        import onnx
        if not shutil.which(cell.command):
            raise NotMeasured(f"no program {cell.command}")
        self.folder = cell.folder
        type_ = {"f16": "FLOAT16", "bf16": "BFLOAT16", "tf32": "FLOAT", "f32": "FLOAT"}[cell.type]
        raw = cell.x.cpu().contiguous().view(torch.uint8).numpy().tobytes()
        tensor = onnx.helper.make_tensor("x", getattr(onnx.TensorProto, type_), cell.shape, raw, raw=True)
        (self.folder / "x.pb").write_bytes(tensor.SerializeToString())
        self.arguments = [cell.command, "run", cell.file(), "--input", f"x={self.folder / 'x.pb'}", "--device", cell.device, "--json",
                          *(["--allow", "tf32"] if cell.type == "tf32" else [])]
        self.environment = {**os.environ, "CONVOY_DB": str(self.folder / f"{cell.file().stem}.db")}
        choosing = ["--select", "measured", "--budget", budget] if budget else ["--select", "heuristic"]
        self.told = self.run(*choosing, "--output-dir", self.folder / "convoy")
        slowest = sorted(self.told["steps"], key=lambda step: -(step["seconds"] or 0))[:5]
        self.details = {"said": self.said[-600:], "steps": len(self.told["steps"]),
                        "slowest_steps": [[step[key] for key in ("nodes", "implementation", "seconds")] for step in slowest]}
        self.arguments += ["--select", "stored" if budget else "heuristic"]

    def run(self, *flags):
        done = subprocess.run([str(each) for each in (*self.arguments, *flags)], capture_output=True, text=True, env=self.environment)
        if done.returncode != 0:
            raise NotMeasured(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
        self.said = done.stderr
        return json.loads(done.stdout)

    def output(self):
        import numpy
        values = numpy.load(self.told["outputs"][0]["file"])
        if values.dtype.itemsize == 2 and values.dtype.kind != "f":  # bf16's bits
            values = (values.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        return torch.from_numpy(values.astype(numpy.float32))

    def block(self):
        told = self.run("--duration", BLOCK_SECONDS)
        there = told.get("device_seconds")
        return {"single": told["seconds"], "row": there} if there else {"single": told["seconds"]}


BUILDERS = {
    "eager": lambda cell: called(cell.module, cell.x_last),
    "graph": lambda cell: captured(cell.module, cell.x_last),
    "jit": jit,
    "compile": lambda cell: compiled(cell, captured, **{"triton.cudagraphs": False}),
    "called": lambda cell: compiled(cell, called, **{"triton.cudagraphs": True}),
    "autotune": lambda cell: compiled(cell, captured, **AUTOTUNE),
    "onnxruntime": onnxruntime,
    "onnxruntime-unfused": lambda cell: onnxruntime(cell, fuse_conv_bias=False),
    "convoy": Convoy,
    "convoy-measured": lambda cell: Convoy(cell, MEASURING_SECONDS),
}


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def compared(rounds):
    """Of each peer and kind of time: milliseconds, and the rounds' ratios to `graph`."""
    found = {}
    for name, first in rounds[0].items():
        mine = [each for each in rounds if name in each]
        found[name] = {f"{kind}_ms": spread([each[name][kind] * 1e3 for each in mine]) for kind in first}
        found[name].update({f"{kind}_over_graph": spread([each["graph"][kind] / each[name][kind] for each in mine])
                            for kind in first if kind in rounds[0]["graph"]})
    return found


def measured(cell, peers, rounds):
    """What is known of each peer afterwards; `graph` is always among them."""
    standing, found = {}, {}
    for name in ("graph", *(each for each in peers if each != "graph")):
        start = time.perf_counter()
        try:
            if name == "autotune" and (cell.network not in peer_networks.AUTOTUNED or cell.type != "f16"):
                raise NotMeasured(f"for {', '.join(peer_networks.AUTOTUNED)} in f16 only")
            standing[name] = BUILDERS[name](cell)
            wait()
            found[name] = {"build_seconds": round(time.perf_counter() - start, 2), "relative_error": cell.relative_error(standing[name].output()),
                           **standing[name].details}
        except Exception as error:  # what one peer can't do is its answer; the others go on
            reason = str(error) if isinstance(error, NotMeasured) else f"{type(error).__name__}: {error}"
            found[name] = {"not_measured": reason.strip()[:400]}
            standing.pop(name, None)
    if "graph" not in standing or rounds == 0:
        return found
    taken = []
    for number in range(rounds):
        turns = [name for name in standing if not name.startswith("convoy") or number in (0, rounds // 2, rounds - 1)]  # a process each takes seconds
        taken.append({name: standing[name].block() for name in (turns if number % 2 == 0 else reversed(turns))})
    for name, times in compared(taken).items():
        found[name].update(times)
    return found


def row_of(network, type_, batch, peers, options, folder):
    cell = Cell(network, type_, batch, options.device, options.size, folder, options.convoy)
    row = {"network": network, "type": type_, "batch": batch, "shape": list(cell.shape), "peers": measured(cell, peers, options.rounds)}
    del cell
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return row


def versions():
    have = {}
    for name in ("torch", "torchvision", "triton", "onnx", "onnxruntime"):
        try:
            have[name] = importlib.import_module(name).__version__
        except ImportError:
            pass
    return {**have, "cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda, "python": platform.python_version()}


def device_name(device):
    return torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()


def document(options):
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "command": " ".join(["python bench/gpu/peers.py", *sys.argv[1:]]),
            "commit": peer_networks.commit(), "device": device_name(options.device), "versions": versions(), "rows": []}


def missing(row, peers):
    """The peers of a row that have no times yet, for whatever reason."""
    return [name for name in peers if "single_ms" not in (row or {"peers": {}})["peers"].get(name, {})]


def added(row, new):
    """The row with what was measured now; what it has stays."""
    if row is None:
        return new
    for name, found in new["peers"].items():
        if "single_ms" not in row["peers"].get(name, {}):
            row["peers"][name] = found
    return row


def printed(row):
    said = []
    for name, found in row["peers"].items():
        if "not_measured" in found:
            said.append(f"  {name:19} not measured: {found['not_measured']}")
            continue
        times = "  ".join(f"{kind.removesuffix('_ms')} {found[kind]['median']:.3f} ms ({found[kind]['least']:.3f} to {found[kind]['most']:.3f})"
                          for kind in found if kind.endswith("_ms"))
        ratio = found.get("single_over_graph", {}).get("median")
        said.append(f"  {name:19} {times}  {f'x{ratio:.2f} of graph' if ratio else ''}  error {found['relative_error']:.1e}, built in {found['build_seconds']} s")
    return "\n".join([f"{row['network']} {row['type']} batch {row['batch']}", *said])


def serve(options, folder):
    """Rows that are asked for on standard input, [network, type, batch, [peers]] a line; a line of JSON each (scripts/gpu-check)."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what PyTorch prints is no answer
    print(json.dumps({key: value for key, value in document(options).items() if key != "rows"}), file=answers, flush=True)
    for line in sys.stdin:
        network, type_, batch, peers = json.loads(line)
        print(json.dumps(row_of(network, type_, batch, peers, options, folder)), file=answers, flush=True)


def run(options, folder):
    start, slowest = time.monotonic(), 0
    record = json.loads(options.output.read_text()) if options.output.exists() else document(options)
    rows = {(row["network"], row["type"], row["batch"]): row for row in record["rows"]}
    for cell in (*peer_networks.cells(), *peer_networks.volumes()):
        wanted = missing(rows.get(cell), options.peers)
        if not wanted or not any({*text.split()} <= {*map(str, cell)} for text in options.only):
            continue
        begun = time.monotonic()
        if begun + slowest > start + options.time_limit:
            print("rows are left; the same command goes on")
            break
        rows[cell] = added(rows.get(cell), row_of(*cell, wanted, options, folder))
        print(printed(rows[cell]), flush=True)
        record["rows"] = list(rows.values())
        options.output.parent.mkdir(parents=True, exist_ok=True)
        new = options.output.with_suffix(".new")
        new.write_text(json.dumps(record, indent=1) + "\n")
        new.replace(options.output)
        slowest = max(slowest, time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[each for each in PEERS if each not in ("eager", "autotune", "convoy-measured")])
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help='rows that have all words of one of these: "resnet50 f16"')
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="no row begins that would probably end later")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="0: build and compare outputs, which also compiles what torch.compile caches")
    parser.add_argument("--output", type=pathlib.Path, default=peer_networks.ROOT / f"bench/results/gpu-networks-{datetime.date.today()}.json")
    parser.add_argument("--convoy", default=str(peer_networks.ROOT / "build/bin/convoy"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: nothing is captured; for tests")
    parser.add_argument("--size", type=int, help="of inputs, in place of the usual ones; for tests")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("TORCH_LOGS", "-all")
    with tempfile.TemporaryDirectory() as folder:
        (serve if options.serve else run)(options, folder)


if __name__ == "__main__":
    main()
