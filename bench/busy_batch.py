"""A batch as a whole and in parts, beside programs that keep processors busy.

    python bench/busy_batch.py [--network zoo:mobilenet_v2] [--batch 8] [--threads 2] [--busy 0 1 2] [--rounds 3] [--runs 100] [--output FILE]

Each way to run the batch takes its turn in each round, in a process of its own; what is printed are medians over the rounds of a run's
median and of the tenth slowest of its runs.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"


def convoy(*arguments):
    return json.loads(subprocess.run([CONVOY, *map(str, arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="zoo:mobilenet_v2")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    sizes = [size for size in (1, 2, 4) if options.batch % size == 0 and size < options.batch]
    ways = ["whole", *(f"{size}/thread" for size in sizes)]
    rows = []
    for busy in options.busy:
        programs = [subprocess.Popen(["yes"], stdout=subprocess.DEVNULL) for _ in range(busy)]
        runs = {way: [] for way in ways}
        try:
            for _ in range(options.rounds):
                for way in ways:
                    runs[way].append(convoy("run", options.network, "--random-inputs", "--batch", options.batch, "--threads", options.threads,
                                            "--repeat", options.runs, "--no-db", "--batch-parts", way))
        finally:
            for program in programs:
                program.kill()
        for way, documents in runs.items():
            rows.append({"busy_programs": busy, "parts": way,
                         "median_ms": statistics.median(each["seconds"] for each in documents) * 1e3,
                         "p90_ms": statistics.median(each["p90_seconds"] for each in documents) * 1e3})
            print(f"{busy} busy programs, {way:9} {rows[-1]['median_ms']:7.2f} ms, one in ten {rows[-1]['p90_ms']:7.2f} or more", flush=True)
    if options.output:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        given = f"--network {options.network} --batch {options.batch} --threads {options.threads} --rounds {options.rounds} --runs {options.runs}"
        document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    "command": f"python bench/busy_batch.py {given} --busy {' '.join(map(str, options.busy))}", "commit": commit,
                    "device": convoy("doctor")["processor"], "rows": rows}
        options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
