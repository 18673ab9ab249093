"""The three passes by PyTorch's own convolutions, for what Convoy is not asked about or can't run."""
from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from convoy.torch import _geometry

_convolution: Callable[..., Tensor] = torch.ops.aten.convolution.default
_backward: Callable[..., Tuple[Tensor, ...]] = torch.ops.aten.convolution_backward.default


def _padded(x: Tensor, padding: Sequence[int], dims: int) -> Tuple[Tensor, List[int]]:
    """x and the padding of both its sides that is left: PyTorch pads both sides alike."""
    pre, post = _geometry.split(padding, dims)
    if pre == post:
        return x, list(pre)
    amounts = [amount for i in reversed(range(dims)) for amount in (pre[i], post[i])]
    return torch.constant_pad_nd(x, amounts), [0] * dims


def fprop(x: Tensor, w: Tensor, bias: Optional[Tensor], sizes: None, stride: Sequence[int], padding: Sequence[int],
          dilation: Sequence[int], groups: int) -> Tensor:
    x, both = _padded(x, padding, len(stride))
    return _convolution(x, w, bias, list(stride), both, list(dilation), False, [0] * len(stride), groups)


def dgrad(y: Tensor, w: Tensor, bias: Optional[Tensor], sizes: Sequence[int], stride: Sequence[int], padding: Sequence[int],
          dilation: Sequence[int], groups: int) -> Tensor:
    dims = len(stride)
    pre, post = _geometry.split(padding, dims)
    symmetric = pre == post
    left = list(pre) if symmetric else [0] * dims
    whole = list(sizes[2:]) if symmetric else [sizes[2 + i] + pre[i] + post[i] for i in range(dims)]
    least = [(y.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1 - 2 * left[i] for i in range(dims)]
    more = [whole[i] - least[i] for i in range(dims)]
    x = _convolution(y, w, bias, list(stride), left, list(dilation), True, more, groups)
    if not symmetric:
        for i in range(dims):
            x = x.narrow(2 + i, pre[i], sizes[2 + i])
    return x


def wgrad(x: Tensor, y: Tensor, bias: None, sizes: Sequence[int], stride: Sequence[int], padding: Sequence[int],
          dilation: Sequence[int], groups: int) -> Tensor:
    x, both = _padded(x, padding, len(stride))
    w = x.new_empty(list(sizes))  # for its sizes
    return _backward(y, x, w, None, list(stride), both, list(dilation), False, [0] * len(stride), groups, [False, True, False])[1]


PASSES = {"fprop": fprop, "dgrad": dgrad, "wgrad": wgrad}
