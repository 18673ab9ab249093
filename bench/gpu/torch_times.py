"""PyTorch with cudnn.benchmark on problems, timed as Convoy times: python torch_times.py LIST > JSON lines.

Median of 25 executions by events, on a stream that is kept fed; before each the L2 cache is swept and the activations
that the pass reads are written again. Only the pass asked for is computed. With tests/gpu/executed_plan.cc preloaded "plan"
is what PyTorch ran, in Convoy's names.
"""
import contextlib
import ctypes
import fcntl
import json
import pathlib
import statistics
import sys
import tempfile

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
EXECUTIONS = 25


def parse(text):
    what, *rest = text.split(":")
    fields = dict(field.split("=", 1) for field in rest)
    numbers = lambda value: [int(each) for each in value.split("x")]  # noqa: E731
    tensors = {name: (fields[name].split(",")[0], numbers(fields[name].split(",")[1]), fields[name].split(",")[2]) for name in "xwy"}
    dims = len(tensors["x"][1]) - 2
    window = [numbers(fields[name]) if name in fields else [usual] * dims
              for name, usual in (("pad", 0), ("stride", 1), ("dilation", 1))]
    return what, tensors, window, int(fields.get("groups", 1)), fields.get("math", "strict")


def tensor(described):
    type, dims, layout = described
    values = (torch.rand(dims, device="cuda") * 2 - 1).to(TYPES[type])
    if layout.endswith("c") and len(dims) > 3:
        return values.to(memory_format=torch.channels_last if len(dims) == 4 else torch.channels_last_3d)
    if layout.endswith("c"):  # PyTorch has no name for it in 1D: by strides
        return values.transpose(1, -1).contiguous().transpose(1, -1)
    return values


def executions(what, x, w, y, window, groups):
    pad, stride, dilation = window
    dims = len(pad)
    if what == "fprop":
        return lambda: torch.ops.aten.convolution(x, w, None, stride, pad, dilation, False, [0] * dims, groups)
    mask = [what == "dgrad", what == "wgrad", False]
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, stride, pad, dilation, False, [0] * dims, groups, mask)


def seconds(text, sweep):
    what, tensors, window, groups, math = parse(text)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = math == "tf32"
    x, w, y = (tensor(tensors[name]) for name in "xwy")
    run = executions(what, x, w, y, window, groups)
    read = [each for each, passes in ((x, ("fprop", "wgrad")), (y, ("dgrad", "wgrad"))) if what in passes]
    copies = [each.clone() for each in read]
    for _ in range(3):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(EXECUTIONS)]
    for begin, end in events:
        sweep.zero_()
        for each, copy in zip(read, copies):
            each.copy_(copy)
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events) * 1e-3


@contextlib.contextmanager
def turn():
    """The device's turn, as Convoy's processes take it (src/device/cuda/turn.h)."""
    bus = ctypes.create_string_buffer(64)
    if ctypes.CDLL("libcuda.so.1").cuDeviceGetPCIBusId(bus, 64, 0) != 0:
        raise RuntimeError("the driver doesn't say where the device is")
    path = pathlib.Path(tempfile.gettempdir()) / f"convoy-gpu-{bus.value.decode()}.lock"
    if not path.exists():
        path.touch()
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def executed_plan():
    """What ran last; none where PyTorch ran kernels of its own, or nothing is preloaded that says."""
    told = getattr(ctypes.CDLL(None), "convoy_executed_plan", None)
    if told is None:
        return None
    told.restype = ctypes.c_char_p
    name = told()
    return name and name.decode()


def main():
    torch.backends.cudnn.benchmark = True
    sweep = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    for line in open(sys.argv[1]):
        answer = {"problem": line.strip(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
        try:
            with turn():
                answer["seconds"] = seconds(line.strip(), sweep)
        except Exception as error:  # a problem that PyTorch can't run says why, the next ones go on
            answer["error"] = f"{type(error).__name__}: {error}"[:500]
        answer["plan"] = executed_plan()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
