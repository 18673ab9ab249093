"""CONVOY_ONEDNN: another oneDNN than the linked one is loaded beside it, asked what it offers, and computes; what can't be
used is refused with a reason. The other one is a copy: a file of its own is a library of its own."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

CONVOY = os.environ["CONVOY"]
PROBLEMS = [
    "fprop:x=f32,1x64x28x28,nhwc:w=f32,64x64x3x3,nchw:y=f32,1x64x28x28,nhwc:pad=1x1:bias=1:act=relu",
    "dgrad:x=f32,2x32x14x14,nhwc:w=f32,48x32x1x1,nchw:y=f32,2x48x14x14,nhwc",
    "fprop:x=u8,1x32x14x14,nhwc:w=s8,32x32x3x3,nchw:y=u8,1x32x14x14,nhwc:pad=1x1:requant=channel",
]


def run(*arguments, onednn=None):
    environment = {**os.environ, "CONVOY_LOG": "warning", **({"CONVOY_ONEDNN": str(onednn)} if onednn else {})}
    return subprocess.run([CONVOY, *arguments], env=environment, capture_output=True, text=True)


def version(onednn=None):
    return json.loads(run("doctor", "--json", onednn=onednn).stdout)["libraries"]["oneDNN"]


def offered(problem, onednn=None):
    done = run("verify", problem, "--engines", "onednn.*,!onednn.ref", "--json", onednn=onednn)
    nothing = done.returncode == 4 and "u8" in problem  # without VNNI oneDNN's 8-bit sums saturate, and are refused
    assert done.returncode == 0 or nothing, (problem, done.stdout[-500:], done.stderr[-500:])
    return sorted(re.findall(r'"candidate": "(onednn\.[^"]*)"', done.stdout))


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    linked = re.search(r"libdnnl\.so\.3 => (\S+)", subprocess.run(["ldd", CONVOY], capture_output=True, text=True).stdout)[1]
    shutil.copy(linked, folder / "libdnnl.so.3")
    assert version() == "3.2.0"
    for named in (folder, folder / "libdnnl.so.3"):
        assert version(named) == f"3.2.0 (CONVOY_ONEDNN: {folder / 'libdnnl.so.3'})", version(named)
    for problem in PROBLEMS:
        mine = offered(problem)
        assert offered(problem, folder) == mine, (problem, offered(problem, folder), mine)
        assert mine or "u8" in problem, problem
    # One whose plain loops have another name, which only its own functions can say.
    (folder / "renamed").write_bytes(pathlib.Path(linked).read_bytes().replace(b"ref:any\0", b"rex:any\0"))
    loops = "fprop:x=f32,1x2x4x4,nhwc:w=f32,2x2x3x3,nchw:y=f32,1x2x2x2,nhwc"
    assert "onednn.ref" in run("verify", loops, "--engines", "onednn.ref").stdout
    said = run("verify", loops, "--engines", "onednn.ref", onednn=folder / "renamed")
    assert said.returncode != 0 and "does not offer it" in said.stdout + said.stderr, (said.stdout[-500:], said.stderr[-500:])
    (folder / "text").write_text("not a library")
    other = re.search(r"libz\.so\.1 => (\S+)", subprocess.run(["ldd", CONVOY], capture_output=True, text=True).stdout)[1]
    for wrong, reason in ((folder / "none", "No such file"), (folder / "text", "file too short"), (other, "it has no dnnl_")):
        said = run("doctor", onednn=wrong)
        assert said.returncode != 0 and reason in said.stdout + said.stderr, (wrong, said.stdout[-300:])
        assert "CONVOY_ONEDNN" in said.stderr and "event=library" in said.stderr, said.stderr
        assert version(wrong) == "3.2.0"
        assert offered(PROBLEMS[0], wrong) == offered(PROBLEMS[0])
print("ok")
