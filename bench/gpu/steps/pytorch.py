"""Unmodified PyTorch programs (bench/pytorch), plain and under `convoy exec`, in turns on one GPU. Whole networks: pytorch_networks.py."""
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
    return dict(os.environ)


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
    """PyTorch's own test_convolution.py (or CONVOY_TORCH_TEST_FILE), the same outcome test by test: plain, recorded, steered, on Convoy's engines, and
    patched by convoy.torch; 64-bit tests apart, since they take minutes"""
    jobs = 6
    SECONDS = float(os.environ.get("CONVOY_TORCH_TEST_SECONDS", 530))
    FILE = os.environ.get("CONVOY_TORCH_TEST_FILE", "test_convolution.py")
    NAMES = os.environ.get("CONVOY_TORCH_TEST_NAMES", "").split()  # parts of names, or patterns with *; none: all tests
    RULES = {f"{engine.split('.')[1]} in place": f"* -> {engine}\n" for engine in ("cuda.depthwise", "cudnn.nhwc", "cuda.pointwise", "cuda.stem", "cuda.volume")}

    def units(self):
        modes = ("plain", "recorded", "steered", *self.RULES, "patched")
        return [[mode, part] for part in ("without 64-bit", "64-bit") for mode in modes if (mode, part) != ("nhwc in place", "64-bit")]

    def run(self, unit):
        mode, part = unit
        if not (TESTS / self.FILE).exists():
            return {"mode": mode, "part": part, "broken": f"CONVOY_TORCH_TESTS names no folder with {self.FILE}"}
        name = f"tests-{mode}-{part.replace(' ', '-')}"
        record = harness.OUT / f"{name}.jsonl"
        before = [] if mode in ("plain", "patched") else under("--record", record, *(["--steer"] if mode == "steered" else []))
        if mode in self.RULES:
            rules = harness.OUT / f"{name}.rules"
            rules.write_text(self.RULES[mode])
            before = under("--record", record, "--no-db", "--rules", rules)
        which = ["-k", "64bit"] if part == "64-bit" else ["--without", "64bit"]
        which += ["--patch"] if mode == "patched" else []
        which += [part for name in self.NAMES for part in ("-k", name)]
        environment = with_wheels(plain_environment())
        if mode != "patched":
            environment["PYTHONPATH"] = wheels()  # and not the module
        written = harness.OUT / f"{name}.json"
        with open(harness.OUT / f"{name}.log", "w") as log:
            tests = subprocess.Popen([*before, PYTHON, PROGRAMS / "outcomes.py", TESTS / self.FILE, written, *which], stdout=log, stderr=subprocess.STDOUT,
                                     env=environment, cwd=TESTS)
            try:
                code = tests.wait(self.SECONDS)
            except subprocess.TimeoutExpired:
                tests.terminate()  # `convoy exec` passes it on, and its record is whole
                tests.wait()
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
                blocks = re.findall(r"^```\n(convoy exec.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
                commands += [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
            for line in commands:
                command(line, env=environment)
        return {"page": page, "said": said}

    def summary(self, rows):
        return {"failed": [[row["page"], each["command"]] for row in rows for each in row["said"] if each["exit_code"]], "rows": rows}


class Programs(harness.Step):
    """overhead of a call, threads, captured graphs, two ranks, and --deterministic"""

    def units(self):
        return ["overhead", "threads", "graph", "overlap", "ranks", *[f"deterministic {name}" for name in ("resnext50", "unet", "mobilenet_v2", "unet3d")]]

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

    MODES = ("plain", "recorded", "steered", "in place")

    def both(self, *arguments, prefix=(), environment=None):
        """Plain, recorded, steered, and with Convoy's depthwise engine in place of plans."""
        answers = {}
        record = harness.OUT / f"{''.join(arguments)}.jsonl"
        rules = harness.OUT / "in-place.rules"
        rules.write_text("* -> cuda.depthwise\n")
        in_place = under("--no-db", "--rules", rules, "--record", f"{record}.in-place")
        commands = {"plain": [], "recorded": under("--record", record), "steered": under("--engines", "*"), "in place": in_place}
        for mode, before in ((mode, commands[mode]) for mode in self.MODES):
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

    def overlap(self):
        return self.both("overlap", environment=every_gpu())

    def ranks(self, *more):
        return self.both("ranks", *more, prefix=[PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"], environment=every_gpu())

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
