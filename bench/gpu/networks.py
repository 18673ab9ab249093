#!/usr/bin/env python3
"""Whole networks on a GPU: torchvision's, exported here in f32 and f16, by convoy run --device cuda; outputs beside the processor's
and PyTorch's, times without and with a captured graph.

    networks.py CONVOY FOLDER [--models resnet50,resnet18] [--batches 1,128] [--types f16,f32] [--seconds 1]

FOLDER keeps the exported files and results.json, which is written after each line.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
import torchvision

warnings.filterwarnings("ignore")
parser = argparse.ArgumentParser()
parser.add_argument("convoy")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--models", default="resnet50")
parser.add_argument("--batches", default="1,128")
parser.add_argument("--types", default="f16,f32")
parser.add_argument("--seconds", default="1")
parser.add_argument("--checked", default=4, type=int, help="images of which the processor's answer is asked for")
flags = parser.parse_args()
flags.folder.mkdir(parents=True, exist_ok=True)
results = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "rows": []}


def model_of(name):
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None).eval()
    for each in model.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            each.running_mean.normal_(0, 0.1)
            each.running_var.uniform_(0.5, 1.5)
    return model.cuda()


def export(model, name, kind):
    path = flags.folder / f"{name}_{kind}.onnx"
    if not path.exists():
        x = torch.zeros(2, 3, 224, 224, device="cuda", dtype=torch.float16 if kind == "f16" else torch.float32)
        torch.onnx.export(model, x, str(path), dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
    return path


def convoy(path, x, *more):
    out = flags.folder / "out"
    subprocess.run(["rm", "-rf", str(out)], check=True)
    file = flags.folder / "x.npy"
    np.save(file, x)
    start = time.time()
    done = subprocess.run([flags.convoy, "run", str(path), "--input", f"x={file}", "--raw", "--no-db", "--json", "--output-dir", str(out),
                           *more], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-600:])
    told = json.loads(done.stdout)
    told["wall"] = time.time() - start
    told["notes"] = done.stderr.strip()
    return told, np.load(next(out.glob("*.npy"))).astype(np.float64)


def error(y, right):
    return float(np.abs(y - right).max() / np.abs(right).max())


for name in flags.models.split(","):
    model = model_of(name)
    for kind in flags.types.split(","):
        wanted = torch.float16 if kind == "f16" else torch.float32
        path32 = export(model.float(), name, "f32")
        typed = model.half() if kind == "f16" else model.float()
        path = export(typed, name, kind)
        for batch in map(int, flags.batches.split(",")):
            torch.manual_seed(1)
            x = torch.randn(batch, 3, 224, 224).half().float()
            row = {"model": name, "type": kind, "batch": batch}
            results["rows"].append(row)
            checked = min(batch, flags.checked)
            try:
                _, right = convoy(path32, x[:checked].numpy(), "--threads", "8")
                with torch.no_grad():
                    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
                    theirs = typed(x.to(wanted).cuda()).double().cpu().numpy()
                row["error_torch"] = error(theirs[:checked], right)
                typed_x = x.to(wanted).numpy()
                for how in (["--no-graph"], []):
                    told, y = convoy(path, typed_x, "--device", "cuda", "--duration", flags.seconds, "--verbose", *how)
                    key = "eager" if how else "captured"
                    row[key] = {"seconds": told["seconds"], "device_seconds": told["device_seconds"], "prepare_seconds": told["prepare_seconds"],
                                "first_run_seconds": told["first_run_seconds"], "wall_seconds": told["wall"], "error": error(y[:checked], right)}
                row["steps"] = [[s.get("device"), s.get("implementation"), s.get("seconds"), s.get("nodes")] for s in told["steps"]]
                row["notes"] = told["notes"]
            except Exception as failure:  # noqa: BLE001: a row that fails says why
                row["failure"] = str(failure)
            (flags.folder / "results.json").write_text(json.dumps(results, indent=1))
            shown = {k: v for k, v in row.items() if k not in ("steps", "notes")}
            print(json.dumps(shown), flush=True)
            if "notes" in row:
                print(row["notes"][:1500], flush=True)
    del model
sys.exit(any("failure" in row for row in results["rows"]))
