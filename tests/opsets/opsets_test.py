"""One model in the forms of many opsets: the same answer from all, and ONNX Runtime's.

    opsets_test.py [OPSET ...]     all of OPSETS without numbers; $CONVOY is the program

`Forms` writes each operator as its opset has it: bounds, pads, slices, axes, splits, scales, ratios and counts as
attributes or as inputs, softmax over what it meant before and since 13, and operators that came late (HardSwish, Mish,
LayerNormalization, GroupNormalization, Swish) in terms of older ones.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
# The named ones of the issue, every opset in which an operator of the model changed, and the newest.
OPSETS = (6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21, 22, 23, 24, 25, onnx.defs.onnx_opset_version())
ORT_OPSETS = range(7, 25)  # it refuses 6, and has no Swish and Cast of 25
SHAPES = ((1, 3, 13, 10), (2, 3, 9, 16))
# |a - b| <= TOLERANCE * (|b| + max|b|): f32 sums of fewer than 200 products through 30 layers, in any order.
TOLERANCE = 1e-5


class Forms:
    """Builds a graph; each method adds an operator in the form of the opset and returns its output's name."""

    def __init__(self, opset):
        self.opset = opset
        self.random = np.random.default_rng(11)
        self.nodes, self.initializers, self.count = [], [], 0

    def name(self, text):
        self.count += 1
        return f"{text}_{self.count}"

    def node(self, op, *inputs, outputs=1, **attributes):
        made = [self.name(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=made[0], **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, values, dtype=np.float32):
        """As an initializer and as a Constant node in turns, in whichever form the opset has."""
        array = np.asarray(values, dtype)
        name = self.name("c")
        if self.count % 2 == 0:
            self.initializers.append(numpy_helper.from_array(array, name))
        elif self.opset >= 12 and array.ndim < 2 and dtype in (np.float32, np.int64):
            kind = ("value_float" if dtype == np.float32 else "value_int") + ("s" if array.ndim else "")
            self.nodes.append(helper.make_node("Constant", [], [name], **{kind: array.tolist()}))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        return name

    def weights(self, *dims):
        return self.constant(self.random.standard_normal(dims) / np.sqrt(max(1, np.prod(dims[1:]))))

    def ints(self, *values):
        return self.constant(values, np.int64)

    def listed(self, op, x, since, **lists):
        """Lists of integers that became inputs at opset `since`; None leaves an input out."""
        attributes = {name: values for name, values in lists.items() if values is not None}
        if self.opset < since:
            return self.node(op, x, **attributes)
        return self.node(op, x, *("" if values is None else self.ints(*values) for values in lists.values()))

    def pad(self, x, top, left, bottom, right, value):
        every = [0, 0, top, left, 0, 0, bottom, right]
        if self.opset < 11:
            return self.node("Pad", x, pads=every, value=value, mode="constant")
        if self.opset < 18:
            return self.node("Pad", x, self.ints(*every), self.constant(value))
        return self.node("Pad", x, self.ints(top, left, bottom, right), self.constant(value), self.ints(-2, 3))

    def clip(self, x, low, high):
        if self.opset < 11:
            return self.node("Clip", x, min=low, max=high)
        return self.node("Clip", x, self.constant(low), self.constant(high))

    def slice(self, x, starts, ends, axes):
        if self.opset < 10:
            return self.node("Slice", x, starts=starts, ends=ends, axes=axes)
        steps = self.ints(*[1] * len(axes))
        return self.node("Slice", x, self.ints(*starts), self.ints(*ends), self.ints(*axes), steps)

    def split(self, x, axis, sizes):
        if self.opset < 13:
            return self.node("Split", x, outputs=len(sizes), axis=axis, split=sizes)
        if self.opset >= 18 and len(set(sizes)) == 1:
            return self.node("Split", x, outputs=len(sizes), axis=axis, num_outputs=len(sizes))
        return self.node("Split", x, self.ints(*sizes), outputs=len(sizes), axis=axis)

    def squeeze(self, x, *axes):
        return self.listed("Squeeze", x, 13, axes=axes)

    def unsqueeze(self, x, *axes):
        return self.listed("Unsqueeze", x, 13, axes=axes)

    def reduce(self, op, x, axes, keepdims):
        if self.opset < (13 if op == "ReduceSum" else 18):
            return self.node(op, x, axes=axes, keepdims=keepdims)
        return self.node(op, x, self.ints(*axes), keepdims=keepdims)

    def upsample(self, x, mode, scale):
        scales = [1.0, 1.0, scale, scale]
        if self.opset < 7:
            mode = {"linear": "bilinear"}.get(mode, mode)
            return self.node("Upsample", x, mode=mode, height_scale=scale, width_scale=scale)
        if self.opset < 9:
            return self.node("Upsample", x, mode=mode, scales=scales)
        if self.opset < 10:
            return self.node("Upsample", x, self.constant(scales), mode=mode)
        if self.opset < 11:
            return self.node("Resize", x, self.constant(scales), mode=mode)
        how = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if self.opset < 13:
            return self.node("Resize", x, self.constant([0.0] * 8), self.constant(scales), **how)
        if self.opset < 18:
            return self.node("Resize", x, "", self.constant(scales), **how)
        return self.node("Resize", x, "", self.constant(scales[2:]), axes=[2, 3], **how)

    def dropout(self, x):
        if self.opset < 7:
            return self.node("Dropout", x, is_test=1, ratio=0.4)
        if self.opset < 12:
            return self.node("Dropout", x, ratio=0.4)
        return self.node("Dropout", x, self.constant(0.4), *([self.constant(False, bool)] if self.opset % 2 else []))

    def batch_normalization(self, x, channels):
        statistics = [self.constant(self.random.uniform(low, high, channels))
                      for low, high in ((0.5, 1.5), (-1, 1), (-1, 1), (0.5, 2))]
        attributes = {"epsilon": 1e-3}
        if self.opset < 7:
            attributes |= {"is_test": 1, "spatial": 1}
        elif self.opset < 9:
            attributes |= {"spatial": 1}
        elif self.opset >= 14:
            attributes |= {"training_mode": 0}
        return self.node("BatchNormalization", x, *statistics, **attributes)

    def channelwise(self, op, x, channels):
        """A value a channel: broadcasting was an attribute before 7."""
        values = self.random.uniform(0.5, 1.5, channels)
        if self.opset < 7:
            return self.node(op, x, self.constant(values), broadcast=1, axis=1)
        return self.node(op, x, self.constant(values.reshape(channels, 1, 1)))

    def scalar(self, op, x, value):
        return self.node(op, x, self.constant(value), **({"broadcast": 1} if self.opset < 7 else {}))

    def prelu(self, x, channels):
        values = self.random.uniform(0.1, 0.4, channels)
        return self.node("PRelu", x, self.constant(values if self.opset < 7 else values.reshape(channels, 1, 1)))

    def gemm(self, x, inputs, outputs):
        w, b = self.weights(outputs, inputs), self.weights(outputs)
        return self.node("Gemm", x, w, b, transB=1, alpha=0.5, **({"broadcast": 1} if self.opset < 7 else {}))

    def softmax_of_rest(self, op, x, dims):
        """Over everything but the batch: axis=1 said so before 13."""
        if self.opset < 13:
            return self.node(op, x, axis=1)
        flat = self.node("Reshape", x, self.ints(0, -1))
        return self.node("Reshape", self.node(op, flat, axis=-1), self.ints(0, *dims))

    def softmax_last(self, op, x, rank):
        return self.node(op, x, axis=rank - 1 if self.opset < 13 else -1)

    def pool_tail(self, x):
        """Windows that hang over the end: an attribute since 10, padding before."""
        if self.opset < 10:
            return self.node("MaxPool", self.pad(x, 0, 0, 1, 1, -1e30), kernel_shape=[3, 3], strides=[2, 2])
        return self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)

    def top(self, x, k):
        if self.opset < 10:
            return self.node("TopK", x, outputs=2, axis=-1, k=k)
        return self.node("TopK", x, self.ints(k), outputs=2, axis=-1, **({"largest": 1} if self.opset >= 11 else {}))

    def hard_swish(self, x):
        if self.opset >= 14:
            return self.node("HardSwish", x)
        return self.node("Mul", x, self.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))

    def mish(self, x):
        if self.opset >= 18:
            return self.node("Mish", x)
        return self.node("Mul", x, self.node("Tanh", self.node("Softplus", x)))

    def swish(self, x):
        return self.node("Swish", x) if self.opset >= 24 else self.node("Mul", x, self.node("Sigmoid", x))

    def group_normalization(self, x, groups, channels):
        scale, bias = self.random.uniform(0.5, 1.5, groups), self.random.uniform(-1, 1, groups)
        if self.opset >= 21:  # 18's form was withdrawn
            each = channels // groups
            return self.node("GroupNormalization", x, self.constant(np.repeat(scale, each)),
                             self.constant(np.repeat(bias, each)), num_groups=groups, epsilon=1e-4)
        shape = self.node("Shape", x)
        grouped = self.node("Reshape", x, self.ints(0, groups, -1))
        even = self.node("InstanceNormalization", grouped, self.constant(scale), self.constant(bias), epsilon=1e-4)
        return self.node("Reshape", even, shape)

    def layer_normalization(self, x, size):
        scale, bias = self.random.uniform(0.5, 1.5, size), self.random.uniform(-1, 1, size)
        if self.opset >= 17:
            return self.node("LayerNormalization", x, self.constant(scale), self.constant(bias), axis=-1, epsilon=1e-4)
        how = {} if self.opset >= 7 else {"broadcast": 1}
        if self.opset < 7:  # [N, size] with one dim of the mean broadcast is more than opset 6 can: on transposed data
            turned = self.node("Transpose", x, perm=[1, 0])
            mean = self.squeeze(self.reduce("ReduceMean", turned, [0], 1), 0)
            centred = self.node("Sub", turned, mean, **how)
            power = self.squeeze(self.reduce("ReduceMean", self.node("Mul", centred, centred), [0], 1), 0)
            even = self.node("Div", centred, self.node("Sqrt", self.scalar("Add", power, 1e-4)), **how)
            even = self.node("Transpose", even, perm=[1, 0])
        else:
            centred = self.node("Sub", x, self.reduce("ReduceMean", x, [1], 1))
            power = self.reduce("ReduceMean", self.node("Mul", centred, centred), [1], 1)
            even = self.node("Div", centred, self.node("Sqrt", self.scalar("Add", power, 1e-4)))
        return self.node("Add", self.node("Mul", even, self.constant(scale), **how), self.constant(bias), **how)


def model_of(opset):
    """About 50 nodes; inputs of any batch and size, outputs "classes", "map", "top" and "index"."""
    f = Forms(opset)
    x = f.pad("x", 1, 0, 2, 1, 0.25)
    x = f.node("Conv", x, f.weights(8, 3, 3, 3), f.weights(8), pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    x = f.clip(f.batch_normalization(x, 8), -1.0, 1.5)
    x = f.slice(x, [1, 1], [7, 1000], [1, -2] if opset >= 10 else [1, 2])
    a, b = f.split(x, 1, [2, 4])
    c, d = f.split(b, 1, [2, 2])
    x = f.node("Concat", f.hard_swish(c), f.mish(d), f.swish(a), axis=1)
    x = f.channelwise("Mul", f.dropout(f.prelu(x, 6)), 6)
    x = f.group_normalization(x, 3, 6)
    near = f.upsample(x, "nearest", 2.0)
    far = f.upsample(f.node("Elu", x, alpha=0.7), "linear", 2.0)
    x = f.node("Conv", f.node("Sum", near, far), f.weights(6, 1, 3, 3), group=6, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    x = f.pool_tail(f.node("LeakyRelu", x, alpha=0.1))
    x = f.node("AveragePool", x, kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1) if opset >= 7 else \
        f.node("AveragePool", f.pad(x, 1, 1, 0, 0, 0.0), kernel_shape=[2, 2])
    out = f.node("Cast", f.node("Cast", f.scalar("Mul", x, 3.0), to=TensorProto.INT32), to=TensorProto.FLOAT)
    small = f.reduce("ReduceMax", x, [3], 0)  # N, 6, H
    sums = f.unsqueeze(f.reduce("ReduceSum", small, [2], 0), 1)  # N, 1, 6
    norms = f.unsqueeze(f.reduce("ReduceL2", small, [2], 0), 1)
    both = f.node("Concat", sums, norms, axis=1)  # N, 2, 6
    joint = f.softmax_of_rest("Softmax", both, (2, 6))
    alone = f.softmax_last("LogSoftmax", both, 3)
    x = f.node("Flatten", f.node("Add", joint, alone), axis=1)
    x = f.layer_normalization(f.gemm(x, 12, 9), 9)
    x = f.squeeze(f.unsqueeze(x, 0, 2), 0, 2)
    top, index = f.top(x, 4)
    graph = helper.make_graph(
        f.nodes, f"opset{opset}", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in
         ((x, TensorProto.FLOAT, ["N", 9]), (out, TensorProto.FLOAT, ["N", 6, "OH", "OW"]),
          (top, TensorProto.FLOAT, ["N", 4]), (index, TensorProto.INT64, ["N", 4]))],
        f.initializers)
    if opset < 9:  # IR version 3: every initializer is an input, too
        graph.input.extend(helper.make_tensor_value_info(i.name, i.data_type, i.dims) for i in f.initializers)
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports,
                              ir_version=3 if opset < 9 else helper.find_min_ir_version_for(imports))
    if opset > 6:  # Upsample-1 is no longer in onnx's tables
        onnx.checker.check_model(model, full_check=True)
    return model


def convoy(model, inputs, folder):
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
    out = folder / "out"
    for old in out.glob("*.npy"):
        old.unlink()
    files = [word for name in inputs for word in ("--input", f"{name}={folder / name}.npy")]
    run = subprocess.run([CONVOY, "run", model, *files, "--output-dir", out], capture_output=True, text=True)
    assert run.returncode == 0, f"convoy run: exit code {run.returncode}\n{run.stderr}{run.stdout}"
    return {path.stem: np.load(path) for path in out.glob("*.npy")}


def compare(label, got, wanted):
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), \
        f"{label}: {got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    if got.dtype == np.int64:
        assert (got == wanted).all(), f"{label}: {got} is not {wanted}"
        return 0.0
    assert np.isfinite(got).all(), f"{label}: not finite"
    error = np.abs(got - wanted) / (np.abs(wanted) + np.abs(wanted).max())
    assert error.max() <= TOLERANCE, f"{label}: relative error {error.max():.2e}, {TOLERANCE} is allowed"
    return float(error.max())


def refused(folder, opset, words):
    model = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="r")], "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])]),
        opset_imports=[helper.make_opsetid("", opset)])
    path = folder / "future.onnx"
    onnx.save(model, path)
    run = subprocess.run([CONVOY, "run", path, "--random-inputs"], capture_output=True, text=True)
    assert run.returncode != 0 and all(word in run.stderr for word in words), f"opset {opset}: {run.stderr}{run.stdout}"


def main():
    opsets = [int(text) for text in sys.argv[1:]] or OPSETS
    random = np.random.default_rng(3)
    inputs = [{"x": random.standard_normal(shape, dtype=np.float32)} for shape in SHAPES]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    first = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for opset in opsets:
            path = folder / f"opset{opset}.onnx"
            model = model_of(opset)
            onnx.save(model, path)
            names = [value.name for value in model.graph.output]
            session = None
            if opset in ORT_OPSETS:
                session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            worst = ort_worst = 0.0
            for i, values in enumerate(inputs):
                answers = convoy(path, values, folder)
                for k, output in enumerate(names):
                    got = answers[output]
                    worst = max(worst, compare(f"opset {opset}, output {k}, against opset {opsets[0]}", got,
                                               first.setdefault((i, k), got)))
                    if session:
                        ort_worst = max(ort_worst, compare(f"opset {opset}, output {k}, against ONNX Runtime", got,
                                                           session.run([output], values)[0]))
            theirs = f"of ONNX Runtime's {ort_worst:.1e}" if session else "(which ONNX Runtime does not run)"
            print(f"opset {opset:2}: {len(model.graph.node)} nodes, within {worst:.1e} of opset {opsets[0]}, {theirs}",
                  flush=True)
        newest = onnx.defs.onnx_opset_version()
        refused(folder, newest + 1, [f"opset {newest + 1}", f"up to {newest}", "Relu"])
    print(f"{len(opsets)} forms agree, and with ONNX Runtime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
