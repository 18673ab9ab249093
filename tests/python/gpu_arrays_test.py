"""What is checked of arrays on a GPU, without one: devices, streams, and where a result can be made. (torch_arrays_test runs on one.)"""
import numpy as np
import pytest

import convoy
from convoy import _arrays
from convoy._operands import Operands

TEXT = "fprop:x=f32,1x8x6x6:w=f32,4x8x1x1"


class OnGpu:
    """Says of a NumPy array's memory that it is a GPU's, and keeps the stream that it was asked with."""

    def __init__(self, array, ordinal=0):
        self.array, self.device, self.streams = array, (2, ordinal), []

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


@pytest.fixture
def arrays():
    return {"x": OnGpu(np.zeros((1, 8, 6, 6), np.float32)), "w": OnGpu(np.zeros((4, 8, 1, 1), np.float32))}


@pytest.mark.parametrize("device, ordinal", [("cuda", 0), ("cuda:0", 0), ("cuda:3", 3)])
def test_a_devices_name_has_its_number(device, ordinal):
    assert Operands(convoy.Problem(TEXT), device, False).ordinal == ordinal


def test_arrays_of_the_plans_gpu_are_taken_on_its_stream(arrays):
    operands = Operands(convoy.Problem(TEXT), "cuda", False)
    out = OnGpu(np.zeros((1, 4, 6, 6), np.float32))
    found = operands.check_all(arrays, out, {}, 7)
    assert {name: one.device for name, one in found.items()} == dict.fromkeys(("x", "w", "out"), "cuda:0")
    assert found["x"].pointer == arrays["x"].array.ctypes.data
    assert arrays["x"].streams == arrays["w"].streams == out.streams == [7]
    operands.check_all(arrays, out, {}, None)
    assert arrays["x"].streams == [7, 1]  # DLPack's number of the default stream


def test_another_device_is_named_with_both_values(arrays):
    operands = Operands(convoy.Problem(TEXT), "cuda:0", False)
    arrays["w"].device = (2, 1)
    with pytest.raises(convoy.InvalidArgument, match="w is on cuda:1, the plan is for cuda:0"):
        operands.check_all(arrays, arrays["x"], {}, None)
    arrays["w"] = arrays["w"].array
    with pytest.raises(convoy.InvalidArgument, match="w is on cpu, the plan is for cuda:0"):
        operands.check_all(arrays, arrays["x"], {}, None)
    on_gpu = OnGpu(np.zeros((1, 8, 6, 6), np.float32))
    with pytest.raises(convoy.InvalidArgument, match="x is on cuda:0, the plan is for cpu"):
        convoy.Problem(TEXT).select(database=False)(on_gpu, np.zeros((4, 8, 1, 1), np.float32))
    with pytest.raises(convoy.InvalidArgument, match="input 'input' is on cuda:0, the network runs on cpu"):
        convoy.Network("zoo:squeezenet1_1").run({"input": OnGpu(np.zeros((1, 3, 64, 64), np.float32))})
    on_gpu.device = (10, 0)
    with pytest.raises(convoy.WrongType, match="x is on DLPack's device 10"):
        convoy.Problem(TEXT).select(database=False)(on_gpu, np.zeros((4, 8, 1, 1), np.float32))


def test_a_result_on_a_gpu_needs_a_library_that_makes_one(arrays):
    with pytest.raises(convoy.InvalidArgument, match="out is missing: of OnGpu no new array can be made on cuda:0"):
        Operands(convoy.Problem(TEXT), "cuda:0", False).new(arrays)


def test_streams_are_addresses_or_objects_that_have_one():
    class OfTorch:
        cuda_stream = 4096

    class OfCupy:
        ptr = 8192

    assert [_arrays.stream_address(stream) for stream in (7, OfTorch(), OfCupy(), 0)] == [7, 4096, 8192, None]
    for wrong in ("7", True, None):
        with pytest.raises(convoy.WrongType, match="stream is of type"):
            _arrays.stream_address(wrong)
    assert _arrays.current_stream({"x": np.zeros(1)}, 0) is None
