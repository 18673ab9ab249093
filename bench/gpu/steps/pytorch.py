"""Unmodified PyTorch programs (bench/pytorch), plain and under `convoy exec`, in turns on one GPU."""
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from steps import harness

PROGRAMS = harness.HERE / "bench/pytorch"
PYTHON = "python3"
# Where PyTorch's test/nn/test_convolution.py lies, of the version that is installed, and expecttest's wheel.
TESTS = pathlib.Path(os.environ.get("CONVOY_TORCH_TESTS", "torch-tests")).resolve()


def plain_environment():
    """As a user's: without the bundle's libraries, which the command finds beside itself. With the Python module, for what imports it."""
    place = {"CUDA_VISIBLE_DEVICES": harness.PLACE.gpu} if hasattr(harness.PLACE, "gpu") else {}
    module = {"PYTHONPATH": str(harness.HERE / "python"), "CONVOY_LIBRARY": str(harness.ROOT / "lib/libconvoy.so")}
    return {**os.environ, **module, **place}


def every_gpu():
    return {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}


def wheels():
    return ":".join(map(str, TESTS.glob("*.whl")))


def with_wheels(environment):
    return {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{wheels()}"}


def under(*flags):
    return [str(harness.CONVOY), "exec", *map(str, flags), "--"]


class Driven:
    """A program of bench/pytorch that waits for commands (answering.py)."""

    def __init__(self, *command):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=plain_environment())

    def said(self):
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"exit {self.process.wait()}: {self.errors.read()[-1500:]}")
        return json.loads(line)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.said()

    def end(self):
        """What it printed on standard error."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.errors.seek(0)
        return self.errors.read()


def together(commands):
    """Programs by name, started side by side and ready; on an error all are ended."""
    driven = {name: Driven(*command) for name, command in commands.items()}
    try:
        for each in driven.values():
            each.said()
    except RuntimeError:
        for each in driven.values():
            each.process.kill()
        raise
    return driven


def program(name, *arguments):
    return [PYTHON, PROGRAMS / name, *arguments]


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def tune(record, budget=None):
    """Within so many seconds, or two a problem."""
    flags = [] if budget is None else ["--budget", budget]
    code, out, err = harness.command([harness.CONVOY, "tune", record, "--device", "cuda", *flags], seconds=540)
    return {"exit_code": code, "said": (out[-1500:] + err[-600:])}


class Layer(harness.Step):
    """one layer of an unmodified program: seen, tuned, steered, and another engine by rule, forward and backward"""
    SIZES = [64, 128, 56, 56, 128, 3, 1, 32]  # ResNeXt's, whose wgrad cuDNN's heuristic takes 810 us for

    def units(self):
        return ["bf16", "tf32"]

    def run(self, type_):
        try:
            return self.measured(type_)
        except RuntimeError as error:
            return {"type": type_, "broken": str(error)}

    def measured(self, type_):
        record = harness.OUT / f"layer-{type_}.jsonl"
        script = program("layer.py", *self.SIZES, type_)
        for one in together({"record": under("--record", record) + script}).values():
            one.ask("times")
            one.end()
        tuned = tune(record, 20)
        picks, report = self.picks(record)
        files = {which: harness.OUT / f"layer-{type_}-{which}.rules" for which in ("best", "second")}
        for place, file in enumerate(files.values()):
            file.write_text("".join(f"pass={name} -> {known[place]}\n" for name, known in picks.items() if len(known) > place))
        ruled = harness.OUT / f"layer-{type_}-ruled.jsonl"
        driven = together({"plain": script, "benchmark": script + ["--benchmark"], "steered": under() + script,
                           "steered benchmark": under() + script + ["--benchmark"],
                           "best by rule": under("--no-db", "--rules", files["best"]) + script,
                           "second by rule": under("--no-db", "--rules", files["second"], "--record", ruled) + script})
        rounds = [{name: each.ask("times") for name, each in driven.items()} for _ in range(5)]
        said = {name: each.end()[-1500:] for name, each in driven.items()}
        times = {name: {p: spread([r[name][p] for r in rounds]) for p in ("fprop", "dgrad", "wgrad")} for name in driven}
        ran = [json.loads(line) for line in ruled.read_text().splitlines()]
        return {"type": type_, "sizes": self.SIZES, "tuned": tuned, "report": report, "rules": picks, "microseconds": times, "said": said,
                "rules_ran": [{key: row.get(key) for key in ("problem", "calls", "plans", "steered", "not_placed")} for row in ran if "problem" in row],
                "rules_headers": [row.get("rules") for row in ran if "convoy_record" in row]}

    def picks(self, record):
        """Of each pass the two fastest of cuDNN's engines that the report permits; and the report."""
        code, out, err = harness.command([harness.CONVOY, "report", record, "--json"])
        try:
            report = json.loads(out)
        except ValueError:
            return {}, f"{code}: {err[-500:]}"
        picks = {}
        for entry in report.get("convolutions", []):
            known = [c for c in entry["algorithms"] if c["seconds"] and c["permitted"] and c["candidate"].startswith("cudnn.eng")]
            known.sort(key=lambda c: c["seconds"])
            # An engine on its own is the same as one with every knob left to cuDNN.
            names = [re.sub(r"\w+=-1,?", "", c["candidate"]).replace(",}", "}").replace("{}", "") for c in known]
            picks.setdefault(entry["pass"], names[:2])
        code, text, _ = harness.command([harness.CONVOY, "report", record, "--problem", "*"], COLUMNS="120")
        return picks, text[-6000:]

    def summary(self, rows):
        return {"rows": rows}


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
    """eager inference at batch 1, which waits for the host, tuned for that: pairs of a process plain and one steered that take turns on one
    processor, all with the same addresses and hashes, since processes of one mode differ by a tenth. And how many kernels either launches"""
    PAIRS, ROUNDS = 10, 24
    ALIKE = ["env", "PYTHONHASHSEED=0", "setarch", "-R"]

    def measured(self, name, type_):
        script = program("train.py", name, type_, "--batch", 1)
        record = harness.OUT / f"{name}-{type_}-batch-1.jsonl"
        if not record.exists():
            for one in together({"record": under("--record", record) + script}).values():
                one.ask("infer 2 1")
                one.end()
        tuned = tune(record, self.TUNING)
        ran = harness.OUT / f"{name}-{type_}-batch-1-steered.jsonl"
        kernels = {}
        for mode, one in together({"plain": script, "steered": under("--record", ran, "--steer") + script}).items():
            one.ask("infer 2 1")
            kernels[mode] = one.ask("kernels 20 1")
            one.end()
        processors = sorted(os.sched_getaffinity(0))
        places = [["taskset", "-c", processors[pair % len(processors)], *self.ALIKE] for pair in range(self.PAIRS)]
        driven = together({(mode, pair): place + before + script for pair, place in enumerate(places)
                           for mode, before in (("plain", []), ("steered", under()))})
        turns = [{one: driven[one].ask("infer 10 1")["milliseconds"] for one in (driven if number % 2 else reversed(driven))}
                 for number in range(self.ROUNDS + 1)][1:]
        least = {one: min(turn[one] for turn in turns) for one in driven}
        for each in driven.values():
            each.end()
        ratios = [least["plain", pair] / least["steered", pair] for pair in range(self.PAIRS)]
        return {"network": name, "type": type_, "tuned": tuned, "ratios": sorted(ratios),
                "milliseconds": {mode: sorted(least[mode, pair] for pair in range(self.PAIRS)) for mode in ("plain", "steered")},
                "launches": {mode: each["launches"] for mode, each in kernels.items()},
                "kernel_microseconds": {mode: sum(each["microseconds"].values()) for mode, each in kernels.items()},
                "steered_over_plain": statistics.median(ratios)}

    def summary(self, rows):
        return {"table": [row if "broken" in row else [row["network"], row["type"], round(row["steered_over_plain"], 3), row["launches"]] for row in rows],
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


class HostTime(harness.Step):
    """the host's time of a call: a tiny convolution, depthwise or dense, by cuDNN's plan and by what stands in for it"""

    def units(self):
        return [["bf16", "cuda.depthwise", 64], ["tf32", "cuda.depthwise", 64], ["tf32", "cudnn.legacy.fprop1", 1], ["bf16", "cudnn.legacy.fprop1", 1],
                ["bf16", "cudnn.nhwc", 1]]

    def run(self, unit):
        type_, engine, groups = unit
        script = program("layer.py", 1, 64, 14, 14, 64, 3, 1, groups, type_, *(["--contiguous"] if engine == "cudnn.nhwc" else []))
        rules = harness.OUT / f"{engine}.rules"
        rules.write_text(f"* -> {engine}\n")
        try:
            driven = together({(mode, copy): before + script for copy in range(3)
                               for mode, before in (("plain", []), ("in place of it", under("--no-db", "--rules", rules)))})
            rounds = [{name: each.ask("calls 500")["least"] for name, each in driven.items()} for _ in range(6)]
            said = {str(name): each.end()[-300:] for name, each in driven.items()}
        except RuntimeError as error:
            return {"type": type_, "engine": engine, "broken": str(error)}
        least = {mode: [min(row[mode, copy] for row in rounds) for copy in range(3)] for mode in ("plain", "in place of it")}
        return {"type": type_, "engine": engine, "least_microseconds_a_call": least, "said": said,
                "over_plain": statistics.median(least["in place of it"]) / statistics.median(least["plain"])}

    def summary(self, rows):
        return {"rows": rows}


class TorchTests(harness.Step):
    """PyTorch's own test_convolution.py, the same outcome test by test: plain, recorded, steered, on Convoy's engines, and patched by convoy.torch;
    64-bit tests apart, since they take minutes"""
    jobs = 6
    SECONDS = float(os.environ.get("CONVOY_TORCH_TEST_SECONDS", 530))
    RULES = {"depthwise in place": "* -> cuda.depthwise\n", "nhwc in place": "* -> cudnn.nhwc\n"}

    def units(self):
        modes = ("plain", "recorded", "steered", *self.RULES, "patched")
        return [[mode, part] for part in ("without 64-bit", "64-bit") for mode in modes if (mode, part) != ("nhwc in place", "64-bit")]

    def run(self, unit):
        mode, part = unit
        if not (TESTS / "test_convolution.py").exists():
            return {"mode": mode, "part": part, "broken": "CONVOY_TORCH_TESTS names no folder with test_convolution.py"}
        name = f"tests-{mode}-{part.replace(' ', '-')}"
        record = harness.OUT / f"{name}.jsonl"
        before = [] if mode in ("plain", "patched") else under("--record", record, *(["--steer"] if mode == "steered" else []))
        if mode in self.RULES:
            rules = harness.OUT / f"{name}.rules"
            rules.write_text(self.RULES[mode])
            before = under("--record", record, "--no-db", "--rules", rules)
        which = ["-k", "64bit"] if part == "64-bit" else ["--without", "64bit"]
        which += ["--patch"] if mode == "patched" else []
        environment = with_wheels(plain_environment())
        if mode != "patched":
            environment["PYTHONPATH"] = wheels()  # and not the module
        written = harness.OUT / f"{name}.json"
        with open(harness.OUT / f"{name}.log", "w") as log:
            try:
                code = subprocess.run([*before, PYTHON, PROGRAMS / "outcomes.py", TESTS / "test_convolution.py", written, *which], stdout=log,
                                      stderr=subprocess.STDOUT, env=environment, timeout=self.SECONDS, cwd=TESTS).returncode
            except subprocess.TimeoutExpired:
                code = 124
        log = (harness.OUT / f"{name}.log").read_text(errors="replace")
        return {"mode": mode, "part": part, "exit_code": code, "in_place": self.in_place(record), "outcomes": json.loads(written.read_text()) if written.exists() else {}, "log": log[-3000:]}

    @staticmethod
    def in_place(record):
        """How many calls of the record each of Convoy's engines ran in place of a plan."""
        calls = collections.Counter()
        for line in record.read_text().splitlines() if record.exists() else []:
            for plan in json.loads(line).get("plans", []):
                calls[plan.get("substitute")] += plan.get("substituted", 0)
        return {engine: count for engine, count in calls.items() if count}

    def summary(self, rows):
        by_mode = {}
        for row in rows:
            by_mode.setdefault(row["mode"], {}).update(row.get("outcomes", {}))
        plain = by_mode["plain"]
        counts = {mode: collections.Counter(outcomes.values()) for mode, outcomes in by_mode.items()}
        differ = {mode: {test: [plain.get(test), outcomes.get(test)] for test in {**plain, **outcomes} if plain.get(test) != outcomes.get(test)}
                  for mode, outcomes in by_mode.items()}
        return {"tests": len(plain), "exit_codes": {f"{row['mode']}, {row['part']}": row.get("exit_code") for row in rows}, "counts": counts, "differ": differ,
                "in_place": {f"{row['mode']}, {row['part']}": row["in_place"] for row in rows if row.get("in_place")},
                "broken": [row for row in rows if "broken" in row]}


class PythonTests(harness.Step):
    """tests/python on a GPU, the page in docs/ too (pytest's wheels lie beside PyTorch's test)"""
    jobs = 2

    def units(self):
        return sorted(path.name for path in (harness.HERE / "tests/python").glob("*_test.py"))

    def run(self, file):
        environment = {**with_wheels(plain_environment()), "CONVOY_SOURCE": str(harness.HERE)}
        done = subprocess.run([PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", harness.HERE / "tests/python" / file], capture_output=True,
                              text=True, timeout=500, env=environment)
        return {"file": file, "exit_code": done.returncode, "said": done.stdout[-4000:] + done.stderr[-1000:]}

    def summary(self, rows):
        return {"failed": [row["file"] for row in rows if row["exit_code"] not in (0, 5)],
                "said": {row["file"]: row["said"].strip().splitlines()[-1:] for row in rows}, "rows": rows}


class Page(harness.Step):
    """docs/pytorch.md as written, and docs/python-torch.md's program: in a new virtual environment with the wheel that CONVOY_WHEEL names"""

    def units(self):
        return ["pytorch.md", "python-torch.md"]

    def run(self, page):
        text = (harness.HERE / "docs" / page).read_text()
        programs = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            said = []

            def command(line, **more):
                done = subprocess.run(line, shell=True, cwd=place, capture_output=True, text=True, timeout=240, **more)
                said.append({"command": line, "exit_code": done.returncode, "said": done.stdout[-1500:] + done.stderr[-800:]})
                return done

            # PyTorch comes from the machine, which has no network.
            command(f"{PYTHON} -m venv here && here/bin/python -m pip install --no-index --no-deps {os.environ['CONVOY_WHEEL']}")
            command(f"{PYTHON} -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent.parent)'"
                    " > $(echo here/lib/python3*/site-packages)/torch.pth")
            environment = {**os.environ, "PATH": f"{place}/here/bin:{os.environ['PATH']}", "CONVOY_DB": str(place / "tuning.db"),
                           "CONVOY_KERNEL_CACHE": str(place / "kernels")}
            (place / "train.py").write_text(programs[0] if page == "pytorch.md" else "\n".join(programs))
            commands = ["python train.py"]
            if page == "pytorch.md":
                block = re.search(r"^```\n(convoy exec.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)[1]
                commands += [line.split("#")[0].strip() for line in block.splitlines()]
            for line in commands:
                command(line, env=environment)
        return {"page": page, "said": said}

    def summary(self, rows):
        return {"failed": [[row["page"], each["command"]] for row in rows for each in row["said"] if each["exit_code"]], "rows": rows}


class Programs(harness.Step):
    """overhead of a call, threads, captured graphs, two ranks, JAX, and --deterministic"""

    def units(self):
        return ["overhead", "threads", "graph", "overlap", "ranks", "jax", *[f"deterministic {name}" for name in ("resnext50", "unet", "mobilenet_v2", "unet3d")]]

    def run(self, unit):
        what, *more = unit.split()
        try:
            return {"unit": unit, **getattr(self, what)(*more)}
        except (RuntimeError, subprocess.TimeoutExpired, OSError, ValueError) as error:
            return {"unit": unit, "broken": str(error)[-2000:]}

    def overhead(self):
        """A loop of 1x1 convolutions at batch 1. The undisturbed time is compared, the least of many short stretches: on a shared machine
        single ones differ by a third. Three processes a mode, since where a process lies in memory matters as much as what it does."""
        script = program("layer.py", 1, 64, 56, 56, 64, 1, 1, 1, "bf16")
        record = harness.OUT / "overhead.jsonl"
        one = together({"record": under("--record", record) + script})["record"]
        one.ask("calls 10")
        one.end()
        tuned = tune(record, 6)
        modes = {"plain": [], "recorded": under("--record", harness.OUT / "overhead2.jsonl"), "steered": under()}
        driven = together({(mode, copy): before + script for copy in range(3) for mode, before in modes.items()})
        rounds = []
        for number in range(6):
            order = list(driven) if number % 2 == 0 else list(reversed(driven))
            rounds.append({name: driven[name].ask("calls 500") for name in order})
        for each in driven.values():
            each.end()
        least = {mode: [min(r[mode, copy]["least"] for r in rounds) for copy in range(3)] for mode in modes}
        return {"tuned": tuned, "least_microseconds_a_call": least,
                "median_microseconds_a_call": {mode: spread([r[mode, copy]["median"] for r in rounds for copy in range(3)]) for mode in modes},
                "over_plain": {mode: statistics.median(least[mode]) / statistics.median(least["plain"]) for mode in modes if mode != "plain"}}

    def both(self, *arguments, prefix=(), environment=None):
        """Plain, recorded, steered."""
        answers = {}
        record = harness.OUT / f"{arguments[0]}.jsonl"
        rules = harness.OUT / "in-place.rules"
        rules.write_text("* -> cuda.depthwise\n")
        in_place = under("--no-db", "--rules", rules, "--record", f"{record}.in-place")
        for mode, before in (("plain", []), ("recorded", under("--record", record)), ("steered", under("--engines", "*")), ("in place", in_place)):
            done = subprocess.run([*map(str, before), *(prefix or [PYTHON]), str(PROGRAMS / "strange.py"), *arguments], capture_output=True, text=True,
                                  timeout=200, env=environment or plain_environment())
            lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            answers[mode] = {"exit_code": done.returncode, "said": lines, **({"errors": done.stderr[-1500:]} if done.returncode else {})}
        rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        return {**answers, "in_place": TorchTests.in_place(pathlib.Path(f"{record}.in-place")), "recorded_graphs": sum("operations" in row for row in rows), "recorded_processes": sum("convoy_record" in row for row in rows),
                "recorded_calls": sum(row.get("calls", 0) for row in rows)}

    def threads(self):
        return self.both("threads")

    def graph(self):
        return self.both("graph")

    def jax(self):
        return self.both("jax")

    def overlap(self):
        return self.both("overlap", environment=every_gpu())

    def ranks(self):
        return self.both("ranks", prefix=[PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"], environment=every_gpu())

    def deterministic(self, name):
        """200 steps twice, plain and with --deterministic: the same parameters, bit by bit?"""
        answers = {}
        for type_ in ("tf32", "bf16"):
            script = program("train.py", name, type_, "--batch", "8" if name != "unet3d" else "1")
            driven = together({f"{mode} {i}": before + script for mode, before in (("plain", []), ("deterministic", under("--deterministic"))) for i in (1, 2)})
            hashes = {}
            for run, each in driven.items():
                each.ask("steps 200")
                hashes[run] = each.ask("hash")
            said = {run: each.end()[-400:] for run, each in driven.items()}
            answers[type_] = {"plain_repeats": hashes["plain 1"] == hashes["plain 2"],
                              "deterministic_repeats": hashes["deterministic 1"] == hashes["deterministic 2"], "said": said}
        return answers

    def summary(self, rows):
        return {"rows": rows}
