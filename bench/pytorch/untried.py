"""Five programs that were written and committed before any of them had run under Convoy, each with its tensors as most people leave them
(contiguous): an audio codec, a vocoder, 3D segmentation, a mobile detector, super-resolution."""
import torch
from torch import nn
from torch.nn import functional

from stepping import Inference, Training


class CausalConv1d(nn.Module):
    """Padded on the left alone, with its weights normalized, as EnCodec's."""

    def __init__(self, channels, out, taps, stride=1, dilation=1):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(channels, out, taps, stride=stride, dilation=dilation))
        self.padding = (taps - 1) * dilation + 1 - stride

    def forward(self, x):
        return self.conv(functional.pad(x, (self.padding, 0)))


class CausalTransposedConv1d(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(channels, out, 2 * stride, stride=stride))
        self.stride = stride

    def forward(self, x):
        return self.conv(x)[..., :-self.stride]


class CodecBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(nn.ELU(), CausalConv1d(channels, channels // 2, 3), nn.ELU(), CausalConv1d(channels // 2, channels, 1))

    def forward(self, x):
        return x + self.layers(x)


class Codec(nn.Module):
    """EnCodec's (Defossez et al., 2022) encoder and decoder at 24 kHz, without the quantizer between them."""

    def __init__(self, width=32, latent=128, strides=(2, 4, 5, 8)):
        super().__init__()
        encoder = [CausalConv1d(1, width, 7)]
        for stride in strides:
            encoder += [CodecBlock(width), nn.ELU(), CausalConv1d(width, 2 * width, 2 * stride, stride=stride)]
            width *= 2
        self.encoder, self.into = nn.Sequential(*encoder), CausalConv1d(width, latent, 7)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        decoder = [CausalConv1d(latent, width, 7)]
        for stride in reversed(strides):
            decoder += [nn.ELU(), CausalTransposedConv1d(width, width // 2, stride), CodecBlock(width // 2)]
            width //= 2
        self.decoder = nn.Sequential(*decoder, nn.ELU(), CausalConv1d(width, 1, 7))

    def forward(self, waves):
        x = self.encoder(waves)
        x = x + self.lstm(x.transpose(1, 2))[0].transpose(1, 2)
        return self.decoder(self.into(functional.elu(x)))


def encodec(device):
    waves = torch.randn(16, 1, 24000, device=device)
    return Training(Codec(), lambda model: functional.l1_loss(model(waves).float(), waves), "tf32", None, device)


class Vocoder(nn.Module):
    """HiFi-GAN's (Kong et al., 2020) generator V1: mel spectrograms to waves."""

    def __init__(self, mels=80, width=512, factors=(8, 8, 2, 2), taps=(3, 7, 11), dilations=(1, 3, 5)):
        super().__init__()
        self.into, self.ups, self.blocks = nn.Conv1d(mels, width, 7, padding=3), nn.ModuleList(), nn.ModuleList()
        for factor in factors:
            self.ups.append(nn.ConvTranspose1d(width, width // 2, 2 * factor, stride=factor, padding=factor // 2))
            width //= 2
            self.blocks.append(nn.ModuleList(nn.ModuleList(nn.Sequential(
                nn.LeakyReLU(0.1), nn.Conv1d(width, width, k, dilation=d, padding=d * (k // 2)), nn.LeakyReLU(0.1), nn.Conv1d(width, width, k, padding=k // 2),
            ) for d in dilations) for k in taps))
        self.out = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x):
        x = self.into(x)
        for up, blocks in zip(self.ups, self.blocks):
            x, total = up(functional.leaky_relu(x, 0.1)), 0
            for block in blocks:
                h = x
                for layers in block:
                    h = h + layers(h)
                total = total + h
            x = total / len(blocks)
        return torch.tanh(self.out(functional.leaky_relu(x)))


def hifigan(device):
    return Inference(Vocoder(), torch.randn(8, 80, 400), None, device, torch.float16)


class UNet3d(nn.Module):
    """nnU-Net's (Isensee et al., 2021) 3D network: five levels, instance norms, transposed convolutions."""

    def __init__(self, channels=1, classes=3, widths=(32, 64, 128, 256, 320)):
        super().__init__()

        def twice(before, width, stride=1):
            layers = [[nn.Conv3d(c, width, 3, stride=s, padding=1), nn.InstanceNorm3d(width, affine=True), nn.LeakyReLU(0.01)]
                      for c, s in ((before, stride), (width, 1))]
            return nn.Sequential(*layers[0], *layers[1])

        self.down = nn.ModuleList(twice(before, width, 1 if level == 0 else 2) for level, (before, width) in enumerate(zip((channels, *widths), widths)))
        self.ups = nn.ModuleList(nn.ConvTranspose3d(below, width, 2, stride=2) for below, width in zip(widths[:0:-1], widths[-2::-1]))
        self.merged = nn.ModuleList(twice(2 * width, width) for width in widths[-2::-1])
        self.out = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for level in self.down:
            skips.append(x := level(x))
        skips.pop()
        for up, merged in zip(self.ups, self.merged):
            x = merged(torch.cat([up(x), skips.pop()], dim=1))
        return self.out(x)


def unet3d(device):
    volumes, labels = torch.randn(2, 1, 96, 96, 96, device=device), torch.randint(3, (2, 96, 96, 96), device=device)
    return Training(UNet3d(), lambda model: functional.cross_entropy(model(volumes).float(), labels), "bf16", None, device)


def ssdlite(device):
    import torchvision
    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=91)
    pictures = [torch.rand(3, 320, 320, device=device) for _ in range(32)]
    corner = torch.rand(32, 5, 2, device=device) * 200
    boxes = torch.cat([corner, corner + 20 + torch.rand(32, 5, 2, device=device) * 90], dim=2)
    targets = [{"boxes": boxes[i], "labels": torch.randint(1, 91, (5,), device=device)} for i in range(32)]
    return Training(model, lambda model: sum(model(pictures, targets).values()), "bf16", None, device)


class DenseBlock(nn.Module):
    """Five convolutions, each of all that came before it in the block."""

    def __init__(self, width, growth):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1) for i in range(5))

    def forward(self, x):
        parts = [x]
        for conv in self.convs[:-1]:
            parts.append(functional.leaky_relu(conv(torch.cat(parts, dim=1)), 0.2))
        return x + 0.2 * self.convs[-1](torch.cat(parts, dim=1))


class Enlarger(nn.Module):
    """ESRGAN's (Wang et al., 2018) RRDBNet: pictures of four times the size."""

    def __init__(self, width=64, growth=32, blocks=23):
        super().__init__()
        self.into = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(*[DenseBlock(width, growth) for _ in range(3)]) for _ in range(blocks))
        self.after, self.up1, self.up2, self.wide = (nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        x = h = self.into(x)
        for block in self.blocks:
            h = h + 0.2 * block(h)
        x = x + self.after(h)
        for up in (self.up1, self.up2):
            x = functional.leaky_relu(up(functional.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        return self.out(functional.leaky_relu(self.wide(x), 0.2))


def rrdbnet(device):
    return Inference(Enlarger(), torch.rand(2, 3, 192, 192), None, device, torch.float16)


PROGRAMS = {"encodec": encodec, "hifigan": hifigan, "unet3d": unet3d, "ssdlite": ssdlite, "rrdbnet": rrdbnet}
