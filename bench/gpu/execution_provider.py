#!/usr/bin/env python3
"""Networks on a GPU inside ONNX Runtime, and in Convoy alone, in turns in one process.

    python bench/gpu/execution_provider.py MODEL.onnx[:PRECISION] .. [--batch 1] [--seconds 0.5] [--rounds 5] [--output FILE]

Times are of a run that is waited for: with NumPy's arrays, and with tensors on the GPU (bound in ONNX Runtime; PyTorch's in Convoy alone), whose
runs are also enqueued one behind another. Outputs are compared with those of ONNX Runtime's CPU provider. It needs PyTorch.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import time

import convoy.onnxruntime
import numpy as np
import onnxruntime
import torch

import convoy

NVIDIA = 0x10DE
IN_A_ROW = 20


def session_of(path, device, precision):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 2
    if device:
        convoy.onnxruntime.add_to(settings, device=device, **({"precision": precision} if precision else {}))
    return onnxruntime.InferenceSession(path, settings)


def inputs_of(session, batch):
    random = np.random.default_rng(1)
    proposed = session.get_modelmeta().custom_metadata_map  # the zoo says which sizes its networks take
    size = lambda dim, k: dim if isinstance(dim, int) else batch if k == 0 else int(proposed.get(f"convoy.size.{dim}", 224))
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64}
    return {each.name: random.random([size(dim, k) for k, dim in enumerate(each.shape)]).astype(kinds[each.type]) for each in session.get_inputs()}


def seconds_of(run, seconds):
    count, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds or count == 0:
        run()
        count += 1
    return (time.perf_counter() - start) / count


def measured(path, precision, options):
    plain = session_of(path, None, None)
    feeds = inputs_of(plain, options.batch)
    expected = plain.run(None, feeds)
    begin = time.perf_counter()
    ours = session_of(path, "cuda:0", precision)
    created = time.perf_counter() - begin
    begin = time.perf_counter()
    outputs = ours.run(None, feeds)
    first = time.perf_counter() - begin

    binding = ours.io_binding()
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value, "gpu", 0, NVIDIA))
    bound = []
    for each, value in zip(ours.get_outputs(), expected):
        bound.append(onnxruntime.OrtValue.ortvalue_from_shape_and_type(value.shape, value.dtype, "gpu", 0, NVIDIA))
        binding.bind_ortvalue_output(each.name, bound[-1])
    enqueued = onnxruntime.RunOptions()
    enqueued.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def in_a_row():
        for _ in range(IN_A_ROW - 1):
            ours.run_with_iobinding(binding, enqueued)
        ours.run_with_iobinding(binding)

    alone = convoy.Network(path, device="cuda:0", **({"precision": precision} if precision else {}))
    tensors = {name: torch.from_numpy(value).cuda() for name, value in feeds.items()}
    stream = torch.cuda.Stream()

    def one_alone(wait=True):
        with torch.cuda.stream(stream):
            made = alone.run(tensors)
        if wait:
            stream.synchronize()
        return made

    def in_a_row_alone():
        for k in range(IN_A_ROW):
            one_alone(k == IN_A_ROW - 1)

    runs = {"provider_host": lambda: ours.run(None, feeds), "alone_host": lambda: alone.run(feeds),
            "provider_bound": lambda: ours.run_with_iobinding(binding), "alone_bound": one_alone,
            "provider_in_a_row": in_a_row, "alone_in_a_row": in_a_row_alone}
    for run in runs.values():
        for _ in range(3):
            run()
    times = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(seconds_of(run, options.seconds) / (IN_A_ROW if name.endswith("row") else 1))

    def difference(got):
        return max(float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(a).max(), 1e-30)) for a, b in zip(expected, got) if a.size)

    alone_outputs = one_alone()
    return {"model": pathlib.Path(path).stem, "precision": precision or "f32", "batch": options.batch, "create_seconds": created, "first_run_seconds": first,
            "milliseconds": {name: 1e3 * statistics.median(each) for name, each in times.items()},
            "alone_over_provider": {kind: statistics.median(a / b for a, b in zip(times[f"alone_{kind}"], times[f"provider_{kind}"]))
                                    for kind in ("host", "bound", "in_a_row")},
            "difference": difference(outputs), "difference_bound": difference([each.numpy() for each in bound]),
            "difference_alone": difference([alone_outputs[each.name].cpu().numpy() for each in ours.get_outputs()])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output")
    options = parser.parse_args()
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.splitlines()[0]
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": gpu,
              "command": "python bench/gpu/execution_provider.py " + " ".join(options.models) + f" --batch {options.batch}",
              "versions": {"onnxruntime": onnxruntime.__version__, "torch": torch.__version__, "convoy": convoy.__version__}, "rows": []}
    for model in options.models:
        path, _, precision = model.partition(":")
        record["rows"].append(measured(path, precision, options))
        print(json.dumps(record["rows"][-1]), flush=True)
        if options.output:
            pathlib.Path(options.output).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
