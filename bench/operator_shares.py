"""Operators on 8 MB tensors in each type, as a share of a copy's bandwidth: those that networks have besides convolutions.

    python bench/operator_shares.py [--types f32 bf16 f16 u8] [--threads 1] [--only GLOB ...] [--channels 64] [--layout nhwc]
                                      [--convoy COMMAND] [--output FILE]

Each is a problem of `convoy bench 'op:...'`, which runs it and a copy of as many bytes in turns in one process, with what it reads as the
step before has left it. A row says what it took and its share; a type that ONNX has no such operator of is left out. One that does
not reach half of a copy is run on 4096 elements, warm, too: in the first cache its loops wait for nothing but their arithmetic, so as
much for each element is its arithmetic floor.
"""
import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = 0.5
NEAR_FLOOR = 1.1  # times as long
SMALL = 8  # side of the maps in the first cache
SIZE = {"f32": 4, "bf16": 2, "f16": 2, "u8": 1}
FLOATS, ALL = ("f32", "bf16", "f16"), ("f32", "bf16", "f16", "u8")


def side_of(kind, channels):
    """Of maps that have 8 MB together; even, as pooling halves it."""
    return round((2**23 / SIZE[kind] / channels) ** 0.5 / 2) * 2


def problems(side, channels, layout):
    """(name, types, problem) with {T} for the type."""
    def image(side, channels=channels):
        return f"1x{channels}x{side}x{side}"

    whole, half = image(side), image(side // 2)
    unary = f"x={{T}},{whole},nhwc:y={{T}},{whole},nhwc"
    one = lambda name, opset, more="": f"op:{name}:{unary}:opset={opset}{more}"
    binary = lambda name, second: f"op:{name}:x={{T}},{whole},nhwc:x1={{T}},{second},nhwc:y={{T}},{whole},nhwc:opset=13"
    pool = lambda name: (f"op:{name}:x={{T}},{whole},nhwc:y={{T}},{half},nhwc:opset=12:@kernel_shape=ints,2,2:@strides=ints,2,2"
                         ":@pads=ints,0,0,0,0")
    matrix = f"{side * side // 16}x1024"
    constants = "".join(f":x{i}=f32,{channels},nchw" for i in range(1, 5))
    rows = [
        ("Relu", FLOATS, one("Relu", 14)),
        ("Clip", ALL, f"op:Clip:x={{T}},{whole},nhwc:x1={{T}},scalar:x2={{T}},scalar:y={{T}},{whole},nhwc:opset=13"),
        ("LeakyRelu", FLOATS, one("LeakyRelu", 16)),
        ("HardSwish", FLOATS, one("HardSwish", 14)),
        ("Sigmoid", FLOATS, one("Sigmoid", 13)),
        ("Gelu", FLOATS, one("Gelu", 20)),
        ("Add", ALL, binary("Add", whole)),
        ("Mul by channel", ALL, binary("Mul", f"1x{channels}x1x1")),
        ("Mul by a scalar", ALL, binary("Mul", "1x1x1x1")),
        ("MaxPool 2x2/2", ALL, pool("MaxPool")),
        ("MaxPool 3x3/2", ALL, f"op:MaxPool:x={{T}},{whole},nhwc:y={{T}},{half},nhwc:opset=12:@kernel_shape=ints,3,3:@strides=ints,2,2"
                               ":@pads=ints,1,1,0,0" if side % 2 == 0 else ""),
        ("AveragePool 2x2/2", FLOATS, pool("AveragePool")),
        ("GlobalAveragePool", FLOATS, f"op:GlobalAveragePool:x={{T}},{whole},nhwc:y={{T}},1x{channels}x1x1,nhwc:opset=13"),
        ("ReduceMean of maps", FLOATS, f"op:ReduceMean:x={{T}},{whole},nchw:y={{T}},1x{channels}x1x1,nchw:opset=13:@axes=ints,2,3:@keepdims=int,1"),
        ("Softmax of rows", FLOATS, f"op:Softmax:x={{T}},{matrix},nchw:y={{T}},{matrix},nchw:opset=13:@axis=int,-1"),
        ("LayerNormalization", FLOATS, f"op:LayerNormalization:x={{T}},{matrix},nchw:x1={{T}},1024,nchw:x2={{T}},1024,nchw:y={{T}},{matrix},nchw"
                                       ":opset=17:@axis=int,-1"),
        ("BatchNormalization", FLOATS, f"op:BatchNormalization:x={{T}},{whole},nhwc{constants}:y={{T}},{whole},nhwc:opset=15"),
        ("Resize nearest x2", ALL, f"op:Resize:x={{T}},{half},nhwc:x1=f32,0,nchw,values=:x2=f32,4,nchw,values=1/1/2/2:y={{T}},{whole},nhwc"
                                   ":opset=13:@coordinate_transformation_mode=text,asymmetric:@mode=text,nearest:@nearest_mode=text,floor"),
        ("Resize linear x2", FLOATS, f"op:Resize:x={{T}},{half},nhwc:x1=f32,0,nchw,values=:x2=f32,4,nchw,values=1/1/2/2:y={{T}},{whole},nhwc"
                                     ":opset=13:@coordinate_transformation_mode=text,half_pixel:@mode=text,linear"),
        ("Concat", ALL, f"op:Concat:x={{T}},{image(side, channels // 2)},nhwc:x1={{T}},{image(side, channels - channels // 2)},nhwc:y={{T}},{whole},nhwc:opset=13:@axis=int,1"),
        ("Pad", ALL, f"op:Pad:x={{T}},{whole},nhwc:x1=s64,8,nchw,values=0/0/1/1/0/0/1/1:y={{T}},{image(side + 2)},nhwc:opset=13"),
        ("Transpose", ALL, f"op:Transpose:x={{T}},{whole},nchw:y={{T}},1x{side}x{side}x{channels},nchw:opset=13:@perm=ints,0,2,3,1"),
        ("QuantizeLinear", ("f32",), f"op:QuantizeLinear:x=f32,{whole},nhwc:x1=f32,scalar,values=0.05:x2=u8,scalar,values=128"
                                     f":y=u8,{whole},nhwc:opset=13"),
        ("DequantizeLinear", ("u8",), f"op:DequantizeLinear:x=u8,{whole},nhwc:x1=f32,scalar,values=0.05:x2=u8,scalar,values=128"
                                      f":y=f32,{whole},nhwc:opset=13"),
    ]
    return [(name, types, problem.replace(",nhwc", f",{layout}")) for name, types, problem in rows]


def measured(problem, options, database, *flags):
    done = subprocess.run([options.convoy, "bench", problem, "--threads", str(options.threads), "--json", *flags], capture_output=True, text=True,
                          env={**os.environ, "CONVOY_DB": str(database)})
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"failed": lines[0]}
    return json.loads(done.stdout)


def numbers(node, found):
    """The timed row, wherever it is in the document."""
    if isinstance(node, dict):
        if "share_of_copy" in node:
            found.append(node)
        for value in node.values():
            numbers(value, found)
    if isinstance(node, list):
        for value in node:
            numbers(value, found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="+", default=list(ALL), choices=ALL)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=["*"], help="globs of names")
    parser.add_argument("--channels", type=int, default=64, help="of maps, 2 at least")
    parser.add_argument("--layout", default="nhwc", choices=("nhwc", "nchw", "nchw8c", "nchw16c"), help="of maps")
    parser.add_argument("--convoy", type=pathlib.Path, default=ROOT / "build/bin/convoy")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / f"bench/results/operator-shares-{datetime.date.today()}.json")
    options = parser.parse_args()
    if options.channels < 2:
        parser.error(f"--channels {options.channels} is below 2")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.types:
            small = {name: problem for name, _, problem in problems(SMALL, options.channels, options.layout)}
            side = side_of(kind, options.channels)
            for name, types, problem in problems(side, options.channels, options.layout):
                if kind not in types or not any(fnmatch.fnmatch(name, glob) for glob in options.only):
                    continue
                problem = problem.replace("{T}", kind)
                row = {"operator": name, "type": kind, "problem": problem}
                database = pathlib.Path(folder) / "shares.db"
                answer = measured(problem, options, database)
                found = numbers(answer, [])
                if found:
                    row |= {"microseconds": round(found[0]["seconds"] * 1e6, 1), "copy_microseconds": round(found[0]["copy_seconds"] * 1e6, 1),
                            "share": round(found[0]["share_of_copy"], 3)}
                else:
                    row["failed"] = answer.get("failed", "no time")
                if row.get("share", TARGET) < TARGET:
                    seconds = numbers(measured(small[name].replace("{T}", kind), options, database, "--warm"), [])[0]["seconds"]
                    row["floor_microseconds"] = round(seconds * 1e6 * (side / SMALL) ** 2, 1)
                    row["over_floor"] = round(row["microseconds"] / row["floor_microseconds"], 3)
                rows.append(row)
                print(f"{name:20} {kind:5} {row.get('share', row.get('failed'))} {row.get('over_floor', '')}", flush=True)
    shares = [row["share"] for row in rows if "share" in row]
    doctor = json.loads(subprocess.run([options.convoy, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    record = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "command": f"python bench/operator_shares.py --threads {options.threads} --types {' '.join(options.types)} "
                         f"--channels {options.channels} --layout {options.layout}",
              "commit": subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
              "processor": doctor["processor"], "threads": options.threads, "target_share": TARGET, "operators": len(shares),
              "reach_target": sum(share >= TARGET for share in shares),
              "near_their_floor": sum(row.get("over_floor", 9) <= NEAR_FLOOR for row in rows), "failed": sum("failed" in row for row in rows),
              "median_share": statistics.median(shares) if shares else None, "rows": rows}
    text = json.dumps({**record, "rows": []}, indent=1)
    options.output.write_text(text.replace('"rows": []', '"rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]") + "\n")
    print(f"{record['reach_target']} of {len(shares)} at {TARGET} of a copy, {record['near_their_floor']} more at their arithmetic floor; "
          f"{options.output}")


if __name__ == "__main__":
    main()
