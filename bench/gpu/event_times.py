"""What a time between two events holds besides the kernel: python event_times.py > JSON lines, microseconds.

Two kernels of PyTorch's (one reads and writes as much, one only reads) over tensors of several sizes, bf16, timed
  produced   singly, after a sweep of the L2 cache by writing and after the input was written, as convoy bench does by default
  swept      singly, after the sweep alone: what it wrote still has to go to memory, and goes meanwhile
  clean      singly, after the sweep and after reading as much, so that nothing is left to be written
  rotating   in a row, each on other tensors, as convoy bench --rotating does
"""
import json
import statistics

import torch

BANDWIDTH = 4.27e12  # an H200's, a second: a copy, bytes read and written


def event():
    return torch.cuda.Event(enable_timing=True)


def single(prepare, run, times=15):
    for _ in range(3):
        prepare()
        run()
    events = [(event(), event()) for _ in range(times)]
    for begin, end in events:
        prepare()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events) * 1e3


def row(sweep, runs, length=32, ahead=8, times=7):
    means = []
    for _ in range(times):
        for _ in range(8):
            sweep.zero_()
        for i in range(ahead):
            runs[i % len(runs)]()
        begin, end = event(), event()
        begin.record()
        for i in range(length):
            runs[i % len(runs)]()
        end.record()
        torch.cuda.synchronize()
        means.append(begin.elapsed_time(end) * 1e3 / length)
    return statistics.median(means)


def main():
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    sweep = torch.empty(2 * l2, dtype=torch.uint8, device="cuda")
    words, one = sweep.view(torch.int32), torch.zeros(32, device="cuda")
    say = lambda **values: print(json.dumps({key: round(value, 2) if isinstance(value, float) else value  # noqa: E731
                                             for key, value in values.items()}), flush=True)
    say(kernel="none", swept=single(sweep.zero_, lambda: None))
    say(kernel="of 32 numbers", swept=single(sweep.zero_, lambda: one.add_(1)))
    for megabytes in (1, 6, 12, 24, 48, 77, 154):
        count = megabytes * 500_000
        sets = [torch.randn(count, device="cuda").bfloat16() for _ in range(max(1, 4 * l2 // (4 * count) + 1))]
        outs, copy = [torch.empty_like(x) for x in sets], sets[0].clone()
        kernels = {"reads and writes": [lambda x=x, y=y: torch.mul(x, 2, out=y) for x, y in zip(sets, outs)],
                   "reads": [lambda x=x: torch.sum(x) for x in sets]}
        for name, runs in kernels.items():
            moved = 2 * count * (2 if name == "reads and writes" else 1)
            say(kernel=name, megabytes=megabytes, floor=moved / BANDWIDTH * 1e6,
                produced=single(lambda: (sweep.zero_(), sets[0].copy_(copy)), runs[0]), swept=single(sweep.zero_, runs[0]),
                clean=single(lambda: (sweep.zero_(), words.max()), runs[0]), rotating=row(sweep, runs))


if __name__ == "__main__":
    main()
