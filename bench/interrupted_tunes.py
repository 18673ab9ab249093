"""Tunes of a network that are interrupted, beside no tuning at all.

    python bench/interrupted_tunes.py [--network zoo:resnet18] [--after 1 3 8 15] [--threads 1 2] [--beside quiet busy] [--output FILE]
    python bench/interrupted_tunes.py --to-the-end 40 --after 8 --threads 2 --beside busy

Each tune has a new database and gets SIGINT after so many seconds, alone on the machine or beside a program that keeps one
processor busy. Then, with nobody else there, the network runs as that database says in turns with the heuristic's choices
(`convoy run --beside heuristic`). What is tuned may be no slower: the 95% interval of its time over the heuristic's reaches
1.03 or below; where both run the same steps a difference is noise. With --to-the-end the interrupted tune goes on, within so
many seconds, and what it comes to runs in turns with what an uninterrupted one of as many seconds comes to. Cases that FILE has
already are left alone, so that they can be run in parts.
Exit code 1: something was slower.
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
MOST = 1.03


def started(database, *arguments):
    return subprocess.Popen([CONVOY, *map(str, arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "CONVOY_DB": str(database)})


def said(process):
    out, err = process.communicate()
    if process.returncode not in (0, 130):
        sys.exit(f"{' '.join(process.args)} failed ({process.returncode}):\n{err[-4000:]}")
    return json.loads(out)


def interval(ratio, uncertainty):
    return {"median": round(ratio, 4), "low": round(ratio * (1 - uncertainty), 4), "high": round(ratio * (1 + uncertainty), 4)}


def interrupted(database, case, options):
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if case["beside"] == "busy" else None
    try:
        tune = started(database, "tune", options.network, "--threads", case["threads"], "--budget", 60)
        time.sleep(case["after_seconds"])
        tune.send_signal(signal.SIGINT)
        return said(tune)
    finally:
        if busy:
            busy.kill()
            busy.wait()


def steps(database, case, options, *flags):
    """The lines of a plan without what they cost."""
    with tempfile.NamedTemporaryFile() as file:
        said(started(database, "plan", options.network, "--threads", case["threads"], "--output", file.name, *flags))
        text = pathlib.Path(file.name).read_text()
    return [re.sub(r"( -> \S+)  .*", r"\1", line) for line in text.splitlines() if not line.startswith("#")]


def beside_heuristic(database, case, options):
    beside = said(started(database, "run", options.network, "--threads", case["threads"], "--random-inputs", "--beside", "heuristic",
                          "--repeat", options.turns))["beside"]
    return {"over_heuristic": interval(1 / beside["over_this"], beside["relative_uncertainty"]), "differing": beside["differing"],
            "convolutions": beside["convolutions"],
            "same_steps": steps(database, case, options) == steps(database, case, options, "--no-db")}


def to_the_end(database, folder, case, options):
    """The interrupted tune goes on; beside it one that nobody interrupted."""
    plans = []
    for name in (database, folder / "whole.db"):
        said(started(name, "tune", options.network, "--threads", case["threads"], "--budget", options.to_the_end))
        plans.append(folder / f"{name.stem}.plan")
        said(started(name, "plan", options.network, "--threads", case["threads"], "--output", plans[-1]))
    told = said(started(database, "compare", options.network, plans[1], plans[0], "--threads", case["threads"], "--rounds", options.turns,
                        "--no-db"))["plans"][1]
    return interval(told["over_first"], told["over_first_uncertainty"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="zoo:resnet18")
    parser.add_argument("--after", type=float, nargs="+", default=[1, 3, 8, 15], metavar="SECONDS")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--beside", nargs="+", default=["quiet", "busy"], choices=["quiet", "busy"])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--to-the-end", type=float, metavar="SECONDS")
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / f"bench/results/interrupted-tunes-{datetime.date.today().isoformat()}.json")
    options = parser.parse_args()
    record = json.loads(options.output.read_text()) if options.output.exists() else {"commands": [], "cases": []}
    slower = 0
    for beside, threads, after in itertools.product(options.beside, options.threads, options.after):
        case = {"network": options.network, "beside": beside, "threads": threads, "after_seconds": after}
        kind = {"to_the_end_seconds": options.to_the_end} if options.to_the_end else {}
        if any({**case, **kind}.items() <= known.items() and bool(kind) == ("to_the_end_seconds" in known) for known in record["cases"]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            database = pathlib.Path(folder) / "tuning.db"
            told = interrupted(database, case, options)
            case.update(kind, candidates=told["measured"], steps=told["steps_measured"], **beside_heuristic(database, case, options))
            ratio, of = case["over_heuristic"], "the heuristic's"
            if options.to_the_end:
                ratio, of = to_the_end(database, pathlib.Path(folder), case, options), "an uninterrupted one's"
                case["over_uninterrupted"] = ratio
        is_slower = ratio["low"] > MOST and (options.to_the_end or not case["same_steps"])
        slower += is_slower
        print(f"{beside:5} {threads} threads, after {after:4.1f} s: {case['candidates']:4} candidates; {case['differing']:2} of "
              f"{case['convolutions']} convolutions on something else{', no step differs' if case['same_steps'] else ''}; {ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) "
              f"times {of}{' SLOWER' if is_slower else ''}", flush=True)
        record["cases"].append(case)
        commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty"], capture_output=True, text=True)
        command = " ".join(["python", "bench/interrupted_tunes.py", *sys.argv[1:]])
        commands = record["commands"] + ([command] if command not in record["commands"] else [])
        record = {"what": "interrupted tunes beside the heuristic's choices, or the same tunes uninterrupted, in turns in one process",
                  "date": datetime.date.today().isoformat(), "commands": commands, "commit": commit.stdout.strip(),
                  "device": said(started("none", "doctor"))["processor"], "limit": MOST, "cases": record["cases"]}
        options.output.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
