"""Networks tuned under a budget beside the heuristic alone.

    python bench/tuned.py [--budget 10] [--rounds 9] [--threads 1] [--output FILE] [NETWORK ...]

Each network is tuned into a new database. A round is a process that runs it in turns with the heuristic's choices and with
what was measured, prepared anew for each pair of turns (`convoy run --beside heuristic`), and gives the ratio of their times,
free of the machine's drift. The median of the rounds counts, with its quartiles: where memory lies differs from process to
process. After each round another one has the heuristic's choices on both sides: what these differ by is noise. Prints a
table; the figures go to bench/results as JSON.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"
NETWORKS = ("squeezenet1_1", "resnet18", "mobilenet_v2", "resnet50", "googlenet", "densenet121", "efficientnet_b0",
            "resnext50_32x4d", "convnext_tiny", "yolo_tiny", "vgg16", "unet")
SECONDS = 2  # of turns in a process


def run(database, *arguments):
    done = subprocess.run([str(argument) for argument in (CONVOY, *arguments)], capture_output=True, text=True,
                          env={**os.environ, "CONVOY_DB": str(database)})
    if done.returncode != 0:
        sys.exit(f"convoy {' '.join(map(str, arguments))} failed ({done.returncode}):\n{done.stderr[-4000:]}")
    return done.stdout


def compared(database, network, turns, options):
    return json.loads(run(database, "run", f"zoo:{network}", "--threads", options.threads, "--random-inputs", "--beside", "heuristic",
                          "--repeat", turns, "--json"))


def measure(network, options):
    with tempfile.TemporaryDirectory() as folder:
        database = pathlib.Path(folder) / "tuning.db"
        start = time.monotonic()
        told = run(database, "tune", f"zoo:{network}", "--threads", options.threads, "--budget", options.budget)
        tuning = time.monotonic() - start
        changed = int(re.search(r"compared, (\d+) on another candidate", told)[1])
        once = compared(database, network, 1, options)["seconds"]
        turns = max(4, round(SECONDS / once / 8))  # of four runs each
        rounds, same = [], []
        for _ in range(options.rounds):
            rounds.append(compared(database, network, turns, options)["beside"]["over_this"])
            same.append(compared(pathlib.Path(folder) / "none.db", network, turns, options)["beside"]["over_this"])
        quartiles, noise = (statistics.quantiles(ratios, n=4, method="inclusive") for ratios in (rounds, same))
        return {"tuning_seconds": round(tuning, 2), "problems_on_another_candidate": changed, "heuristic_over_tuned": round(quartiles[1], 4),
                "quartiles": [round(quartiles[0], 4), round(quartiles[2], 4)],
                "heuristic_over_itself": round(noise[1], 4), "its_quartiles": [round(noise[0], 4), round(noise[2], 4)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / f"bench/results/tuned-{datetime.date.today().isoformat()}.json")
    options = parser.parse_args()
    rows = {}
    print(f"{'network':18} {'tuning s':>8} {'changed':>7} {'heuristic / tuned':>18} {'quartiles':>14} {'over itself':>12} {'quartiles':>14}", flush=True)
    for network in options.networks:
        row = rows[network] = measure(network, options)
        print(f"{network:18} {row['tuning_seconds']:8.2f} {row['problems_on_another_candidate']:7} {row['heuristic_over_tuned']:18.3f} "
              f"{row['quartiles'][0]:6.3f}-{row['quartiles'][1]:5.3f} {row['heuristic_over_itself']:12.3f} "
              f"{row['its_quartiles'][0]:8.3f}-{row['its_quartiles'][1]:5.3f}", flush=True)
    mean, noise = (math.exp(statistics.mean(math.log(row[key]) for row in rows.values()))
                   for key in ("heuristic_over_tuned", "heuristic_over_itself"))
    print(f"geometric mean {mean:.3f}, over itself {noise:.3f}; longest tuning {max(row['tuning_seconds'] for row in rows.values()):.2f} s")
    doctor = json.loads(run(pathlib.Path("none"), "doctor", "--json"))
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty"], capture_output=True, text=True)
    options.output.write_text(json.dumps({
        "what": "networks tuned under a budget beside the heuristic alone, in turns within each of several processes",
        "date": datetime.date.today().isoformat(), "command": " ".join(["python", "bench/tuned.py", *sys.argv[1:]]),
        "commit": git.stdout.strip(), "device": doctor["processor"], "threads": options.threads, "budget_seconds": options.budget,
        "geomean_heuristic_over_tuned": round(mean, 4), "geomean_heuristic_over_itself": round(noise, 4), "networks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
