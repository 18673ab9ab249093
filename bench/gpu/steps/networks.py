"""Whole networks: the ways that people run them, and Convoy, beside each other (bench/gpu/peers.py), and the floors (bench/gpu/floor.py)."""
import json
import subprocess
import tempfile
import threading

from peer_networks import AUTOTUNED, cells, volumes
from steps import harness

# What is measured together, each group beside a captured graph: what the ratios are of first, and apart what may take its row along.
GROUPS = (["graph", "jit", "onnxruntime", "convoy"], ["compile", "called"], ["onnxruntime-unfused"], ["convoy-measured"])


class Serving:
    """peers.py, asked a row a line; a row that takes too long ends it."""

    def __init__(self):
        self.errors = tempfile.TemporaryFile("w+")
        command = ["python3", harness.HERE / "bench/gpu/peers.py", "--serve", "--convoy", harness.CONVOY]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=harness.environment_of({}))
        self.about = self.answer(harness.UNIT_SECONDS)

    def answer(self, seconds):
        late = threading.Timer(seconds, self.process.kill)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-1500:]
        self.end()
        raise RuntimeError(f"exit code {code}, at the latest after {seconds} s: {said}")

    def ask(self, unit, seconds):
        self.process.stdin.write(json.dumps(unit) + "\n")
        self.process.stdin.flush()
        return self.answer(seconds)

    def end(self):
        self.process.kill()
        self.process.wait()
        for each in (self.process.stdin, self.process.stdout, self.errors):
            each.close()


class Networks(harness.Step):
    """whole networks: a captured graph, torch.jit, ONNX Runtime and Convoy in turns, then torch.compile, and the floors"""
    SECONDS = 120  # a row

    def units(self):
        return [["floor"]] + [[*cell, group] for group in GROUPS for cell in cells()]

    def run(self, unit):
        if unit == ["floor"]:
            with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
                code, out, err = harness.command(["python3", harness.HERE / "bench/gpu/floor.py", "--output", file.name])
                return {"floor": json.loads(file.read())} if code == 0 else {"broken": (out + err)[-2000:]}
        try:
            # One process for all rows of a GPU: what it loads and looks for takes as long as a row.
            serving = harness.PLACE.serving = getattr(harness.PLACE, "serving", None) or Serving()
            return {"about": serving.about, "row": serving.ask(unit, self.SECONDS)}
        except (RuntimeError, OSError, ValueError) as error:
            harness.PLACE.serving = None
            return {"unit": unit, "broken": str(error)}

    def summary(self, rows):
        merged = {}
        for row in (each["row"] for each in rows if "row" in each):
            known = merged.setdefault((row["network"], row["type"], row["batch"]), row)
            known["peers"] = {**row["peers"], **known["peers"]}
        floors = next((each["floor"] for each in rows if "floor" in each), {"rows": []})
        of = {(row["network"], row["type"], row["batch"]): row["floor_ms"] for row in floors["rows"]}
        table = [[*key, of.get(key), {name: times_of(found, of.get(key)) for name, found in row["peers"].items()}] for key, row in merged.items()]
        return {"about": next((each["about"] for each in rows if "about" in each), None), "table": table, "convoy_over_best": ratios(merged.values()),
                "broken": [each for each in rows if "broken" in each], "peaks": floors.get("peaks"), "floors": floors["rows"], "rows": list(merged.values())}


class Volumes(Networks):
    """the 256^3 volume of an MRI through meshnet and a video decoder: eager PyTorch, a captured graph, torch.compile and Convoy in turns"""

    def units(self):
        return [[*cell, ["eager", "graph", "compile", "convoy"]] for cell in volumes()]


class Autotuned(Networks):
    """torch.compile with max-autotune beside a captured graph: minutes a row"""
    SECONDS = 560

    def units(self):
        return [[*cell, ["autotune"]] for cell in cells() if cell[0] in AUTOTUNED and cell[1] == "f16"]


class Compiled(harness.Step):
    """what torch.compile makes of the networks, side by side and untimed, so that `networks` finds it in the caches"""
    jobs = 5

    def units(self):
        return list(cells())

    def run(self, cell):
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = harness.command(["python3", harness.HERE / "bench/gpu/peers.py", "--only", " ".join(map(str, cell)), "--peers", "compile", "called", "--rounds", 0,
                                              "--output", f"{folder}/rows.json"])
        return {"cell": cell, "exit_code": code, "tail": (out + err)[-600:]}

    def summary(self, rows):
        return {"failed": [row for row in rows if row["exit_code"]], "rows": rows}


def times_of(found, floor_ms):
    """Milliseconds singly and in a row and the share of the floor, or why there are none."""
    if "not_measured" in found:
        return found["not_measured"]
    times = [round(found[kind]["median"], 4) if kind in found else None for kind in ("single_ms", "row_ms")]
    return [*times, floor_ms and round(floor_ms / (times[1] or times[0]), 3)]


def ratios(rows):
    """How many times as fast as the best of (a), (b) and (e) the better of Convoy's is, in a row: the geometric mean and the least."""
    found = {}
    for row in rows:
        over = {name: each["row_over_graph"]["median"] for name, each in row["peers"].items() if "row_over_graph" in each}
        best = max((over[name] for name in ("graph", "jit", "onnxruntime", "onnxruntime-unfused") if name in over), default=None)
        mine = [over[name] for name in ("convoy", "convoy-measured") if name in over]
        if best and mine:
            found[" ".join(map(str, (row["network"], row["type"], row["batch"])))] = max(mine) / best
    return {"geomean": harness.geomean(list(found.values())), "least": min(found.values(), default=None), "each": found}
