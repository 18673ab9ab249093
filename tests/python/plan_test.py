"""Plans on arrays: right results, nothing copied, and errors that name the argument and both values."""
import ctypes
import threading

import numpy as np
import pytest
from conftest import convolved

import convoy

TEXT = "fprop:x=f32,2x8x10x9:w=f32,6x8x3x3:pad=1x1"


@pytest.fixture
def problem():
    return convoy.Problem(TEXT)


@pytest.fixture
def arrays(rng):
    return rng.standard_normal((2, 8, 10, 9), np.float32), rng.standard_normal((6, 8, 3, 3), np.float32)


class OnlyDLPack:
    """An array that says nothing but DLPack's."""

    def __init__(self, array):
        self.array = array
        self.asked = 0

    def __dlpack__(self, **keywords):
        self.asked += 1
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_plan_computes_the_convolution(problem, arrays):
    x, w = arrays
    expected = convolved(x, w, padding=1)
    for candidate in problem.candidates():
        if candidate.refusal is None:
            np.testing.assert_allclose(problem.plan(candidate.name)(x, w), expected, rtol=1e-4, atol=1e-4)


def test_the_result_goes_into_out(problem, arrays):
    x, w = arrays
    out = np.full((2, 6, 10, 9), np.nan, np.float32)
    plan = problem.select()
    assert plan(x, w, out=out) is out
    np.testing.assert_allclose(out, convolved(x, w, padding=1), rtol=1e-4, atol=1e-4)


def test_gradients_take_their_operands_in_order(rng):
    w = rng.standard_normal((6, 8, 3, 3), np.float32)
    x = rng.standard_normal((1, 8, 6, 6), np.float32)
    y = rng.standard_normal((1, 6, 6, 6), np.float32)
    forward = convoy.Problem("fprop:x=f32,1x8x6x6:w=f32,6x8x3x3:pad=1x1").select()(x, w)
    dx = convoy.Problem("dgrad:x=f32,1x8x6x6:w=f32,6x8x3x3:y=f32,1x6x6x6:pad=1x1").select()(w, y)
    dw = convoy.Problem("wgrad:x=f32,1x8x6x6:w=f32,6x8x3x3:y=f32,1x6x6x6:pad=1x1").select()(x, y)
    assert dx.shape == x.shape and dw.shape == w.shape
    # <conv(x, w), y> = <x, dx> = <w, dw>
    np.testing.assert_allclose([np.vdot(x, dx), np.vdot(w, dw)], np.vdot(forward, y), rtol=1e-3)


def test_channels_last_arrays_are_taken_as_they_are(rng):
    x = rng.standard_normal((1, 6, 6, 8), np.float32).transpose(0, 3, 1, 2)
    w = rng.standard_normal((4, 8, 1, 1), np.float32)
    y = convoy.Problem("fprop:x=f32,1x8x6x6,nhwc:w=f32,4x8x1x1").select()(x, w)
    assert y.strides == (6 * 6 * 4 * 4, 4, 6 * 4 * 4, 4 * 4)  # nhwc
    np.testing.assert_allclose(y, convolved(x, w), rtol=1e-4, atol=1e-4)


def test_blocks_of_channels_are_an_array_of_five_dims(rng):
    x = rng.standard_normal((1, 2, 6, 6, 8), np.float32)
    w = rng.standard_normal((16, 16, 1, 1), np.float32)
    y = convoy.Problem("fprop:x=f32,1x16x6x6,nchw8c:w=f32,16x16x1x1").plan("reference")(x, w)
    assert y.shape == (1, 2, 6, 6, 8)
    plain = x.transpose(0, 1, 4, 2, 3).reshape(1, 16, 6, 6)
    np.testing.assert_allclose(y.transpose(0, 1, 4, 2, 3).reshape(1, 16, 6, 6), convolved(plain, w), rtol=1e-4, atol=1e-4)


def test_weights_given_to_the_plan_are_not_given_again(problem, arrays):
    x, w = arrays
    expected = convolved(x, w, padding=1)
    plan = problem.select(weights=w)
    w[:] = np.nan  # they were read when the plan was made
    shifted = np.empty(x.size + 1, np.float32)[1:].reshape(x.shape)
    shifted[:] = x
    aligned = convoy._arrays.numpy_empty("f32", x.shape, convoy._arrays.packed_strides(x.shape), x.nbytes)
    aligned[:] = x
    for same in (aligned, shifted):
        np.testing.assert_allclose(plan(same), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(convoy.InvalidArgument, match="w is given, and the plan has its own"):
        plan(x, w=w)


def test_less_aligned_arrays_get_a_plan_of_the_same_candidate(problem, arrays):
    x, w = arrays
    shifted = np.empty(x.size + 1, np.float32)[1:].reshape(x.shape)
    shifted[:] = x
    assert shifted.ctypes.data % 16 != 0
    plan = problem.select()
    np.testing.assert_allclose(plan(shifted, w), convolved(x, w, padding=1), rtol=1e-4, atol=1e-4)
    plan(shifted, w)
    made = list(plan._less_aligned.values())
    assert [other.candidate for other in made] == [plan.candidate] * len(made)
    assert any("align=4" in other.problem.text for other in made)


def test_the_epilogue_has_its_arrays(rng):
    problem = convoy.Problem("fprop:x=f32,1x8x6x6:w=f32,4x8x1x1:bias=1:gamma=1:act=relu")
    x, w = rng.standard_normal((1, 8, 6, 6), np.float32), rng.standard_normal((4, 8, 1, 1), np.float32)
    bias, z = rng.standard_normal(4, np.float32), rng.standard_normal((1, 4, 6, 6), np.float32)
    plan = problem.select()
    expected = np.maximum(convolved(x, w) + bias[:, None, None] + z, 0)
    np.testing.assert_allclose(plan(x, w, bias=bias, z=z), expected, rtol=1e-4, atol=1e-4)
    for arguments, said in (
        ({"z": z}, "bias is missing"),
        ({"bias": bias}, "z is missing"),
        ({"bias": bias[:3], "z": z}, "bias has the sizes 3, the problem takes 4"),
        ({"bias": bias.astype(np.float64), "z": z}, "bias has elements of type f64, the problem says f32"),
        ({"bias": np.repeat(bias, 2)[::2], "z": z}, "bias has the stride 2"),
        ({"bias": bias, "z": z[:, :, :, :5]}, "z has the sizes 1x4x6x5, the problem's y 1x4x6x6"),
        ({"bias": bias, "z": z, "slopes": bias}, "slopes is given, and the problem has none"),
    ):
        with pytest.raises(convoy.InvalidArgument, match=said):
            plan(x, w, **arguments)


def test_a_bias_of_no_channels(rng):
    plan = convoy.Problem("dgrad:x=f32,1x0x4x4:w=f32,2x0x1x1:y=f32,1x2x4x4:bias=1").select()
    x = plan(np.zeros((2, 0, 1, 1), np.float32), rng.standard_normal((1, 2, 4, 4), np.float32), bias=rng.random(0, np.float32) * 1)
    assert x.shape == (1, 0, 4, 4)


def test_integers_have_scales_and_zero_points(rng):
    x, w = rng.integers(0, 9, (1, 8, 4, 4), np.uint8), rng.integers(-5, 5, (4, 8, 1, 1), np.int8)
    plan = convoy.Problem("fprop:x=u8,1x8x4x4:w=s8,4x8x1x1:y=f32,1x4x4x4:requant=channel:zp=given,given,0").plan("reference")
    scales = rng.random(4, np.float32)
    x_zero, w_zero = np.array(3, np.int32), np.array([1, -1, 0, 2], np.int32)
    got = plan(x, w, scales=scales, x_zero_point=x_zero, w_zero_points=w_zero)
    expected = convolved(x.astype(int) - 3, w.astype(int) - w_zero[:, None, None, None]) * scales[:, None, None]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_gate_multiplies_each_images_channels(rng):
    x, w = rng.standard_normal((2, 8, 4, 4), np.float32), rng.standard_normal((4, 8, 1, 1), np.float32)
    plan = convoy.Problem("fprop:x=f32,2x8x4x4:w=f32,4x8x1x1:y=f32,2x4x4x4:gate=1").plan("reference")
    gate = rng.random((2, 8), np.float32)
    np.testing.assert_allclose(plan(x, w, gate=gate), convolved(x * gate[:, :, None, None], w), rtol=1e-5, atol=1e-5)
    with pytest.raises(convoy.InvalidArgument, match="gate is missing"):
        plan(x, w)
    with pytest.raises(convoy.InvalidArgument, match="gate has the stride 1x2, it must be 8x1"):
        plan(x, w, gate=rng.random((8, 2), np.float32).T)


def test_arrays_without_elements(rng):
    problem = convoy.Problem("fprop:x=f32,0x3x8x8:w=f32,4x3x3x3:pad=1x1:bias=1")
    y = problem.select()(np.empty((0, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32), bias=np.ones(4, np.float32))
    assert y.shape == (0, 4, 8, 8)
    problem = convoy.Problem("fprop:x=f32,1x0x2x2:w=f32,3x0x1x1:bias=1")
    bias = rng.random(3, dtype=np.float32)
    y = problem.select()(np.empty((1, 0, 2, 2), np.float32), np.empty((3, 0, 1, 1), np.float32), bias=bias)
    assert (y == bias.reshape(1, 3, 1, 1)).all() and y.shape == (1, 3, 2, 2)


def test_beta_reads_out(rng):
    x, w = rng.standard_normal((1, 8, 4, 4), np.float32), rng.standard_normal((4, 8, 1, 1), np.float32)
    plan = convoy.Problem("fprop:x=f32,1x8x4x4:w=f32,4x8x1x1:beta=1").select()
    out = np.ones((1, 4, 4, 4), np.float32)
    np.testing.assert_allclose(plan(x, w, out=out), convolved(x, w) + 1, rtol=1e-4, atol=1e-4)
    with pytest.raises(convoy.InvalidArgument, match="out is missing, and it is read: the problem says beta=1"):
        plan(x, w)


def test_dlpack_is_taken_without_a_copy(problem, arrays):
    x, w = arrays
    out = OnlyDLPack(np.zeros((2, 6, 10, 9), np.float32))
    plan = problem.select()
    plan(OnlyDLPack(x), OnlyDLPack(w), out=out)
    assert out.asked == 1
    np.testing.assert_allclose(out.array, convolved(x, w, padding=1), rtol=1e-4, atol=1e-4)
    made = plan(OnlyDLPack(x), w)
    assert isinstance(made, np.ndarray) and made.ctypes.data % 64 == 0
    seen = convoy._arrays.array("x", OnlyDLPack(x[:, ::2, 1:]))
    assert (seen.pointer, seen.dims) == (x[:, ::2, 1:].ctypes.data, (2, 4, 9, 9))
    assert seen.strides == tuple(stride // 4 for stride in x[:, ::2, 1:].strides)


def test_raw_addresses(problem, arrays):
    x, w = (np.ascontiguousarray(a) for a in arrays)
    plan = convoy.Problem("fprop:x=f32,2x8x10x9,align=4:w=f32,6x8x3x3,align=4:y=f32,2x6x10x9,align=4:pad=1x1").select()
    out = np.empty((2, 6, 10, 9), np.float32)
    memory = (ctypes.c_char * (plan.workspace_bytes + 64))()
    at = -(-ctypes.addressof(memory) // 64) * 64
    plan.execute(x=x.ctypes.data, w=w.ctypes.data, out=out.ctypes.data, workspace=at, workspace_bytes=plan.workspace_bytes)
    np.testing.assert_allclose(out, convolved(x, w, padding=1), rtol=1e-4, atol=1e-4)
    with pytest.raises(convoy.InvalidArgument, match="w is null"):
        plan.execute(x=x.ctypes.data, out=out.ctypes.data)
    if plan.workspace_bytes:
        with pytest.raises(convoy.InvalidArgument, match="workspace_bytes=0"):
            plan.execute(x=x.ctypes.data, w=w.ctypes.data, out=out.ctypes.data, workspace=at)


@pytest.mark.parametrize(
    "arguments, kind, said",
    [
        (lambda x, w: (x.astype(np.float64), w), TypeError, "x has elements of type f64, the problem says f32"),
        (lambda x, w: (x[:1], w), ValueError, "x has the sizes 1x8x10x9, the problem's x 2x8x10x9"),
        (lambda x, w: (x[0], w), ValueError, "x has the sizes 8x10x9, the problem's x 2x8x10x9"),
        (lambda x, w: (x, w[:, :, ::-1]), ValueError, "w has the strides 72x9x-3x1, the problem's w 72x9x3x1"),
        (lambda x, w: (x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2), w), ValueError, "x has the strides 720x90x1x10"),
        (lambda x, w: (x.tolist(), w), TypeError, "x is of type list"),
        (lambda x, w: (x,), ValueError, "w is missing; the plan reads x, w"),
        (lambda x, w: (x, w, x), ValueError, "3 operands by position, the plan reads 2: x, w"),
        (lambda x, w: (x.astype(">f4"), w), TypeError, "x.dtype=>f4"),
        (lambda x, w: (x.astype(np.complex64), w), TypeError, "x.dtype=complex64"),
        (lambda x, w: (x.view("V4"), w), TypeError, "x.dtype"),
    ],
)
def test_a_wrong_operand_is_named_with_both_values(problem, arrays, arguments, kind, said):
    with pytest.raises(kind, match=said) as caught:
        problem.select()(*arguments(*arrays))
    assert isinstance(caught.value, convoy.InvalidArgument)


def test_a_strided_view_runs_by_the_problem_that_the_error_proposes(problem, arrays, rng):
    x, w = rng.standard_normal((2, 16, 10, 9), np.float32)[:, ::2], arrays[1]
    with pytest.raises(convoy.InvalidArgument, match="a problem with x=f32,2x8x10x9,strides=1440x180x9x1 takes it"):
        problem.select()(x, w)
    y = convoy.Problem("fprop:x=f32,2x8x10x9,strides=1440x180x9x1:w=f32,6x8x3x3:y=f32,2x6x10x9,nchw:pad=1x1").select()(x, w)
    np.testing.assert_allclose(y, convolved(x, w, padding=1), rtol=1e-4, atol=1e-4)


def test_out_must_be_what_is_computed(problem, arrays):
    x, w = arrays
    plan = problem.select()
    out = np.zeros((2, 6, 10, 9), np.float32)
    with pytest.raises(convoy.InvalidArgument, match="y is what the plan computes: give it as out"):
        plan(x, w, y=out)
    with pytest.raises(convoy.InvalidArgument, match="x is given twice"):
        plan(x, x=x)
    out.flags.writeable = False
    with pytest.raises(convoy.InvalidArgument, match="out can't be written to"):
        plan(x, w, out=out)
    with pytest.raises(convoy.InvalidArgument, match="stream=5"):
        plan(x, w, stream=5)


def test_an_unknown_candidate_or_device_is_named(problem):
    with pytest.raises(convoy.ConvoyError, match="cpu.gem"):
        problem.plan("cpu.gem")
    with pytest.raises(convoy.ConvoyError, match="gpu"):
        problem.select(device="gpu")
    with pytest.raises(convoy.InvalidArgument, match="threads=-1"):
        problem.select(threads=-1)
    with pytest.raises(convoy.WrongType, match="threads is of type str"):
        problem.select(threads="2")
    with pytest.raises(convoy.WrongType, match="candidate is of type int"):
        problem.plan(3)


def test_threads_share_a_plan_and_the_interpreters_lock_is_let_go(rng):
    problem = convoy.Problem("fprop:x=f32,1x64x40x40:w=f32,64x64x3x3:pad=1x1")
    plan = problem.plan("reference", threads=1)
    x, w = rng.standard_normal((1, 64, 40, 40), np.float32), rng.standard_normal((64, 64, 3, 3), np.float32)
    running, counted = threading.Event(), []

    def compute():
        running.set()
        plan(x, w)
        counted.append("done")

    worker = threading.Thread(target=compute)
    worker.start()
    running.wait()
    turns = 0
    while not counted:
        turns += 1
    worker.join()
    assert turns > 1000, "the interpreter's lock was held during the convolution"

    quick, results = problem.select(), []
    threads = [threading.Thread(target=lambda: results.append(quick(x, w))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(np.array_equal(results[0], other) for other in results)


def test_weights_on_a_gpu_are_refused_before_they_are_read(problem, arrays):
    with pytest.raises(convoy.InvalidArgument, match="weights are given, and device=cuda:0"):
        problem.plan("cuda.depthwise", device="cuda:0", weights=arrays[1])
    with pytest.raises(convoy.ConvoyError, match="gpu"):
        problem.plan("cpu.gemm", device="gpu")
