#!/usr/bin/env python3
"""width_test.py CONVOY: on a terminal of 60, 80 and 120 columns no line is longer than the terminal, tables keep their
first columns, and --wide, files and pipes have every column."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

CONVOY = str(Path(sys.argv[1]).resolve())
CONV = "fprop:x=f32,1x16x12x12,nhwc:w=f32,24x16x3x3:pad=1x1:bias=1:act=relu"
OTHER = "fprop:x=f32,1x24x12x12,nhwc:w=f32,32x24x1x1"
failures = []


def check(right, what):
    if not right:
        failures.append(what)
        print("FAILED:", what, flush=True)


def environment(folder):
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "TERM", "NO_COLOR")}
    kept.update(CONVOY_DB=str(folder / "tuning.db"), XDG_CACHE_HOME=str(folder / "cache"), CONVOY_CUDA_DRIVER="off")
    return kept


def on_terminal(folder, columns, *arguments):
    """Exit code and lines of a command whose standard output and error are a terminal."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([CONVOY, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=child, stderr=child,
                               env=environment(folder), cwd=folder)
    os.close(child)
    data = b""
    while True:
        try:
            piece = os.read(parent, 1 << 16)
        except OSError:  # the last writer has closed it
            break
        if not piece:
            break
        data += piece
    os.close(parent)
    text = data.decode()
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r\n", "\n")
    # What a carriage return begins again (a progress bar) is a line of its own.
    return process.wait(), re.split(r"[\n\r]", text)


def subcommands(folder):
    """Every subcommand, as the help of those above it lists them."""
    found = [[]]
    for path in found:
        out = subprocess.run([CONVOY, *path, "--help"], capture_output=True, text=True, env=environment(folder)).stdout
        part = re.search(r"^Subcommands:\n((?:  .*\n)+)", out, re.M)
        if part:
            found += [path + [name] for name in re.findall(r"^  ([a-z][a-z-]*)", part.group(1), re.M)]
    return found


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "list.txt").write_text(f"2 {CONV}\n1 {OTHER}\n")
        (folder / "a.rules").write_text("pass=fprop -> reference\n")
        (folder / "problems").mkdir()
        (folder / "problems" / "some.txt").write_text(f"1 {CONV}\n")
        model = folder / "model.onnx"
        subprocess.run([CONVOY, "zoo", "resnet18", "-o", model], check=True, env=environment(folder), stdout=subprocess.DEVNULL)
        parts = subcommands(folder)
        for expected in (["run"], ["bench"], ["db", "show"], ["list", "engines"], ["completion"], ["man"]):
            check(expected in parts, f"convoy --help doesn't lead to {expected}")
        commands = [(0, [*path, "--help"]) for path in parts]
        commands += [
            (0, ["tune", "list.txt", "--budget", "2", "--threads", "1"]),
            (0, ["bench", "list.txt", "--budget", "2", "--threads", "1", "--all", "--vs", "onednn.*"]),
            (0, ["bench", CONV, "--budget", "1", "--threads", "1", "--rules", "a.rules"]),
            (0, ["explain", CONV, "--threads", "1"]),
            (0, ["explain", "list.txt", "--threads", "1"]),
            (0, ["explain", "list.txt", "--threads", "1", "--all"]),
            (0, ["explain", model]),
            (0, ["explain", model, "--node", "2"]),
            (0, ["run", model, "--random-inputs", "--verbose", "--top", "3"]),
            (0, ["run", model, "--random-inputs", "--node", "*"]),
            (0, ["doctor"]),
            (0, ["db", "path"]),
            (0, ["db", "show"]),
            *[(0, ["list", what]) for what in ("rule-fields", "layouts", "problems", "zoo", "engines")],
            (0, ["list", "engines", "--all"]),
            # Errors, too.
            (2, ["run"]),
            (2, ["fly"]),
            (2, ["bench", CONV, "cuda", "--nothing-of-the-kind-that-anybody-has-heard-of-so-far"]),
            (2, ["explain", CONV, "--engines", "no-engine-has-such-a-name"]),
            (2, ["explain", CONV, "--node", "nowhere*"]),
            (2, ["explain", "fprop:x=f32,1x24x12x12,nhwc:w=f32,32x25x1x1"]),
            (2, ["run", folder / ("a-model-with-a-very-long-name-" * 4 + ".onnx")]),
            (2, ["run", "zoo:unicorn", "--random-inputs"]),
            (4, ["explain", CONV, "--engines", "cpu.depthwise*"]),
        ]
        for code, arguments in commands:
            shown = "convoy " + " ".join(map(str, arguments))
            for columns in (60, 80, 120):
                exit_code, lines = on_terminal(folder, columns, *arguments)
                # A value that others choose may change what is an error; a crash never is right.
                check(exit_code == code, f"{shown} at {columns}: exit code {exit_code}, not {code}: {lines[-6:]}")
                check(any(lines), f"{shown} at {columns}: says nothing")
                longest = max(lines, key=len)
                check(len(longest) <= columns, f"{shown} at {columns}: a line of {len(longest)} columns: {longest!r}")

        _, narrow = on_terminal(folder, 60, "explain", CONV, "--threads", "1")
        _, wide = on_terminal(folder, 60, "explain", CONV, "--threads", "1", "--wide")
        check(any(line.startswith("left out at 60 columns: ") or "--wide shows all" in line for line in narrow),
              "what is left out at 60 columns is not said")
        check(max(map(len, wide)) > 60, "--wide changes nothing")
        pipe = subprocess.run([CONVOY, "explain", CONV, "--threads", "1"], capture_output=True, text=True,
                              env=environment(folder), cwd=folder)
        head = re.compile(r"engine +predicted .*workspace +loops")
        check(any(head.search(line) for line in wide), "--wide doesn't show every column")
        check(head.search(pipe.stdout) is not None, "a pipe doesn't get every column")
        check("left out" not in pipe.stderr, "something is left out in a pipe")
        limited = subprocess.run([CONVOY, "explain", CONV, "--threads", "1"], capture_output=True, text=True,
                                 env=environment(folder) | {"COLUMNS": "70"}, cwd=folder)
        check(max(map(len, limited.stdout.splitlines())) <= 70, "COLUMNS=70 is not heeded in a pipe")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
