"""Training steps of a network, as people write them: nothing of Convoy is in here but --patch, convoy.torch.patch() of the model.

    train.py NETWORK bf16|bf16-weights|tf32|f32 [--benchmark] [--batch N] [--contiguous] [--patch]   then commands on standard input (answering.py)

bf16 is autocast, with weights in f32; bf16-weights has all of the model in bf16.

first      builds nothing before: {"seconds": of the first step, "loss"}
steps N    {"milliseconds": a step, "losses"}
replays N  the same of a whole step that was captured into a CUDA graph
infer N B  {"milliseconds": of B pictures in evaluation mode}; infer_replays N B: captured
infer_both R N B  the same R times by turns, under `convoy exec`: {"steered": [milliseconds], "plain": [milliseconds]}, which calls cuDNN itself.
           Each has a thread of its own, and PyTorch keeps the plans of each thread apart
kernels N B  microseconds of each kernel of one such forward pass, and how many there are
hash       of all parameters' bytes
report     what convoy.torch ran, and what it left to PyTorch (with --patch)
"""
import argparse
import concurrent.futures
import contextlib
import hashlib
import time

import torch
from torch.nn import functional

import captured
from answering import answer
from networks import NETWORKS
from redirected import Redirected

arguments = argparse.ArgumentParser()
arguments.add_argument("network", choices=NETWORKS)
arguments.add_argument("type", choices=["bf16", "bf16-weights", "tf32", "f32"])
arguments.add_argument("--benchmark", action="store_true")
arguments.add_argument("--batch", type=int)
arguments.add_argument("--contiguous", action="store_true", help="without channels_last")
arguments.add_argument("--patch", action="store_true")
arguments.add_argument("--device", default="cuda")
arguments = arguments.parse_args()

torch.backends.cudnn.benchmark = arguments.benchmark
torch.backends.cudnn.allow_tf32 = arguments.type == "tf32"
torch.backends.cuda.matmul.allow_tf32 = arguments.type == "tf32"
torch.manual_seed(1)
model, shape, labels, classes = NETWORKS[arguments.network]()
batch = arguments.batch or shape[0]
layout = torch.contiguous_format if arguments.contiguous else torch.channels_last_3d if len(shape) == 5 else torch.channels_last
model = model.to(arguments.device, memory_format=layout).train()
for part in model.modules():
    if isinstance(part, torch.nn.Dropout):
        part.p = 0.0  # losses of two runs are compared
if arguments.patch:
    import convoy.torch
    convoy.torch.patch(model)
pictures = torch.randn(batch, *shape[1:], device=arguments.device).to(memory_format=layout)
if arguments.type == "bf16-weights":
    model, pictures = model.to(torch.bfloat16), pictures.to(torch.bfloat16)
target = torch.randint(classes, (batch, *labels[1:]), device=arguments.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
losses = []


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.type == "bf16"):
        loss = functional.cross_entropy(model(pictures).float(), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())


def taken():
    values = [float(loss) for loss in losses]
    losses.clear()
    return values


def wait():
    if arguments.device == "cuda":
        torch.cuda.synchronize()


def first():
    wait()
    start = time.perf_counter()
    step()
    wait()
    return {"seconds": time.perf_counter() - start, "losses": taken()}


def steps(count):
    wait()
    start = time.perf_counter()
    for _ in range(int(count)):
        step()
    wait()
    return {"milliseconds": 1e3 * (time.perf_counter() - start) / int(count), "losses": taken()}


def replays(count):
    def body():
        # Casts that autocast keeps would belong to the captured step.
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.type == "bf16", cache_enabled=False):
            loss = functional.cross_entropy(model(pictures).float(), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return captured.replays(body, count)


def forward(few):
    with torch.no_grad(), torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.type == "bf16", cache_enabled=False):
        return model(few)


def timed_forward(count, size, run):
    model.eval()
    few = pictures[:int(size)].clone(memory_format=layout)
    body = run(few)
    for _ in range(5):
        body()
    wait()
    start = time.perf_counter()
    for _ in range(int(count)):
        body()
    wait()
    model.train()
    return {"milliseconds": 1e3 * (time.perf_counter() - start) / int(count)}


def infer(count, size):
    return timed_forward(count, size, lambda few: lambda: forward(few))


def infer_replays(count, size):
    return timed_forward(count, size, lambda few: captured.capture(f"forward {size}", lambda: forward(few))[0].replay)


def infer_both(rounds, count, size):
    redirected = Redirected()
    threads = {mode: concurrent.futures.ThreadPoolExecutor(1) for mode in ("steered", "plain")}
    times = {mode: [] for mode in threads}
    for number in range(int(rounds) + 1):
        for mode in threads if number % 2 else reversed(threads):
            with redirected.to_cudnn() if mode == "plain" else contextlib.nullcontext():
                times[mode].append(threads[mode].submit(infer, count, size).result()["milliseconds"])
    return {mode: each[1:] for mode, each in times.items()}  # plans are made in the first turn


def kernels(count, size):
    """Microseconds of each kernel a forward pass, the longest first."""
    model.eval()
    few = pictures[:int(size)].clone(memory_format=layout)
    forward(few)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(int(count)):
            forward(few)
        wait()
    model.train()
    events = profile.key_averages()
    total = {event.key: event.device_time_total / int(count) for event in events}
    return {"microseconds": dict(sorted(total.items(), key=lambda each: -each[1])), "launches": sum(event.count for event in events) / int(count)}


def fingerprint():
    sums = hashlib.sha256()
    for parameter in model.parameters():
        sums.update(parameter.detach().cpu().numpy().tobytes())
    return sums.hexdigest()


def report():
    return convoy.torch.report().data()


answer({"first": first, "steps": steps, "replays": replays, "infer": infer, "infer_replays": infer_replays, "infer_both": infer_both, "kernels": kernels,
        "hash": fingerprint, "report": report})
