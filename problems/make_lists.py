#!/usr/bin/env python3
"""Writes the lists in this folder: the convolutions of published networks, distinct ones with how often they occur.

    make_lists.py          writes them
    make_lists.py --check  fails where a file differs from what would be written

Every network is a function that walks through its layers; the shapes follow. Batch 1, float32, channels last unless a
list says otherwise. Fully connected layers are not convolutions and are left out.
"""

import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent


class Net:
    """The current activation's channels and spatial size, and the convolutions so far."""

    def __init__(self, channels, size, layout=None, batch=1):
        self.c, self.size, self.batch = channels, tuple(size), batch
        self.layout = layout or {1: "nwc", 2: "nhwc", 3: "ndhwc"}[len(self.size)]
        self.weights = {1: "ncw", 2: "nchw", 3: "ncdhw"}[len(self.size)]
        self.layers = {}  # problem -> names

    def _all(self, value):
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * len(self.size)

    def _add(self, text, name, fields):
        for field, value, default in fields:
            if value != default:
                text += f":{field}={dims(value)}"
        self.layers.setdefault(text, []).append(name)

    def _tensor(self, channels, size):
        return f"f32,{dims((self.batch, channels) + tuple(size))},{self.layout}"

    def conv(self, name, k, filter, stride=1, pad=None, dilation=1, groups=1, branch=False):
        """pad None: what keeps the size at stride 1. A branch leaves the current activation as it is."""
        f, s, d = self._all(filter), self._all(stride), self._all(dilation)
        p = tuple(di * (fi - 1) // 2 for fi, di in zip(f, d)) if pad is None else self._all(pad)
        out = tuple((n + 2 * pi - di * (fi - 1) - 1) // si + 1 for n, fi, si, pi, di in zip(self.size, f, s, p, d))
        text = (f"fprop:x={self._tensor(self.c, self.size)}:w=f32,{dims((k, self.c // groups) + f)},{self.weights}"
                f":y={self._tensor(k, out)}")
        ones = self._all(1)
        self._add(text, name, [("pad", p, self._all(0)), ("stride", s, ones), ("dilation", d, ones),
                               ("groups", (groups,), (1,))])
        if not branch:
            self.c, self.size = k, out

    def up(self, name, k, filter, stride):
        """A transposed convolution without padding: dgrad, whose y is the current activation."""
        f, s = self._all(filter), self._all(stride)
        out = tuple((n - 1) * si + fi for n, fi, si in zip(self.size, f, s))
        text = (f"dgrad:x={self._tensor(k, out)}:w=f32,{dims((self.c, k) + f)},{self.weights}"
                f":y={self._tensor(self.c, self.size)}")
        self._add(text, name, [("stride", s, self._all(1))])
        self.c, self.size = k, out

    def pool(self, filter, stride, pad=0, ceil=False):
        up = stride - 1 if ceil else 0
        self.size = tuple((n + 2 * pad - filter + up) // stride + 1 for n in self.size)

    def write(self):
        for text, names in self.layers.items():
            label = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
            yield f"{len(names)} {text}  # {label}"


def dims(values):
    return "x".join(str(v) for v in values)


def resnet18():
    """ResNet-18 (He et al., Deep Residual Learning, 2015), 224x224."""
    net = Net(3, (224, 224))
    net.conv("conv1", 64, 7, stride=2)
    net.pool(3, 2, pad=1)
    for stage, k in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            if stride == 2:
                net.conv(f"{name}.downsample", k, 1, stride=2, branch=True)
            net.conv(f"{name}.conv1", k, 3, stride=stride)
            net.conv(f"{name}.conv2", k, 3)
    return net


def bottlenecks(net, groups, base_width):
    net.conv("conv1", 64, 7, stride=2)
    net.pool(3, 2, pad=1)
    for stage, (k, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        width = k * base_width // 64 * groups
        for block in range(blocks):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            if block == 0:
                net.conv(f"{name}.downsample", 4 * k, 1, stride=stride, branch=True)
            net.conv(f"{name}.conv1", width, 1)
            net.conv(f"{name}.conv2", width, 3, stride=stride, groups=groups)
            net.conv(f"{name}.conv3", 4 * k, 1)
    return net


def resnet50():
    """ResNet-50 (He et al., 2015) with the stride in the 3x3 convolution, as everyone runs it ("v1.5"), 224x224."""
    return bottlenecks(Net(3, (224, 224)), 1, 64)


def resnext50_32x4d():
    """ResNeXt-50 32x4d (Xie et al., Aggregated Residual Transformations, 2016), 224x224."""
    return bottlenecks(Net(3, (224, 224)), 32, 4)


def squeezenet1_1():
    """SqueezeNet 1.1 (Iandola et al., 2016, and its repository's version 1.1), 224x224."""
    net = Net(3, (224, 224))
    net.conv("conv1", 64, 3, stride=2, pad=0)
    for fire, (squeeze, expand) in enumerate(
            ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)), start=2):
        if fire in (2, 4, 6):
            net.pool(3, 2, ceil=True)
        net.conv(f"fire{fire}.squeeze1x1", squeeze, 1)
        net.conv(f"fire{fire}.expand1x1", expand, 1, branch=True)
        net.conv(f"fire{fire}.expand3x3", expand, 3)
        net.c = 2 * expand
    net.conv("conv10", 1000, 1)
    return net


def inverted_residual(net, name, expanded, kernel, stride, k, squeezed):
    if expanded != net.c:
        net.conv(f"{name}.expand", expanded, 1)
    net.conv(f"{name}.depthwise", expanded, kernel, stride=stride, groups=expanded)
    if squeezed:
        size, net.size = net.size, (1, 1)
        net.conv(f"{name}.se.reduce", squeezed, 1)
        net.conv(f"{name}.se.expand", expanded, 1)
        net.size = size
    net.conv(f"{name}.project", k, 1)


def mobilenet_v2():
    """MobileNetV2 1.0 (Sandler et al., Inverted Residuals and Linear Bottlenecks, 2018, table 2), 224x224."""
    net = Net(3, (224, 224))
    net.conv("conv1", 32, 3, stride=2)
    block = 0
    for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)):
        for i in range(n):
            block += 1
            inverted_residual(net, f"block{block}", t * net.c, 3, s if i == 0 else 1, c, 0)
    net.conv("conv_last", 1280, 1)
    return net


def mobilenet_v3_large():
    """MobileNetV3-Large 1.0 (Howard et al., 2019, table 1), 224x224, to the pool. 1x1 maps: squeeze and excitation."""
    net = Net(3, (224, 224))
    net.conv("stem", 16, 3, stride=2)
    for block, (expanded, kernel, s, k, squeezed) in enumerate(
            ((16, 3, 1, 16, 0), (64, 3, 2, 24, 0), (72, 3, 1, 24, 0), (72, 5, 2, 40, 24), (120, 5, 1, 40, 32),
             (120, 5, 1, 40, 32), (240, 3, 2, 80, 0), (200, 3, 1, 80, 0), (184, 3, 1, 80, 0), (184, 3, 1, 80, 0),
             (480, 3, 1, 112, 120), (672, 3, 1, 112, 168), (672, 5, 2, 160, 168), (960, 5, 1, 160, 240),
             (960, 5, 1, 160, 240)), start=1):
        inverted_residual(net, f"block{block}", expanded, kernel, s, k, squeezed)
    net.conv("last", 960, 1)
    return net


def vgg16():
    """VGG-16 (Simonyan and Zisserman, Very Deep Convolutional Networks, 2014, configuration D), 224x224."""
    net = Net(3, (224, 224))
    for stage, (k, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1):
        for i in range(1, count + 1):
            net.conv(f"conv{stage}_{i}", k, 3)
        net.pool(2, 2)
    return net


def googlenet():
    """GoogLeNet (Szegedy et al., Going Deeper with Convolutions, 2014, table 1), 224x224, no auxiliary classifiers."""
    net = Net(3, (224, 224))
    net.conv("conv1", 64, 7, stride=2)
    net.pool(3, 2, ceil=True)
    net.conv("conv2_reduce", 64, 1)
    net.conv("conv2", 192, 3)
    net.pool(3, 2, ceil=True)
    table = (("3a", 64, 96, 128, 16, 32, 32), ("3b", 128, 128, 192, 32, 96, 64), ("4a", 192, 96, 208, 16, 48, 64),
             ("4b", 160, 112, 224, 24, 64, 64), ("4c", 128, 128, 256, 24, 64, 64), ("4d", 112, 144, 288, 32, 64, 64),
             ("4e", 256, 160, 320, 32, 128, 128), ("5a", 256, 160, 320, 32, 128, 128),
             ("5b", 384, 192, 384, 48, 128, 128))
    for name, one, reduce3, three, reduce5, five, project in table:
        if name in ("4a", "5a"):
            net.pool(3, 2, ceil=True)
        c = net.c
        net.conv(f"{name}.1x1", one, 1, branch=True)
        net.conv(f"{name}.pool_proj", project, 1, branch=True)
        net.conv(f"{name}.3x3_reduce", reduce3, 1)
        net.conv(f"{name}.3x3", three, 3)
        net.c = c
        net.conv(f"{name}.5x5_reduce", reduce5, 1)
        net.conv(f"{name}.5x5", five, 5)
        net.c = one + three + five + project
    return net


def unet():
    """U-Net (Ronneberger et al., 2015, figure 1): unpadded, 572x572 in, 388x388 out. up: transposed, so dgrad."""
    net = Net(1, (572, 572))
    skips = []
    for level, k in enumerate((64, 128, 256, 512, 1024), start=1):
        net.conv(f"down{level}.conv1", k, 3, pad=0)
        net.conv(f"down{level}.conv2", k, 3, pad=0)
        if level < 5:
            skips.append(k)
            net.pool(2, 2)
    for level, skip in zip((4, 3, 2, 1), reversed(skips)):
        net.up(f"up{level}.transposed", skip, 2, 2)
        net.c += skip
        net.conv(f"up{level}.conv1", skip, 3, pad=0)
        net.conv(f"up{level}.conv2", skip, 3, pad=0)
    net.conv("out", 2, 1)
    return net


def unet3d():
    """3D U-Net (Cicek et al., 2016, figure 2): unpadded, 116x132x132 in, 28x44x44 out. up: transposed, so dgrad."""
    net = Net(3, (116, 132, 132))
    skips = []
    for level, (a, b) in enumerate(((32, 64), (64, 128), (128, 256), (256, 512)), start=1):
        net.conv(f"down{level}.conv1", a, 3, pad=0)
        net.conv(f"down{level}.conv2", b, 3, pad=0)
        if level < 4:
            skips.append(b)
            net.pool(2, 2)
    for level, skip in zip((3, 2, 1), reversed(skips)):
        net.up(f"up{level}.transposed", net.c, 2, 2)
        net.c += skip
        net.conv(f"up{level}.conv1", skip, 3, pad=0)
        net.conv(f"up{level}.conv2", skip, 3, pad=0)
    net.conv("out", 3, 1)
    return net


def efficientnet_b0():
    """EfficientNet-B0 (Tan and Le, 2019, table 1), 224x224. The 1x1 maps are squeeze and excitation."""
    net = Net(3, (224, 224))
    net.conv("stem", 32, 3, stride=2)
    block = 0
    for t, kernel, s, k, n in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                               (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for i in range(n):
            block += 1
            inverted_residual(net, f"block{block}", t * net.c, kernel, s if i == 0 else 1, k, net.c // 4)
    net.conv("last", 1280, 1)
    return net


def densenet121():
    """DenseNet-121 (Huang et al., Densely Connected Convolutional Networks, 2016, table 1), 224x224."""
    net = Net(3, (224, 224))
    net.conv("stem", 64, 7, stride=2)
    net.pool(3, 2, pad=1)
    for block, layers in enumerate((6, 12, 24, 16), start=1):
        if block > 1:
            net.conv(f"transition{block - 1}", net.c // 2, 1)
            net.pool(2, 2)
        for layer in range(1, layers + 1):
            c = net.c
            net.conv(f"dense{block}.{layer}.1", 128, 1)
            net.conv(f"dense{block}.{layer}.2", 32, 3)
            net.c = c + 32
    return net


def convnext_tiny():
    """ConvNeXt-T (Liu et al., A ConvNet for the 2020s, 2022), 224x224, its linear layers as 1x1 convolutions."""
    net = Net(3, (224, 224))
    for stage, blocks in enumerate((3, 3, 9, 3), start=1):
        k = 96 << (stage - 1)
        if stage == 1:
            net.conv("stem", k, 4, stride=4, pad=0)
        else:
            net.conv(f"stage{stage}.downsample", k, 2, stride=2, pad=0)
        for block in range(blocks):
            name = f"stage{stage}.{block}"
            net.conv(f"{name}.depthwise", k, 7, groups=k)
            net.conv(f"{name}.expand", 4 * k, 1)
            net.conv(f"{name}.project", k, 1)
    return net


def feature_maps(net):
    """The backbone and neck of YOLOv8n: three maps as (channels, size)."""

    def csp(name, out, blocks):
        net.conv(f"{name}.in", out, 1)
        net.c = out // 2
        for block in range(blocks):
            net.conv(f"{name}.{block}.1", out // 2, 3)
            net.conv(f"{name}.{block}.2", out // 2, 3)
        net.c = out // 2 * (2 + blocks)
        net.conv(f"{name}.out", out, 1)

    net.conv("stem", 16, 3, stride=2)
    for stage, (k, blocks) in enumerate(((32, 1), (64, 2), (128, 2), (256, 1)), start=1):
        net.conv(f"down{stage}", k, 3, stride=2)
        csp(f"backbone{stage}", k, blocks)
    net.conv("spp.in", 128, 1)
    net.c = 4 * 128
    net.conv("spp.out", 256, 1)
    s3, s4, s5 = ((640 // step,) * 2 for step in (8, 16, 32))
    for name, c, size, out in (("fpn4", 256 + 128, s4, 128), ("fpn3", 128 + 64, s3, 64)):
        net.c, net.size = c, size
        csp(name, out, 1)
    for name, k, other, out in (("pan4", 64, 128, 128), ("pan5", 128, 256, 256)):
        net.conv(f"{name}.down", k, 3, stride=2)
        net.c = k + other
        csp(name, out, 1)
    return (64, s3), (128, s4), (256, s5)


def yolo_tiny():
    """yolo_tiny, a small detector of the YOLO kind as the zoo has it (src/network/graph/zoo/yolo.cc), 640x640."""
    net = Net(3, (640, 640))
    for level, (c, size) in enumerate(feature_maps(net), start=3):
        name, net.c, net.size = f"head{level}", c, size
        net.conv(f"{name}.stem", 64, 1)
        for branch in ("box", "class"):
            net.conv(f"{name}.{branch}.1", 64, 3)
            net.conv(f"{name}.{branch}.2", 64, 3)
        net.conv(f"{name}.box.out", 4, 1, branch=True)
        net.conv(f"{name}.object", 1, 1, branch=True)
        net.conv(f"{name}.class.out", 80, 1)
    return net


def yolov8n():
    """YOLOv8n (Jocher et al., Ultralytics YOLOv8, 2023), 640x640. dfl: the mean of each side's 16 distances."""
    net = Net(3, (640, 640))
    maps = feature_maps(net)
    for level, (c, size) in enumerate(maps, start=3):
        for branch, width, out in (("box", 64, 64), ("class", 80, 80)):
            net.c, net.size, name = c, size, f"head{level}.{branch}"
            net.conv(f"{name}.1", width, 3)
            net.conv(f"{name}.2", width, 3)
            net.conv(f"{name}.out", out, 1)
    net.c, net.size = 16, (4, sum(height * width for _, (height, width) in maps))
    net.conv("dfl", 1, 1)
    return net


def hunyuan_video_decoder():
    """The decoder of HunyuanVideo's VAE (Kong et al., 2024), latents of 3x8x8: 9 frames of 64x64. Its causal 3x3x3 read
    padded volumes: 2 frames before, 1 row and column at each side.
    """
    net = Net(16, (3, 8, 8))

    def causal(name, k):
        d, h, w = net.size
        net.size = (d + 2, h + 2, w + 2)
        net.conv(name, k, 3, pad=0)

    def residual(name, k):
        if net.c != k:
            net.conv(f"{name}.shortcut", k, 1, branch=True)
        causal(f"{name}.conv1", k)
        causal(f"{name}.conv2", k)

    net.conv("post_quant", 16, 1)
    causal("in", 512)
    for i in (1, 2):
        residual(f"middle.{i}", 512)
    for stage, k in enumerate((512, 512, 256, 128), start=1):
        for i in (1, 2, 3):
            residual(f"up{stage}.{i}", k)
        if stage < 4:
            d, h, w = net.size
            net.size = (d if stage == 1 else 2 * d - 1, 2 * h, 2 * w)
            causal(f"up{stage}.enlarge", k)
    causal("out", 3)
    return net


def deepbench():
    """Single layers of the kinds that Baidu's DeepBench (2016) measures, plain NCHW as it has them.

    Speech spectrograms (161 frequencies x 700 frames) with wide strided filters, text lines, faces, and the layers of
    image classifiers of the time; batch 1, some 4 and 16. Sizes are height x width.
    """
    total = Net(1, (1, 1), layout="nchw")

    def layer(name, c, size, k, filter, stride=1, pad=None, batch=1):
        net = Net(c, size, layout="nchw", batch=batch)
        net.layers = total.layers
        net.conv(name if batch == 1 else f"{name}, batch {batch}", k, filter, stride=stride, pad=pad)

    for batch in (1, 4):
        layer("speech.conv1", 1, (161, 700), 32, (5, 20), 2, 0, batch)
        layer("speech.conv2", 32, (79, 341), 32, (5, 10), 2, 0, batch)
    layer("speech_on_device.conv1", 1, (40, 151), 32, (5, 20), (2, 8), 8)
    for i, (c, height, width, k, filter) in enumerate(
            ((1, 161, 700, 64, 5), (64, 80, 350, 64, 3), (64, 80, 350, 128, 5), (128, 40, 175, 128, 3),
             (128, 40, 175, 256, 5), (256, 20, 84, 256, 3), (256, 20, 84, 512, 5), (512, 10, 42, 512, 3)), start=1):
        layer(f"speaker.conv{i}", c, (height, width), k, filter, 2 if filter == 5 else 1, 1)
    for i, (c, height, width, k) in enumerate(
            ((1, 48, 480, 16), (16, 24, 240, 32), (32, 12, 120, 64), (64, 6, 60, 128)), start=1):
        layer(f"text_line.conv{i}", c, (height, width), k, 3)
    layer("face.conv1", 3, (108, 108), 64, 3, 2, 1)
    for i, (c, n, k) in enumerate(((64, 54, 64), (128, 27, 128), (128, 14, 256), (256, 7, 512)), start=2):
        layer(f"face.conv{i}", c, (n, n), k, 3)
    for batch in (1, 16):
        for i, (c, n, k) in enumerate(
                ((3, 224, 64), (64, 112, 128), (128, 56, 256), (256, 28, 512), (512, 14, 512), (512, 7, 512)), start=1):
            layer(f"vgg.conv{i}", c, (n, n), k, 3, batch=batch)
    for c, n, k, filter in ((192, 28, 32, 5), (192, 28, 64, 1), (512, 14, 48, 5), (512, 14, 192, 1), (832, 7, 256, 1),
                            (832, 7, 128, 5)):
        layer(f"inception.{filter}x{filter}", c, (n, n), k, filter)
    layer("resnet.conv1", 3, (224, 224), 64, 7, 2)
    for c, n in ((64, 56), (128, 28), (256, 14), (512, 7)):
        layer(f"resnet.{n}.3x3", c, (n, n), c, 3)
        layer(f"resnet.{n}.expand", c, (n, n), 4 * c, 1)
        layer(f"resnet.{n}.reduce", 4 * c, (n, n), c, 1)
        if n > 7:
            layer(f"resnet.{n}.shortcut", 4 * c, (n, n), 8 * c, 1, 2)
    return total


def speech1d():
    """1D convolutions of speech and audio networks, over time.

    wav2vec 2.0 base (Baevski et al., 2020): feature encoder on 1 s at 16 kHz, positional convolution. Conv-TasNet
    (Luo and Mesgarani, 2019, best non-causal setting: N=512 L=16 B=128 H=512 Sc=128 P=3 X=8 R=3) on 4 s at 8 kHz; its
    decoder is transposed, so dgrad. QuartzNet 15x5 (Kriman et al., 2019) on 10 s of 64 mel bands. Whisper base (Radford
    et al., 2022): the encoder's stem on 30 s of 80 mel bands.
    """
    total = {}

    def start(channels, length):
        net = Net(channels, (length,))
        net.layers = total
        return net

    net = start(1, 16000)
    for i, (filter, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        net.conv(f"wav2vec2.feature{i}", 512, filter, stride=stride, pad=0)
    net.c = 768
    net.conv("wav2vec2.positional", 768, 128, pad=64, groups=16)

    net = start(1, 32000)
    net.conv("tasnet.encoder", 512, 16, stride=8, pad=0)
    net.conv("tasnet.bottleneck", 128, 1)
    for repeat in range(3):
        for x in range(8):
            name = f"tasnet.{repeat}.{x}"
            net.conv(f"{name}.in", 512, 1)
            net.conv(f"{name}.depthwise", 512, 3, dilation=2**x, groups=512)
            net.conv(f"{name}.skip", 128, 1, branch=True)
            net.conv(f"{name}.residual", 128, 1)
    net.conv("tasnet.mask", 2 * 512, 1)
    net.c = 512
    net.up("tasnet.decoder", 1, 16, 8)

    net = start(64, 1000)
    net.conv("quartznet.c1.depthwise", 64, 33, stride=2, groups=64)
    net.conv("quartznet.c1.pointwise", 256, 1)
    for block, (k, filter) in enumerate(((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)), start=1):
        for repeat in range(3):
            name = f"quartznet.b{block}.{repeat}"
            net.conv(f"{name}.residual", k, 1, branch=True)
            for module in range(5):
                net.conv(f"{name}.{module}.depthwise", net.c, filter, groups=net.c)
                net.conv(f"{name}.{module}.pointwise", k, 1)
    net.conv("quartznet.c2.depthwise", 512, 87, dilation=2, groups=512)
    net.conv("quartznet.c2.pointwise", 512, 1)
    net.conv("quartznet.c3", 1024, 1)

    net = start(80, 3000)
    net.conv("whisper.conv1", 512, 3)
    net.conv("whisper.conv2", 512, 3, stride=2)
    return net


LISTS = (resnet18, resnet50, resnext50_32x4d, squeezenet1_1, mobilenet_v2, mobilenet_v3_large,
         efficientnet_b0, vgg16, googlenet, densenet121, convnext_tiny, unet, unet3d, yolo_tiny, yolov8n, hunyuan_video_decoder,
         deepbench, speech1d)


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = []
    for make in LISTS:
        heading = [f"# {line.strip()}".rstrip() for line in make.__doc__.strip().splitlines()]
        lines = heading + ["# Written by make_lists.py; the format is in README.md."] + list(make().write())
        path, text = FOLDER / f"{make.__name__}.txt", "\n".join(lines) + "\n"
        if check:
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"differ from what make_lists.py writes: {', '.join(stale)}")


if __name__ == "__main__":
    main()
