"""Problems for the GPU check, as strings: layers of problems/ in other passes, types, layouts and batches, and random ones."""
import math
import pathlib
import random
import re

LISTS = ("resnet50", "vgg16", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "resnext50_32x4d", "densenet121", "googlenet",
         "squeezenet1_1", "unet", "yolo_tiny", "unet3d", "speech1d", "deepbench")
LAYOUTS = {"nhwc": ("nwc", "nhwc", "ndhwc"), "nchw": ("ncw", "nchw", "ncdhw")}
PASSES = ("fprop", "dgrad", "wgrad")


class Layer:
    """A convolution without epilogue; text() gives the problem string of one of its forms."""

    def __init__(self, channels, filters, size, window, pad, stride, dilation, groups, batch=1):
        self.channels, self.filters, self.groups, self.batch = channels, filters, groups, batch
        self.size, self.window, self.pad, self.stride, self.dilation = size, window, pad, stride, dilation

    def out_size(self):
        return [(n + 2 * p - d * (w - 1) - 1) // s + 1
                for n, p, d, w, s in zip(self.size, self.pad, self.dilation, self.window, self.stride)]

    def valid(self):
        return min(self.out_size()) >= 1 and self.channels % self.groups == 0 and self.filters % self.groups == 0

    def depthwise(self):
        return self.groups == self.channels and self.groups > 1

    def flops(self, batch):
        return 2 * batch * self.filters * (self.channels // self.groups) * math.prod(self.window) * math.prod(self.out_size())

    def bytes(self, batch, size):
        return size * (batch * self.channels * math.prod(self.size) + batch * self.filters * math.prod(self.out_size())
                       + self.filters * (self.channels // self.groups) * math.prod(self.window))

    def text(self, what="fprop", type="f32", layout="nhwc", batch=None, math_mode="strict"):
        name = LAYOUTS[layout][len(self.size) - 1]
        batch = batch or self.batch
        joined = lambda values: "x".join(map(str, values))  # noqa: E731
        integers = type == "s8"
        text = (f"{what}:x={type},{joined([batch, self.channels, *self.size])},{name}"
                f":w={type},{joined([self.filters, self.channels // self.groups, *self.window])},{name}"
                f":y={'s32' if integers else type},{joined([batch, self.filters, *self.out_size()])},{name}")
        for field, values, usual in (("pad", self.pad, 0), ("stride", self.stride, 1), ("dilation", self.dilation, 1)):
            if any(value != usual for value in values):
                text += f":{field}={joined(values)}"
        if self.groups > 1:
            text += f":groups={self.groups}"
        return text + (f":math={math_mode}" if math_mode != "strict" else "")


def layers(folder, names=LISTS):
    """The distinct layers of the lists, those with an epilogue or uneven padding left out."""
    found = {}
    numbers = lambda value: [int(each) for each in value.split("x")]  # noqa: E731
    for name in names:
        for line in (pathlib.Path(folder) / f"{name}.txt").read_text().splitlines():
            match = re.match(r"(?:\d+ )?(\w+:\S+)", line)
            if line.startswith("#") or not match:
                continue
            fields = dict(field.split("=", 1) for field in match[1].split(":")[1:])
            if set(fields) - {"x", "w", "y", "pad", "stride", "dilation", "groups"} or "/" in fields.get("pad", ""):
                continue
            x, w = numbers(fields["x"].split(",")[1]), numbers(fields["w"].split(",")[1])
            dims = len(x) - 2
            window = {key: numbers(fields[key]) if key in fields else [usual] * dims
                      for key, usual in (("pad", 0), ("stride", 1), ("dilation", 1))}
            layer = Layer(x[1], w[0], x[2:], w[2:], window["pad"], window["stride"], window["dilation"], x[1] // w[1], x[0])
            if layer.valid():
                found.setdefault(layer.text(), (name, layer))
    return list(found.values())


FORMS = tuple((what, type, layout, mode) for what in PASSES
              for type, layout, mode in (("f32", "nhwc", "strict"), ("f32", "nchw", "tf32"), ("f16", "nhwc", "strict"),
                                         ("bf16", "nhwc", "strict"), ("bf16", "nchw", "strict")))


def spread(folder, count=165, batch=16, seed=1):
    """`count` problems over all lists, passes, types and layouts, the dearest layers left out; a tenth is int8 fprop."""
    chance = random.Random(seed)
    by_list = {}
    for name, layer in layers(folder):
        if layer.flops(batch) < 4e11 and layer.bytes(batch, 4) < 3e9:
            by_list.setdefault(name, []).append(layer)
    for all_of_list in by_list.values():
        chance.shuffle(all_of_list)
    wanted, turn = {}, 0
    names = sorted(by_list)
    while len(wanted) < count and turn < 50 * count:
        of_list = by_list[names[turn % len(names)]]
        layer = of_list[turn // len(names) % len(of_list)]
        if turn % 10 == 9:
            wanted[layer.text("fprop", "s8", "nhwc", batch)] = None
        else:
            what, type, layout, mode = FORMS[turn % len(FORMS)]
            wanted[layer.text(what, type, layout, batch, mode)] = None
        turn += 1
    return list(wanted)


def random_problems(count=1000, seed=2):
    chance = random.Random(seed)
    channels = lambda: chance.choice((1, 3, 4, 8, 16, 24, 32, 64, 96, 128, 256, chance.randint(1, 300)))  # noqa: E731
    wanted = {}
    while len(wanted) < count:
        dims = chance.choices((1, 2, 3), (1, 6, 2))[0]
        largest = {1: 2000, 2: 64, 3: 20}[dims]
        layer = Layer(channels(), channels(), [chance.randint(1, largest) for _ in range(dims)],
                      [chance.choices((1, 2, 3, 4, 5, 7), (6, 1, 8, 1, 3, 2))[0] for _ in range(dims)],
                      [chance.choice((0, 0, 1, 1, 2, 3)) for _ in range(dims)],
                      [chance.choice((1, 1, 1, 2, 3)) for _ in range(dims)],
                      [chance.choice((1, 1, 1, 1, 2)) for _ in range(dims)], 1, chance.choice((1, 1, 2, 3, 5, 8)))
        kind = chance.choices(("dense", "depthwise", "grouped"), (6, 1, 1))[0]
        if kind == "depthwise":
            layer.groups, layer.filters = layer.channels, layer.channels * chance.choice((1, 1, 2))
        elif kind == "grouped":
            layer.groups = chance.choice((2, 4, 8))
            layer.channels, layer.filters = layer.groups * chance.randint(1, 32), layer.groups * chance.randint(1, 32)
        if not layer.valid() or layer.flops(layer.batch) > 5e9:
            continue
        type = chance.choice(("f32", "f32", "f16", "bf16", "s8"))
        what = "fprop" if type == "s8" else chance.choice(PASSES)
        mode = chance.choice(("strict", "tf32")) if type == "f32" else "strict"
        wanted[layer.text(what, type, chance.choice(("nhwc", "nhwc", "nchw")), None, mode)] = None
    return list(wanted)


MATH = {"f32": "strict", "bf16": "reduced"}  # in 16 bits cuDNN may keep 16-bit sums, as PyTorch lets it


def depthwise(folder, batch):
    """All depthwise layers in three passes, two types and both layouts: (text, floor's flops, bytes) each."""
    wanted = {}
    for _, layer in layers(folder):
        if not layer.depthwise():
            continue
        for what in PASSES:
            for type, size in (("bf16", 2), ("f32", 4)):
                for layout in LAYOUTS:
                    wanted[layer.text(what, type, layout, batch, MATH[type])] = (layer.flops(batch), layer.bytes(batch, size))
    return [(text, *floor) for text, floor in wanted.items()]


# HOPPER.md's rows of depthwise layers at N=64, microseconds to reach (the upper end of each aim).
DEPTHWISE_ROWS = {
    Layer(96, 96, [56, 56], [7, 7], [3, 3], [1, 1], [1, 1], 96).text("wgrad", "f32", "nhwc", 64): 65,
    Layer(96, 96, [56, 56], [7, 7], [3, 3], [1, 1], [1, 1], 96).text("fprop", "bf16", "nhwc", 64, "reduced"): 46,
    Layer(96, 96, [56, 56], [7, 7], [3, 3], [1, 1], [1, 1], 96).text("dgrad", "bf16", "nhwc", 64, "reduced"): 46,
    Layer(96, 96, [56, 56], [7, 7], [3, 3], [1, 1], [1, 1], 96).text("wgrad", "bf16", "nhwc", 64, "reduced"): 52,
    Layer(96, 96, [112, 112], [3, 3], [1, 1], [2, 2], [1, 1], 96).text("fprop", "bf16", "nhwc", 64, "reduced"): 53,
    Layer(96, 96, [112, 112], [3, 3], [1, 1], [2, 2], [1, 1], 96).text("dgrad", "bf16", "nhwc", 64, "reduced"): 54,
    Layer(96, 96, [112, 112], [3, 3], [1, 1], [2, 2], [1, 1], 96).text("wgrad", "bf16", "nhwc", 64, "reduced"): 55,
}

# 2.4e9 elements in x and in y.
LARGE_3D = Layer(32, 32, [256, 384, 384], [3, 3, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1], 1).text("fprop", "bf16", "nhwc", 2)
