#!/usr/bin/env python3
"""completion_test.py CONVOY: what bash (and zsh, where it is installed) offers with the completion that convoy prints,
and that the man page has every subcommand and no faults that man would report."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONVOY = str(Path(sys.argv[1]).resolve())
failures = []


def check(right, what):
    if not right:
        failures.append(what)
        print("FAILED:", what, flush=True)


def convoy(*arguments):
    return subprocess.run([CONVOY, *arguments], capture_output=True, text=True, check=True).stdout


def offered(script, line, folder):
    """What bash puts in COMPREPLY for a line, which it splits at spaces, colons and equal signs."""
    program = f"""source {script}
COMP_LINE=$1 COMP_POINT=${{#1}}
_convoy
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", program, "bash", line], capture_output=True, text=True, cwd=folder)
    # compopt has no completion going on here and says so.
    check(done.returncode == 0, f"bash on {line!r}: {done.stderr}")
    return done.stdout.split()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").touch()
        (folder / "pictures").mkdir()
        script = folder / "convoy.bash"
        script.write_text(convoy("completion", "bash"))

        def has(line, *words, no=()):
            got = offered(script, line, folder)
            check(all(word in got for word in words), f"{line!r} offers {got}, not all of {words}")
            check(not any(word in got for word in no), f"{line!r} offers {got}, with some of {no}")

        has("convoy ", "run", "bench", "explain", "completion", "man")
        has("convoy ex", "explain", no=["run"])
        has("convoy run --ver", "--verbose", no=["--json"])
        has("convoy db ", "show", "export", no=["run"])
        has("convoy db show --j", "--json")
        has("convoy explain --engines cpu.", "cpu.gemm", "cpu.winograd")
        has("convoy explain x --engines=cpu.ge", "cpu.gemm", no=["cpu.winograd"])
        has("convoy bench x --allow tf32,red", "tf32,reduced-accumulation")
        has("convoy run mod", "model.onnx")
        has("convoy run zoo:resn", "resnet18", no=["model.onnx"])  # bash keeps what is before the colon
        has("convoy zoo resn", "resnet18")
        has("convoy run x --output-dir p", "pictures")
        has("convoy run x --select m", "measured")
        has("convoy completion z", "zsh")

        if shutil.which("zsh"):
            (folder / "_convoy").write_text(convoy("completion", "zsh"))
            done = subprocess.run(["zsh", "-n", folder / "_convoy"], capture_output=True, text=True)
            check(done.returncode == 0, f"zsh can't read it: {done.stderr}")
        else:
            print("zsh: skipped, not installed")

        page = convoy("man")
        for part in (".SS convoy run\n", ".SS convoy db show\n", ".SH ENVIRONMENT\n", "CONVOY_DB", "\\-\\-budget SECONDS"):
            check(part in page, f"the man page has no {part!r}")
        if shutil.which("man"):
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-"], input=page, capture_output=True, text=True)
            check(done.returncode == 0 and not done.stderr, f"man: {done.stderr}")
            check("convoy run" in done.stdout, "man shows no subcommand")
        else:
            print("man: skipped, not installed")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
