#!/usr/bin/env python3
"""Every candidate of cuDNN on problems of problems/, in all passes and types, against the oracle: what is right, what is
refused and why, what breaks its promise of bits. Needs a GPU and build/tests/cudnn_test.

    bench/cudnn_candidates.py [--each N] [--test PROGRAM] [--list FILE] [--out FILE]

--list FILE --write only writes the list of problems, for a machine that has the program and no Python.
--report FILE summarises a report that was written elsewhere.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Types, and the compute and math fields that go with them.
TYPES = [("f32", "f32", ""), ("f32", "f32", ":math=tf32"), ("f16", "f16", ""), ("bf16", "bf16", ""), ("s8", "s8", ":compute=s32")]


def with_layout(problem: str, layout: str) -> str:
    spatial = problem.split(",")[1].count("x") - 1
    names = {"nchw": ["ncw", "nchw", "ncdhw"], "nhwc": ["nwc", "nhwc", "ndhwc"]}[layout]
    return re.sub(r"\b(ncw|nwc|nchw|nhwc|ncdhw|ndhwc)\b", names[spatial - 1], problem)


def problems(each: int):
    """Every `each`th line of all lists, in turn with all types, passes, and both layouts."""
    number = 0
    seen = set()
    for path in sorted((ROOT / "problems").glob("*.txt")):
        for line in path.read_text().splitlines():
            line = line.split("#")[0].split()
            if not line or ":" not in line[-1] or "=s8" in line[-1] or "=u8" in line[-1]:
                continue
            number += 1
            if number % each:
                continue
            turn = number // each
            operand, out, tail = TYPES[turn % len(TYPES)]
            passes = ["fprop"] if operand == "s8" else ["fprop", "dgrad", "wgrad"]
            text = re.sub(r":(bias|gamma|act|alpha|beta)=[^:]*", "", line[-1]).split(":", 1)[1]
            text = re.sub(r"=(f32|bf16|f16),", f"={operand},", text)
            text = with_layout(text, "nhwc" if operand == "s8" or turn % 3 else "nchw")
            if operand == "s8":
                text = text.replace("y=s8", "y=f32")
            text = f"{passes[turn // len(TYPES) % len(passes)]}:{text}{tail}"
            if text not in seen:
                seen.add(text)
                yield text


def summary(rows, listed):
    counts = collections.Counter()
    refused = collections.Counter()
    wrong, restless = [], []
    right_of = collections.Counter()
    for row in rows:
        if "refused" in row:
            refused[row["refused"]] += 1
            continue
        if not row.get("allowed", True):
            counts["filtered: gives up precision that the problem does not"] += 1
            continue
        if not row.get("right", False):
            wrong.append({k: row[k] for k in ("problem", "engine", "candidate", "error", "no_plan", "failed") if k in row})
            continue
        counts["right"] += 1
        right_of[row["problem"]] += 1
        if not row["same_bits"]:
            (restless if "NONDETERMINISTIC" not in row["notes"] else []).append(row["candidate"])
            counts["other bits the second time"] += 1
    answered = {row["problem"] for row in rows}
    return {
        "problems": len(answered),
        "listed": listed,
        "candidates": dict(counts),
        "refused_by_code": dict(refused.most_common()),
        "wrong": wrong,
        "restless_without_the_note": restless,
        "problems_that_nothing_ran": sorted(answered - set(right_of)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--test", default=str(ROOT / "build/tests/cudnn_test"))
    parser.add_argument("--list")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--cudnn", default="")
    today = datetime.date.today().isoformat()
    parser.add_argument("--out", default=str(ROOT / f"bench/results/cudnn-candidates-{today}.json"))
    arguments = parser.parse_args()
    wanted = list(problems(arguments.each))
    if arguments.list:
        pathlib.Path(arguments.list).write_text("\n".join(wanted) + "\n")
    if arguments.write:
        return 0
    if not arguments.report:
        with tempfile.TemporaryDirectory() as folder:
            listed = arguments.list or os.path.join(folder, "problems.txt")
            pathlib.Path(listed).write_text("\n".join(wanted) + "\n")
            arguments.report = os.path.join(folder, "report.jsonl")
            environment = dict(os.environ, CONVOY_CUDNN_PROBLEMS=listed, CONVOY_CUDNN_REPORT=arguments.report)
            subprocess.run([arguments.test, "--gtest_filter=OnDevice*", "--gtest_brief=1"], env=environment, check=False)
            lines = pathlib.Path(arguments.report).read_text().splitlines()
    else:
        lines = pathlib.Path(arguments.report).read_text().splitlines()
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    if not rows:
        print("no results: is there a GPU?", file=sys.stderr)
        return 1
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    result = {"date": today, "gpu": arguments.gpu, "cudnn": arguments.cudnn, "commit": commit,
              "command": f"bench/cudnn_candidates.py --each {arguments.each}", **summary(rows, len(wanted))}
    pathlib.Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key not in ("wrong",)}, indent=1))
    print(f"{len(result['wrong'])} wrong")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
