"""The command as a user types it: every option of bench, explain, tune, verify and db once, on a GPU, and what it must say.

An option that has no unit here makes tests/gpu/gpu_check_test.py fail: add a unit to SHARED, of what all four subcommands have,
or to OWN. A unit is a command line, in which {half} is half of the GPU's SMs, {folder} a folder of the unit's own and a name of
PROBLEMS the problem; --device cuda and a budget of a second come by themselves. What is expected of it:
    exit     the exit code; 0 unless said
    says     patterns that its output has
    never    patterns that its output does not have, besides those of FAULTS
    measured whether a candidate has a time: of bench and tune, unless said otherwise; an oracle may not be the first
    files    what lies in its folder before; makes: what lies there afterwards
    before   command lines that run first, with the same tuning database
"""
import pathlib
import re
import shlex
import tempfile

from steps import harness

PROBLEMS = {
    "dense": "fprop:x=bf16,16x64x28x28,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:math=reduced",
    "depthwise": "fprop:x=bf16,16x64x28x28,nhwc:w=bf16,64x1x3x3:pad=1x1:groups=64",
    "f32": "fprop:x=f32,8x64x28x28,nhwc:w=f32,64x64x3x3,nhwc:pad=1x1",
    "fused": "fprop:x=bf16,16x64x28x28,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:bias=1:act=relu",
}
SUBCOMMANDS = ("bench", "explain", "tune", "verify")
MEASURING = ("bench", "tune")
FAULTS = (r"CUDNN_STATUS_(INTERNAL_ERROR|EXECUTION_FAILED|NOT_INITIALIZED)", r"CUDA_ERROR_", r"terminate called",
          r"not expected:|is not an option|argument too many|belongs behind the subcommand")
# tune's table has the number of layers and the problem in front of the candidate.
TIMED = re.compile(r"^\s*(?:\d+  .*?)?(cu(?:dnn|da)\.[\w.]+(?:\{[^}\s]*\})?)\s.*?\d (?:ns|us|ms|s)\b", re.M)


def unit(line, **expected):
    return {"command": line, **expected}


# Of what add_shared_flags() gives to each of SUBCOMMANDS.
SHARED = [
    unit("{dense} --device cuda:0"),
    unit("{dense} --threads 2"),
    unit("{dense} --budget 2s", measured=None),
    unit("{dense} --warm"),
    unit("{dense} --cold"),
    unit("{dense} --all-cold"),
    unit("{dense} --rotating"),
    unit("{dense} --sm-count {half}"),
    unit("{depthwise} --sm-count {half}"),
    unit("{dense} --sm-count 100000", exit=2, measured=False, says=["--sm-count.*100000"]),
    unit("{dense} --objective workspace"),
    unit("{depthwise} --engines 'cuda.*,!cuda.reference'", says=[r"cuda\.depthwise"], never=[r"cudnn\.eng\d+\S* +[\d.]+ us"]),
    unit("{dense} --notes '!TENSOR_CORE'", never=[r"^\s*cudnn\.eng\d.*\d us.*\bTENSOR_CORE"]),
    unit("{dense} --config jit-only", never=[r"(chosen|chooses|choice):? cuda\.reference"]),
    unit("{dense} --deterministic", never=[r"^\s*cudnn\.eng\d.*\d us.*NONDETERMINISTIC"]),
    unit("{depthwise} --no-runtime-compilation", never=[r"^\s*cuda\.depthwise\S* +[\d.]+ us"]),
    unit("{dense} --workspace-limit 64M"),
    unit("{f32} --allow tf32"),
    unit("{depthwise} --rules {folder}/a.rules", files={"a.rules": "groups=64 -> cuda.depthwise\n"}, says=[r"cuda\.depthwise"], measured=None),
    unit("{depthwise} --rules {folder}/a.rules --strict", files={"a.rules": "groups=64 -> cudnn.legacy.dgrad0\n"}, exit=None, measured=False,
         says=[r"cudnn\.legacy\.dgrad0"]),
    unit("{depthwise} --rules {folder}/a.rules --fallback", files={"a.rules": "groups=64 -> cudnn.legacy.dgrad0\n"}, measured=None,
         says=[r"cudnn\.legacy\.dgrad0"]),
    unit("{depthwise} --rules {folder}/a.rules --rules-fallback", files={"a.rules": "groups=64 -> cudnn.legacy.dgrad0\n"}, measured=None,
         says=[r"cudnn\.legacy\.dgrad0"]),
    unit("{dense} --wide"),
    unit("{dense} --json", says=[r'"target"'], measured=None),
    unit("zoo:squeezenet1_1 --dim N=1", exit=None, measured=False, says=[r"network"]),
]

OWN = [
    unit("bench {dense} --dtype f16", says=["x=f16"]),
    unit("bench {dense} --no-db"),
    *(unit(f"bench zoo:squeezenet1_1 {given}", says=["without copies"]) for given in ("--no-graph", "--sync", "--memory-limit 1G")),
    *(unit(f"explain zoo:squeezenet1_1 {given}") for given in ("--no-graph", "--sync", "--memory-limit 1G")),
    unit("explain zoo:squeezenet1_1 --memory-limit 1M", exit=4, says=[r"memory limit: a run takes \d+ bytes of cuda:0"]),
    *(unit(f"tune zoo:squeezenet1_1 {given}", measured=None) for given in ("--no-graph", "--sync", "--memory-limit 1G")),
    unit("explain {dense} --no-db"),
    unit("bench {depthwise} --pass dgrad", says=["dgrad:x="]),
    unit("bench {depthwise} --pass wgrad --sm-count {half}", says=["wgrad:x="]),
    # In strict f32 nothing keeps to half of an H200: that is said with what to do, and is no failure.
    unit("bench {f32} --sm-count {half}", exit=None, measured=False, says=[r"keeps to \d+ SMs\n +--allow tf32|\d us"], never=["wrong_result"]),
    unit("verify {f32} --all-engines --defaults --sm-count {half}", exit=None, says=["0 failed"]),
    unit("bench {depthwise} --vs 'cudnn.*'", says=["times as long as"]),
    unit("bench {depthwise} --all-knobs --engines cuda.depthwise", says=[r"kernel="]),
    unit("bench {depthwise} --cost-terms --json", says=["cost_terms"], measured=None),
    unit("bench {fused}"),
    unit("bench {dense} --all", says=["can't"]),
    unit("bench {dense} --node 1"),
    unit("bench {depthwise} --full --engines cuda.depthwise", says=["packed"]),
    unit("explain {dense} --all"),
    unit("explain {dense} --node 1"),
    unit("explain {fused} --fusion --budget 2", says=["epilogue"], measured=None),
    unit("tune {dense} -o {folder}/b.rules", makes=["b.rules"]),
    unit("tune {dense} --output {folder}/b.rules", makes=["b.rules"]),
    unit("tune {dense} --again", before=["tune {dense} --device cuda --budget 1"]),
    unit("tune {depthwise} --all-knobs --engines cuda.depthwise", says=[r"kernel="]),
    unit("tune {dense} --verbose"),
    unit("tune {dense} --precision bf16", exit=2, measured=False, says=["--precision is for networks"]),
    unit("tune {dense} --batch-parts 1", exit=2, measured=False, says=["--batch-parts is for networks"]),
    *(unit(f"explain {{dense}} {given}", exit=2, measured=False, says=[f"{given.split()[0]} is for networks"])
      for given in ("--how global", "--plan a.plan", "--precision bf16", "--batch-parts 1", "--activation-limit 9M", "--weight-limit 9M", "--exact", "--lenient", "--skip-pass conv_fusion")),
    unit("verify {depthwise} --all-engines --defaults --engines 'cu*,!cudnn.legacy*'", says=[r"[2-9]\d* right, 0 failed"]),
    unit("verify {depthwise} --all-engines --defaults --sm-count {half}", says=[r"[2-9]\d* right, 0 failed"]),
    unit("verify {depthwise} --all-knobs --engines cuda.depthwise", says=[r"\d right, 0 failed"]),
    unit("verify {dense} --repeat 2"),
    unit("verify {dense} --seed 7"),
    unit("verify {dense} --timeout 60"),
    unit("verify {dense} --repro-folder {folder}"),
]

STORED = ["tune {depthwise} --device cuda --budget 10 --engines cuda.depthwise"]
DATABASE = [
    unit("db path", says=["schema"]),
    unit("db path --json", says=['"exists": *true']),
    unit("db path --wide", says=["schema"]),
    unit("db show", says=[r"cuda\.depthwise"]),
    unit("db show --json", says=[r"cuda\.depthwise"]),
    unit("db show --wide", says=[r"cuda\.depthwise"]),
    unit("db show --problem 'dgrad:*'", says=["no measurement matches"], never=[r"cuda\.depthwise"]),
    unit("db show --engines 'cuda.*'", says=[r"cuda\.depthwise"]),
    unit("db export", says=[r"cuda\.depthwise"]),
    unit("db export --problem 'fprop:*'", says=[r"cuda\.depthwise"]),
    unit("db export --engines 'cudnn.*'", never=[r"cuda\.depthwise"]),
    unit("db export --output {folder}/c.jsonl", makes=["c.jsonl"]),
    unit("db export -o {folder}/c.jsonl", makes=["c.jsonl"]),
    unit("db import {folder}/c.jsonl", before=["db export -o {folder}/c.jsonl"], says=["0 added"]),
    unit("db import {folder}/c.jsonl --json", before=["db export -o {folder}/c.jsonl"], says=['"added": *0']),
    unit("db import {folder}/c.jsonl --wide", before=["db export -o {folder}/c.jsonl"], says=["0 added"]),
    unit("db merge {database}", says=["0 added"]),
    unit("db merge {database} --json", says=['"added": *0']),
    unit("db merge {database} --wide", says=["0 added"]),
    unit("db gc", says=["left"]),
    unit("db gc --unused-days 1", says=["left"]),
    unit("db gc --dry-run", says=["would"]),
    unit("db gc --json", says=['"left"']),
    unit("db gc --wide", says=["left"]),
    unit("db forget --problem 'fprop:*'"),
    unit("db forget --engines 'cuda.*'"),
    unit("db forget --problem 'fprop:*' --dry-run"),
    unit("db forget --problem 'fprop:*' --json"),
    unit("db forget --problem 'fprop:*' --wide"),
    unit("db clear --yes"),
    unit("db clear -y"),
    unit("db clear --dry-run"),
    unit("db clear --dry-run --json"),
    unit("db clear --dry-run --wide"),
    unit("db verify --device cuda", says=[r"checked [1-9]"]),
    unit("db verify --device cuda --sample 1", says=[r"checked 1 of [1-9]"]),
    unit("db verify --device cuda --seed 3", says=[r"checked [1-9]"]),
    unit("db verify --device cuda --budget 5", says=[r"checked [1-9]"]),
    unit("db verify --device cuda --update", says=[r"checked [1-9]"]),
    unit("db verify --device cuda --problem 'fprop:*'", says=[r"checked [1-9]"]),
    unit("db verify --device cuda --engines 'cuda.*'", says=[r"checked [1-9]"]),
    unit("db verify --device cuda --json", says=[r"cuda\.depthwise"]),
    unit("db verify --device cuda --wide", says=[r"checked [1-9]"]),
]


def all_units():
    shared = [{**each, "command": f"{what} {each['command']}"} for what in SUBCOMMANDS for each in SHARED]
    return shared + OWN + [{"before": [], **each, "before": STORED + each.get("before", [])} for each in DATABASE]


def completed(line):
    """With the device and a budget where the line has none; the exit code does not depend on how much is measured."""
    what = line.split()[0]
    if what in SUBCOMMANDS and "--device" not in line:
        line += " --device cuda"
    if what in MEASURING and "--budget" not in line:
        line += " --budget 1"
    return line


def filled(text, folder, sms):
    values = {**{name: shlex.quote(problem) for name, problem in PROBLEMS.items()}, "folder": folder, "database": f"{folder}/tuning.db",
              "half": max(1, sms // 2)}
    return re.sub(r"\{(\w+)\}", lambda found: str(values[found[1]]), text)


def options_of(what, program=None):
    """The long and short options of a subcommand, "db show" too, as its help lists them."""
    code, out, err = harness.command([program or harness.CONVOY, *what.split(), "--help"], COLUMNS="200")
    assert code == 0, err
    found = set()
    for listed in re.findall(r"^ {2,6}((?:-\w|--[\w-]+)(?:, ?(?:-\w|--[\w-]+)(?:\{\w+\})?)*)", out, re.M):
        found |= {name.partition("{")[0] for name in re.split(r", ?", listed)}
    return found - {"-h", "--help", "--version"}


def parts_of_db(program=None):
    code, out, err = harness.command([program or harness.CONVOY, "db", "--help"], COLUMNS="200")
    assert code == 0, err
    listed = re.search(r"^subcommands:? *\n((?: .*\n)+)", out, re.M | re.I)[1]
    return [f"db {name}" for name in re.findall(r"^ {2,6}([a-z]\w*) ", listed, re.M)]


def offered(program=None):
    """{subcommand: its options}, of all that this step is about."""
    return {what: options_of(what, program) for what in (*SUBCOMMANDS, *parts_of_db(program))}


def used():
    """{subcommand: the options of its units}."""
    found = {}
    for each in all_units():
        words = shlex.split(completed(each["command"]))
        what = " ".join(words[:2]) if words[0] == "db" else words[0]
        found.setdefault(what, set()).update(word for word in words if re.fullmatch(r"-\w|--[\w-]+", word))
    return found


def without_unit(offers):
    return sorted(f"{what} {option}".strip() for what, options in offers.items() for option in [*sorted(options), *([] if what in used() else [""])]
                  if option not in used().get(what, set()))


def faults_of(each, code, text, made):
    """What is wrong with what a unit's command did."""
    what = each["command"].split()[0]
    wrong = []
    wanted = each.get("exit", 0)
    if wanted is not None and code != wanted:
        wrong.append(f"exit code {code} instead of {wanted}")
    if code < 0 or code in (124, 127):
        wrong.append(f"it did not end by itself: {code}")
    wrong += [f"says {pattern}" for pattern in (*FAULTS, *each.get("never", [])) if re.search(pattern, text, re.M)]
    wrong += [f"does not say {pattern}" for pattern in each.get("says", []) if not re.search(pattern, text, re.M)]
    timed = TIMED.findall(text)
    if each.get("measured", True if what in MEASURING else None) and not timed:
        wrong.append("no candidate has a time")
    if timed and timed[0].startswith("cuda.reference"):
        wrong.append("the oracle is the first")
    if what == "verify" and wanted == 0 and not re.search(r"[1-9]\d* right, 0 failed, 0 not checked|\"right\": *[1-9]", text):
        wrong.append("it verified nothing, or not all")
    if what == "explain" and wanted == 0 and not re.search(r"cu(dnn|da)\.\w", text):
        wrong.append("it explains no candidate")
    return wrong + [f"{name} is not made" for name in each.get("makes", []) if name not in made]


class Commands(harness.Step):
    """every option of bench, explain, tune, verify and db, as a user types them, each with what it must say"""
    jobs = 6

    def units(self):
        return all_units()

    def run(self, each, **environment):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in each.get("files", {}).items():
                (pathlib.Path(folder) / name).write_text(text)
            sms = harness.multiprocessors() if "{half}" in each["command"] else 0

            def run(line):
                return harness.command([harness.CONVOY, *shlex.split(filled(completed(line), folder, sms))], CONVOY_DB=f"{folder}/tuning.db",
                                       **environment)

            before = [(line, *run(line)) for line in each.get("before", [])]
            code, out, err = run(each["command"])
            made = [path.name for path in pathlib.Path(folder).iterdir() if path.stat().st_size > 0]
            line = "convoy " + filled(completed(each["command"]), folder, sms).replace(folder, "FOLDER")
        wrong = faults_of(each, code, out + err, made)
        wrong += [f"before, {step}: {status}, {(said + errors)[-300:]}" for step, status, said, errors in before
                  if status or re.search("; nothing (measured|to measure)", said + errors)]
        return {"command": line, "exit_code": code, "expected": {key: value for key, value in each.items() if key != "command"}, "wrong": wrong,
                "output": (out + err)[:1500] if wrong else (out + err)[:300]}

    def summary(self, rows):
        return {"commands": len(rows), "without_unit": without_unit(offered()), "wrong": [row for row in rows if row["wrong"]], "rows": rows}
