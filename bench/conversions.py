"""Conversions of activations, layouts and types: each as a share of a copy's bandwidth.

    python bench/conversions.py [--seconds 0.1] [--output FILE]

Measured by build/tests/convert_bench, which says how. The goal is 0.6 for nchw, nhwc and nchw16c of one type, with 24, 64 and 100
channels; nchw8c, 3 channels and types are reported. With 64 channels the rows of nchw lie a multiple of 4 KB apart.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"


def is_goal(row):
    from_type, from_layout = row["from"].split()
    to_type, to_layout = row["to"].split()
    return from_type == to_type and "nchw8c" not in (from_layout, to_layout) and "x3x" not in row["dims"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.1, help="for each conversion, size and number of threads")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/conversions-{datetime.date.today()}.json")
    options = parser.parse_args()

    load = os.getloadavg()[0]
    rows = []
    with subprocess.Popen([ROOT / "build/tests/convert_bench", str(options.seconds)], stdout=subprocess.PIPE, text=True) as bench:
        for line in bench.stdout:
            rows.append(json.loads(line))
            print(line, end="", flush=True)
    if bench.returncode != 0:
        sys.exit(f"convert_bench ended with {bench.returncode}")
    goal = [row for row in rows if is_goal(row)]
    summary = []
    for kilobytes in sorted({row["kilobytes"] for row in goal}):
        for element in ("f32", "bf16", "f16", "u8"):
            shares = [row["share"] for row in goal if row["kilobytes"] == kilobytes and row["from"].startswith(element + " ")]
            summary.append({"kilobytes": kilobytes, "type": element, "conversions": len(shares), "median_share": statistics.median(shares),
                            "least_share": min(shares), "reach_0.6": sum(share >= 0.6 for share in shares)})
            print(json.dumps(summary[-1]))
    doctor = json.loads(subprocess.run([CONVOY, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    options.output.write_text(json.dumps({
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["python bench/conversions.py", *sys.argv[1:]]),
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "version": doctor.get("version"),
        "libc": " ".join(platform.libc_ver()),
        "device": doctor.get("processor", platform.processor()),
        "load_average": load,
        "summary": summary,
        "conversions": rows,
    }, indent=1) + "\n")
    print(options.output)


if __name__ == "__main__":
    main()
