"""Conversions of activations as a share of a copy's bandwidth, and the constants of conversion_seconds() that follow.

    python bench/conversions.py [--seconds 0.02] [--what layouts|types] [--output FILE]

build/tests/convert_bench times each conversion and a parallel memcpy of as many bytes in turns, in one process: a share is the
ratio of their medians, in processor time. Caches are as the runs before leave them, so 256 KB are in the second cache. With 64
channels the rows of nchw lie a multiple of 4 KB apart, which is what caches like least.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = 0.6


def types_of(row):
    return row["from"].split()[0], row["to"].split()[0]


def summary(rows):
    """Shares by kind, type, size and threads; 3 channels are not counted."""
    groups = collections.defaultdict(list)
    for row in rows:
        if row["dims"].startswith("1x3x"):
            continue
        groups[row["kind"], "->".join(dict.fromkeys(types_of(row))), row["kilobytes"], row["threads"]].append(row["share"])
    return [{"kind": kind, "types": types, "kilobytes": kilobytes, "threads": threads, "conversions": len(shares),
             "least_share": min(shares), "median_share": round(statistics.median(shares), 2),
             "reach_target": sum(share >= TARGET for share in shares)}
            for (kind, types, kilobytes, threads), shares in sorted(groups.items())]


def disturbed(rows):
    """Copies of 2 threads that were slower than those of 1: they waited for a core that somebody else had, and a share says nothing."""
    alone = {(row["from"], row["to"], row["dims"]): row["copy_GB_per_s"] for row in rows if row["threads"] == 1}
    return [row for row in rows if row["threads"] > 1 and row["copy_GB_per_s"] < alone[row["from"], row["to"], row["dims"]]]


def by_threads(rows):
    rows = [row for row in rows if not row["dims"].startswith("1x3x")]
    waiting = {id(row) for row in disturbed(rows)}
    result = []
    for threads in sorted({row["threads"] for row in rows}):
        for same in (True, False):
            group = [r for r in rows if r["threads"] == threads and (len(set(types_of(r))) == 1) == same]
            sound = [r for r in group if id(r) not in waiting]
            result.append({"threads": threads, "types": "same" if same else "differ", "conversions": len(group),
                           "disturbed": len(group) - len(sound), "reach_target_of_the_others": sum(r["share"] >= TARGET for r in sound)})
    return result


def fitted(rows):
    """GB/s of one thread by kind and bytes of the narrower element: the median over sizes and channels."""
    bytes_of = {"f32": 4, "bf16": 2, "f16": 2, "u8": 1}
    rates = collections.defaultdict(list)
    for row in rows:
        if row["threads"] == 1:
            source, target = types_of(row)
            key = row["kind"], min(bytes_of[source], bytes_of[target]), source != target
            rates[key].append(row["GB_per_s"])
    return [{"kind": kind, "element_bytes": size, "types_differ": differ, "GB_per_s": round(statistics.median(values), 1)}
            for (kind, size, differ), values in sorted(rates.items())]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.02, help="for each conversion; never fewer than 15 samples")
    parser.add_argument("--what", choices=["layouts", "types"], help="only these")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/conversions-{datetime.date.today()}.json")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    command = [ROOT / "build/tests/convert_bench", str(options.seconds), *([options.what] if options.what else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    doctor = json.loads(subprocess.run([ROOT / "build/bin/convoy", "doctor", "--json"], capture_output=True, text=True).stdout)
    git = ["git", "-C", ROOT]
    record = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["python bench/conversions.py", *sys.argv[1:]]),
        "commit": subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
        "changed_since": bool(subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True).stdout),
        "device": doctor.get("processor", platform.processor()),
        "load_average": {"before": load, "after": os.getloadavg()[0]},
        "target_share": TARGET,
        "by_threads": by_threads(rows),
        "summary": summary(rows),
        "fitted": fitted(rows),
        "rows": rows,
    }
    text = json.dumps({**record, "rows": []}, indent=1)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    options.output.write_text(text.replace('"rows": []', f'"rows": [\n{lines}\n ]') + "\n")
    for line in record["by_threads"]:
        print(json.dumps(line))
    print(options.output)


if __name__ == "__main__":
    main()
