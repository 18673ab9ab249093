"""The conformance cases, the cases from the field and the trained models through ONNX Runtime with Convoy in it: whatever ONNX
Runtime alone passes, passes."""

import os
import pathlib
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime

import convoy.onnxruntime

DATA = pathlib.Path(os.environ.get("CONVOY_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data"))
SKIPPED = 77


def read(folder, kind):
    tensors = []
    for k in range(len(list(folder.glob(f"{kind}_*.pb")))):
        proto = onnx.TensorProto()
        proto.ParseFromString((folder / f"{kind}_{k}.pb").read_bytes())
        tensors.append(onnx.numpy_helper.to_array(proto))
    return tensors


def run(model, inputs, with_convoy):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    if with_convoy:
        convoy.onnxruntime.add_to(settings)
    session = onnxruntime.InferenceSession(str(model), settings)
    return session.run(None, {each.name: value for each, value in zip(session.get_inputs(), inputs)})


def differs(got, want):
    """What is wrong, or nothing."""
    for k, (a, b) in enumerate(zip(map(np.asarray, got), want)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {k} is {a.dtype} {a.shape}, not {b.dtype} {b.shape}"
        if not a.size or a.dtype.kind not in "fiub":
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.abs(y[np.isfinite(y)])
        bound = 1e-3 * np.abs(np.where(np.isfinite(y), y, 0)) + 2e-5 * max(1, finite.max(initial=0))
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):
            wrong = ~same & ~(np.abs(x - y) <= bound)
        if wrong.any():
            return f"output {k}: {wrong.sum()} of {a.size} differ, {x[wrong][0]} is not {y[wrong][0]}"
    return ""


def attempt(model, inputs, outputs, with_convoy):
    try:
        return differs(run(model, inputs, with_convoy), outputs)
    except Exception as error:  # of onnxruntime's own classes
        return str(error)


def main():
    folders = [DATA / name for name in ("conformance", "field", "models")]
    if not all(folder.is_dir() for folder in folders):
        print("skipped: no data")
        return SKIPPED
    counts = {"passed": 0, "passed by both": 0, "worse": 0}
    for folder in folders:
        for model in sorted(folder.rglob("model.onnx")):
            for data in sorted(model.parent.glob("test_data_set_*")):
                try:
                    inputs, outputs = read(data, "input"), read(data, "output")
                except Exception:  # sequences and the like, which are none of these cases' matter
                    continue
                alone = attempt(model, inputs, outputs, with_convoy=False)
                beside = attempt(model, inputs, outputs, with_convoy=True)
                counts["passed"] += not beside
                counts["passed by both"] += not beside and not alone
                if beside and not alone:
                    counts["worse"] += 1
                    print(f"FAILED {model.parent.relative_to(DATA)}: {beside}")
    print(counts)
    return 1 if counts["worse"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
