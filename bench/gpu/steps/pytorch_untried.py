"""Programs that nobody here had tried (bench/pytorch/untried.py, unseen.py), as somebody meets `convoy exec --tune` with them."""
import json
import os
import threading
import time

from steps import harness
from steps.pytorch import Driven, program, spread, under
from steps.pytorch_guest import lines_of, ran_in
from steps.pytorch_hook import replayed
from steps.pytorch_people import in_turns, ratio_of


class Untried(harness.Step):
    """programs from nothing, with their tensors as they are: the first iteration of cudnn.benchmark beside that of `exec --tune`, with and without
    --channels-last; then all in turns, replayed as CUDA graphs too, and after `convoy tune`; the bound"""
    jobs = int(os.environ.get("CONVOY_UNITS_BESIDE", 1))
    ROUNDS = int(os.environ.get("CONVOY_ROUNDS", 7))
    SECONDS = 0.3  # of steps a turn
    LIMIT = float(os.environ.get("CONVOY_UNIT_SECONDS", harness.UNIT_SECONDS))
    WITHOUT = os.environ.get("CONVOY_WITHOUT", "").split(";")  # of "channels last" and "tuned": after `convoy tune`, then the bound is not known either
    alone = {}  # by GPU: what takes times waits for another unit that does

    def units(self):
        return ["segformer", "dac", "mvit", "shufflenet", "wavenet", "unet3d", "rrdbnet", "ssdlite", "hifigan", "encodec", "vae3d_decoder", "r3d_18", "regnet_y_3_2gf", "s3d", "wav2letter"]

    def run(self, name):
        begun, late = [], []

        def end_all():
            for one in begun:
                if one.process.poll() is None:
                    one.process.kill()

        def end_late():
            late.append(True)
            end_all()

        limit = threading.Timer(self.LIMIT, end_late)
        limit.start()
        row = {"program": name}
        try:
            self.measured(name, begun, row)
        except (RuntimeError, BrokenPipeError, KeyError, ValueError) as error:
            row["broken"] = f"ended after {self.LIMIT:.0f} s" if late else str(error)[-2000:]
        finally:
            limit.cancel()
            end_all()
        return row

    def measured(self, name, begun, row):
        """Puts into `row` what is known by then."""
        end = time.monotonic() + self.LIMIT
        lock = self.alone.setdefault(getattr(harness.PLACE, "gpu", ""), threading.Lock())
        known = {"CONVOY_DB": str(harness.OUT / f"untried-{name}.db"), "CONVOY_KERNEL_CACHE": str(harness.OUT / f"untried-{name}-kernels")}
        record, script = harness.OUT / f"untried-{name}.jsonl", program("programs.py", name)

        def start(mode, *command, tuned=""):
            # What the driver compiles is kept for each alone.
            changes = {**known, "CUDA_CACHE_PATH": str(harness.OUT / f"untried-{name}-{mode}".replace(" ", "-")), "CONVOY_DB": known["CONVOY_DB"] + tuned}
            begun.append(Driven("env", *[f"{key}={value}" for key, value in changes.items()], *command))
            return begun[-1]

        tuning = ("--tune", 600, "--like-benchmark")
        driven = {"plain": start("plain", *script), "benchmark": start("benchmark", *script, "--benchmark"),
                  "exec": start("exec", *under(*tuning), *script)}
        tunes = "tuned" not in self.WITHOUT
        if tunes:
            driven["recorded"] = start("recorded", *under("--record", record), *script)
        if "channels last" not in self.WITHOUT:
            driven["channels last"] = start("channels last", *under(*tuning, "--channels-last"), *script, tuned=".last")
        for one in driven.values():
            one.said()
        with lock:
            first = {mode: driven[mode].ask("first") for mode in ("benchmark", "exec", "channels last", "plain") if mode in driven}
            row["first"] = {mode: each["seconds"] for mode, each in first.items()}
            if tunes:
                driven["recorded"].ask("steps 3")
                row["recorded"] = driven.pop("recorded").end()[-300:]
            row["losses"] = {mode: [first[mode]["loss"], *driven[mode].ask("steps 3")["losses"]] for mode in first}
            tuned = self.tuned(row, record, known, end) if tunes else None
        row["seen"] = ran_in(record)  # of three steps
        again = harness.OUT / f"untried-{name}-again.jsonl"
        if tuned is not None:
            driven["tuned"] = start("exec", *under("--like-benchmark", "--record", again, "--steer"), *script, tuned=".tuned")
            driven["tuned"].said()
        with lock:
            if tuned is not None:
                row["first"]["tuned, known"] = driven["tuned"].ask("first")["seconds"]
            self.put_times(row, in_turns(driven, tuple(driven), self.ROUNDS, self.SECONDS))
            if tuned is not None:
                saved = 1e3 * ((tuned.get("gain_seconds") or 0) + (tuned.get("elsewhere_seconds") or 0)) / 3
                row["bound_milliseconds"] = row["turns"]["milliseconds"]["plain"]["median"] - saved
            row["memory"] = {mode: one.ask("memory") for mode, one in driven.items()}
            row["replays"] = replayed(driven, list(driven), 6)
        row["said"] = {mode: one.end()[-800:] for mode, one in driven.items()}
        row["ran"] = [{key: each[key] for key in ("problem", "calls", "plans", "not_placed") if key in each} for each in lines_of(again) if "problem" in each]

    def tuned(self, row, record, known, end):
        """What `convoy tune RECORD` says, in a database and a kernel cache of its own."""
        begin = time.monotonic()
        _, out, err = harness.command([harness.CONVOY, "tune", record, "--device", "cuda", "--json"], seconds=max(1, end - time.monotonic()),
                                      CONVOY_DB=known["CONVOY_DB"] + ".tuned", CONVOY_KERNEL_CACHE=known["CONVOY_KERNEL_CACHE"] + "-tuned")
        row["tune_seconds"] = time.monotonic() - begin
        tuned = json.loads(out) if out.startswith("{") else {"failed": err[-600:]}
        row["tuned"] = {key: tuned.get(key) for key in ("measured", "partial", "seconds", "offered_seconds", "spent", "calls", "timed_calls", "seconds_of_what_ran", "gain_seconds",
                                                         "elsewhere_seconds", "failed")}
        row["problems"] = [{key: each.get(key) for key in ("problem", "calls", "ran", "ran_seconds", "best", "elsewhere", "partial", "inferred", "known")} for each in tuned.get("problems", [])]
        return tuned

    def put_times(self, row, rounds):
        modes = list(rounds[0])
        row["turns"] = {"milliseconds": {mode: spread([each[mode] for each in rounds]) for mode in modes}, "rounds": rounds,
                    "over the better": {mode: ratio_of([rounds], mode) for mode in modes if mode not in ("plain", "benchmark")}}

    def summary(self, rows):
        def short(row, key):
            return {mode: round(each["median"], 2) for mode, each in row.get(key, {}).get("milliseconds", {}).items()}

        return {"table": [[row["program"], row.get("broken"), {mode: round(each, 1) for mode, each in row.get("first", {}).items()}, round(row.get("tune_seconds", 0), 1),
                           round(row.get("bound_milliseconds", 0), 2), short(row, "turns"), short(row, "replays")] for row in rows], "rows": rows}
