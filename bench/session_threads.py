"""Throughput of one session that several threads run, beside ONNX Runtime's, in one process and in turns.

    python bench/session_threads.py [--network zoo:resnet18] [--size 224] [--callers 1 2 8] [--threads 1] [--runs 64] [--rounds 5] [--output FILE]

`--threads` are those of a run: 1, as a server has it, or more. What is printed are medians over the rounds.
build/tests/session_threads_bench does the same from C++.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CONVOY_LIBRARY", str(ROOT / "build/lib/libconvoy.so"))

import convoy  # noqa: E402  pylint: disable=wrong-import-position
import onnxruntime  # noqa: E402  pylint: disable=wrong-import-position


def runs_per_second(session, feed, callers, runs):
    def work(_):
        for _ in range(runs // callers):
            session.run(None, feed)

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(callers)))
        return runs // callers * callers / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="zoo:resnet18")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = options.network
        if model.startswith("zoo:"):
            model = os.path.join(folder, "model.onnx")
            subprocess.run([CONVOY, "zoo", options.network.split(":")[1], "--output", model], check=True, stdout=subprocess.DEVNULL)
        theirs = onnxruntime.SessionOptions()
        theirs.intra_op_num_threads = options.threads
        sessions = {"convoy": convoy.InferenceSession(model, threads=options.threads, database=False),
                    "onnxruntime": onnxruntime.InferenceSession(model, theirs, providers=["CPUExecutionProvider"])}
    given = sessions["convoy"].get_inputs()[0]
    free = [1, 3, options.size, options.size]
    dims = [size if isinstance(size, int) else other for size, other in zip(given.shape, free)]
    feed = {given.name: np.random.default_rng(1).random(dims, dtype=np.float32)}
    rates = {(name, callers): [] for name in sessions for callers in options.callers}
    for name, session in sessions.items():
        runs_per_second(session, feed, 2, 8)
    for _ in range(options.rounds):
        for name, callers in rates:
            rates[name, callers].append(runs_per_second(sessions[name], feed, callers, options.runs))
    rows = []
    for (name, callers), found in rates.items():
        rate, alone = statistics.median(found), statistics.median(rates[name, options.callers[0]])
        rows.append({"library": name, "callers": callers, "runs_per_second": rate, "over_the_first": rate / alone})
        print(f"{name:12} {callers} callers: {rate:8.1f} runs/s, {rate / alone:.2f} x")
    if options.output:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        doctor = subprocess.run([CONVOY, "doctor", "--json"], capture_output=True, text=True, check=True).stdout
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "command": f"python bench/session_threads.py --network {options.network} --size {options.size} --threads "
                               f"{options.threads} --runs {options.runs} --rounds {options.rounds} --callers "
                               + " ".join(map(str, options.callers)),
                    "commit": commit, "device": json.loads(doctor)["processor"], "onnxruntime": onnxruntime.__version__, "rows": rows}
        options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
