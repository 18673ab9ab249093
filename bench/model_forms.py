"""The same network in the forms that people run it in: f32, f16, and quantized by ONNX Runtime's tool, as QDQ or QOperator.

A quantized model has 8-bit weights a channel and unsigned activations, calibrated on seeded inputs of the size that it is run at.
On a processor without VNNI weights have 7 bits, as ONNX Runtime's documentation advises there: its sums of two products saturate.
"""
import pathlib
import re

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers import float16

FORMS = ("f32", "f16", "qdq", "qoperator")
CALIBRATION_INPUTS = 4
HAS_VNNI = re.search(r"\bavx(512)?_vnni\b", pathlib.Path("/proc/cpuinfo").read_text()) is not None
QUANTIZER_OPSET = 13  # the first with a scale for each channel


class _Calibration(quantization.CalibrationDataReader):
    def __init__(self, name, shape):
        random = np.random.default_rng(11)
        self.feeds = iter([{name: random.standard_normal(shape, dtype=np.float32)} for _ in range(CALIBRATION_INPUTS)])

    def get_next(self):
        return next(self.feeds, None)


def with_constant_weights(path, folder):
    """The model, in a file of its own where weights are inputs, too: ONNX Runtime folds only constants."""
    model = onnx.load(str(path))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    if len(inputs) == len(model.graph.input):
        return path
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # the first that allows it
    target = pathlib.Path(folder) / "constant-weights.onnx"
    onnx.save(model, str(target))
    return target


def _with_fixed_input(path, name, shape, target):
    """As the quantizer likes it: sizes are known, the opset is not too old."""
    model = onnx.load(str(path))
    for value in model.graph.input:
        if value.name == name:
            for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
                dim.dim_value = size
    if model.opset_import[0].version < QUANTIZER_OPSET:
        model = onnx.version_converter.convert_version(model, QUANTIZER_OPSET)
    onnx.save(model, str(target))
    return target


def in_form(path, form, name, shape, folder):
    """The file of the model at `path` in this form; `name` and `shape` are those of its input."""
    folder = pathlib.Path(folder)
    if form == "f32":
        return path
    target = folder / f"{pathlib.Path(path).stem}-{form}.onnx"
    if form == "f16":
        onnx.save(float16.convert_float_to_float16(onnx.load(str(path)), keep_io_types=True), str(target))
        return target
    fixed = _with_fixed_input(path, name, shape, folder / "fixed.onnx")
    quant_pre_process(str(fixed), str(folder / "prepared.onnx"), skip_symbolic_shape=True)
    nodes = onnx.load(str(folder / "prepared.onnx"), load_external_data=False).graph.node
    convolved = {node.output[0] for node in nodes if node.op_type == "Conv"}
    if any(node.op_type == "BatchNormalization" and node.input[0] in convolved for node in nodes):
        raise RuntimeError(f"ONNX Runtime {onnxruntime.__version__} left a BatchNormalization behind a Conv of {path}: quantized, "
                           "it would be another network")
    formats = quantization.QuantFormat
    quantization.quantize_static(
        str(folder / "prepared.onnx"), str(target), _Calibration(name, shape), per_channel=True,
        quant_format=formats.QOperator if form == "qoperator" else formats.QDQ,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8, reduce_range=not HAS_VNNI)
    return target
