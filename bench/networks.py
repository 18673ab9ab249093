"""Whole networks, Convoy beside ONNX Runtime and OpenVINO, on the same files, interleaved in one run.

    python bench/networks.py [--rounds 7] [--seconds 0.5] [--threads 1 2] [--networks GLOB ...] [--data DIR] [--before BINARY] [--output FILE]
                             [--precision bf16|f16] [--tune SECONDS] [--forms f32 f16 qdq qoperator] [--batch 1 8]

The zoo's networks at the sizes they were published for, and the data's models with their trained weights, those that
`--networks` names. `--forms` makes them anew: in f16, or quantized by ONNX Runtime's tool (model_forms.py). `--before` is another build's command, timed in the same rounds. `--precision` lets Convoy and OpenVINO run in a narrower type
(ONNX Runtime stays in f32); `--tune` lets `convoy tune` choose within so many seconds a network, where it is the heuristic otherwise. Each round gives
every contender one block of runs that lasts about `seconds`, in an order that rotates, with a pause between blocks so that no
contender's idle threads run into another's block. What counts is the ratio of medians over the blocks of one run; the
machine is shared, so absolute times say little. Networks of over a second have three rounds at most. Inputs are the same seeded values for all; outputs are compared first.
"""
import argparse
import datetime
import fnmatch
import itertools
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
import openvino

from model_forms import FORMS, in_form, with_constant_weights
from possible_gain import DIMS, models

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"
ERRORS_ONLY = 3  # of ONNX Runtime's log
PAUSE_SECONDS = 0.05
MOST_REPEATS = 20
SLOW_SECONDS, SLOW_ROUNDS = 1, 3
MOST_ERROR = {"f32": 1e-4, "f16": 1e-2, "bf16": 0.1, "qdq": 0.1, "qoperator": 0.1}  # of the largest magnitude, by type or form


def run_convoy(*arguments, command=CONVOY):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"convoy {' '.join(map(str, arguments))} failed ({done.returncode}):\n{done.stderr}")
    return done.stdout


class Convoy:
    def __init__(self, model, name, value, threads, options, command=CONVOY):
        self.command = command
        given = ["--threads", threads]
        if options.precision != "f32":
            given += ["--precision", options.precision]
        if options.tune:
            run_convoy("tune", model, *given, "--budget", options.tune, command=command)
        self.arguments = ["run", model, "--input", f"{name}={value}", *given, "--json",
                          *([] if options.tune else ["--select", "heuristic"])]

    def output(self, folder):
        return np.load(json.loads(run_convoy(*self.arguments, "--output-dir", folder))["outputs"][0]["file"])

    def block(self, repeats):
        # A process of its own each time; the first runs of it warm up, and the median of the block leaves them out.
        return [json.loads(run_convoy(*self.arguments, "--repeat", repeats + warm_ups(repeats), command=self.command))["seconds"]]


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
    def __init__(self, model, name, value, threads, precision):
        core = openvino.Core()
        network = core.read_model(str(model))
        value = np.load(value)
        network.reshape({name: list(value.shape)})
        # f32 unless another is asked for: this plugin would otherwise pick bf16 where the processor has it.
        self.compiled = core.compile_model(network, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                                                            "INFERENCE_PRECISION_HINT": precision})
        self.request = self.compiled.create_infer_request()
        self.feed = {name: value}

    def once(self):
        return self.request.infer(self.feed)[self.compiled.output(0)]

    def block(self, repeats):
        return timed(self.once, repeats)


def input_of(model, batch, dims):
    """Name and shape of the one input: free sizes as given or published (the file's metadata says), a free batch as asked."""
    proto = onnx.load(str(model), load_external_data=False)
    value = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()[0]
    sizes = {entry.key.removeprefix("convoy.size."): int(entry.value) for entry in proto.metadata_props}
    shape = [dim if isinstance(dim, int) else sizes.get(dim, 1) for dim in value.shape]
    for dim in dims:
        at, size = dim.removeprefix(f"{value.name}:").split("=")
        shape[int(at)] = int(size)
    return value.name, shape if isinstance(value.shape[0], int) else [batch, *shape[1:]]


def matches(label, glob):
    return fnmatch.fnmatch(label, glob) or fnmatch.fnmatch(label.removeprefix("zoo:"), glob)


def warm_ups(repeats):
    return min(repeats, 2)


def timed(once, repeats):
    for _ in range(warm_ups(repeats)):
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


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def better(contenders):
    """How many times as fast Convoy is as the better of the two others."""
    return min(1 / contenders[key]["convoy_over_this"] for key in ("onnxruntime", "openvino") if key in contenders)


def contenders_of(form, model, name, value, threads, options):
    """By name, and remarks."""
    contenders, remarks = {"convoy": Convoy(model, name, value, threads, options), "onnxruntime": OnnxRuntime(model, name, value, threads)}, []
    try:
        contenders["openvino"] = OpenVino(model, name, value, threads, "f16" if form == "f16" else options.precision)
    except RuntimeError as error:  # a form that it can't read
        remarks.append(f"without OpenVINO: {str(error).strip().splitlines()[-1]}")
    if options.before:
        contenders["before"] = Convoy(model, name, value, threads, options, options.before)
    return contenders, remarks


def measure(label, form, model, name, value, options):
    """A row for each number of threads; all take turns, so that what more threads bring is a ratio of one run, too."""
    of_threads = {threads: contenders_of(form, model, name, value, threads, options) for threads in options.threads}
    contenders = {(threads, key): contender for threads, (these, _) in of_threads.items() for key, contender in these.items()}
    first = options.threads[0]
    expected = contenders[first, "onnxruntime"].once()
    once = min(timed(contenders[first, "onnxruntime"].once, 2))
    repeats = max(1, min(MOST_REPEATS, round(options.seconds / once)))
    with tempfile.TemporaryDirectory() as folder:
        error = float(np.abs(contenders[first, "convoy"].output(folder) - expected).max() / np.abs(expected).max())
    if error > MOST_ERROR[options.precision if form == "f32" else form]:
        sys.exit(f"{label}: convoy's output differs from ONNX Runtime's by {error:.2e} of its largest magnitude")

    blocks = {key: [] for key in contenders}
    keys = list(contenders)
    for round_number in range(min(options.rounds, SLOW_ROUNDS) if once > SLOW_SECONDS else options.rounds):
        rotated = keys[round_number % len(keys):] + keys[:round_number % len(keys)]
        for key in rotated:
            time.sleep(PAUSE_SECONDS)
            blocks[key].append(statistics.median(contenders[key].block(repeats)))

    def times(key, over):
        return statistics.median(mine / theirs for mine, theirs in zip(blocks[key], blocks[over]))

    rows = []
    for threads, (these, remarks) in of_threads.items():
        row = {"network": label, "form": form, "threads": threads, "shape": list(np.load(value, mmap_mode="r").shape),
               "repeats": repeats, "relative_error": error, "remarks": remarks, "contenders": {}}
        for key in these:
            row["contenders"][key] = {"median_ms": statistics.median(blocks[threads, key]) * 1e3,
                                      "fastest_ms": min(blocks[threads, key]) * 1e3,  # says more where others disturb
                                      "spread": spread(blocks[threads, key]),
                                      "convoy_over_this": times((threads, "convoy"), (threads, key)),
                                      "faster_than_with_first_threads": times((first, key), (threads, key))}
        cells = "  ".join(f"{key} {c['median_ms']:.2f} ms (x{1 / c['convoy_over_this']:.2f})" for key, c in row["contenders"].items())
        faster = f"  x{times((first, 'convoy'), (threads, 'convoy')):.2f} of {first}" if threads != first else ""
        print(f"{label:22} {form:9} {'x'.join(map(str, row['shape'])):13} {threads} thread(s): {cells}{faster}", flush=True)
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--networks", nargs="+", metavar="GLOB",
                        help="names of the zoo and of the data's models; all in f32, and the zoo and squeezenet1.1-7 in other forms, when left out")
    parser.add_argument("--before", help="another build's convoy")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--forms", nargs="+", default=["f32"], choices=FORMS)
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--tune", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CONVOY_DATA", ROOT / "../shared/data")))
    parser.add_argument("--output", type=pathlib.Path, default=None)
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(ERRORS_ONLY)
    kind = "" if options.precision == "f32" else f"{options.precision}-"
    output = options.output or ROOT / f"bench/results/networks-{kind}{datetime.date.today()}.json"
    scratch = tempfile.TemporaryDirectory()
    if options.tune:
        os.environ["CONVOY_DB"] = f"{scratch.name}/tuning.db"

    networks = models(options.data)
    globs = options.networks or (["*"] if options.forms == ["f32"] else ["zoo:*", "squeezenet1.1-7"])
    for glob in globs:
        if not any(matches(label, glob) for label in networks):
            print(f"{glob} skipped: no data")
    rows = []
    for label, model in networks.items():
        if not any(matches(label, glob) for glob in globs):
            continue
        with tempfile.TemporaryDirectory() as folder:
            if label.startswith("zoo:"):
                model = pathlib.Path(folder) / "model.onnx"
                run_convoy("zoo", label.removeprefix("zoo:"), "-o", model)
            model = with_constant_weights(model, folder)
            for batch, form in itertools.product(options.batch, options.forms):
                name, shape = input_of(model, batch, DIMS.get(label, []))
                if shape[0] != batch:
                    print(f"{label} at batch {batch} skipped: the model's is fixed")
                    continue
                value = pathlib.Path(folder) / "input.npy"
                np.save(value, np.random.default_rng(7).standard_normal(shape, dtype=np.float32))
                file = in_form(model, form, name, shape, folder)
                rows += measure(label, form, file, name, value, options)
    means = []
    for batch, form, threads in itertools.product(options.batch, options.forms, options.threads):
        here = [row["contenders"] for row in rows if (row["shape"][0], row["form"], row["threads"]) == (batch, form, threads)]
        if not here:
            continue
        mean = {key: geometric_mean([1 / row[key]["convoy_over_this"] for row in here if key in row])
                for key in dict.fromkeys(key for row in here for key in row) if key != "convoy"}
        mean["the better of both"] = geometric_mean([better(row) for row in here])
        means.append({"batch": batch, "form": form, "threads": threads, "networks": len(here), "speedup_geometric_mean": mean,
                      "below_1": sum(better(row) < 1 for row in here)})
        print(f"geometric mean over {len(here)} networks, {form}, batch {batch}, {threads} thread(s): " +
              "  ".join(f"{key} x{value:.2f}" for key, value in mean.items()))

    doctor = json.loads(run_convoy("doctor", "--json"))
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["python bench/networks.py", *sys.argv[1:]]),
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "device": doctor.get("processor", platform.processor()),
        "versions": {"onnxruntime": onnxruntime.__version__, "openvino": openvino.__version__, "python": platform.python_version()},
        "rounds": options.rounds,
        "load_average": os.getloadavg()[0],
        "means": means,
        "rows": rows,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"recorded in {output}")


if __name__ == "__main__":
    main()
