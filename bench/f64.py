"""What f64 takes beside f32: of layers, passes and layouts the fastest candidate of each type, timed in one run.

    python bench/f64.py [--threads 1 2] [--layouts nchw nhwc] [--budget 110] [--convoy COMMAND] [--output FILE]

For each thread count and layout one `convoy bench` times every candidate of every layer and pass in f32 and in f64, checked by the
oracle, with cold caches. `ratio` is the time in f64 over that in f32: 2 is what twice the bytes and half the lanes cost.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = {  # x, w, y and the rest
    "3x3, 64 channels": ("1x64x56x56", "64x64x3x3", "1x64x56x56", ":pad=1x1"),
    "1x1, 256 to 64": ("1x256x56x56", "64x256x1x1", "1x64x56x56", ""),
    "7x7, 3 channels, stride 2": ("1x3x224x224", "64x3x7x7", "1x64x112x112", ":pad=3x3:stride=2x2"),
    "3x3, 128 channels, stride 2": ("1x128x56x56", "128x128x3x3", "1x128x28x28", ":pad=1x1:stride=2x2"),
    "3x3x3, 32 channels": ("1x32x8x28x28", "32x32x3x3x3", "1x32x8x28x28", ":pad=1x1x1"),
    "3x3, 32 groups of 4": ("1x128x56x56", "128x4x3x3", "1x128x56x56", ":pad=1x1:groups=32"),
    "3x3, depthwise": ("1x144x56x56", "144x1x3x3", "1x144x56x56", ":pad=1x1:groups=144"),
}
PASSES = ("fprop", "dgrad", "wgrad")


def rows_of(threads, layout, options):
    problems = []
    for x, w, y, rest in LAYERS.values():
        named = {"nchw": "ncdhw", "nhwc": "ndhwc"}[layout] if x.count("x") == 4 else layout
        problems += [f"{which}:x={type},{x},{named}:w={type},{w}:y={type},{y},{named}{rest}" for which in PASSES for type in ("f32", "f64")]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "problems.txt")
        path.write_text("\n".join(problems) + "\n")
        command = [options.convoy, "bench", path, "--threads", threads, "--no-db", "--budget", options.budget, "--json"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr.strip())
    best = []
    for problem in json.loads(done.stdout)["problems"]:
        timed = [each for each in problem["candidates"] if each.get("seconds")]
        best.append(min(timed, key=lambda each: each["seconds"]))
    for i, (layer, which) in enumerate((layer, which) for layer in LAYERS for which in PASSES):
        f32, f64 = best[2 * i], best[2 * i + 1]
        yield {"layer": layer, "pass": which, "layout": layout, "threads": threads, "ratio": round(f64["seconds"] / f32["seconds"], 2),
               **{type: [each["candidate"], round(each["seconds"] * 1e6, 1), each["samples"]] for type, each in (("f32", f32), ("f64", f64))}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--layouts", nargs="+", default=["nchw", "nhwc"])
    parser.add_argument("--budget", type=float, default=110, help="seconds for each thread count and layout")
    parser.add_argument("--convoy", type=pathlib.Path, default=ROOT / "build/bin/convoy")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/f64-{datetime.date.today()}.json")
    options = parser.parse_args()
    rows = []
    for threads in options.threads:
        for layout in options.layouts:
            rows += rows_of(threads, layout, options)
            for row in rows[-len(LAYERS) * len(PASSES):]:
                print(f"{row['layer']:28} {row['pass']} {layout} {threads}  {row['f32'][1]:9.1f} {row['f64'][1]:9.1f} us  {row['ratio']:5.2f}  "
                      f"{row['f32'][0]}  {row['f64'][0]}", flush=True)
    doctor = json.loads(subprocess.run([options.convoy, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": f"python bench/f64.py --threads {' '.join(map(str, options.threads))} --layouts {' '.join(options.layouts)} --budget {options.budget:g}",
              "commit": subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
              "processor": doctor["processor"], "versions": {"convoy": doctor["version"], **doctor["libraries"]},
              "largest_ratio": max(row["ratio"] for row in rows), "rows": []}
    text = json.dumps(record, indent=1)
    options.output.write_text(text.replace('"rows": []', '"rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]") + "\n")
    print(options.output)


if __name__ == "__main__":
    main()
