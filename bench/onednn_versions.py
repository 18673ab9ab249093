"""The oneDNN that comes with Convoy beside another one (CONVOY_ONEDNN): the fastest of its candidates for each layer of a list.

    python bench/onednn_versions.py /opt/onednn/lib [--lists resnet50 mobilenet_v2 convnext_tiny] [--types f32 bf16 u8] [--rounds 3] [--output FILE]

Ratios are of medians of rounds in turns, above 1: the other one is faster.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"


def convoy(*arguments, onednn=None, database="none.db"):
    environment = {**os.environ, "CONVOY_DB": str(database), **({"CONVOY_ONEDNN": onednn} if onednn else {})}
    done = subprocess.run([CONVOY, *arguments, "--json"], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"convoy {' '.join(arguments)}: {(done.stderr.strip() or done.stdout.strip())[-800:]}")
    return json.loads(done.stdout)


def fastest(list_name, data_type, onednn):
    """Of each problem the seconds of the fastest candidate."""
    with tempfile.TemporaryDirectory() as folder:
        found = convoy("bench", str(ROOT / f"problems/{list_name}.txt"), "--dtype", data_type, "--engines", "onednn.*", "--threads", "1",
                       "--budget", "60", onednn=onednn, database=f"{folder}/db")
    times = {problem["problem"]: [c["seconds"] for c in problem["candidates"] if c["status"] == "ok"] for problem in found["problems"]}
    return {problem: min(seconds) for problem, seconds in times.items() if seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onednn", help="the other one: a file or its folder")
    parser.add_argument("--lists", nargs="+", default=["resnet50", "mobilenet_v2", "convnext_tiny"])
    parser.add_argument("--types", nargs="+", default=["f32", "bf16", "u8"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/onednn-versions-{datetime.date.today()}.json")
    arguments = parser.parse_args()
    versions = [convoy("doctor", onednn=onednn)["libraries"]["oneDNN"].split()[0] for onednn in (None, arguments.onednn)]
    if versions[0] == versions[1]:
        raise SystemExit(f"{arguments.onednn}: it is {versions[1]}, too, or was not taken (convoy doctor says why)")
    rows = []
    for name in arguments.lists:
        for data_type in arguments.types:
            times = [{}, {}]
            for _ in range(arguments.rounds):
                for i, onednn in enumerate((None, arguments.onednn)):
                    for problem, seconds in fastest(name, data_type, onednn).items():
                        times[i].setdefault(problem, []).append(seconds)
            ratios = [statistics.median(times[0][p]) / statistics.median(times[1][p]) for p in times[0] if p in times[1]]
            rows.append({"list": name, "type": data_type, "problems": len(ratios), "times_as_fast": statistics.geometric_mean(ratios),
                         "least": min(ratios), "most": max(ratios), "offered_by_one_only": len(set(times[0]) ^ set(times[1]))})
            print(json.dumps(rows[-1]), flush=True)
    doctor = convoy("doctor")
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty"], capture_output=True, text=True)
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": doctor["processor"],
              "command": " ".join(["python bench/onednn_versions.py", "ONEDNN", *sys.argv[2:]]), "commit": git.stdout.strip(),
              "versions": {"first": versions[0], "second": versions[1]}, "threads": 1, "lists": rows}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
