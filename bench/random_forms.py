"""Forms of operators that nobody chose: operator, rank, sizes, axes, types and attributes drawn by a seed.

Sizes are drawn by their logarithm: a form has one to two million elements, and half of them have dims that are no round numbers. Second operands are
fed as the first is, or constants. `draw` hands each form to op_sweep's `add`; what ONNX or either library refuses is left out there.
"""
import math

import numpy as np
from onnx import TensorProto

FLOATS = ("f32", "f32", "f32", "f16", "bf16")
UNARY = "Relu LeakyRelu Elu Selu Celu Softplus Softsign Mish HardSwish HardSigmoid Sigmoid Tanh Gelu Erf Exp Abs Neg Floor Ceil Round Sign Sin " \
        "Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Reciprocal Sqrt Log ThresholdedRelu Shrink Identity".split()
BINARY = "Add Sub Mul Div Max Min Pow PRelu Mod Less Greater Equal LessOrEqual And Or Xor BitwiseAnd BitShift Where".split()
REDUCTIONS = "ReduceMean ReduceSum ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceProd ReduceSumSquare ReduceLogSum ReduceLogSumExp".split()
MADE = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "s32": TensorProto.INT32, "s64": TensorProto.INT64, "u8": TensorProto.UINT8,
        "s8": TensorProto.INT8, "bool": TensorProto.BOOL}
MOST = 2 ** 21
LEAST_EVEN, ROUND = 0.5, 8


class Draw:
    def __init__(self, seed, add, values):
        self.random = np.random.default_rng(seed)
        self.add, self.values = add, values

    def one(self, *among):
        return among[self.random.integers(len(among))]

    def chance(self, share):
        return self.random.random() < share

    def dims(self, least=1, most=5, elements=None):
        """Dims whose product is about a number between 1 and MOST, their logarithms in random parts."""
        rank = int(self.random.integers(least, most + 1))
        total = math.log(elements or MOST ** self.random.uniform(0.15, 1))
        parts = self.random.dirichlet(np.ones(rank)) * total
        dims = [max(1, int(math.exp(part))) for part in parts]
        if self.chance(LEAST_EVEN):
            dims = [dim if dim < ROUND else dim // ROUND * ROUND for dim in dims]
        return tuple(dims)

    def axis(self, dims):
        return int(self.random.integers(len(dims)))

    def axes(self, dims):
        count = int(self.random.integers(1, len(dims) + 1))
        return tuple(sorted(int(axis) for axis in self.random.permutation(len(dims))[:count]))

    def broadcast(self, dims):
        """A shape that is spread to `dims`: some dims 1, the first ones missing."""
        what = self.one("each", "one", "some", "some", "some", "last")
        if what == "each":
            return dims
        if what == "one":
            return ()
        if what == "last":
            return dims[-1:]
        shape = tuple(dim if self.chance(0.5) else 1 for dim in dims)
        return shape[int(self.random.integers(len(dims))):] if self.chance(0.5) else shape

    def integers(self, low, high, shape):
        return self.random.integers(low, high, shape)

    # One method a family; each adds a form.

    def unary(self):
        op, dims = self.one(*UNARY), self.dims()
        kind = self.one(*FLOATS, "s8", "s32") if op in ("Abs", "Neg", "Sign", "Relu", "Identity") else self.one(*FLOATS)
        self.add(op, "all", dims, kind)

    def binary(self):
        op, dims = self.one(*BINARY), self.dims()
        kind, made = self.one(*FLOATS, "s32", "s64"), None
        if op in ("Less", "Greater", "Equal", "LessOrEqual"):
            made = ["bool"]
        elif op in ("And", "Or", "Xor"):
            kind = "bool"
        elif op.startswith("Bit"):
            kind = self.one("u8", "s32") if op == "BitwiseAnd" else "u8"
        elif op in ("Max", "Min", "Mod"):
            kind = self.one("f32", "f16", "s32", "s64")
        attributes = {"fmod": 1} if op == "Mod" and kind in ("f32", "f16") else {"direction": "RIGHT"} if op == "BitShift" else {}
        shape = self.broadcast(dims)
        if op == "Where":
            kind = self.one("f32", "f16", "s64", "u8")
            self.add(op, f"{_(shape)} {kind}", dims, "bool", inputs=[self.values(kind, dims), self.values(kind, shape)], outputs=[kind], fed=2)
            return
        x = self.broadcast(dims) if self.chance(0.2) and op != "PRelu" else dims  # x is spread, too
        x = x if x else dims
        self.add(op, _(shape), x, kind, inputs=[self.values(kind, shape)], outputs=made, fed=int(self.chance(0.5)), **attributes)

    def variadic(self):
        dims, kind = self.dims(), self.one("f32", "f16")
        others = [self.broadcast(dims) for _ in range(2)]
        self.add(self.one("Max", "Min", "Sum", "Mean"), " ".join(map(_, others)), dims, kind, inputs=[self.values(kind, each) for each in others], fed=2)

    def clip(self):
        dims, kind = self.dims(), self.one(*FLOATS, "s8", "s32", "s64", "u8")
        self.add("Clip", "two", dims, kind, inputs=[self.values(kind, ()), self.values(kind, ())])

    def reduction(self):
        op, dims = self.one(*REDUCTIONS), self.dims(2)
        kind = self.one(*FLOATS, "s32", "s8", "u8") if op in ("ReduceMax", "ReduceMin") else self.one(*FLOATS, "s32")
        axes = self.axes(dims)
        self.add(op, f"axes {' '.join(map(str, axes))}", dims, kind, inputs=[np.array(axes, np.int64)], keepdims=int(self.chance(0.5)))

    def along(self):
        dims = self.dims(2)
        axis, op = self.axis(dims), self.one("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ArgMax", "ArgMin", "CumSum", "TopK")
        kind = self.one(*FLOATS) if op in ("Softmax", "LogSoftmax") else self.one("f32", "f16")
        if op.startswith("Arg"):
            self.add(op, f"axis {axis}", dims, self.one("f32", "f16", "u8", "s8", "s32"), outputs=["s64"], axis=axis)
        elif op == "CumSum":
            self.add(op, f"axis {axis}", dims, self.one("f32", "s32", "s64"), inputs=[np.array(axis, np.int64)], reverse=int(self.chance(0.3)),
                     exclusive=int(self.chance(0.3)))
        elif op == "TopK":
            k = int(self.random.integers(1, dims[axis] + 1))
            kind = self.one("f32", "s64")
            self.add(op, f"{k} of axis {axis}", dims, kind, inputs=[np.array([k], np.int64)], outputs=[kind, "s64"], axis=axis,
                     largest=int(self.chance(0.7)))
        else:
            self.add(op, f"axis {axis}", dims, kind, axis=axis, **({"p": self.one(1, 2)} if op == "LpNormalization" else {}))

    def transpose(self):
        dims = self.dims(2)
        perm = [int(axis) for axis in self.random.permutation(len(dims))]
        self.add("Transpose", " ".join(map(str, perm)), dims, self.one("f32", "f16", "u8", "s64"), perm=perm)

    def split_or_concat(self):
        dims, kind = self.dims(), self.one("f32", "f16", "u8", "s64")
        axis = self.axis(dims)
        if self.chance(0.5) and dims[axis] > 1:
            cut = int(self.random.integers(1, dims[axis]))
            self.add("Split", f"axis {axis} at {cut}", dims, kind, inputs=[np.array([cut, dims[axis] - cut], np.int64)], outputs=[kind, kind], axis=axis)
            return
        others = [dims[:axis] + (int(self.random.integers(1, dims[axis] + 1)),) + dims[axis + 1:] for _ in range(self.random.integers(1, 4))]
        self.add("Concat", f"axis {axis} {' '.join(_(each[axis:axis + 1]) for each in others)}", dims, kind,
                 inputs=[self.values(kind, each) for each in others], fed=len(others), axis=axis)

    def slice(self):
        dims, axes = self.dims(), None
        axes = self.axes(dims)
        starts, ends, steps = [], [], []
        for axis in axes:
            step = self.one(1, 1, 2, 3, -1, -2)
            low, high = sorted(int(at) for at in self.random.integers(0, dims[axis] + 1, 2))
            low, high = (0, dims[axis]) if low == high else (low, high)
            starts.append(low if step > 0 else high - 1)
            ends.append(high if step > 0 else low - 1 if low else -2 ** 31)
            steps.append(step)
        self.add("Slice", f"{_(axes)} {_(starts)} {_(steps)}", dims, self.one("f32", "f16", "u8", "s64"),
                 inputs=[np.array(each, np.int64) for each in (starts, ends, axes, steps)])

    def pad(self):
        dims = self.dims()
        mode = self.one("constant", "reflect", "edge", "wrap")
        pads = [int(self.random.integers(0, min(dim, 5))) if self.chance(0.6) else 0 for dim in dims * 2]
        self.add("Pad", f"{mode} {_(pads)}", dims, self.one("f32", "f16", "u8", "s64"), inputs=[np.array(pads, np.int64)], mode=mode)

    def spread(self):
        dims, kind = self.dims(elements=MOST ** self.random.uniform(0.05, 0.8)), self.one("f32", "f16", "u8", "s64")
        if self.chance(0.5):
            repeats = [self.one(1, 1, 2, 3) for _ in dims]
            self.add("Tile", _(repeats), dims, kind, inputs=[np.array(repeats, np.int64)])
            return
        x = tuple(dim if self.chance(0.5) else 1 for dim in dims)
        self.add("Expand", _(dims), x, kind, inputs=[np.array(dims, np.int64)])

    def gather(self):
        dims, kind, op = self.dims(), self.one("f32", "f16", "u8", "s64"), self.one("Gather", "Gather", "GatherElements", "ScatterElements", "GatherND",
                                                                                    "ScatterND")
        axis = self.axis(dims)
        size = dims[axis]
        if op == "Gather":
            shape = self.one((), (int(self.random.integers(1, 2 * size + 1)),), (3, int(self.random.integers(1, size + 1))))
            self.add(op, f"axis {axis} {_(shape)}", dims, kind, inputs=[np.asarray(self.integers(0, size, shape))], axis=axis, fed=1)
        elif op == "GatherElements":
            self.add(op, f"axis {axis}", dims, kind, inputs=[self.integers(0, size, dims)], axis=axis, fed=1)
        elif op == "ScatterElements":
            of = tuple(int(self.random.integers(1, dim + 1)) for dim in dims)
            kind = self.one("f32", "s64")
            self.add(op, f"axis {axis} of {_(of)}", dims, kind, inputs=[self.integers(0, size, of), self.values(kind, of)], axis=axis, fed=2,
                     reduction=self.one("none", "add", "max"))
        else:
            of = int(self.random.integers(1, len(dims) + 1))
            count = int(self.random.integers(1, max(2, min(1000, math.prod(dims[:of])))))
            indices = np.stack([self.integers(0, dim, count) for dim in dims[:of]], -1)
            if op == "GatherND":
                self.add(op, f"{count} of {of}", dims, kind, inputs=[indices], fed=1)
            else:
                self.add(op, f"{count} of {of}", dims, kind, inputs=[indices, self.values(kind, (count, *dims[of:]))], fed=2)

    def norm(self):
        op = self.one("LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization", "BatchNormalization", "LRN",
                      "MeanVarianceNormalization")
        dims, kind = self.dims(3 if op in ("InstanceNormalization", "GroupNormalization") else 2, 4 if op == "MeanVarianceNormalization" else 5), \
            self.one("f32", "f32", "f16", "bf16")
        axis = self.axis(dims)
        if op in ("LayerNormalization", "RMSNormalization"):
            count = 2 if op == "LayerNormalization" else 1
            self.add(op, f"axis {axis}", dims, kind, axis=axis, inputs=[self.values(kind, dims[axis:]) for _ in range(count)], opset=23)
        elif op == "GroupNormalization":
            groups = max(group for group in (1, 2, 4, 8, 32) if dims[1] % group == 0)
            self.add(op, f"{groups} groups", dims, kind, num_groups=groups, inputs=[self.values(kind, dims[1:2]) for _ in range(2)])
        elif op in ("InstanceNormalization", "BatchNormalization"):
            self.add(op, "all", dims, kind, inputs=[self.values(kind, dims[1:2]) for _ in range(2 if op[0] == "I" else 4)])
        elif op == "LRN":
            self.add(op, "5", self.dims(4, 4), "f32", size=5)
        else:
            axes = self.axes(self.dims(4, 4))
            self.add(op, f"axes {_(axes)}", self.dims(4, 4), "f32", axes=axes)

    def pool(self):
        op, rank = self.one("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"), self.one(3, 4, 4, 4, 5)
        kind = self.one("f32", "f32", "f16", "u8") if op == "MaxPool" else self.one("f32", "f32", "f16")
        dims = self.dims(rank, rank, MOST ** self.random.uniform(0.4, 0.95))
        if op.startswith("Global"):
            self.add(op, "all", dims, kind)
            return
        kernel = [int(self.random.integers(1, min(dim, 7) + 1)) for dim in dims[2:]]
        strides = [int(self.random.integers(1, 4)) for _ in kernel]
        pads = [int(self.random.integers(0, (size + 1) // 2)) for size in kernel * 2]
        more = {"ceil_mode": int(self.chance(0.3))}
        if op == "AveragePool":
            more["count_include_pad"] = int(self.chance(0.5))
        self.add(op, f"{_(kernel)} stride {_(strides)} pads {_(pads)}", dims, kind, kernel_shape=kernel, strides=strides, pads=pads, opset=22, **more)

    def resize(self):
        dims = self.dims(4, 4, MOST ** self.random.uniform(0.3, 0.85))
        sizes = [dims[0], dims[1], *(max(1, int(dim * self.random.uniform(0.3, 2.5))) for dim in dims[2:])]
        mode, kind = self.one("nearest", "linear", "cubic"), self.one("f32", "f32", "u8")
        where = self.one("half_pixel", "align_corners", "asymmetric")
        self.add("Resize", f"{mode} {where} to {_(sizes[2:])}", dims, kind, mode=mode, coordinate_transformation_mode=where,
                 inputs=[np.array([], np.float32), np.array([], np.float32), np.array(sizes, np.int64)], opset=13 if kind == "u8" else 19)

    def product(self):
        op = self.one("MatMul", "MatMul", "Gemm", "Einsum")
        m, k, n = (int(2 ** self.random.uniform(0, 10)) for _ in range(3))
        kind = self.one("f32", "f32", "f16", "bf16") if op == "MatMul" else "f32"
        constant = self.chance(0.6)
        if op == "Gemm":
            across, back = int(self.chance(0.5)), int(self.chance(0.5))
            self.add(op, f"{'t' if across else 'n'}{'t' if back else 'n'} {n}", (k, m) if across else (m, k), "f32", transA=across, transB=back,
                     inputs=[self.values("f32", (n, k) if back else (k, n)), self.values("f32", self.one((n,), (m, 1), ()))], fed=0 if constant else 1,
                     alpha=self.one(1.0, 0.5))
            return
        batch = self.dims(0, 2, 32) if self.chance(0.6) else ()
        if op == "MatMul":
            other = batch if self.chance(0.5) else ()
            self.add(op, f"by {_((*other, k, n))}{' constant' if constant else ''}", (*batch, m, k), kind, inputs=[self.values(kind, (*other, k, n))],
                     fed=0 if constant else 1)
            return
        equation = self.one("ij,jk->ki", "ij,kj->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ibh,jbh->bij", "ij->ji", "bij->b", "bi,bi->b", "i,j->ij",
                            "bnij,nijk->bk")
        sizes = {letter: int(2 ** self.random.uniform(0, 6)) for letter in "bhijkdn"}
        terms = equation.split("->")[0].split(",")
        shapes = [tuple(sizes[letter] for letter in term) for term in terms]
        self.add(op, f"{equation} {_(shapes[-1])}", shapes[0], "f32", inputs=[self.values("f32", shape) for shape in shapes[1:]], equation=equation,
                 fed=0 if constant else len(shapes) - 1)

    def quantized(self):
        dims, kind = self.dims(2), self.one("u8", "s8")
        axis = self.axis(dims)
        by = self.chance(0.5)
        shape = dims[axis:axis + 1] if by else ()
        what = f"by {axis}" if by else "one"
        zero = np.full(shape, 3, np.uint8 if kind == "u8" else np.int8)
        if self.chance(0.5):
            self.add("QuantizeLinear", what, dims, "f32", axis=axis, inputs=[self.values("f32", shape), zero], outputs=[kind])
        else:
            self.add("DequantizeLinear", what, dims, kind, axis=axis, inputs=[self.values("f32", shape), zero], outputs=["f32"])

    def cast(self):
        given, made = (self.one("f32", "f16", "s32", "s64", "u8", "s8", "bool") for _ in range(2))
        self.add("Cast", f"to {made}", self.dims(), given, outputs=[made], to=MADE[made])

    def blocks(self):
        size, kind = self.one(2, 3, 4), self.one("f32", "f16", "u8")
        n, c, h, w = self.dims(4, 4, MOST ** self.random.uniform(0.3, 0.9))
        if self.chance(0.5):
            self.add("SpaceToDepth", str(size), (n, c, h * size, w * size), kind, blocksize=size)
        else:
            self.add("DepthToSpace", str(size), (n, c * size * size, h, w), kind, blocksize=size, mode=self.one("DCR", "CRD"))

    def other(self):
        dims, op = self.dims(2), self.one("Trilu", "IsNaN", "IsInf", "Not", "OneHot", "ReverseSequence", "Flatten", "NonZero", "EyeLike", "Compress")
        kind = {"Not": "bool", "NonZero": "bool", "OneHot": "s64"}.get(op, "f32")
        if op == "OneHot":
            dims = self.dims(1, 3, MOST ** self.random.uniform(0.05, 0.6))
            self.add(op, "40", dims, kind, inputs=[np.array(40, np.int64), np.array([0, 1], np.float32)], outputs=["f32"], axis=self.one(-1, 0))
        elif op == "ReverseSequence":
            self.add(op, "0 by 1", dims, kind, inputs=[self.integers(1, dims[0] + 1, dims[1])], time_axis=0, batch_axis=1)
        elif op == "Compress":
            axis = self.axis(dims)
            self.add(op, f"axis {axis}", dims, kind, inputs=[self.random.random(dims[axis]) < 0.5], axis=axis)
        elif op == "EyeLike":
            self.add(op, "all", self.dims(2, 2), kind)
        else:
            self.add(op, "all", dims, kind, outputs={"IsNaN": ["bool"], "IsInf": ["bool"], "NonZero": ["s64"]}.get(op))


def _(dims):
    return "x".join(map(str, dims)) or "one"


SHARES = {Draw.unary: 3, Draw.binary: 5, Draw.variadic: 1, Draw.clip: 1, Draw.reduction: 4, Draw.along: 4, Draw.transpose: 3, Draw.split_or_concat: 2,
          Draw.slice: 2, Draw.pad: 2, Draw.spread: 2, Draw.gather: 3, Draw.norm: 3, Draw.pool: 3, Draw.resize: 2, Draw.product: 4, Draw.quantized: 2,
          Draw.cast: 2, Draw.blocks: 1, Draw.other: 2}


def draw(count, seed, add, values):
    families = [family for family, share in SHARES.items() for i in range(share)]
    by = Draw(seed, add, values)
    for i in range(count):
        by.one(*families)(by)
