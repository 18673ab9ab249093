"""A program's work as a CUDA graph, whose replays need no host: what a step takes when nothing waits for it."""
import time

import torch

_made = {}


def capture(name, body):
    """The graph of what `body` does, made at the first call of that name; what it returns stays where it is."""
    if name not in _made:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                body()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # the captured body has memory of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _made[name] = graph, body()
    return _made[name]


def replays(step, count):
    """Milliseconds of a replay of a step that returns its loss, and the losses."""
    graph, loss = capture("step", step)
    losses = []
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(int(count)):
        graph.replay()
        losses.append(loss.clone())
    torch.cuda.synchronize()
    return {"milliseconds": 1e3 * (time.perf_counter() - start) / int(count), "losses": [float(loss) for loss in losses]}
