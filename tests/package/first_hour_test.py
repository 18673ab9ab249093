#!/usr/bin/env python3
"""docs/first-hour.md, followed to the letter: files are written, commands run, and what the page shows of their output must
be in it, but for numbers and names of engines. In a folder of its own, with a home of its own.

  first_hour_test.py PAGE BUILD_FOLDER

In the page a block ```LANGUAGE NAME is a file of that name; a block ```console has commands after "$ ", each with the lines
of its output that matter, in their order; "..." stands for lines that don't. A command fails unless it exits with 0, or says
"(exit code N)" as the last line shown.

The page's model, picture and labels are the trained ones of CONVOY_DATA (else ../shared/data beside the sources), where they
are; otherwise a network of the zoo, a picture made here and numbers for labels: then lines with labels are skipped, and the
test says so.
"""
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

page, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
data = pathlib.Path(os.environ.get("CONVOY_DATA") or page.parent.parent.parent / "shared/data")
SECONDS_A_COMMAND = 300


def blocks(text):
    """(info string, lines, number of the first line) of each fenced block."""
    inside, lines, start, info = False, [], 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if inside:
                yield info, lines, start
            inside, lines, start, info = not inside, [], number + 1, line[3:].strip()
        elif inside:
            lines.append(line)


def commands(lines, first):
    """(line number, command, lines of output) of a console block; a command goes on after a backslash or in <<EOF."""
    found = []
    for number, line in enumerate(lines, first):
        if line.startswith("$ "):
            found.append([number, line[2:], []])
        elif found and not found[-1][2] and found[-1][1].endswith("\\"):
            found[-1][1] += "\n" + line
        elif found:
            found[-1][2].append(line)
    return found


NUMBER = r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?"
UNITS = "ns|us|ms|s|min|B|KiB|MiB|GiB|KB|MB|GB|%"
VARIES = re.compile(
    rf"(?P<engine>\b(?:cpu|onednn)\.[\w.]+(?:\{{[^}}]*\}})?)|(?P<number>{NUMBER}(?: ?(?:{UNITS})\b)?)|(?P<rule>-{{3,}})|(?P<gap>\s+)"
)


LABEL_ROW = re.compile(r"\s*0\.\d+\s+\d+\s+[a-z]")  # "0.7596    281  tabby, tabby cat"


def pattern_of(line):
    """A regular expression for a line of output, in which numbers with their units, engines and widths may differ."""
    text, at = "", 0
    line = line.strip()
    for match in VARIES.finditer(line):
        text += re.escape(line[at : match.start()])
        if match["engine"]:
            text += r"(?:cpu|onednn)\.[\w.]+(?:\{[^}]*\}?)?"
        elif match["number"]:
            text += rf"{NUMBER}(?: ?(?:{UNITS}))?"
        else:
            text += "-+" if match["rule"] else r"\s+"
        at = match.end()
    return re.compile((text + re.escape(line[at:])).replace(re.escape("..."), ".*"))


def missing(shown, output):
    """The first line shown that is not in the output after the ones before it; None: all are."""
    lines = iter(output.splitlines())
    for line in shown:
        if line.strip() in ("", "..."):
            continue
        wanted = pattern_of(line)
        if not any(wanted.search(found) for found in lines):
            return line
    return None


def picture():
    """A grey gradient of 224x224 as PNG."""
    rows = b"".join(b"\0" + bytes((x + y) // 2 for x in range(224) for _ in range(3)) for y in range(224))
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", 224, 224, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def give_files(folder, convoy):
    """The page's model, picture and labels; whether they are the trained model's."""
    model = data / "models/squeezenet1.1-7/model.onnx"
    if model.exists():
        shutil.copy(model, folder / "squeezenet.onnx")
        shutil.copy(data / "images/kitten_224.png", folder / "kitten.png")
        shutil.copy(data / "images/imagenet_labels_1000.txt", folder / "labels.txt")
        return True
    subprocess.run([convoy, "zoo", "squeezenet1_1", "-o", folder / "squeezenet.onnx"], check=True, stdout=subprocess.DEVNULL)
    (folder / "kitten.png").write_bytes(picture())
    (folder / "labels.txt").write_text("".join(f"class {i}\n" for i in range(1000)))
    return False


def wait_for(file, shell, command):
    end = time.monotonic() + SECONDS_A_COMMAND
    while not file.exists():
        if shell.poll() is not None or time.monotonic() > end:
            shell.kill()
            sys.exit(f"FAILED: {command}: it did not end within {SECONDS_A_COMMAND} s, or ended the shell")
        time.sleep(0.01)


def main():
    work = pathlib.Path(tempfile.mkdtemp(prefix="convoy_first_hour_"))
    folder = work / "here"
    (work / "home").mkdir()
    folder.mkdir()
    (folder / "build").symlink_to(build)
    trained = give_files(folder, build / "bin/convoy")
    ours = ("CONVOY_", "XDG_", "PKG_CONFIG", "CMAKE_", "CTEST_", "DESTDIR")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment |= {"HOME": str(work / "home"), "COLUMNS": "120"}
    shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, cwd=folder, env=environment, text=True)
    failures, ran = [], 0
    for info, lines, first in blocks(page.read_text()):
        words = info.split()
        if len(words) == 2:
            (folder / words[1]).write_text("\n".join(lines) + "\n")
        if words[:1] != ["console"]:
            continue
        for number, command, shown in commands(lines, first):
            out, done = work / "output", work / "done"
            done.unlink(missing_ok=True)
            # In the shell itself, so that `export` and `cd` last.
            shell.stdin.write(f"{{ {command}\n}} >{shlex.quote(str(out))} 2>&1 </dev/null; echo $? >{done}.new; mv {done}.new {done}\n")
            shell.stdin.flush()
            wait_for(done, shell, f"{page.name}:{number}: {command}")
            ran += 1
            code, output = int(done.read_text()), out.read_text(errors="replace")
            expected = 0
            if shown and (match := re.fullmatch(r"\(exit code (\d+)\)", shown[-1].strip())):
                expected, shown = int(match[1]), shown[:-1]
            if not trained:
                shown = [line for line in shown if not LABEL_ROW.match(line)]
            line = missing(shown, output)
            if code != expected or line is not None:
                why = f"exit code {code}" if code != expected else f"the page shows, and it does not print:\n    {line}"
                failures.append(f"{page.name}:{number}: $ {command}\n  {why}\n  It printed:\n" + output)
    shell.stdin.close()
    shell.wait()
    if not trained:
        print("skipped: no data: labels are not compared, the network is an untrained one")
    if failures:
        print(*failures, sep="\n\n")
        sys.exit(f"{len(failures)} of {ran} commands are not as {page.name} says (files are in {work})")
    shutil.rmtree(work)
    if ran < 20:
        sys.exit(f"only {ran} commands were found in {page}")
    print(f"{ran} commands do what {page.name} says")


if __name__ == "__main__":
    main()
