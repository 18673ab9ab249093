"""Operators alone, beside ONNX Runtime: over axes, ranks 3 to 5, odd sizes and element types.

    python bench/op_sweep.py [--forms GLOB ...] [--threads 1] [--rounds 5] [--seconds 0.02] [--output FILE] [--random COUNT [--seed 1]]

Each form is a model of one operator whose input has about half a million elements, run by both in one process and in turns. What counts is
the median over the rounds of ONNX Runtime's time over Convoy's; each round gives both one block of runs that lasts about `seconds`. Forms of
bf16, which ONNX Runtime does not run on processors, are compared with its time in f32. Convoy's inputs
and outputs lie in memory of the caller's, as the C interface has it: Python's run copies what ONNX Runtime hands out. A form is named operator/what/dims/type. Outputs are
compared, too. --random takes COUNT forms that random_forms.py draws by the seed instead. --output keeps the file's rows of forms that are not run. Exit 1 where outputs differ or a ratio is below 0.97.

Each form is also compared with what it could take at best, `floor_us`: a copy of as many bytes as it reads and writes, by numpy in the same
rounds, or where that is more its arithmetic. That is known of products (their multiplications and additions at the rate of a large product of
ONNX Runtime's, measured at the start), windows (as many operations as a window has taps, by a vector at a time) and functions (OPERATIONS for each element).
Forms above 3 floors are listed, and recorded, with the reason that REASONS has for them.
"""
import argparse
import ctypes
import datetime
import fnmatch
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CONVOY_LIBRARY", str(ROOT / "build/lib/libconvoy.so"))

import random_forms  # noqa: E402  pylint: disable=wrong-import-position
import convoy  # noqa: E402  pylint: disable=wrong-import-position
from convoy import _c  # noqa: E402  pylint: disable=wrong-import-position
import onnxruntime  # noqa: E402  pylint: disable=wrong-import-position

ERRORS_ONLY = 4  # of ONNX Runtime's log
LEAST_RATIO = 0.97
TYPES = {"f32": (TensorProto.FLOAT, np.float32, 1e-4), "f16": (TensorProto.FLOAT16, np.float16, 4e-3),
         "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 3e-2), "s8": (TensorProto.INT8, np.int8, 0),
         "u8": (TensorProto.UINT8, np.uint8, 0), "s32": (TensorProto.INT32, np.int32, 0), "s64": (TensorProto.INT64, np.int64, 0),
         "bool": (TensorProto.BOOL, np.bool_, 0)}
FLOATS = ("f32", "f16", "bf16")
MOST_FLOORS = 3
# About as many instructions as a vector of 16 elements takes in the loops of ops/row_functions.inc and simd/math.h, of which four run in a cycle at best.
OPERATIONS = {"Exp": 17, "Tanh": 26, "Sigmoid": 26, "Erf": 26, "Gelu": 30, "Softplus": 45, "Mish": 32, "Elu": 24, "Selu": 25, "Celu": 25, "Sin": 28,
              "Cos": 28, "Log": 28, "Softmax": 27, "LogSoftmax": 27, "ReduceLogSumExp": 22, "Pow": 45, "Sqrt": 20, "GridSample": 60,
              "LpNormalization": 12, "LayerNormalization": 16, "InstanceNormalization": 16, "Hardmax": 6, "ArgMax": 6}
VECTOR, AT_ONCE = 16, 4
REASONS = (  # why forms take more than MOST_FLOORS, or longer than ONNX Runtime: the first pattern that fits
    ("Sigmoid/*", "an exponential, right to the last digits where the result is near 0; ONNX Runtime's rational is right to 1e-7 of 1"),
    ("Tanh/*/bf16", "compared with f32's time: elements are rounded to bf16, which takes as long as the function"),
    ("Soft*/*", "exponentials, of which those below the least normal number are 0"),
    ("Log*/*", "exponentials and a logarithm a line"),
    ("Cast/*", "one conversion an element, where AVX2 has no vectors for it"),
    ("*Max*/u8", "bytes are compared a run of outputs with the same taps at a time, whose taps are found for each"),
    ("Reduce*/bf16", "compared with f32's time: halves are widened first"),
    ("Reduce*/s32", "rows that lie apart are read as they lie, 64 bits a fold"),
    ("*/bf16", "compared with f32's time: elements are widened, and rounded to bf16"),
    ("MatMul/*", "oneDNN's product, or panels, whose kernels for AVX2 reach 0.8 of the multipliers' rate; halves are widened before it"),
    ("AveragePool/*", "a run of outputs with the same taps at a time, whose taps are found for each"),
    ("MaxPool/*", "a run of outputs with the same taps at a time, whose taps are found for each"),
    ("TopK/*", "each element finds its place among the best before it, of many lines at once"),
    ("Gather/*", "indices decide where elements are read: an address an element"),
    ("GatherElements/*", "indices decide where elements are read: an address an element"),
    ("ScatterElements/*", "indices decide where elements are written: an address an element"),
    ("GridSample/*", "positions decide where elements are read: an address a tap"),
    ("CumSum/*", "each sum waits for the one before it"),
    ("Transpose/*", "neighbours of either side lie far apart on the other, and there are few of them"),
    ("*/axis 0/1x91x73x79/*", "the axis has one element: what is done for a line is done for each element"),
    ("*/axes 0/1x91x73x79/*", "the axis has one element: what is done for a line is done for each element"),
    ("Resize/*", "where each output's taps lie stands in a table: an address a tap, and the floor counts a copy alone"),
    ("Gemm/*", "the floor counts a copy alone, not its products"),
    ("Einsum/*", "small or turned operands are packed first"),
    ("ReduceLog*", "a logarithm for each line, and for its pieces an exponential each, while the floor counts f32's by vectors alone"),
    ("MeanVarianceNormalization/*", "short groups are gathered, and each takes a square root and a division"),
    ("*Normalization/*", "short rows: each takes a square root and a division"),
    ("Pow/*", "in f64, whose digits leave f32's right"),
    ("SpaceToDepth/*", "neighbours of either side lie far apart on the other, and there are few of them"),
    ("Pad/*", "short rows: finding the next takes as long as moving it"),
    ("Tile/*", "short rows: finding the next takes as long as moving it"),
    ("ScatterND/*", "indices decide where elements are written: an address an element"),
    ("*Pool/*/u8", "bytes are compared a run of outputs with the same taps at a time, whose taps are found for each"),
    ("LpPool/*", "a run of outputs with the same taps at a time, whose taps are found for each"),
    ("*/2x12x19x31x37/*", "rows of 37 elements: finding the next takes as long as what is done with it"),
    ("*", "no reason known"),
)
LINE, MAP, VOLUME = (8, 197, 331), (1, 91, 73, 79), (2, 12, 19, 31, 37)  # ranks 3, 4 and 5, nothing a multiple of a vector
EVEN = (1, 64, 96, 96)
RANDOM = np.random.default_rng(0)
forms = {}  # name: (type, dims, operator, more inputs, outputs' types, attributes, opset, how many of the more inputs are fed)


def values(kind, dims):
    dtype = TYPES[kind][1]
    if kind == "bool":
        return RANDOM.random(dims) < 0.5
    if kind in FLOATS:
        return (np.abs(RANDOM.standard_normal(dims)) + 0.1).astype(dtype)
    return RANDOM.integers(1, 100, dims).astype(dtype)


def add(op, what, dims, kind="f32", inputs=(), outputs=None, opset=21, fed=0, **attributes):
    forms[f"{op}/{what}/{'x'.join(map(str, dims))}/{kind}"] = (kind, dims, op, [np.asarray(value) for value in inputs], outputs or [kind], attributes,
                                                          opset, fed)


def ints(*numbers):
    return np.array(numbers, np.int64)


def make_forms():
    unary = "Relu LeakyRelu Elu Selu Celu Softplus Softsign Mish HardSwish HardSigmoid Sigmoid Tanh Gelu Erf Exp Abs Neg Floor Ceil Round Sign " \
            "Sin Cos Reciprocal Sqrt Log Identity"
    for op in unary.split():
        add(op, "all", LINE)
        for kind in ("f16", "bf16"):
            add(op, "all", EVEN, kind)
    for kind in ("s8", "s32"):
        for op in "Abs Neg Sign Relu".split():
            add(op, "all", MAP, kind)
    for dims in (LINE, MAP, VOLUME):
        # A value for each last element, for each row, for each channel, for each of the first two dims; as many as x has; one.
        shapes = {"last": dims[-1:], "row": (*dims[:-1], 1), "channel": (dims[1], *(1,) * (len(dims) - 2)),
                  "first two": (*dims[:2], *(1,) * (len(dims) - 2)), "each": dims, "one": ()}
        for what, shape in shapes.items():
            for op in "Add Mul Sub Div Max Min PRelu".split():
                add(op, what, dims, inputs=[values("f32", shape)])
            add("Greater", what, dims, inputs=[values("f32", shape)], outputs=["bool"])
            for op in "Add Mul Max".split():
                for kind in ("f16", "bf16"):
                    add(op, what, dims, kind, inputs=[values(kind, shape)])
            add("Add", what, dims, "s32", inputs=[values("s32", shape)])
            add("Equal", what, dims, "s64", inputs=[values("s64", shape)], outputs=["bool"])
            add("Where", what, dims, "bool", inputs=[values("f32", dims), values("f32", shape)], outputs=["f32"])
        for axis in range(len(dims)):
            for kind in FLOATS:
                add("Softmax", f"axis {axis}", dims, kind, axis=axis)
            for op in ("LogSoftmax", "Hardmax"):
                add(op, f"axis {axis}", dims, axis=axis)
            add("LpNormalization", f"axis {axis}", dims, axis=axis, p=2)
            add("ArgMax", f"axis {axis}", dims, axis=axis, outputs=["s64"])
            add("CumSum", f"axis {axis}", dims, inputs=[np.array(axis, np.int64)])
            add("Gather", f"axis {axis}", dims, axis=axis, inputs=[RANDOM.permutation(dims[axis])])
            add("Split", f"axis {axis}", dims, axis=axis, inputs=[ints(dims[axis] // 2, dims[axis] - dims[axis] // 2)], outputs=["f32", "f32"])
            add("Slice", f"axis {axis}", dims, inputs=[ints(1), ints(dims[axis]), ints(axis)])
            add("Slice", f"axis {axis} step 2", dims, inputs=[ints(0), ints(dims[axis]), ints(axis), ints(2)])
            add("Concat", f"axis {axis}", dims, axis=axis, inputs=[values("f32", dims)])
            for op in "ReduceMean ReduceSum ReduceMax ReduceL2 ReduceProd ReduceSumSquare ReduceLogSumExp".split():
                add(op, f"axes {axis}", dims, inputs=[ints(axis)])
        for axes in {(0, 1), (1, 2), (0, len(dims) - 1), tuple(range(2, len(dims))), tuple(range(len(dims)))}:
            for op in "ReduceMean ReduceMax ReduceL2".split():
                add(op, f"axes {' '.join(map(str, axes))}", dims, inputs=[ints(*axes)])
        for kind in ("f16", "bf16", "s32"):
            for op in ("ReduceMean", "ReduceMax", "ReduceSum"):
                for axis in (1, len(dims) - 1):
                    add(op, f"axes {axis}", dims, kind, inputs=[ints(axis)])
        add("LayerNormalization", "last", dims, axis=-1, inputs=[values("f32", dims[-1:]), values("f32", dims[-1:])], opset=17)
        add("LayerNormalization", "last two", dims, axis=-2, inputs=[values("f32", dims[-2:]), values("f32", dims[-2:])], opset=17)
        add("InstanceNormalization", "all", dims, inputs=[values("f32", dims[1:2]), values("f32", dims[1:2])])
        add("BatchNormalization", "all", dims, inputs=[values("f32", dims[1:2]) for _ in range(4)])
        add("Tile", "last", dims, inputs=[ints(*(1,) * (len(dims) - 1), 2)])
        add("Tile", "first", dims, inputs=[ints(2, *(1,) * (len(dims) - 1))])
        pads = (*(0,) * (len(dims) - 2), 1, 2)
        for mode in ("constant", "reflect", "edge"):
            for kind in ("f32", "u8"):
                add("Pad", mode, dims, kind, mode=mode, inputs=[ints(*pads, *pads)])
        spatial = len(dims) - 2
        for op in ("MaxPool", "AveragePool"):
            for k, s in ((3, 1), (2, 2), (3, 2), (5, 1)):
                add(op, f"{k} stride {s}", dims, kernel_shape=[k] * spatial, strides=[s] * spatial, pads=[k // 2 if s < k else 0] * 2 * spatial)
            add(op, "3 stride 2", dims, "f16", kernel_shape=[3] * spatial, strides=[2] * spatial, opset=22)
        add("MaxPool", "3 stride 1", dims, "u8", kernel_shape=[3] * spatial)
        add("LpPool", "2 stride 2", dims, kernel_shape=[2] * spatial, strides=[2] * spatial)
        add("GlobalAveragePool", "all", dims)
        add("GlobalMaxPool", "all", dims)
    for dims in (LINE, MAP, VOLUME):
        rank = len(dims)
        last = list(range(rank))
        for perm in (last[:-2] + [rank - 1, rank - 2], [0] + last[2:] + [1], last[::-1], [1, 0] + last[2:], [0, 2, 1] + last[3:]):
            for kind in ("f32", "f16", "u8"):
                add("Transpose", " ".join(map(str, perm)), dims, kind, perm=perm)
    for kind in ("f32", "f16", "u8"):
        for mode in ("DCR", "CRD"):
            add("DepthToSpace", mode, (1, 60, 93, 97), kind, blocksize=2, mode=mode)
        add("SpaceToDepth", "2", (1, 15, 186, 194), kind, blocksize=2)
        for mode in ("nearest", "linear", "cubic"):
            for scale in (2.0, 0.5, 1.3):
                if kind != "f16":
                    add("Resize", f"{mode} {scale}", MAP, kind, inputs=[np.array([], np.float32), np.array([1, 1, scale, scale], np.float32)],
                        mode=mode, opset=13 if kind == "u8" else 19)
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            add("GridSample", f"{mode} {padding}", MAP, mode=mode, padding_mode=padding,
                inputs=[RANDOM.uniform(-1.1, 1.1, (1, 73, 79, 2)).astype(np.float32)])
    add("GridSample", "linear volume", VOLUME, mode="linear", inputs=[RANDOM.uniform(-1, 1, (2, 19, 31, 37, 3)).astype(np.float32)])
    for given in ("f32", "f16", "s32", "s64", "u8", "bool"):
        for made in ("f32", "f16", "s32", "s64", "u8", "s8", "bool"):
            if given != made:
                add("Cast", f"to {made}", MAP, given, outputs=[made], to=TYPES[made][0])
    for kind in ("u8", "s8"):
        zero = TYPES[kind][1](3)
        add("QuantizeLinear", f"to {kind}", MAP, inputs=[np.float32(0.02), zero], outputs=[kind])
        add("QuantizeLinear", f"to {kind} by channel", MAP, axis=1,
            inputs=[values("f32", MAP[1:2]), np.full(MAP[1], zero, TYPES[kind][1])], outputs=[kind])
        add("DequantizeLinear", "one", MAP, kind, inputs=[np.float32(0.02), zero], outputs=["f32"])
        add("DequantizeLinear", "by channel", MAP, kind, axis=1, inputs=[values("f32", MAP[1:2]), np.full(MAP[1], zero, TYPES[kind][1])],
            outputs=["f32"])
    add("DynamicQuantizeLinear", "all", MAP, outputs=["u8", "f32", "u8"])
    for m, k, n in ((197, 192, 768), (49, 512, 2048), (331, 67, 129), (1, 1280, 1000)):
        add("MatMul", f"by {k}x{n}", (1, m, k), inputs=[values("f32", (k, n))])
    add("MatMul", "batch", (12, 197, 64), inputs=[values("f32", (12, 64, 197))])
    add("Einsum", "bid,bjd->bij", (12, 197, 64), inputs=[values("f32", (12, 197, 64))], equation="bid,bjd->bij")
    add("Einsum", "bij,bjd->bid", (12, 197, 197), inputs=[values("f32", (12, 197, 64))], equation="bij,bjd->bid")
    add("Trilu", "upper", (12, 197, 197))
    add("TopK", "5 of the last", LINE, inputs=[ints(5)], outputs=["f32", "s64"])
    add("Expand", "rows", (8, 197, 1), inputs=[ints(8, 197, 331)])
    add("Expand", "columns", (8, 1, 331), inputs=[ints(8, 197, 331)])
    add("GatherElements", "axis 1", LINE, axis=1, inputs=[RANDOM.integers(0, 197, LINE)])
    add("ScatterElements", "axis 1", LINE, axis=1, inputs=[RANDOM.integers(0, 197, (8, 50, 331)), values("f32", (8, 50, 331))])
    add("IsNaN", "all", LINE, outputs=["bool"])
    add("Not", "all", LINE, "bool")
    for low, high, kind in ((0, 6, "f32"), (0, 6, "f16"), (0, 6, "bf16"), (3, 60, "s8"), (3, 60, "s32")):
        add("Clip", "two", MAP, kind, inputs=[np.asarray(low, TYPES[kind][1]), np.asarray(high, TYPES[kind][1])])
    for power in (0.5, 1.5, 2, 3, -1):
        add("Pow", str(power), LINE, inputs=[np.float32(power)])


def model_of(kind, dims, op, inputs, outputs, attributes, opset, fed):
    names = [f"i{i}" for i in range(len(inputs))]
    if op == "Resize":
        names = ["", *names[1:]] if opset > 13 else names
    node = helper.make_node(op, ["c" if op != "Where" else "x", *names], [f"y{i}" for i in range(len(outputs))], **attributes)
    node.input[0] = "x"
    graph = helper.make_graph([node], "g",
                              [helper.make_tensor_value_info("x", TYPES[kind][0], dims),
                               *(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                                 for name, value in zip(names[:fed], inputs))],
                              [helper.make_tensor_value_info(f"y{i}", TYPES[each][0], None) for i, each in enumerate(outputs)],
                              [numpy_helper.from_array(value, name) for name, value in [*zip(names, inputs)][fed:] if name])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def aligned(array):
    """A copy where Convoy reads and writes it in place, as ONNX Runtime does with any."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    at = -memory.ctypes.data % 64
    copy = memory[at:at + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def block(run, seconds):
    """The median of runs that take about so many seconds; `run` says what one took."""
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        times.append(run())
    return statistics.median(times)


def differ(ours, theirs, tolerance):
    if ours.shape != theirs.shape:
        return True
    if theirs.dtype.kind in "fV" or theirs.dtype == ml_dtypes.bfloat16:
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        return bool(np.any(np.abs(a - b) > tolerance * (1 + np.abs(b))))
    return float((ours != theirs).mean()) > 1e-3  # ties of roundings


def reason_of(form):
    return next(reason for pattern, reason in REASONS if fnmatch.fnmatch(form, pattern))


def peak_rate():
    """Multiplications and additions of f32 a second, of a large product on one thread."""
    a = np.ones((768, 768), np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "g",
                              [helper.make_tensor_value_info("a", TensorProto.FLOAT, a.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, a.shape)], [numpy_helper.from_array(a, "b")])
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString(),
                                           settings, providers=["CPUExecutionProvider"])

    def once():
        start = time.perf_counter()
        session.run(None, {"a": a})
        return time.perf_counter() - start

    return 2 * 768 ** 3 / block(once, 0.5)


def arithmetic(op, dims, inputs, outputs, attributes):
    """Multiplications and additions that a form needs at least, as a product counts them: a vector's instruction is as long as its
    multiply-add."""
    elements = math.prod(dims)
    if op in ("MatMul", "Einsum"):
        return 2 * elements * (outputs[0].shape[-1])
    taps = math.prod(attributes.get("kernel_shape", [0]))
    if taps and op != "LpPool":
        return 2 * outputs[0].size * sum(attributes["kernel_shape"]) * 2 / AT_ONCE
    return 2 * max(elements, outputs[0].size) * OPERATIONS.get(op, 0) * 2 / AT_ONCE


def row_of(name, options):
    kind, dims, op, inputs, outputs, attributes, opset, fed = forms[name]
    their_kind = "f32" if kind == "bf16" else kind
    x = values(kind, dims).astype(TYPES[their_kind][1])
    as_theirs = [value.astype(np.float32) if value.dtype == ml_dtypes.bfloat16 else value for value in inputs]
    their_outputs = ["f32" if each == "bf16" else each for each in outputs]
    ours = convoy.Network(model_of(kind, dims, op, inputs, outputs, attributes, opset, fed), threads=options.threads, database=False)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = options.threads, ERRORS_ONLY
    theirs = onnxruntime.InferenceSession(model_of(their_kind, dims, op, as_theirs, their_outputs, attributes, opset, fed), settings,
                                          providers=["CPUExecutionProvider"])
    more = inputs[:fed]
    feeds = {"convoy": {"x": x.astype(TYPES[kind][1]), **{f"i{i}": value for i, value in enumerate(more)}},
             "onnxruntime": {"x": x, **{f"i{i}": value for i, value in enumerate(as_theirs[:fed])}}}
    session = ours.prepare([dims, *(value.shape for value in more)])
    results = {"convoy": list(session.run(feeds["convoy"]).values()), "onnxruntime": theirs.run(None, feeds["onnxruntime"])}
    given = [aligned(value) for value in feeds["convoy"].values()]
    made = [aligned(result) for result in results["convoy"]]
    pointers = (ctypes.c_void_p * len(given))(*[array.ctypes.data for array in given])
    buffers = (_c.Buffer * len(made))(*[_c.Buffer(array.ctypes.data, array.nbytes) for array in made])
    wrong = any(map(differ, results["convoy"], results["onnxruntime"], [TYPES[kind][2]] * len(outputs)))

    def run_ours():
        start = time.perf_counter()
        _c.library.convoy_session_execute_into(session._handle, pointers, len(given), buffers, len(made), None)
        return time.perf_counter() - start

    def run_theirs():
        start = time.perf_counter()
        theirs.run(None, feeds["onnxruntime"])
        return time.perf_counter() - start

    moved = sum(array.nbytes for array in given + made) + sum(value.nbytes for value in inputs[fed:])
    source, target = np.zeros(moved // 2, np.uint8), np.zeros(moved // 2, np.uint8)

    def run_copy():
        start = time.perf_counter()
        ctypes.memmove(target.ctypes.data, source.ctypes.data, moved // 2)
        return time.perf_counter() - start

    status = _c.library.convoy_session_execute_into(session._handle, pointers, len(given), buffers, len(made), None)
    if status != 0:
        raise RuntimeError(f"Convoy's run into the caller's memory fails with status {status}")
    runs = {"convoy": run_ours, "onnxruntime": run_theirs, "copy": run_copy}
    times = {library: [] for library in runs}
    for i in range(options.rounds):
        for library in sorted(runs, reverse=i % 2 == 1):
            times[library].append(block(runs[library], options.seconds))
    ratio = statistics.median(b / a for a, b in zip(times["convoy"], times["onnxruntime"]))
    ours_us, copy_us = (statistics.median(times[library]) * 1e6 for library in ("convoy", "copy"))
    floor_us = max(copy_us, arithmetic(op, dims, inputs, made, attributes) / options.peak / options.threads * 1e6)
    return {"form": name, "convoy_us": round(ours_us, 1), "copy_us": round(copy_us, 1), "floor_us": round(floor_us, 1),
            "over_floor": round(ours_us / floor_us, 2),
            "onnxruntime_us": round(statistics.median(times["onnxruntime"]) * 1e6, 1), "onnxruntime_over_convoy": round(ratio, 2),
            **({"differ": True} if wrong else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forms", nargs="+", default=["*"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.02)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--remark", default="")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if options.random:
        random_forms.draw(options.random, options.seed, add, values)
    else:
        make_forms()
    options.peak = peak_rate()
    print(f"{options.peak / 1e9:.0f} GFLOP/s of f32 on one thread")
    rows = {}
    if options.output and options.output.exists():
        rows = {row["form"]: row for row in json.loads(options.output.read_text())["rows"]}
    for name in forms:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.forms):
            continue
        try:
            rows[name] = row_of(name, options)
        except convoy.Unsupported as refusal:
            print(f"{name}: Convoy refuses it, {refusal}", flush=True)
        except Exception as error:  # pylint: disable=broad-except  # onnxruntime's have no common class
            print(f"{name}: not compared, {str(error).splitlines()[0][:120]}", flush=True)
    rows = sorted(rows.values(), key=lambda row: row["onnxruntime_over_convoy"])
    for row in rows:
        print(f"{row['form']:56} x{row['onnxruntime_over_convoy']:7.2f}  convoy {row['convoy_us']:9.1f} us  onnxruntime "
              f"{row['onnxruntime_us']:9.1f} us  {row.get('over_floor', 0):6.2f} floors{'  OUTPUTS DIFFER' if row.get('differ') else ''}")
    low = [row for row in rows if row["onnxruntime_over_convoy"] < LEAST_RATIO]
    far = [row for row in rows if row.get("over_floor", 0) > MOST_FLOORS]
    for row in low:
        row["reason"] = reason_of(row["form"])
    for row in sorted(far, key=lambda row: -row["over_floor"]):
        row["reason"] = reason_of(row["form"])
        print(f"{row['form']:56} {row['over_floor']:6.2f} floors: {row['reason']}")
    print(f"{len(rows)} forms, {len(low)} below {LEAST_RATIO}, {len(far)} above {MOST_FLOORS} floors")
    if options.output:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        doctor = json.loads(subprocess.run([CONVOY, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "command": f"python bench/op_sweep.py --threads {options.threads} --rounds {options.rounds} --seconds {options.seconds:g}"
                               + (f" --random {options.random} --seed {options.seed}" if options.random else ""),
                    "commit": commit, "device": doctor["processor"], "versions": {**doctor["libraries"], "onnxruntime": onnxruntime.__version__},
                    "remark": options.remark, "below": len(low), "above_floors": len(far), "gflops": round(options.peak / 1e9, 1), "rows": []}
        text = json.dumps(document, indent=1)
        options.output.write_text(text.replace('"rows": []', '"rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]") + "\n")
    sys.exit(1 if low or any(row.get("differ") for row in rows) else 0)


if __name__ == "__main__":
    main()
