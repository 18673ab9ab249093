"""Networks on a GPU: on a driver that needs none (device/cuda/testing), and, where there is one, with PyTorch's tensors on it."""
import os
import sys

import numpy as np
import pytest
from conftest import run_script

import convoy

MODEL = "zoo:squeezenet1_1"
SIZES = (2, 3, 64, 48)

# What a process does whose driver is the stand-in, in memory that it says is a GPU's. Compiled for this processor are operators
# only, so the network is made of those.
FAKE = '''
import ctypes, os
import numpy as np
import convoy

driver = ctypes.CDLL(os.environ["CONVOY_CUDA_DRIVER"])


class There:
    """An array in the stand-in's memory, by CUDA's array interface."""

    def __init__(self, values, stream=None, read_only=False):
        context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        driver.cuCtxSetCurrent(context)
        assert driver.cuMemAlloc_v2(ctypes.byref(pointer), values.nbytes) == 0
        self.array = np.frombuffer((ctypes.c_char * values.nbytes).from_address(pointer.value), values.dtype).reshape(values.shape)
        self.array[...] = values
        self.__cuda_array_interface__ = {"shape": values.shape, "typestr": values.dtype.str, "data": (pointer.value, read_only),
                                         "version": 3, "strides": None, "stream": stream}


def error(call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except convoy.ConvoyError as raised:
        return f"{type(raised).__name__}: {raised}"
    return "none"


x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 12
network = convoy.Network(os.environ["MODEL"], device="cuda", database=False, how="uniform:nchw")
expected = 2 * np.maximum(x, 0) + 1
'''


@pytest.fixture
def on_stand_in(tmp_path):
    """Runs lines behind FAKE in a process of its own; what they printed."""
    onnx = pytest.importorskip("onnx")
    folder = os.environ.get("CONVOY_FAKES")
    if folder is None:
        pytest.skip("CONVOY_FAKES, a build's folder of stand-ins for NVIDIA's libraries, is not set")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, 4]) for name in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Mul", ["a", "two"], ["b"]), helper.make_node("Add", ["b", "one"], ["y"])]
    constants = [numpy_helper.from_array(np.full((1,), number, np.float32), name) for name, number in (("two", 2), ("one", 1))]
    graph = helper.make_graph(nodes, "small", value[:1], value[1:], constants)
    model = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    settings = {"CONVOY_CUDA_DRIVER": f"{folder}/fake_driver/libcuda.so.1", "CONVOY_NVRTC": f"{folder}/fake_nvrtc/libnvrtc.so.13",
                "CONVOY_KERNEL_CACHE": "off", "CONVOY_CUDNN": "off", "CONVOY_CUBLASLT": "off", "CONVOY_NVML": "off",
                "FAKE_MEMORY": str(1 << 26), "MODEL": str(model)}
    begin = f"import os, sys\nos.environ.update({settings!r})\nsys.path[:0] = {sys.path!r}\n"

    def run(lines):
        out, err, code = run_script(begin + FAKE + lines, timeout=300)
        assert code == 0, err
        return out

    return run


def test_numpys_arrays_go_through_pinned_memory(on_stand_in):
    out = on_stand_in('''
for i in range(3):
    assert (network.run({"x": x})["y"] == expected).all()
session = network.prepare({"x": x.shape})
print(session.device, sorted({step.device for step in session.steps()}), session.device_seconds > 0, session.memory["device"] > 0)
y = np.zeros_like(x)
assert network.run({"x": x}, out={"y": y})["y"] is y and (y == expected).all()
print(error(network.run, {"x": x}, out={"z": y}))
print(error(network.run, {"x": x}, out={"y": There(x)}))
''')
    assert out.splitlines() == ["cuda:0 ['cuda:0'] True True", "InvalidArgument: out: 'z' is no output, the model's are 'y'",
                                "InvalidArgument: out 'y' is on cuda, it must be where the inputs are, on cpu"]


def test_arrays_on_it_are_read_and_written_there(on_stand_in):
    out = on_stand_in('''
there, y = There(x), There(np.full_like(x, np.nan))
waits = ctypes.c_int.in_dll(driver, "fake_waits")
for i in range(3):
    y.array[...] = np.nan
    before = waits.value
    assert network.run({"x": there}, out={"y": y})["y"] is y
    assert (y.array == expected).all() and (i == 0 or waits.value == before)
print(error(network.run, {"x": there}))
print(error(network.run, {"x": There(x, stream=4096)}, out={"y": y}))
print(error(network.run, {"x": there}, out={"y": There(x, read_only=True)}))
print(error(network.run, {"x": there}, out={"y": There(x[:1])}))
print(error(network.run, {"x": there}, out={"y": np.zeros_like(x)}))
network.run({"x": There(x, stream=4096)}, out={"y": y}, stream=4096)
on_processor = convoy.Network(os.environ["MODEL"], database=False)
print(error(on_processor.run, {"x": there}))
print(error(on_processor.run, {"x": x}, stream=7))
''')
    assert out.splitlines() == [
        "InvalidArgument: out is missing: of There no new array can be made on cuda:0",
        "InvalidArgument: input 'x' says that work on it is under way on stream 4096, and this runs on 1: give that stream, or synchronize it",
        "InvalidArgument: out 'y' can't be written to", "InvalidArgument: out 'y' has the sizes 1x3x4, the model gives 2x3x4",
        "InvalidArgument: out 'y' is on cpu, it must be where the inputs are, on cuda:0",
        "InvalidArgument: input 'x' is on cuda, the network runs on cpu", "InvalidArgument: stream is given, and the network runs on cpu"]


def test_providers_say_where_a_session_runs(on_stand_in):
    out = on_stand_in('''
import warnings
warnings.simplefilter("error")
print(convoy.get_available_providers(), convoy.get_device())
for providers in (["CUDAExecutionProvider"], [("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"], ["CPUExecutionProvider"]):
    session = convoy.InferenceSession(os.environ["MODEL"], providers=providers, database=False, how="uniform:nchw")
    assert (session.run(None, {"x": x})[0] == expected).all()
    print(session.get_providers(), session.network.device)
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as said:
    session = convoy.InferenceSession(os.environ["MODEL"], providers=["CUDAExecutionProvider"], provider_options=[{"device_id": 9}])
print(session.get_providers(), said[0].message)
''')
    assert out.splitlines() == [
        "['CUDAExecutionProvider', 'CPUExecutionProvider'] GPU", "['CUDAExecutionProvider', 'CPUExecutionProvider'] cuda:0",
        "['CUDAExecutionProvider', 'CPUExecutionProvider'] cuda:1", "['CPUExecutionProvider'] cpu",
        "['CPUExecutionProvider'] providers=['CUDAExecutionProvider']: CUDAExecutionProvider: device=cuda:9: device cuda:9: there is "
        "cuda:0 to cuda:1; it runs on the processor, CPUExecutionProvider"]


def test_memory_there_is_bound_as_onnxruntime_does(on_stand_in):
    out = on_stand_in('''
session = convoy.InferenceSession(os.environ["MODEL"], providers=["CUDAExecutionProvider"], database=False, how="uniform:nchw")
there, y = There(x), There(np.full_like(x, np.nan))
at = [array.__cuda_array_interface__["data"][0] for array in (there, y)]
binding = session.io_binding()
binding.bind_input("x", "cuda", 0, np.float32, x.shape, at[0])
print(error(session.run_with_iobinding, binding))
print(error(binding.bind_output, "y", "cuda"))
binding.bind_output("y", "cuda", 0, np.float32, x.shape, at[1])
session.run_with_iobinding(binding)
assert (y.array == expected).all()
(found,) = binding.get_outputs()
print(found.device_name(), found.shape(), found.data_type(), found.data_ptr() == at[1], error(found.numpy))
binding.bind_cpu_input("x", x)
print(error(session.run_with_iobinding, binding))
''')
    assert out.splitlines() == [
        "InvalidArgument: no output is bound: bind_output(NAME)",
        "Unsupported: bind_output without buffer_ptr: device cuda:0; it is for the processor's memory, 'cpu', here",
        "cuda [2, 3, 4] tensor(float) True Unsupported: numpy: it lies on the GPU: copy it with the library that its memory is of",
        "InvalidArgument: out 'y' is on cuda, it must be where the inputs are, on cpu"]


def without_a_gpu():
    try:
        import torch
    except ImportError:
        return True
    return not torch.cuda.is_available()


on_gpu = pytest.mark.skipif(without_a_gpu(), reason="no GPU, or no torch")


@pytest.fixture
def given(rng):
    return rng.standard_normal(SIZES).astype(np.float32)


@on_gpu
def test_a_gpu_gives_what_the_processor_gives(given):
    expected = convoy.Network(MODEL, database=False).run({"input": given})["flatten_out"]
    network = convoy.Network(MODEL, device="cuda", database=False)
    for _ in range(3):
        np.testing.assert_allclose(network.run({"input": given})["flatten_out"], expected, rtol=1e-3, atol=1e-5)
    session = network.prepare({"input": SIZES})
    assert session.device == "cuda:0" and session.device_seconds > 0 and session.memory["device"] > 0


@on_gpu
def test_torchs_tensors_are_used_there_on_its_current_stream(given):
    import torch

    network = convoy.Network(MODEL, device="cuda", database=False)
    expected = network.run({"input": given})["flatten_out"]
    x = torch.from_numpy(given).cuda()
    y = network.run({"input": x})["flatten_out"]
    assert y.is_cuda
    np.testing.assert_array_equal(y.cpu().numpy(), expected)
    out = torch.empty_like(y)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for _ in range(4):
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found = network.run({"input": x * 1}, out={"flatten_out": out})["flatten_out"]
                np.testing.assert_array_equal(found.cpu().numpy(), expected)
    with pytest.raises(convoy.InvalidArgument, match="must be row-major"):
        network.run({"input": x.to(memory_format=torch.channels_last)})


@on_gpu
def test_a_run_goes_into_torchs_graph(given):
    import torch

    x = torch.from_numpy(given).cuda()
    network = convoy.Network(MODEL, device="cuda", database=False)
    network.prepare({"input": SIZES})  # which has not run before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = network.run({"input": x})["flatten_out"] * 2
    for values in (given, -given):
        x.copy_(torch.from_numpy(values))
        graph.replay()
        np.testing.assert_allclose(y.cpu().numpy() / 2, network.run({"input": values})["flatten_out"], rtol=1e-6)


@on_gpu
def test_many_threads_run_one_session(given):
    import concurrent.futures

    network = convoy.Network(MODEL, device="cuda", database=False, deterministic=True)
    expected = network.run({"input": given})["flatten_out"]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: network.run({"input": given})["flatten_out"], range(1000)):
            np.testing.assert_array_equal(found, expected)
