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
    told = {"turns": None, "broken": [row["unit"] for row in rows if "plans" not in row or not row.get("tune", {}).get("timed", True)]}
    for tuned in (False, True):
        cells = [row for row in rows if row["unit"][3] == tuned and "plans" in row]
        of_plans = [(row["unit"], plan) for row in cells for plan in row["plans"]]
        off = [[*unit[:3], plan["name"], plan["predicted_seconds"] / plan["seconds"]] for unit, plan in of_plans]
        behind = [[*row["unit"][:3], beside["name"], over] for row in cells for beside in row["plans"]
                  if (over := slower_by(next(plan for plan in row["plans"] if plan["name"] == "global"), beside))]
        told["tuned" if tuned else "untuned"] = {
            "cells": len(cells), "plans": len(of_plans),
            "global_is_fastest_or_within_the_spread": share(len(cells) - len({tuple(each[:3]) for each in behind}), len(cells)), "global_is_slower_than": behind,
            "handed_out_is_slower_than": [[*row["unit"][:3], beside["name"], over] for row in cells for beside in row["plans"] if (over := slower_by(row["plans"][0], beside))],
            "predicted_within": {"share": share(sum(abs(each[-1] - 1) <= NEAR for each in off), len(off)), "of": NEAR},
            "predicted_within_by_plan": {name: share(sum(abs(each[-1] - 1) <= NEAR for each in off if each[3] == name), sum(each[3] == name for each in off))
                                         for name in dict.fromkeys(each[3] for each in off)},
            "predicted_over_measured": off}
        told["turns"] = min([row["plans"][0]["turns"] for row in cells] + ([told["turns"]] if told["turns"] else []), default=None)
    return told


def share(some, all_):
    return some / all_ if all_ else None


def slower_by(plan, beside):
    """How many times as long it takes as the other, where that is beyond both spreads; else nothing."""
    over = plan["over_first"] / beside["over_first"]
    return over if over > 1 + math.hypot(plan["over_first_uncertainty"], beside["over_first_uncertainty"]) else None


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
