"""Heuristic selection beside measured selection, on problems that its predictions were not fitted to.

    python bench/heuristic.py [--seconds 0.5] [--random 500] [--seed 77] [--threads 1] [--output FILE]

For each problem every candidate is measured (verified, interleaved), the heuristic is asked what it would choose, and
what that choice took is divided by what the fastest took. Where that is over 1.5, the problem is measured again, four
times as long, and the second answer counts: on a shared machine most such cases are a disturbance. The problems are the
lists of the networks that bench/problem_sets.py holds out, and random ones; nothing is fitted to those of the default
seed, so look at what goes wrong with another. Prints a table; the figures go to
bench/results as JSON.
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

import problem_sets

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVOY = ROOT / "build/bin/convoy"
DOUBTFUL = 1.5


def run(*arguments):
    return subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)


def measure(problems, options):
    entries = bench(problems, options.seconds, options.threads)
    doubtful = [i for i, entry in enumerate(entries) if entry.get("heuristic", {}).get("over_best", 0) > DOUBTFUL]
    again = bench([problems[i] for i in doubtful], 4 * options.seconds, options.threads)
    for i, entry in zip(doubtful, again):
        entry["heuristic"]["choice_seconds"] = entries[i]["heuristic"]["choice_seconds"]
        entry["first_over_best"] = entries[i]["heuristic"]["over_best"]
        entries[i] = entry
    return entries


def seconds_for(problem, seconds):
    """More for large problems: some ten candidates, each several times, at tens of GFLOP/s."""
    return seconds + 3e-10 * problem_sets.parse(problem).flops() if problem_sets.parse(problem) else 2 * seconds


def bench(problems, seconds, threads):
    entries = []
    for i in range(0, len(problems), 100):
        part = problems[i:i + 100]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(part) + "\n")
            file.flush()
            done = run(CONVOY, "bench", file.name, "--threads", threads, "--budget", sum(seconds_for(p, seconds) for p in part),
                       "--no-db", "--json")
        # 1: the time ended before anything of a problem was measured; 3: a candidate was wrong. The figures say both.
        if done.returncode not in (0, 1, 3, 4):
            sys.exit(f"convoy bench failed ({done.returncode}):\n{done.stderr[-4000:]}")
        entries += json.loads(done.stdout)["problems"]
    return entries


def summary(entries):
    judged = [(entry["heuristic"]["over_best"], entry) for entry in entries if "over_best" in entry.get("heuristic", {})]
    times = [entry["heuristic"]["choice_seconds"] * 1e6 for entry in entries if "heuristic" in entry]
    candidates = [sum(candidate["status"] == "ok" for candidate in entry["candidates"]) for entry in entries]
    if not judged:
        sys.exit("nothing was measured")
    worst, of = max(judged, key=lambda pair: pair[0])
    return {"problems": len(entries), "judged": len(judged),
            "replaced_when_planned": sum(entry.get("heuristic", {}).get("replaced", False) for entry in entries),
            "measured_again": sum("first_over_best" in entry for entry in entries),
            "mean_candidates": round(statistics.mean(candidates), 1),
            "geomean_over_measured": round(math.exp(statistics.mean(math.log(loss) for loss, _ in judged)), 4),
            "within_10_percent": round(sum(loss <= 1.1 for loss, _ in judged) / len(judged), 3),
            "above_1.5": sum(loss > 1.5 for loss, _ in judged), "above_2": sum(loss > 2 for loss, _ in judged),
            "those_above_2": [[round(loss, 3), entry["problem"], entry["heuristic"]["candidate"], entry["candidates"][0]["candidate"]]
                              for loss, entry in judged if loss > 2],
            "wrong": [f"{candidate['candidate']} on {entry['problem']}: {candidate.get('error', candidate['status'])}"
                      for entry in entries for candidate in entry["candidates"] if candidate["status"] == "wrong"],
            "worst": round(worst, 3), "worst_problem": of["problem"],
            "worst_choice": of["heuristic"]["candidate"], "worst_best": of["candidates"][0]["candidate"],
            "choice_us_mean": round(statistics.mean(times), 1), "choice_us_median": round(statistics.median(times), 1),
            "choice_us_90th": round(statistics.quantiles(times, n=10)[-1], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="for measuring a problem")
    parser.add_argument("--random", type=int, default=500, metavar="N", help="so many random problems")
    parser.add_argument("--seed", type=int, default=problem_sets.JUDGED_SEED, help="of the random problems")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--details", metavar="FILE", type=pathlib.Path, help="everything that was measured, as JSON")
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / f"bench/results/heuristic-{datetime.date.today().isoformat()}.json")
    options = parser.parse_args()
    sets = problem_sets.held_out()
    if options.random > 0:
        sets[f"{options.random} random"] = problem_sets.random_set(options.random, seed=options.seed)
    rows, everything = {}, {}
    head = f"{'problems':16} {'number':>6} {'cands':>5} {'geomean':>8} {'<=1.1':>6} {'worst':>6} {'>2':>3} {'us mean':>8} {'median':>7}"
    print(head, flush=True)
    for name, problems in sets.items():
        everything[name] = measure(problems, options)
        rows[name] = summary(everything[name])
        print(line(name, rows[name]), flush=True)
    rows["all lists"] = summary([entry for name in problem_sets.HELD_OUT for entry in everything[name]])
    print(line("all lists", rows["all lists"]))
    for name, row in rows.items():
        print(f"{name}: worst {row['worst_problem']}: chose {row['worst_choice']}, best {row['worst_best']}")
        for loss, problem, choice, best in row["those_above_2"]:
            print(f"  {loss} {problem}: chose {choice}, best {best}")
    doctor = json.loads(run(CONVOY, "doctor", "--json").stdout)
    options.output.write_text(json.dumps({
        "what": "heuristic selection's choices beside the fastest measured candidate, on problems not fitted to",
        "date": datetime.date.today().isoformat(), "command": " ".join(["python", "bench/heuristic.py", *sys.argv[1:]]),
        "commit": run("git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty").stdout.strip(),
        "device": doctor["processor"], "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"), "threads": options.threads, "fitted_on": problem_sets.FIT,
        "random_seed": options.seed, "sets": rows}, indent=1) + "\n")
    if options.details:
        options.details.write_text(json.dumps(everything))


def line(name, row):
    return (f"{name:16} {row['judged']:6} {row['mean_candidates']:5} {row['geomean_over_measured']:8.3f} "
            f"{row['within_10_percent']:6.1%} {row['worst']:6.2f} {row['above_2']:3} {row['choice_us_mean']:8.1f} "
            f"{row['choice_us_median']:7.1f}")


if __name__ == "__main__":
    main()
