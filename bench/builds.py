"""Two builds of Convoy side by side, on the networks of bench/networks.py.

    python bench/builds.py BEFORE [--networks GLOB ...] [--threads 1] [--rounds 6] [--seconds 0.15] [--data DIR] [--output FILE]

BEFORE is another checkout with a built library (target convoy_shared). Each build prepares the network in a process of its own; the two
take turns, in an order that changes, and a turn lasts about `seconds`. After half of the rounds both processes are made anew, since where
memory lies may favour one. What counts is the median over the rounds of the time before over the time now: above 1, this build is faster.
Outputs are compared. --output keeps the file's rows of networks that are not run.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = 2  # of the rounds, each with processes of its own
WARM_UPS, LEAST_RUNS = 1, 2
MOST_DIFFERENCE = 1e-4  # of the largest magnitude


def serve(model, value, threads):
    """Answers each line of its input: a path with "saved", once the output is there; seconds with the median and the least of runs that
    take so long."""
    import convoy  # pylint: disable=import-outside-toplevel  # of the checkout that the environment names
    network = convoy.Network(model, threads=threads, database=False)
    feed = np.load(value)
    session = network.prepare([feed.shape])
    feeds = {network.inputs[0].name: feed}
    for line in map(str.strip, sys.stdin):
        if os.path.isabs(line):
            np.save(line, next(iter(session.run(feeds).values())))
            print("saved", flush=True)
            continue
        for _ in range(WARM_UPS):
            session.run(feeds)
        times, end = [], time.perf_counter() + float(line)
        while len(times) < LEAST_RUNS or time.perf_counter() < end:
            session.run(feeds)
            times.append(session.seconds)
        print(statistics.median(times), min(times), flush=True)


class Build:
    def __init__(self, checkout, model, value, threads):
        environment = {**os.environ, "PYTHONPATH": f"{checkout}/python", "CONVOY_LIBRARY": f"{checkout}/build/lib/libconvoy.so"}
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", model, value, str(threads)], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"a build's process ended: {self.process.wait()}")
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(label, model, value, options, folder):
    times, least = {"before": [], "now": []}, {"before": math.inf, "now": math.inf}
    for part in range(PARTS):
        builds = {"before": Build(options.before, model, value, options.threads), "now": Build(ROOT, model, value, options.threads)}
        outputs = {}
        for name, build in builds.items():
            build.ask(f"{folder}/{name}.npy")
            outputs[name] = np.load(f"{folder}/{name}.npy")
        for i in range(part * options.rounds // PARTS, (part + 1) * options.rounds // PARTS):
            for name in sorted(builds, reverse=i % 2 == 1):
                median, fastest = map(float, builds[name].ask(options.seconds).split())
                times[name].append(median)
                least[name] = min(least[name], fastest)
        for build in builds.values():
            build.end()
    difference = float(np.abs(outputs["before"] - outputs["now"]).max() / np.abs(outputs["before"]).max())
    ratios = [before / now for before, now in zip(times["before"], times["now"])]
    return {"network": label, "shape": list(np.load(value, mmap_mode="r").shape), "threads": options.threads,
            "before_ms": round(statistics.median(times["before"]) * 1e3, 4), "now_ms": round(statistics.median(times["now"]) * 1e3, 4),
            "before_over_now": round(statistics.median(ratios), 3), "least": round(min(ratios), 3), "most": round(max(ratios), 3),
            "fastest_before_over_now": round(least["before"] / least["now"], 3),  # says more where others disturb
            "difference": float(f"{difference:.1e}")}


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    from networks import CONVOY, input_of, matches, run_convoy, with_constant_weights  # pylint: disable=import-outside-toplevel
    from possible_gain import DIMS, models  # pylint: disable=import-outside-toplevel
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("--networks", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--remark", default="")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CONVOY_DATA", ROOT / "../shared/data")))
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    rows = {}
    if options.output and options.output.exists():
        rows = {row["network"]: row for row in json.loads(options.output.read_text())["rows"]}
    for label, model in models(options.data).items():
        if not any(matches(label, glob) for glob in options.networks):
            continue
        with tempfile.TemporaryDirectory() as folder:
            if label.startswith("zoo:"):
                model = pathlib.Path(folder) / "model.onnx"
                run_convoy("zoo", label.removeprefix("zoo:"), "-o", model)
            model = with_constant_weights(model, folder)
            _, shape = input_of(model, 1, DIMS.get(label, []))
            value = pathlib.Path(folder) / "input.npy"
            np.save(value, np.random.default_rng(7).standard_normal(shape, dtype=np.float32))
            row = rows[label] = measure(label, model, value, options, folder)
        print(f"{label:30} x{row['before_over_now']:.3f} ({row['least']:.3f} to {row['most']:.3f}), fastest x{row['fastest_before_over_now']:.3f}  before {row['before_ms']:.3f} ms  "
              f"now {row['now_ms']:.3f} ms  difference {row['difference']:.1e}", flush=True)
    rows = sorted(rows.values(), key=lambda row: row["before_over_now"])
    mean = statistics.geometric_mean(row["before_over_now"] for row in rows)
    print(f"{len(rows)} networks, geometric mean {mean:.3f}, least {rows[0]['before_over_now']:.3f}")
    if options.output:
        commits = [subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=True).stdout.strip()
                   for tree in (ROOT, options.before)]
        doctor = json.loads(subprocess.run([CONVOY, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "command": f"python bench/builds.py BEFORE --threads {options.threads} --rounds {options.rounds} --seconds {options.seconds:g}",
                    "commit": commits[0], "before": commits[1], "device": doctor["processor"], "versions": doctor["libraries"],
                    "remark": options.remark, "geometric_mean": round(mean, 3), "rows": []}
        text = json.dumps(document, indent=1)
        options.output.write_text(text.replace('"rows": []', '"rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]") + "\n")
    return sys.exit(1 if any(row["difference"] > MOST_DIFFERENCE for row in rows) else 0)


if __name__ == "__main__":
    main()
