"""Random graphs on a GPU against f64 with error bounds (bounded.py), in one process. A line of [FIRST, COUNT] comes in, one of what was found of
each seed goes out.

    on_device.py [DEVICE]      $CONVOY_RANDOM_TYPE says the type, $CONVOY_LIBRARY and PYTHONPATH which Convoy

Every second graph runs with layouts and fusions as given (uniform:nchw). Where PyTorch is there and no step runs on the processor, inputs and
outputs lie on the GPU between NaN bytes, which must still be there behind the run.
"""

import json
import sys

import numpy as np

import convoy
from bounded import Invalid, wrong
from graphs import Graph

try:
    import torch
except ImportError:
    torch = None
GUARD = 256  # bytes; a buffer's alignment


class Guarded:
    """A buffer on the GPU whose bytes, and those around it, are all 0xff, which is a NaN of every float type."""

    def __init__(self, dims, dtype):
        self.count = int(np.prod(dims)) * np.dtype(dtype).itemsize
        self.bytes = torch.full((self.count + 2 * GUARD,), 255, dtype=torch.uint8, device="cuda")
        self.tensor = self.bytes[GUARD:GUARD + self.count].view(getattr(torch, np.dtype(dtype).name)).reshape(tuple(dims))

    def untouched(self):
        return bool((self.bytes[:GUARD] == 255).all() and (self.bytes[GUARD + self.count:] == 255).all())


def guarded_run(network, inputs, right):
    """The outputs, and what lies around the buffers that isn't as it was."""
    given = {name: Guarded(array.shape, array.dtype) for name, array in inputs.items()}
    for name, array in inputs.items():
        given[name].tensor.copy_(torch.from_numpy(np.ascontiguousarray(array)))
    types = {"u8": np.uint8, "s8": np.int8, "f32": np.float32, "f16": np.float16}
    made = {value.name: Guarded(right[value.name].shape, types[value.type]) for value in network.outputs}
    network.run({name: each.tensor for name, each in given.items()}, out={name: each.tensor for name, each in made.items()})
    torch.cuda.synchronize()
    around = [name for name, each in {**given, **made}.items() if not each.untouched()]
    return {name: each.tensor.cpu().numpy() for name, each in made.items()}, around


def check(seed, device):
    graph = Graph(seed)
    found = {"seed": seed, "runs": 0, "outputs": 0, "guarded": 0, "on_processor": [], "wrong": []}
    if not graph.outputs:
        return found
    try:
        network = convoy.Network(graph.model(), device=device, database=False, threads=1, how="uniform:nchw" if seed % 2 else None)
    except convoy.ConvoyError as error:
        found["wrong"].append(f"load: {str(error)[:400]}")
        return found
    for k in (0, 3) if graph.free != "none" else (0,):
        try:
            right = graph.evaluate(k)
        except Invalid:
            continue
        inputs, around = graph.inputs(k), []
        found["runs"] += 1
        try:
            session = network.prepare({name: array.shape for name, array in inputs.items()})
            away = sorted({step.engine for step in session.steps() if step.device == "cpu"})
            found["on_processor"] += away
            if torch is not None and torch.cuda.is_available() and not away:
                found["guarded"] += 1
                outputs, around = guarded_run(network, inputs, right)
            else:
                outputs = network.run(inputs)
        except convoy.ConvoyError as error:
            found["wrong"].append(f"set {k}: {str(error)[:400]}")
            continue
        found["wrong"] += [f"set {k}: wrote around {name}" for name in around]
        for name in graph.outputs:
            found["outputs"] += 1
            text = wrong(outputs[name], right[name])
            if text:
                found["wrong"].append(f"set {k}, output {name}: {text}")
    return found


def main():
    for line in sys.stdin:
        first, count = json.loads(line)
        with np.errstate(all="ignore"):
            print(json.dumps({"seeds": [check(seed, sys.argv[1] if len(sys.argv) > 1 else "cuda") for seed in range(first, first + count)]}), flush=True)


if __name__ == "__main__":
    main()
