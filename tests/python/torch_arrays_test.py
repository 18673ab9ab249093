"""Plans on PyTorch's tensors: in place, results as tensors, and no gradient lost silently."""
import numpy as np
import pytest

import convoy

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_tensors_are_used_in_place_and_give_tensors():
    x, w = torch.randn(2, 8, 10, 10), torch.randn(6, 8, 3, 3)
    y = convoy.Problem("fprop:x=f32,2x8x10x10:w=f32,6x8x3x3:pad=1x1").select()(x, w)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w, padding=1), rtol=1e-4, atol=1e-4)


def test_channels_last_stays_channels_last():
    x = torch.randn(2, 8, 10, 10).to(memory_format=torch.channels_last)
    w = torch.randn(6, 8, 3, 3)
    y = convoy.Problem("fprop:x=f32,2x8x10x10,nhwc:w=f32,6x8x3x3:pad=1x1").select()(x, w)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w, padding=1), rtol=1e-4, atol=1e-4)


def test_bfloat16_needs_no_numpy_type():
    x, w = torch.randn(1, 8, 6, 6, dtype=torch.bfloat16), torch.randn(4, 8, 1, 1, dtype=torch.bfloat16)
    y = convoy.Problem("fprop:x=bf16,1x8x6x6:w=bf16,4x8x1x1:math=reduced").select()(x, w)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w), rtol=2e-2, atol=2e-2)


def test_a_gradient_is_not_lost_silently():
    x, w = torch.randn(1, 8, 6, 6), torch.randn(4, 8, 1, 1, requires_grad=True)
    plan = convoy.Problem("fprop:x=f32,1x8x6x6:w=f32,4x8x1x1").select()
    with pytest.raises(convoy.InvalidArgument, match="w.requires_grad=True"):
        plan(x, w)
    with torch.no_grad():
        torch.testing.assert_close(plan(x, w), torch.nn.functional.conv2d(x, w), rtol=1e-4, atol=1e-4)


def test_numpy_and_torch_may_be_mixed():
    x, w = torch.randn(1, 8, 6, 6), np.ones((4, 8, 1, 1), np.float32)
    out = np.zeros((1, 4, 6, 6), np.float32)
    convoy.Problem("fprop:x=f32,1x8x6x6:w=f32,4x8x1x1").select()(x, w, out=out)
    np.testing.assert_allclose(out[:, 0], x.sum(1).numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tensor", [torch.zeros(1, 8, 6, 6).to_sparse(), torch.zeros(1, 8, 6, 6, device="meta")])
def test_tensors_without_memory_are_refused(tensor):
    with pytest.raises(convoy.WrongType, match="x is a tensor of layout"):
        convoy.Problem("fprop:x=f32,1x8x6x6:w=f32,4x8x1x1").select()(tensor, torch.zeros(4, 8, 1, 1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpus_current_stream_is_used():
    x = torch.randn(4, 32, 28, 28, device="cuda").to(memory_format=torch.channels_last)
    w = torch.randn(32, 1, 3, 3, device="cuda")
    problem = convoy.Problem("fprop:x=f32,4x32x28x28,nhwc:w=f32,32x1x3x3:pad=1x1:groups=32")
    plan = problem.select(device="cuda", database=False)
    expected = torch.nn.functional.conv2d(x.double(), w.double(), padding=1, groups=32).float()
    torch.testing.assert_close(plan(x, w), expected, rtol=1e-4, atol=1e-4)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = plan(x, w)
    named = plan(x, w, stream=stream)
    torch.cuda.synchronize()
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(named, expected, rtol=1e-4, atol=1e-4)
    graph = torch.cuda.CUDAGraph()
    out = torch.empty_like(y)
    with torch.cuda.graph(graph):
        plan(x, w, out=out)
    del plan
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(convoy.InvalidArgument, match="x is on cpu, the plan is for cuda:0"):
        problem.select(device="cuda", database=False)(x.cpu(), w)
