"""Times beside somebody else's: PyTorch and cuDNN's heuristic, a concurrent kernel, cuDNN without its precompiled engines; one layer's table."""
import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import problems
from steps import harness
from steps.timed import NOISE, timed_entry


def same_plan(entry, plan):
    """The candidate that is cuDNN's engine with these knobs; those that either leaves to cuDNN (-1) have no say."""
    def chosen(name):
        engine, _, knobs = name.rstrip("}").partition("{")
        return engine, {knob for knob in knobs.split(",") if knob and not knob.endswith("=-1")}
    return next((c for c in entry["candidates"] if plan and chosen(c["candidate"]) == chosen(plan)), None)


class Torch(harness.Step):
    """the fastest of cuDNN's engines beside PyTorch's cudnn.benchmark, in one process; what cuDNN's heuristic loses"""
    jobs = 3
    finalists = 8  # of those within 10% of the fastest; which is the fastest is then measured beside PyTorch

    def units(self):
        # PyTorch lets 16-bit convolutions keep 16-bit sums: the same is allowed here, or the problems would not be the same.
        wanted = [t + ":math=reduced" * ("=f16" in t or "=bf16" in t) for t in problems.spread(harness.PROBLEMS, 110, 32, seed=5)
                  if "s8" not in t.split(":")[1]]
        return harness.chunks(wanted[:96], 8)

    def first_choices(self, texts):
        """What cuDNN's heuristics name first of what takes a problem, with nothing measured."""
        document = harness.convoy("explain", texts, "--engines", "cudnn.eng*", CONVOY_DB=str(harness.OUT / "none.db"))
        return {entry["problem"]: entry["chosen"]["candidate"] for entry in document.get("problems", []) if entry["chosen"]}

    def own(self, texts):
        """The fastest of Convoy's own engines, for the problems they are for."""
        document = harness.convoy("bench", texts, "--engines", "cuda.depthwise", "--budget", 5 * len(texts), CONVOY_NVML="off")
        return {entry["problem"]: harness.right(entry)[0]["candidate"] for entry in document.get("problems", []) if harness.right(entry)}

    def beside(self, entries, own):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for entry in entries:
                fast = [c["candidate"] for c in harness.right(entry) if c["seconds"] < 1.1 * harness.right(entry)[0]["seconds"]]
                others = [own[entry["problem"]]] if entry["problem"] in own else []
                file.write(json.dumps({"problem": entry["problem"], "candidates": fast[:self.finalists], "others": others}) + "\n")
            file.flush()
            code, out, err = harness.command(["python3", harness.HERE / "bench/gpu/beside_torch.py", file.name, harness.ROOT / "lib/libconvoy.so"],
                                     LD_PRELOAD=str(harness.ROOT / "tests/gpu_executed_plan.so"))
        return {row["problem"]: row for row in map(json.loads, out.splitlines())}, f"{code}: {err[-1000:]}"

    def run(self, texts):
        document = harness.convoy("bench", texts, "--engines", "cudnn.*", "--budget", 15 * len(texts), CONVOY_NVML="off")
        if "broken" in document:
            return document
        beside, message = self.beside(document["problems"], self.own(texts))
        first = self.first_choices(texts)
        rows = []
        for entry in document["problems"]:
            found = beside.get(entry["problem"], {"error": message})
            plan = same_plan(entry, found.get("plan")) or {}
            unconverted = [c for c in harness.right(entry) if c["engine"] != "cudnn.nhwc"]
            choice = next((c for c in unconverted if c["candidate"] == first.get(entry["problem"])), None)
            rows.append({**timed_entry(entry), "beside": found, "cudnns_first_choice": choice and {
                "candidate": choice["candidate"], "over_best": choice["seconds"] / unconverted[0]["seconds"], "best": unconverted[0]["candidate"]},
                         "torch_plan_here": {key: plan.get(key) for key in ("candidate", "status", "seconds", "reason")}})
        return {"rows": rows}

    def summary(self, rows):
        every = [row for unit in rows for row in unit.get("rows", [])]
        both = [row for row in every if "torch_over_best" in row["beside"]]
        plans = [row for row in both if row["beside"]["plan"]]  # the others are kernels of PyTorch's own
        ratios = {row["problem"]: row["beside"]["torch_over_best"] for row in plans}
        whole = {row["problem"]: row["beside"]["seconds"]["torch"] / min(value for name, value in row["beside"]["seconds"].items() if name != "torch")
                 for row in both}
        choices = [(row["problem"], row["cudnns_first_choice"]) for row in every if row["cudnns_first_choice"]]
        lost = sorted((each for each in choices if each[1]["over_best"] > 1.1), key=lambda each: -each[1]["over_best"])
        return {"problems": len(both), "with_a_plan_of_cudnns": len(plans), "partial": sum(row["partial"] for row in both),
                "geomean_torch_over_best": harness.geomean(list(ratios.values())), "least": min(ratios.values(), default=None),
                "slower_than_torch_beyond_noise": [[text, ratio] for text, ratio in ratios.items() if ratio < 1 / NOISE],
                "slower_than_kernels_of_pytorchs_own": [[row["problem"], row["beside"]["torch_over_best"]] for row in both
                                                        if row not in plans and row["beside"]["torch_over_best"] < 1 / NOISE],
                "with_own_engines": {"geomean": harness.geomean(list(whole.values())), "least": min(whole.items(), key=lambda each: each[1], default=None)},
                "torch_ran_a_plan_not_listed": [[row["problem"], row["beside"]["plan"]] for row in plans if not row["torch_plan_here"]["status"]],
                "dropped_rounds": sum(row["beside"]["dropped_rounds"] for row in both), "not_compared": [row for row in every if row not in both],
                "cudnn_heuristics_first_choices": len(choices),
                "without_cudnns_first_choice": [row["problem"] for row in every if not row["cudnns_first_choice"]],
                "cudnn_heuristic_loses_over_10_percent": [[text, choice["candidate"], choice["over_best"], choice["best"]]
                                                          for text, choice in lost], "rows": both,
                "broken": [row["broken"] for row in rows if "broken" in row]}


def loaded_libraries(texts, environment):
    """Bytes of the cuDNN libraries that a run maps, by looking while it runs."""
    seen = {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        child = subprocess.Popen([str(harness.CONVOY), "bench", file.name, "--device", "cuda", "--engines", "cudnn.eng*", "--budget", "20", "--json"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=harness.environment_of(environment))
        while child.poll() is None:
            try:
                for path in re.findall(r"\S*libcudnn\S*\.so\S*", pathlib.Path(f"/proc/{child.pid}/maps").read_text()):
                    seen[os.path.basename(path)] = os.path.getsize(path)
            except OSError:
                pass
            time.sleep(0.1)
    return seen


class JitOnly(harness.Step):
    """CUDNN_LIB_CONFIG=GRAPH_JIT_ONLY: engines lost, libraries not needed, time ratio a pass, over 20 problems"""
    jobs = 3
    environment = {"CUDNN_LIB_CONFIG": "GRAPH_JIT_ONLY"}

    def units(self):
        wanted = [t for t in problems.spread(harness.PROBLEMS, 26, 32, seed=6) if "s8" not in t]
        return ["libraries"] + harness.chunks(wanted[:20], 4)

    def run(self, unit):
        if unit == "libraries":
            texts = self.units()[1][:2]
            return {"libraries": {"FULL": loaded_libraries(texts, {}), "GRAPH_JIT_ONLY": loaded_libraries(texts, self.environment)}}
        both = [harness.convoy("bench", unit, "--engines", "cudnn.eng*", "--budget", 10 * len(unit), CONVOY_NVML="off", **e)
                for e in ({}, self.environment)]
        broken = next((each for each in both if "broken" in each), None)
        return broken or {"rows": [{"problem": full["problem"], "full": [c["candidate"] for c in harness.right(full)], "jit": [c["candidate"] for c in harness.right(jit)],
                                    "seconds": [harness.right(e)[0]["seconds"] if harness.right(e) else None for e in (full, jit)]}
                                   for full, jit in zip(both[0]["problems"], both[1]["problems"])]}

    def summary(self, rows):
        every = [r for row in rows for r in row.get("rows", [])]
        ratios = collections.defaultdict(list)
        for r in every:
            if all(r["seconds"]):
                ratios[r["problem"].split(":")[0]].append(r["seconds"][1] / r["seconds"][0])
        engine = lambda names: {name.split("{")[0] for name in names}  # noqa: E731
        libraries = next((row["libraries"] for row in rows if "libraries" in row), None)
        return {"engines_lost": sorted(set().union(*(engine(r["full"]) - engine(r["jit"]) for r in every)) if every else []),
                "time_ratio": {what: harness.geomean(values) for what, values in ratios.items()}, "libraries": libraries,
                "bytes_not_needed": libraries and sum(libraries["FULL"].values()) - sum(libraries["GRAPH_JIT_ONLY"].values()), "rows": every}


class Carveout(harness.Step):
    """a convolution asked for half of the SMs beside a kernel on the others, and without"""

    def units(self):
        return ["carveout"]

    def run(self, unit):
        code, out, err = harness.command([harness.ROOT / "tests/gpu_carveout"])
        return json.loads(out) if code == 0 else {"broken": {"exit_code": code, "stderr": (out + err)[-2000:]}}

    def summary(self, rows):
        return rows[0]


class Table(harness.Step):
    """the tuner's table of one layer, as people see it: times, energy, clocks, notes"""

    def units(self):
        return [problems.spread(harness.PROBLEMS, 40, 64, seed=7)[3]]

    def run(self, text):
        document = harness.convoy("bench", [text], "--budget", 60)
        return document

    def summary(self, rows):
        return rows[0]
