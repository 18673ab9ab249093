"""What narrower types gain: for each network plans in f32, in a narrow type where that is faster, and within errors.

    python bench/precision.py [--type bf16] [--threads 1] [--budget 25] [--rounds 12] [--plans narrow half more] [--only resnet50 ...]
                              [--input MODEL=FILE ...] [--keep FOLDER] [--output FILE]

For each network `convoy plan --how global` with a budget, then with --precision, then with --max-error at half and at 1.2 times the error
of the narrow plan; `convoy compare` times each beside the f32 plan, in turns: those that `--plans` names. Errors are measured on the inputs given, else on random
ones. On a processor without AVX-512 no engine takes bf16: the record says so.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETWORKS = ("resnet50", "vgg16", "unet", "convnext_tiny")



def convoy(*arguments, database=None):
    environment = {**os.environ, "CONVOY_DB": str(database)} if database else None
    done = subprocess.run([ROOT / "build/bin/convoy", *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"convoy {' '.join(map(str, arguments))}: {done.stderr[-800:]}")
    return done.stdout, done.stderr


def measured(name, arguments, folder):
    model = name if "/" in name or ":" in name else f"zoo:{name}"
    known = {"database": folder / "costs.db"}  # measured first; plans are then made from what is known
    base = ["--threads", arguments.threads, "--budget", arguments.budget]
    convoy("plan", model, "--how", "global", *base, "-o", folder / "f32.plan", **known)
    convoy("plan", model, "--how", "global", "--precision", arguments.type, *base, **known)
    inputs = [part for given in arguments.input if given.startswith(f"{name}=") for part in ("--input", given.split("=", 1)[1])]
    _, said = convoy("plan", model, "--precision", arguments.type, "--max-error", 1e9, *inputs, *base, "-o", folder / "narrow.plan", **known)
    error = float(re.search(r"of the fastest ([0-9.e+-]+)", said)[1])
    row = {"network": name, "error": error, "plans": {}}
    plans = {arguments.type: None, **({"half": error / 2, "more": 1.2 * error} if error > 0 else {})}
    for which, limit in plans.items():
        if ("narrow" if limit is None else which) not in arguments.plans:
            continue
        plan = folder / ("narrow.plan" if limit is None else f"{which}.plan")
        entry = {}
        if limit is not None:
            _, said = convoy("plan", model, "--precision", arguments.type, "--max-error", limit, *inputs, *base, "-o", plan, **known)
            (folder / f"{which}.txt").write_text(said)
            entry = {"allowed": limit, "measured": float(re.search(r"error ([0-9.e+-]+) of", said)[1])}
        out, _ = convoy("compare", model, folder / "f32.plan", plan, "--random-inputs", "--threads", arguments.threads, "--rounds", arguments.rounds, "--json")
        compared = json.loads(out)
        lines = plan.read_text().splitlines()
        narrow = compared["plans"][1]
        entry.update(times_as_fast=1 / narrow["over_first"], relative_uncertainty=narrow["over_first_uncertainty"],
                     convolutions=sum(line.startswith("conv ") for line in lines),
                     narrow=sum(line.startswith("conv ") and arguments.type in line for line in lines))
        row["plans"][which] = entry
        print(name, which, json.dumps(entry), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", default="bf16", choices=("bf16", "f16"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=25)
    parser.add_argument("--rounds", type=int, default=12, help="turns of each plan")
    parser.add_argument("--plans", nargs="+", default=("narrow", "half", "more"), choices=("narrow", "half", "more"),
                        help="which to time: all of it in the type, within half of the error, within 1.2 times of it")
    parser.add_argument("--only", nargs="*", default=NETWORKS)
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--keep", type=pathlib.Path, help="keep each network's costs, plans and errors by node in FOLDER/NETWORK")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/precision-{datetime.date.today()}.json")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as temporary:
            folder = arguments.keep / pathlib.Path(name).name if arguments.keep else pathlib.Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            rows.append(measured(name, arguments, folder))
        print(json.dumps(rows[-1]), flush=True)
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty"], capture_output=True, text=True)
    processor = json.loads(convoy("doctor", "--json")[0]).get("processor", platform.processor())
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": processor,
              "command": " ".join(["python bench/precision.py", *sys.argv[1:]]), "commit": git.stdout.strip(), "type": arguments.type,
              "threads": arguments.threads, "budget_seconds": arguments.budget, "networks": rows}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
