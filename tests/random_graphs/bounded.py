"""ONNX operators in f64 with a bound on what f32, or with CONVOY_RANDOM_TYPE=f16 f16, may make of each element.

A `Bounded` has the exact value and `e`, the most that a right result may be off: errors that come in, carried through the operator, and
the operator's own roundings (Higham, Accuracy and Stability of Numerical Algorithms, 3.1; sums as in src/core/tolerance.h). Where the
exact value is infinite or no number only that is right; where the type may overflow on the way, or a comparison could go either way, `e`
is infinite: anything is right. In f16 sums are in f32, and each output is rounded. Integers are exact, but quantized values may be one
step off (a tie, or a bias that is rounded with its scale).
"""

import itertools
import math
import os

import numpy as np

TYPE = os.environ.get("CONVOY_RANDOM_TYPE", "f32")
SUM = 2.0**-23  # a rounding in f32, in which sums and functions are computed, and something
# A rounding of an output, what may count as zero, and from where on it may leave the type's range.
U, TINY, LIMIT = {"f32": (SUM, 2.0**-126, 2.0**127), "f16": (2.0**-10, 2.0**-24, 2.0**15)}[TYPE]
# Of cpu.winograd (docs/selection.md, special values): its roundings are of a tile's largest value, but of no more than that of a window.
WINOGRAD_AMPLIFICATION, WINOGRAD_REACH = 16, 1024


class Invalid(Exception):
    """The graph is not valid for these sizes."""


class Bounded:
    def __init__(self, v, e=None, kind="real"):
        self.v = np.asarray(v, np.float64)
        self.e = np.zeros(self.v.shape) if e is None else np.broadcast_to(np.asarray(e, np.float64), self.v.shape)
        self.kind = kind  # "real", "f32", "u8", "s8", "s64"

    @property
    def shape(self):
        return self.v.shape


def wrong(actual, right):
    """What is wrong with an output, or None."""
    if tuple(actual.shape) != right.shape:
        return f"sizes {actual.shape}, right are {right.shape}"
    value = actual.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (value == right.v) | (np.isnan(value) & np.isnan(right.v))
        near = np.isfinite(value) & (np.abs(value - right.v) <= right.e)
    bad = ~(same | near | np.isinf(right.e))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size}, first at {list(at)}: {value[at]!r}, right is {right.v[at]!r} +- {right.e[at]:.3g}"


def finish(v, e, like="real"):
    """A value with error e before it is rounded."""
    with np.errstate(all="ignore"):
        e = np.where(np.isnan(e), np.inf, e)
        e = np.where(np.isfinite(v), e + U * np.abs(v) + TINY, e)
        e = np.where(np.isfinite(v) & (np.abs(v) + e >= LIMIT), np.inf, e)
    return Bounded(v, e, like)


def counted(terms):
    return min(terms + 1, 8 * math.sqrt(terms + 1))


def finite(v):
    return np.where(np.isfinite(v), v, 0)


# ---- windows

def window_sizes(dims, kernel, strides, dilations, pads, ceil_mode=0, auto_pad="NOTSET", pool=True):
    """Output dims and pads (before, after)."""
    n = len(kernel)
    out, before, after = [], [], []
    for d in range(n):
        extent = (kernel[d] - 1) * dilations[d] + 1
        if auto_pad.startswith("SAME"):
            size = -(-dims[d] // strides[d])
            total = max(0, (size - 1) * strides[d] + extent - dims[d])
            first = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            out.append(size), before.append(first), after.append(total - first)
            continue
        pre, post = (0, 0) if auto_pad == "VALID" else (pads[d], pads[n + d])
        room = dims[d] + pre + post - extent
        size = (-(-room // strides[d]) if ceil_mode else room // strides[d]) + 1
        if ceil_mode and size > 0 and (size - 1) * strides[d] >= dims[d] + pre:
            size -= 1
        if size < 1 and not (pool and ceil_mode and size == 0):
            raise Invalid("no window fits")
        out.append(size), before.append(pre), after.append(post)
    return out, before, after


def taps(x, kernel, strides, dilations, before, out, fill):
    """For each tap the elements that it reads, `fill` outside, and which of them are inside."""
    dims = x.shape[2:]
    for tap in itertools.product(*map(range, kernel)):
        index, inside = [], np.ones(out, bool)
        for d, t in enumerate(tap):
            at = np.arange(out[d]) * strides[d] + t * dilations[d] - before[d]
            good = (at >= 0) & (at < dims[d])
            index.append(np.clip(at, 0, max(dims[d] - 1, 0)))
            inside = inside & good.reshape([-1 if i == d else 1 for i in range(len(out))])
        if 0 in dims:
            yield tap, np.full(x.shape[:2] + tuple(out), fill), np.zeros(out, bool)
            continue
        yield tap, np.where(inside, x[(slice(None), slice(None)) + np.ix_(*index)], fill), inside


def sum_of_products(x, w, groups, kernel, strides, dilations, before, out):
    """conv(x, w) without a bias; what lies outside is left out."""
    n, k = x.shape[0], w.shape[0]
    y = np.zeros((n, groups, k // groups) + tuple(out))
    for tap, values, _ in taps(x, kernel, strides, dilations, before, out, 0.0):
        values = values.reshape((n, groups, x.shape[1] // groups, int(np.prod(out))))
        weights = w[(slice(None), slice(None)) + tap].reshape(groups, k // groups, w.shape[1])
        with np.errstate(all="ignore"):
            # Not by a matrix product, whose libraries have their own ideas of infinities.
            product = (weights[None, :, :, :, None] * values[:, :, None, :, :]).sum(axis=3)
            y = y + product.reshape(y.shape)
    return y.reshape((n, k) + tuple(out))


def winograd_roundings(size, weight, strides, dilations, before, out):
    """What counts besides sum |x*w| where cpu.winograd may run: of finite magnitudes."""
    kernel = weight.shape[2:]
    if any(s != 1 for s in strides + dilations) or 3 not in kernel or not size.size:
        return 0.0
    largest = np.zeros(size.shape[:1] + (1,) + tuple(out))
    for _, values, _ in taps(size, kernel, strides, dilations, before, out, 0.0):
        largest = np.maximum(largest, values.max(axis=1, keepdims=True))
    reach = np.minimum(size.max(), WINOGRAD_REACH * np.maximum(largest, 1))
    return WINOGRAD_AMPLIFICATION * reach * weight.sum(axis=tuple(range(1, weight.ndim))).reshape((1, -1) + (1,) * len(kernel))


def conv(x, w, b=None, *, kernel_shape=None, strides=None, dilations=None, pads=None, group=1, auto_pad="NOTSET"):
    spatial = len(x.shape) - 2
    kernel = w.shape[2:]
    strides, dilations, pads = strides or [1] * spatial, dilations or [1] * spatial, pads or [0] * 2 * spatial
    out, before, _ = window_sizes(x.shape[2:], kernel, strides, dilations, pads, 0, auto_pad, pool=False)
    apply = lambda a, c: sum_of_products(a, c, group, kernel, strides, dilations, before, out)  # noqa: E731
    with np.errstate(all="ignore"):
        v = apply(x.v, w.v)
        size, weight = np.abs(finite(x.v)), np.abs(finite(w.v))
        total = apply(size, weight)
        e = apply(finite(x.e), weight) + apply(size + finite(x.e), finite(w.e))
        unsure = apply(np.isinf(x.e) * 1.0, np.ones(w.shape)) + apply(np.ones(x.shape), np.isinf(w.e) * 1.0)
        if TYPE == "f16" and group > 1:  # tensor cores may mix groups (docs/selection.md, SPREADS_SPECIAL_VALUES)
            lost = ~np.isfinite(x.v).all(axis=1, keepdims=True) * 1.0
            unsure = unsure + sum_of_products(lost, np.ones((1, 1) + tuple(kernel)), 1, kernel, strides, dilations, before, out)
        terms = int(np.prod(w.shape[1:]))
        rounding = total + winograd_roundings(size, weight, strides, dilations, before, out)
        if b is not None:
            bias = b.v.reshape((1, -1) + (1,) * spatial)
            v, total = v + bias, total + np.abs(bias)
            rounding = rounding + np.abs(bias)
            e = e + b.e.reshape(bias.shape)
        e = e + (counted(terms + 1) * SUM + U) * rounding + terms * TINY  # U: of weights that a factor is folded into
        e = np.where((unsure > 0) | (total + e >= LIMIT), np.inf, e)
    return finish(v, e)


def conv_transpose(x, w, b=None, *, strides=None, dilations=None, pads=None, group=1, output_padding=None):
    spatial = len(x.shape) - 2
    kernel = w.shape[2:]
    strides, dilations, pads = strides or [1] * spatial, dilations or [1] * spatial, pads or [0] * 2 * spatial
    more = output_padding or [0] * spatial
    extent = [(kernel[d] - 1) * dilations[d] + 1 for d in range(spatial)]
    out = [(x.shape[2 + d] - 1) * strides[d] + extent[d] + more[d] - pads[d] - pads[spatial + d] for d in range(spatial)]
    if min(out) < 1:
        raise Invalid("no output")
    # The convolution of x, with zeros between its elements, and the flipped weights.
    def spread(a):
        dims = [max(0, (a.shape[2 + d] - 1) * strides[d] + 1) for d in range(spatial)]
        wide = np.zeros(a.shape[:2] + tuple(dims))
        wide[(slice(None), slice(None)) + tuple(slice(None, None, s) for s in strides)] = a
        return wide

    def flip(a):
        c, k = a.shape[:2]
        a = a.reshape((group, c // group, k) + kernel).swapaxes(1, 2).reshape((group * k, c // group) + kernel)
        return a[(slice(None), slice(None)) + (slice(None, None, -1),) * spatial]

    before = [extent[d] - 1 - pads[d] for d in range(spatial)]
    # What lies between is no element of x: its products with weights are none, so weights are finite here.
    apply = lambda a, c: sum_of_products(spread(a), flip(c), group, kernel, [1] * spatial, dilations, before, out)  # noqa: E731
    with np.errstate(all="ignore"):
        v = apply(x.v, w.v)
        size, weight = np.abs(finite(x.v)), np.abs(finite(w.v))
        total = apply(size, weight)
        terms = x.shape[1] // group * int(np.prod(kernel))
        rounding = total + winograd_roundings(size, flip(weight), strides, dilations, before, out)
        e = apply(finite(x.e), weight) + (counted(terms + 1) * SUM + U) * rounding + terms * TINY
        unsure = apply(np.isinf(x.e) * 1.0, np.ones(w.shape))
        if b is not None:
            bias = b.v.reshape((1, -1) + (1,) * spatial)
            v, total, e = v + bias, total + np.abs(bias), e + (counted(terms + 1) * SUM + U) * np.abs(bias)
        e = np.where((unsure > 0) | (total + e >= LIMIT), np.inf, e)
    return finish(v, e)


def max_pool(x, *, kernel_shape, strides=None, dilations=None, pads=None, ceil_mode=0, auto_pad="NOTSET"):
    """A NaN is passed over, as by ONNX's reference; where nothing is left, anything is right."""
    spatial = len(kernel_shape)
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    out, before, _ = window_sizes(x.shape[2:], kernel_shape, strides, dilations, pads or [0] * 2 * spatial, ceil_mode, auto_pad)
    best, low, high = (np.full(x.shape[:2] + tuple(out), -np.inf) for _ in range(3))
    found = np.zeros(best.shape, bool)
    unsure = np.zeros(best.shape, bool)
    numbers = np.where(np.isnan(x.v), -np.inf, x.v)
    usable = (~np.isnan(x.v)).astype(float)
    each = (taps(a, kernel_shape, strides, dilations, before, out, fill)
            for a, fill in ((numbers, -np.inf), (finite(x.e), 0.0), (np.isinf(x.e) * 1.0, 0.0), (usable, 0.0)))
    for (_, values, _), (_, errors, _), (_, lost, _), (_, some, _) in zip(*each):
        best = np.maximum(best, values)
        low, high = np.maximum(low, values - errors), np.maximum(high, values + errors)
        unsure, found = unsure | (lost > 0), found | (some > 0)
    with np.errstate(all="ignore"):
        e = np.where(np.isfinite(best), np.maximum(high - best, best - low), 0)
    return Bounded(best, np.where(unsure | ~found, np.inf, e), x.kind)


def average_pool(x, *, kernel_shape, strides=None, dilations=None, pads=None, ceil_mode=0, auto_pad="NOTSET", count_include_pad=0):
    spatial = len(kernel_shape)
    strides, dilations, pads = strides or [1] * spatial, dilations or [1] * spatial, pads or [0] * 2 * spatial
    out, before, after = window_sizes(x.shape[2:], kernel_shape, strides, dilations, pads, ceil_mode, auto_pad)
    shape = x.shape[:2] + tuple(out)
    v, size, e, count = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(out)
    with np.errstate(all="ignore"):
        both = (taps(a, kernel_shape, strides, dilations, before, out, 0.0) for a in (x.v, x.e))
        for (tap, values, inside), (_, errors, _) in zip(*both):
            v, size, e = v + values, size + np.abs(finite(values)), e + errors
            if count_include_pad:  # what lies behind the end padding does not count
                inside = np.ones(out, bool)
                for d, t in enumerate(tap):
                    at = np.arange(out[d]) * strides[d] + t * dilations[d]
                    good = at < x.shape[2 + d] + before[d] + after[d]
                    inside = inside & good.reshape([-1 if i == d else 1 for i in range(spatial)])
            count = count + inside
        if (count == 0).any():
            raise Invalid("a window reads nothing")
        terms = int(np.prod(kernel_shape))
        e = np.where(size + e >= LIMIT, np.inf, e / count + counted(terms + 1) * SUM * size / count)
        return finish(v / count, e)


def lp_pool(x, *, kernel_shape, strides=None, pads=None, dilations=None, ceil_mode=0, p=2):
    spatial = len(kernel_shape)
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    out, before, _ = window_sizes(x.shape[2:], kernel_shape, strides, dilations, pads or [0] * 2 * spatial, ceil_mode)
    v, e = (np.zeros(x.shape[:2] + tuple(out)) for _ in range(2))
    with np.errstate(all="ignore"):
        both = (taps(a, kernel_shape, strides, dilations, before, out, 0.0) for a in (x.v, x.e))
        for (_, values, _), (_, errors, _) in zip(*both):
            v, e = v + np.abs(values) ** p, e + errors
        terms = int(np.prod(kernel_shape))
        root = v ** (1 / p)
        # |x|^p leaves f32's range sooner than x does.
        lost = (np.isfinite(v) & (v >= LIMIT)) | ((v > 0) & (v < 2.0**-100))
        return finish(root, np.where(lost, np.inf, e + 4 * counted(terms + 1) * SUM * root))


# ---- quantization

RANGES = {"u8": (0, 255), "s8": (-128, 127)}


def per_axis(a, x, axis):
    return a.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)]) if a.ndim == 1 and a.size > 1 else a.reshape(())


def quantize(x, scale, zero, *, axis=1):
    low, high = RANGES[zero.kind]
    s, z = per_axis(scale.v, x.v, axis), per_axis(zero.v, x.v, axis)
    with np.errstate(all="ignore"):
        exact = x.v / s
        v = np.clip(np.rint(exact) + z, low, high)
        e = np.ceil(np.minimum((x.e + np.abs(x.v) * 4 * U) / s + 0.5, 1000)) * 1.0
        e = np.where(np.isinf(x.e), np.inf, np.maximum(e, 1))
        # Far outside the range nothing moves the result.
        e = np.where((exact - e + z > high + 1) | (exact + e + z < low - 1), 0, e)
    return Bounded(np.where(np.isnan(v), 0, v), np.where(np.isnan(x.v), np.inf, np.minimum(e, 255)), zero.kind)


def dequantize(x, scale, zero=None, *, axis=1):
    s = per_axis(scale.v, x.v, axis)
    z = 0 if zero is None else per_axis(zero.v, x.v, axis)
    return finish((x.v - z) * s, x.e * s)
