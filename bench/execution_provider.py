#!/usr/bin/env python3
"""Networks in ONNX Runtime, with Convoy as execution provider and without, in turns in one process each.

    python bench/execution_provider.py [--networks GLOB ..] [--threads 1 2] [--forms f32] [--seconds 0.3] [--rounds 5] [--output FILE [--resume]]

Networks are the zoo's (batch 1) and the trained models of $CONVOY_DATA, in f32 and in other forms of model_forms.py. The module and the library are those of the source and
the build (PYTHONPATH, CONVOY_LIBRARY). A row has the ratio of times, its 95 % interval, first runs, memory and the outputs' difference.
"""

import argparse
import datetime
import fnmatch
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
DATA = pathlib.Path(os.environ.get("CONVOY_DATA", ROOT.parent / "shared/data"))
SPINNING = 0.1  # seconds: ONNX Runtime's threads spin for half of that behind a run, and would take a processor from who runs next
ZOO = ["convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "hunyuan_video_decoder", "mobilenet_v2", "mobilenet_v3_large", "resnet18", "resnet50", "resnext50_32x4d",
       "squeezenet1_1", "unet", "unet3d", "vgg16", "yolo_tiny", "yolov8n"]


def memory(field):
    """Bytes of this process: VmHWM the most that were resident, RssAnon those that are of no file."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split(field + ":")[1].split()[0]) * 1024


def session_of(model, threads, with_convoy):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    if with_convoy:
        import convoy.onnxruntime

        convoy.onnxruntime.add_to(settings, threads=threads)
    return onnxruntime.InferenceSession(model, settings)


def inputs_of(session):
    import numpy as np

    random = np.random.default_rng(1)
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64}
    proposed = session.get_modelmeta().custom_metadata_map  # the zoo says which sizes its networks take
    size = lambda dim, k: dim if isinstance(dim, int) else int(proposed.get(f"convoy.size.{dim}", 1 if k == 0 else 224))
    return {each.name: random.random([size(dim, k) for k, dim in enumerate(each.shape)]).astype(kinds[each.type])
            for each in session.get_inputs()}


def first(model, threads, with_convoy):
    """In a process of its own: seconds to create a session, of its first run, and memory after two more: ONNX Runtime plans its own
    for sizes that it has seen."""
    start = time.perf_counter()
    session = session_of(model, threads, with_convoy)
    created = time.perf_counter()
    feeds = inputs_of(session)
    before = time.perf_counter()
    session.run(None, feeds)
    first_run = time.perf_counter() - before
    for _ in range(2):
        session.run(None, feeds)
    return {"create_seconds": created - start, "first_run_seconds": first_run, "peak_bytes": memory("VmHWM"), "anonymous_bytes": memory("RssAnon")}


def both(model, threads, rounds, seconds):
    import numpy as np

    sessions = {"onnxruntime": session_of(model, threads, False), "convoy": session_of(model, threads, True)}
    feeds = inputs_of(sessions["onnxruntime"])
    outputs = {name: each.run(None, feeds) for name, each in sessions.items()}
    difference = max(float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(a).max(), 1e-30))
                     for a, b in zip(outputs["onnxruntime"], outputs["convoy"]) if a.size)
    times = {name: [] for name in sessions}
    for k in range(rounds):
        for name in sorted(sessions, reverse=k % 2):
            if threads > 1:
                time.sleep(SPINNING)
            end, count = time.perf_counter() + seconds, 0
            start = time.perf_counter()
            while time.perf_counter() < end or count == 0:
                sessions[name].run(None, feeds)
                count += 1
            times[name].append((time.perf_counter() - start) / count)
    ratios = [a / b for a, b in zip(times["onnxruntime"], times["convoy"])]
    half = 1.96 * statistics.stdev(map(math.log, ratios)) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0
    middle = statistics.median(ratios)
    return {"milliseconds": {name: 1e3 * statistics.median(each) for name, each in times.items()}, "onnxruntime_over_convoy": middle,
            "interval": [middle * math.exp(-half), middle * math.exp(half)], "difference": difference}


def in_form(path, form, work):
    """The model's file, or why there is none."""
    if form == "f32":
        return str(path), None
    sys.path.insert(0, str(ROOT / "bench"))
    import model_forms

    session = session_of(model_forms.with_constant_weights(path, work), 1, False)
    try:
        (name, value), = inputs_of(session).items()
        return str(model_forms.in_form(model_forms.with_constant_weights(path, work), form, name, value.shape, work)), None
    except Exception as error:  # of ONNX Runtime's tools, which take most models and not all
        return None, str(error).splitlines()[0] or type(error).__name__


def child(what, *arguments):
    done = subprocess.run([sys.executable, __file__, "--child", what, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", default=["*"])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--forms", nargs="*", default=["f32"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--output")
    parser.add_argument("--resume", action="store_true", help="keep the rows of --output, and measure the others")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, model, threads, *rest = options.child
        made = first(model, int(threads), rest[0] == "convoy") if what == "first" else both(model, int(threads), int(rest[0]), float(rest[1]))
        print(json.dumps(made))
        return 0
    rows = json.loads(pathlib.Path(options.output).read_text())["rows"] if options.resume and pathlib.Path(options.output).exists() else []
    with tempfile.TemporaryDirectory() as work:
        models = {name: None for name in ZOO} | {path.parent.name: str(path) for path in sorted(DATA.glob("models/*/model.onnx"))}
        for name, form in ((name, form) for name in models for form in options.forms):
            left = [threads for threads in options.threads
                    if not any((row["network"], row["threads"], row["form"]) == (name, threads, form) for row in rows)]
            if not left or not any(fnmatch.fnmatch(name, glob) for glob in options.networks):
                continue
            path = models[name]
            if path is None:
                path = f"{work}/model.onnx"
                subprocess.run([CONVOY, "zoo", name, "-o", path], check=True, capture_output=True)
            path, none = in_form(path, form, work)
            if none:
                print(name, form, "no such model:", none, flush=True)
                continue
            for threads in left:
                row = {"network": name, "form": form, "threads": threads, **child("both", path, threads, options.rounds, options.seconds)}
                row["first"] = {who: child("first", path, threads, who) for who in ("onnxruntime", "convoy")}
                for each in row["first"].values():
                    if "failed" in each:
                        row["failed"] = each["failed"]
                rows.append(row)
                print(name, form, threads, row.get("failed") or f"{row['onnxruntime_over_convoy']:.2f} "
                      f"({row['interval'][0]:.2f} to {row['interval'][1]:.2f}), difference {row['difference']:.1e}", flush=True)
                if options.output:
                    write(options, rows)
    for each in means_of(rows):
        print(each)
    return 1 if any("failed" in row for row in rows) else 0


def means_of(rows):
    means = []
    for form, threads in sorted({(row["form"], row["threads"]) for row in rows}):
        good = [row for row in rows if (row["form"], row["threads"]) == (form, threads) and "failed" not in row]
        if not good:
            continue

        def over(field):  # Convoy's over ONNX Runtime's alone
            return statistics.median(row["first"]["convoy"][field] / row["first"]["onnxruntime"][field] for row in good)

        ratios = [row["onnxruntime_over_convoy"] for row in good]
        means.append({"form": form, "threads": threads, "networks": len(ratios), "geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))),
                      "least": min(ratios), "median_peak_ratio": over("peak_bytes"), "median_anonymous_ratio": over("anonymous_bytes"),
                      "median_create_ratio": over("create_seconds")})
    return means


def write(options, rows):
    import onnxruntime

    doctor = json.loads(subprocess.run([CONVOY, "doctor", "--json"], capture_output=True, text=True).stdout)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": f"python bench/execution_provider.py --forms {' '.join(options.forms)} --seconds {options.seconds:g} --rounds {options.rounds}", "commit": commit,
              "device": doctor.get("processor"), "versions": {"onnxruntime": onnxruntime.__version__}, "means": means_of(rows), "rows": rows}
    pathlib.Path(options.output).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
