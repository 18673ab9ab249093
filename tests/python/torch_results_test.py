"""convoy.torch's operators beside PyTorch's own: results, gradients, layouts, types, and what is handed over."""
import contextlib
import itertools
import os
import subprocess
import sys

import pytest

# PyTorch and Convoy have threads of OpenMP each. On a machine that others use too, those that wait are not to spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
import torch.nn.functional as F  # noqa: E402

import convoy  # noqa: E402
import convoy.torch as ct  # noqa: E402

ORACLE = "* -> reference"  # engines of the processor that take every type
ALL = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
# Arguments of convolutions of 1 to 3 dimensions; {} is for all, "transposed" and "plain" for one kind.
CASES = {
    "usual": {},
    "no bias": {"bias": False},
    "stride": {"stride": 2, "padding": 1},
    "dilation": {"dilation": 2, "padding": 2},
    "groups": {"groups": 2},
    "depthwise": {"groups": 4, "padding": 1},
    "all": {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
    "list of one": {"stride": [2], "padding": [1]},
    "unbatched": {"unbatched": True},
}
PLAIN = {"same": {"padding": "same"}, "same, even": {"padding": "same", "filter": 2, "dilation": 3}, "valid": {"padding": "valid"}}
TRANSPOSED = {
    "output_padding": {"stride": 3, "output_padding": 2},
    "output_padding of a stride": {"dilation": 3, "stride": 1, "output_padding": 1, "padding": 2},
    "output_padding beyond": {"dilation": 3, "stride": 1, "output_padding": 2},
}


def sizes_of(name, filter=3, groups=1, unbatched=False):
    dims = int(name[-2])
    spatial = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}[dims]
    channels, filters = 4, 8
    weight = (channels, filters // groups) if "transpose" in name else (filters, channels // groups)
    return (() if unbatched else (2,)) + (channels, *spatial), (*weight, *[filter] * dims), (filters,)


def tensors(name, dtype=torch.float32, filter=3, groups=1, unbatched=False, bias=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = sizes_of(name, filter, groups, unbatched)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    return made if bias else [made[0], made[1], None]


def gradients(function, given, arguments):
    """The result and the gradients of x, w and bias."""
    leaves = [t if t is None else t.detach().requires_grad_() for t in given]
    result = function(*leaves, **arguments)
    seed = torch.linspace(-1, 1, result.numel(), dtype=result.dtype, device=result.device).reshape(result.shape)
    (result * seed).sum().backward()
    return [result.detach()] + [leaf.grad for leaf in leaves if leaf is not None]


def compare(name, case, dtype=torch.float32, change=lambda t: t, tolerance=None):
    case = dict(case)
    shape = {key: case.pop(key) for key in ("filter", "unbatched", "bias") if key in case}
    given = [t if t is None else change(t) for t in tensors(name, dtype, groups=case.get("groups", 1), **shape)]
    mine = gradients(getattr(ct, name), given, case)
    theirs = gradients(getattr(F, name), given, case)
    for which, a, b in zip(("result", "x", "w", "bias"), mine, theirs):
        assert a.dtype == b.dtype and a.shape == b.shape, which
        torch.testing.assert_close(a, b, **(tolerance or {"rtol": 2e-4, "atol": 2e-4}), msg=lambda text: f"{which}: {text}")
        assert a.stride() == b.stride(), f"{which}: strides {a.stride()}, PyTorch's {b.stride()}"
    return mine


def cases(name):
    yield from CASES.items()
    yield from (TRANSPOSED if "transpose" in name else PLAIN).items()


def handed_over():
    return {(row.name, row.reason) for row in ct.report().fell_back}


@pytest.fixture(autouse=True)
def fresh():
    ct.reset_report()
    yield
    assert ct._settings.current() == ""


@pytest.mark.parametrize("name,case", [(name, case) for name in ALL for case, _ in cases(name)])
def test_as_pytorch(name, case):
    compare(name, dict(cases(name))[case])
    if case == "output_padding beyond":
        assert handed_over() == {(name, "output_padding is larger than the padding makes up for")}
    else:
        assert not handed_over(), str(ct.report())
        passes = {row.name for row in ct.report().ran}
        assert passes == {"fprop", "dgrad", "wgrad"}


@pytest.mark.parametrize("name", ["conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d"])
@pytest.mark.parametrize("which", ["x", "w", "both"])
def test_channels_last(name, which):
    format = torch.channels_last_3d if "3d" in name else torch.channels_last
    rank = 5 if "3d" in name else 4
    counter = itertools.count()

    def change(tensor):
        position = next(counter)
        chosen = tensor.dim() == rank and (which == "both" or (which == "x") == (position == 0))
        return tensor.contiguous(memory_format=format) if chosen else tensor

    mine = compare(name, {"padding": 1}, change=change)
    assert mine[0].is_contiguous(memory_format=format)
    assert not handed_over(), str(ct.report())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
def test_types(name, dtype, tolerance):
    """By the oracle, since engines of the processor don't take all types."""
    with ct.rules(ORACLE):
        compare(name, {"padding": 1, "groups": 2}, dtype, tolerance={"rtol": tolerance, "atol": tolerance})
    assert not handed_over()
    assert {row.candidate for row in ct.report().ran} == {"reference"}


@pytest.mark.parametrize("name", ALL)
def test_f64(name):
    """By engines that are no oracle, to more digits than f32 has."""
    for case in ({"groups": 2, "stride": 2, "padding": 1}, {"groups": 4}, {"dilation": 2}):
        compare(name, case, torch.float64, tolerance={"rtol": 1e-13, "atol": 1e-13})
    assert not handed_over(), str(ct.report())
    assert not {row.candidate for row in ct.report().ran} & {"reference"}


def test_a_type_that_only_the_oracle_takes_is_pytorchs():
    """f64 on a processor without AVX2."""
    code = """
import torch, convoy.torch as ct
x, w = (torch.ones(2, 4, 5, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
ct.conv2d(x, w).sum().backward()
print(*(f"{row.name}: {row.reason}" for row in ct.report().fell_back), sep="\\n")
"""
    said = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CONVOY_ISA": "portable"}, capture_output=True, text=True, check=True).stdout
    rows = dict(line.split(": ", 1) for line in said.splitlines())
    assert rows.keys() == {"fprop", "dgrad", "wgrad"}
    assert all("oracle" in reason for reason in rows.values())


NEEDS_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU that PyTorch sees")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("device,engine", [("cpu", None), pytest.param("cuda", "* -> cuda.reference", marks=NEEDS_A_GPU)])
def test_gradients(name, device, engine):
    """First and second derivatives, in f64, of every argument."""
    for case in ({}, {"stride": 2, "padding": 1}, {"groups": 2, "dilation": 2, "padding": 2}):
        shapes = sizes_of(name, filter=2, groups=case.get("groups", 1))
        small = [min(size, 4) if i > 1 else min(size, 2) if i == 0 else size for i, size in enumerate(shapes[0])]
        given = [torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True) for shape in (small, *shapes[1:])]

        def function(x, w, b):
            return getattr(ct, name)(x, w, b, **case)

        with ct.rules(engine) if engine else contextlib.nullcontext():
            fast = {"fast_mode": name.endswith("3d")}
            assert torch.autograd.gradcheck(function, given, **fast)
            assert torch.autograd.gradgradcheck(function, given, fast_mode=True)
    assert not handed_over(), str(ct.report())
    assert "reference" not in {row.candidate for row in ct.report().ran}


def test_third_derivatives():
    x, w = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True), torch.randn(2, 2, 2, 2, dtype=torch.float64, requires_grad=True)

    def gradient(function):
        y = (function(x, w) ** 3).sum()
        for _ in range(3):
            y = sum((g**2).sum() for g in torch.autograd.grad(y, (x, w), create_graph=True))
        return y.detach()

    torch.testing.assert_close(gradient(ct.conv2d), gradient(F.conv2d))
    assert not handed_over(), str(ct.report())


def test_autocast():
    x, w, b = tensors("conv2d")
    w = w.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        mine, theirs = ct.conv2d(x, w, b), F.conv2d(x, w, b)
        double = ct.conv2d(x.double(), w.double(), b.double())
    assert mine.dtype == theirs.dtype == torch.bfloat16 and double.dtype == torch.float64
    mine.float().sum().backward()
    assert w.grad.dtype == torch.float32
    assert ct.conv2d(x, w, b).dtype == torch.float32


def test_expanded_gradients_are_copied_and_said():
    x, w, _ = tensors("conv2d")
    ct.conv2d(x.requires_grad_(), w).sum().backward()  # its gradient is one number for all elements
    assert {row.copied for row in ct.report().ran if row.name == "dgrad"} == {"y"}


def test_weights_with_gaps_give_the_bits_of_packed_ones():
    x, w, b = tensors("conv2d")
    gaps = torch.stack([w, w], -1)[..., 0]
    assert not gaps.is_contiguous()
    assert torch.equal(ct.conv2d(x, gaps, b), ct.conv2d(x, w, b))
    assert {row.copied for row in ct.report().ran} == {"", "w"}


def test_tensors_with_gaps_give_the_bits_of_packed_ones_on_a_processor():
    x, w, b = tensors("conv2d")
    gaps = torch.stack([x, x], -1)[..., 1]
    assert torch.equal(ct.conv2d(gaps, w, b), ct.conv2d(x, w, b))
    assert {row.copied for row in ct.report().ran} == {"", "x"}


def test_no_winograd_on_a_processor_unless_asked_for():
    """Whole numbers: PyTorch's own results are exact, a Winograd algorithm's are not."""
    x, w = (torch.randint(-3, 3, shape).float().to(memory_format=torch.channels_last) for shape in ((1, 64, 56, 56), (64, 64, 3, 3)))
    assert torch.equal(ct.conv2d(x, w, padding=1), F.conv2d(x, w, padding=1))
    with ct.rules("* -> cpu.winograd"):
        torch.testing.assert_close(ct.conv2d(x, w, padding=1), F.conv2d(x, w, padding=1), rtol=1e-3, atol=1e-2)
    assert [row.candidate.split("{")[0] == "cpu.winograd" for row in ct.report().ran] == [False, True]


def test_no_winograd_on_copies_either():
    """cpu.nhwc, which copies tensors whose channels lie apart, may run on cpu.winograd."""
    x, w = (torch.randint(-3, 3, shape).float() for shape in ((1, 64, 56, 56), (64, 64, 3, 3)))
    problem = convoy.Problem("fprop:x=f32,1x64x56x56:w=f32,64x64x3x3:pad=1x1")
    chosen = problem.select(threads=torch.get_num_threads(), database=False).candidate
    if "engine=cpu.winograd" not in chosen:
        pytest.skip(f"it would show nothing: {chosen} is predicted to be faster here")
    assert torch.equal(ct.conv2d(x, w, padding=1), F.conv2d(x, w, padding=1))
    assert ["winograd" in row.candidate for row in ct.report().ran] == [False]
    with ct.rules("* -> cpu.nhwc{engine=cpu.winograd}"):
        torch.testing.assert_close(ct.conv2d(x, w, padding=1), F.conv2d(x, w, padding=1), rtol=1e-3, atol=1e-2)
    assert ["winograd" in row.candidate for row in ct.report().ran] == [False, True]


def test_views():
    """Strides and addresses of slices."""
    x, w, b = tensors("conv2d")
    for view in (x[:, :, 1:, ::2], x[:, :, :, 1:], x.transpose(2, 3), x[1:], x.flip(0)[:, :, 1:]):
        torch.testing.assert_close(ct.conv2d(view, w, b), F.conv2d(view, w, b), rtol=2e-4, atol=2e-4)
    unaligned = torch.randn(1 + 4 * 9 * 8)[1:].view(1, 4, 9, 8)
    torch.testing.assert_close(ct.conv2d(unaligned, w, b), F.conv2d(unaligned, w, b), rtol=2e-4, atol=2e-4)
    assert not handed_over(), str(ct.report())
    assert any("align=4" in row.problem for row in ct.report().ran)


@pytest.mark.parametrize("change,reason", [
    (lambda t: t.to(torch.complex64), "torch.complex64"),
    (lambda t: (t * 4).to(torch.int32), "torch.int32"),
    (lambda t: t.to("meta"), "meta"),
    (lambda t: t[:0] if t.dim() == 4 and t.shape[0] == 2 else t, "empty"),
])
def test_what_pytorch_does(change, reason):
    given = [change(t) for t in tensors("conv2d")]
    mine, theirs = ct.conv2d(*given), F.conv2d(*given)
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype and mine.device == theirs.device
    (row,) = ct.report().fell_back
    assert reason in row.reason and row.calls == 1


def test_subclasses_decide_for_themselves():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            seen.append(function)
            return super().__torch_function__(function, types, arguments, keywords or {})

    seen = []
    x, w, b = tensors("conv2d")
    ct.conv2d(x.as_subclass(Loud), w, b)
    assert torch.conv2d in seen


def test_transforms():
    x, w, b = tensors("conv2d")
    mine = torch.func.vmap(lambda each: ct.conv2d(each, w, b))(x)
    torch.testing.assert_close(mine, F.conv2d(x, w, b), rtol=2e-4, atol=2e-4)
    mine, theirs = (torch.func.jvp(lambda each: f(each, w, b), (x,), (x,))[1] for f in (ct.conv2d, F.conv2d))
    torch.testing.assert_close(mine, theirs, rtol=2e-4, atol=2e-4)
    assert handed_over() == {("conv2d", "a transform of torch.func is at work")}


BAD = {
    "type of weight": lambda x, w, b: (x, w.double(), b),
    "type of bias": lambda x, w, b: (x, w, b.double()),
    "channels": lambda x, w, b: (x, w[:, :3], b),
    "groups": lambda x, w, b: (x, w, b, 1, 0, 1, 3),
    "rank": lambda x, w, b: (x[None], w, b),
    "rank of weight": lambda x, w, b: (x, w[0], b),
    "bias": lambda x, w, b: (x, w, b[:5]),
    "filter too large": lambda x, w, b: (x[:, :, :2], w, b),
    "stride": lambda x, w, b: (x, w, b, 0),
    "stride of 3": lambda x, w, b: (x, w, b, (1, 1, 1)),
    "stride of text": lambda x, w, b: (x, w, b, "1"),
    "padding": lambda x, w, b: (x, w, b, 1, -1),
    "padding of text": lambda x, w, b: (x, w, b, 1, "sane"),
    "same with a stride": lambda x, w, b: (x, w, b, 2, "same"),
    "dilation": lambda x, w, b: (x, w, b, 1, 0, 0),
    "no tensor": lambda x, w, b: (x, 3, b),
    "array": lambda x, w, b: (x, w.numpy(), b),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("grad", [False, True])
def test_bad_input(what, grad):
    """The exception is of PyTorch's kind, with both values in it."""
    given = BAD[what](*tensors("conv2d"))
    if grad:
        given = [t.requires_grad_() if isinstance(t, torch.Tensor) and t.is_leaf else t for t in given]
    raised = []
    for function in (F.conv2d, ct.conv2d):
        with pytest.raises(Exception) as info:
            function(*given)
        raised.append((info.type, str(info.value)))
    assert raised[0][0] is raised[1][0]
    if what == "type of bias":  # another of PyTorch's checks says it
        assert all("ouble" in text and "loat" in text for _, text in raised)
    elif raised[0][0] is TypeError:  # the message lists all arguments, those at their defaults too
        assert raised[0][1].split(" - got")[0] == raised[1][1].split(" - got")[0]
    else:
        assert raised[0][1] == raised[1][1]


@NEEDS_A_GPU
def test_tensors_of_two_devices():
    x, w, b = tensors("conv2d")
    with pytest.raises(RuntimeError, match="cuda"):
        ct.conv2d(x.cuda(), w, b)
    with pytest.raises(RuntimeError, match="cuda"):
        ct.conv2d(x, w.cuda(), b)


def test_bad_transposed_input():
    x, w, b = tensors("conv_transpose2d")
    for arguments in ((x, w, b, 1, 0, 1), (x[:, :3], w, b), (x, w, b[:3]), (x, w, b, 1, 9), (x, w, b, 1, 0, -1), (x, w, b, 1, 0, 0, 3)):
        raised = []
        for function in (F.conv_transpose2d, ct.conv_transpose2d):
            with pytest.raises(Exception) as info:
                function(*arguments)
            raised.append((info.type, str(info.value)))
        assert raised[0] == raised[1]


def test_opcheck():
    """What torch.library says of the operators: schema, fake tensors, autograd, and tracing with sizes that vary."""
    x, w, b = (t.requires_grad_() for t in tensors("conv2d"))
    y = F.conv2d(x, w, b).detach().requires_grad_()
    window = ([1, 1], [0, 0], [1, 1], 1, "", "")
    torch.library.opcheck(torch.ops.convoy.fprop, (x, w, b, *window))
    torch.library.opcheck(torch.ops.convoy.dgrad, (y, w, None, list(x.shape), *window))
    torch.library.opcheck(torch.ops.convoy.wgrad, (x, y, list(w.shape), *window))


@NEEDS_A_GPU
@pytest.mark.parametrize("name", ALL)
def test_on_a_gpu(name):
    for case, arguments in cases(name):
        compare(name, arguments, change=lambda t: t.cuda(), tolerance={"rtol": 1e-2, "atol": 1e-2})


@NEEDS_A_GPU
def test_in_a_captured_graph():
    """Streams, and memory that PyTorch's allocator gives a graph."""
    x, w, b = (t.cuda() for t in tensors("conv2d", groups=4))
    expected = F.conv2d(x, w, b, groups=4)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        ct.conv2d(x, w, b, groups=4)  # planned before
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ct.conv2d(x, w, b, groups=4)
    graph.replay()
    torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-2)
