"""Trained models, quantized with ONNX Runtime's tool, run in integers and agree with ONNX Runtime.

    quantized_test.py [MODEL[:FORM] ...]     all without arguments; $CONVOY is the program, $CONVOY_DATA the shared data

Forms: qoperator (QLinearConv), qdq (QuantizeLinear/DequantizeLinear pairs), qdq-channel (the same with weights quantized
by channel) and dynamic (ConvInteger). Each static model is compared twice:
- by layer: every quantized tensor between the layers is an input, fed with what ONNX Runtime computes there, so that
  rounding differences of one layer don't reach the next: at most one step of the quantizer anywhere;
- as a whole, against what ONNX Runtime gives.
In a dynamic model a tiny difference can move a scale, or a value to the next integer, so it is compared as a whole.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
DATA = pathlib.Path(os.environ.get("CONVOY_DATA", ROOT.parent / "shared/data")) / "models"

# Whole static models: steps of the output's quantizer. Each layer may differ by one step, so several layers by more.
WHOLE_STEPS = {"mnist-8": 1, "squeezenet1.1-7": 3, "super-resolution-10": 1}
# Whole dynamic models: of the largest output.
DYNAMIC = {"mnist-8": 1e-3, "squeezenet1.1-7": 1e-2}
CASES = [f"mnist-8:{form}" for form in ("qoperator", "qdq", "dynamic")]
CASES += [f"squeezenet1.1-7:{form}" for form in ("qoperator", "qdq", "qdq-channel", "dynamic")]
CASES += ["super-resolution-10:qdq-channel"]
MICROSOFT = "com.microsoft"


def convoy(*arguments):
    run = subprocess.run([CONVOY, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode != 0:
        raise AssertionError(f"convoy {' '.join(map(str, arguments))[:300]}: exit code {run.returncode}\n{run.stderr}")
    return run.stdout


def onnxruntime_session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_convoy(model, feeds, folder, name):
    """Outputs by name, and the steps."""
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    arguments = []
    for index, (key, value) in enumerate(feeds.items()):
        np.save(folder / f"{name}-{index}.npy", value)
        arguments += ["--input", f"{key}={folder / f'{name}-{index}.npy'}"]
    out = folder / f"{name}-out"
    document = json.loads(convoy("run", path, *arguments, "--output-dir", out, "--threads", 2, "--json"))
    outputs = {}
    for output in document["outputs"]:
        outputs[output["name"]] = np.load(output["file"])
    return outputs, document["steps"]


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def inputs_of(model):
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def prepared(name, folder):
    """The trained model in opset 13, its weights no inputs, as the quantizer likes it; and its test inputs."""
    model = onnx.load(DATA / name / "model.onnx")
    feeds = []
    for data in sorted((DATA / name).glob("test_data_set_*")):
        feed = {}
        for index, value in enumerate(inputs_of(model)):
            tensor = onnx.TensorProto()
            tensor.ParseFromString((data / f"input_{index}.pb").read_bytes())
            feed[value.name] = numpy_helper.to_array(tensor)
        feeds.append(feed)
    inputs = inputs_of(model)
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, folder / "opset13.onnx")
    quant_pre_process(str(folder / "opset13.onnx"), str(folder / "prepared.onnx"), skip_symbolic_shape=True)
    return folder / "prepared.onnx", feeds


def quantized(path, feeds, form, folder):
    target = folder / f"{form}.onnx"
    if form == "dynamic":
        quantization.quantize_dynamic(path, target, weight_type=quantization.QuantType.QUInt8)
    else:
        formats = quantization.QuantFormat
        by_channel = form == "qdq-channel"
        quantization.quantize_static(
            path, target, Calibration(feeds),
            quant_format=formats.QOperator if form == "qoperator" else formats.QDQ, per_channel=by_channel,
            activation_type=quantization.QuantType.QInt8 if by_channel else quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            # 7-bit weights: ONNX Runtime's kernels for processors without VNNI saturate 16-bit sums of 8-bit ones.
            reduce_range=True)
    return onnx.load(target)


def quantizers(model):
    """Scale of each quantized tensor that a node of the model makes."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    place = {"QuantizeLinear": 1, "QLinearConv": 6, "QLinearMatMul": 6, "QLinearAdd": 6, "QLinearMul": 6, "QGemm": 7,
             "QLinearConcat": 0, "QLinearAveragePool": 3, "QLinearGlobalAveragePool": 3, "QLinearLeakyRelu": 3,
             "QLinearSigmoid": 3, "QLinearSoftmax": 3}
    scales = {}
    for node in model.graph.node:
        if node.op_type in place and len(node.input) > place[node.op_type]:
            scales[node.output[0]] = float(constants[node.input[place[node.op_type]]].reshape(-1)[0])
    return scales


def by_layer(model, feeds):
    """The model cut at its quantized tensors: each is an input and, under a name of its own, an output."""
    names = list(quantizers(model))
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    outputs = {output.name for output in whole.graph.output}
    types = {"u8": onnx.TensorProto.UINT8, "s8": onnx.TensorProto.INT8}
    for name in names:
        if name not in outputs:
            whole.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    session = onnxruntime_session(whole)
    values = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    layers = onnx.ModelProto()
    layers.CopyFrom(model)
    for node in layers.graph.node:
        for index, name in enumerate(node.output):
            if name in names:
                node.output[index] = f"made_{name}"
    read = {name for node in layers.graph.node for name in node.input}
    for name in names:
        kind = types["u8" if values[name].dtype == np.uint8 else "s8"]
        if name in read:
            layers.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, values[name].shape))
        layers.graph.output.append(onnx.helper.make_tensor_value_info(f"made_{name}", kind, values[name].shape))
    wanted = {f"made_{name}": values[name] for name in names}
    for output in model.graph.output:
        wanted[output.name] = values[output.name]
    kept = [output for output in layers.graph.output if not (output.name in names)]
    del layers.graph.output[:]
    layers.graph.output.extend(kept)
    return layers, feeds | {name: values[name] for name in names if name in read}, wanted, names


def convolutions(model):
    return sum(node.op_type in ("Conv", "QLinearConv", "ConvInteger") for node in model.graph.node)


def check_steps(label, model, steps):
    """Every convolution of the model runs on an integer engine, not on the oracle."""
    ran = [step for step in steps if step["kind"] == "conv"]
    assert len(ran) >= convolutions(model), f"{label}: {len(ran)} convolutions ran of {convolutions(model)}"
    for step in ran:
        fields = dict(field.split("=", 1) for field in step["problem"].split(":")[1:])
        types = fields["x"].split(",")[0], fields["w"].split(",")[0]
        assert set(types) <= {"u8", "s8"}, f"{label}: {step['nodes']} runs in {types}"
        assert not step["implementation"].startswith("reference"), f"{label}: {step['nodes']} runs on the oracle"
    return len(ran), sum(step["kind"] == "op" for step in steps)


def test(name, form, folder):
    path, feeds = prepared(name, folder)
    model = quantized(path, feeds, form, folder)
    label, start = f"{name} {form}", time.monotonic()
    feed = feeds[0]
    wanted = onnxruntime_session(model).run(None, feed)[0]
    got, steps = run_convoy(model, feed, folder, "whole")
    got = next(iter(got.values()))
    ran, others = check_steps(label, model, steps)
    assert got.shape == wanted.shape, f"{label}: shape {got.shape}, ONNX Runtime's is {wanted.shape}"
    error = np.abs(got.astype(np.float64) - wanted).max()
    if form == "dynamic":
        largest = np.abs(wanted).max()
        print(f"{label:34} {ran} integer convolutions, {others} other steps; whole: {error / largest:.1e} of the largest "
              f"value; {time.monotonic() - start:.1f} s", flush=True)
        assert error <= DYNAMIC[name] * largest, f"{label}: error {error}, the largest value is {largest}"
        return
    scales = quantizers(model)
    # The quantizer behind the output: of the tensor that its DequantizeLinear reads.
    last = next(node for node in model.graph.node if model.graph.output[0].name in node.output)
    whole = error / scale_behind(model, last, scales)
    layers, layer_feeds, layer_wanted, names = by_layer(model, feed)
    layer_got, layer_steps = run_convoy(layers, layer_feeds, folder, "layers")
    check_steps(f"{label} by layer", model, layer_steps)
    worst, different, count = ("", 0), 0, 0
    for key, value in layer_got.items():
        scale = 1 if value.dtype != np.float32 else scale_behind(model, last, scales)
        steps_off = np.abs(value.astype(np.float64) - layer_wanted[key]) / scale
        different, count = different + np.count_nonzero(steps_off > 1e-3), count + value.size
        if steps_off.max() > worst[1]:
            worst = (key, steps_off.max())
    print(f"{label:34} {ran} integer convolutions, {others} other steps; by layer: {worst[1]:.3g} steps at most, "
          f"{100 * different / count:.2g}% of {count} values differ; whole: {whole:.3g} steps; "
          f"{time.monotonic() - start:.1f} s", flush=True)
    assert worst[1] <= 1 + 1e-3, f"{label}: {worst[0]} is {worst[1]} steps off"
    assert whole <= WHOLE_STEPS[name] + 1e-3, f"{label}: the output is {whole} steps off"


def scale_behind(model, node, scales):
    """The quantizer of the tensor that the last DequantizeLinear reads, through what only moves values; for an output
    that is not quantized, the scale of the layer's input."""
    makers = {output: maker for maker in model.graph.node for output in maker.output}
    while True:
        source = next((name for name in node.input if name in scales), None)
        if source is not None:
            return scales[source]
        node = makers[node.input[0]]


def main():
    if not DATA.is_dir():
        print(f"skipped: no data ({DATA})")
        sys.exit(77)
    failures = []
    cases = sys.argv[1:] or CASES
    for case in cases:
        name, _, form = case.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(name, form, pathlib.Path(folder))
            except Exception as error:  # the other cases' results are wanted too
                failures.append(case)
                print(f"{case}: FAILED: {error}", flush=True)
    if failures:
        sys.exit(f"{len(failures)} of {len(cases)} failed: {', '.join(failures)}")
    print(f"{len(cases)} quantized models agree with ONNX Runtime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
