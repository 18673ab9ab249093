"""Other packages that bring oneDNN, protobuf or fmt of their own into the process, imported before Convoy and after it: both compute
what they do alone."""
import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

# What each package computes with what it brings: a function that gives bytes.
USES = {
    "torch": """
        import torch
        torch.set_num_threads(1)
        def use():  # its oneDNN, and fmt in what it prints
            with torch.no_grad():
                y = torch.nn.functional.conv2d(torch.ones(1, 16, 14, 14), torch.arange(32 * 16 * 9).reshape(32, 16, 3, 3) / 512, padding=1)
            return y.numpy().tobytes() + str(torch.__config__.show()).encode()
    """,
    "openvino": """
        import numpy, openvino, openvino.opset13 as ops
        def use():  # its oneDNN
            x = ops.parameter([1, 16, 14, 14], numpy.float32)
            w = ops.constant((numpy.arange(32 * 16 * 9).reshape(32, 16, 3, 3) / 512).astype(numpy.float32))
            model = openvino.Model([ops.relu(ops.convolution(x, w, [1, 1], [1, 1], [1, 1], [1, 1]))], [x])
            compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1})
            return compiled([numpy.ones((1, 16, 14, 14), numpy.float32)])[0].tobytes()
    """,
    "onnxruntime": """
        import numpy, onnxruntime
        def use():  # its protobuf
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
            return session.run(None, {"x": numpy.ones((1, 16, 14, 14), numpy.float32)})[0].tobytes()
    """,
    "onnx": """
        import onnx
        def use():  # its protobuf, in Python and in C++
            model = onnx.load_model_from_string(MODEL)
            onnx.checker.check_model(model)
            return onnx.shape_inference.infer_shapes(model).SerializeToString(deterministic=True)
    """,
}
CONVOY = """
    import numpy, convoy
    def convoy_use():  # oneDNN by its name, protobuf, and fmt in the text of an error
        x = numpy.ones((1, 16, 14, 14), numpy.float32)
        w = (numpy.arange(32 * 16 * 9).reshape(32, 16, 3, 3) / 512).astype(numpy.float32)
        problem = convoy.Problem("fprop:x=f32,1x16x14x14:w=f32,32x16x3x3:pad=1x1")
        names = [each.name for each in problem.candidates(threads=1) if (each.name or "").startswith("onednn.")]
        assert names
        results = [problem.plan(name, threads=1)(x, w).tobytes() for name in names]
        results.append(convoy.Network(MODEL, threads=1, database=False).run({"x": x})["y"].tobytes())
        try:
            convoy.Network(MODEL[:-7])
        except convoy.ConvoyError as error:
            results.append(str(error).encode())
        return str(names).encode() + b"".join(results)
"""
PROGRAM = """
import hashlib, sys
MODEL = bytes.fromhex(sys.argv[1])
{imports}
shown = dict()
for _ in range(2):  # in turns
    for name, function in dict({calls}).items():
        digest = hashlib.sha256(function()).hexdigest()
        assert shown.setdefault(name, digest) == digest, name
for item in shown.items():
    print(*item)
"""


@pytest.fixture(scope="module")
def model():
    """A convolution and an activation, as ONNX."""
    onnx = pytest.importorskip("onnx", reason="skipped: onnx is not installed, which makes the model")
    numpy = pytest.importorskip("numpy")
    w = (numpy.arange(32 * 16 * 9).reshape(32, 16, 3, 3) / 512).astype(numpy.float32)
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), onnx.helper.make_node("Relu", ["c"], ["y"])]
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, channels, 14, 14]) for name, channels in (("x", 16), ("y", 32))]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], [onnx.numpy_helper.from_array(w, "w")])
    opset = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString().hex()


def results(model, *packages, shared=False):
    """{package: digest of what it computes}, imported in this order in a process of their own. `shared`: with what they export
    seen by all libraries that are loaded afterwards."""
    imports = ["import os; sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)"] if shared else []
    for name in packages:
        code = textwrap.dedent(CONVOY if name == "convoy" else USES[name])
        imports.append(code if name == "convoy" else code.replace("def use()", f"def {name}_use()"))
    program = PROGRAM.format(imports="\n".join(imports), calls=", ".join(f"{name}={name}_use" for name in packages))
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run([sys.executable, "-c", program, model], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, f"{packages}: {done.returncode}\n{done.stdout}{done.stderr[-2000:]}"
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def alone(model):
    return results(model, "convoy")["convoy"]


@pytest.mark.parametrize("package", USES)
def test_beside_another_package(model, alone, package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"skipped: {package} is not installed")
    expected = {"convoy": alone, package: results(model, package)[package]}
    assert results(model, package, "convoy") == expected
    assert results(model, "convoy", package) == expected
    assert results(model, package, "convoy", shared=True) == expected
