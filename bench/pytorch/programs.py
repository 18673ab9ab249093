"""Programs that convolve, as people write them: nothing of Convoy is in here.

    programs.py NAME [--benchmark] [--compile MODE] [--device cuda]      then commands on standard input (answering.py)

first      {"seconds": of the first step, "since_start": seconds since this process began, "loss"}
steps N    {"milliseconds": a step, "each": of every one, "losses"}
kernels N  {"milliseconds": that the GPU's kernels of a step take together, "launches": of a step}
operators  {"calls": of a step, by operator that convolves, "generated": kernels that torch.compile wrote and named so}
convolutions N  {"OPERATOR SHAPES": [milliseconds of the GPU a step, calls a step]} of each convolution
host N     {"milliseconds": a step, "processor": of all threads, "main": of the first, "others", "switched": how often one was made to wait, "faults": of pages}
past R N   R times by turns, under `convoy exec`: {"in front": [milliseconds a step], "past": the same plans, with cuDNN called directly}
replays N  {"milliseconds": a step that was captured into a CUDA graph, "losses"}
memory     {"allocated", "reserved": PyTorch's peaks in bytes, "process": what the driver says that this process has}

The first five are those that nobody here had tried when issue 54 was filed; the second five were chosen before any of them was timed
(1D, 3D, segmentation, detection, diffusion), and so were those of untried.py and unseen.py. Inputs are random and stay the same; each program has the type that it is usually run in.
"""
import argparse
import contextlib
import os
import re
import resource
import subprocess
import time

BEGIN = time.time()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import captured  # noqa: E402
import unseen  # noqa: E402
import untried  # noqa: E402
from answering import answer  # noqa: E402
from stepping import Inference, Training, classification  # noqa: E402


class ConvTasNet(nn.Module):
    """Conv-TasNet (Luo and Mesgarani, 2019), with the sizes of its best model: waves to two sources."""

    def __init__(self, filters=512, taps=16, bottleneck=128, hidden=512, blocks=8, repeats=3, sources=2):
        super().__init__()
        self.sources = sources
        self.encoder = nn.Conv1d(1, filters, taps, stride=taps // 2, padding=taps // 2, bias=False)
        self.decoder = nn.ConvTranspose1d(filters, 1, taps, stride=taps // 2, padding=taps // 2, bias=False)
        self.into = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, bottleneck, 1))
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv1d(bottleneck, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=1 << block, dilation=1 << block, groups=hidden), nn.PReLU(), nn.GroupNorm(1, hidden),
        ) for _ in range(repeats) for block in range(blocks))
        self.residuals = nn.ModuleList(nn.Conv1d(hidden, bottleneck, 1) for _ in self.blocks)
        self.skips = nn.ModuleList(nn.Conv1d(hidden, bottleneck, 1) for _ in self.blocks)
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(bottleneck, sources * filters, 1), nn.Sigmoid())

    def forward(self, mixture):
        encoded = self.encoder(mixture)
        x, total = self.into(encoded), 0
        for block, residual, skip in zip(self.blocks, self.residuals, self.skips):
            h = block(x)
            x, total = x + residual(h), total + skip(h)
        masks = self.masks(total).unflatten(1, (self.sources, -1))
        return self.decoder((masks * encoded[:, None]).flatten(0, 1)).unflatten(0, (-1, self.sources)).squeeze(2)


def conv_tasnet(device):
    mixture, sources = torch.randn(4, 1, 32000, device=device), torch.randn(4, 2, 32000, device=device)
    return Training(ConvTasNet(), lambda model: functional.mse_loss(model(mixture), sources), "tf32", None, device)


def regnet(device):
    import torchvision
    return classification(torchvision.models.regnet_y_3_2gf, (128, 3, 224, 224), 1000, "bf16", device, torch.channels_last)


def r3d(device):
    import torchvision
    return classification(torchvision.models.video.r3d_18, (8, 3, 16, 112, 112), 400, "bf16", device, torch.channels_last_3d)


class CausalMixer(nn.Module):
    """Depthwise causal Conv1d between two products, as state-space and hybrid language models have it."""

    def __init__(self, width, depth, taps=4):
        super().__init__()
        self.into = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.convs = nn.ModuleList(nn.Conv1d(width, width, taps, groups=width, padding=taps - 1) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for into, conv, out in zip(self.into, self.convs, self.out):
            value, gate = into(x).chunk(2, dim=-1)
            value = conv(value.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
            x = x + out(functional.silu(value) * functional.silu(gate))
        return x


def causal_conv1d(device):
    batch, wanted = torch.randn(8, 2048, 1024, device=device), torch.randn(8, 2048, 1024, device=device)
    return Training(CausalMixer(1024, 8), lambda model: functional.mse_loss(model(batch).float(), wanted), "bf16", None, device)


class ResidualBlock(nn.Module):
    """GroupNorm, SiLU, convolution, twice; in 2D or 3D. `embedding`: the width of what is added in between (0: nothing)."""

    def __init__(self, conv, channels, out, embedding=0):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, channels), nn.GroupNorm(32, out)])
        self.convs = nn.ModuleList([conv(channels, out, 3, padding=1), conv(out, out, 3, padding=1)])
        self.shortcut = conv(channels, out, 1) if channels != out else nn.Identity()
        self.embedding = nn.Linear(embedding, out) if embedding else None

    def forward(self, x, embedding=None):
        h = self.convs[0](functional.silu(self.norms[0](x)))
        if self.embedding is not None:
            added = self.embedding(functional.silu(embedding))
            h = h + added.reshape(*added.shape, *[1] * (h.dim() - 2))
        return self.shortcut(x) + self.convs[1](functional.silu(self.norms[1](h)))


class VideoDecoder(nn.Module):
    """Latents of a video to frames: three levels of 3D residual blocks, each twice the size of the one before."""

    def __init__(self, widths=(512, 256, 128), latent=16):
        super().__init__()
        self.into = nn.Conv3d(latent, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(nn.ModuleList([ResidualBlock(nn.Conv3d, before, width), ResidualBlock(nn.Conv3d, width, width)])
                                    for before, width in zip((widths[0], *widths), widths))
        self.ups = nn.ModuleList(nn.Conv3d(width, width, 3, padding=1) for width in widths[:-1])
        self.norm, self.out = nn.GroupNorm(32, widths[-1]), nn.Conv3d(widths[-1], 3, 3, padding=1)

    def forward(self, x):
        x = self.into(x)
        for level, blocks in enumerate(self.blocks):
            for block in blocks:
                x = block(x)
            if level < len(self.ups):
                x = self.ups[level](functional.interpolate(x, scale_factor=2, mode="nearest"))
        return self.out(functional.silu(self.norm(x)))


def vae3d_decoder(device):
    return Inference(VideoDecoder(), torch.randn(1, 16, 5, 60, 90), torch.channels_last_3d, device)


def wav2letter(device):
    """Wav2Letter (Collobert et al., 2016) on waves."""
    sizes = [(1, 250, 250, 160), (250, 250, 48, 2), *[(250, 250, 7, 1)] * 7, (250, 2000, 32, 1), (2000, 2000, 1, 1), (2000, 40, 1, 1)]
    layers = [part for c, k, taps, stride in sizes for part in (nn.Conv1d(c, k, taps, stride=stride, padding=taps // 2), nn.ReLU())]
    waves = torch.randn(64, 1, 16000 * 8, device=device)
    return Training(nn.Sequential(*layers[:-1]), lambda model: functional.log_softmax(model(waves), dim=1)[:, 0].neg().mean(), "tf32", None, device)


class Wav2Vec2(nn.Module):
    """wav2vec 2.0's (Baevski et al., 2020) convolutions, the base model's: the feature extractor, and the positional convolution of 128 taps in 16 groups."""

    def __init__(self, features=512, width=768):
        super().__init__()
        sizes = [(1, 10, 5), *[(features, 3, 2)] * 4, *[(features, 2, 2)] * 2]
        layers = [[nn.Conv1d(channels, features, taps, stride=stride, bias=False), nn.GELU()] for channels, taps, stride in sizes]
        layers[0].insert(1, nn.GroupNorm(features, features))
        self.features = nn.Sequential(*[part for layer in layers for part in layer])
        self.norm, self.into = nn.LayerNorm(features), nn.Linear(features, width)
        self.position = nn.utils.parametrizations.weight_norm(nn.Conv1d(width, width, 128, padding=64, groups=16), dim=2)

    def forward(self, waves):
        x = self.into(self.norm(self.features(waves).transpose(1, 2)))
        return x + functional.gelu(self.position(x.transpose(1, 2))[..., :-1]).transpose(1, 2)


def wav2vec2(device):
    waves, wanted = torch.randn(8, 1, 160000, device=device), torch.randn(8, 499, 768, device=device)
    return Training(Wav2Vec2(), lambda model: functional.mse_loss(model(waves).float(), wanted), "bf16", None, device)


def s3d(device):
    import torchvision
    return classification(torchvision.models.video.s3d, (8, 3, 16, 224, 224), 400, "bf16", device, torch.channels_last_3d)


def deeplabv3(device):
    import torchvision
    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)
    pictures = torch.randn(8, 3, 512, 512, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(21, (8, 512, 512), device=device)
    return Training(model, lambda model: functional.cross_entropy(model(pictures)["out"].float(), labels), "bf16", torch.channels_last, device)


def retinanet(device):
    import torchvision
    model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=91)
    pictures = [torch.rand(3, 800, 800, device=device) for _ in range(4)]
    corner = torch.rand(4, 10, 2, device=device) * 600
    boxes = torch.cat([corner, corner + 20 + torch.rand(4, 10, 2, device=device) * 150], dim=2)
    targets = [{"boxes": boxes[i], "labels": torch.randint(1, 91, (10,), device=device)} for i in range(4)]
    return Training(model, lambda model: sum(model(pictures, targets).values()), "bf16", torch.channels_last, device)


class DiffusionUNet(nn.Module):
    """Noise to predicted noise: four levels, two residual blocks each way, attention at the lowest two."""

    def __init__(self, width=128, factors=(1, 2, 3, 4), channels=4):
        super().__init__()
        widths, embedding = [width * factor for factor in factors], 4 * width
        self.time = nn.Sequential(nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.into, self.width = nn.Conv2d(channels, width, 3, padding=1), width
        self.down, self.up, skips, at = nn.ModuleList(), nn.ModuleList(), [width], width
        for level, to in enumerate(widths):
            for _ in range(2):
                self.down.append(ResidualBlock(nn.Conv2d, at, to, embedding))
                skips.append(at := to)
            if level + 1 < len(widths):
                self.down.append(nn.Conv2d(at, at, 3, stride=2, padding=1))
                skips.append(at)
        self.middle = nn.ModuleList([ResidualBlock(nn.Conv2d, at, at, embedding), ResidualBlock(nn.Conv2d, at, at, embedding)])
        self.norm, self.attention = nn.GroupNorm(32, at), nn.MultiheadAttention(at, 8, batch_first=True)
        for level, to in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(ResidualBlock(nn.Conv2d, at + skips.pop(), to, embedding))
                at = to
            if level > 0:
                self.up.append(nn.Conv2d(at, at, 3, padding=1))
        self.out = nn.Sequential(nn.GroupNorm(32, at), nn.SiLU(), nn.Conv2d(at, channels, 3, padding=1))

    def forward(self, x, times):
        angles = times[:, None] * torch.exp(-9 * torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        embedding = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        skips = [x := self.into(x)]
        for block in self.down:
            skips.append(x := block(x, embedding) if isinstance(block, ResidualBlock) else block(x))
        x = self.middle[0](x, embedding)
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
        x = self.middle[1](x, embedding)
        for block in self.up:
            if isinstance(block, ResidualBlock):
                x = block(torch.cat([x, skips.pop()], dim=1), embedding)
            else:
                x = block(functional.interpolate(x, scale_factor=2, mode="nearest"))
        return self.out(x)


def diffusion_unet(device):
    batch = torch.randn(16, 4, 64, 64, device=device).to(memory_format=torch.channels_last)
    times, noise = torch.rand(16, device=device) * 1000, torch.randn(16, 4, 64, 64, device=device)
    return Training(DiffusionUNet(), lambda model: functional.mse_loss(model(batch, times).float(), noise), "bf16", torch.channels_last, device)


PROGRAMS = {"conv_tasnet": conv_tasnet, "regnet_y_3_2gf": regnet, "r3d_18": r3d, "causal_conv1d": causal_conv1d, "vae3d_decoder": vae3d_decoder,
            "wav2letter": wav2letter, "s3d": s3d, "deeplabv3": deeplabv3, "retinanet": retinanet, "diffusion_unet": diffusion_unet,
            "wav2vec2": wav2vec2, **untried.PROGRAMS, **unseen.PROGRAMS}

CONVOLUTIONS = ("aten::cudnn_convolution", "aten::cudnn_convolution_transpose", "aten::convolution_backward", "aten::_conv_depthwise2d", "aten::conv_depthwise3d")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program", choices=PROGRAMS)
    arguments.add_argument("--benchmark", action="store_true")
    arguments.add_argument("--compile", help="torch.compile's mode")
    arguments.add_argument("--device", default="cuda")
    arguments = arguments.parse_args()
    torch.backends.cudnn.benchmark = arguments.benchmark
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(1)
    program = PROGRAMS[arguments.program](arguments.device)
    if arguments.compile:
        program.model = torch.compile(program.model, mode=arguments.compile)

    def wait():
        if arguments.device == "cuda":
            torch.cuda.synchronize()

    def first():
        wait()
        start = time.perf_counter()
        loss = float(program.step())
        wait()
        return {"seconds": time.perf_counter() - start, "since_start": time.time() - BEGIN, "loss": loss}

    def steps(count):
        losses, ends = [], []
        wait()
        start = time.perf_counter()
        for _ in range(int(count)):
            losses.append(program.step())
            if int(count) <= 20:  # what waits for each step is not what is timed over many
                wait()
                ends.append(time.perf_counter())
        wait()
        total = 1e3 * (time.perf_counter() - start) / int(count)
        each = [1e3 * (end - begin) for begin, end in zip([start, *ends], ends)]
        return {"milliseconds": total, "each": each, "losses": [float(loss) for loss in losses[-3:]]}

    def kernels(count):
        wait()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(int(count)):
                program.step()
            wait()
        events = [event for event in profile.key_averages() if event.device_time_total > 0]  # launches are events, too
        return {"milliseconds": 1e-3 * sum(event.device_time_total for event in events) / int(count), "launches": sum(event.count for event in events) / int(count)}

    def operators():
        wait()
        with torch.profiler.profile() as profile:
            program.step()
            wait()
        names = [(event.key, event.count) for event in profile.key_averages() if "conv" in event.key]
        return {"calls": {name: count for name, count in names if name.startswith("aten::")},
                "generated": {name: count for name, count in names if name.startswith("triton_")}}

    def convolutions(count):
        wait()
        with torch.profiler.profile(record_shapes=True) as profile:
            for _ in range(int(count)):
                program.step()
            wait()
        found = {}
        for event in profile.key_averages(group_by_input_shape=True):
            if event.key in CONVOLUTIONS and event.device_time_total > 0:
                shapes = " ".join("x".join(map(str, shape)) for shape in event.input_shapes[:3] if shape)
                found[f"{event.key.removeprefix('aten::')} {shapes}"] = [1e-3 * event.device_time_total / int(count), event.count / int(count)]
        return found

    def host(count):
        wait()
        before, main, start, processor = resource.getrusage(resource.RUSAGE_SELF), time.thread_time(), time.perf_counter(), time.process_time()
        for _ in range(int(count)):
            program.step()
        wait()
        passed, processor, main = (1e3 * each / int(count) for each in (time.perf_counter() - start, time.process_time() - processor, time.thread_time() - main))
        after = resource.getrusage(resource.RUSAGE_SELF)
        return {"milliseconds": passed, "processor": processor, "main": main, "others": processor - main, "switched": (after.ru_nivcsw - before.ru_nivcsw) / int(count),
                "faults": (after.ru_minflt - before.ru_minflt) / int(count)}

    def past(rounds, count):
        from redirected import Redirected
        redirected = Redirected()
        times = {"in front": [], "past": []}
        for number in range(int(rounds)):
            for mode in times if number % 2 else reversed(times):
                with redirected.to_cudnn() if mode == "past" else contextlib.nullcontext():
                    times[mode].append(steps(count)["milliseconds"])
        return times

    def memory():
        listed = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        own = re.search(rf"^{os.getpid()}, (\d+)$", listed.stdout, re.M)
        return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "process": int(own[1]) << 20 if own else None}

    answer({"first": first, "steps": steps, "kernels": kernels, "operators": operators, "convolutions": convolutions, "host": host, "past": past,
            "memory": memory, "replays": lambda count: captured.replays(lambda: program.step(captured=True), count)})


if __name__ == "__main__":
    main()
