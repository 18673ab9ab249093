"""Keras' image networks as tf2onnx exports them, and the same quantized by ONNX Runtime's tool, for bench/exports.py.

    pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0 'onnx<1.20' onnxruntime
    python bench/keras_models.py FOLDER
    python bench/exports.py FOLDER

Writes MODEL_tf2onnx.onnx and MODEL_tf2onnx.npz, an input. The weights are random: Keras' trained ones are not in its package. Of some networks
tf2onnx leaves Transposes around every node that computes channels last: its optimizer fails on MobileNetV3's scalars. MODEL-s8 has 8-bit
activations and weights by channel (QDQ), MODEL-u8 the operators of 8 bits (QLinearConv, ...), MODEL-u16 16-bit activations, as NPUs take them.
"""
import os
import pathlib
import shutil
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import tensorflow  # noqa: E402
import tf2onnx  # noqa: E402
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static  # noqa: E402

SIZES = {"DenseNet121": 224, "EfficientNetB0": 224, "EfficientNetV2B0": 224, "InceptionResNetV2": 299, "InceptionV3": 299, "MobileNet": 224,
         "MobileNetV2": 224, "MobileNetV3Large": 224, "MobileNetV3Small": 224, "NASNetMobile": 224, "ResNet50": 224, "ResNet50V2": 224,
         "Xception": 299}
QUANTIZED = ("EfficientNetB0", "MobileNetV2", "MobileNetV3Small")
FORMS = {"s8": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True},
         "u8": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8},
         "u16": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt16, "weight_type": QuantType.QInt8, "per_channel": True,
                 "extra_options": {"UseQDQContribOps": True}}}


class OnePicture(CalibrationDataReader):
    def __init__(self, feed):
        self.feeds = iter([feed])

    def get_next(self):
        return next(self.feeds, None)


def exported(name, size, path):
    keras.utils.set_random_seed(1)
    network = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3))
    random = np.random.default_rng(0)
    for variable in network.variables:  # so that no normalization does nothing
        if "moving_mean" in variable.path or "beta" in variable.path:
            variable.assign(random.normal(0, 0.1, variable.shape))
        if "moving_variance" in variable.path or "gamma" in variable.path:
            variable.assign(random.uniform(0.5, 1.5, variable.shape))
    signature = [tensorflow.TensorSpec([None, size, size, 3], tensorflow.float32, name="x")]
    function = tensorflow.function(lambda x: network(x, training=False), input_signature=signature)
    model, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=15)
    read = {value for node in model.graph.node for value in node.input}
    for value in [value for value in model.graph.input if value.name not in read]:  # constants, which it captures as well
        model.graph.input.remove(value)
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), x=random.uniform(0, 255, (1, size, size, 3)).astype(np.float32))
    keras.backend.clear_session()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES.items():
        path = folder / f"{name}_tf2onnx.onnx"
        exported(name, size, path)
        print(path, flush=True)
        for form, options in FORMS.items() if name in QUANTIZED else ():
            quantized = folder / f"{name}-{form}_tf2onnx.onnx"
            with tempfile.TemporaryDirectory() as scratch:
                inferred = pathlib.Path(scratch) / "inferred.onnx"
                onnx.save(onnx.shape_inference.infer_shapes(onnx.load(path)), inferred)
                quantize_static(inferred, quantized, OnePicture(dict(np.load(path.with_suffix(".npz")))), **options)
            shutil.copy(path.with_suffix(".npz"), quantized.with_suffix(".npz"))
            print(quantized, flush=True)


if __name__ == "__main__":
    main()
