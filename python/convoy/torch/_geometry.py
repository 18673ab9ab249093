"""Sizes, strides and problem strings of a convolution's tensors. Everything here runs once a problem.

A problem is x (N, C, spatial), w (K, C/groups, spatial) and y (N, K, spatial); fprop computes y, dgrad x, wgrad w. A
transposed convolution's forward pass is a dgrad: its input is y, its output x.
"""
from __future__ import annotations

import dataclasses
from typing import List, Optional, Sequence, Tuple

import torch

TYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
ALIGNMENT = 64  # bytes; that of PyTorch's allocators is no less

Sizes = Tuple[int, ...]


def split(padding: Sequence[int], dims: int) -> Tuple[Sizes, Sizes]:
    """Padding before and after, from one value a dimension or two: all those before, then all those after."""
    padding = tuple(padding)
    return (padding, padding) if len(padding) == dims else (padding[:dims], padding[dims:])


def output_sizes(x: Sequence[int], filter: Sequence[int], padding: Sequence[int], stride: Sequence[int],
                 dilation: Sequence[int]) -> List[int]:
    """Spatial sizes of y."""
    pre, post = split(padding, len(stride))
    return [(x[i] + pre[i] + post[i] - dilation[i] * (filter[i] - 1) - 1) // stride[i] + 1 for i in range(len(stride))]


@dataclasses.dataclass(frozen=True)
class Operand:
    """A tensor that is given."""

    shape: Sizes
    strides: Sizes
    dtype: torch.dtype


def looks_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether PyTorch would suggest channels_last for a tensor: channels innermost, then the last dimension, and so on outwards.

    Where sizes of 1 make both formats possible, the strides of those dimensions tell.
    """
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for i in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[i] == 0 or strides[i] < least or (i == 0 and least == strides[1]):
            return False
        least = strides[i] * max(shape[i], 1)
    return True


def packed_strides(shape: Sequence[int], channels_last: bool) -> List[int]:
    """Strides of a tensor without gaps; sizes of 0 count as 1."""
    order = [1, *range(len(shape) - 1, 1, -1), 0] if channels_last else range(len(shape) - 1, -1, -1)
    strides = [0] * len(shape)
    step = 1
    for i in order:
        strides[i] = step
        step = step * max(shape[i], 1) if isinstance(shape[i], int) else step * shape[i]
    return strides


def packed(operand: Operand, channels_last: bool) -> bool:
    """Whether a tensor has the strides of a format, those of dimensions of size 1 aside."""
    wanted = packed_strides(operand.shape, channels_last)
    return all(size == 1 or mine == theirs for size, mine, theirs in zip(operand.shape, operand.strides, wanted))


def describable(operand: Operand) -> bool:
    """Whether a problem can say where its elements are: not those of an expanded tensor, which share memory."""
    return all(size == 1 or stride > 0 for size, stride in zip(operand.shape, operand.strides))


def _text(operand: Operand, alignment: int) -> str:
    dims = "x".join(map(str, operand.shape))
    if packed(operand, False):
        layout = "nchw"
    elif packed(operand, True):
        layout = "nhwc"
    else:
        layout = "strides=" + "x".join(str(stride if size > 1 else 1) for size, stride in zip(operand.shape, operand.strides))
    return f"{TYPES[operand.dtype]},{dims},{layout}" + (f",align={alignment}" if alignment != ALIGNMENT else "")


def problem_text(name: str, x: Operand, w: Operand, y: Operand, padding: Sequence[int], stride: Sequence[int],
                 dilation: Sequence[int], groups: int, bias: bool, tf32: bool, alignment: int) -> str:
    """The problem string. `alignment` is that of all tensors that are given."""
    def numbers(values: Sequence[int]) -> str:
        return "x".join(map(str, values))

    pre, post = split(padding, len(stride))
    computed = {"fprop": "y", "dgrad": "x", "wgrad": "w"}[name]
    fields = [name] + [f"{which}={_text(operand, ALIGNMENT if which == computed else alignment)}"
                       for which, operand in (("x", x), ("w", w), ("y", y))]
    fields += [f"pad={numbers(pre)}/{numbers(post)}", f"stride={numbers(stride)}", f"dilation={numbers(dilation)}", f"groups={groups}"]
    if tf32 and x.dtype == torch.float32:
        fields.append("math=tf32")
    if bias:
        narrow = x.dtype in (torch.float16, torch.bfloat16)  # PyTorch's bias has the tensors' type
        fields.append("bias=out" if narrow else "bias=1")
    return ":".join(fields)


def mismatch(x: Sequence[int], w: Sequence[int], y: Sequence[int], padding: Sequence[int], stride: Sequence[int],
             dilation: Sequence[int], groups: int, bias: Optional[Sequence[int]], biased: int) -> Optional[str]:
    """Why these sizes make no convolution that Convoy is asked about; None: they do. `biased` is the channels that bias has."""
    dims = len(x) - 2
    pre, post = split(padding, dims)
    if dims not in (1, 2, 3) or len(w) != len(x) or len(y) != len(x):
        return f"the tensors have {len(x)}, {len(w)} and {len(y)} dimensions"
    if not len(stride) == len(dilation) == len(pre) == len(post) == dims:
        return f"stride, padding and dilation are not {dims} numbers each"
    if groups < 1 or min(stride) < 1 or min(dilation) < 1 or min(*pre, *post) < 0:
        return "groups, stride or dilation is below 1, or padding is negative"
    if min(*x, *w, *y) < 1:
        return "a tensor is empty, or would be"
    if x[0] != y[0] or x[1] != w[1] * groups or y[1] != w[0] or w[0] % groups:
        return "batch or channels of the tensors don't match"
    if list(y[2:]) != output_sizes(x[2:], w[2:], padding, stride, dilation):
        return "sizes of the tensors don't match"
    if bias is not None and tuple(bias) != (biased,):
        return f"bias has the sizes {list(bias)}, not [{biased}]"
    return None
