"""Where Convoy's networks lose against the floor: each step's kernels, timed by CUPTI in a run that waits after each step."""
import collections
import glob
import json
import math
import pathlib
import statistics
import tempfile

import peer_networks
from steps import harness

RUNS, WARM_UPS = 5, 2
KINDS = ("first layer", "depthwise", "grouped", "1x1 of one pixel", "1x1", "larger", "transposed", "product", "pool", "norm", "concat", "element-wise", "layout")


def cells():
    """The smallest and the largest batch of each network."""
    batches = {name: peer_networks.BATCHES.get(name, peer_networks.USUAL_BATCHES) for name in peer_networks.NAMES}
    return [(name, batch) for name, each in batches.items() for batch in (min(each), max(each))]


def injection(folder):
    """kernel_times.cc as a library; None where CUDA's toolkit with CUPTI is not there."""
    for header in (*glob.glob("/usr/local/cuda*/**/cupti.h", recursive=True), *glob.glob("/opt/**/cupti.h", recursive=True)):
        include = pathlib.Path(header).parent
        libraries = [path.parent for root in (include.parent, *include.parents[1:3]) for path in root.glob("**/libcupti.so*")][:1]
        if not libraries:
            continue
        library = folder / "kernel_times.so"
        cuda = next(iter(glob.glob("/usr/local/cuda*/include")), include)
        code, _, _ = harness.command(["g++", "-O1", "-std=c++17", "-shared", "-fPIC", harness.HERE / "bench/gpu/kernel_times.cc", "-o", library,
                                      "-I", include, "-I", cuda, f"-L{libraries[0]}", f"-Wl,-rpath,{libraries[0]}", "-l:" + next(libraries[0].glob("libcupti.so*")).name])
        if code == 0:
            return library
    return None


def times_of_steps(text, count):
    """Microseconds and kernels of each step: what the process ran between two waits, the median of its last runs."""
    found = sorted((int(number), float(time), what) for number, time, what in (line.split("\t", 2) for line in text.splitlines()))
    groups = [[]]
    for _, time, what in found:
        if what != "wait":
            groups[-1].append(time)
        elif groups[-1]:
            groups.append([])
    groups = [group for group in groups if group]
    runs = [groups[len(groups) - count * (run + 1):len(groups) - count * run] for run in range(RUNS)]
    return [(statistics.median(sum(run[s]) for run in runs), len(runs[0][s])) for s in range(count)]


def dims_of(problem):
    fields = dict(field.partition("=")[::2] for field in problem.split(":"))
    return fields, *([int(size) for size in fields[name].split(",")[1].split("x")] for name in "xwy")


def kind_and_floor(step, peaks, size=2):
    """The kind of layer, and microseconds that it can't go below, by the peaks of floor.py; what could be fused has no floor."""
    if step["kind"] == "conv":
        fields, x, w, y = dims_of(step["problem"])
        count = lambda dims: math.prod(dims)  # noqa: E731
        groups, backward = int(fields.get("groups", 1)), step["problem"].startswith("dgrad")
        residual = "gamma" in fields
        depthwise = groups > 1 and w[1] == 1
        flops = 2 * count(y) * count(w[1:])
        numbers = count(x) + count(w) + count(y) + (count(x if backward else y) if residual else 0)
        kind = ("transposed" if backward else "depthwise" if depthwise else "grouped" if groups > 1 else "1x1 of one pixel" if count(x[2:]) == 1
                else "first layer" if w[1] <= 8 else "1x1" if count(w[2:]) == 1 else "larger")
        return kind, 1e6 * max(flops / peaks["f32" if depthwise else "f16"], numbers * size / peaks["bandwidth"])
    nodes, runs_on = step["nodes"].lower(), step["implementation"]
    kind = ("layout" if step["kind"] == "convert" else "product" if "cublas" in runs_on or "product" in runs_on else "pool" if "pool" in nodes
            else "concat" if "cat" in nodes else "norm" if runs_on.startswith("gen.rows") else "element-wise")
    return kind, 0.0


class Losses(harness.Step):
    """Convoy's networks in f16: milliseconds lost against the floor by kind of layer, kernel by kernel"""

    def units(self):
        return ["peaks"] + [list(cell) for cell in cells()]

    def run(self, unit):
        import torch
        if unit == "peaks":
            code, out, err = harness.command(["python3", "-c", "import floor, json; print(json.dumps(floor.measured_peaks()))"],
                                             PYTHONPATH=str(harness.HERE / "bench/gpu"))
            return {"peaks": json.loads(out)} if code == 0 else {"broken": err[-600:]}
        network, batch = unit
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            library = injection(folder)
            if library is None:
                return {"unit": unit, "not_run": "there is no CUPTI with its headers here"}
            module = peer_networks.folded(network).to(device).half()
            peer_networks.export(module, torch.zeros(1, *peer_networks.dims(network), dtype=torch.float16, device=device), folder / "free.onnx")
            peer_networks.folded.cache_clear()
            peer_networks.with_batch(folder / "free.onnx", batch, folder / "model.onnx")
            ask = [harness.CONVOY, "run", folder / "model.onnx", "--random-inputs", "--device", "cuda", "--no-db", "--json"]
            code, out, err = harness.command([*ask, "--duration", "0.1"])
            injected = {"LD_PRELOAD": str(library), "CUDA_INJECTION64_PATH": str(library), "KERNEL_TIMES": str(folder / "times")}
            again, steps, more = harness.command([*ask, "--no-graph", "--sync", "--repeat", RUNS, "--warmup", WARM_UPS], **injected)
            if code != 0 or again != 0 or not (folder / "times").exists():
                return {"unit": unit, "broken": (err + more)[-600:]}
            steps = json.loads(steps)["steps"]
            times = times_of_steps((folder / "times").read_text(), len(steps))
            return {"unit": unit, "device_us": 1e6 * json.loads(out)["device_seconds"],
                    "steps": [{**{key: step.get(key) for key in ("kind", "nodes", "implementation", "problem", "output")}, "us": time, "kernels": kernels}
                              for step, (time, kernels) in zip(steps, times) if not step["implementation"].startswith("copy")]}

    def summary(self, rows):
        return summary(rows[1:], rows[0].get("peaks"))


def summary(rows, peaks):
    kept = []
    for row in (each for each in rows if "steps" in each):
        kinds = collections.defaultdict(lambda: {"steps": 0, "kernels": 0, "us": 0.0, "floor_us": 0.0})
        for step in row["steps"]:
            kind, floor = kind_and_floor(step, peaks)
            each = kinds[kind]
            each["steps"] += 1
            each["kernels"] += step["kernels"]
            each["us"] += step["us"]
            each["floor_us"] += floor
        for each in kinds.values():
            each["lost_us"] = each["us"] - each["floor_us"]
            each["lost_share"] = each["lost_us"] / row["device_us"]
        network, batch = row["unit"]
        kept.append({"network": network, "batch": batch, "device_us": row["device_us"], "kernels_us": sum(each["us"] for each in kinds.values()),
                     "floor_us": sum(each["floor_us"] for each in kinds.values()), "by_kind": {kind: kinds[kind] for kind in KINDS if kind in kinds},
                     "steps": row["steps"]})
    return {"peaks": peaks, "rows": kept, "not_run": [row for row in rows if "steps" not in row]}
