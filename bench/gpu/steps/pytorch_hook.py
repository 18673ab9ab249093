"""Convolutions that PyTorch keeps for kernels of its own, under `convoy exec`, which puts a hook into PyTorch; and where a step's time goes."""
import json
import os
import statistics
import threading
import time

from steps import harness
from steps.pytorch import Driven, program, spread, together, under
from steps.pytorch_people import ratio_of
from steps.timed import timed_entry


def alone(name):
    """Database and kernel cache of a unit's own."""
    return {"CONVOY_DB": str(harness.OUT / f"{name}.db"), "CONVOY_KERNEL_CACHE": str(harness.OUT / f"{name}-kernels")}


class Own(harness.Step):
    """a database of its own for each unit; what breaks, or takes too long, is recorded"""
    LIMIT = float(os.environ.get("CONVOY_UNIT_SECONDS", harness.UNIT_SECONDS))

    def run(self, unit):
        name = "-".join(unit[1:]).replace("--", "")
        before = {key: os.environ.get(key) for key in alone(name)}
        os.environ.update(alone(name))
        self.begun, self.late = [], False
        limit = threading.Timer(self.LIMIT, self.end_late)
        limit.start()
        try:
            return {"unit": unit, **self.measured(name, program(unit[0], *unit[1:]))}
        except (RuntimeError, BrokenPipeError, KeyError, ValueError) as error:
            return {"unit": unit, "broken": f"ended after {self.LIMIT:.0f} s" if self.late else str(error)[-2000:]}
        finally:
            limit.cancel()
            self.end_all()
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})

    def end_all(self):
        for one in self.begun:
            if one.process.poll() is None:
                one.process.kill()

    def end_late(self):
        self.late = True
        self.end_all()

    def started(self, command):
        one = Driven(*command)
        self.begun.append(one)
        one.said()
        return one

    def recorded_and_tuned(self, name, script, seconds):
        """Three steps recorded, unless a run that was cut off has, then measured, for so many seconds or (None) as long as `convoy tune` takes: the record,
        and what tuning says."""
        record, said = harness.OUT / f"{name}.jsonl", ""
        if not record.exists():
            one = self.started(under("--record", record) + script)
            one.ask("first")
            one.ask("steps 2")
            said = one.end()[-600:]
        budget = [] if seconds is None else ["--budget", seconds]
        code, out, err = harness.command([harness.CONVOY, "tune", record, "--device", "cuda", *budget, "--json"], seconds=200)
        tuned = json.loads(out) if code == 0 else {"problems": [], "failed": err[-600:]}
        return record, tuned, said

    def together(self, commands):
        known = together(commands)
        self.begun += known.values()
        return known

    def summary(self, rows):
        return {"rows": rows}


def by_problem(tuned):
    """Of `convoy tune`'s document what it says of each problem."""
    keep = ("problem", "calls", "ran_seconds", "ran", "best", "elsewhere", "partial")
    return [{key: each.get(key) for key in keep} for each in tuned["problems"]]


TURNS = 7


def replayed(driven, modes, count=20):
    """Milliseconds of a captured step of each mode, in turns, and how many times as fast as the better of plain and benchmark it is; why one can't
    be captured."""
    turns, said = [], {}
    for number in range(TURNS):
        turn = {}
        for mode in modes if number % 2 == 0 else modes[::-1]:
            if mode in said:
                continue
            try:
                turn[mode] = driven[mode].ask(f"replays {count}")["milliseconds"]
            except RuntimeError as error:
                said[mode] = str(error)[-600:]
        turns.append(turn)
    captured = [mode for mode in modes if mode not in said]
    compared = [mode for mode in captured if mode not in ("plain", "benchmark")] if not said.keys() & {"plain", "benchmark"} else []
    return {"milliseconds": {mode: spread([turn[mode] for turn in turns]) for mode in captured}, "turns": turns,
            "over the better": {mode: ratio_of([turns], mode) for mode in compared}, **({"not captured": said} if said else {})}


def kept_by_pytorch(record):
    """The rows of PyTorch's own kernels."""
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return [row for row in rows if row.get("operations", "").startswith("aten::")]


class Hook(Own):
    """depthwise convolutions that PyTorch keeps: plain, benchmark, exec, exec without the hook, in turns; losses"""
    ROUNDS = int(os.environ.get("CONVOY_ROUNDS", 7))
    TUNING = float(os.environ.get("CONVOY_TUNING_SECONDS", 15))

    def units(self):
        return [["train.py", "mobilenet_v2", "bf16", "--contiguous"], ["train.py", "efficientnet_b0", "bf16", "--contiguous"],
                ["programs.py", "conv_tasnet"], ["programs.py", "causal_conv1d"], ["train.py", "mobilenet_v2", "tf32", "--contiguous"],
                ["programs.py", "causal_conv1d", "--compile", "default"], ["programs.py", "causal_conv1d", "--compile", "reduce-overhead"],
                ["programs.py", "causal_conv1d", "--compile", "max-autotune"], ["programs.py", "wav2vec2"]]

    def measured(self, name, script):
        record, tuned, said = self.recorded_and_tuned(name, script, self.TUNING)
        ran = harness.OUT / f"{name}-steered.jsonl"
        commands = {"plain": script, "benchmark": script + ["--benchmark"], "exec": under("--record", ran, "--steer") + script}
        more = "--no-python-hook" if kept_by_pytorch(record) else "--like-benchmark"
        commands[f"exec {more}"] = under(more) + script
        driven = self.together(commands)
        first = {mode: one.ask("first") for mode, one in driven.items()}
        losses = {mode: [*each.get("losses", [each.get("loss")]), *driven[mode].ask("steps 3")["losses"]] for mode, each in first.items()}
        count = max(3, round(400 / driven["plain"].ask("steps 3")["milliseconds"]))
        modes = list(commands)
        rounds = [{mode: driven[mode].ask(f"steps {count}")["milliseconds"] for mode in (modes if number % 2 == 0 else modes[::-1])} for number in range(self.ROUNDS)]
        memory = {mode: one.ask("memory") for mode, one in driven.items()} if script[1].name == "programs.py" else None
        host = {mode: one.ask(f"host {count}") for mode, one in driven.items()} if script[1].name == "programs.py" else None
        captured = replayed(driven, modes) if "--compile" not in script else None
        stderr = {mode: one.end()[-400:] for mode, one in driven.items()}
        better = min(("plain", "benchmark"), key=lambda mode: statistics.median(row[mode] for row in rounds))
        return {"milliseconds": {mode: spread([row[mode] for row in rounds]) for mode in modes}, "rounds": rounds, "losses": losses,
                "over the better": spread([row[better] / row["exec"] for row in rounds]), "first": {mode: each["seconds"] for mode, each in first.items()},
                "memory": memory, "host": host, "replays": captured, "recorded": kept_by_pytorch(record), "ran": kept_by_pytorch(ran),
                "tune_failed": tuned.get("failed"), "tuned": by_problem(tuned), "said": said, "stderr": stderr}


class Where(Own):
    """where the time of a step goes: of each convolution the GPU's time in the program, plain, in benchmark mode and steered, beside what was measured; the host's"""
    TUNING = float(os.environ.get("CONVOY_TUNING_SECONDS", 25))

    def units(self):
        return [["programs.py", name] for name in ("regnet_y_3_2gf", "s3d", "r3d_18", "conv_tasnet")]

    def measured(self, name, script):
        record, tuned, said = self.recorded_and_tuned(name, script, self.TUNING)
        steered = under("--like-benchmark", "--no-python-hook")
        ran = harness.OUT / f"{name}-steered.jsonl"
        commands = {"plain": script, "benchmark": script + ["--benchmark"],
                    "steered": under("--like-benchmark", "--no-python-hook", "--record", ran, "--steer") + script, "steered benchmark": steered + script + ["--benchmark"]}
        driven = self.together(commands)
        for one in driven.values():
            one.ask("first")
            one.ask("steps 3")
        convolutions = {mode: one.ask("convolutions 3") for mode, one in driven.items()}
        memory = {mode: one.ask("memory") for mode, one in driven.items()}
        host = {mode: [] for mode in driven}
        modes, end = list(driven), time.monotonic() + 25
        while time.monotonic() < end:
            for mode in (modes := modes[::-1]):
                host[mode].append(driven[mode].ask("host 10"))
        try:
            both = {mode: driven[mode].ask("past 6 10") for mode in ("steered", "steered benchmark")}
        except RuntimeError as error:
            both = str(error)[-600:]
        for one in driven.values():
            one.end()
        # Without fragments of segments: what is reserved is then what is needed.
        whole = ["env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]
        expandable = {}
        for mode in ("plain", "steered") if "regnet" in name else ():
            one = self.started((steered if mode == "steered" else []) + whole + script)
            one.ask("first")
            one.ask("steps 3")
            expandable[mode] = one.ask("memory")
            one.end()
        rows = [json.loads(line) for line in ran.read_text().splitlines()]
        plans = [{"problem": row["problem"], "calls": row["calls"], "plans": [plan for plan in row["plans"] if plan["calls"]]} for row in rows if "problem" in row]
        return {"convolutions": convolutions, "memory": memory, "host": host, "past": both, "memory_of_expandable_segments": expandable, "plans": plans, "said": said,
                "tuned": by_problem(tuned), "tune_failed": tuned.get("failed")}


def plans_of(record):
    """What ran, by problem."""
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return {row["problem"]: [{key: plan[key] for key in ("candidate", "calls", "substitute", "substituted") if key in plan} for plan in row["plans"] if plan["calls"]]
            for row in rows if "problem" in row}


class Replayed(Own):
    """programs whose steps wait for their host: a step, and the same captured into a CUDA graph, plain, in benchmark mode and steered; the bound"""
    def units(self):
        return [["programs.py", name] for name in ("s3d", "r3d_18", "conv_tasnet", "regnet_y_3_2gf", "diffusion_unet", "deeplabv3", "wav2letter", "causal_conv1d", "vae3d_decoder")]

    def measured(self, name, script):
        record, tuned, said = self.recorded_and_tuned(name, script, None)
        ran, chosen = (harness.OUT / f"{name}-{mode}.jsonl" for mode in ("steered", "benchmark"))
        driven = self.together({"plain": script, "benchmark": under("--record", chosen, "--no-python-hook") + script + ["--benchmark"],
                                "steered": under("--like-benchmark", "--record", ran, "--steer") + script,
                                "steered benchmark": under("--like-benchmark") + script + ["--benchmark"]})
        modes = list(driven)
        first, losses = {}, {}
        for mode, one in driven.items():
            begun = one.ask("first")
            first[mode], losses[mode] = begun["seconds"], [begun["loss"], *one.ask("steps 3")["losses"]]
        host = [{mode: driven[mode].ask("host 8") for mode in (modes if number % 2 == 0 else modes[::-1])} for number in range(3)]
        captured = replayed(driven, modes, 6)
        convolutions = {mode: one.ask("convolutions 3") for mode, one in driven.items()}
        stderr = {mode: one.end()[-400:] for mode, one in driven.items()}
        saved = {"gain": tuned.get("gain_seconds"), "elsewhere": tuned.get("elsewhere_seconds"), "of_what_ran": tuned.get("seconds_of_what_ran")}
        times = captured["milliseconds"]
        bound = times["plain"]["median"] - 1e3 * ((saved["gain"] or 0) + (saved["elsewhere"] or 0)) / 3 if "plain" in times else None
        return {"replays": captured, "bound_milliseconds": bound, "host": host, "seconds_of_three_steps": saved, "problems": len(tuned["problems"]), "tune_failed": tuned.get("failed"), "said": said,
                "stderr": stderr, "first": first, "losses": losses, "tuning": {key: tuned.get(key) for key in ("seconds", "measured", "partial", "offered_seconds")},
                "tuned": by_problem(tuned), "convolutions": convolutions, "ran": plans_of(ran), "benchmark ran": plans_of(chosen)}


class Causal(harness.Step):
    """causal Conv1d, 4 taps, 2,048 channels: cuda.depthwise and cuDNN's best as shares of a copy's speed, beside PyTorch's own kernel"""
    CHANNELS, TAPS, POSITIONS = 2048, 4, 65536
    SECONDS = float(os.environ.get("CONVOY_TUNING_SECONDS", 4))  # a problem

    def units(self):
        return [[type_, length] for type_ in ("bf16", "f32") for length in (1024, 8192, 65536)]

    def run(self, unit):
        type_, length = unit
        batch, more = self.POSITIONS // length, self.TAPS - 1
        code, out, err = harness.command(program("causal.py", type_, batch, self.CHANNELS, length, self.TAPS))
        if code != 0:
            return {"unit": unit, "broken": err[-800:]}
        torch = json.loads(out)
        texts = [f"{name}:x={type_},{batch}x{self.CHANNELS}x{length},{layout}:w={type_},{self.CHANNELS}x1x{self.TAPS}:y={type_},{batch}x{self.CHANNELS}x{length},{layout}:pad={more}/0:groups={self.CHANNELS}"
                 for layout in ("ncw", "nwc") for name in ("fprop", "dgrad", "wgrad")]
        document = harness.convoy("bench", texts, "--engines", "cudnn.*,cuda.depthwise", "--budget", self.SECONDS * len(texts), "--rotating", CONVOY_NVML="off")
        if "broken" in document:
            return {"unit": unit, **document}
        copied = 2 * batch * self.CHANNELS * length * {"bf16": 2, "f32": 4}[type_] / torch["copy"]  # seconds; wgrad reads as many bytes
        rows = [timed_entry(entry) for entry in document["problems"]]
        for row in rows:
            row["share"] = copied / row["cuda"]["seconds"] if row["cuda"] else None
        return {"unit": unit, "torch": torch, "copied_seconds": copied, "rows": rows}

    def summary(self, rows):
        shares = [each["share"] for row in rows for each in row.get("rows", []) if each["share"]]
        return {"least_share": min(shares, default=None), "geomean_share": harness.geomean(shares), "rows": rows}
