"""Gradients of the problem lists in f32: the best of our own engines beside oneDNN's best.

    python bench/gradients.py [--passes dgrad wgrad] [--lists resnet50 ...] [--threads 1] [--budget 90] [--convoy COMMAND] [--output FILE]

Each list is one `convoy bench problems/LIST.txt --pass PASS`, which times every candidate of a problem in turns, checked by the oracle.
A row has both best times and oneDNN's over ours: above 1 ours is faster. `union` counts at least 1 for each: what both together gain over
oneDNN alone. A candidate that is well over three times as slow as the best is timed once only (`samples`); problems that one side can't
run, or did not within the budget, are in no mean and counted apart.
"""
import argparse
import collections
import datetime
import json
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def kind_of(problem):
    filters = re.search(r":w=\w+,(\d+)x(\d+)x([\dx]+)", problem)
    if ":groups=" in problem:
        return "depthwise" if filters[2] == "1" else "grouped"
    return "1x1" if set(filters[3]) <= {"1", "x"} else "other"


def best(candidates, prefix):
    timed = [each for each in candidates if each["engine"].startswith(prefix) and each.get("seconds")]
    return min(timed, key=lambda each: each["seconds"]) if timed else None


def rows_of(name, what, options):
    command = [options.convoy, "bench", ROOT / f"problems/{name}.txt", "--pass", what, "--threads", str(options.threads), "--no-db",
               "--budget", str(options.budget), "--engines", "cpu.*,onednn.*", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{name}, {what}: {done.stderr.strip()}")
    for problem in json.loads(done.stdout)["problems"]:
        ours, theirs = best(problem["candidates"], "cpu."), best(problem["candidates"], "onednn.")
        row = {"list": name, "problem": problem["problem"], "kind": kind_of(problem["problem"])}
        for side, each in (("own", ours), ("onednn", theirs)):
            row[side] = [each["candidate"], round(each["seconds"] * 1e6, 2), each["samples"]] if each else None
        if ours and theirs:
            row["onednn_over_own"] = round(theirs["seconds"] / ours["seconds"], 3)
        yield row


def summary(rows):
    both = [row for row in rows if "onednn_over_own" in row]
    kinds = collections.defaultdict(list)
    for row in both:
        kinds[row["kind"]].append(row["onednn_over_own"])
    ratios = [row["onednn_over_own"] for row in both]
    mean = lambda values: round(statistics.geometric_mean(values), 3) if values else None
    return {"problems": len(both), "onednn_over_own": mean(ratios), "union": mean([max(1, ratio) for ratio in ratios]),
            "by_kind": {kind: [len(values), mean(values)] for kind, values in sorted(kinds.items())},
            "own_only": sum(row["own"] is not None and row["onednn"] is None for row in rows),
            "onednn_only": sum(row["own"] is None and row["onednn"] is not None for row in rows)}


def main():
    lists = sorted(path.stem for path in (ROOT / "problems").glob("*.txt"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", nargs="+", default=["dgrad", "wgrad"], choices=["dgrad", "wgrad"])
    parser.add_argument("--lists", nargs="+", default=lists, choices=lists)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=90, help="seconds for each list and pass")
    parser.add_argument("--convoy", type=pathlib.Path, default=ROOT / "build/bin/convoy")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/gradients-{datetime.date.today()}.json")
    options = parser.parse_args()
    rows = collections.defaultdict(list)
    for what in options.passes:
        for name in options.lists:
            rows[what] += rows_of(name, what, options)
            print(name, what, json.dumps(summary([row for row in rows[what] if row["list"] == name])), flush=True)
    doctor = json.loads(subprocess.run([options.convoy, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": f"python bench/gradients.py --passes {' '.join(options.passes)} --threads {options.threads} --budget {options.budget:g}",
              "commit": subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
              "processor": doctor["processor"], "versions": {"convoy": doctor["version"], **doctor["libraries"]}, "threads": options.threads,
              "summary": {what: summary(of) for what, of in rows.items()}, "rows": {}}
    text = json.dumps(record, indent=1)
    parts = [f'  "{what}": [\n' + ",\n".join("   " + json.dumps(row) for row in of) + "\n  ]" for what, of in rows.items()]
    options.output.write_text(text.replace('"rows": {}', '"rows": {\n' + ",\n".join(parts) + "\n }") + "\n")
    print(json.dumps(record["summary"], indent=1), options.output)


if __name__ == "__main__":
    main()
