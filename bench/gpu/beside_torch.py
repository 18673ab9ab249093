"""PyTorch with cudnn.benchmark beside Convoy's candidates, in one process: python beside_torch.py LIST LIBRARY > JSON lines.

LIST: a JSON line a problem, {"problem": ..., "candidates": [NAME, ...], "others": [NAME, ...]}; LIBRARY: libconvoy.so. All execute on
one stream, on the same tensors, in turns: a round is one execution of each, in an order that alternates. Output and workspace
are PyTorch's allocator's, new for each execution, as PyTorch's own are: where they lie decides over percents. Before each the
L2 cache is swept and the activations that the pass reads are written again; times are those of events. A round in which the
host came late with an execution's end counts for nothing. The candidate that is compared is the one with the least median of
the first half of the rounds; what is compared are the second half's. "others" are timed, not compared. Only the pass asked for
is computed. With tests/gpu/executed_plan.cc preloaded "plan" is what PyTorch ran, in Convoy's names.
"""
import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import pathlib
import statistics
import sys
import tempfile

import convoy_c
import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ROUNDS = 120  # half of them to choose, half to compare; of 20 the median's own noise was 3% where times have two modes
MOST_ROUNDS = 240  # with those in which the host came late
SWEEPS, MOST_SWEEPS = 4, 32  # in front of an execution, so that the host, with PyTorch's work for each, is ahead of the device
PLANNING_THREADS = 8


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


def pytorch(what, x, w, y, window, groups):
    """What computes the pass; its result."""
    pad, stride, dilation = window
    dims = len(pad)
    if what == "fprop":
        return lambda: torch.ops.aten.convolution(x, w, None, stride, pad, dilation, False, [0] * dims, groups)
    mask = [what == "dgrad", what == "wgrad", False]
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, stride, pad, dilation, False, [0] * dims, groups, mask)[mask.index(True)]


def execution(convoy, plan, x, w, y, like):
    """What computes the pass by a plan of Convoy's; its result, which is described as `like`."""
    arguments = convoy_c.Arguments(x=x.data_ptr(), w=w.data_ptr(), y=y.data_ptr(), workspace_bytes=convoy.workspace_bytes(plan),
                                   stream=torch.cuda.current_stream().cuda_stream)

    def run():
        out = torch.empty_like(like)
        workspace = torch.empty(arguments.workspace_bytes, dtype=torch.uint8, device="cuda")
        arguments.out, arguments.workspace = out.data_ptr(), workspace.data_ptr()
        convoy.execute(plan, arguments)
        return out

    return run


def timed(runs, sweep, read):
    """Seconds of each round of each run, and in how many rounds more the host was late."""
    copies = [each.clone() for each in read]
    rounds, dropped, sweeps = [], 0, SWEEPS
    while len(rounds) < ROUNDS and len(rounds) + dropped < MOST_ROUNDS:
        order = list(runs) if len(rounds) % 2 == 0 else list(reversed(runs))
        events = {name: (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for name in order}
        late = False
        for name in order:
            for _ in range(sweeps):
                sweep.zero_()
            for each, copy in zip(read, copies):
                each.copy_(copy)
            begin, end = events[name]
            begin.record()
            runs[name]()
            end.record()
            late = late or begin.query()
        torch.cuda.synchronize()
        if late:
            dropped, sweeps = dropped + 1, min(2 * sweeps, MOST_SWEEPS)
        else:
            rounds.append({name: begin.elapsed_time(end) * 1e-3 for name, (begin, end) in events.items()})
    if len(rounds) < ROUNDS:
        raise RuntimeError(f"the host was late in {dropped} of {dropped + len(rounds)} rounds")
    return rounds, dropped


def compared(rounds, candidates):
    """PyTorch beside the candidate that was fastest in the first half, by the rounds of the second."""
    first, second = rounds[:len(rounds) // 2], rounds[len(rounds) // 2:]
    median = lambda part, name: statistics.median(each[name] for each in part)  # noqa: E731
    best = min(candidates, key=lambda name: median(first, name))
    ratios = sorted(each["torch"] / each[best] for each in second)
    tail = int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5)  # the median's 95% interval, by order statistics
    return {"torch_seconds": median(second, "torch"), "best": best, "best_seconds": median(second, best),
            "torch_over_best": statistics.median(ratios), "torch_over_best_95_percent": [ratios[tail], ratios[-1 - tail]],
            "seconds": {name: median(rounds, name) for name in rounds[0]}}


def measure(convoy, text, candidates, others, sweep, pool):
    what, tensors, window, groups, math = parse(text)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = math == "tf32"
    problem, plans, refused = convoy.problem(text), {}, {}
    planned = {name: pool.submit(convoy.plan, problem, name, "cuda") for name in (*candidates, *others)}
    for name, future in planned.items():
        try:
            plans[name] = future.result()
        except RuntimeError as error:
            refused[name] = str(error)[:300]
    with turn():
        x, w, y = (tensor(tensors[name]) for name in "xwy")
        run = pytorch(what, x, w, y, window, groups)
        expected = run()
        runs, errors = {"torch": run}, {}
        like = {"fprop": y, "dgrad": x, "wgrad": w}[what]
        for name, plan in plans.items():
            runs[name] = execution(convoy, plan, x, w, y, like)
            torch.full_like(like, float("nan"))  # the allocator's next answer: what is not written shows
            difference = (runs[name]() - expected).float()
            errors[name] = (torch.linalg.vector_norm(difference) / torch.linalg.vector_norm(expected.float())).item()
        executed_plan()  # forgotten: what counts is what runs from here on
        for _ in range(2):
            for each in runs.values():
                each()
        read = [each for each, passes in ((x, ("fprop", "wgrad")), (y, ("dgrad", "wgrad"))) if what in passes]
        rounds, dropped = timed(runs, sweep, read)
        plan = executed_plan()
    answer = {"plan": plan, "dropped_rounds": dropped, "refused": refused, "largest_difference": max(errors.values(), default=None)}
    contestants = [name for name in candidates if name in plans]
    if contestants:
        answer |= compared(rounds, contestants)
    convoy.destroy(problem, plans.values())
    return answer


@contextlib.contextmanager
def turn():
    """The device's lock, as Convoy's processes take it (src/device/cuda/measuring_lock.h)."""
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
    convoy, pool = convoy_c.Convoy(sys.argv[2]), concurrent.futures.ThreadPoolExecutor(PLANNING_THREADS)
    for line in open(sys.argv[1]):
        wanted = json.loads(line)
        answer = {"problem": wanted["problem"], "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
        try:
            answer |= measure(convoy, wanted["problem"], wanted["candidates"], wanted["others"], sweep, pool)
        except Exception as error:  # a problem that can't be compared says why, the next ones go on
            answer["error"] = f"{type(error).__name__}: {error}"[:500]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
