#!/usr/bin/env python3
"""`convoy tune` and `convoy db` under stress. usage: tune_test.py CONVOY [again|processes|kill|interrupt] [--json FILE]

  again      a second tune measures nothing and is quick; export, import and tune again give the same plan
  processes  eight processes tune into one file at once
  kill       kill -9 at random moments: no row is lost that was reported as stored, the file stays whole
             (20 kills; 200 with CONVOY_TEST_FULL)
  interrupt  --budget 10 ends within 11 s; Ctrl-C after 3 s leaves a valid, partial record
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("convoy")
parser.add_argument("--slowdown", type=float, default=1, help="how much longer this build takes, which is instrumented")
parser.add_argument("part", nargs="?", choices=["again", "processes", "kill", "interrupt"])
parser.add_argument("--kills", type=int, default=200 if os.environ.get("CONVOY_TEST_FULL") else 20)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--json", help="record what was seen")
parser.add_argument("--commit", default="unknown")
arguments = parser.parse_args()
folder = pathlib.Path(tempfile.mkdtemp(prefix="convoy_tune_test_"))
seen = {}


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAILED: {message} (files are in {folder})")


def environment(database):
    return {**os.environ, "CONVOY_DB": str(database)}


def convoy(database, *command, expect=0):
    done = subprocess.run([arguments.convoy, *map(str, command)], env=environment(database), capture_output=True, text=True)
    check(done.returncode == expect, f"convoy {command} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def tune(database, *command, expect=0):
    return json.loads(convoy(database, "tune", *command, "--json", expect=expect))


def timed(database, *command):
    """What a command answers, the processor's seconds, and those that passed."""
    start = time.monotonic()
    child = subprocess.Popen([arguments.convoy, *command, "--json"], env=environment(database), stdout=subprocess.PIPE, text=True)
    document = json.loads(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    check(status == 0, f"convoy {command} ended with {status}")
    return document, usage.ru_utime + usage.ru_stime, time.monotonic() - start


def problem_list(name, sizes):
    """Small problems, so that a run stores many rows in little time."""
    path = folder / name
    path.write_text("".join(f"fprop:x=f32,1x{c}x{h}x{h},nhwc:w=f32,{c}x{c}x3x3:pad=1x1\n" for c, h in sizes))
    return path


def rows(database):
    """(problem, candidate) -> state, read by SQLite itself; also its own check of the file."""
    connection = sqlite3.connect(database, timeout=20)
    found = connection.execute("PRAGMA integrity_check").fetchall()
    check(found == [("ok",)], f"integrity_check of {database}: {found}")
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        return {}  # killed before the tables were made
    result = {(problem, candidate): state for problem, candidate, state in connection.execute(
        "SELECT problem, engine || knobs, state FROM measurements JOIN problems ON problems.id = problem_id")}
    connection.close()
    return result


def again():
    target = problem_list("again.txt", [(8, 6), (16, 8), (24, 10), (32, 7)])
    first, second = folder / "again1.db", folder / "again2.db"
    plans = [folder / f"plan{i}.rules" for i in range(3)]
    one = tune(first, target, "-o", plans[0])
    check(one["measured"] > 0 and one["partial"] == 0, f"the first tune: {one}")
    exported = convoy(first, "db", "export")
    two = tune(first, target, "-o", plans[1])
    check(two["measured"] == 0 and two["stored"] == 0, f"the second tune measured {two['measured']}")
    (folder / "export.jsonl").write_text(exported)
    convoy(second, "db", "import", folder / "export.jsonl")
    three = tune(second, target, "-o", plans[2])
    check(three["measured"] == 0, f"after the import {three['measured']} were measured")
    heads = [[line for line in plan.read_text().splitlines() if line.startswith("#")] for plan in plans]
    rules = ["".join(line for line in plan.read_text().splitlines(True) if not line.startswith("#")) for plan in plans]
    check(rules[0] == rules[1] == rules[2], "the plans differ")
    check(rules[0] == one["plan"], "the plan in the document is another")
    for name in ("model: ", "on: ", "date: "):
        check(any(line.startswith("# " + name) for line in heads[0]), f"the plan's head has no {name}")
    check(convoy(second, "db", "export") == exported, "the export of the import is another")
    # The plan is a rules file.
    convoy(first, "explain", target, "--rules", plans[0])
    # A filter chooses among what is stored and changes nothing of it.
    winner = one["problems"][0]["candidate"].split("{")[0]
    other = tune(first, target, "--engines", f"cpu.*,!{winner}")
    check(other["measured"] == 0 and not other["problems"][0]["candidate"].startswith(winner), "the filter")
    check(convoy(first, "db", "export") == exported, "a filter changed what is stored")

    network = folder / "network.db"
    while True:
        done = tune(network, "zoo:resnet18", "--budget", 60)
        if done["partial"] == 0:
            break
    # The processor's time: other programs don't count. A plan of the network alone says how fast the processor is today.
    _, planned, _ = timed(network, "plan", "zoo:resnet18", "-o", str(folder / "of-today.plan"))
    document, processor, wall = timed(network, "tune", "zoo:resnet18")
    check(document["measured"] == 0, f"the second tune of a network measured {document['measured']}")
    check(processor < max(0.5 * arguments.slowdown, 2.5 * planned),
          f"the second tune of a network took {processor:.2f} s of the processor, a plan {planned:.2f}")
    check(document["plan"] == done["plan"], "the second tune of a network chose differently")
    steps = json.loads(convoy(network, "run", "zoo:resnet18", "--random-inputs", "--json"))["steps"]
    check(all(step["reason"] == "plan" for step in steps if step["kind"] == "conv"), "convoy run does not obey the kept plan")
    steps = json.loads(convoy(network, "run", "zoo:resnet18", "--random-inputs", "--how", "greedy", "--json"))["steps"]
    layers = [step for step in steps if step["kind"] == "conv"]
    check(all(step["reason"] in ("stored", "network hint") for step in layers), "convoy run does not take what is stored")
    check(any(step["reason"] == "network hint" for step in layers), "convoy run takes nothing of what was timed in the network")
    runs = {(step["problem"], step["implementation"]) for step in layers}
    tuned = {(problem["problem"], problem["candidate"]) for problem in document["problems"]}
    check(runs == tuned, f"convoy run does other convolutions than were tuned: {runs ^ tuned}")
    check(len(layers) == sum(problem["count"] for problem in document["problems"]), "the counts differ")
    other = folder / "network2.db"
    (folder / "network.jsonl").write_text(convoy(network, "db", "export"))
    convoy(other, "db", "import", folder / "network.jsonl")
    # (An export has no kept plan. With engines named, no whole plans are made, whose costs would be measured first.)
    imported = tune(other, "zoo:resnet18", "--engines", "cpu.*,onednn.*,reference")
    check(imported["measured"] == 0 and imported["plan"] == done["plan"], "after an import the network's plan is another")
    explained = convoy(network, "explain", document["problems"][0]["problem"])
    if document["problems"][0]["in_network"]:
        check("(network hint)" in explained and "in a network" in explained, f"explain does not say it: {explained}")
    seen["second_tune_resnet18"] = {"wall_seconds": round(wall, 3), "processor_seconds": round(processor, 3)}
    return f"second tune of resnet18: {wall:.2f} s, {processor:.2f} s of the processor"


def processes():
    """All have one problem in common and two of their own."""
    database = folder / "shared.db"
    children = []
    for p in range(8):
        target = problem_list(f"p{p}.txt", [(8, 5), (8, 10 + p), (16, 10 + p)])
        children.append(subprocess.Popen([arguments.convoy, "tune", target, "--threads", "1", "--verbose"],
                                         env=environment(database), stdout=subprocess.PIPE, text=True))
    reported = set()
    for child in children:
        output, _ = child.communicate()
        check(child.returncode == 0, f"a process ended with {child.returncode}")
        reported |= reported_rows(output)
    stored = rows(database)
    check(reported == set(stored), f"reported {len(reported)} rows, stored {len(stored)}")
    check(len({problem for problem, _ in stored}) == 17, "problems are missing")
    check(all(state != "partial" for state in stored.values()), "partial rows")
    seen["processes"] = {"processes": 8, "rows": len(stored)}
    return f"8 processes, {len(stored)} rows"


def reported_rows(output):
    lines = output.split("\n")[:-1]  # what follows the last end of line was cut off
    return {(words[-1], words[2]) for words in (line.split(" ") for line in lines) if words[0] == "stored"}


def kill():
    generator = random.Random(arguments.seed)
    target = problem_list("kill.txt", [(c, h) for c in (8, 16, 24, 32) for h in range(5, 15)])
    kills = reports = 0
    start = time.monotonic()  # a fast machine is done sooner: what is to be killed must still run
    tune(folder / "whole.db", target, "--again", "--verbose")
    whole = time.monotonic() - start
    for i in range(arguments.kills):
        if i % 5 == 0:  # a new file, which the first process makes, and may be killed making
            database, kept = folder / f"kill{i // 5}.db", set()
        with open(folder / "out", "w+") as output:
            child = subprocess.Popen([arguments.convoy, "tune", target, "--threads", "1", "--again", "--verbose"],
                                     env=environment(database), stdout=output, stderr=subprocess.DEVNULL)
            delay = generator.uniform(0.005, 0.6 * whole)
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
            status = child.wait()
            kills += status == -signal.SIGKILL
            if status != -signal.SIGKILL:  # runs have become shorter, as on a machine that was busy at first
                whole = min(whole, delay)
            output.seek(0)
            reported = reported_rows(output.read())
        reports += len(reported)
        kept |= reported
        if database.exists():
            lost = kept - set(rows(database))
            check(not lost, f"kill {i}: {len(lost)} rows lost, such as {next(iter(lost), None)}")
        else:
            check(not kept, f"kill {i}: the file is gone")
    # And it can be gone on with.
    tune(database, problem_list("after.txt", [(8, 5)]))
    check(kills >= arguments.kills * 3 // 4, f"only {kills} of {arguments.kills} were alive when killed")
    check(reports > 0, "nothing was stored before the kills")
    seen["kill"] = {"kills": kills, "rows_reported": reports, "rows_lost": 0, "corrupt_files": 0, "seed": arguments.seed}
    return f"{kills} kills, {reports} rows reported as stored, none lost, every file whole"


def interrupt():
    database = folder / "budget.db"
    start = time.monotonic()
    document = tune(database, "zoo:densenet121", "--budget", 10)
    took = time.monotonic() - start
    check(took < 8 + 3 * arguments.slowdown, f"--budget 10 took {took:.1f} s")
    check(document["measured"] > 0, "nothing was measured within 10 s")

    database = folder / "interrupt.db"
    child = subprocess.Popen([arguments.convoy, "tune", "zoo:densenet121", "--budget", "60", "--json", "--threads", "1"],
                             env=environment(database), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(3 * arguments.slowdown)
    child.send_signal(signal.SIGINT)
    stopping = time.monotonic()
    output = child.stdout.read()
    check(child.wait() == 130, f"interrupted, it ended with {child.returncode}")
    delay = time.monotonic() - stopping
    document = json.loads(output)
    check(document["interrupted"] and document["partial"] > 0, f"interrupted: {document}")
    check(all("candidate" in problem for problem in document["problems"]), "a problem has no answer")
    stored = rows(database)
    check(stored, f"nothing is stored after {3 * arguments.slowdown} s")
    counted = document["measured"] + document["steps_measured"]
    check(counted == len(stored), f"{len(stored)} candidates, operators and conversions are stored, it says {counted}")
    after = tune(database, "zoo:densenet121", "--budget", 5, "--threads", 1)
    check(after["measured"] > 0 and len(rows(database)) > len(stored), "it does not go on where it was interrupted")
    seen["interrupt"] = {"budget_10_took": round(took, 2), "stop_took": round(delay, 2), "rows_at_3_s": len(stored)}
    return f"--budget 10 took {took:.1f} s; interrupted at 3 s it ended {delay:.1f} s later with {len(stored)} rows"


for part in [again, processes, kill, interrupt]:
    if arguments.part in (None, part.__name__):
        print(f"{part.__name__}: {part()}", flush=True)
if arguments.json:
    doctor = json.loads(subprocess.run([arguments.convoy, "doctor", "--json"], capture_output=True, text=True).stdout)
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": f"tests/tuning/tune_test.py build/bin/convoy {arguments.part or ''} --kills {arguments.kills}",
              "commit": arguments.commit, "device": doctor["processor"], **seen}
    pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")
subprocess.run(["rm", "-rf", str(folder)], check=True)
sys.exit(0)
