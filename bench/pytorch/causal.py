"""A causal Conv1d by PyTorch's own kernel, and a copy beside it: causal.py bf16|f32 BATCH CHANNELS LENGTH TAPS; JSON.

{"copy": bytes a second, read and written, "fprop": seconds, "dgrad": seconds, "wgrad": seconds}
"""
import json
import statistics
import sys

import torch

type_, batch, channels, length, taps = sys.argv[1], *map(int, sys.argv[2:6])
dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[type_]
x = torch.randn(batch, channels, length, device="cuda", dtype=dtype)
w = torch.randn(channels, 1, taps, device="cuda", dtype=dtype)
y = torch.nn.functional.conv1d(x, w, padding=taps - 1, groups=channels)
other = torch.empty_like(x)


def seconds(run):
    run()
    times = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(1e-3 * begin.elapsed_time(end))
    return statistics.median(times)


def gradient(mask):
    return torch.ops.aten.convolution_backward(y, x, w, None, [1], [taps - 1], [1], False, [0], channels, mask)


print(json.dumps({"copy": 2 * x.numel() * x.element_size() / seconds(lambda: other.copy_(x)),
                  "fprop": seconds(lambda: torch.nn.functional.conv1d(x, w, padding=taps - 1, groups=channels)),
                  "dgrad": seconds(lambda: gradient([True, False, False])), "wgrad": seconds(lambda: gradient([False, True, False]))}))
