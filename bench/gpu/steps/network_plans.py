"""Whether the plan that is handed out is the fastest of its network, and takes what was predicted: plans of whole networks timed in turns in one process."""
import json
import math

from steps import harness

SMALL_AND_LARGE = {"resnet50": (1, 32), "mobilenet_v2": (1, 32), "efficientnet_b0": (1, 32), "convnext_tiny": (1, 32), "resnext50_32x4d": (32,), "unet": (1, 8)}
CELLS = [(network, batch, "f16") for network, batches in SMALL_AND_LARGE.items() for batch in batches] + [
    ("resnet50", 32, "tf32"), ("efficientnet_b0", 32, "tf32")]
HOWS = ("greedy", "global", "local", "uniform:nhwc", "uniform:nchw")
TUNE_SECONDS = 60
NEAR = 0.15  # what a prediction may be off


class Plans(harness.Step):
    """greedy, global, local and uniform plans of networks in turns, untuned and after a minute's convoy tune: which is handed out, what is predicted"""
    jobs = 5  # making plans and compiling is the processor's; what is timed holds the GPU's lock

    def units(self):
        return [[*cell, tuned] for tuned in (False, True) for cell in CELLS]

    def run(self, unit):
        network, batch, type_, tuned = unit
        of = [f"zoo:{network}", "--dim", f"N={batch}", "--precision", type_, "--device", "cuda", "--json"]
        (harness.OUT / "plans").mkdir(exist_ok=True)
        database = {"CONVOY_DB": str(harness.OUT / "plans" / f"{network}-{batch}-{type_}.db")}  # each cell knows what it measured itself
        found = {"unit": unit}
        if tuned:
            code, out, err = harness.command([harness.CONVOY, "tune", *of, "--budget", TUNE_SECONDS], **database)
            plans = json.loads(out)["plans"] if out.startswith("{") else None
            found["tune"] = {"exit_code": code, "said": err[-800:], "fastest": plans and plans["fastest"],
                             "timed": plans and [{key: value for key, value in plan.items() if key != "plan"} for plan in plans["timed"]]}
        # First what convoy run takes: the kept plan, or greedy.
        plans, more = (["tuned", *HOWS], []) if tuned else (list(HOWS), ["--no-db"])
        code, out, err = harness.command([harness.CONVOY, "compare", of[0], *plans, *of[1:], "--random-inputs", *more], **database)
        if code != 0:
            return {**found, "broken": {"exit_code": code, "stderr": err[-1500:]}}
        told = json.loads(out)["plans"]
        return {**found, "steps": told[0]["steps"], "plans": [{key: value for key, value in plan.items() if key not in ("steps", "live_bytes")} for plan in told]}

    def summary(self, rows):
        return {**summary(rows), "kinds": kinds(rows), "rows": [{key: value for key, value in row.items() if key != "steps"} for row in rows]}


def summary(rows):
    """Of cells: where global is the fastest or within the spread of it, what the first, which is handed out, is slower than; of all their plans, the predictions."""
    told = {"turns": min((row["plans"][0]["turns"] for row in rows if "plans" in row), default=None),
            "not_measured": [row["unit"] for row in rows if "plans" not in row],
            "tuned_and_raced": sum(bool(row["tune"]["timed"]) for row in rows if "tune" in row)}
    for tuned in (False, True):
        cells = [row for row in rows if row["unit"][3] == tuned and "plans" in row]
        of_plans = [(row["unit"], plan) for row in cells for plan in row["plans"]]
        off = [[*unit[:3], plan["name"], plan["predicted_seconds"] / plan["seconds"]] for unit, plan in of_plans]
        names = list(dict.fromkeys(each[3] for each in off))
        global_behind, first_behind = [], []
        for row in cells:
            found = next(plan for plan in row["plans"] if plan["name"] == "global")
            for plan, behind in ((found, global_behind), (row["plans"][0], first_behind)):
                behind += [[*row["unit"][:3], beside["name"], over] for beside in row["plans"] if (over := slower_by(plan, beside))]
        told["tuned" if tuned else "untuned"] = {
            "cells": len(cells), "plans": len(of_plans),
            "global_is_fastest_or_within_the_spread": share(len(cells) - len({tuple(each[:3]) for each in global_behind}), len(cells)),
            "global_is_slower_than": global_behind, "handed_out_is_slower_than": first_behind,
            "most_between_plans_of_the_same_choices": max((plan["over_first"] / beside["over_first"] for row in cells for plan in row["plans"] for beside in row["plans"] if alike(plan, beside)), default=None),
            "predicted_within": {"share": within(off), "of": NEAR}, "predicted_within_by_plan": {name: within([each for each in off if each[3] == name]) for name in names},
            "predicted_over_measured": off}
    return told


def within(off):
    return share(sum(abs(each[-1] - 1) <= NEAR for each in off), len(off))


def alike(plan, beside):
    """Whether they make the same choices, of which only how a run goes can differ."""
    return all(plan[key] == beside[key] for key in ("predicted_seconds", "lines", "conversions", "activation_bytes"))


def share(some, all_):
    return some / all_ if all_ else None


def slower_by(plan, beside):
    """How many times as long it takes as the other, where that is beyond both spreads and they are not alike; else nothing."""
    over = plan["over_first"] / beside["over_first"]
    spread = math.hypot(plan["over_first_uncertainty"], beside["over_first_uncertainty"])
    return over if over > 1 + spread and not alike(plan, beside) else None


def kinds(rows):
    """By what runs it, untuned: steps of the plans that are handed out, what they take together and what was predicted."""
    found = {}
    for row in rows:
        for step in row.get("steps", ()) if not row["unit"][3] else ():
            if step["predicted_seconds"] is None:
                continue
            reads = step["reads"] or {"type": None, "layout": None}
            each = found.setdefault(f"{step['runs_on'].split('{')[0]} {reads['type']},{reads['layout']}", [0, 0.0, 0.0])
            for i, more in enumerate((1, step["seconds"], step["predicted_seconds"])):
                each[i] += more
    return [{"runs_on": key, "steps": count, "seconds": seconds, "predicted_seconds": predicted} for key, (count, seconds, predicted) in
            sorted(found.items(), key=lambda each: -abs(each[1][1] - each[1][2]))]
