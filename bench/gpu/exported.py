"""Exported models without their weights, small enough to carry along, and with others in their place.

    python bench/gpu/exported.py FOLDER OUT                   NAME.onnx of FOLDER, as OUT/NAME.onnx without weights
    python bench/gpu/exported.py --restored FILE OUT          one of those with weights again

Of each float initializer of over 256 elements the least, the greatest, the mean and the deviation are left, as its doc_string; restored() makes
random numbers of them, the same each time.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

MOST_ELEMENTS = 256
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


def elided(path):
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type not in FLOATS or np.prod(tensor.dims) <= MOST_ELEMENTS:
            continue
        values = numpy_helper.to_array(tensor)
        tensor.doc_string = json.dumps([float(of(values)) for of in (np.min, np.max, np.mean, np.std)])
        for field in ("raw_data", "float_data", "int32_data", "double_data"):
            tensor.ClearField(field)
    return model


def restored(path):
    model = onnx.load(path)
    random = np.random.default_rng(11)
    for tensor in model.graph.initializer:
        if not tensor.doc_string.startswith("["):
            continue
        least, greatest, mean, deviation = json.loads(tensor.doc_string)
        values = np.clip(mean + deviation * random.standard_normal(tuple(tensor.dims), np.float32), least, greatest)
        tensor.raw_data = values.astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).tobytes()
        tensor.ClearField("doc_string")
    return model


def main():
    if sys.argv[1] == "--restored":
        onnx.save(restored(sys.argv[2]), sys.argv[3])
        return
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
        onnx.save(elided(path), out / path.name)


if __name__ == "__main__":
    main()
