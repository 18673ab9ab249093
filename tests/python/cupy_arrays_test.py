"""CuPy's arrays, on a GPU: results, streams, captured graphs, bad input."""
import numpy as np
import pytest

import convoy
from conftest import convolved

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
if not cupy.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

TEXT = "fprop:x=f32,2x8x12x12:w=f32,4x8x3x3:pad=1x1:math=strict"
CHANNELS_LAST = "fprop:x=f32,2x8x12x12,nhwc:w=f32,4x8x3x3,nhwc:pad=1x1:math=strict"


@pytest.fixture
def operands(rng):
    x, w = rng.standard_normal((2, 8, 12, 12), np.float32), rng.standard_normal((4, 8, 3, 3), np.float32)
    return cupy.asarray(x), cupy.asarray(w), convolved(x, w, padding=1)


def assert_close(y, expected):
    np.testing.assert_allclose(cupy.asnumpy(y), expected, rtol=1e-4, atol=1e-4)


def channels_last(array):
    """The same values, the channels' stride 1."""
    return cupy.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def test_a_result_is_cupys_array_in_the_problems_layout(operands):
    x, w, expected = operands
    y = convoy.Problem(TEXT).select(device="cuda", database=False)(x, w)
    assert isinstance(y, cupy.ndarray) and y.dtype == cupy.float32 and y.flags.c_contiguous
    assert_close(y, expected)
    y = convoy.Problem(CHANNELS_LAST).select(device="cuda", database=False)(channels_last(x), channels_last(w))
    assert y.shape == (2, 4, 12, 12) and y.strides == (4 * 4 * 144, 4, 4 * 4 * 12, 4 * 4)
    assert_close(y, expected)


def test_out_is_written_and_returned(operands):
    x, w, expected = operands
    out = cupy.full((2, 4, 12, 12), 7, cupy.float32)
    assert convoy.Problem(TEXT).select(device="cuda", database=False)(x, w, out=out) is out
    assert_close(out, expected)


def test_the_current_stream_is_used_and_another_can_be_named(operands):
    x, w, expected = operands
    plan = convoy.Problem(TEXT).select(device="cuda", database=False)
    out = cupy.zeros((2, 4, 12, 12), cupy.float32)
    cupy.cuda.Device().synchronize()
    stream, late = cupy.cuda.Stream(non_blocking=True), cupy.zeros_like(x)
    busy = cupy.zeros(1 << 28, cupy.uint8)
    cupy.cuda.Device().synchronize()
    # What the stream does before it takes longer than the call: on another stream the plan would read zeros.
    with stream:
        for _ in range(20):
            busy += 1
        late[...] = x
        plan(late, w, out=out)
    stream.synchronize()
    assert_close(out, expected)
    late[...] = 0
    out[...] = 0
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(20):
            busy += 1
        late[...] = x
    plan(late, w, out=out, stream=stream)
    stream.synchronize()
    assert_close(out, expected)


def test_a_plan_is_captured_into_a_graph(operands):
    x, w, expected = operands
    plan = convoy.Problem(TEXT).select(device="cuda", database=False)
    out = cupy.zeros((2, 4, 12, 12), cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        plan(x, w, out=out)  # what is prepared once
        stream.synchronize()
        stream.begin_capture()
        plan(x, w, out=out)
        graph = stream.end_capture()
        out[...] = 0
        graph.launch()
    stream.synchronize()
    assert_close(out, expected)


def test_other_librarys_arrays_may_be_mixed(operands):
    torch = pytest.importorskip("torch")
    x, w, expected = operands
    out = torch.zeros(2, 4, 12, 12, device="cuda")
    torch.cuda.synchronize()
    convoy.Problem(TEXT).select(device="cuda", database=False)(x, w, out=out)
    torch.cuda.synchronize()
    cupy.cuda.Device().synchronize()
    assert_close(out.cpu().numpy(), expected)


def test_bad_arrays_are_named_with_both_values(operands):
    x, w, _ = operands
    plan = convoy.Problem(TEXT).select(device="cuda", database=False)
    with pytest.raises(convoy.InvalidArgument, match="w is on cpu, the plan is for cuda:0"):
        plan(x, cupy.asnumpy(w))
    with pytest.raises(convoy.WrongType, match="x has elements of type f64, the problem says f32"):
        plan(x.astype(cupy.float64), w)
    with pytest.raises(convoy.InvalidArgument, match="x has the strides 1152x1x96x8, the problem's x 1152x144x12x1"):
        plan(channels_last(x), w)
    with pytest.raises(convoy.InvalidArgument, match="w has the sizes 4x4x3x3, the problem's w 4x8x3x3"):
        plan(x, w[:, :4])
