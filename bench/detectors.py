"""Torchvision's five detectors as PyTorch exports them, Convoy beside ONNX Runtime: what they find in pictures, and how long it takes.

    python bench/detectors.py PICTURE PICTURE [...] [--export FOLDER] [--models NAME ...] [--rounds 5] [--output FILE]

Needs torch, torchvision, onnx, onnxruntime and Pillow from PyPI, besides `make build`'s libconvoy.so. Models are those of --export, where it
has them; others are exported there, by both of PyTorch's exporters: TorchScript's takes all five, the one by dynamo none (that is printed).
Weights are random, since trained ones are no package's: batch normalization is set by the pictures, and the last layers are scaled until
there are detections. --output keeps the file's rows of models that are not run. Sizes are the published ones: 320 for SSDlite, 800 to 1333 for the others, made by the network itself of any picture.

Compared are, by picture:
- what the network's static part ends in (convolutions that are reshaped, which are scores and offsets of all boxes, and what regions are
  cut from), in every element;
- what both make of the same such values, ONNX Runtime's: detections, masks, keypoints, as sets. A detection is found again where the other
  has one of its label, with an IoU of at least 0.99 and a score within 0.001. Those that aren't must be near a tie: a score
  within 0.001 of the lowest that is kept, or of a rival's of the same label that overlaps;
- the detections of the whole network, in the same way, but here a difference is no fault: in untrained networks scores lie close
  together, and what the first stage proposes hangs on their last digits.
Times are of the whole network: medians of runs in turns, on one thread each; the first run of a picture's sizes is told apart, as Convoy
prepares for them then.
"""
import argparse
import contextlib
import datetime
import io
import json
import logging
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import onnx
import onnxruntime
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CONVOY_LIBRARY", str(ROOT / "build/lib/libconvoy.so"))
import convoy  # noqa: E402

MODELS = {"ssdlite": "ssdlite320_mobilenet_v3_large", "fasterrcnn": "fasterrcnn_resnet50_fpn", "retinanet": "retinanet_resnet50_fpn",
          "maskrcnn": "maskrcnn_resnet50_fpn", "keypointrcnn": "keypointrcnn_resnet50_fpn"}
LONGEST = 640
# The last of the largest magnitude: ONNX Runtime resizes by coordinates in f32, 3e-5 off, which untrained layers make 0.004.
MOST_IOU_LOSS, MOST_SCORE_ERROR, MOST_HEAD_ERROR = 0.01, 1e-3, 1e-2


def picture(path):
    image = Image.open(path).convert("RGB")
    scale = LONGEST / max(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.BILINEAR)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1), dtype=np.float32) / 255


# ---- export ----


def untrained(name, pictures):
    """A detector that finds something: activations of the size that normalization means, and scores that differ."""
    import torch
    from torchvision.models import detection

    torch.manual_seed(0)
    model = getattr(detection, MODELS[name])(weights=None, weights_backbone=None).eval()
    given = [torch.from_numpy(each) for each in pictures]
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
        norm.reset_running_stats()
        norm.train()
    with torch.no_grad():
        # Turned and mirrored, too: where a level has one position, two values' variance may be next to nothing.
        batch, _ = model.transform([each.flip(axes) for each in given for axes in ([], [1], [2], [1, 2])])
        features = model.backbone(batch.tensors)
        if name == "ssdlite":
            model.head(list(features.values()))
        model.eval()
        if name == "retinanet":
            head = model.head.classification_head.cls_logits
            logits = torch.cat([model.head.classification_head([level]).flatten() for level in model.backbone(batch.tensors).values()])
            head.weight *= 1.2 / logits.std()
        elif name != "ssdlite":
            predictor, seen = model.roi_heads.box_predictor.cls_score, []
            hook = model.roi_heads.box_head.register_forward_hook(lambda _, __, out: seen.append(out))
            for each in given:
                model([each])
            hook.remove()
            scores = predictor(torch.cat(seen))
            scale = 1.5 / scores.std(0).mean()
            predictor.bias -= scale * scores.mean(0)
            predictor.weight *= scale
    return model


def export(name, exporter, path, pictures):
    """Whether it could be exported."""
    import torch

    model, first = untrained(name, pictures), torch.from_numpy(pictures[0])
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if exporter == "dynamo":
                torch.onnx.export(model, ([first],), path, dynamo=True, external_data=False, verbose=False)
            else:
                torch.onnx.export(model, ([first],), path, dynamo=False, opset_version=17, input_names=["image"],
                                  dynamic_axes={"image": {1: "height", 2: "width"}})
    except Exception as error:
        print(f"{name:13} {exporter:7} is not exported: {type(error).__name__}", flush=True)
        return False
    return True


# ---- comparison ----


def float_value(name, rank):
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * rank)


def cut(model):
    """The model with what its static part ends in as further outputs; its rest, which has these as inputs; their names."""
    model = onnx.load_from_string(model)
    graph = model.graph
    reshaped = {i for node in graph.node if node.op_type in ("Reshape", "Transpose", "Shape") for i in node.input[:1]}
    regions = {node.input[0] for node in graph.node if node.op_type == "RoiAlign"}
    behind = set()
    for node in graph.node:  # not what belongs to regions that the network has chosen
        if node.op_type in ("RoiAlign", "NonZero", "TopK", "NonMaxSuppression") or behind.intersection(node.input):
            behind.update(node.output)
    ends = [node.output[0] for node in graph.node if node.op_type == "Conv" and node.output[0] in reshaped | regions
            and node.output[0] not in behind]
    ends += sorted(regions - set(ends))
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    needed, nodes = {output.name for output in graph.output}, []
    for node in reversed(graph.node):
        made = needed.intersection(node.output) - set(ends)
        if not made:
            continue
        nodes.append(node)
        open_graphs = [node]
        while open_graphs:
            each = open_graphs.pop()
            needed.update(each.input)
            for attribute in each.attribute:
                if attribute.HasField("g"):
                    open_graphs += attribute.g.node
                    needed.update(output.name for output in attribute.g.output)
    del rest.graph.node[:]
    rest.graph.node.extend(reversed(nodes))
    rest.graph.input.extend(float_value(end, 4) for end in ends)
    graph.output.extend(float_value(end, 4) for end in ends)
    return model.SerializeToString(), rest.SerializeToString(), ends


def overlaps(a, b):
    """IoU of each of a with each of b."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=2)
    area = lambda boxes: np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return both / np.maximum(area(a)[:, None] + area(b)[None] - both, 1e-9)


def named(outputs):
    """boxes, labels, scores and what else there is, from outputs in whichever order the exporter gives them."""
    boxes = next(each for each in outputs if each.ndim == 2 and each.shape[1] == 4 and each.dtype == np.float32)
    labels = next(each for each in outputs if each.dtype == np.int64 and each.ndim == 1)
    scores = next(each for each in outputs if each.dtype == np.float32 and each.ndim == 1)
    rest = [each for each in outputs if all(each is not one for one in (boxes, labels, scores))]
    return boxes, labels, scores, rest


def compare(ours, theirs):
    (boxes, labels, scores, rest), (boxes2, labels2, scores2, rest2) = named(ours), named(theirs)
    same = len(boxes) == len(boxes2) and all(a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(ours, theirs))
    iou = overlaps(boxes, boxes2) if len(boxes) and len(boxes2) else np.zeros((len(boxes), len(boxes2)))
    near = (np.abs(scores[:, None] - scores2[None]) <= MOST_SCORE_ERROR) & (labels[:, None] == labels2[None])
    match = near & (iou >= 1 - MOST_IOU_LOSS)
    lowest = max(min(scores, default=1), min(scores2, default=1))

    def tied(i, own, other, matrix):
        """Not found again: the cut, or one that it competes with, is as near as the arithmetic allows."""
        (b, l, s), (b2, l2, s2) = own, other
        rivals = (l2 == l[i]) & (np.abs(s2 - s[i]) <= MOST_SCORE_ERROR) & (matrix > 0.3)
        return s[i] <= lowest + MOST_SCORE_ERROR or rivals.any()

    lost = [i for i in range(len(boxes)) if not match[i].any()]
    lost2 = [j for j in range(len(boxes2)) if not match[:, j].any()]
    untied = [i for i in lost if not tied(i, (boxes, labels, scores), (boxes2, labels2, scores2), iou[i])]
    untied += [j for j in lost2 if not tied(j, (boxes2, labels2, scores2), (boxes, labels, scores), iou[:, j])]
    worst = 0.0  # of masks, keypoints and their scores, of the largest magnitude
    for one, other in zip(rest, rest2):
        for i in range(len(boxes)):
            j = int(np.argmax(match[i] * (1 + iou[i]))) if len(boxes2) else 0
            if len(boxes2) and match[i, j] and one[i].shape == other[j].shape:
                worst = max(worst, float(np.abs(one[i] - other[j]).mean() / max(1e-6, np.abs(other).max())))
    return {"detections": len(boxes), "theirs": len(boxes2), "found_again": len(boxes) - len(lost), "near_ties": len(lost) + len(lost2) - len(untied),
            "differ": len(untied), "all_outputs_equal_to_1e-3": bool(same), "rest_mean_difference": worst}


def sessions(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return convoy.InferenceSession(model, threads=1), theirs


def seconds_of(session, feed):
    start = time.perf_counter()
    session.run(None, feed)
    return time.perf_counter() - start


def measure(name, exporter, path, paths, pictures, rounds):
    model = path.read_bytes()
    extended, rest, heads = cut(model)
    ours, theirs = sessions(extended)
    ours_behind, theirs_behind = sessions(rest)
    count = len(ours.get_outputs()) - len(heads)
    rows = []
    for each, pixels in zip(paths, pictures):
        feed = {theirs.get_inputs()[0].name: pixels}
        got, expected = ours.run(None, feed), theirs.run(None, feed)
        error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got[count:], expected[count:]))
        behind = {**feed, **dict(zip(heads, expected[count:]))}
        behind = {each.name: behind[each.name] for each in theirs_behind.get_inputs()}
        row = {"model": name, "exporter": exporter, "picture": each.name, "size": list(pixels.shape[1:]), "head_error": error,
               "heads": len(heads), "from_same_heads": compare(ours_behind.run(None, behind), theirs_behind.run(None, behind)),
               "whole": compare(got[:count], expected[:count])}
        row["agrees"] = error <= MOST_HEAD_ERROR and row["from_same_heads"]["differ"] == 0
        rows.append(row)
    ours, theirs = sessions(model)
    for row, pixels in zip(rows, pictures):
        feed = {theirs.get_inputs()[0].name: pixels}
        row["convoy_first_ms"], row["onnxruntime_first_ms"] = seconds_of(ours, feed) * 1e3, seconds_of(theirs, feed) * 1e3
        runs = [(seconds_of(ours, feed), seconds_of(theirs, feed)) for _ in range(rounds)]
        row["convoy_ms"], row["onnxruntime_ms"] = (statistics.median(times) * 1e3 for times in zip(*runs))
        row["ratio"] = row["onnxruntime_ms"] / row["convoy_ms"]
    # A picture of the same size with other contents: nothing but what its counts decide is prepared again.
    other = np.ascontiguousarray(pictures[0][:, ::-1, ::-1])
    rows[0]["convoy_turned_first_ms"] = seconds_of(ours, {theirs.get_inputs()[0].name: other}) * 1e3
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=pathlib.Path, nargs="+")
    parser.add_argument("--export", type=pathlib.Path, default=ROOT / "build/detectors")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    options.export.mkdir(parents=True, exist_ok=True)
    pictures = [picture(path) for path in options.pictures]
    rows, versions = [], {"onnxruntime": onnxruntime.__version__}
    for name in options.models:
        for exporter in ("script", "dynamo"):
            path = options.export / f"{name}_{exporter}.onnx"
            none = path.with_suffix(".refused")
            if not path.exists():
                if none.exists() or not export(name, exporter, path, pictures):
                    none.touch()
                    rows.append({"model": name, "exporter": exporter, "exported": False})
                    continue
            if options.rounds == 0:
                continue
            for row in measure(name, exporter, path, options.pictures, pictures, options.rounds):
                rows.append(row)
                same, whole = row["from_same_heads"], row["whole"]
                print("{model:13} {picture:18} heads to {head_error:.0e}; from the same heads {0[found_again]} of {0[detections]} detections found "
                      "again, {0[differ]} differ{2}; of the whole {1[found_again]}; {convoy_ms:.0f} ms beside {onnxruntime_ms:.0f} (x{ratio:.2f}), "
                      "first {convoy_first_ms:.0f}".format(same, whole, ", all outputs equal" if same["all_outputs_equal_to_1e-3"] else "",
                                                          **row), flush=True)
    with contextlib.suppress(ImportError):
        import torch
        import torchvision
        versions |= {"torch": torch.__version__, "torchvision": torchvision.__version__}
    compared = [row for row in rows if "agrees" in row]
    if options.output:
        if options.output.exists():  # of the other models
            kept = json.loads(options.output.read_text())["rows"]
            rows = [row for row in kept if row["model"] not in options.models] + rows
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        doctor = subprocess.run([ROOT / "build/bin/convoy", "doctor", "--json"], capture_output=True, text=True).stdout
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit,
                    "command": f"python bench/detectors.py {' '.join(path.name for path in options.pictures)} --rounds {options.rounds}",
                    "device": json.loads(doctor)["processor"], "threads": 1, "versions": versions | {"python": platform.python_version()},
                    "rows": rows}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    wrong = [row for row in compared if not row["agrees"]]
    print(f"{len(compared) - len(wrong)} of {len(compared)} agree with ONNX Runtime {onnxruntime.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
