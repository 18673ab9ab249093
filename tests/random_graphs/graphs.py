"""Random graphs: a seed gives a model, and inputs for it of several sizes.

A graph has 3 to 10 operators after one or two inputs of 1 to 3 spatial dims; where all sizes are fixed a constant may stand beside them.
Its values are followed as it grows (operators.py), so that each operator gets sizes that it takes. A third of the graphs is quantized in
parts (QDQ), a third has free sizes, all but fixed ones are run with a batch of 0 as well, and a quarter of the inputs has special values.
With CONVOY_RANDOM_TYPE=f16 all values are of that type, and nothing is quantized.
"""

import numpy as np
import onnx
from bounded import TYPE, Bounded, Invalid
from onnx import TensorProto, helper, numpy_helper
from operators import OPERATORS

SPECIAL = {"f32": [np.nan, np.inf, -np.inf, 3.4028235e38, -3.4028235e38, 1e30, -1e30, 1e10, 1e-40, 0.0, -0.0],
           "f16": [np.nan, np.inf, -np.inf, 65504, -65504, 3e4, -3e4, 1e3, 6e-8, 0.0, -0.0]}[TYPE]
TYPES = {"real": {"f32": (np.float32, TensorProto.FLOAT), "f16": (np.float16, TensorProto.FLOAT16)}[TYPE], "f32": (np.float32, TensorProto.FLOAT), "u8": (np.uint8, TensorProto.UINT8), "s8": (np.int8, TensorProto.INT8),
         "s64": (np.int64, TensorProto.INT64)}
OPSET = 19
CHANNELS_LAST = {"Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSwish", "Add", "Sub", "Mul", "Max", "Min", "Concat", "Split", "Slice", "Pad",
                 "Resize", "Softmax", "Identity"}  # what may be written so


class Graph:
    """`build` makes it; `model` is its bytes, `inputs(k)` the k-th set of inputs, `evaluate` what is right."""

    def __init__(self, seed):
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.values = [], {}, {}
        self.build()

    # ---- making it

    def chance(self, p):
        return self.random.random() < p

    def pick(self, *values):
        return values[self.random.integers(len(values))]

    def integer(self, low, high):
        return int(self.random.integers(low, high + 1))

    def constant(self, array, kind="real"):
        name = f"c{len(self.constants)}"
        self.constants[name] = (np.asarray(array, TYPES[kind][0]), kind)
        self.values[name] = Bounded(self.constants[name][0], kind=kind)
        return name

    def weights(self, *dims):
        return self.constant(self.random.standard_normal(dims) / np.sqrt(max(1, np.prod(dims[1:]))))

    def apply(self, op, *inputs, outputs=1, **attributes):
        """The outputs' names, or None where the sizes do not allow it."""
        try:
            made = OPERATORS[op](*(self.values[i] for i in inputs if i), **attributes)
        except Invalid:
            return None
        made = made if isinstance(made, list) else [made]
        if any(value.v.size > 60000 or value.v.ndim != self.values[inputs[0]].v.ndim and op != "Flatten" for value in made):
            return None
        names = [f"v{len(self.nodes)}_{i}" for i in range(len(made))]
        self.nodes.append((op, inputs, names, attributes))
        self.values.update(zip(names, made))
        return names

    def windows(self, ceil=False, dilated=True):
        n = self.spatial
        attributes = {"kernel_shape": [self.integer(1, 4) for _ in range(n)]}
        if self.chance(0.5):
            attributes["kernel_shape"] = [self.pick(1, 3, 3, 3, 5)] * n
        kernel = attributes["kernel_shape"]
        if self.chance(0.5):
            attributes["strides"] = [self.integer(1, 3) for _ in range(n)]
        if dilated and self.chance(0.3):
            attributes["dilations"] = [self.integer(1, 3) for _ in range(n)]
        if self.chance(0.6):
            attributes["pads"] = [self.integer(0, kernel[d % n] - 1) for d in range(2 * n)]
            if self.chance(0.5):
                attributes["pads"] = [(k - 1) // 2 for k in kernel] * 2
        elif self.chance(0.2):
            attributes["auto_pad"] = self.pick("SAME_UPPER", "SAME_LOWER", "VALID")
            attributes.pop("dilations", None)
        if ceil and self.chance(0.5):
            attributes["ceil_mode"] = 1
            if self.chance(0.2):  # windows larger than the map
                large = self.integer(7, 40)
                attributes.update(kernel_shape=[large] * n, strides=[large] * n)
                attributes.pop("pads", None), attributes.pop("dilations", None), attributes.pop("auto_pad", None)
        return attributes

    def convolution(self, x):
        channels = self.values[x].shape[1]
        group = self.pick(1, 1, 1, *[g for g in (2, 3, 4, channels) if channels % g == 0 and channels])
        group = max(group, 1)
        attributes = self.windows()
        kernel = attributes.pop("kernel_shape")
        if self.chance(0.5):
            attributes["kernel_shape"] = kernel
        out = group * self.pick(1, 1, 2, self.integer(1, 20))
        if self.chance(0.25):
            attributes.pop("auto_pad", None), attributes.pop("kernel_shape", None)
            w, b = self.weights(channels, out // group, *kernel), self.weights(out)
            if self.chance(0.3):
                strides = attributes.get("strides", [1] * self.spatial)
                attributes["output_padding"] = [self.integer(0, s - 1) for s in strides]
            return self.apply("ConvTranspose", x, w, b, group=group, **attributes)
        w = self.weights(out, channels // group, *kernel)
        b = [self.weights(out)] if self.chance(0.6) else []
        return self.apply("Conv", x, w, *b, group=group, **attributes)

    def scale_of(self, x):
        finite = np.abs(np.where(np.isfinite(self.values[x].v), self.values[x].v, 0))
        largest = float(finite.max()) if finite.size else 1.0
        return min(max(largest, 0.1), 8.0) / 127

    def quantized(self, x):
        """x through 8 bits."""
        kind = self.pick("u8", "s8")
        scale = self.constant(np.float32(self.scale_of(x)))
        zero = self.constant(self.integer(100, 140) if kind == "u8" else self.pick(0, 0, -3), kind)
        q = self.apply("QuantizeLinear", x, scale, zero)
        return self.apply("DequantizeLinear", q[0], scale, zero)

    def quantized_convolution(self, x):
        """As quantizers write it: values, weights and the result in 8 bits."""
        x = self.quantized(x)[0]
        channels = self.values[x].shape[1]
        group = channels if channels and self.chance(0.2) else 1
        attributes = self.windows()
        kernel = attributes.pop("kernel_shape")
        out = group * self.pick(1, 8, self.integer(1, 17))
        kind = self.pick("s8", "s8", "u8")
        low, high = (-127, 127) if kind == "s8" else (0, 255)
        w = self.constant(self.random.integers(low, high + 1, (out, channels // group, *kernel)), kind)
        each = self.chance(0.5)
        scale = self.constant(self.random.uniform(0.002, 0.01, out) if each else np.float32(0.005))
        zero = self.constant(np.zeros(out) if each else (0 if kind == "s8" else 128), kind)
        w = self.apply("DequantizeLinear", w, scale, zero, axis=0)
        b = [self.weights(out)] if self.chance(0.6) else []
        y = self.apply("Conv", x, w[0], *b, group=group, **attributes)
        if y and self.chance(0.4):
            y = self.apply("Relu", y[0])
        return y and self.quantized(y[0])

    def pool(self, x):
        op = self.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
        attributes = self.windows(ceil=True)
        if op == "LpPool":
            attributes.pop("auto_pad", None)
            attributes["p"] = self.pick(1, 2, 2)
        if op == "AveragePool" and self.chance(0.5):
            attributes["count_include_pad"] = 1
        return self.apply(op, x, **attributes)

    def elementwise(self, x):
        op = self.pick("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Neg", "Abs", "Clip", "BatchNormalization",
                       "Add", "Sub", "Mul", "Max", "Min", "Add", "Mul")
        if op == "Clip":
            return self.apply(op, x, self.constant(np.float32(-1)), self.constant(np.float32(self.pick(1, 6))))
        if op == "BatchNormalization":
            c = self.values[x].shape[1]
            positive = lambda: self.constant(self.random.uniform(0.5, 2, c))  # noqa: E731
            return self.apply(op, x, positive(), self.weights(c), self.weights(c), positive())
        if op in ("Add", "Sub", "Mul", "Max", "Min"):
            same = [n for n in self.live if self.values[n].shape == self.values[x].shape and self.values[n].kind == "real"]
            if self.chance(0.7):
                return self.apply(op, x, same[self.random.integers(len(same))])
            dims = [1, self.values[x].shape[1]] + [1] * self.spatial
            return self.apply(op, x, self.weights(*(dims if self.chance(0.6) else [1] * len(dims))))
        return self.apply(op, x)

    def movement(self, x):
        v = self.values[x]
        n = v.v.ndim
        op = self.pick("Concat", "Split", "Slice", "Pad", "Pad", "Resize", "Resize", "Transpose", "Identity", "Global")
        if op == "Concat":
            return self.apply(op, x, *(self.live[self.random.integers(len(self.live))] for _ in range(self.integer(1, 2))), axis=1)
        if op == "Split" and v.shape[1] > 1:
            first = self.integer(1, v.shape[1] - 1)
            return self.apply(op, x, self.constant([first, v.shape[1] - first], "s64"), axis=1)
        if op == "Slice":
            axis = self.integer(1, n - 1)
            size = max(v.shape[axis], 1)
            if self.chance(0.7):
                low = self.integer(0, size - 1)
                parts = ([low], [self.integer(low + 1, size)], [axis], [self.pick(1, 1, 2)])
            else:
                parts = ([-1], [-(10**6)], [axis], [-1])
            return self.apply(op, x, *(self.constant(p, "s64") for p in parts))
        if op == "Pad":
            mode = self.pick("constant", "constant", "reflect", "edge", "wrap")
            low = self.pick(0, 0, -2)
            pads = [0, 0] + [self.integer(low, 2) for _ in range(n - 2)]
            pads = pads + [0, 0] + [self.integer(low, 2) for _ in range(n - 2)]
            if any(v.shape[d] + min(0, pads[d]) + min(0, pads[n + d]) < 4 for d in range(2, n)):
                return None  # ONNX Runtime is not clear about what reflects more than once
            return self.apply(op, x, self.constant(pads, "s64"), self.constant(np.float32(self.pick(0, 0, 1.5))), mode=mode)
        if op == "Resize" and self.spatial < 3:
            scales = [1.0, 1.0] + [self.pick(1.0, 2.0, 2.0, 0.5, 3.0) for _ in range(n - 2)]
            attributes = self.pick({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
                                   {"mode": "nearest"}, {"mode": "linear"},
                                   {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
                                   {"mode": "linear", "coordinate_transformation_mode": "asymmetric"})
            return self.apply(op, x, self.constant(scales, "f32"), **attributes)
        if op == "Transpose":
            perm = [0, 1] + [int(d) for d in 2 + self.random.permutation(n - 2)]
            return self.apply(op, x, perm=perm)
        if op == "Global":
            return self.apply(self.pick("GlobalAveragePool", "GlobalMaxPool"), x)
        return self.apply("Identity", x)

    def build(self):
        self.spatial = self.pick(1, 2, 2, 2, 2, 2, 3)
        self.free = self.pick("none", "batch", "batch", "all")
        channels = self.pick(1, 2, 3, 4, 8, 16, 17)
        most = {1: 40, 2: 18, 3: 7}[self.spatial]
        self.dims = [self.integer(1, 2), channels] + [self.integer(3, most) for _ in range(self.spatial)]
        self.special = self.chance(0.25)
        self.names = ["x0", "x1"] if self.chance(0.2) else ["x0"]
        self.sets = {}
        for name, array in self.inputs(0).items():
            self.values[name] = Bounded(array)
        quantizing = self.chance(1 / 3) and TYPE == "f32"
        self.live = list(self.names)
        of_constants = np.random.default_rng((self.seed, 7))
        if self.free == "none" and of_constants.random() < 0.3:
            self.live.append(self.constant(of_constants.standard_normal(self.dims)))
        target = self.integer(3, 10)
        for _ in range(60):
            if len(self.nodes) >= target:
                break
            x = self.live[-1] if self.chance(0.75) else self.live[self.random.integers(len(self.live))]
            kinds = [self.convolution, self.convolution, self.pool, self.elementwise, self.elementwise, self.movement]
            if quantizing:
                kinds += [self.quantized_convolution] * 4
            made = kinds[self.random.integers(len(kinds))](x)
            self.live += made or []
        if self.chance(0.15):
            self.live += self.apply("Softmax", self.live[-1], axis=self.pick(1, -1)) or []
        if self.free != "all" and self.chance(0.15):
            self.live += self.apply("Flatten", self.live[-1]) or []
        read = {i for _, inputs, _, _ in self.nodes for i in inputs}
        self.outputs = [n for n in self.live if n not in read and n not in self.names and n not in self.constants]

    # ---- running it

    def inputs(self, k):
        """The k-th set: of the sizes that the graph was made for, with a batch of 0, of another batch, of other sizes where they are free."""
        if k not in self.sets:
            random = np.random.default_rng((self.seed, k))
            dims = list(self.dims)
            if k and self.free != "none":
                dims[0] = (None, 0, 3, 1)[k]
            if k == 3 and self.free == "all":
                dims[2:] = [d + int(random.integers(0, 5)) for d in dims[2:]]
            made = {}
            for name in self.names:
                array = random.standard_normal(dims).astype(TYPES["real"][0])
                if self.special and array.size:
                    for _ in range(int(random.integers(1, 4))):
                        array.reshape(-1)[random.integers(array.size)] = SPECIAL[random.integers(len(SPECIAL))]
                made[name] = array
            self.sets[k] = made
        return self.sets[k]

    def evaluate(self, k):
        """What is right: by output a Bounded. Invalid: the sizes are not."""
        values = {name: Bounded(array, kind=kind) for name, (array, kind) in self.constants.items()}
        values.update((name, Bounded(array)) for name, array in self.inputs(k).items())
        for op, inputs, outputs, attributes in self.nodes:
            made = OPERATORS[op](*(values[i] for i in inputs), **attributes)
            values.update(zip(outputs, made if isinstance(made, list) else [made]))
        return {name: values[name] for name in self.outputs}

    def with_channels_last(self, node, added):
        """The same node between Transposes, as exporters of frameworks that compute channels last write it; new constants go to `added`."""
        n = 2 + self.spatial
        last, first = [0, *range(2, n), 1], [0, n - 1, *range(1, n - 1)]
        inputs, outputs = list(node.input), [f"{name}.last" for name in node.output]
        nodes = []

        def list_of(i, values):
            array = self.constants[inputs[i]][0]
            inputs[i] = f"{node.name}.list{i}"
            added.append(numpy_helper.from_array(np.asarray(values(array), array.dtype), inputs[i]))

        data = {"Concat": len(inputs), "Add": 2, "Sub": 2, "Mul": 2, "Max": 2, "Min": 2}.get(node.op_type, 1)
        for i in range(data):
            nodes.append(helper.make_node("Transpose", [inputs[i]], [f"{node.name}.{i}.last"], name=f"{node.name}.{i}.last", perm=last))
            inputs[i] = f"{node.name}.{i}.last"
        if node.op_type == "Pad":
            list_of(1, lambda pads: [pads[k * n + d] for k in (0, 1) for d in last])
        if node.op_type == "Resize":
            list_of(2, lambda scales: [scales[d] for d in last])
        if node.op_type == "Slice":
            list_of(3, lambda axes: [last.index(d % n) for d in axes])
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if "axis" in attributes:
            attributes["axis"] = last.index(attributes["axis"] % n)
        nodes.append(helper.make_node(node.op_type, inputs, outputs, name=node.name, **attributes))
        for before, after in zip(outputs, node.output):
            nodes.append(helper.make_node("Transpose", [before], [after], name=before, perm=first))
        return nodes

    def model(self):
        nodes, added = [], []
        random = np.random.default_rng((self.seed, 8))
        last = random.random() < 0.2
        for op, inputs, outputs, attributes in self.nodes:
            if op in ("Max", "Min", "Clip"):
                attributes = {}
            if op == "Resize":
                inputs = (inputs[0], "", inputs[1])
            node = helper.make_node(op, list(inputs), list(outputs), name=outputs[0], **attributes)
            nodes += self.with_channels_last(node, added) if last and op in CHANNELS_LAST and random.random() < 0.9 else [node]
        dims = list(self.dims)
        if self.free != "none":
            dims[0] = "N"
        if self.free == "all":
            dims[2:] = [f"d{d}" for d in range(self.spatial)]
        tensors = [numpy_helper.from_array(array, name) for name, (array, _) in self.constants.items()] + added
        graph = helper.make_graph(
            nodes, f"random_{self.seed}", [helper.make_tensor_value_info(name, TYPES["real"][1], dims) for name in self.names],
            [helper.make_tensor_value_info(name, TYPES[self.values[name].kind][1], None) for name in self.outputs], tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9).SerializeToString()

    def text(self):
        return onnx.printer.to_text(onnx.load_from_string(self.model()))
