"""Networks on a GPU beside the processor's in f32: the zoo, trained models, those quantized by ONNX Runtime's tool, and exported ones."""
import os

import exported_models
from steps import harness

# Of the zoo, with sizes that take the processor a second.
ZOO = {"convnext_tiny": {"H": 64, "W": 64}, "densenet121": {"H": 64, "W": 64}, "efficientnet_b0": {"H": 64, "W": 64}, "googlenet": {"H": 64, "W": 64},
       "hunyuan_video_decoder": {"D": 3, "H": 4, "W": 4},
       "mobilenet_v2": {"H": 64, "W": 64}, "mobilenet_v3_large": {"H": 64, "W": 64}, "resnet18": {"H": 64, "W": 64}, "resnet50": {"H": 64, "W": 64}, "resnext50_32x4d": {"H": 64, "W": 64},
       "squeezenet1_1": {"H": 64, "W": 64}, "unet": {"H": 188, "W": 188}, "unet3d": {"D": 92, "H": 92, "W": 92}, "vgg16": {"H": 224, "W": 224},
       "yolo_tiny": {"H": 128, "W": 128}, "yolov8n": {"H": 128, "W": 128}}
TRAINED = {"cifar10-imageclassifier": {}, "fastestdet": {}, "meshnet_gwm_5ch": {"D": 32, "H": 32, "W": 32}, "mnist-8": {}, "ppocr-mobile-v2-cls": {"p2o.DynamicDimension.1": 48, "p2o.DynamicDimension.2": 192},
           "selfie-segmentation-landscape": {}, "squeezenet1.1-7": {}, "super-resolution-10": {}, "ultraface-RFB-320": {},
           "waifu2x-upconv7-scale2x": {}}
QUANTIZED = ["mnist-8:qoperator", "mnist-8:qdq", "mnist-8:dynamic", "squeezenet1.1-7:qoperator", "squeezenet1.1-7:qdq", "squeezenet1.1-7:qdq-channel",
             "squeezenet1.1-7:dynamic", "super-resolution-10:qdq-channel"]
TYPES = ("f32", "tf32", "f16", "bf16")
# The largest error over the largest value: 16 roundings of the type, and in f32 of sums of 4,096 terms. In integers three steps of 127.
# In 16 bits twice the processor's own error in that type is right, too.
BOUNDS = {"f32": 16 * 2.0**-18, "tf32": 16 * 2.0**-11, "f16": 16 * 2.0**-11, "bf16": 16 * 2.0**-8, "int8": 3 / 127}


def found_of(unit):
    """By bench/gpu/network_errors.py, which stays for the next unit."""
    folders = [str(harness.HERE / "python"), str(harness.HERE / "bench/gpu"), os.environ.get("PYTHONPATH", "")]
    return harness.ask(harness.HERE / "bench/gpu/network_errors.py", unit, PYTHONPATH=":".join(folders), CONVOY_LIBRARY=str(harness.ROOT / "lib/libconvoy.so"))


def summary_of(named):
    cells = [(name, each) for name, row in named for each in row["rows"]]
    return {"right": sum(each.get("right", False) for _, each in cells), "of": len(cells),
            "wrong": [[name, each] for name, each in cells if not each.get("right")] + [[name, row["broken"]] for name, row in named if "broken" in row],
            "with_steps_on_processor": [[name, each["type"], each["on_processor"]] for name, each in cells if each.get("on_processor")],
            "largest_error": {kind: max((each["error"] for _, each in cells if each["type"] == kind and each.get("error") is not None), default=None) for kind in BOUNDS},
            "bounds": BOUNDS, "rows": [{"name": name, **row} for name, row in named]}


class Models(harness.Step):
    """the zoo in f32, tf32, f16 and bf16, trained models, and quantized ones, beside the processor's f32; steps on the processor"""
    jobs = 6

    def units(self):
        return ([["zoo", name, list(TYPES), sizes] for name, sizes in ZOO.items()]
                + [["trained", name, ["f32", "f16"], sizes] for name, sizes in TRAINED.items()] + [["quantized", name, ["int8"]] for name in QUANTIZED])

    def run(self, unit):
        return {"unit": unit, **found_of(unit)}

    def summary(self, rows):
        return summary_of([(" ".join(row["unit"][:2]), row) for row in rows])


class Exports(harness.Step):
    """models exported by PyTorch (timm where it is installed) in f32 and f16, beside the processor's f32 and PyTorch's f16; steps on the processor"""
    jobs = 6

    def units(self):
        return [["exported", name, exporter] for exporter in exported_models.EXPORTERS for name in exported_models.SIZES]

    def run(self, unit):
        return {"unit": unit, **found_of(unit)}

    def summary(self, rows):
        beside = [[each["error"] / each["torch_error"], " ".join(row["unit"][1:])] for row in rows for each in row["rows"]
                  if each.get("torch_error") and each.get("error") is not None]
        return {**summary_of([(" ".join(row["unit"][1:]), row) for row in rows]),
                "over_torch": {"geomean": harness.geomean([ratio for ratio, _ in beside]), "most": max(beside, default=None),
                               "over_twice": [each for each in beside if each[0] > 2]}}
