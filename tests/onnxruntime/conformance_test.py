"""The conformance cases, the cases from the field and the trained models through ONNX Runtime with Convoy in it: whatever ONNX
Runtime alone passes, or `convoy conformance`, passes. And the zoo, in f32, in f16 and quantized: the answers are ONNX Runtime's.

    conformance_test.py [--device cuda]
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime

import convoy.onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import model_forms  # noqa: E402

CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
DATA = pathlib.Path(os.environ.get("CONVOY_DATA", ROOT.parent / "shared/data"))
SKIPPED = 77
# Forms, and what outputs may differ by, of the largest: f16 is rounded after other nodes, and a quantized network steps over.
ZOO = {"mobilenet_v2": ["f32", "f16"], "resnet18": ["f32", "f16", "qdq"], "squeezenet1_1": ["f32", "f16", "qdq"], "yolo_tiny": ["f32", "f16"]}
ALLOWED = {"f32": 1e-4, "f16": 1e-2, "qdq": 3e-2}
SIZE = (1, 3, 64, 64)


def read(folder, kind):
    tensors = []
    for k in range(len(list(folder.glob(f"{kind}_*.pb")))):
        proto = onnx.TensorProto()
        proto.ParseFromString((folder / f"{kind}_{k}.pb").read_bytes())
        tensors.append(onnx.numpy_helper.to_array(proto))
    return tensors


device = "cpu"


def run(model, inputs, with_convoy):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    if with_convoy:
        convoy.onnxruntime.add_to(settings, device=device)
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


def passed_alone(folder):
    """The cases that Convoy's own command passes. Before 1.32 ONNX Runtime can't load models of opset 27, and joins a Pad with a MaxPool
    wrongly before Convoy sees them: there they are not compared."""
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32):
        return set()
    printed = subprocess.run([CONVOY, "conformance", str(folder)], capture_output=True, text=True).stdout
    return set(re.findall(r"^passed +(\S+)", printed, re.MULTILINE))


def zoo():
    """How many networks of the zoo are wrong."""
    wrong = 0
    feed = np.random.default_rng(5).random(SIZE, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for name, forms in ZOO.items():
            subprocess.run([CONVOY, "zoo", name, "-o", f"{folder}/{name}.onnx"], check=True, capture_output=True)
            for form in forms:
                path = model_forms.in_form(f"{folder}/{name}.onnx", form, onnx.load(f"{folder}/{name}.onnx").graph.input[0].name, SIZE, folder)
                want, got = (run(path, [feed], with_convoy)[0] for with_convoy in (False, True))
                difference = float(np.abs(got - want).max() / np.abs(want).max())
                if not difference <= ALLOWED[form]:
                    wrong += 1
                    print(f"FAILED {name} in {form}: differs by {difference:.2g} of the largest")
    return wrong


def main():
    global device
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    folders = [DATA / name for name in ("conformance", "field", "models")]
    if not all(folder.is_dir() for folder in folders):
        print("skipped: no data")
        return SKIPPED
    counts = {"passed": 0, "passed by both": 0, "worse": 0}
    for folder in folders:
        known = passed_alone(folder)
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
                if beside and (not alone or str(model.parent.relative_to(folder)) in known):
                    counts["worse"] += 1
                    print(f"FAILED {model.parent.relative_to(DATA)}: {beside}")
    counts["wrong of the zoo"] = zoo()
    print(counts)
    return 1 if counts["worse"] or counts["wrong of the zoo"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
