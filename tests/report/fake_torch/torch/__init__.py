"""As much of PyTorch as the scripts that `convoy repro --pytorch` writes use: shapes, strides and bounds are checked, nothing is computed.
What was asked of it is printed, one line a call, so that a test can look at it."""
import sys
import types

__version__ = "fake"
float64, float32, float16, bfloat16 = (types.SimpleNamespace(name=name, size=size) for name, size in
                                       (("float64", 8), ("float32", 4), ("float16", 2), ("bfloat16", 2)))


def said(text):
    print("asked:", text)


class Tensor:
    def __init__(self, sizes, dtype=float32, strides=None, offset=0, span=None, device="cpu"):
        self.shape, self.dtype, self.device, self.offset = tuple(sizes), dtype, device, offset
        self.strides = tuple(strides if strides is not None else row_major(sizes))
        self.span = span if span is not None else count(sizes)
        self.wants_grad, self.grad, self.made_from = False, None, None

    def element_size(self):
        return self.dtype.size

    def dim(self):
        return len(self.shape)

    def to(self, where):
        if isinstance(where, str):
            return Tensor(self.shape, self.dtype, self.strides, self.offset, self.span, where)
        return Tensor(self.shape, where, self.strides, self.offset, self.span, self.device)

    def as_strided(self, sizes, strides, offset):
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        assert last < self.span, f"{sizes} with strides {strides} from {offset} needs {last + 1} elements, there are {self.span}"
        return Tensor(sizes, self.dtype, strides, offset, self.span, self.device)

    def flip(self, dims):
        return Tensor(self.shape, self.dtype, device=self.device)

    def detach(self):
        return Tensor(self.shape, self.dtype, self.strides, self.offset, self.span, self.device)

    def requires_grad_(self):
        self.wants_grad = True
        return self

    def backward(self, gradient):
        assert gradient.shape == self.shape and gradient.dtype is self.dtype, (gradient.shape, self.shape)
        for source in self.made_from or []:
            source.grad = Tensor(source.shape, source.dtype)
            source.backward(source.grad)


def count(sizes):
    product = 1
    for size in sizes:
        product *= size
    return product


def row_major(sizes):
    return [count(sizes[i + 1:]) for i in range(len(sizes))]


def out_sizes(x, w, stride, padding, dilation, groups):
    assert x.dtype is w.dtype, "one type"
    assert x.shape[1] == w.shape[1] * groups and w.shape[0] % groups == 0, (x.shape, w.shape, groups)
    spatial = len(x.shape) - 2
    assert len(w.shape) == len(x.shape) and len(stride) == len(padding) == len(dilation) == spatial
    return [x.shape[0], w.shape[0]] + [(x.shape[i + 2] + 2 * padding[i] - dilation[i] * (w.shape[i + 2] - 1) - 1) // stride[i] + 1
                                       for i in range(spatial)]


def empty(sizes, dtype=float32):
    return Tensor(sizes, dtype)


def zeros(*sizes, dtype=float32, device="cpu"):
    return Tensor(sizes, dtype, device=device)


def zeros_like(other):
    return Tensor(other.shape, other.dtype)


def randn(*sizes, generator=None):
    return Tensor(sizes)


class Generator:
    def manual_seed(self, seed):
        return self


def cudnn_convolution_relu(x, w, bias, stride, padding, dilation, groups):
    assert bias.shape == (w.shape[0],) and bias.dtype is x.dtype
    said(f"cudnn_convolution_relu {list(x.shape)}")
    return Tensor(out_sizes(x, w, stride, padding, dilation, groups), x.dtype)


def cudnn_convolution_add_relu(x, w, z, alpha, bias, stride, padding, dilation, groups):
    assert list(z.shape) == out_sizes(x, w, stride, padding, dilation, groups)
    said(f"cudnn_convolution_add_relu {list(x.shape)}")
    return Tensor(z.shape, x.dtype)


def convolution_backward(y, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    assert list(y.shape) == out_sizes(x, w, stride, padding, dilation, groups), (y.shape, out_sizes(x, w, stride, padding, dilation, groups))
    assert not transposed and len(output_padding) == len(stride)
    said(f"convolution_backward {mask} strides {list(x.strides)}")
    return [Tensor(x.shape, x.dtype) if mask[0] else None, Tensor(w.shape, w.dtype) if mask[1] else None, None]


ops = types.SimpleNamespace(aten=types.SimpleNamespace(convolution_backward=convolution_backward))
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900, benchmark=False, deterministic=False, allow_tf32=True))
cuda = types.SimpleNamespace(synchronize=lambda: None)
sys.modules.setdefault("torch.backends", backends)
