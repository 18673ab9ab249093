"""Five more programs, written and committed before any of them had run under Convoy, with tensors as most people leave them (contiguous): transformers' SegFormer
and audio codec DAC, torchvision's MViT (3D depthwise convolutions) and ShuffleNet, and WaveNet."""
import torch
from torch import nn
from torch.nn import functional

from stepping import Inference, Training, classification


def segformer(device):
    import transformers
    model = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=150))
    pictures, labels = torch.randn(16, 3, 512, 512, device=device), torch.randint(150, (16, 512, 512), device=device)

    def loss(model):
        logits = functional.interpolate(model(pixel_values=pictures).logits.float(), size=(512, 512), mode="bilinear")
        return functional.cross_entropy(logits, labels)

    return Training(model, loss, "bf16", None, device)


class Codec(nn.Module):
    """DAC's encoder and decoder, without the quantizer between them."""

    def __init__(self):
        super().__init__()
        import transformers
        dac = transformers.DacModel(transformers.DacConfig())
        self.encoder, self.decoder = dac.encoder, dac.decoder

    def forward(self, waves):
        return self.decoder(self.encoder(waves))


def dac(device):
    return Inference(Codec(), torch.randn(8, 1, 65536), None, device, torch.float16)


def mvit(device):
    import torchvision
    return classification(torchvision.models.video.mvit_v2_s, (8, 3, 16, 224, 224), 400, "bf16", device)


def shufflenet(device):
    import torchvision
    return classification(torchvision.models.shufflenet_v2_x1_0, (256, 3, 224, 224), 1000, "bf16", device)


class WaveNet(nn.Module):
    """WaveNet (van den Oord et al., 2016) of mu-law samples: thirty gated, dilated, causal layers."""

    def __init__(self, levels=256, width=64, gate=128, skip=256, layers=30, cycle=10):
        super().__init__()
        self.into = nn.Conv1d(levels, width, 1)
        self.dilated = nn.ModuleList(nn.Conv1d(width, 2 * gate, 2, dilation=1 << layer % cycle) for layer in range(layers))
        self.residuals = nn.ModuleList(nn.Conv1d(gate, width, 1) for _ in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(gate, skip, 1) for _ in range(layers))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, levels, 1))

    def forward(self, x):
        x, total = self.into(x), 0
        for dilated, residual, skip in zip(self.dilated, self.residuals, self.skips):
            value, gate = dilated(functional.pad(x, (dilated.dilation[0], 0))).chunk(2, dim=1)
            h = torch.tanh(value) * torch.sigmoid(gate)
            x, total = x + residual(h), total + skip(h)
        return self.out(total)


def wavenet(device):
    samples = torch.randint(256, (8, 16001), device=device)
    heard = functional.one_hot(samples[:, :-1], 256).transpose(1, 2).float().contiguous()
    return Training(WaveNet(), lambda model: functional.cross_entropy(model(heard), samples[:, 1:]), "tf32", None, device)


PROGRAMS = {"segformer": segformer, "dac": dac, "mvit": mvit, "shufflenet": shufflenet, "wavenet": wavenet}
