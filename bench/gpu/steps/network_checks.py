"""Whole networks on a GPU, whether they are right: conformance cases, random graphs, a volume, the sanitizers, how long a start takes."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from steps import harness, unit_tests

DATA = harness.HERE / "data" if harness.BUNDLED else pathlib.Path(os.environ.get("CONVOY_DATA", harness.HERE.parent / "shared/data"))
SHARDS = 10
GRAPHS, GRAPHS_A_UNIT = 500, 5
FIRST_SEED = 5000
SANITIZED = ("squeezenet1_1", "mobilenet_v2", "efficientnet_b0")
SANITIZER_FOUND = 9  # the exit code where it found something
OWN_ENGINES = SANITIZED[1:]  # run by Convoy's engines alone: racecheck ends in cuDNN's kernels


def run(model, *flags, device="cuda", seconds=harness.UNIT_SECONDS, **environment):
    """What convoy run tells of a network on the device, or why it doesn't."""
    code, out, err = harness.command([harness.CONVOY, "run", model, "--device", device, "--no-db", "--json", *flags], seconds, **environment)
    return json.loads(out) if code == 0 else {"broken": {"exit_code": code, "stderr": err[-1500:]}}


def linked_cases(shard, folder):
    """A part of the conformance cases and of those from the field, in the folder."""
    cases = sorted(path.parent for root in (DATA / "conformance", DATA / "field") if root.exists() for path in root.rglob("model.onnx"))
    for case in cases[shard::SHARDS]:
        link = pathlib.Path(folder) / case.relative_to(DATA)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(case)


class Conformance(harness.Step):
    """ONNX's conformance cases and the cases from the field, as networks on the GPU"""
    jobs = 5

    def units(self):
        return list(range(SHARDS))

    def run(self, shard):
        with tempfile.TemporaryDirectory() as folder:
            linked_cases(shard, folder)
            code, out, err = harness.command([harness.CONVOY, "conformance", folder, "--device", "cuda", "--threads", "1", "--json"])
        try:
            return {"cases": json.loads(out)["cases"]}
        except ValueError:
            return {"broken": {"exit_code": code, "stderr": err[-2000:]}}

    def summary(self, rows):
        cases = [case for row in rows for case in row.get("cases", [])]
        of = lambda status: [case["name"] for case in cases if case["status"] == status]  # noqa: E731
        # Tails excepted, whose sizes are known only when the network runs.
        away = {case["name"]: [step for step in case.get("on_processor", []) if not step.endswith("at run time")] for case in cases}
        away = {name: steps for name, steps in away.items() if steps}
        return {"passed": len(of("passed")), "failed": of("failed"), "unsupported": of("unsupported"),
                "share_with_steps_on_processor": len(away) / max(1, len(cases)), "with_steps_on_processor": away,
                "broken": [row["broken"] for row in rows if "broken" in row]}


class Random(harness.Step):
    """random graphs (tests/random_graphs) on the GPU, half of them f16, between guarded buffers, against f64 with error bounds"""
    jobs = 14

    def units(self):
        return [[kind, first, GRAPHS_A_UNIT] for first in range(FIRST_SEED, FIRST_SEED + GRAPHS // 2, GRAPHS_A_UNIT) for kind in ("f32", "f16")]

    def run(self, unit):
        kind, first, count = unit
        module = {"PYTHONPATH": str(harness.HERE / "python"), "CONVOY_LIBRARY": str(harness.ROOT / "lib/libconvoy.so"), "CONVOY_RANDOM_TYPE": kind,
                  "OMP_NUM_THREADS": "1"}
        told = harness.ask(harness.HERE / "tests/random_graphs/on_device.py", [first, count], **module)
        seeds = told.get("seeds", [])
        found = {"unit": unit, **{key: sum(seed[key] for seed in seeds) for key in ("runs", "outputs", "guarded")},
                 "wrong": [[seed["seed"], *seed["wrong"]] for seed in seeds if seed["wrong"]],
                 "on_processor": [[seed["seed"], *seed["on_processor"]] for seed in seeds if seed["on_processor"]]}
        if "broken" in told:
            found["broken"] = told["broken"]
        return found

    def summary(self, rows):
        return {"graphs": sum(row["unit"][2] for row in rows), **{key: sum(row[key] for row in rows) for key in ("runs", "outputs", "guarded")},
                "wrong": [[row["unit"][0], *each] for row in rows for each in row["wrong"]],
                "on_processor": [[row["unit"][0], *each] for row in rows for each in row["on_processor"]],
                "broken": [[*row["unit"], row["broken"]] for row in rows if "broken" in row]}


def labels(row):
    """How many voxels have each label."""
    return row["outputs"][0]["argmax"]["counts"] if row.get("outputs") else None


class Volume(harness.Step):
    """the 256^3 MRI through meshnet: counts of labels and times beside the processor's"""

    def units(self):
        return ["cuda", "cpu"]

    def run(self, device):
        model = DATA / "models/meshnet_gwm_5ch/model.onnx"
        volume = DATA / "images/t1_brain_mri_256.nii.gz"
        if not model.exists():
            return {"device": device, "not_run": "there is no data"}
        told = run(model, "--input", volume, "--argmax", "--repeat", 3, "--warmup", 1, device=device)
        return {"device": device, **{key: told.get(key) for key in ("seconds", "device_seconds", "prepare_seconds", "outputs", "broken")}}

    def summary(self, rows):
        return {"rows": rows, "same_labels": labels(rows[0]) is not None and labels(rows[0]) == labels(rows[1])}


class Sanitized(harness.Step):
    """compute-sanitizer on three networks, a quantized one, the conformance cases and cuda.integer's test: memcheck of all kernels, racecheck of Convoy's own"""
    jobs = 6

    def units(self):
        own = [["racecheck", "network", network] for network in OWN_ENGINES]
        return ([["memcheck", "quantized", "squeezenet1.1-7:qdq"], ["memcheck", "program", "cuda_integer_test"], ["racecheck", "program", "cuda_integer_test"]]
                + [[tool, "cases", shard] for tool in ("memcheck", "racecheck") for shard in range(SHARDS)]
                + [["memcheck", "network", network] for network in SANITIZED] + own)

    def run(self, unit):
        tool, kind, what = unit
        if shutil.which("compute-sanitizer") is None:
            return {"unit": unit, "not_run": "there is no compute-sanitizer here"}
        flags = ["--device", "cuda", *(["--engines", "cuda.*"] if tool == "racecheck" else [])]
        run = ["--random-inputs", "--no-db", "--repeat", 2, "--warmup", 1, *flags]
        with tempfile.TemporaryDirectory() as folder:
            program = [harness.CONVOY, "run", f"zoo:{what}", "--precision", "f16", *run]
            if kind == "program":
                program = [harness.ROOT / "tests" / what, f"--gtest_filter=-{':'.join(unit_tests.NO_GPU_NEEDED)}"]
            elif kind == "cases":
                linked_cases(what, folder)
                program = [harness.CONVOY, "conformance", folder, "--threads", 1, *flags]
            elif kind == "quantized":
                model = pathlib.Path(folder) / "model.onnx"
                harness.command([sys.executable, harness.HERE / "bench/gpu/quantized_model.py", what, model], CONVOY_DATA=str(DATA))
                program = [harness.CONVOY, "run", model, *run]
            code, out, err = harness.command(["compute-sanitizer", "--tool", tool, "--error-exitcode", SANITIZER_FOUND, *program])
        found = [line for line in (out + err).splitlines() if line.startswith("=====")]
        return {"unit": unit, "exit_code": code, "errors": re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): .*", out + err),
                "first": found[:60] if code == SANITIZER_FOUND else [], "tail": (out + err)[-600:]}

    def summary(self, rows):
        # A case that Convoy's engines alone don't run makes conformance fail, and is nothing that the sanitizer found.
        wrong = lambda row: row.get("exit_code") not in (0, None, *((1, 3, 4) if row["unit"][1] == "cases" else ()))  # noqa: E731
        return {"failed": [row for row in rows if wrong(row)], "units": rows}


# The first and the second run of each batch size, seconds, and the kernels that were compiled until the next one's: seconds from when the
# first run began to when it was compiled, and how long that took.
IN_ONE_PROCESS = """
import datetime, json, re, sys, time
import numpy as np
import convoy
log = sys.argv[2]  # where CONVOY_LOG writes
session = convoy.InferenceSession(sys.argv[1], device="cuda", database=False)
name, told, seen = session.get_inputs()[0].name, [], 0
for batch in (1, 32, 8, 128):
    x = np.zeros((batch, 3, 224, 224), np.float16)
    row, start = {"batch": batch}, time.time()
    for run in ("first_run_seconds", "second_run_seconds"):
        begin = time.monotonic()
        session.run(None, {name: x})
        row[run] = round(time.monotonic() - begin, 4)
    time.sleep(float(sys.argv[3]))  # a program that works meanwhile
    lines = open(log).read().splitlines()
    new, seen = lines[seen:], len(lines)
    found = lambda pattern: [match.groups() for match in map(re.compile(pattern).search, new) if match]
    at = lambda text: round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() - start, 3)
    row["prepared"] = {step: float(seconds) for step, seconds in found(r"event=prepare step=(\\S+) .* seconds=(\\S+)")}
    row["foreseen"] = [[at(when), int(batch), int(kernels), float(seconds)]
                       for when, batch, kernels, seconds in found(r"time=(\\S+) .*event=foresee batch=(\\S+) kernels=(\\S+) seconds=(\\S+)")]
    row["compiled"] = [[at(when), kernel, float(seconds)] for when, kernel, seconds in found(r"time=(\\S+) .*event=compile kernel=(\\S+) .*seconds=(\\S+)")]
    told.append(row)
print(json.dumps({"sizes": told}))
"""


class Start(harness.Step):
    """from the start of the process to the output of ResNet-50 in f16: nothing cached, all on disk, another batch size; other sizes in one process"""

    def units(self):
        return ["resnet50"]

    def run(self, network):
        sys.path.insert(0, str(harness.HERE / "bench/gpu"))
        import peer_networks
        import torch
        rows = []
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            module = peer_networks.folded(network).half()
            peer_networks.export(module, torch.zeros(1, *peer_networks.dims(network), dtype=torch.float16), folder / "free.onnx")
            # NVRTC keeps what it compiled, too.
            caches = lambda cache: {"CONVOY_KERNEL_CACHE": str(folder / cache), "CUDA_CACHE_PATH": str(folder / f"{cache}-nvidia")}
            for batch, what in ((1, "nothing cached"), (1, "all on disk"), (32, "another batch size"), (32, "all on disk")):
                peer_networks.with_batch(folder / "free.onnx", batch, folder / "model.onnx")
                begin = time.monotonic()
                told = run(folder / "model.onnx", "--random-inputs", "--repeat", 1, "--warmup", 0, **caches("kernels"))
                rows.append({"batch": batch, "what": what, "process_seconds": round(time.monotonic() - begin, 2),
                             **{key: told.get(key) for key in ("prepare_seconds", "first_run_seconds", "broken")}})
            # The first reads cuDNN's kernels of all sizes from disk: what they take is no part of the others.
            for what, cache, pause in (("libraries not read yet", "first", 0), ("nothing cached", "second", 0), ("all on disk", "second", 0),
                                       ("nothing cached, 3 s between the sizes", "third", 3)):
                log = folder / f"{what}.log"
                code, out, err = harness.command([sys.executable, "-c", IN_ONE_PROCESS, folder / "free.onnx", log, pause], CONVOY_LOG=f"info:{log}",
                                                 PYTHONPATH=str(harness.HERE / "python"), CONVOY_LIBRARY=str(harness.ROOT / "lib/libconvoy.so"), **caches(cache))
                rows.append({"what": f"in one process, {what}", **(json.loads(out) if code == 0 else {"broken": err[-1500:]})})
        return {"rows": rows}

    def summary(self, rows):
        return rows[0]
