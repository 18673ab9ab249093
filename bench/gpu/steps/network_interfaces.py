"""Networks on a GPU as people reach them: the command's options once each, and the Python module's tests of them."""
import pathlib
import re
import shlex
import subprocess
import tempfile

from steps import harness
from steps.pytorch import PYTHON, plain_environment, with_wheels

MODEL = "zoo:squeezenet1_1"
# Of each: the command lines, one after another, where {folder} is a folder of the unit's own and {model} the network, and what the
# last one must say.
COMMANDS = [
    (["convoy run {model} --random-inputs --device cuda --verbose"], [r"cuda:0", r"without copies"]),
    (["convoy run {model} --random-inputs --device cuda --no-graph --sync"], [r"without copies"]),
    (["convoy run {model} --random-inputs --device cuda --precision f16 --dim N=8"], [r"without copies"]),
    (["convoy run {model} --random-inputs --device cuda --memory-limit 1G"], [r"without copies"]),
    (["convoy plan {model} --device cuda -o {folder}/a.plan", "convoy run {model} --random-inputs --device cuda --plan {folder}/a.plan --verbose"], [r"cuda:0"]),
    (["convoy plan {model} --device cuda --budget 10s -o {folder}/a.plan", "convoy compare {model} {folder}/a.plan uniform:nhwc --device cuda --rounds 5"],
     [r"B takes [\d.]+ times as long as A"]),
    (["convoy run {model} --random-inputs --device cuda --trace {folder}/trace.json"], [r"wrote .*trace\.json"]),
    (["convoy run {model} --random-inputs --device cuda --beside heuristic"], [r"times as long"]),
    (["convoy tune {model} --device cuda --budget 40s --verbose", "convoy run {model} --random-inputs --device cuda --verbose"], [r"plan"]),
    (["convoy report {model} greedy uniform:nhwc --device cuda -o {folder}/report.html"], [r"uniform:nhwc"]),
    (["convoy verify {model} --device cuda --budget 60s"], []),
]


def pytest_of(file):
    environment = {**with_wheels(plain_environment()), "CONVOY_SOURCE": str(harness.HERE)}
    done = subprocess.run([PYTHON, "-m", "pytest", "-q", "-rsP", "-p", "no:cacheprovider", harness.HERE / "tests/python" / file], capture_output=True,
                          text=True, timeout=500, env=environment)
    return {"failed": done.returncode not in (0, 5), "said": done.stdout[-6000:] + done.stderr[-1000:]}


class Interfaces(harness.Step):
    """networks on a GPU: the command's options, and the Python module with PyTorch's tensors, streams and graphs"""
    jobs = 6  # nothing that it looks at is a time

    def units(self):
        return [["python", "gpu_network_test.py"]] + [["command", index] for index in range(len(COMMANDS))]

    def run(self, unit):
        kind, which = unit
        if kind == "python":
            return {"unit": unit, **pytest_of(which)}
        lines, patterns = COMMANDS[which]
        said = ""
        with tempfile.TemporaryDirectory() as folder:
            for line in lines:
                given = line.format(folder=pathlib.Path(folder), model=MODEL)
                code, out, err = harness.command([str(harness.CONVOY), *shlex.split(given)[1:]], CONVOY_DB=f"{folder}/tuning.db")
                said += (out + err)[-2000:]
                if code != 0:
                    return {"unit": unit, "command": given, "failed": True, "said": said}
        missing = [pattern for pattern in patterns if not re.search(pattern, out + err)]
        return {"unit": unit, "command": given, "failed": bool(missing), "missing": missing, "said": said}

    def summary(self, rows):
        return {"failed": [row for row in rows if row["failed"]], "rows": rows}


class Memory(harness.Step):
    """networks on a GPU whose memory runs short, whose capture fails, which is lost; memory after 200 sizes; tensors of over 2^31 elements. Alone on the GPU"""

    def units(self):
        return ["gpu_network_memory_test.py", "gpu_network_large_test.py"]

    def run(self, file):
        return {"file": file, **pytest_of(file)}

    def summary(self, rows):
        return {"failed": [row["file"] for row in rows if row["failed"]], "rows": rows}
