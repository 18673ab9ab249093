"""A trained model quantized by ONNX Runtime's tool, as tests/quantized does it.

    quantized_model.py MODEL:FORM FILE      $CONVOY_DATA is the shared data
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/quantized"))


def write(name, path):
    """An input of the model's own."""
    import onnx
    import quantized_test
    model, form = name.split(":")
    prepared, feeds = quantized_test.prepared(model, path.parent)
    onnx.save(quantized_test.quantized(prepared, feeds, form, path.parent), path)
    return feeds[0]


if __name__ == "__main__":
    write(sys.argv[1], pathlib.Path(sys.argv[2]))
