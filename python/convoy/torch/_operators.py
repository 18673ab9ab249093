"""The operators convoy::fprop, convoy::dgrad and convoy::wgrad.

The three are closed under differentiation: the gradients of each are the other two, so they can be differentiated any number
of times. `padding` has a value a dimension, or all values before and then all after. `module` and `settings` say what was in
force at the forward pass; the backward passes get the same.
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from convoy.torch import _calls, _geometry

_library: Any = torch.library.Library("convoy", "DEF")  # type: ignore[no-untyped-call]
_WINDOW = "int[] stride, int[] padding, int[] dilation, int groups, str module, str settings"
_library.define(f"fprop(Tensor x, Tensor w, Tensor? bias, {_WINDOW}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(f"dgrad(Tensor y, Tensor w, Tensor? bias, SymInt[] sizes, {_WINDOW}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(f"wgrad(Tensor x, Tensor y, SymInt[] sizes, {_WINDOW}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))

_PLAIN = frozenset({Tensor, torch.nn.Parameter})
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_batched = torch._C._functorch.is_legacy_batchedtensor  # of torch.autograd.grad(is_grads_batched=True)
_profiled: Any = getattr(torch.autograd, "_profiler_enabled")
_compiling = torch.compiler.is_compiling
_check: Any = torch._check


def _direct(a: Tensor, b: Tensor) -> bool:
    """Whether nothing but the kernel would see a call of an operator, so that the dispatcher's way may be saved."""
    return (not _compiling() and type(a) in _PLAIN and type(b) in _PLAIN and not _modes() and _transforms() is None
            and not _profiled() and (a.is_cpu or a.is_cuda)
            and not (a.is_neg() or b.is_neg() or _batched(a) or _batched(b)))


# ---- kernels ----

def _run_fprop(x: Tensor, w: Tensor, bias: Optional[Tensor], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
               groups: int, module: str, settings: str, inference: bool = False) -> Tensor:
    return _calls.run("fprop", x, w, bias, None, tuple(stride), tuple(padding), tuple(dilation), groups, module, settings, inference)


def _run_dgrad(y: Tensor, w: Tensor, bias: Optional[Tensor], sizes: Sequence[int], stride: Sequence[int], padding: Sequence[int],
               dilation: Sequence[int], groups: int, module: str, settings: str, inference: bool = False) -> Tensor:
    return _calls.run("dgrad", y, w, bias, tuple(sizes), tuple(stride), tuple(padding), tuple(dilation), groups, module, settings,
                      inference)


def _run_wgrad(x: Tensor, y: Tensor, sizes: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
               groups: int, module: str, settings: str) -> Tensor:
    return _calls.run("wgrad", x, y, None, tuple(sizes), tuple(stride), tuple(padding), tuple(dilation), groups, module, settings)


# ---- fake tensors ----

def _empty(a: Tensor, b: Tensor, sizes: Sequence[Any]) -> Tensor:
    channels_last = (_geometry.looks_channels_last(a.shape, a.stride()) or _geometry.looks_channels_last(b.shape, b.stride()))
    return a.new_empty_strided(list(sizes), _geometry.packed_strides(sizes, channels_last))


def _fake_fprop(x: Tensor, w: Tensor, bias: Optional[Tensor], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                groups: int, module: str, settings: str) -> Tensor:
    dims = len(stride)
    pre, post = _geometry.split(padding, dims)
    # PyTorch checks the arguments here: a convolution with no less padding is described, and nothing is computed.
    most = [max(before, after) for before, after in zip(pre, post)]
    torch.ops.aten.convolution.default(x, w, bias, list(stride), most, list(dilation), False, [0] * dims, groups)
    return _empty(x, w, [x.shape[0], w.shape[0], *_geometry.output_sizes(x.shape[2:], w.shape[2:], padding, stride, dilation)])


def _fake_dgrad(y: Tensor, w: Tensor, bias: Optional[Tensor], sizes: Sequence[Any], *_: Any) -> Tensor:
    _check(y.dtype == w.dtype, lambda: f"dgrad: y is of {y.dtype}, w of {w.dtype}")
    _check(y.shape[1] == w.shape[0], lambda: f"dgrad: y has {y.shape[1]} channels, w is for {w.shape[0]}")
    return _empty(y, w, sizes)


def _fake_wgrad(x: Tensor, y: Tensor, sizes: Sequence[Any], *_: Any) -> Tensor:
    _check(x.dtype == y.dtype, lambda: f"wgrad: x is of {x.dtype}, y of {y.dtype}")
    return _empty(x, y, sizes)


# ---- gradients ----

def _sum(gradient: Tensor) -> Tensor:
    """Of a bias."""
    return gradient.sum([0, *range(2, gradient.dim())])


def _save_fprop(ctx: Any, inputs: Tuple[Any, ...], output: Tensor) -> None:
    ctx.window = inputs[3:]
    ctx.save_for_backward(inputs[0], inputs[1])


def _fprop_gradients(ctx: Any, g: Tensor) -> Tuple[Any, ...]:
    x, w = ctx.saved_tensors
    needed = ctx.needs_input_grad
    return (dgrad(g, w, None, x.shape, *ctx.window) if needed[0] else None,
            wgrad(x, g, w.shape, *ctx.window) if needed[1] else None,
            _sum(g) if needed[2] else None, *[None] * 6)


def _save_dgrad(ctx: Any, inputs: Tuple[Any, ...], output: Tensor) -> None:
    ctx.window = inputs[4:]
    ctx.save_for_backward(inputs[0], inputs[1])


def _dgrad_gradients(ctx: Any, g: Tensor) -> Tuple[Any, ...]:
    y, w = ctx.saved_tensors
    needed = ctx.needs_input_grad
    return (fprop(g, w, None, *ctx.window) if needed[0] else None,
            wgrad(g, y, w.shape, *ctx.window) if needed[1] else None,
            _sum(g) if needed[2] else None, *[None] * 7)


def _save_wgrad(ctx: Any, inputs: Tuple[Any, ...], output: Tensor) -> None:
    ctx.window = inputs[3:]
    ctx.save_for_backward(inputs[0], inputs[1])


def _wgrad_gradients(ctx: Any, g: Tensor) -> Tuple[Any, ...]:
    x, y = ctx.saved_tensors
    needed = ctx.needs_input_grad
    return (dgrad(y, g, None, x.shape, *ctx.window) if needed[0] else None,
            fprop(x, g, None, *ctx.window) if needed[1] else None, *[None] * 7)


def _operator(name: str, kernel: Any, fake: Any, gradients: Any,
              save: Any) -> Tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The operator, and for calls that need no dispatcher an autograd function of the same kernel and gradients."""
    for device in ("CPU", "CUDA"):
        _library.impl(name, kernel, device)
    torch.library.register_fake(f"convoy::{name}", fake, lib=_library)
    torch.library.register_autograd(f"convoy::{name}", gradients, setup_context=save, lib=_library)

    # Not by setup_context, which looks at the signature at each call: 80 microseconds.
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        output: Tensor = kernel(*inputs)
        save(ctx, inputs, output)
        return output

    function: Any = type(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(gradients)})
    # torch.autograd.Function's own apply() looks for transforms of torch.func, of which there are none here: 9 microseconds.
    return getattr(torch.ops.convoy, name).default, super(torch.autograd.Function, function).apply


_fprop, _recorded_fprop = _operator("fprop", _run_fprop, _fake_fprop, _fprop_gradients, _save_fprop)
_dgrad, _recorded_dgrad = _operator("dgrad", _run_dgrad, _fake_dgrad, _dgrad_gradients, _save_dgrad)
_wgrad, _recorded_wgrad = _operator("wgrad", _run_wgrad, _fake_wgrad, _wgrad_gradients, _save_wgrad)
_recording = torch.is_grad_enabled


def fprop(x: Tensor, w: Tensor, bias: Optional[Tensor], *window: Any, forward: bool = False) -> Tensor:
    """`forward`: it is no other's gradient, so that where nothing is recorded nobody differentiates."""
    if not _direct(x, w):
        return _fprop(x, w, bias, *window)
    if _recording() and (x.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad)):
        return _recorded_fprop(x, w, bias, *window)
    return _run_fprop(x, w, bias, *window, forward)


def dgrad(y: Tensor, w: Tensor, bias: Optional[Tensor], sizes: Sequence[int], *window: Any, forward: bool = False) -> Tensor:
    if not _direct(y, w):
        return _dgrad(y, w, bias, sizes, *window)
    if _recording() and (y.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad)):
        return _recorded_dgrad(y, w, bias, sizes, *window)
    return _run_dgrad(y, w, bias, sizes, *window, forward)


def wgrad(x: Tensor, y: Tensor, sizes: Sequence[int], *window: Any) -> Tensor:
    if not _direct(x, y):
        return _wgrad(x, y, sizes, *window)
    if _recording() and (x.requires_grad or y.requires_grad):
        return _recorded_wgrad(x, y, sizes, *window)
    return _run_wgrad(x, y, sizes, *window)
