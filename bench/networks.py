"""Whole networks, Convoy beside ONNX Runtime and OpenVINO, on the same files, interleaved in one run.

    python bench/networks.py [--rounds 7] [--repeats 10] [--threads 1 2] [--data DIR] [--output FILE]

Each round gives every contender one block of `repeats` runs, in an order that rotates, with a pause between blocks so that
no contender's idle threads run into another's block. What counts is the ratio of medians over the blocks of one run; the
machine is shared, so absolute times say little. Inputs are the same seeded values for all; outputs are compared first.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import openvino

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"
ZOO = ["mobilenet_v2", "resnet18"]
PAUSE_SECONDS = 0.05


def run_convoy(*arguments):
    done = subprocess.run([CONVOY, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"convoy {' '.join(map(str, arguments))} failed ({done.returncode}):\n{done.stderr}")
    return done.stdout


class Convoy:
    def __init__(self, model, name, value, threads):
        self.arguments = ["run", model, "--input", f"{name}={value}", "--threads", threads, "--json"]

    def output(self, folder):
        run_convoy(*self.arguments, "--output-dir", folder)
        return np.load(next(pathlib.Path(folder).glob("*.npy")))

    def block(self, repeats):
        # A process of its own each time; the first runs of it warm up, and the median of the block leaves them out.
        return [json.loads(run_convoy(*self.arguments, "--repeat", repeats + 2))["seconds"]]


class OnnxRuntime:
    def __init__(self, model, name, value, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.feed = {name: np.load(value)}

    def once(self):
        return self.session.run(None, self.feed)[0]

    def block(self, repeats):
        return timed(self.once, repeats)


class OpenVino:
    def __init__(self, model, name, value, threads):
        core = openvino.Core()
        network = core.read_model(str(model))
        value = np.load(value)
        network.reshape({name: list(value.shape)})
        # f32 as the others: this plugin would otherwise pick bf16 where the processor has it.
        self.compiled = core.compile_model(network, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                                                            "INFERENCE_PRECISION_HINT": "f32"})
        self.request = self.compiled.create_infer_request()
        self.feed = {name: value}

    def once(self):
        return self.request.infer(self.feed)[self.compiled.output(0)]

    def block(self, repeats):
        return timed(self.once, repeats)


def timed(once, repeats):
    for _ in range(2):
        once()
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        once()
        samples.append(time.perf_counter() - start)
    return samples


def spread(samples):
    first, _, third = statistics.quantiles(samples, n=4)
    return (third - first) / statistics.median(samples)


def measure(label, model, name, value, threads, options):
    contenders = {
        "convoy": Convoy(model, name, value, threads),
        "onnxruntime": OnnxRuntime(model, name, value, threads),
        "openvino": OpenVino(model, name, value, threads),
    }
    expected = contenders["onnxruntime"].once()
    with tempfile.TemporaryDirectory() as folder:
        error = float(np.abs(contenders["convoy"].output(folder) - expected).max() / np.abs(expected).max())
    if error > 1e-4:
        sys.exit(f"{label}: convoy's output differs from ONNX Runtime's by {error:.2e} of its largest magnitude")

    blocks = {key: [] for key in contenders}
    keys = list(contenders)
    for round_number in range(options.rounds):
        rotated = keys[round_number % len(keys):] + keys[:round_number % len(keys)]
        for key in rotated:
            time.sleep(PAUSE_SECONDS)
            blocks[key].append(statistics.median(contenders[key].block(options.repeats)))
    row = {"network": label, "threads": threads, "relative_error": error, "contenders": {}}
    for key in keys:
        ratios = [ours / theirs for ours, theirs in zip(blocks["convoy"], blocks[key])]
        row["contenders"][key] = {
            "median_ms": statistics.median(blocks[key]) * 1e3,
            "spread": spread(blocks[key]),
            "convoy_over_this": statistics.median(ratios),
        }
    cells = "  ".join(f"{key} {c['median_ms']:.2f} ms (x{1 / c['convoy_over_this']:.2f})" for key, c in row["contenders"].items())
    print(f"{label:16} {threads} thread(s): {cells}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CONVOY_DATA", ROOT / "../shared/data")))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/networks-{datetime.date.today()}.json")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        models = []
        trained = options.data / "models/squeezenet1.1-7/model.onnx"
        if trained.exists():
            models.append(("squeezenet1.1-7", trained))
        else:
            print("squeezenet1.1-7 skipped: no data")
        for name in ZOO:
            path = pathlib.Path(folder) / f"{name}.onnx"
            run_convoy("zoo", name, "-o", path)
            models.append((f"zoo:{name}", path))

        rows = []
        value = pathlib.Path(folder) / "input.npy"
        np.save(value, np.random.default_rng(7).standard_normal((1, 3, 224, 224), dtype=np.float32))
        for threads in options.threads:
            for label, model in models:
                name = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()[0].name
                rows.append(measure(label, model, name, value, threads, options))

    doctor = json.loads(run_convoy("doctor", "--json"))
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": "make bench",
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "device": doctor.get("processor", platform.processor()),
        "versions": {"onnxruntime": onnxruntime.__version__, "openvino": openvino.__version__, "python": platform.python_version()},
        "rounds": options.rounds,
        "repeats": options.repeats,
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"recorded in {options.output}")


if __name__ == "__main__":
    main()
