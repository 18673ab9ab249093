"""Models that people exported, Convoy beside ONNX Runtime: outputs and time, in one process and in turns.

    python bench/exports.py FOLDER [--models GLOB ...] [--threads 1] [--provider] [--rounds 7] [--seconds 0.1] [--output FILE]

FOLDER has NAME_HOW.onnx, as an exporter HOW made it of a model NAME, and NAME.npy, its input, or NAME_HOW.npz, its inputs by name. What counts is the median over the rounds of
ONNX Runtime's time over Convoy's; each round gives both one block of runs that lasts about `seconds`. `difference` is the largest of all
outputs over their largest magnitude, for integers the share of elements that differ. --output keeps the file's rows of models that are
not run. --provider: Convoy's side is ONNX Runtime with Convoy as its execution provider. Models that either side refuses are
printed, with the reason. Exit 1 where outputs differ by more than 1e-3 or a ratio is below 0.98.
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
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CONVOY_LIBRARY", str(ROOT / "build/lib/libconvoy.so"))

import convoy.onnxruntime  # noqa: E402  pylint: disable=wrong-import-position
import onnxruntime  # noqa: E402  pylint: disable=wrong-import-position

ERRORS_ONLY = 3  # of ONNX Runtime's log
SPINNING = 0.1  # seconds: ONNX Runtime's threads spin for half of that behind a run, and would take a processor from who runs next
MOST_DIFFERENCE, LEAST_RATIO = 1e-3, 0.98
REFUSALS = (convoy.ConvoyError, *(kind for kind in vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
                                  if isinstance(kind, type) and issubclass(kind, Exception)))


def difference(ours, theirs):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return math.inf
    if theirs.size == 0:
        return 0.0
    if theirs.dtype.kind != "f":
        return float((ours != theirs).mean())
    return float(np.abs(ours - theirs).max() / max(float(np.abs(theirs).max()), 1e-6))


def block(session, feed, options):
    """The median of runs that take about so many seconds. ONNX Runtime's threads spin for 50 ms behind a run, and would take a processor
    from who runs next."""
    if options.threads > 1:
        time.sleep(0.1)
    times, end = [], time.perf_counter() + options.seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def runtime_session(path, options, with_convoy):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = options.threads, ERRORS_ONLY
    if with_convoy:
        convoy.onnxruntime.add_to(settings, threads=options.threads)
    return onnxruntime.InferenceSession(str(path), settings)


def row_of(path, options):
    name, how = path.stem.rsplit("_", 1)
    sessions = {"convoy": runtime_session(path, options, True) if options.provider else
                convoy.InferenceSession(str(path), threads=options.threads, database=False),
                "onnxruntime": runtime_session(path, options, False)}
    if path.with_suffix(".npz").exists():
        feed = dict(np.load(path.with_suffix(".npz")))
    else:
        feed = {sessions["onnxruntime"].get_inputs()[0].name: np.load(path.with_name(name + ".npy"))}
    outputs = {library: session.run(None, feed) for library, session in sessions.items()}
    worst = max(map(difference, outputs["convoy"], outputs["onnxruntime"]))
    times = {library: [] for library in sessions}
    for i in range(options.rounds):
        for library in sorted(sessions, reverse=i % 2 == 1):
            if options.threads > 1:
                time.sleep(SPINNING)
            times[library].append(block(sessions[library], feed, options))
    ratios = [b / a for a, b in zip(times["convoy"], times["onnxruntime"])]
    return {"model": name, "exporter": how, "convoy_ms": round(statistics.median(times["convoy"]) * 1e3, 3),
            "onnxruntime_ms": round(statistics.median(times["onnxruntime"]) * 1e3, 3),
            "onnxruntime_over_convoy": round(statistics.median(ratios), 3), "difference": float(f"{worst:.1e}")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=["*"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--provider", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--remark", default="")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    rows = {}
    if options.output and options.output.exists():
        rows = {(row["model"], row["exporter"]): row for row in json.loads(options.output.read_text())["rows"]}
    for path in sorted(options.folder.glob("*.onnx")):
        if not any(fnmatch.fnmatch(path.stem, pattern) for pattern in options.models):
            continue
        try:
            row = row_of(path, options)
        except REFUSALS as refusal:
            by = "Convoy" if isinstance(refusal, convoy.ConvoyError) else "ONNX Runtime"
            print(f"{path.stem}: refused by {by}: {' '.join(str(refusal).split())[:160]}", flush=True)
            continue
        rows[row["model"], row["exporter"]] = row
        print(f"{row['model']:50} {row['exporter']:7} x{row['onnxruntime_over_convoy']:6.3f}  convoy {row['convoy_ms']:9.3f} ms  "
              f"difference {row['difference']:.1e}", flush=True)
    rows = sorted(rows.values(), key=lambda row: row["onnxruntime_over_convoy"])
    mean = statistics.geometric_mean(row["onnxruntime_over_convoy"] for row in rows)
    print(f"{len(rows)} models, geometric mean {mean:.3f}, least {rows[0]['onnxruntime_over_convoy']:.3f}")
    if options.output:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        doctor = json.loads(subprocess.run([CONVOY, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "command": f"python bench/exports.py FOLDER --threads {options.threads}{' --provider' * options.provider} --rounds {options.rounds} --seconds {options.seconds:g}",
                    "commit": commit, "device": doctor["processor"], "versions": {**doctor["libraries"], "onnxruntime": onnxruntime.__version__},
                    "remark": options.remark, "geometric_mean": round(mean, 3), "rows": []}
        text = json.dumps(document, indent=1)
        options.output.write_text(text.replace('"rows": []', '"rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]") + "\n")
    sys.exit(1 if any(row["difference"] > MOST_DIFFERENCE or row["onnxruntime_over_convoy"] < LEAST_RATIO for row in rows) else 0)


if __name__ == "__main__":
    main()
