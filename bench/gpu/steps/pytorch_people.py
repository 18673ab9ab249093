"""PyTorch programs as people have them (bench/pytorch/programs.py), beside benchmark mode."""
import json
import math
import os
import statistics
import tempfile
import time

from steps import harness
from steps.pytorch import Driven, program, spread, together, under

NAMES = ("r3d_18", "regnet_y_3_2gf", "conv_tasnet", "causal_conv1d", "vae3d_decoder", "wav2letter", "s3d", "deeplabv3", "retinanet", "diffusion_unet")


class People(harness.Step):
    """programs as people have them: from nothing until level with cudnn.benchmark; then plain, benchmark and both steered, in turns; the bound"""
    ROUNDS = int(os.environ.get("CONVOY_ROUNDS", 7))
    SECONDS = 0.4  # of steps a turn
    TUNING = float(os.environ.get("CONVOY_TUNING_SECONDS", 15))  # beyond what is measured while a program waits
    # Whose steps wait for their host, so that processes of one mode differ: so many of each.
    PROCESSES = {"regnet_y_3_2gf": 5, "s3d": 5} if ROUNDS == 7 else {}

    def units(self):
        return list(NAMES)

    def run(self, name):
        self.begun, self.caches = [], []
        # A database and a kernel cache of its own: nothing is known of a program before its turn.
        changes = {"CONVOY_DB": str(harness.OUT / f"people-{name}.db"), "CONVOY_KERNEL_CACHE": str(harness.OUT / f"people-{name}-kernels"), "CUDA_CACHE_PATH": ""}
        before = {key: os.environ.get(key) for key in changes}
        os.environ.update(changes)
        try:
            return self.measured(name)
        except (RuntimeError, BrokenPipeError, KeyError, ValueError) as error:
            return {"program": name, "broken": str(error)[-2000:]}
        finally:
            for one in self.begun:
                if one.process.poll() is None:
                    one.process.kill()
            for cache in self.caches:
                cache.cleanup()
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})

    def started(self, *command):
        one = Driven(*command)
        self.begun.append(one)
        one.said()
        return one

    def from_nothing(self, *command):
        """The program, and its first step: seconds of the step, and since the command began. What the driver compiled for others it doesn't find."""
        self.caches.append(tempfile.TemporaryDirectory())
        os.environ["CUDA_CACHE_PATH"] = self.caches[-1].name
        start = time.monotonic()
        one = self.started(*command)
        first = one.ask("first")
        return one, {"step": first["seconds"], "since_start": time.monotonic() - start, "loss": first["loss"]}

    def measured(self, name):
        # All on the same processors, whose neighbours (odd ones are the same cores) stay free: most of these steps wait for their host.
        processors = sorted(os.sched_getaffinity(0))
        script = ["taskset", "-c", ",".join(map(str, processors[:8:2])), *program("programs.py", name)]
        record = harness.OUT / f"people-{name}.jsonl"
        firsts, driven = {}, {}
        driven["benchmark"], firsts["benchmark"] = self.from_nothing(*script, "--benchmark")
        driven["tuned while it waits"], firsts["tuned while it waits"] = self.from_nothing(*under("--tune", 600, "--like-benchmark"), *script)
        recorded, firsts["plain"] = self.from_nothing(*under("--record", record), *script)
        recorded.ask("steps 2")
        recorded.end()
        level = {mode: driven[mode].ask("steps 5") for mode in ("tuned while it waits", "benchmark", "tuned while it waits", "benchmark")}
        said = {"tuned while it waits": driven.pop("tuned while it waits").end()[-600:]}
        code, out, err = harness.command([harness.CONVOY, "tune", record, "--device", "cuda", "--budget", self.TUNING, "--json"], seconds=300)
        if not record.exists():  # PyTorch kept all of its convolutions to itself
            tuned = {"problems": [], "seconds_of_what_ran": 0, "gain_seconds": 0, "elsewhere_seconds": 0}
        else:
            tuned = json.loads(out)
        kept = ("measured", "partial", "seconds", "offered_seconds", "calls", "timed_calls", "seconds_of_what_ran", "gain_seconds", "elsewhere_seconds", "spent")
        steered = under("--like-benchmark")
        commands = {"plain": script, "steered": steered + script, "steered benchmark": steered + script + ["--benchmark"]}
        known = self.together(commands)
        driven.update(known)
        for mode, one in known.items():
            firsts[f"{mode}, known"] = {"step": one.ask("first")["seconds"]}
        modes = ("plain", "benchmark", "steered", "steered benchmark")
        processes = [in_turns(driven, modes, self.ROUNDS, self.SECONDS)]
        kernels = {mode: driven[mode].ask("kernels 3") for mode in modes}
        memory = {mode: driven[mode].ask("memory") for mode in modes}
        said.update({mode: driven[mode].end()[-300:] for mode in modes})
        for _ in range(1, self.PROCESSES.get(name, 1)):
            again = self.together({"benchmark": script + ["--benchmark"], "plain": script, "steered": steered + script})
            for one in again.values():
                one.ask("first")
            processes.append(in_turns(again, modes[:3], 3, self.SECONDS))
            for one in again.values():
                one.end()
        times = {mode: [row[mode] for rounds in processes for row in rounds if mode in row] for mode in modes}
        saved = 1e3 * (tuned["gain_seconds"] + tuned["elsewhere_seconds"]) / 3  # of three recorded steps
        return {"program": name, "first": firsts, "level": {mode: each["each"] for mode, each in level.items()},
                "tuned": {key: tuned.get(key) for key in kept}, "problems": len(tuned["problems"]), "milliseconds": {mode: spread(times[mode]) for mode in modes},
                "kernels": kernels, "memory": memory, "rounds": processes, "bound_milliseconds": statistics.median(times["plain"]) - saved,
                "convolutions_milliseconds": 1e3 * tuned["seconds_of_what_ran"] / 3,
                "ratio": {"steered": ratio_of(processes, "steered"), "steered benchmark": ratio_of(processes[:1], "steered benchmark")}, "said": said, "tune_said": err[-600:]}

    def together(self, commands):
        known = together(commands)
        self.begun += known.values()
        return known

    def summary(self, rows):
        table = [row if "broken" in row else
                 [row["program"], row["problems"], {mode: round(each["median"], 2) for mode, each in row["milliseconds"].items()}, round(row["bound_milliseconds"], 2),
                  {mode: [round(each, 3) for each in ratio] for mode, ratio in row["ratio"].items()},
                  {mode: round(each["milliseconds"], 2) for mode, each in row["kernels"].items()},
                  {mode: [round((row["memory"][mode][key] or 0) / 2**20) for key in ("allocated", "reserved", "process")] for mode in row["memory"]},
                  {mode: [round(each[key], 1) for key in ("step", "since_start") if key in each] for mode, each in row["first"].items()}] for row in rows]
        return {"table": table, "rows": rows}


def in_turns(driven, modes, rounds, seconds):
    """Milliseconds a step of each mode, so many rounds of so many seconds a turn."""
    count = max(3, round(1e3 * seconds / driven["plain"].ask("steps 3")["milliseconds"]))
    for mode in modes:
        driven[mode].ask("steps 3")
    return [{mode: driven[mode].ask(f"steps {count}")["milliseconds"] for mode in (modes if number % 2 == 0 else reversed(modes))} for number in range(rounds)]


STUDENTS_T = {5: 2.776, 7: 2.447, 21: 2.086}  # of so many values, 95%


def ratio_of(processes, mode):
    """How many times as fast as the better of plain and benchmark: the mean of the rounds' ratios, or of the processes' where there are several, and the
    ends of its 95% interval."""
    everything = [row for rounds in processes for row in rounds]
    better = min(("plain", "benchmark"), key=lambda each: statistics.median(row[each] for row in everything))
    logarithms = [[math.log(row[better] / row[mode]) for row in rounds] for rounds in processes]
    values = logarithms[0] if len(processes) == 1 else [statistics.fmean(each) for each in logarithms]
    mean, error = statistics.fmean(values), STUDENTS_T[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return [math.exp(mean), math.exp(mean - error), math.exp(mean + error)]
