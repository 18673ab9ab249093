"""One convolution, forward and backward, timed: nothing of Convoy is in here.

    layer.py N C H W K R STRIDE GROUPS bf16|tf32|f32 [--benchmark] [--contiguous]     then commands on standard input (answering.py)

times      {"fprop", "dgrad", "wgrad": microseconds, medians of 50 by events}
calls N    {"least", "median": microseconds a forward call, of 40 stretches of N calls in a row, the host's time included}
"""
import argparse
import statistics
import time

import torch

from answering import answer

arguments = argparse.ArgumentParser()
arguments.add_argument("sizes", type=int, nargs=8, metavar="N C H W K R STRIDE GROUPS")
arguments.add_argument("type", choices=["bf16", "tf32", "f32"])
arguments.add_argument("--benchmark", action="store_true")
arguments.add_argument("--contiguous", action="store_true", help="without channels_last")
arguments = arguments.parse_args()
n, c, h, w, k, r, stride, groups = arguments.sizes

torch.backends.cudnn.benchmark = arguments.benchmark
torch.backends.cudnn.allow_tf32 = arguments.type == "tf32"
kind = {"device": "cuda", "dtype": torch.bfloat16 if arguments.type == "bf16" else torch.float32}
layout = torch.contiguous_format if arguments.contiguous else torch.channels_last
torch.manual_seed(1)
x = torch.randn(n, c, h, w, **kind).to(memory_format=layout)
f = torch.randn(k, c // groups, r, r, **kind).to(memory_format=layout)
pad = [r // 2, r // 2]
y = torch.nn.functional.conv2d(x, f, stride=stride, padding=r // 2, groups=groups)


def backward(mask):
    return torch.ops.aten.convolution_backward(y, x, f, None, [stride] * 2, pad, [1, 1], False, [0, 0], groups, mask)


PASSES = {"fprop": lambda: torch.nn.functional.conv2d(x, f, stride=stride, padding=r // 2, groups=groups),
          "dgrad": lambda: backward([True, False, False]), "wgrad": lambda: backward([False, True, False])}


def times():
    answers = {}
    for name, run in PASSES.items():
        for _ in range(5):
            run()
        taken = []
        for _ in range(50):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            taken.append(1e3 * begin.elapsed_time(end))
        answers[name] = statistics.median(taken)
    return answers


def calls(count):
    stretches = []
    with torch.no_grad():
        for _ in range(200):
            PASSES["fprop"]()
        for _ in range(40):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(int(count)):
                PASSES["fprop"]()
            torch.cuda.synchronize()
            stretches.append(1e6 * (time.perf_counter() - start) / int(count))
    return {"least": min(stretches), "median": statistics.median(stretches)}


answer({"times": times, "calls": calls})
