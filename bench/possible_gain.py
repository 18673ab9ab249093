"""What runs of whole networks take by each way to choose layouts, what the sums of measured costs say they take, and what there is to gain.

    python bench/possible_gain.py [--only GLOB ...] [--threads 1 2] [--budget 120] [--tune 120] [--rounds 12] [--redo-above LOAD]
                                  [--reports 3] [--data DIR] [--database FILE] [--convoy COMMAND] [--output FILE]

For every network of the zoo and every model of the data, a plan by each way: greedy, alone (the solver's, by costs that were measured
alone), local (what each node is fastest in), and each uniform layout: nhwc, nchw and the processor's blocks. Their convolutions, operators
and conversions are measured (`convoy plan --budget`: seconds for each plan; what the database has already is not measured again). Then
`convoy tune --budget` (--tune seconds) runs such plans, and its solver is asked again with what steps took in these runs: its last answer
is global, whatever tune then keeps. At last `convoy report`, another process, takes all of them in turns, each prepared anew up to four
times. From their lines and runs:
  sum          of all lines of a plan, microseconds; of global's by what the solver knew: a line that has run in tune counts what it took,
               less what all plans' runs together took longer than undisturbed ones
  lower_bound  each node's least cost over the plans, no conversions: what no choice of one layout a node can go below
  end_to_end   median run of the plan
  over_global  how many times as long as global's plan, turn by turn, and its uncertainty (95%, relative)
  undisturbed  a run as nobody else disturbs it: of each step the tenth fastest of a hundred runs. A neighbour on a core's second hardware
               thread halves what the core computes, for milliseconds or minutes, so that the same network takes 8 or 11 ms. The sums
               are of samples that were taken while the core had its full speed, where there were such, so they are to be compared
               with this.
and how far the sums are from both. Each command runs on as many processors as it has threads, the fastest of those that it may use,
once these are at full speed, after half a minute whatever they are. Where they aren't any more after the report, it is made again,
--reports in all at most; the one with the least time for all plans counts (`reports`: of each that time, microseconds). A plan of which a
line could not be measured within the budget says so (`predicted_share`: of its sum), and does not count.

The record is written after each network, and a run goes on where its record stops; networks that are in it are not done again (a
changed --budget or --rounds needs another --output), but for those that --redo-above names; then take another --database, too, since
what is in it was measured under that load.
"""
import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMAND = {"convoy": ROOT / "build/bin/convoy"}
NEAR = 0.15  # of what is measured
# Sizes of free dims. MeshNet's 256 a side take 17 GB of activations in blocks.
DIMS = {"meshnet_gwm_5ch": ["input:2=64", "input:3=64", "input:4=64"], "ppocr-mobile-v2-cls": ["x:0=1", "x:2=48", "x:3=192"]}
LINE = re.compile(r'^(conv|op|convert|relabel)\s+"((?:[^"\\]|\\.)*)"\s+(\S+)\s+(\S+) -> (\S+)(?: threads=1)?\s+(\S+) (\S+)$')


class Failed(Exception):
    pass


class Processors:
    """Which are at full speed, by what a loop of Python takes there: a neighbour on the same core slows it down by a third, too."""
    WAIT, NEAR = 30, 1.08  # seconds; of the fastest that was seen
    fastest = float("inf")
    chosen = []  # for the last command

    @classmethod
    def times(cls):
        def loop():
            start = time.perf_counter()
            sum(range(100_000))
            return time.perf_counter() - start

        times, all_of_them = {}, os.sched_getaffinity(0)
        for processor in all_of_them:
            os.sched_setaffinity(0, {processor})
            times[processor] = statistics.median(loop() for _ in range(40))
        os.sched_setaffinity(0, all_of_them)
        cls.fastest = min(cls.fastest, *times.values())
        return times

    @classmethod
    def choose(cls, threads):
        """The fastest, once so many are at full speed, or after half a minute."""
        end = time.monotonic() + cls.WAIT
        while True:
            times = cls.times()
            cls.chosen = sorted(times, key=times.get)[:threads]
            if cls.at_full_speed(times) or time.monotonic() > end:
                return cls.chosen
            time.sleep(0.5)

    @classmethod
    def at_full_speed(cls, times=None):
        """Whether those chosen are."""
        times = times or cls.times()
        return all(times[processor] <= cls.NEAR * cls.fastest for processor in cls.chosen)


def convoy(*arguments, database=None):
    environment = {**os.environ, **({"CONVOY_DB": str(database)} if database else {})}
    threads = arguments[arguments.index("--threads") + 1] if "--threads" in arguments else 0
    place = ["taskset", "-c", ",".join(map(str, Processors.choose(threads)))] if threads else []
    command = list(map(str, [*place, COMMAND["convoy"], *arguments, "--json"]))
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}")
    return json.loads(done.stdout)


def lines_of(plan):
    """(kind, name, runs on, reads, writes, microseconds, source) of each line; a name's second line is another node."""
    lines, seen = [], {}
    for text in plan.splitlines():
        match = LINE.match(text)
        if not match:
            continue
        kind, name, runs_on, reads, writes, cost, source = match.groups()
        seen[kind == "convert", name] = number = seen.get((kind == "convert", name), 0) + 1
        name += f" #{number}" if number > 1 else ""
        lines.append((kind, name, runs_on, reads, writes, float(cost.removesuffix("us")) if cost != "-" else None, source))
    return lines


def lower_bound(nodes, hows):
    """The least that all nodes take, each in the way that is best for it; a convolution and what it takes over elsewhere count once."""
    least = {name: min(node[how][0] for how in hows if how in node) for name, node in nodes.items()}

    def pieces(name):
        """Each way to write a name as others' names, joined."""
        for at in (at for at, letter in enumerate(name) if letter == "+"):
            if name[:at] in least:
                rest = name[at + 1:]
                yield from ([name[:at], *more] for more in [*([[rest]] if rest in least else []), *pieces(rest)])

    made_of = {name: list(pieces(name)) for name in least}
    parts = {part for ways in made_of.values() for way in ways for part in way}
    whole = {name: min([cost, *(sum(least[part] for part in way) for way in made_of[name])]) for name, cost in least.items()}
    return round(sum(cost for name, cost in whole.items() if name not in parts), 1)


def solvers_plan(model, shared, database, options):
    """The text of what tune's solver says at last, and what it says of it."""
    plans = convoy("tune", model, "--budget", options.tune, *shared, database=database)["plans"]
    if not plans:
        raise Failed(f"tune compared no plans in {options.tune} s")
    solvers = plans["solvers"]
    over_first = {plan["how"]: [round(plan["over_first"], 4), round(plan["relative_uncertainty"], 4)] for plan in plans["timed"]}
    text = next(plan["plan"] for plan in plans["timed"] if plan["how"] == solvers["how"])
    in_tune = {plan["how"]: [round(plan[key] * 1e6, 1) for key in ("predicted_seconds", "undisturbed_seconds", "seconds")] for plan in plans["timed"]}
    return text, {**solvers, "fastest": plans["fastest"], "over_first": over_first, "predicted_undisturbed_median": in_tune}


def measure(model, dims, threads, hows, options):
    """The row of one network."""
    shared = ["--threads", threads, *(x for dim in dims for x in ("--dim", dim))]
    ways = {how: how if how != "alone" else "global" for how in hows[1:][::-1]}  # greedy, which goes by costs, last
    plans = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {how: pathlib.Path(folder) / f"{how.replace(':', '-')}.plan" for how in hows}
        for how, way in ways.items():
            convoy("plan", model, "--how", way, "--budget", options.budget, "-o", files[how], *shared, database=options.database)
        tunes = pathlib.Path(folder) / "tune.db"  # a copy, so that tune finds no plan that it kept before
        shutil.copy(options.database, tunes)
        text, tuned = solvers_plan(model, shared, tunes, options)
        files["global"].write_text(text)
        for how in hows:
            plans[how] = lines_of(files[how].read_text())
        inputs = [flag for dim in dims for flag in ("--dim", dim)]
        reports = []
        while len(reports) < options.reports and not (reports and Processors.at_full_speed()):
            reports.append(convoy("report", model, *(files[how] for how in hows), "--rounds", options.rounds, "--threads", threads,
                                  *inputs, database=options.database)["plans"])
    took = [sum(plan["seconds"] for plan in plans_of_one) for plans_of_one in reports]
    timed = dict(zip(hows, reports[took.index(min(took))]))
    end_to_end = {how: each["seconds"] * 1e6 for how, each in timed.items()}
    undisturbed = {how: each["undisturbed_seconds"] * 1e6 for how, each in timed.items()}
    row = {"threads": threads, "reports": [round(seconds * 1e6, 1) for seconds in took], "tuned": tuned, "plans": {}, "lower_bound": 0,
           "nodes": [], "conversions": {}}
    nodes = {}
    for how in hows:
        costs = [line[5] or 0 for line in plans[how]]
        total, guessed = sum(costs), sum(c for c, line in zip(costs, plans[how]) if line[6] == "predicted" or line[5] is None)
        if how == "global":
            total, guessed = tuned["predicted_seconds"] * 1e6, 0 if tuned["measured"] == tuned["lines"] else guessed
        row["plans"][how] = {"sum": round(total, 1), "conversions": round(sum(c for c, l in zip(costs, plans[how]) if l[0] == "convert"), 1),
                             "end_to_end": round(end_to_end[how], 1),
                             "turns": timed[how]["turns"],
                             "over_global": [round(timed[how]["over_first"], 4), round(timed[how]["over_first_uncertainty"], 4)],
                             "undisturbed": round(undisturbed[how], 1), "sum_over_end_to_end": round(total / end_to_end[how], 3),
                             "sum_over_undisturbed": round(total / undisturbed[how], 3),
                             "predicted_share": round(guessed / total, 3) if total else 0}
        for kind, name, runs_on, reads, writes, cost, source in plans[how]:
            if kind == "convert":
                row["conversions"].setdefault(how, []).append([name, reads, writes, cost, source])
            elif cost is not None:
                node = nodes.setdefault(name, {"name": name, "kind": kind})
                node[how] = [cost, f"{reads} -> {writes}", runs_on] if kind == "conv" else [cost, f"{reads} -> {writes}"]
    row["lower_bound"] = lower_bound(nodes, hows)
    row["nodes"] = list(nodes.values())
    over = {how: plan["over_global"][0] for how, plan in row["plans"].items()}
    least = min(over, key=over.get)
    # Within what the turns of either differ by; nothing where that isn't known, or a cost was not measured.
    known = all(plan["over_global"][1] < 1 and plan["predicted_share"] == 0 for plan in row["plans"].values())
    row["global_is_fastest"] = 1 <= over[least] * (1 + row["plans"][least]["over_global"][1]) if known else None
    row["best_uniform_over_global"] = min(value for how, value in over.items() if how.startswith("uniform"))
    row["greedy_over_lower_bound"] = round(row["plans"]["greedy"]["sum"] / row["lower_bound"], 3) if row["lower_bound"] else None
    return row


def summary(networks):
    plans = [plan for row in networks.values() if "plans" in row for plan in row["plans"].values()]
    sound = [plan for plan in plans if plan["predicted_share"] == 0]
    near = [plan for plan in sound if abs(plan["sum_over_end_to_end"] - 1) <= NEAR]
    near_undisturbed = [plan for plan in sound if abs(plan["sum_over_undisturbed"] - 1) <= NEAR]
    whole = [row for row in networks.values() if "plans" in row]
    mean = lambda values: round(statistics.geometric_mean(values), 4) if values else None
    bounds = [row["greedy_over_lower_bound"] for row in networks.values() if row.get("greedy_over_lower_bound")]
    return {"networks": sum("plans" in row for row in networks.values()), "skipped": sum("skipped" in row for row in networks.values()),
            "plans": len(plans), "plans_measured_whole": len(sound), "sum_within_15_percent_of_end_to_end": len(near),
            "share_within_15_percent": round(len(near) / len(sound), 3) if sound else None,
            "median_sum_over_end_to_end": round(statistics.median(p["sum_over_end_to_end"] for p in sound), 3) if sound else None,
            "sum_within_15_percent_of_undisturbed": len(near_undisturbed),
            "share_within_15_percent_of_undisturbed": round(len(near_undisturbed) / len(sound), 3) if sound else None,
            "median_sum_over_undisturbed": round(statistics.median(p["sum_over_undisturbed"] for p in sound), 3) if sound else None,
            "global_is_fastest_or_within_spread": sum(row["global_is_fastest"] is True for row in whole),
            "not_known_whether_global_is": sum(row["global_is_fastest"] is None for row in whole),
            "geometric_mean_over_global": {"alone": mean([row["plans"]["alone"]["over_global"][0] for row in whole]),
                                           "local": mean([row["plans"]["local"]["over_global"][0] for row in whole]),
                                           "greedy": mean([row["plans"]["greedy"]["over_global"][0] for row in whole]),
                                           "best uniform": mean([row["best_uniform_over_global"] for row in whole])},
            "geometric_mean_greedy_over_lower_bound": round(statistics.geometric_mean(bounds), 3) if bounds else None}


def models(data):
    """By name, the networks of the zoo and the data's models that are there."""
    networks = {f"zoo:{each['name']}": f"zoo:{each['name']}" for each in convoy("list", "zoo")["zoo"]}
    files = sorted((data / "models").glob("*/model.onnx"))
    return networks | {file.parent.name: file for file in files}


def record_of(program, options, **more):
    """The one that is there, or a new one."""
    if options.output.exists():
        return json.loads(options.output.read_text())
    doctor, git = convoy("doctor"), ["git", "-C", ROOT]
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "command": " ".join([f"python bench/{program}", *sys.argv[1:]]),
            "commit": subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
            "changed_since": bool(subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True).stdout),
            "processor": doctor["processor"], "versions": {"convoy": doctor["version"], **doctor["libraries"]},
            **more, "budget_seconds": options.budget, "rounds": options.rounds, "summary": {}, "networks": {}}


def write(path, record):
    """A line a node, so that a person can read and compare it."""
    parts = []
    for key, row in record["networks"].items():
        head = {k: v for k, v in row.items() if k not in ("nodes", "conversions")}
        text = f"  {json.dumps(key)}: " + json.dumps(head)[:-1]
        if "nodes" in row:
            text += ',\n   "nodes": [\n' + ",\n".join("    " + json.dumps(node) for node in row["nodes"]) + "],"
            text += '\n   "conversions": ' + json.dumps(row["conversions"])
        parts.append(text + "}")
    head = json.dumps({**record, "networks": {}}, indent=1)
    temporary = path.with_suffix(".part")
    temporary.write_text(head.replace('"networks": {}', '"networks": {\n' + ",\n".join(parts) + "\n }") + "\n")
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=["*"], help="globs of names: 'zoo:*', mnist-8")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--budget", type=float, default=120, help="seconds of measuring for each plan")
    parser.add_argument("--tune", type=float, default=120, help="seconds of tuning")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each plan")
    parser.add_argument("--reports", type=int, default=3, help="at most, while the processors don't keep their speed")
    parser.add_argument("--redo-above", type=float, default=float("inf"), metavar="LOAD",
                        help="do those networks again that were done while the load average was above this")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CONVOY_DATA", ROOT / "../shared/data")))
    parser.add_argument("--database", type=pathlib.Path, default=ROOT / "build/possible-gain.db")
    parser.add_argument("--convoy", type=pathlib.Path, default=COMMAND["convoy"], help="the command, should another build's be meant")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/possible-gain-{datetime.date.today()}.json")
    options = parser.parse_args()
    COMMAND["convoy"] = options.convoy
    doctor = convoy("doctor")
    blocks = "nchw16c" if doctor["processor"]["isa"] == "avx512" else "nchw8c"
    hows = ["global", "alone", "greedy", "local", "uniform:nhwc", "uniform:nchw", f"uniform:{blocks}"]
    networks = models(options.data)
    record = record_of("possible_gain.py", options, ways=hows, tune_seconds=options.tune)
    for threads in options.threads:
        for name, model in networks.items():
            key = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
            known = record["networks"].get(key, {})
            done = "plans" in known and max(known["load_average"]) <= options.redo_above
            if done or not any(fnmatch.fnmatch(name, glob) for glob in options.only):
                continue
            load = os.getloadavg()[0]
            try:
                row = measure(model, DIMS.get(name, []), threads, hows, options)
                row["load_average"] = [round(load, 2), round(os.getloadavg()[0], 2)]
            except Failed as failure:
                row = {"threads": threads, "skipped": str(failure)}
            record["networks"][key] = row
            record["summary"] = summary(record["networks"])
            write(options.output, record)
            print(key, json.dumps(row.get("plans", row.get("skipped"))), flush=True)
    record["summary"] = summary(record["networks"])
    write(options.output, record)
    print(json.dumps(record["summary"]))


if __name__ == "__main__":
    main()
