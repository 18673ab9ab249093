"""torchvision's networks on a processor, plain and by convoy.torch.patch, in turns in one process.

    python bench/pytorch/patched.py [--threads 1] [--training] [--seconds 5] [NAME ...]

Prints a line a network: milliseconds a step of both, the median of their ratios, the largest difference of an output.
"""
import argparse
import copy
import statistics
import time

import torch
import torchvision

import convoy.torch

NAMES = ["resnet18", "resnet50", "mobilenet_v2", "convnext_tiny", "vgg11"]


def inference(model, x):
    with torch.no_grad():
        return model(x)


def training(model, x, optimizer):
    y = model(x)
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return y.detach()


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def compare(name, arguments):
    plain = getattr(torchvision.models, name)(weights=None).train(arguments.training)
    patched = copy.deepcopy(plain)
    convoy.torch.patch(patched)
    x = torch.randn(4 if arguments.training else 1, 3, 224, 224)
    if arguments.training:
        steps = [lambda m=m, o=torch.optim.SGD(m.parameters(), 1e-4): training(m, x, o) for m in (plain, patched)]
    else:
        steps = [lambda m=m: inference(m, x) for m in (plain, patched)]
    outputs = []
    for step in steps:
        torch.manual_seed(0)  # of dropout
        outputs.append(step())
    a, b = outputs
    error = ((a - b).abs().max() / a.abs().max()).item()
    for step in steps * 2:
        step()
    times = []
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end or len(times) < 5:
        times.append([timed(step) for step in steps])
    ours, theirs = (statistics.median(row[i] for row in times) * 1e3 for i in (1, 0))
    ratio = statistics.median(row[1] / row[0] for row in times)
    print(f"{name:16} {arguments.threads} threads: plain {theirs:.2f} ms, patched {ours:.2f} ms, {ratio:.3f}, {len(times)} rounds, "
          f"largest difference {error:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.names:
        compare(name, arguments)


if __name__ == "__main__":
    main()
