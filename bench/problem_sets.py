"""Convolution problems to fit predictions to, and others to judge them by.

The problem lists of half of the networks in problems/ are for fitting, also varied: in other passes, types, layouts,
batches, channels, groups and maps; and random problems. The lists of the other half, as they are, and 500 other random
problems are for judging.
"""
import math
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIT = ("convnext_tiny", "deepbench", "efficientnet_b0", "googlenet", "resnext50_32x4d", "speech1d", "unet3d", "vgg16")
HELD_OUT = ("densenet121", "hunyuan_video_decoder", "mobilenet_v2", "mobilenet_v3_large", "resnet18", "resnet50", "squeezenet1_1", "unet", "yolo_tiny", "yolov8n")
JUDGED_SEED = 1234  # of the random problems to judge by
LAYOUTS = {"nhwc": {1: "nwc", 2: "nhwc", 3: "ndhwc"}, "nchw": {1: "ncw", 2: "nchw", 3: "ncdhw"}}


class Problem:
    """A bare convolution; str() gives the problem string as Convoy prints it."""

    def __init__(self, batch, channels, filters, size, window, pad=None, stride=None, dilation=None, groups=1,
                 layout="nhwc", type="f32", what="fprop"):
        dims = len(size)
        self.batch, self.channels, self.filters, self.groups = batch, channels, filters, groups
        self.size, self.window = list(size), list(window)
        self.pad = list(pad or [0] * dims)  # before; as much after
        self.stride, self.dilation = list(stride or [1] * dims), list(dilation or [1] * dims)
        self.layout, self.type, self.what = layout, type, what

    def out_size(self):
        return [(size + 2 * pad - dilation * (window - 1) - 1) // stride + 1 for size, pad, dilation, window, stride in
                zip(self.size, self.pad, self.dilation, self.window, self.stride)]

    def valid(self):
        return min(self.out_size()) >= 1 and self.channels % self.groups == 0 and self.filters % self.groups == 0

    def flops(self):
        return (2 * self.batch * self.filters * self.channels // self.groups
                * math.prod(self.window) * math.prod(self.out_size()))

    def elements(self):
        return max(self.batch * self.channels * math.prod(self.size), self.batch * self.filters * math.prod(self.out_size()))

    def __str__(self):
        layout = LAYOUTS[self.layout][len(self.size)]
        joined = lambda values: "x".join(map(str, values))  # noqa: E731
        integers = self.type in ("u8", "s8")
        text = (f"{self.what}:x={self.type},{joined([self.batch, self.channels, *self.size])},{layout}"
                f":w={'s8' if integers else self.type},{joined([self.filters, self.channels // self.groups, *self.window])},{LAYOUTS['nchw'][len(self.size)]}"
                f":y={self.type},{joined([self.batch, self.filters, *self.out_size()])},{layout}")
        for name, values, usual in (("pad", self.pad, 0), ("stride", self.stride, 1), ("dilation", self.dilation, 1)):
            if any(value != usual for value in values):
                text += f":{name}={joined(values)}"
        if self.groups > 1:
            text += f":groups={self.groups}"
        return text + (":requant=channel" if integers else "")

    def but(self, **changes):
        copy = Problem.__new__(Problem)
        copy.__dict__ = {**self.__dict__, **changes}
        return copy


def listed(network):
    """The problem strings of a list, as they are."""
    lines = (ROOT / f"problems/{network}.txt").read_text().splitlines()
    return [re.match(r"(?:\d+ )?(\S+)", line)[1] for line in lines if line and not line.startswith("#")]


def parse(text):
    """A listed problem; None where it is padded unevenly."""
    fields = dict(field.split("=", 1) for field in text.split(":")[1:])
    numbers = lambda value: [int(each) for each in value.split("x")]  # noqa: E731
    x, w = numbers(fields["x"].split(",")[1]), numbers(fields["w"].split(",")[1])
    if "/" in fields.get("pad", "") or set(fields) - {"x", "w", "y", "pad", "stride", "dilation", "groups"}:
        return None
    layout = "nchw" if fields["x"].split(",")[2].startswith("nc") else "nhwc"
    window = {name: numbers(fields[name]) if name in fields else None for name in ("pad", "stride", "dilation")}
    problem = Problem(x[0], x[1], w[0], x[2:], w[2:], **window, groups=int(fields.get("groups", 1)), layout=layout,
                      what=text.split(":")[0])
    return problem


def small_enough(problem, most_flops):
    return problem.valid() and problem.flops() <= most_flops and problem.elements() <= 3e7


def varied(problem, chance):
    """The same layer of a wider, narrower, larger or smaller network."""
    scale = chance.choice((0.5, 0.75, 1, 1.25, 1.5, 2))
    def scaled(channels):
        rounded = chance.choice((1, 8, 16, 32))
        return max(1, round(channels * scale / rounded)) * rounded
    depthwise = problem.groups == problem.channels
    channels = scaled(problem.channels // problem.groups) * problem.groups if not depthwise else scaled(problem.channels)
    filters = scaled(problem.filters // problem.groups) * problem.groups if not depthwise else channels
    shrink = chance.choice((0.5, 0.75, 1, 1, 1.3))
    return problem.but(channels=channels, filters=filters, groups=channels if depthwise else problem.groups,
                       size=[max(1, round(size * shrink)) for size in problem.size])


def regrouped(problem, chance):
    """A layer with its channels in other groups: a channel each, with a multiplier, or a few."""
    c = max(problem.channels // problem.groups, 8) if problem.groups < problem.channels else problem.channels
    kind = chance.choice(("depthwise", "multiplier", "few"))
    if kind == "depthwise":
        return problem.but(channels=c, filters=c, groups=c)
    if kind == "multiplier":
        c = chance.choice((4, 8, 16, 32))
        return problem.but(channels=c, filters=c * chance.choice((2, 4, 8, 16)), groups=c)
    groups = chance.choice((2, 4, 8, 32))
    return problem.but(channels=-(-c // groups) * groups, filters=-(-problem.filters // groups) * groups, groups=groups)


def odd(problem, chance):
    """What nobody publishes: any number of channels, padding or none, any stride."""
    channels = lambda: chance.choice((1, 3, 8, 16, 32, 64, chance.randint(1, 300), chance.randint(1, 300)))  # noqa: E731
    c, k = channels(), channels()
    dense = problem.but(channels=c, filters=k, groups=1, stride=[chance.choice((1, 2))] * len(problem.size),
                        pad=[window // 2 if chance.random() < 0.5 else 0 for window in problem.window])
    return dense if chance.random() < 0.7 else regrouped(dense, chance)


def head(chance):
    """What ends a network: filters of 1 to a few outputs."""
    size = chance.choice((1, 5, 7, 10, 14, 20, 26, 28, 40, 52, 56, 80, 104, 128, 256))
    return Problem(chance.choice((1, 1, 1, 2, 4)), chance.choice((16, 24, 32, 64, 96, 128, 192, 256, 512)), chance.choice((1, 1, 2, 3, 4, 6, 8)),
                   [size] * 2, [chance.choice((1, 1, 1, 3))] * 2, layout=chance.choice(("nhwc", "nhwc", "nhwc", "nchw")),
                   what=chance.choice(("fprop", "fprop", "fprop", "dgrad", "wgrad")))


def step_up(chance):
    """Transposed convolutions: gradients of strided ones whose windows don't overlap, or by half."""
    channels = lambda: chance.choice((16, 32, 64, 96, 128, 192, 256, 384, 512, 1024))  # noqa: E731
    out, stride = chance.choice((4, 7, 8, 14, 16, 28, 32, 56, 64, 98)), chance.choice((2, 2, 2, 4))
    window = stride * chance.choice((1, 1, 1, 2))
    return Problem(chance.choice((1, 1, 2)), channels(), channels(), [out * stride] * 2, [window] * 2, [(window - stride) // 2] * 2,
                   [stride] * 2, layout=chance.choice(("nhwc", "nhwc", "nhwc", "nchw")), what=chance.choice(("dgrad", "dgrad", "dgrad", "fprop", "wgrad")))


def small_map(chance):
    """Maps about as small as their windows: most taps meet padding, which some implementations skip."""
    dims, window = chance.choice((2, 2, 3)), chance.choice((3, 3, 5, 7))
    channels = lambda: chance.choice((8, 16, 32, 64, 96, 160, 256, 384, chance.randint(1, 400)))  # noqa: E731
    c, k, groups = channels(), channels(), 1
    if chance.random() < 0.4:
        groups = c if chance.random() < 0.6 else chance.choice((2, 4, 8, 32))
        c, k = -(-c // groups) * groups, groups * chance.choice((1, 1, 2, 4, 8))
    dilation = chance.choice((1, 1, 1, 2, 4))
    return Problem(chance.choice((1, 1, 2, 4, 8)), c, k, [chance.randint(1, 2 * window)] * dims, [window] * dims,
                   [dilation * (window // 2)] * dims, [chance.choice((1, 1, 2))] * dims, [dilation] * dims, groups)


def narrow(chance):
    """Few channels or few filters, over maps of any size: what begins and ends networks, and more."""
    dims = chance.choices((1, 2, 3), (3, 6, 3))[0]
    largest = {1: 4000, 2: 640, 3: 64}[dims]
    few = chance.choice((1, 1, 2, 3, 3, 4, 5, 6, 8, 12))
    many = chance.choice((1, 3, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, chance.randint(1, 500)))
    c, k = chance.choice(((few, many), (many, few)))
    window = chance.choices((1, 3, 5, 7), (5, 4, 1, 1))[0]
    return otherwise(Problem(1, c, k, [round(largest * 40 ** -chance.random())] * dims, [window] * dims,
                             [window // 2 if chance.random() < 0.8 else 0] * dims, [chance.choice((1, 1, 1, 2))] * dims), chance)


def narrow_groups(chance):
    """Groups of few channels and filters, down to one of each, mostly with filters of 1 or 3."""
    dims = chance.choices((1, 2, 3), (2, 5, 3))[0]
    largest = {1: 2000, 2: 112, 3: 32}[dims]
    groups = chance.choice((2, 4, 8, 16, 32, 32, 64, chance.randint(2, 500)))
    few = lambda: chance.choice((1, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24))  # noqa: E731
    c, k = chance.choice(((1, 1), (few(), few()), (few(), few())))
    window = chance.choices((1, 3, 5, 7), (6, 4, 1, 1))[0]
    return otherwise(Problem(1, c * groups, k * groups, [round(largest * 20 ** -chance.random())] * dims, [window] * dims,
                             [window // 2 if chance.random() < 0.8 else 0] * dims, [chance.choice((1, 1, 1, 2))] * dims,
                             groups=groups), chance)


def pointwise(chance):
    """Filters of 1, with stride or padding, which some engines copy for."""
    dims = chance.choices((1, 2, 3), (2, 5, 3))[0]
    largest = {1: 2000, 2: 112, 3: 32}[dims]
    channels = lambda: chance.choice((3, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, chance.randint(1, 500)))  # noqa: E731
    return otherwise(Problem(1, channels(), channels(), [round(largest * 20 ** -chance.random())] * dims, [1] * dims,
                             stride=[chance.choice((1, 2))] * dims), chance)


def whole_window(chance):
    """Windows as large as their maps: a position each, as classifiers have them."""
    dims, window = chance.choices((1, 2, 3), (1, 6, 2))[0], chance.choice((2, 3, 4, 5, 7, 7, 8))
    channels = lambda: chance.choice((3, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, chance.randint(1, 500)))  # noqa: E731
    c, k, groups = channels(), channels(), chance.choice((1, 1, 1, 1, 2, 8))
    plain = otherwise(Problem(1, -(-c // groups) * groups, -(-k // groups) * groups, [window] * dims, [window] * dims, groups=groups), chance)
    return plain.but(batch=chance.choice((1, 2, 4, 8, 16)))


def few_planes(chance):
    """Depthwise, of up to a dozen channels, on maps of any size."""
    dims, c = chance.choices((1, 2, 3), (2, 6, 2))[0], chance.choice((2, 3, 3, 3, 4, 5, 6, 7, 9, 12))
    largest, window = {1: 4000, 2: 320, 3: 40}[dims], chance.choice((3, 3, 5, 7))
    return otherwise(Problem(1, c, c, [max(window, round(largest * 30 ** -chance.random()))] * dims, [window] * dims,
                             [window // 2 if chance.random() < 0.8 else 0] * dims, [chance.choice((1, 1, 2))] * dims, groups=c), chance)


def otherwise(problem, chance):
    """In another type, pass, layout and batch."""
    type = chance.choices(("f32", "bf16", "u8"), (4, 2, 2))[0]
    what = "fprop" if type == "u8" else chance.choice(("fprop", "fprop", "dgrad", "wgrad"))
    return problem.but(type=type, what=what, layout=chance.choice(("nhwc", "nchw")), batch=chance.choice((1, 1, 2, 4)))


def fit_set(seed=1, most_flops=4e9):
    chance = random.Random(seed)
    texts = [text for network in FIT for text in listed(network)]
    layers = [problem for problem in map(parse, texts) if problem is not None]
    wanted = [layer for layer in layers]
    for layer in layers:
        other = "nchw" if layer.layout == "nhwc" else "nhwc"
        for what in ("dgrad", "wgrad"):
            wanted.append(layer.but(what=what) if chance.random() < 0.5 else varied(layer, chance).but(what=what, layout=other))
        wanted.append(varied(layer, chance))
        wanted.append(varied(layer, chance).but(batch=chance.choice((2, 4, 8, 16)), layout=chance.choice((layer.layout, other)),
                                                what=chance.choice(("fprop", "fprop", "dgrad", "wgrad"))))
        wanted.append(varied(layer, chance).but(layout=other))
        wanted.append(varied(layer, chance).but(type="bf16", layout=chance.choice(("nhwc", "nhwc", "nchw")),
                                                what=chance.choice(("fprop", "dgrad", "wgrad")), batch=chance.choice((1, 1, 4))))
        wanted.append(varied(layer, chance).but(type="u8", layout=chance.choice(("nhwc", "nhwc", "nchw")), what="fprop",
                                                batch=chance.choice((1, 1, 4))))
    kept = dict.fromkeys(str(problem) for problem in wanted if small_enough(problem, most_flops))
    mixed = list(kept)
    chance.shuffle(mixed)
    # Then what is rarer.
    rare = [otherwise(change(varied(layer, chance), chance), chance) for layer in layers for change in (regrouped, odd) * 2]
    wanted = mixed + [str(problem) for problem in rare if small_enough(problem, most_flops / 2)]
    special = [kind(chance) for _ in range(300) for kind in (head, step_up)]
    wanted = [str(problem) for problem in special if small_enough(problem, most_flops)] + wanted
    # Random ones like those to be judged, and others of which every kind, pass and type has as many.
    small = [otherwise(small_map(chance), chance) for _ in range(300)]
    thin = [kind(chance) for _ in range(500) for kind in (narrow, narrow_groups, pointwise)]
    corners = [kind(chance) for _ in range(300) for kind in (whole_window, few_planes)]
    wanted = (random_set(1200, seed=101) + [str(problem) for problem in thin if 1e5 <= problem.flops() and small_enough(problem, most_flops / 2)]
              + random_set(1600, seed=102, even=True) + wanted + random_set(1400, seed=103)
              + random_set(2500, seed=104)
              + [str(problem) for problem in small if small_enough(problem, most_flops / 2)]
              + [str(problem) for problem in corners if small_enough(problem, most_flops / 2)])
    judged = judged_set()  # networks share layers
    return [text for text in dict.fromkeys(wanted) if text not in judged]


def strange(chance):
    """Small, with every kind of window, also larger than the image and with more padding than it needs."""
    dims = chance.choices((1, 2, 3), (1, 6, 1))[0]
    each = lambda low, high: [chance.randint(low, high) for _ in range(dims)]  # noqa: E731
    channels = lambda: chance.choice((chance.randint(1, 40), 16 * chance.randint(1, 4)))  # noqa: E731
    window = each(1, chance.choice((1, 3, 7)))
    stride = [chance.choice((1, 2))] * dims if chance.random() < 0.7 else each(1, 4)
    plain = Problem(chance.randint(1, 4), channels(), channels(), each(1, chance.choice((6, 24))), window,
                    [chance.randint(0, size // 2) if chance.random() < 0.8 else chance.randint(0, 2 * size) for size in window],
                    stride, [1] * dims if chance.random() < 0.7 else each(1, 3))
    if chance.random() < 0.4:
        plain = regrouped(plain, chance)
    return plain


def with_epilogue(text, chance):
    return (text + (":bias=1" if chance.random() < 0.7 else "")
            + chance.choice(("", ":act=relu", ":act=relu", ":act=clip,0,6", ":act=swish", ":act=sigmoid")))


def offer_set(count, seed=1):
    """Problems to learn from what oneDNN offers: random and listed ones and variations of those, a quarter with epilogues."""
    chance = random.Random(seed)
    layers = [problem for network in FIT for problem in map(parse, listed(network)) if problem is not None]
    texts = random_set(count // 4, seed=201) + random_set(count // 4, seed=202, even=True)
    while len(texts) < count:
        kind = chance.choice(("varied", "regrouped", "odd", "strange"))
        problem = strange(chance) if kind == "strange" else varied(chance.choice(layers), chance)
        if kind in ("regrouped", "odd"):
            problem = {"regrouped": regrouped, "odd": odd}[kind](problem, chance)
        problem = otherwise(problem, chance)
        if problem.type == "u8" and chance.random() < 0.3:
            problem = problem.but(type="s8")
        if problem.valid() and problem.elements() <= 3e7:
            texts.append(str(problem))
    return [with_epilogue(text, chance) if text.startswith("fprop") and chance.random() < 0.25 else text
            for text in dict.fromkeys(texts)]


def judged_set():
    return set(random_set(seed=JUDGED_SEED)) | {text for texts in held_out().values() for text in texts}


def held_out():
    return {network: listed(network) for network in HELD_OUT}


def random_set(count=500, seed=JUDGED_SEED, most_flops=2e9, least_flops=1e5, even=False):
    chance = random.Random(seed)
    channels = lambda: (chance.choice((3, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768))  # noqa: E731
                        if chance.random() < 0.85 else chance.randint(1, 500))
    found = {}
    while len(found) < count:
        dims = chance.choices((1, 2, 3), (1, 8, 1))[0]
        largest = {1: 2000, 2: 112, 3: 32}[dims]
        size = [chance.randint(max(1, largest // 20), largest)] * dims
        window = [chance.choices((1, 3, 5, 7), (7, 8, 3, 2))[0]] * dims
        dilation = [chance.choices((1, 2, 4), (9, 1, 0.5))[0] if window[0] > 1 else 1] * dims
        pad = [dilation[0] * (window[0] // 2) if chance.random() < 0.8 else 0] * dims
        kind = chance.choices(("dense", "depthwise", "grouped"), (2, 3, 3) if even else (14, 3, 3))[0]
        c, k, groups = channels(), channels(), 1
        if kind == "depthwise":
            k = groups = c
            if even and chance.random() < 0.3:
                k = c * chance.choice((2, 3, 4, 8, 16, 24))
        elif kind == "grouped":
            groups = chance.choice((2, 4, 8, 32))
            c, k = -(-c // groups) * groups, -(-k // groups) * groups
        type = chance.choices(("f32", "bf16", "u8"), (3, 3, 1) if even else (3, 1, 1))[0]
        problem = Problem(chance.choice((1, 1, 1, 2, 4, 8, 16)), c, k, size, window, pad,
                          [chance.choice((1, 1, 1, 2))] * dims, dilation, groups, chance.choice(("nhwc", "nhwc", "nchw")), type,
                          "fprop" if type == "u8" else chance.choice(("fprop", "dgrad", "wgrad") if even else ("fprop", "fprop", "dgrad", "wgrad")))
        if small_enough(problem, most_flops) and problem.flops() >= least_flops and (groups == 1 or c > 1):
            found[str(problem)] = None
    return list(found)
