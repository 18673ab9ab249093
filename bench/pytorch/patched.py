"""torchvision's networks on a processor, plain and by convoy.torch.patch, in turns in one process.

    python bench/pytorch/patched.py [--threads 1] [--training] [--seconds 5] [--output FILE] [NAME ...]

Prints a line a network: milliseconds a step of both, the median of patched over plain in a round with its 95% interval, the largest
difference of an output. FILE, a record like those of bench/results, gets a row for each; rows of the same name, threads and kind are
replaced.
"""
import argparse
import copy
import datetime
import json
import pathlib
import random
import statistics
import subprocess
import time

import torch
import torchvision

import convoy.torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMES = ["resnet18", "resnet50", "mobilenet_v2", "convnext_tiny", "vgg11"]


def inference(model, x):
    with torch.no_grad():
        return model(x)


def training(model, x, labels, optimizer):
    y = model(x)
    # A loss with a least value. By y.sum() VGG-11 had nothing but NaN after five steps.
    torch.nn.functional.cross_entropy(y, labels).backward()
    optimizer.step()
    optimizer.zero_grad()
    return y.detach()


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def interval(ratios):
    """The middle 95% of the medians of 2000 resamples."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return [round(medians[i], 3) for i in (49, 1950)]


def compare(name, arguments):
    plain = getattr(torchvision.models, name)(weights=None).train(arguments.training)
    patched = copy.deepcopy(plain)
    convoy.torch.patch(patched)
    x = torch.randn(4 if arguments.training else 1, 3, 224, 224)
    labels = torch.arange(len(x))
    if arguments.training:
        steps = [lambda m=m, o=torch.optim.SGD(m.parameters(), 1e-4): training(m, x, labels, o) for m in (plain, patched)]
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
        order = (0, 1) if len(times) % 2 else (1, 0)
        row = {i: timed(steps[i]) for i in order}
        times.append((row[0], row[1]))
    if not all(torch.isfinite(step()).all() for step in steps):
        raise SystemExit(f"{name}: the outputs are not finite, of which times say nothing")
    ours, theirs = (statistics.median(row[i] for row in times) * 1e3 for i in (1, 0))
    ratios = [patched / plain for plain, patched in times]
    ratio, (low, high) = statistics.median(ratios), interval(ratios)
    print(f"{name:16} {arguments.threads} threads: plain {theirs:.2f} ms, patched {ours:.2f} ms, {ratio:.3f} "
          f"({low:.3f} to {high:.3f}), {len(times)} rounds, "
          f"largest difference {error:.1e}", flush=True)
    return {"network": name, "what": "training" if arguments.training else "inference", "threads": arguments.threads,
            "plain_ms": round(theirs, 2), "patched_ms": round(ours, 2), "ratio": round(ratio, 3), "interval": [low, high],
            "rounds": len(times)}


def record(path, row, arguments):
    doctor = json.loads(subprocess.run([arguments.convoy, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    same = ("network", "what", "threads")
    rows = [old for old in rows if any(old[key] != row[key] for key in same)] + [row]
    path.write_text(json.dumps({
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": "python bench/pytorch/patched.py --threads {1,2} [--training] --output FILE", "commit": commit,
        "device": doctor["processor"], "versions": doctor["libraries"], "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--convoy", default=ROOT / "build/bin/convoy", help="whose doctor says what the machine is")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.names:
        row = compare(name, arguments)
        if arguments.output is not None:
            record(arguments.output, row, arguments)


if __name__ == "__main__":
    main()
