"""What a step of scripts/gpu-check is, and what steps run: the bundle's programs on the GPU of the calling thread."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parents[3]
BUNDLED = (HERE / "bin/convoy").exists()
ROOT = HERE if BUNDLED else HERE / "build"  # of programs, tests, lib
CONVOY, PROBLEMS = ROOT / "bin/convoy", HERE / "problems"
OUT = pathlib.Path(".")  # set by gpu-check
PLACE = threading.local()  # .gpu: the one that this thread's programs get, as CUDA_VISIBLE_DEVICES takes it
UNIT_SECONDS = 240  # a unit that takes longer is ended and recorded so


def environment_of(changes):
    """This process's, with the GPU of the calling thread. Programs find the bundle's libraries themselves."""
    place = {"CUDA_VISIBLE_DEVICES": PLACE.gpu} if hasattr(PLACE, "gpu") else {}
    return {**os.environ, **place, **changes}


def command(arguments, seconds=UNIT_SECONDS, **environment):
    """(exit code, stdout, stderr); the exit code of what took too long is 124, of a program that there isn't 127."""
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=seconds,
                              env=environment_of(environment))
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace"), f"ended after {seconds} s"
    except FileNotFoundError as missing:
        return 127, "", str(missing)


def ask(program, unit, seconds=UNIT_SECONDS, **environment):
    """What a Python program that answers a line of JSON with another says to the unit. It stays for the calling thread's next one; one that
    ended or took too long is started anew then."""
    workers = PLACE.__dict__.setdefault("workers", {})
    key = (str(program), tuple(sorted(environment.items())))
    if key not in workers or workers[key].poll() is not None:
        said = tempfile.TemporaryFile("w+")
        workers[key] = subprocess.Popen([sys.executable, program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                                        env=environment_of(environment))
        workers[key].said = said
    worker = workers[key]
    late = threading.Timer(seconds, worker.kill)
    late.start()
    try:
        print(json.dumps(unit), file=worker.stdin, flush=True)
        answer = worker.stdout.readline()
    except BrokenPipeError:
        answer = ""
    late.cancel()
    if answer:
        return json.loads(answer)
    code = worker.wait()
    worker.said.seek(0)
    return {"rows": [], "broken": {"exit_code": code, "stderr": worker.said.read()[-1500:]}}


def end_workers():
    """Those that ask() started for the calling thread."""
    for worker in PLACE.__dict__.pop("workers", {}).values():
        worker.stdin.close()
        worker.wait()


def convoy(what, texts, *flags, seconds=UNIT_SECONDS, **environment):
    """A subcommand's document for a list of problems; {"broken": ...} where there is none. bench stores nothing."""
    if what == "bench":
        flags = ("--no-db", *flags)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        code, out, err = command([CONVOY, what, file.name, "--device", "cuda", "--json", *flags], seconds, **environment)
    try:
        return json.loads(out)
    except ValueError:
        return {"broken": {"exit_code": code, "problems": texts, "stderr": err[-2000:]}}


def multiprocessors():
    """Of the calling thread's GPU."""
    _, out, _ = command([CONVOY, "doctor", "--json"])
    return json.loads(out)["cuda"]["devices"][0]["sm_count"]


def chunks(texts, size):
    return [texts[i:i + size] for i in range(0, len(texts), size)]


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def right(entry):
    return [c for c in entry["candidates"] if c["status"] == "ok"]


class Step:
    """What gpu-check asks of a step: units(), run(unit), summary(rows)."""
    jobs = 1  # so many units side by side on a GPU; what takes times there holds the lock (device/cuda/measuring_lock.h)
