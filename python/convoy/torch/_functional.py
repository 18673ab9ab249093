"""conv1d to conv_transpose3d: torch.nn.functional's convolutions with the same arguments, by Convoy's operators."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import torch
import torch.nn.grad
from torch import Tensor

from convoy.torch import _geometry, _operators, _report, _settings

_Numbers = Union[int, Sequence[int]]

# PyTorch's own, as they were when this module was imported.
ORIGINALS: Dict[str, Callable[..., Tensor]] = {
    name: getattr(torch, name)
    for name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
}

_PLAIN = _operators._PLAIN
_TYPES = frozenset(_geometry.TYPES)
_DEVICES = frozenset({"cpu", "cuda"})
_compiling = torch.compiler.is_compiling
_transforms = torch._C._functorch.peek_interpreter_stack
_forward_ad = torch.autograd.forward_ad
_tracing = torch._C._get_tracing_state
_autocasts = torch.is_autocast_enabled
_strided = torch.strided
_untouched = torch._C._disabled_torch_function_impl


def _unsuited(*tensors: Any) -> Optional[str]:
    """Why PyTorch's own function has to do it; None: it need not."""
    input, weight, bias = tensors
    if (type(input) in _PLAIN and type(weight) in _PLAIN and (bias is None or type(bias) in _PLAIN) and input.dtype in _TYPES
            and input.layout is _strided and weight.layout is _strided and (input.is_cpu or input.is_cuda)):
        return None  # the usual case at once; types and devices that differ are found once a problem
    for tensor in (input, weight) if bias is None else tensors:
        kind = type(tensor)
        if kind not in _PLAIN and not (isinstance(tensor, Tensor) and (kind is Tensor or kind.__torch_function__ is _untouched)):
            return f"an argument is of type {kind.__name__}"
        if tensor.layout is not _strided or tensor.is_quantized:
            return f"a tensor is {'quantized' if tensor.is_quantized else str(tensor.layout).removeprefix('torch.')}"
        if tensor.dtype not in _TYPES:
            return f"a tensor is of {tensor.dtype}"
        if tensor.device.type not in _DEVICES:
            return f"a tensor is on {tensor.device.type}"
    return None


def _unusual() -> Optional[str]:
    """What else Convoy's operators do not go along with."""
    if _compiling():
        return None
    if _transforms() is not None:
        return "a transform of torch.func is at work"
    if _forward_ad._current_level >= 0:
        return "forward-mode differentiation is at work"
    if _tracing() is not None:
        return "torch.jit traces it"
    return None


def _numbers(value: Any, dims: int) -> Optional[Tuple[int, ...]]:
    """A number a dimension, from one for all or one each; None: it is neither."""
    if type(value) is tuple and len(value) == dims:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * dims
    if isinstance(value, (tuple, list)) and len(value) in (1, dims):
        return tuple(value) * (dims // len(value))
    return None


def _cast(tensors: Sequence[Any], device: str) -> Any:
    """As torch.autocast has convolutions: in its type, f64 left alone."""
    dtype = torch.get_autocast_dtype(device)
    return [t if t is None or t.dtype == dtype or t.dtype == torch.float64 else t.to(dtype) for t in tensors]


def _same(filter: Sequence[int], dilation: Sequence[int]) -> Tuple[int, ...]:
    """padding='same': as much before as after, the odd one after."""
    whole = [dilation[i] * (filter[i] - 1) for i in range(len(dilation))]
    return tuple([each // 2 for each in whole] + [each - each // 2 for each in whole])


def _hand_over(name: str, reason: str, *arguments: Any) -> Tensor:
    if not _compiling():
        _report.handed_over[name, reason] += 1
    return ORIGINALS[name](*arguments)


def convolution(name: str, dims: int, module: str, input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: _Numbers,
                padding: Union[str, _Numbers], dilation: _Numbers, groups: int) -> Tensor:
    """convNd, by `name`; `module` is that of a patched model, "" where there is none."""
    arguments = input, weight, bias, stride, padding, dilation, groups
    reason = _unsuited(input, weight, bias) or _unusual()
    if reason is not None:
        return _hand_over(name, reason, *arguments)
    rank = input.dim()
    steps, gaps = _numbers(stride, dims), _numbers(dilation, dims)
    if weight.dim() != dims + 2 or rank not in (dims + 1, dims + 2) or steps is None or gaps is None:
        return _hand_over(name, "the arguments don't match", *arguments)
    if isinstance(padding, str):
        if padding not in ("same", "valid") or (padding == "same" and any(step != 1 for step in steps)):
            return _hand_over(name, "the arguments don't match", *arguments)
        around: Optional[Tuple[int, ...]] = _same(weight.shape[2:], gaps) if padding == "same" else (0,) * dims
    else:
        around = _numbers(padding, dims)
    if around is None or not isinstance(groups, int):
        return _hand_over(name, "the arguments don't match", *arguments)
    if input.numel() == 0 or weight.numel() == 0:
        return _hand_over(name, "a tensor is empty", *arguments)
    device = input.device.type
    if _autocasts(device):
        input, weight, bias = _cast((input, weight, bias), device)
    settings = _settings._shared if _compiling() else _settings.current()
    if rank == dims + 1:
        return _operators.fprop(input.unsqueeze(0), weight, bias, steps, around, gaps, groups, module, settings, forward=True).squeeze(0)
    return _operators.fprop(input, weight, bias, steps, around, gaps, groups, module, settings, forward=True)


def transposed(name: str, dims: int, module: str, input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: _Numbers,
               padding: _Numbers, output_padding: _Numbers, groups: int, dilation: _Numbers) -> Tensor:
    """conv_transposeNd, by `name`: the dgrad of a convolution whose output is `input`."""
    arguments = input, weight, bias, stride, padding, output_padding, groups, dilation
    reason = _unsuited(input, weight, bias) or _unusual()
    if reason is not None:
        return _hand_over(name, reason, *arguments)
    rank = input.dim()
    steps, gaps, around, more = (_numbers(value, dims) for value in (stride, dilation, padding, output_padding))
    if (weight.dim() != dims + 2 or rank not in (dims + 1, dims + 2) or steps is None or gaps is None or around is None
            or more is None or not isinstance(groups, int) or groups < 1):
        return _hand_over(name, "the arguments don't match", *arguments)
    if any(not 0 <= more[i] < max(steps[i], gaps[i]) or steps[i] < 1 or gaps[i] < 1 or around[i] < 0 for i in range(dims)):
        return _hand_over(name, "the arguments don't match", *arguments)
    if input.numel() == 0 or weight.numel() == 0:
        return _hand_over(name, "a tensor is empty", *arguments)
    # A convolution of the result would compute more than the input where output_padding is a stride or more; with so much less
    # padding after, it computes the input.
    after = tuple(around[i] - more[i] // steps[i] * steps[i] for i in range(dims))
    if any(each < 0 for each in after):
        return _hand_over(name, "output_padding is larger than the padding makes up for", *arguments)
    device = input.device.type
    if _autocasts(device):
        input, weight, bias = _cast((input, weight, bias), device)
    settings = _settings._shared if _compiling() else _settings.current()
    y = input.unsqueeze(0) if rank == dims + 1 else input
    filter = weight.shape[2:]
    spatial = [(y.shape[2 + i] - 1) * steps[i] - 2 * around[i] + gaps[i] * (filter[i] - 1) + 1 + more[i] for i in range(dims)]
    if any(size < 1 for size in spatial):
        return _hand_over(name, "the result would be empty", *arguments)
    sizes = [y.shape[0], weight.shape[1] * groups, *spatial]
    padded = around if after == around else around + after
    x = _operators.dgrad(y, weight, bias, sizes, steps, padded, gaps, groups, module, settings, forward=True)
    return x.squeeze(0) if rank == dims + 1 else x


def conv1d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: _Numbers = 1, padding: Union[str, _Numbers] = 0,
           dilation: _Numbers = 1, groups: int = 1) -> Tensor:
    """torch.nn.functional.conv1d."""
    return convolution("conv1d", 1, "", input, weight, bias, stride, padding, dilation, groups)


def conv2d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: _Numbers = 1, padding: Union[str, _Numbers] = 0,
           dilation: _Numbers = 1, groups: int = 1) -> Tensor:
    """torch.nn.functional.conv2d."""
    return convolution("conv2d", 2, "", input, weight, bias, stride, padding, dilation, groups)


def conv3d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: _Numbers = 1, padding: Union[str, _Numbers] = 0,
           dilation: _Numbers = 1, groups: int = 1) -> Tensor:
    """torch.nn.functional.conv3d."""
    return convolution("conv3d", 3, "", input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: _Numbers = 1, padding: _Numbers = 0,
                     output_padding: _Numbers = 0, groups: int = 1, dilation: _Numbers = 1) -> Tensor:
    """torch.nn.functional.conv_transpose1d."""
    return transposed("conv_transpose1d", 1, "", input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: _Numbers = 1, padding: _Numbers = 0,
                     output_padding: _Numbers = 0, groups: int = 1, dilation: _Numbers = 1) -> Tensor:
    """torch.nn.functional.conv_transpose2d."""
    return transposed("conv_transpose2d", 2, "", input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: _Numbers = 1, padding: _Numbers = 0,
                     output_padding: _Numbers = 0, groups: int = 1, dilation: _Numbers = 1) -> Tensor:
    """torch.nn.functional.conv_transpose3d."""
    return transposed("conv_transpose3d", 3, "", input, weight, bias, stride, padding, output_padding, groups, dilation)


FUNCTIONS: Dict[str, Callable[..., Tensor]] = {
    each.__name__: each for each in (conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d)
}


# ---- torch.nn.grad ----

def _window(dims: int, stride: Any, padding: Any, dilation: Any, groups: Any) -> Optional[Tuple[Any, ...]]:
    """What the operators take; None: PyTorch is to say what is wrong with it."""
    steps, around, gaps = (_numbers(value, dims) for value in (stride, padding, dilation))
    if steps is None or around is None or gaps is None or not isinstance(groups, int):
        return None
    return steps, around, gaps, groups, "", _settings._shared if _compiling() else _settings.current()


def _input_gradient(dims: int) -> Callable[..., Tensor]:
    name = f"conv{dims}d_input"
    original: Callable[..., Tensor] = getattr(torch.nn.grad, name)

    def function(input_size: Any, weight: Tensor, grad_output: Tensor, stride: _Numbers = 1, padding: _Numbers = 0, dilation: _Numbers = 1,
                 groups: int = 1) -> Tensor:
        window = _window(dims, stride, padding, dilation, groups)
        if window is None or input_size is None or _unsuited(grad_output, weight, None) or _unusual():
            return original(input_size, weight, grad_output, stride, padding, dilation, groups)
        return _operators.dgrad(grad_output, weight, None, list(input_size), *window)

    function.__name__, function.__doc__ = name, f"torch.nn.grad.{name}."
    return function


def _weight_gradient(dims: int) -> Callable[..., Tensor]:
    name = f"conv{dims}d_weight"
    original: Callable[..., Tensor] = getattr(torch.nn.grad, name)

    def function(input: Tensor, weight_size: Any, grad_output: Tensor, stride: _Numbers = 1, padding: _Numbers = 0, dilation: _Numbers = 1,
                 groups: int = 1) -> Tensor:
        window = _window(dims, stride, padding, dilation, groups)
        if window is None or _unsuited(grad_output, input, None) or _unusual():
            return original(input, weight_size, grad_output, stride, padding, dilation, groups)
        return _operators.wgrad(input, grad_output, list(weight_size), *window)

    function.__name__, function.__doc__ = name, f"torch.nn.grad.{name}."
    return function


GRADIENTS: Dict[str, Callable[..., Tensor]] = {
    each.__name__: each for dims in (1, 2, 3) for each in (_input_gradient(dims), _weight_gradient(dims))
}
