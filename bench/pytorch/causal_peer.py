"""Dao's causal_conv1d (version 1.7), built from its source for this GPU, beside a copy: causal_peer.py SOURCE; a line of JSON a shape.

{"type", "length", "copy": bytes a second, read and written, "fprop": seconds, "both gradients": seconds, "right": as PyTorch's own within rounding}
"""
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.utils import cpp_extension

CHANNELS, TAPS, POSITIONS = 2048, 4, 65536


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


def near(a, b):
    return bool((a.float() - b.float()).norm() <= 1e-2 * b.float().norm())


def measured(built, dtype, length):
    x, dy = (torch.randn(POSITIONS // length, CHANNELS, length, device="cuda", dtype=dtype) for _ in range(2))
    w = torch.randn(CHANNELS, TAPS, device="cuda", dtype=dtype)
    y, dx, dw = torch.empty_like(x), torch.empty_like(x), torch.zeros(CHANNELS, TAPS, device="cuda")  # gradients of weights are added up in f32

    def forward():
        built.causal_conv1d_fwd(x, w, None, None, None, y, None, False)

    def backward():
        built.causal_conv1d_bwd(x, w, None, dy, None, None, None, dx, dw, None, None, False)

    times = {"fprop": seconds(forward), "both gradients": seconds(backward)}
    dw.zero_()
    forward()
    backward()
    padded = torch.nn.functional.pad(x, (TAPS - 1, 0)).detach()
    padded.requires_grad_()
    filters = w[:, None].detach().requires_grad_()
    own = torch.nn.functional.conv1d(padded, filters, groups=CHANNELS)
    own.backward(dy)
    right = near(y, own) and near(dx, padded.grad[..., TAPS - 1:]) and near(dw, filters.grad[:, 0])
    return {"copy": 2 * x.numel() * x.element_size() / seconds(lambda: y.copy_(x)), **times, "right": right}


def main():
    source = pathlib.Path(sys.argv[1])
    start = time.monotonic()
    flags = ["-O3", "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__", "-U__CUDA_NO_BFLOAT16_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__", "-U__CUDA_NO_BFLOAT162_OPERATORS__", "-U__CUDA_NO_BFLOAT162_CONVERSIONS__",
             "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math"]
    built = cpp_extension.load("causal_conv1d_cuda", [str(file) for pattern in ("*.cpp", "*.cu") for file in sorted(source.glob(f"csrc/{pattern}"))],
                               extra_cflags=["-O3"], extra_cuda_cflags=flags)
    print(json.dumps({"built_in": round(time.monotonic() - start, 1)}), flush=True)
    for type_, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        for length in (1024, 8192, 65536):
            print(json.dumps({"type": type_, "length": length, **measured(built, dtype, length)}), flush=True)


if __name__ == "__main__":
    main()
