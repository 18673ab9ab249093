"""Networks of f32 on a GPU in each precision, and within an error, in one process: a unit of JSON a line comes in, what was found of it a line goes out.

A unit is [network, batch, precisions], each precision with the share of its own error that is allowed then, in a plan by --max-error. Errors are L2 norms of what
differs from the strict f32 run on this GPU over the norm of that, on random inputs. Times are the GPU's, by PyTorch's events around runs in
a row, which are enqueued; each round takes every plan once, in turn. $CONVOY_LIBRARY and PYTHONPATH say which Convoy.
"""
import json
import os
import statistics
import sys
import time

import torch

import convoy

ROUNDS, RUNS = 21, 20
UNIFORM = {"f32": {}, "tf32": {"precision": "tf32"}, "f16": {"precision": "f16"}, "bf16": {"precision": "bf16"}}
SIZE = 224


def median_and_spread(values):
    quarters = statistics.quantiles(values, n=4)
    return {"median": statistics.median(values), "spread": (quarters[2] - quarters[0]) / 2}


class Plan:
    """A network as it is run, on tensors that stay where they are."""

    def __init__(self, model, x, **options):
        self.network = convoy.Network(model, device="cuda", database=False, **options)
        self.given = {self.network.inputs[0].name: x}
        begin = time.monotonic()
        self.outputs = self.network.run(self.given)
        self.first_seconds = time.monotonic() - begin
        self.out = {name: torch.empty_like(value) for name, value in self.outputs.items()}
        self.run()
        self.run()

    def run(self):
        self.network.run(self.given, out=self.out)

    def microseconds(self):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.run()
        begin.record()
        for _ in range(RUNS):
            self.run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3 / RUNS

    def error(self, strict):
        torch.cuda.synchronize()
        errors = [((self.out[name].double() - right.double()).norm() / right.double().norm()).item() for name, right in strict.items()]
        return max(errors)

    def told(self):
        lines = self.network.plan({name: tuple(value.shape) for name, value in self.given.items()}).splitlines()
        steps = self.network.prepare({name: tuple(value.shape) for name, value in self.given.items()}).steps()
        convolutions = [line for line in lines if line.startswith("conv ")]
        return {"convolutions": len(convolutions), "f16": sum(" f16," in line for line in convolutions), "bf16": sum(" bf16," in line for line in convolutions),
                "strict": sum("math=strict" in line for line in convolutions),
                "conversions": sum(line.startswith("convert ") for line in lines), "on_processor": sum(step.device == "cpu" for step in steps)}


def found_of(network, batch, allowed):
    model = f"zoo:{network}"
    torch.manual_seed(11)
    x = torch.rand(batch, 3, SIZE, SIZE, device="cuda") * 2 - 1
    plans = {name: Plan(model, x, **options) for name, options in UNIFORM.items()}
    torch.cuda.synchronize()
    strict = {name: value.clone() for name, value in plans["f32"].out.items()}
    rows = {name: {"precision": name, "within": None, "error": plan.error(strict), "first_seconds": plan.first_seconds} for name, plan in plans.items()}
    texts = {}
    for precision, share in allowed.items():
        name, limit = f"{precision} within {share}", share * rows[precision]["error"]
        begin = time.monotonic()
        text = str(convoy.Network(model, device="cuda", database=False, **UNIFORM[precision]).plan(
            inputs={plans["f32"].network.inputs[0].name: x.cpu().numpy()}, max_error=limit))
        row = {"precision": precision, "within": share, "allowed": limit, "choosing_seconds": time.monotonic() - begin}
        plans[name] = Plan(model, x, plan=text, **UNIFORM[precision])
        rows[name] = {**row, "error": plans[name].error(strict)}
        rows[name]["kept"] = rows[name]["error"] <= limit
        texts[name] = text
    times = {name: [] for name in plans}
    for number in range(ROUNDS):
        for name in list(plans)[::1 if number % 2 == 0 else -1]:
            times[name].append(plans[name].microseconds())
    for name, row in rows.items():
        row["microseconds"] = median_and_spread(times[name])
        row["over_tf32"] = median_and_spread([a / b for a, b in zip(times[name], times["tf32"])])
        row.update(plans[name].told())
    return {"rows": list(rows.values()), "plans": texts}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is none
    for line in sys.stdin:
        try:
            found = found_of(*json.loads(line))
        except Exception as error:  # the next unit is another network
            found = {"rows": [], "broken": f"{type(error).__name__}: {str(error)[:1500]}"}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
