"""Operators of quantized and 16-bit networks: each as a share of a copy's bandwidth, and what two programs take for whole networks.

    python bench/operators.py [--before PROGRAM] [--rounds 7] [--seconds 0.5] [--threads 1 2] [--output FILE]

The operators are those of build/tests/ops_bench. The networks are the zoo's ResNet-50 in integers (QDQ, weights by channel, made by
ONNX Runtime's tool) and squeezenet 1.1 in f16. With --before, another build of the command, both programs run in turns; what
counts is the ratio of their medians. Each block of runs is a process of its own.
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

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, arguments))} failed ({done.returncode}):\n{done.stderr}")
    return done.stdout


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def int8_resnet50(folder):
    path = folder / "resnet50.onnx"
    run(CONVOY, "zoo", "resnet50", "-o", path)
    quant_pre_process(str(path), str(folder / "prepared.onnx"), skip_symbolic_shape=True)
    value = onnx.load(path, load_external_data=False).graph.input[0]
    random = np.random.default_rng(3)
    shape = (1, 3, 224, 224)
    feeds = [{value.name: random.standard_normal(shape, dtype=np.float32)} for _ in range(2)]
    quantized = folder / "resnet50-int8.onnx"
    quantization.quantize_static(folder / "prepared.onnx", quantized, Calibration(feeds), per_channel=True,
                                 quant_format=quantization.QuantFormat.QDQ, activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8)
    return quantized, value.name, random.standard_normal(shape, dtype=np.float32)


def f16_squeezenet(folder, data):
    model = onnx.load(data / "models/squeezenet1.1-7/model.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, folder / "squeezenet-f16.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    name = next(value.name for value in model.graph.input if value.name not in weights)
    return folder / "squeezenet-f16.onnx", name, np.random.default_rng(7).standard_normal((1, 3, 224, 224)).astype(np.float16)


def step_seconds(document, operator):
    return sum(step["seconds"] for step in document["steps"] if step["implementation"].startswith(operator))


def measure(label, operator, model, programs, threads, options):
    path, name, value = model
    np.save(path.with_suffix(".npy"), value)
    arguments = ["run", path, "--input", f"{name}={path.with_suffix('.npy')}", "--threads", threads, "--json", "--select", "heuristic"]
    blocks = {key: [] for key in programs}
    shares = {key: [] for key in programs}
    for round_number in range(options.rounds):
        keys = list(programs)[:: 1 if round_number % 2 == 0 else -1]
        for key in keys:
            document = json.loads(run(programs[key], *arguments, "--repeat", options.repeats))
            blocks[key].append(document["seconds"])
            shares[key].append(step_seconds(document, operator))
    row = {"network": label, "threads": threads}
    for key in programs:
        first, _, third = statistics.quantiles(blocks[key], n=4)
        row[key] = {"median_ms": statistics.median(blocks[key]) * 1e3, "spread": (third - first) / statistics.median(blocks[key]),
                    f"{operator}_ms": statistics.median(shares[key]) * 1e3}
    if "before" in programs:
        row["before_over_after"] = statistics.median(b / a for b, a in zip(blocks["before"], blocks["after"]))
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=pathlib.Path, help="another build of the command, to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=10, help="runs of a network in a block")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each operator and size")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CONVOY_DATA", ROOT / "../shared/data")))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/operators-{datetime.date.today()}.json")
    options = parser.parse_args()

    operators = []
    for line in run(ROOT / "build/tests/ops_bench", options.seconds).splitlines():
        operators.append(json.loads(line))
        print(line, flush=True)
    programs = ({"before": options.before} if options.before else {}) | {"after": CONVOY}
    networks = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = [("resnet50 int8", "ops.qlinear_add", int8_resnet50(folder)),
                  ("squeezenet1.1 f16", "ops.max_pool", f16_squeezenet(folder, options.data))]
        for label, operator, model in models:
            for threads in options.threads:
                networks.append(measure(label, operator, model, programs, threads, options))
    doctor = json.loads(run(CONVOY, "doctor", "--json"))
    options.output.write_text(json.dumps({
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["python bench/operators.py", *("PROGRAM" if word == str(options.before) else word for word in sys.argv[1:])]),
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "device": doctor.get("processor", platform.processor()),
        "load_average": os.getloadavg()[0],
        "operators": operators,
        "networks": networks,
    }, indent=1) + "\n")
    print(options.output)


if __name__ == "__main__":
    main()
