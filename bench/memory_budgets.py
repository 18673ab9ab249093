"""What networks take under limits on their memory: activations, the workspace, and weights.

    python bench/memory_budgets.py [--only GLOB ...] [--engines GLOB ...] [--budget 0] [--rounds 8] [--data DIR] [--database FILE]
                                   [--convoy COMMAND] [--output FILE]

For every network of the zoo and every model of the data, at one thread: the fastest plan by costs (`convoy plan --how global`), the one
with the least peak of activations (`--objective memory`), and the fastest under limits at 25, 50 and 75% of the way from the least peak
that can be proved to the peak of the fastest (`--activation-limit`, `--exact`). The same of the workspace, which is as large as the
largest of a step (`--workspace-limit`, with all engines only), from the plan made with limit 0 on: no convolution has any there, and
operators have no other choice; and of weights, as their engines pack them, with other constants (`--weight-limit`, likewise), whose least the command says. With --budget plans are made twice: first their lines are measured, then all are made from what is known by then. Without,
costs are predicted. `convoy report` prepares and runs them in turns in one process. Of each network:
  activations, workspace, weights
                least bytes that are `proved` (no choice needs less; of the workspace 0) and `found`, and the fastest plan's
                (`unconstrained`). Where they are equal there are no limits to try, and `remark` says so.
  plans         limit and whether it is kept, bytes that the session allocates for activations and workspace, predicted and undisturbed
                microseconds (a run as nobody else disturbs it), the median run over the fastest plan's, turn by turn, with its
                uncertainty (95%, relative), and what the plan says of itself: optimum or bound, gap, prices

The record is written after each network; networks that are in it are not done again.
"""
import argparse
import datetime
import fnmatch
import itertools
import json
import os
import pathlib
import re
import tempfile

from possible_gain import COMMAND, DIMS, ROOT, Failed, Processors, convoy, models, record_of

SHARES = [0.25, 0.5, 0.75]
SLOW = 4  # times the fastest: a plan of the least workspace or weights is made, but not timed


def remark_of(plan):
    return next(line[2:] for line in plan.splitlines() if line.startswith("# global: "))


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def quick(*arguments, database):
    """A command whose times don't count."""
    wait, Processors.WAIT = Processors.WAIT, 0
    try:
        return convoy(*arguments, database=database)
    finally:
        Processors.WAIT = wait


def measure(model, dims, engines, options):
    """The row of one network."""
    exact = ["--exact"]
    restricted = ["--engines", engines]
    shapes = [x for dim in dims for x in ("--dim", dim)]
    shared = ["--threads", 1, *shapes]

    with tempfile.TemporaryDirectory() as folder:
        files, says = {}, {}

        def plan(name, *own, budget=()):
            """What it says of itself."""
            file = pathlib.Path(folder) / f"{name.replace(' ', '-').replace('%', '')}.plan"
            command = convoy if budget else quick
            made = command("plan", model, "--how", "global", *restricted, *own, *shared, *budget, "-o", file, database=options.database)
            says[name] = remark_of(made["plan"])
            files[name] = file
            return says[name]

        def workspace(name):
            run = quick("run", model, "--plan", files[name], "--random-inputs", *shared, database=options.database)
            return run["workspace_bytes"]

        def between(low, high):
            return {f"{round(100 * share)}%": round(low + share * (high - low)) for share in SHARES}

        def of_activations(budget=()):
            plan("fastest", budget=budget)
            least = plan("activations least", "--objective", "memory", *exact, budget=budget)
            found = number(r"activations: (\d+) bytes", least)
            known = {"proved": number(r"others need (\d+) or more", least) or found, "found": found,
                     "unconstrained": number(r"without a limit: [^,]*, (\d+) bytes", least) or found}
            return known, limited("activations", "--activation-limit", known, budget)

        def of_workspace(budget=()):
            known = {"proved": 0, "found": None, "unconstrained": workspace("fastest")}
            try:
                plan("workspace least", "--workspace-limit", 0, budget=budget)
                known["found"] = workspace("workspace least")
            except Failed as failure:
                known["failed"] = {"workspace least": {"limit": 0, "error": str(failure)}}
            return known, limited("workspace", "--workspace-limit", known, budget, known["found"])

        def of_weights(budget=()):
            try:
                plan("weights none", "--weight-limit", 1, budget=budget)
                return {"remark": "it has none"}, {}
            except Failed as failure:
                least = number(r"keeps less than (\d+) bytes", str(failure))
                if least is None:
                    return {"failed": {"weights least": {"limit": 1, "error": str(failure)}}}, {}
            run = quick("run", model, "--plan", files["fastest"], "--random-inputs", *shared, database=options.database)
            known = {"proved": least, "found": least, "unconstrained": run["weight_bytes"]}
            plan("weights least", "--weight-limit", least, budget=budget)
            return known, limited("weights", "--weight-limit", known, budget)

        def limited(what, flag, known, budget, least=None):
            least = known["proved"] if least is None else least
            if least == known["unconstrained"]:
                known["remark"] = "the fastest plan has the least already"
                files.pop(f"{what} least", None)
                return {}
            limits = {f"{what} {share}": limit for share, limit in between(least, known["unconstrained"]).items()}
            for name, limit in limits.items():
                try:
                    plan(name, flag, limit, *(exact if flag == "--activation-limit" else []), budget=budget)
                except Failed as failure:
                    known.setdefault("failed", {})[name] = {"limit": limit, "error": str(failure)}
            return limits

        if options.budget > 0:
            of_activations(["--budget", options.budget])
            if engines == "*":
                of_workspace(["--budget", options.budget])
                of_weights(["--budget", options.budget])
            files.clear()
        row = {"threads": 1, "engines": engines}
        row["activations"], limits = of_activations()
        if engines == "*":  # one engine has little choice of workspaces
            for what, of in (("workspace", of_workspace), ("weights", of_weights)):
                row[what], own = of()
                limits.update(own)
        predicted = {name: float(re.search(r"global: (\S+) us", line)[1]) for name, line in says.items()}
        slow = [name for name in files if name.endswith("least") and predicted[name] > SLOW * predicted["fastest"]]
        for name in slow:
            files.pop(name)
            row[name.split()[0]]["not_timed"] = f"the least one: predicted to take {predicted[name] / predicted['fastest']:.1f} times the fastest"
        report = convoy("report", model, *files.values(), "--rounds", options.rounds, *shared, database=options.database)
    row["plans"] = {}
    for name, timed in zip(files, report["plans"]):
        bytes_of = {"activations": timed["activation_bytes"], "workspace": timed["workspace_bytes"],
                    "weights": timed["weight_bytes"]}
        limit = {"limit": limits[name], "kept": bytes_of[name.split()[0]] <= limits[name]} if name in limits else {}
        row["plans"][name] = {**limit, **bytes_of, "predicted": round(timed["predicted_seconds"] * 1e6, 1),
                              "undisturbed": round(timed["undisturbed_seconds"] * 1e6, 1), "median": round(timed["seconds"] * 1e6, 1),
                              "over_fastest": [round(timed["over_first"], 4), round(timed["over_first_uncertainty"], 4)],
                              "measured_lines": f"{timed['measured_lines']} of {timed['lines']}", "says": says[name]}
    return row


def summary(networks):
    whole = [row for row in networks.values() if "plans" in row]
    result = {"networks": len(whole), "skipped": len(networks) - len(whole)}
    for what in ("activations", "workspace", "weights"):
        of = [row[what] for row in whole if "proved" in row.get(what, {})]
        limited = [plan for row in whole for name, plan in row["plans"].items() if "limit" in plan and name.startswith(what)]
        result[what] = {"least_is_proved": sum(each["proved"] == each["found"] for each in of),
                        "fastest_has_the_least": sum("remark" in each for each in of),
                        "limits": len(limited) + sum(name.endswith("%") for each in of for name in each.get("failed", {})),
                        "kept": sum(plan["kept"] for plan in limited)}
    return result


def write(path, record):
    text = json.dumps({**record, "networks": {}}, indent=1)
    rows = ",\n".join(f"  {json.dumps(key)}: " + json.dumps(row).replace('}, "', '},\n   "') for key, row in record["networks"].items())
    temporary = path.with_suffix(".part")
    temporary.write_text(text.replace('"networks": {}', '"networks": {\n' + rows + "\n }") + "\n")
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=["*"], help="globs of names: 'zoo:*', mnist-8")
    parser.add_argument("--engines", nargs="+", default=["*"], help="of convolutions: a list of globs for each row of a network")
    parser.add_argument("--budget", type=float, default=0, help="seconds of measuring for each plan; 0: predicted costs")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each plan")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CONVOY_DATA", ROOT / "../shared/data")))
    parser.add_argument("--database", type=pathlib.Path, default=ROOT / "build/memory-budgets.db")
    parser.add_argument("--convoy", type=pathlib.Path, default=COMMAND["convoy"], help="the command, should another build's be meant")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/memory-budgets-{datetime.date.today()}.json")
    options = parser.parse_args()
    COMMAND["convoy"] = options.convoy
    networks = models(options.data)
    record = record_of("memory_budgets.py", options)
    for (name, model), engines in itertools.product(networks.items(), options.engines):
        key = name if engines == "*" else f"{name}, {engines}"
        if key in record["networks"] or not any(fnmatch.fnmatch(name, glob) for glob in options.only):
            continue
        load = os.getloadavg()[0]
        try:
            row = {**measure(model, DIMS.get(name, []), engines, options), "load_average": [round(load, 2), round(os.getloadavg()[0], 2)]}
        except Failed as failure:
            row = {"threads": 1, "engines": engines, "skipped": str(failure)}
        record["networks"][key] = row
        record["summary"] = summary(record["networks"])
        write(options.output, record)
        print(key, json.dumps(row), flush=True)
    print(json.dumps(record["summary"]))


if __name__ == "__main__":
    main()
