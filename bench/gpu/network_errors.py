"""Networks on a GPU beside the processor's f32 result, in one process: a unit of JSON a line comes in, what was found of it a line goes out.

$CONVOY_LIBRARY and PYTHONPATH say which Convoy. NETWORK_DEVICE=cpu is for a try without a GPU.
"""
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

import convoy
import exported_models
import quantized_model
from steps.network_checks import DATA
from steps.network_models import BOUNDS

THREADS = len(os.sched_getaffinity(0))
DEVICE = os.environ.get("NETWORK_DEVICE", "cuda")
KEYWORDS = {"f32": {}, "int8": {}, "tf32": {"math": "tf32"}, "f16": {"precision": "f16"}, "bf16": {"precision": "bf16"}}

def error_of(expected, found):
    """Over all outputs the largest error over the output's largest value; NaN where a value is none."""
    errors = []
    for a, b in zip(expected, found, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if a.shape != b.shape:
            return float("inf")
        if a.size:
            errors.append(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)))
    return float(np.max(errors)) if errors else float("nan")


def finite(error):
    """For JSON: None where a value is none, or outputs have other dims."""
    return error if np.isfinite(error) else None


def run(model, inputs, device, kind):
    """Outputs in the model's order, and of the run what is kept."""
    network = convoy.Network(model, device=device, database=False, threads=THREADS, **KEYWORDS[kind])
    begin = time.monotonic()
    session = network.prepare({name: array.shape for name, array in inputs.items()})
    prepared = time.monotonic() - begin
    network.run(inputs)
    outputs = network.run(inputs)  # on a GPU by the captured graph
    steps = session.steps()
    away = sorted({f"{step.engine}" for step in steps if step.device == "cpu"}) if device != "cpu" else []
    return ([outputs[value.name] for value in network.outputs],
            {"steps": len(steps), "on_processor": away, "prepare_seconds": round(prepared, 3)})


def beside_processor(model, inputs, types, torch_errors=None):
    """A row a type. Where PyTorch's own error in a type is known, twice that is a bound, too."""
    expected, _ = run(model, inputs, "cpu", "f32")
    rows = []
    for kind in types:
        try:
            found, told = run(model, inputs, DEVICE, kind)
        except convoy.ConvoyError as error:
            rows.append({"type": kind, "broken": str(error)[:600]})
            continue
        error = error_of(expected, found)
        row = {"type": kind, "error": finite(error), **told}
        if not error <= BOUNDS[kind] and kind in ("f16", "bf16"):  # what the type makes of the network, where that is more
            row["processors_error"] = finite(error_of(expected, run(model, inputs, "cpu", kind)[0]))
        row["right"] = bool(error <= max(BOUNDS[kind], 2 * (row.get("processors_error") or 0)))
        if torch_errors and kind in torch_errors:
            row["torch_error"] = finite(torch_errors[kind])
            row["within_twice"] = bool(error <= 2 * torch_errors[kind])
        rows.append(row)
    return rows, expected


def random_inputs(model, sizes):
    random = np.random.default_rng(11)
    inputs = {}
    for value in convoy.Network(model).inputs:
        dims = [size if size >= 0 else sizes.get(name, 1) for size, name in zip(value.dims, value.dim_names)]
        inputs[value.name] = random.uniform(-1, 1, dims).astype(np.float32)
    return inputs


def exported(name, exporter, folder):
    """The rows, with PyTorch's error in f16 and the difference of its f32 beside them."""
    import torch
    torch.set_num_threads(THREADS)
    torch.backends.cudnn.allow_tf32 = False
    made, x = exported_models.module(name)
    exported_models.export(made, x, exporter, folder / "model.onnx")
    place = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.no_grad():
        right = [each.numpy() for each in exported_models.tensors(made(x))]
        half = made.half().to(place)
        try:
            theirs = {"f16": error_of(right, [each.float().cpu().numpy() for each in exported_models.tensors(half(x.half().to(place)))])}
        except RuntimeError as error:
            theirs = {}
            print(name, error, file=sys.stderr)
    del half, made
    model = folder / "model.onnx"
    rows, expected = beside_processor(model, {convoy.Network(model).inputs[0].name: x.numpy()}, ["f32", "f16"], theirs)
    return {"rows": rows, "torch_difference": error_of(right, expected)}


def found_of(unit):
    kind, name = unit[:2]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if kind == "exported":
            return exported(name, unit[2], folder)
        if kind == "quantized":
            model = folder / "model.onnx"
            inputs = quantized_model.write(name, model)
        else:
            model = f"zoo:{name}" if kind == "zoo" else DATA / "models" / name / "model.onnx"
            inputs = random_inputs(model, unit[3])
        return {"rows": beside_processor(model, inputs, unit[2])[0]}


def main():
    os.environ.setdefault("CONVOY_DATA", str(DATA))  # for tests/quantized
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is none
    for line in sys.stdin:
        try:
            found = found_of(json.loads(line))
        except Exception as error:  # the next unit is another network
            found = {"rows": [], "broken": f"{type(error).__name__}: {str(error)[:1500]}"}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
