"""Networks of PyTorch (bench/pytorch/train.py), plain and under `convoy exec`: training, inference, first iterations."""
import collections
import math
import os
import statistics

from steps import harness
from steps.pytorch import program, spread, together, tune, under


class Networks(harness.Step):
    """training steps: plain, cudnn.benchmark, and both under `convoy exec`, in turns; losses and first iterations"""
    NAMES = ("resnet50", "resnext50", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "unet", "unet3d")
    ROUNDS = 6
    SECONDS = 0.4  # of steps a turn
    TUNING = float(os.environ.get("CONVOY_TUNING_SECONDS", 40))  # a network and type

    def units(self):
        return [[name, type_] for type_ in ("bf16", "tf32") for name in self.NAMES]

    def run(self, unit):
        try:
            return self.measured(*unit)
        except (RuntimeError, BrokenPipeError) as error:
            return {"network": unit[0], "type": unit[1], "broken": str(error)}

    def measured(self, name, type_):
        record = harness.OUT / f"{name}-{type_}.jsonl"
        script = program("train.py", name, type_)
        if not record.exists():
            for one in together({"record": under("--record", record) + script}).values():
                one.ask("first")
                one.ask("steps 2")
                one.end()
        tuned = tune(record, self.TUNING)
        modes = {"plain": script, "steered": under() + script, "benchmark": script + ["--benchmark"],
                 "steered benchmark": under() + script + ["--benchmark"]}
        # First iterations one after another, each of a process of its own, in mirrored order.
        driven = together({**modes, "other plain": script, "other steered": under() + script})
        begun = {}
        for mode in ("other plain", "other steered", "steered", "plain", "benchmark", "steered benchmark"):
            begun[mode] = driven[mode].ask("first")
            if mode not in modes:
                driven.pop(mode).end()
        firsts = {mode: [begun[each]["seconds"] for each in (mode, f"other {mode}") if each in begun] for mode in modes}
        losses = {mode: begun[mode]["losses"] for mode in modes}
        count = max(3, round(1e3 * self.SECONDS / driven["plain"].ask("steps 3")["milliseconds"]))
        for mode in list(modes)[1:]:
            driven[mode].ask("steps 3")
        rounds = []
        for number in range(self.ROUNDS):
            order = list(modes) if number % 2 == 0 else list(reversed(modes))
            row = {}
            for mode in order:
                answer = driven[mode].ask(f"steps {count}")
                row[mode] = answer["milliseconds"]
                if number == 0:
                    losses[mode] += answer["losses"]
            rounds.append(row)
        said = {mode: each.end()[-300:] for mode, each in driven.items()}
        return {"network": name, "type": type_, "tuned": tuned, "said": said, "steps_a_turn": count,
                "milliseconds": {mode: spread([row[mode] for row in rounds]) for mode in modes},
                "steered_over_plain": spread([row["plain"] / row["steered"] for row in rounds]),
                "steered_over_benchmark": spread([row["benchmark"] / row["steered benchmark"] for row in rounds]),
                "first_seconds": firsts, "losses": losses}

    def summary(self, rows):
        table = []
        for row in rows:
            if "broken" in row:
                table.append(row)
                continue
            plain = row["losses"]["plain"]
            apart = {mode: max(abs(a - b) / abs(b) for a, b in zip(values, plain)) for mode, values in row["losses"].items() if mode != "plain"}
            first = row["first_seconds"]
            table.append({"network": row["network"], "type": row["type"],
                          "milliseconds": {mode: round(each["median"], 3) for mode, each in row["milliseconds"].items()},
                          "times_as_fast_as_plain": round(row["steered_over_plain"]["median"], 4),
                          "times_as_fast_as_benchmark": round(row["steered_over_benchmark"]["median"], 4),
                          "first_steered_over_plain": round(min(first["steered"]) / min(first["plain"]), 3),
                          "first_seconds": first, "losses_apart": apart})
        good = [row for row in table if "broken" not in row]
        return {"below_0.99": [[row["network"], row["type"]] for row in good
                               if min(row["times_as_fast_as_plain"], row["times_as_fast_as_benchmark"]) < 0.99],
                "first_above_1.2": [[row["network"], row["type"]] for row in good if row["first_steered_over_plain"] > 1.2],
                "broken": len(table) - len(good), "table": table, "rows": rows}


class Depthwise(Networks):
    """networks with depthwise layers, tuned for as long as it takes: training steps eager and captured, and patched by convoy.torch"""
    NAMES = ("convnext_tiny", "mobilenet_v2", "efficientnet_b0")
    TUNING = float(os.environ["CONVOY_TUNING_SECONDS"]) if "CONVOY_TUNING_SECONDS" in os.environ else None

    def units(self):
        units = [[name, type_, what] for what in ("training", "captured", "contiguous") for name in self.NAMES for type_ in ("bf16", "tf32")]
        return units + [["convnext_tiny", "bf16-weights", "training"], ["convnext_tiny", "bf16-weights", "batch 256"]]

    def measured(self, name, type_, what):
        script = program("train.py", name, type_, *(["--contiguous"] if what == "contiguous" else []),
                         *(["--batch", 256] if what == "batch 256" or name != "convnext_tiny" else []))
        record = harness.OUT / f"{name}-{type_}{'' if what in ('training', 'captured') else '-' + what.replace(' ', '-')}.jsonl"
        if not record.exists():
            for one in together({"record": under("--record", record) + script}).values():
                for command in ("first", "steps 2"):
                    one.ask(command)
                one.end()
        tuned = tune(record, self.TUNING)
        modes = {"plain": script, "benchmark": script + ["--benchmark"], "steered": under() + script,
                 "steered benchmark": under() + script + ["--benchmark"], "patched": script + ["--patch"]}
        if what == "captured":  # a captured step keeps its activations: five do not fit on one GPU
            del modes["steered benchmark"], modes["patched"]
        commands = ["replays 10" if what == "captured" else "steps 10"]
        driven = together(modes)
        first = {mode: each.ask("first") for mode, each in driven.items()}
        times = {}
        for command in commands:
            for mode, each in driven.items():
                each.ask(command)
            rounds = [{mode: driven[mode].ask(command)["milliseconds"] for mode in (modes if number % 2 == 0 else reversed(modes))} for number in range(6)]
            times[command] = {mode: {**spread([row[mode] for row in rounds]),
                                     "times_as_fast": spread([min(row["plain"], row["benchmark"]) / row[mode] for row in rounds])["median"],
                                     "as_the_same_mode": spread([row[mode.replace("steered ", "").replace("steered", "plain").replace("patched", "plain")]
                                                                 / row[mode] for row in rounds])["median"]} for mode in modes}
        losses = {} if what == "captured" else {mode: each.ask("steps 20")["losses"] for mode, each in driven.items()}
        report = driven["patched"].ask("report") if "patched" in driven else None
        return {"network": name, "type": type_, "what": what, "tuned": tuned, "first_seconds": {mode: each["seconds"] for mode, each in first.items()},
                "milliseconds": times, "losses": losses, "patched_report": report, "said": {mode: each.end()[-300:] for mode, each in driven.items()}}

    def summary(self, rows):
        return {"table": [row if "broken" in row else [row["network"], row["type"], row["what"],
                                                       {command: {mode: [round(each["times_as_fast"], 3), round(each["as_the_same_mode"], 3)]
                                                                  for mode, each in modes.items()}
                                                        for command, modes in row["milliseconds"].items()}] for row in rows], "rows": rows}


class Inference(Networks):
    """inference at batch 1 and 64, eager and captured: three processes plain and steered, of each the least of eight turns"""
    ROUNDS = 8
    BATCHES = collections.defaultdict(lambda: (1, 64), unet3d=(1, 4))
    COUNTS = {1: 30, 4: 5, 64: 8}

    def measured(self, name, type_):
        few, many = self.BATCHES[name]
        script = program("train.py", name, type_, "--batch", many)
        record = harness.OUT / f"{name}-{type_}-inference.jsonl"
        if not record.exists():
            for one in together({"record": under("--record", record) + script}).values():
                one.ask(f"infer 2 {few}")
                one.ask(f"infer 2 {many}")
                one.end()
        tuned = tune(record, self.TUNING)
        modes = {"plain": script, "benchmark": script + ["--benchmark"], "steered": under() + script,
                 "steered benchmark": under() + script + ["--benchmark"]}
        processes = {mode: 1 if "--benchmark" in command else 3 for mode, command in modes.items()}  # (Benchmark mode takes half a minute to begin.)
        # (Those of a mode are not started together: on a busy host the first to start may be the fastest.)
        driven = together({(mode, number): command for number in range(3) for mode, command in modes.items() if number < processes[mode]})
        times = {}
        for what in ("infer", "infer_replays"):
            for batch in (few, many):
                command = f"{what} {self.COUNTS[batch]} {batch}"
                turns = [{one: driven[one].ask(command)["milliseconds"] for one in (driven if number % 2 else reversed(driven))}
                         for number in range(self.ROUNDS + 1)][1:]
                least = {one: min(turn[one] for turn in turns) for one in driven}
                times[f"{'captured' if what == 'infer_replays' else 'eager'}, batch {batch}"] = {
                    mode: spread([least[mode, number] for number in range(processes[mode])]) for mode in modes}
        for each in driven.values():
            each.end()
        return {"network": name, "type": type_, "tuned": tuned, "milliseconds": times}

    def summary(self, rows):
        table = []
        for row in rows:
            if "broken" in row:
                table.append(row)
                continue
            for what, modes in row["milliseconds"].items():
                at = {mode: each["median"] for mode, each in modes.items()}
                table.append({"network": row["network"], "type": row["type"], "what": what, "milliseconds": {mode: round(value, 4) for mode, value in at.items()},
                              "steered_over_plain": round(at["plain"] / at["steered"], 3),
                              "steered_over_benchmark": round(at["benchmark"] / at["steered benchmark"], 3),
                              "best_of_both": round(min(at["plain"], at["benchmark"]) / min(at["steered"], at["steered benchmark"]), 3)})
        return {"broken": [row for row in table if "broken" in row], "table": table, "rows": rows}


class Eager(Networks):
    """eager inference at batch 1, which waits for the host, tuned for that. Processes of one mode differ by a tenth, so both modes are timed in one:
    two threads take turns on one processor, and one of them calls cuDNN itself (redirected.py). And how many kernels either launches"""
    PROCESSES, ROUNDS = 6, 80

    def measured(self, name, type_):
        script = program("train.py", name, type_, "--batch", 1)
        record = harness.OUT / f"{name}-{type_}-batch-1.jsonl"
        if not record.exists():
            for one in together({"record": under("--record", record) + script}).values():
                one.ask("infer 2 1")
                one.end()
        tuned = tune(record, self.TUNING)
        kernels = {}
        processors = sorted(os.sched_getaffinity(0))
        driven = together({"plain": script, **{number: ["taskset", "-c", processors[2 * number % len(processors)], *under(), *script]
                                               for number in range(self.PROCESSES)}})
        for mode, one in (("plain", driven.pop("plain")), ("steered", driven[0])):
            one.ask("infer 2 1")
            kernels[mode] = one.ask("kernels 20 1")
            if mode == "plain":
                one.end()
        milliseconds = [one.ask(f"infer_both {self.ROUNDS} 5 1") for one in driven.values()]
        said = {str(number): one.end()[-300:] for number, one in driven.items()}
        logarithms = [statistics.median(math.log(plain / steered) for plain, steered in zip(each["plain"], each["steered"])) for each in milliseconds]
        error = 2.57 * statistics.stdev(logarithms) / math.sqrt(len(logarithms))  # (Student's t of six)
        least = [min(each["plain"]) / min(each["steered"]) for each in milliseconds]
        return {"network": name, "type": type_, "tuned": tuned, "ratios": list(map(math.exp, logarithms)), "ratios_of_least": least, "milliseconds": milliseconds, "said": said,
                "launches": {mode: each["launches"] for mode, each in kernels.items()},
                "kernel_microseconds": {mode: sum(each["microseconds"].values()) for mode, each in kernels.items()},
                "steered_over_plain": math.exp(statistics.fmean(logarithms)), "uncertainty": error}  # (95%, of the mean)

    def summary(self, rows):
        return {"table": [row if "broken" in row else [row["network"], row["type"], round(row["steered_over_plain"], 3), round(row["uncertainty"], 3),
                                                       row["launches"]] for row in rows],
                "rows": rows}


class First(Networks):
    """first iterations of training with a warm database and kernel cache: processes plain, steered, and steered on cuDNN's engines alone"""
    PROCESSES = 5

    def measured(self, name, type_):
        record = harness.OUT / f"{name}-{type_}.jsonl"
        script = program("train.py", name, type_)
        modes = {"plain": script, "steered": under("--record", harness.OUT / f"first-{name}-{type_}.jsonl", "--steer") + script,
                 "cuDNN's alone": under("--engines", "cudnn.eng*") + script}
        if not record.exists():
            one = together({"record": under("--record", record) + script})["record"]
            one.ask("first")
            one.ask("steps 2")
            one.end()
        tuned = tune(record, self.TUNING)
        for mode in ("plain", "steered"):  # files are read and kernels compiled
            one = together({mode: modes[mode]})[mode]
            one.ask("first")
            one.end()
        seconds = {mode: [] for mode in modes}
        driven = together({(mode, number): script for number in range(self.PROCESSES) for mode, script in modes.items()})
        for number in range(self.PROCESSES):
            for mode in list(modes) if number % 2 == 0 else list(reversed(modes)):
                seconds[mode].append(driven[mode, number].ask("first")["seconds"])
                driven[mode, number].end()
        over = {mode: statistics.median(each) / statistics.median(seconds["plain"]) for mode, each in seconds.items()}
        return {"network": name, "type": type_, "tuned": tuned, "seconds": seconds, "over_plain": over}

    def summary(self, rows):
        return {"first_above_1.2": [[row["network"], row["type"]] for row in rows if row.get("over_plain", {}).get("steered", 9) > 1.2], "rows": rows}
