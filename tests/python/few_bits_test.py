"""Arrays of ml_dtypes' types of few bits into a network and out of it."""
import numpy
import pytest

import convoy

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
TensorProto, helper = onnx.TensorProto, onnx.helper


@pytest.mark.parametrize("kind, values", [("int4", [-8, -3, 0, 2, 7]), ("uint4", [0, 3, 8, 15, 1]), ("int2", [-2, -1, 0, 1, 1]),
                                          ("uint2", [0, 1, 2, 3, 3])])
def test_dequantized_and_quantized_again(tmp_path, kind, values):
    number = getattr(TensorProto, kind.upper())
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["q", "scale"], ["y"]),
         helper.make_node("QuantizeLinear", ["y", "scale"], ["again"], output_dtype=number)],
        "g", [helper.make_tensor_value_info("q", number, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5]), helper.make_tensor_value_info("again", number, [5])],
        [helper.make_tensor("scale", TensorProto.FLOAT, [], [0.5])])
    path = tmp_path / "few_bits.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13), path)
    session = convoy.InferenceSession(str(path))
    assert session.get_inputs()[0].type == f"tensor({kind})"
    given = numpy.array(values, getattr(ml_dtypes, kind))
    real, again = session.run(None, {"q": given})
    numpy.testing.assert_array_equal(real, numpy.array(values, numpy.float32) / 2)
    assert again.dtype == given.dtype
    numpy.testing.assert_array_equal(again.astype(numpy.int32), values)
