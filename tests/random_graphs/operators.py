"""The other operators of random graphs as `Bounded` has them."""

import numpy as np
from bounded import LIMIT, RANGES, SUM, U, Bounded, Invalid, average_pool, conv, conv_transpose, dequantize, finish, lp_pool, max_pool, quantize


def monotone(f, lipschitz=1.0, accuracy=4 * SUM):
    """An element-wise function that does not fall, or only a little: its slope bounds what an error becomes."""
    def apply(x, **attributes):
        with np.errstate(all="ignore"):
            v = f(x.v, **attributes)
            slope = lipschitz(**attributes) if callable(lipschitz) else lipschitz
            return finish(v, np.where(x.e > 0, x.e * slope, 0) + accuracy * np.abs(np.where(np.isfinite(v), v, 0)) + accuracy)
    return apply


def exact(f):
    """Moves elements, or picks among them: errors go along."""
    def apply(*inputs, **attributes):
        return Bounded(f(*(x.v for x in inputs), **attributes), f(*(np.broadcast_to(x.e, x.v.shape) for x in inputs), **attributes), inputs[0].kind)
    return apply


def relu(x):
    with np.errstate(all="ignore"):
        v = np.where(np.isnan(x.v), x.v, np.maximum(x.v, 0))
    return Bounded(v, np.where((x.v + x.e <= 0), 0, x.e))


def leaky_relu(x, alpha=0.01):
    with np.errstate(all="ignore"):
        return finish(np.where(x.v < 0, alpha * x.v, x.v), x.e * max(1, abs(alpha)))


def clip(x, low=None, high=None):
    low, high = -np.inf if low is None else float(low.v), np.inf if high is None else float(high.v)
    with np.errstate(all="ignore"):
        v = np.where(np.isnan(x.v), x.v, np.minimum(np.maximum(x.v, low), high))
        return Bounded(v, np.where((x.v - x.e >= high) | (x.v + x.e <= low), 0, np.minimum(x.e, np.inf)))


def added(sign):
    def apply(a, b):
        with np.errstate(all="ignore"):
            return finish(a.v + sign * b.v, a.e + b.e)
    return apply


def mul(a, b):
    with np.errstate(all="ignore"):
        e = np.abs(a.v) * b.e + np.abs(b.v) * a.e + a.e * b.e
        # Where a factor is infinite for sure an error of the other matters only if that may change its sign.
        sure = (np.isinf(a.v) & (np.abs(b.v) > b.e)) | (np.isinf(b.v) & (np.abs(a.v) > a.e))
        known = (np.isnan(a.v) | np.isnan(b.v))
        return finish(a.v * b.v, np.where((sure | known) & ~np.isinf(a.e) & ~np.isinf(b.e), 0, e))


def extreme(pick):
    def apply(a, b):
        """A NaN operand wins."""
        with np.errstate(all="ignore"):
            v = pick(a.v, b.v)
        return Bounded(v, np.maximum(*np.broadcast_arrays(a.e, b.e)))
    return apply


def batch_normalization(x, scale, bias, mean, variance, epsilon=1e-5):
    by = lambda a: a.v.reshape((1, -1) + (1,) * (x.v.ndim - 2))  # noqa: E731
    factor = by(scale) / np.sqrt(by(variance) + epsilon)
    with np.errstate(all="ignore"):
        v = (x.v - by(mean)) * factor + by(bias)
        size = np.abs(np.where(np.isfinite(x.v), x.v, 0) * factor) + np.abs(by(mean) * factor) + np.abs(by(bias))
        e = x.e * np.abs(factor) + 12 * U * size
        # A factor that is folded into a convolution meets its sums sooner.
        return finish(v, np.where(size * 1e3 >= LIMIT, np.inf, e))


def global_pool(f):
    def apply(x):
        axes = tuple(range(2, x.v.ndim))
        if 0 in x.shape[2:]:
            raise Invalid("nothing to pool")
        return f(x, axes)
    return apply


def global_average(x, axes):
    with np.errstate(all="ignore"):
        terms = int(np.prod([x.shape[a] for a in axes]))
        size = np.abs(np.where(np.isfinite(x.v), x.v, 0)).sum(axes, keepdims=True)
        e = x.e.sum(axes, keepdims=True)
        e = np.where(size + e >= LIMIT, np.inf, e / terms + min(terms + 1, 8 * (terms + 1) ** 0.5) * SUM * size / terms)
        return finish(x.v.mean(axes, keepdims=True), e)


def global_max(x, axes):
    """A NaN wins, as by ONNX's reference."""
    most = max_pool(x, kernel_shape=list(x.shape[2:]))
    nan = np.isnan(x.v).any(axes, keepdims=True)
    return Bounded(np.where(nan, np.nan, most.v), np.where(nan & ~np.isinf(x.e).any(axes, keepdims=True), 0, most.e))


def slice_(x, starts, ends, axes, steps):
    index = [slice(None)] * x.ndim
    for s, e, a, t in zip(*(v.astype(int).tolist() for v in (starts, ends, axes, steps))):
        n = x.shape[a]
        s, e = (s + n if s < 0 else s), (e + n if e < 0 else e)
        s, e = (np.clip(s, 0, n), np.clip(e, 0, n)) if t > 0 else (np.clip(s, 0, n - 1), np.clip(e, -1, n - 1))
        index[a] = slice(int(s), None if t < 0 and e == -1 else int(e), t)
    return x[tuple(index)]


def pad(x, pads, value, *, mode="constant"):
    """Cuts first."""
    n = x.v.ndim
    pads = pads.v.astype(int).tolist()
    cut = tuple(slice(-min(0, pads[d]), x.shape[d] + min(0, pads[n + d])) for d in range(n))
    if any(c.stop < c.start for c in cut):
        raise Invalid("cut beyond the end")
    width = [(max(0, pads[d]), max(0, pads[n + d])) for d in range(n)]
    v, e = x.v[cut], x.e[cut]
    if mode == "constant":
        return Bounded(np.pad(v, width, constant_values=float(value.v)), np.pad(e, width), x.kind)
    if any(size == 0 and w != (0, 0) for size, w in zip(v.shape, width)):
        raise Invalid("nothing to pad with")
    return Bounded(np.pad(v, width, mode=mode), np.pad(e, width, mode=mode), x.kind)


def resize(x, scales, *, mode="nearest", coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_floor"):
    v, e, size = x.v, x.e, np.abs(np.where(np.isfinite(x.v), x.v, 0))
    for axis in range(2, v.ndim):
        factor = float(np.float32(scales.v[axis]))
        n = v.shape[axis]
        out = int(np.floor(n * factor))
        if factor == 1:
            continue
        if out < 1 or n < 1:
            raise Invalid("nothing to resize")
        o = np.arange(out)
        at = {"half_pixel": (o + 0.5) / factor - 0.5, "asymmetric": o / factor,
              "pytorch_half_pixel": (o + 0.5) / factor - 0.5 if out > 1 else o * 0.0,
              # As ONNX's reference and node tests have it: the size before it is rounded down.
              "align_corners": o * (n - 1) / (n * factor - 1) if out > 1 else o * 0.0}[coordinate_transformation_mode]
        if mode == "nearest":
            rounded = {"round_prefer_floor": np.ceil(at - 0.5), "floor": np.floor(at), "ceil": np.ceil(at),
                       "round_prefer_ceil": np.floor(at + 0.5)}[nearest_mode]
            index = np.clip(rounded, 0, n - 1).astype(int)
            v, e, size = (np.take(a, index, axis) for a in (v, e, size))
            continue
        at = np.clip(at, 0, n - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, n - 1)
        t = (at - low).reshape([-1 if d == axis else 1 for d in range(v.ndim)])
        with np.errstate(all="ignore"):
            first, second = np.take(v, low, axis), np.take(v, high, axis)
            v = first * (1 - t) + second * t
            e = np.take(e, low, axis) * (1 - t) + np.take(e, high, axis) * t
            e = np.where(np.isnan(e), np.inf, e)
            # A weight of 0 times an infinity, or none: implementations differ in which they compute.
            e = np.where((t == 0) & ~np.isfinite(second), np.inf, e)
            size = np.maximum(np.take(size, low, axis), np.take(size, high, axis))
    return finish(v, e + (64 * SUM * size if mode == "linear" else 0)) if mode == "linear" else Bounded(v, e, x.kind)


def softmax(x, axis=-1):
    if not x.v.size:
        return x
    with np.errstate(all="ignore"):
        v = np.exp(x.v - x.v.max(axis, keepdims=True))
        v = v / v.sum(axis, keepdims=True)
        size = np.abs(np.where(np.isfinite(x.v), x.v, 0)).max(axis, keepdims=True)
        e = v * np.minimum(2 * x.e.max(axis, keepdims=True), 1e30) * 2 + 64 * SUM + v * size * 4 * SUM
        # Differences of infinities, and of numbers that differ by more than f32 has.
        lost = ~np.isfinite(x.v).all(axis, keepdims=True) | (x.e.max(axis, keepdims=True) > 0.1)
        return finish(v, np.where(lost | np.isnan(v), np.inf, e))


def split(x, sizes, *, axis):
    parts = np.cumsum(sizes.v.astype(int))[:-1]
    if int(sizes.v.sum()) != x.shape[axis]:
        raise Invalid("split sizes")
    return [Bounded(v, e, x.kind) for v, e in zip(np.split(x.v, parts, axis), np.split(x.e, parts, axis))]


def concat(*inputs, axis):
    others = {tuple(s for d, s in enumerate(x.shape) if d != axis) for x in inputs}
    if len(others) > 1:
        raise Invalid("concat dims")
    return exact(lambda *a: np.concatenate(a, axis))(*inputs)


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)) * np.where(np.isnan(x), np.nan, 1))


def hard_swish(x):
    return np.where(x == -np.inf, np.nan, x * np.clip(x / 6 + 0.5, 0, 1))


def swish_error(x):
    """x * sigmoid(x) and the like at -inf: 0 or NaN, as it is written."""
    with np.errstate(all="ignore"):
        v = hard_swish(x.v)
        return finish(v, np.where(np.isneginf(x.v), np.inf, x.e * 1.5 + 8 * U * (np.abs(x.v) + 1)))


OPERATORS = {
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool, "AveragePool": average_pool, "LpPool": lp_pool,
    "GlobalAveragePool": global_pool(global_average), "GlobalMaxPool": global_pool(global_max),
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize,
    "Relu": relu, "LeakyRelu": leaky_relu, "Clip": clip, "Add": added(1), "Sub": added(-1), "Mul": mul,
    "Max": extreme(np.maximum), "Min": extreme(np.minimum), "BatchNormalization": batch_normalization,
    "Sigmoid": monotone(sigmoid, 0.25), "Tanh": monotone(np.tanh), "HardSwish": swish_error,
    "HardSigmoid": monotone(lambda x: np.where(np.isnan(x), x, np.clip(0.2 * x + 0.5, 0, 1)), 0.2),
    "Neg": exact(np.negative), "Abs": exact(np.abs), "Identity": exact(lambda x: x),
    "Softmax": softmax, "Concat": concat, "Split": split, "Slice": exact(slice_), "Pad": pad, "Resize": resize,
    "Transpose": exact(lambda x, perm: x.transpose(perm)),
    "Flatten": exact(lambda x: x.reshape(x.shape[0], int(np.prod(x.shape[1:])))),
}
OPERATORS["Neg"] = lambda x: Bounded(-x.v, x.e, x.kind)
OPERATORS["Abs"] = lambda x: Bounded(np.abs(x.v), x.e, x.kind)
OPERATORS["Slice"] = lambda x, s, e, a, t: Bounded(slice_(x.v, s.v, e.v, a.v, t.v), slice_(x.e, s.v, e.v, a.v, t.v), x.kind)
__all__ = ["OPERATORS", "RANGES"]
