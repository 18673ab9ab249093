"""The steps of scripts/gpu-check: units() is a list that doesn't change, run(unit) what is kept of it, summary(rows) what is recorded."""
import collections
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import problems

HERE = pathlib.Path(__file__).resolve().parents[2]
BUNDLED = (HERE / "bin/convoy").exists()
ROOT = HERE if BUNDLED else HERE / "build"  # of programs, tests, lib
CONVOY, PROBLEMS = ROOT / "bin/convoy", HERE / "problems"
OUT = pathlib.Path(".")  # set by gpu-check
PLACE = threading.local()  # .gpu: the one that this thread's programs get, as CUDA_VISIBLE_DEVICES takes it
TESTS = ("cuda_test", "cuda_fake_test", "cuda_compiler_test", "cuda_reference_test", "cuda_depthwise_test", "cudnn_test",
         "select_device_test", "gpu_streams_test", "gpu_c_interface_test")
NO_GPU_NEEDED = ("DepthwiseKernels.CompileWithoutSpills", "WithCudnn.EveryListGivesGraphsInAllPassesAndTypes")  # they read the sources; CI runs them
COPY_BYTES, MULTIPLY_ADDS = 4.27e12, 67e12 / 2  # an H200's, a second: a copy, bytes read and written; f32
NOISE = 1.03
UNIT_SECONDS = 240  # a unit that takes longer is ended and recorded so


def environment_of(changes):
    """This process's, with the bundle's libraries and the GPU of the calling thread."""
    place = {"CUDA_VISIBLE_DEVICES": PLACE.gpu} if hasattr(PLACE, "gpu") else {}
    return {**os.environ, "LD_LIBRARY_PATH": f"{ROOT / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}", **place, **changes}


def command(arguments, seconds=UNIT_SECONDS, **environment):
    """(exit code, stdout, stderr); the exit code of what took too long is 124, of a program that there isn't 127."""
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=seconds,
                              env=environment_of(environment))
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace"), f"ended after {seconds} s"
    except FileNotFoundError as missing:
        return 127, "", str(missing)


def convoy(what, texts, *flags, seconds=UNIT_SECONDS, **environment):
    """A subcommand's document for a list of problems; {"broken": ...} where there is none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        code, out, err = command([CONVOY, what, file.name, "--device", "cuda", "--json", *flags], seconds, **environment)
    try:
        return json.loads(out)
    except ValueError:
        return {"broken": {"exit_code": code, "problems": texts, "stderr": err[-2000:]}}


def chunks(texts, size):
    return [texts[i:i + size] for i in range(0, len(texts), size)]


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def right(entry):
    return [c for c in entry["candidates"] if c["status"] == "ok"]


class Step:
    """What gpu-check asks of a step: units(), run(unit), summary(rows)."""
    jobs = 1  # so many units side by side on a GPU; what takes times there takes turns (device/cuda/turn.h)


class Tests(Step):
    """the unit tests of the device layer, engines and selection"""
    # One at a time: beside others a handle of cuDNN's may not get its streams.

    def units(self):
        return list(TESTS)

    def run(self, name):
        program = ROOT / "tests" / name
        if not program.exists():
            return {"test": name, "missing": True}
        code, out, err = command([program, f"--gtest_filter=-{':'.join(NO_GPU_NEEDED)}"], CONVOY_DATA="/nonexistent")
        skipped = sorted(set(re.findall(r"SKIPPED \] (\S+\.\S+)", out)))
        passed = re.search(r"PASSED\s+\] (\d+)", out)
        return {"test": name, "exit_code": code, "passed": int(passed[1]) if passed else 0, "skipped": skipped,
                "failed": sorted(set(re.findall(r"FAILED  \] (\S+\.\S+)", out)))[:50], "tail": "" if code == 0 else (out + err)[-2000:]}

    def summary(self, rows):
        return {"tests": rows, "failed": [row["test"] for row in rows if row.get("exit_code")],
                "skipped": [name for row in rows for name in row.get("skipped", [])],
                "missing": [row["test"] for row in rows if row.get("missing")]}


class Checked(Step):
    """Shared by the steps that compare every engine with the oracle."""
    jobs = 8
    flags = ("--all-engines",)
    size = 4
    repeats = 2

    def units(self):
        return chunks(self.problems(), self.size)

    def run(self, texts):
        document = convoy("verify", texts, "--repeat", self.repeats, "--repro-folder", OUT / "repro", *self.flags)
        if "broken" in document:
            return document
        # A candidate that loses the device takes the process's other problems along: those have another try.
        lost = [c["problem"] for c in document["checks"] if c["fault"] == "not_checked"]
        if lost and len(lost) < len(texts):
            rest = self.run(lost)
            document["checks"] = [c for c in document["checks"] if c["fault"] != "not_checked"] + rest.get("checks", [])
        return {"problems": texts, "checks": [
            {key: check.get(key) for key in ("problem", "candidate", "fault", "failure", "max_error", "deterministic") if check.get(key)}
            for check in document["checks"]],
            "refusals": collections.Counter(f"{r['engine'].split('.')[0]} {r['code']}" for r in document["refusals"]),
            "reasons": collections.Counter(f"{r['code']}: {re.sub('[0-9]+', 'N', r['reason'])[:90]}" for r in document["refusals"])
            .most_common(40), "unsupported": document["unsupported"]}

    def summary(self, rows):
        faults, refusals, reasons, engines = (collections.Counter() for _ in range(4))
        failures = []
        for row in rows:
            for check in row.get("checks", []):
                faults[check["fault"]] += 1
                engines[check.get("candidate", "none").split("{")[0]] += check["fault"] == "none"
                if check["fault"] != "none":
                    failures.append(check)
            refusals.update(row.get("refusals", {}))
            for reason, count in row.get("reasons", []):
                reasons[reason] += count
        return {"problems": sum(len(row.get("problems", [])) for row in rows), "candidates": sum(faults.values()),
                "by_fault": faults, "refused_by_code": refusals, "reasons": reasons.most_common(60), "right_by_engine": engines,
                "nothing_can": [text for row in rows for text in row.get("unsupported", [])], "failures": failures[:300],
                "broken": [row["broken"] for row in rows if "broken" in row]}


class Candidates(Checked):
    """165 problems of the lists, every engine by index at its default knobs"""

    def problems(self):
        return problems.spread(PROBLEMS)


class Random(Checked):
    """1,000 random problems, each engine once"""
    size = 20
    repeats = 1

    def problems(self):
        return problems.random_problems(1000)


class Repeatability(Checked):
    """20 executions of every engine that claims the same bits, on 30 problems"""
    repeats = 20
    size = 3

    def problems(self):
        return problems.spread(PROBLEMS, 30, 8, seed=3)

    def summary(self, rows):
        whole = super().summary(rows)
        whole["broke_their_promise"] = [f for f in whole["failures"] if f["fault"] == "other_bits"]
        return whole


class Large3d(Checked):
    """a 3D convolution of more than 2^31 elements with the heuristic's choice, and how it is split"""
    size = 1
    flags = ()
    repeats = 1

    def problems(self):
        return [problems.LARGE_3D]

    def run(self, texts):
        explained = convoy("explain", texts)
        return {**super().run(texts), "chosen": explained.get("problems", [{}])[0].get("chosen"),
                "advice": explained.get("problems", [{}])[0].get("advice")}

    def summary(self, rows):
        return {**super().summary(rows), "chosen": rows[0].get("chosen"), "advice": rows[0].get("advice")}


class Knobs(Step):
    """all knobs of all engines on 10 problems: which are right, as far as the budget goes; side by side, so their times say little"""
    jobs = 10

    def units(self):
        return problems.spread(PROBLEMS, 10, 16, seed=4)

    def run(self, text):
        document = convoy("bench", [text], "--engines", "cudnn.*", "--all-knobs", "--budget", 70, CONVOY_NVML="off")
        if "broken" in document:
            return document
        candidates = document["problems"][0]["candidates"]
        other = [c for c in candidates if c["status"] != "ok"]
        shown = [{key: c.get(key) for key in ("candidate", "status", "seconds", "reason")}
                 for c in right({"candidates": candidates})[:20] + [c for c in other if c["status"] == "wrong"][:100]]
        reasons = collections.Counter(f"{c['status']}: {re.sub('[0-9]+', 'N', (c.get('reason') or '').split(': ', 1)[-1])[:120]}" for c in other)
        return {"problem": text, "candidates": shown, "right": len(candidates) - len(other), "not_right": reasons.most_common(30),
                "engines": sorted({c["candidate"].split("{")[0] for c in candidates if c["status"] == "ok"})}

    def summary(self, rows):
        return {"problems": [row for row in rows if "broken" not in row], "broken": [row["broken"] for row in rows if "broken" in row]}


def timed_entry(entry):
    """What is kept of a problem that `convoy bench` timed."""
    candidates = right(entry)
    best = {kind: next((c for c in candidates if c["engine"].startswith(kind)), None) for kind in ("cudnn.", "cuda.")}
    pick = entry.get("heuristic") or {}
    return {"problem": entry["problem"], "pick": pick.get("candidate"), "over_best": pick.get("over_best"), "partial": entry["partial"],
            "right": len(candidates), "not_right": sum(c["status"] != "ok" for c in entry["candidates"]),
            **{kind.strip("."): best[kind] and {key: best[kind][key] for key in ("candidate", "seconds", "spread", "workspace_bytes")}
               for kind in best}}


def same_plan(entry, plan):
    """The candidate that is cuDNN's engine with these knobs; those that either leaves to cuDNN (-1) have no say."""
    def chosen(name):
        engine, _, knobs = name.rstrip("}").partition("{")
        return engine, {knob for knob in knobs.split(",") if knob and not knob.endswith("=-1")}
    return next((c for c in entry["candidates"] if plan and chosen(c["candidate"]) == chosen(plan)), None)


class Torch(Step):
    """the fastest of cuDNN's engines beside PyTorch's cudnn.benchmark, in one process; what cuDNN's heuristic loses"""
    jobs = 3
    finalists = 8  # of those within 10% of the fastest; which is the fastest is then measured beside PyTorch

    def units(self):
        # PyTorch lets 16-bit convolutions keep 16-bit sums: the same is allowed here, or the problems would not be the same.
        wanted = [t + ":math=reduced" * ("=f16" in t or "=bf16" in t) for t in problems.spread(PROBLEMS, 110, 32, seed=5)
                  if "s8" not in t.split(":")[1]]
        return chunks(wanted[:96], 8)

    def first_choices(self, texts):
        """What cuDNN's heuristics name first of what takes a problem, with nothing measured."""
        document = convoy("explain", texts, "--engines", "cudnn.eng*", CONVOY_DB=str(OUT / "none.db"))
        return {entry["problem"]: entry["chosen"]["candidate"] for entry in document.get("problems", []) if entry["chosen"]}

    def own(self, texts):
        """The fastest of Convoy's own engines, for the problems they are for."""
        document = convoy("bench", texts, "--engines", "cuda.depthwise", "--budget", 5 * len(texts), CONVOY_NVML="off")
        return {entry["problem"]: right(entry)[0]["candidate"] for entry in document.get("problems", []) if right(entry)}

    def beside(self, entries, own):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for entry in entries:
                fast = [c["candidate"] for c in right(entry) if c["seconds"] < 1.1 * right(entry)[0]["seconds"]]
                others = [own[entry["problem"]]] if entry["problem"] in own else []
                file.write(json.dumps({"problem": entry["problem"], "candidates": fast[:self.finalists], "others": others}) + "\n")
            file.flush()
            code, out, err = command(["python3", HERE / "bench/gpu/beside_torch.py", file.name, ROOT / "lib/libconvoy.so"],
                                     LD_PRELOAD=str(ROOT / "tests/gpu_executed_plan.so"))
        return {row["problem"]: row for row in map(json.loads, out.splitlines())}, f"{code}: {err[-1000:]}"

    def run(self, texts):
        document = convoy("bench", texts, "--engines", "cudnn.*", "--budget", 15 * len(texts), CONVOY_NVML="off")
        if "broken" in document:
            return document
        beside, message = self.beside(document["problems"], self.own(texts))
        first = self.first_choices(texts)
        rows = []
        for entry in document["problems"]:
            found = beside.get(entry["problem"], {"error": message})
            plan = same_plan(entry, found.get("plan")) or {}
            unconverted = [c for c in right(entry) if c["engine"] != "cudnn.nhwc"]
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
                "geomean_torch_over_best": geomean(list(ratios.values())), "least": min(ratios.values(), default=None),
                "slower_than_torch_beyond_noise": [[text, ratio] for text, ratio in ratios.items() if ratio < 1 / NOISE],
                "slower_than_kernels_of_pytorchs_own": [[row["problem"], row["beside"]["torch_over_best"]] for row in both
                                                        if row not in plans and row["beside"]["torch_over_best"] < 1 / NOISE],
                "with_own_engines": {"geomean": geomean(list(whole.values())), "least": min(whole.items(), key=lambda each: each[1], default=None)},
                "torch_ran_a_plan_not_listed": [[row["problem"], row["beside"]["plan"]] for row in plans if not row["torch_plan_here"]["status"]],
                "dropped_rounds": sum(row["beside"]["dropped_rounds"] for row in both), "not_compared": [row for row in every if row not in both],
                "cudnn_heuristics_first_choices": len(choices),
                "without_cudnns_first_choice": [row["problem"] for row in every if not row["cudnns_first_choice"]],
                "cudnn_heuristic_loses_over_10_percent": [[text, choice["candidate"], choice["over_best"], choice["best"]]
                                                          for text, choice in lost], "rows": both,
                "broken": [row["broken"] for row in rows if "broken" in row]}


class Depthwise(Step):
    """cuda.depthwise beside cuDNN's engines, executions in a row: HOPPER.md's rows, and all layers at batch 128"""
    jobs = 7
    caches = "rotating"
    rows = True
    batches = (128,)
    tries = 3

    def units(self):
        units = [["rows", chunk] for chunk in chunks(list(problems.DEPTHWISE_ROWS), 4)] if self.rows else []
        for batch in self.batches:
            units += [[batch, chunk] for chunk in chunks([text for text, *_ in problems.depthwise(PROBLEMS, batch)], 12)]
        return units

    def run(self, unit):
        batch, todo = unit
        entries = {}
        for _ in range(self.tries):  # where the budget ended, another run goes on from the database
            document = convoy("bench", todo, "--engines", "cudnn.*,cuda.depthwise", "--budget", 15 * len(todo), f"--{self.caches}",
                              CONVOY_NVML="off")
            if "broken" in document:
                return document
            entries |= {entry["problem"]: entry for entry in document["problems"]}
            todo = [text for text, entry in entries.items() if entry["partial"]]
            if not todo:
                break
        return {"batch": batch, "rows": [timed_entry(e) for e in entries.values()]}

    def summary(self, rows):
        result = {"caches": self.caches, "rows": [], "batches": {},
                  "partial": [r["problem"] for row in rows for r in row.get("rows", []) if r["partial"]], "broken": [row["broken"] for row in rows if "broken" in row]}
        for batch in self.batches:
            floor = {text: max(size / COPY_BYTES, flops / 2 / MULTIPLY_ADDS) for text, flops, size in problems.depthwise(PROBLEMS, batch)}
            mine = [r for row in rows if row.get("batch") == batch for r in row["rows"] if r["cuda"]]
            both = [r for r in mine if r["cudnn"]]
            speedups = [r["cudnn"]["seconds"] / r["cuda"]["seconds"] for r in both]
            shares = [floor[r["problem"]] / r["cuda"]["seconds"] for r in mine]
            forms = collections.defaultdict(list)
            for r, speedup, share in zip(both, speedups, (floor[r["problem"]] / r["cuda"]["seconds"] for r in both)):
                what, x = r["problem"].split(":")[:2]
                forms[" ".join((what, *x[2:].split(",")[::2]))].append((speedup, share))
            union = [r["cudnn"]["seconds"] / min(r["cuda"]["seconds"], r["cudnn"]["seconds"]) for r in both]
            result["batches"][batch] = {
                "problems": len(mine), "with_cudnn": len(both), "geomean_over_cudnn": geomean(speedups), "geomean_share_of_floor": geomean(shares),
                "geomean_of_the_faster_over_cudnn": geomean(union), "cudnn_faster_beyond_noise": sum(value < 1 / NOISE for value in speedups),
                "by_form": {form: {"problems": len(pairs), "over_cudnn": geomean([pair[0] for pair in pairs]),
                                   "share_of_floor": geomean([pair[1] for pair in pairs])} for form, pairs in sorted(forms.items())},
                "layers": [[r["problem"], r["cuda"]["candidate"], r["cuda"]["seconds"], r["cudnn"]["candidate"], r["cudnn"]["seconds"]]
                           for r in both],
                "slowest": sorted(([r["problem"], r["cuda"]["seconds"], r["cudnn"]["seconds"]] for r in both),
                                  key=lambda r: r[2] / r[1])[:20]}
        for row in rows:
            for r in row["rows"] if row.get("batch") == "rows" else []:
                result["rows"].append({**r, "aim_microseconds": problems.DEPTHWISE_ROWS[r["problem"]],
                                       "microseconds": r["cuda"] and r["cuda"]["seconds"] * 1e6})
        return result


class DepthwiseSmall(Depthwise):
    """the same at batch 32 and 1"""
    rows = False
    batches = (32, 1)


class DepthwiseCold(Depthwise):
    """the same at batch 128, 32 and 1, single executions with the caches as a producer leaves them"""
    caches = "cold"
    batches = (128, 32, 1)


class DepthwiseRandom(Step):
    """5,000 random depthwise problems, more than 2^31 elements, the same bits over 100 runs; the sanitizers on a sample"""

    jobs = 8
    parts = 10  # of the test's problems

    def units(self):
        alone = ["*OnTensorCores*", "*Bands*", "*TheSameBits*", "*RightAbove*"]
        filters = [f"Part/*/{part}" for part in range(self.parts)] + alone + ["-" + ":".join(["Part/*", *alone, *NO_GPU_NEEDED])]
        return [["test", each] for each in filters] + [["memcheck", "Part/*/0"], ["racecheck", "Part/*/1"]]

    def run(self, unit):
        what, filter = unit
        program = [ROOT / "tests/cuda_depthwise_test", "--gtest_brief=1", f"--gtest_filter={filter}"]
        if what == "test":
            code, out, err = command(program, 540, CONVOY_TEST_FULL="1")
        elif shutil.which("compute-sanitizer") is None:
            return {"what": what, "not_run": "there is no compute-sanitizer here"}
        else:
            code, out, err = command(["compute-sanitizer", "--tool", what, "--error-exitcode", "9", *program], 540)
        return {"what": what, "tests": filter, "exit_code": code, "tail": (out + err)[-1500:]}

    def summary(self, rows):
        return {"units": rows}


def loaded_libraries(texts, environment):
    """Bytes of the cuDNN libraries that a run maps, by looking while it runs."""
    seen = {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        child = subprocess.Popen([str(CONVOY), "bench", file.name, "--device", "cuda", "--engines", "cudnn.eng*", "--budget", "20", "--json"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment_of(environment))
        while child.poll() is None:
            try:
                for path in re.findall(r"\S*libcudnn\S*\.so\S*", pathlib.Path(f"/proc/{child.pid}/maps").read_text()):
                    seen[os.path.basename(path)] = os.path.getsize(path)
            except OSError:
                pass
            time.sleep(0.1)
    return seen


class JitOnly(Step):
    """CUDNN_LIB_CONFIG=GRAPH_JIT_ONLY: engines lost, libraries not needed, time ratio a pass, over 20 problems"""
    jobs = 3
    environment = {"CUDNN_LIB_CONFIG": "GRAPH_JIT_ONLY"}

    def units(self):
        wanted = [t for t in problems.spread(PROBLEMS, 26, 32, seed=6) if "s8" not in t]
        return ["libraries"] + chunks(wanted[:20], 4)

    def run(self, unit):
        if unit == "libraries":
            texts = self.units()[1][:2]
            return {"libraries": {"FULL": loaded_libraries(texts, {}), "GRAPH_JIT_ONLY": loaded_libraries(texts, self.environment)}}
        both = [convoy("bench", unit, "--engines", "cudnn.eng*", "--budget", 10 * len(unit), CONVOY_NVML="off", **e)
                for e in ({}, self.environment)]
        broken = next((each for each in both if "broken" in each), None)
        return broken or {"rows": [{"problem": full["problem"], "full": [c["candidate"] for c in right(full)], "jit": [c["candidate"] for c in right(jit)],
                                    "seconds": [right(e)[0]["seconds"] if right(e) else None for e in (full, jit)]}
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
                "time_ratio": {what: geomean(values) for what, values in ratios.items()}, "libraries": libraries,
                "bytes_not_needed": libraries and sum(libraries["FULL"].values()) - sum(libraries["GRAPH_JIT_ONLY"].values()), "rows": every}


class Carveout(Step):
    """a convolution asked for half of the SMs beside a kernel on the others, and without"""

    def units(self):
        return ["carveout"]

    def run(self, unit):
        code, out, err = command([ROOT / "tests/gpu_carveout"])
        return json.loads(out) if code == 0 else {"broken": {"exit_code": code, "stderr": (out + err)[-2000:]}}

    def summary(self, rows):
        return rows[0]


class Table(Step):
    """the tuner's table of one layer, as people see it: times, energy, clocks, notes"""

    def units(self):
        return [problems.spread(PROBLEMS, 40, 64, seed=7)[3]]

    def run(self, text):
        document = convoy("bench", [text], "--budget", 60)
        return document

    def summary(self, rows):
        return rows[0]


STEPS = {"tests": Tests, "table": Table, "torch": Torch, "depthwise": Depthwise, "depthwise-small": DepthwiseSmall, "depthwise-cold": DepthwiseCold,
         "candidates": Candidates, "large-3d": Large3d,
         "repeatability": Repeatability, "jit-only": JitOnly, "carveout": Carveout, "depthwise-random": DepthwiseRandom, "knobs": Knobs,
         "random": Random}
