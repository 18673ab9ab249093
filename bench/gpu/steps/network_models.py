"""Networks on a GPU beside the processor's in f32: the zoo, trained models, those quantized by ONNX Runtime's tool, and exported ones."""
import os
import pathlib
import sys
import tempfile

from steps import harness
from steps.network_checks import DATA, run

# Of the zoo, with sizes that take the processor a second.
ZOO = {"convnext_tiny": {"H": 64, "W": 64}, "densenet121": {"H": 64, "W": 64}, "efficientnet_b0": {"H": 64, "W": 64}, "googlenet": {"H": 64, "W": 64},
       "mobilenet_v2": {"H": 64, "W": 64}, "resnet18": {"H": 64, "W": 64}, "resnet50": {"H": 64, "W": 64}, "resnext50_32x4d": {"H": 64, "W": 64},
       "squeezenet1_1": {"H": 64, "W": 64}, "unet": {"H": 188, "W": 188}, "unet3d": {"D": 92, "H": 92, "W": 92}, "vgg16": {"H": 224, "W": 224},
       "yolo_tiny": {"H": 128, "W": 128}}
TRAINED = {"cifar10-imageclassifier": {}, "fastestdet": {}, "meshnet_gwm_5ch": {"D": 32, "H": 32, "W": 32}, "mnist-8": {}, "ppocr-mobile-v2-cls": {"p2o.DynamicDimension.1": 48, "p2o.DynamicDimension.2": 192},
           "selfie-segmentation-landscape": {}, "squeezenet1.1-7": {}, "super-resolution-10": {}, "ultraface-RFB-320": {},
           "waifu2x-upconv7-scale2x": {}}
QUANTIZED = ["mnist-8:qoperator", "mnist-8:qdq", "mnist-8:dynamic", "squeezenet1.1-7:qoperator", "squeezenet1.1-7:qdq", "squeezenet1.1-7:qdq-channel",
             "squeezenet1.1-7:dynamic", "super-resolution-10:qdq-channel"]
FLAGS = {"f32": [], "tf32": ["--allow", "tf32"], "f16": ["--precision", "f16"], "bf16": ["--precision", "bf16"]}
# The largest error over the largest value: 16 roundings of the type, and in f32 of sums of 4,096 terms. In integers three steps of 127.
# In 16 bits twice the processor's own error in that type is right, too.
BOUNDS = {"f32": 16 * 2.0**-18, "tf32": 16 * 2.0**-11, "f16": 16 * 2.0**-11, "bf16": 16 * 2.0**-8, "int8": 3 / 127}


def error_of(expected, found):
    """Over all outputs the largest error over the output's largest value; NaN where a value is none."""
    import numpy as np
    names = sorted(path.name for path in pathlib.Path(expected).glob("*.npy"))
    errors = []
    for name in names:
        a, b = (np.load(pathlib.Path(folder) / name).astype(np.float64) for folder in (expected, found))
        if a.shape != b.shape:
            return float("inf")
        if a.size:
            errors.append(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)))
    return max(errors) if errors else float("nan")


def steps_away(told):
    """Steps on the processor: which operators."""
    return sorted(f"{step['implementation']} ({step['nodes']})"[:120] for step in told["steps"] if step["device"] == "cpu")


def beside_processor(model, flags, types, folder):
    """A row a type: the error on the GPU, and what of it runs on the processor."""
    flags = ["--random-inputs", "--repeat", 1, "--warmup", 1, "--raw", *flags]
    told = run(model, *flags, "--output-dir", folder / "cpu", device="cpu")
    if "broken" in told:
        return {"rows": [], "broken": told["broken"]}
    rows = []
    for each in types:
        told = run(model, *flags, *FLAGS.get(each, []), "--output-dir", folder / each)
        if "broken" in told:
            rows.append({"type": each, "broken": told["broken"]})
            continue
        error, of_type = error_of(folder / "cpu", folder / each), None
        if not error <= BOUNDS[each] and each in ("f16", "bf16"):  # what the type makes of the network, where that is more
            in_type = run(model, *flags, *FLAGS[each], "--output-dir", folder / f"cpu-{each}", device="cpu")
            of_type = None if "broken" in in_type else error_of(folder / "cpu", folder / f"cpu-{each}")
        rows.append({"type": each, "error": error, **({} if of_type is None else {"processors_error": of_type}),
                     "right": error <= max(BOUNDS[each], 2 * (of_type or 0)), "steps": len(told["steps"]), "on_processor": steps_away(told),
                     "prepare_seconds": told["prepare_seconds"]})
    return {"rows": rows}


def summary_of(named):
    cells = [(name, each) for name, row in named for each in row["rows"]]
    return {"right": sum(each.get("right", False) for _, each in cells), "of": len(cells),
            "wrong": [[name, each] for name, each in cells if not each.get("right")] + [[name, row["broken"]] for name, row in named if "broken" in row],
            "with_steps_on_processor": [[name, each["type"], each["on_processor"]] for name, each in cells if each.get("on_processor")],
            "largest_error": {kind: max((each["error"] for _, each in cells if each["type"] == kind and "error" in each), default=None) for kind in BOUNDS},
            "bounds": BOUNDS, "rows": [{"name": name, **row} for name, row in named]}


class Models(harness.Step):
    """the zoo in f32, tf32, f16 and bf16, trained models, and quantized ones, beside the processor's f32; steps on the processor"""
    jobs = 8

    def units(self):
        return ([["zoo", name, list(FLAGS)] for name in ZOO] + [["trained", name, ["f32", "f16"]] for name in TRAINED]
                + [["quantized", name, ["int8"]] for name in QUANTIZED])

    def run(self, unit):
        kind, name, types = unit
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = pathlib.Path(name_of_folder)
            model, flags = f"zoo:{name}", ZOO.get(name, {})
            if kind == "trained":
                model, flags = DATA / "models" / name / "model.onnx", TRAINED[name]
            elif kind == "quantized":
                model, flags = self.quantized(name, folder), {}
            flags = [part for dim in flags.items() for part in ("--dim", f"{dim[0]}={dim[1]}")]
            return {"unit": unit, **beside_processor(model, flags, types, folder)}

    @staticmethod
    def quantized(name, folder):
        """Quantized there, as tests/quantized does it."""
        os.environ.setdefault("CONVOY_DATA", str(DATA))
        sys.path.insert(0, str(harness.HERE / "tests/quantized"))
        import onnx
        import quantized_test
        model, form = name.split(":")
        path, feeds = quantized_test.prepared(model, folder)
        onnx.save(quantized_test.quantized(path, feeds, form, folder), folder / "model.onnx")
        return folder / "model.onnx"

    def summary(self, rows):
        return summary_of([(" ".join(row["unit"][:2]), row) for row in rows])


class Exports(harness.Step):
    """models exported by PyTorch (data/exports, by bench/gpu/exported.py) in f16 and f32, beside the processor's f32; steps on the processor"""
    jobs = 8

    def units(self):
        return sorted(path.name for path in (DATA / "exports").glob("*.onnx")) or ["none"]

    def run(self, name):
        if name == "none":
            return {"model": name, "rows": [], "broken": "there are no exports in the bundle: $CONVOY_EXPORTS"}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            harness.command([sys.executable, harness.HERE / "bench/gpu/exported.py", "--restored", DATA / "exports" / name, folder / "model.onnx"])
            return {"model": name, **beside_processor(folder / "model.onnx", [], ["f32", "f16"], folder)}

    def summary(self, rows):
        return summary_of([(row["model"], row) for row in rows])
