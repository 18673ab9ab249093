"""cuda.depthwise beside cuDNN's engines, over the depthwise layers of problems/."""
import collections

import problems
from steps import harness
from steps.timed import NOISE, timed_entry


COPY_BYTES, MULTIPLY_ADDS = 4.27e12, 67e12 / 2  # an H200's, a second: a copy, bytes read and written; f32


class Depthwise(harness.Step):
    """cuda.depthwise beside cuDNN's engines, executions in a row: HOPPER.md's rows, and all layers at batch 128"""
    jobs = 7
    caches = "rotating"
    rows = True
    batches = (128,)
    tries = 3

    def units(self):
        units = [["rows", chunk] for chunk in harness.chunks(list(problems.DEPTHWISE_ROWS), 4)] if self.rows else []
        for batch in self.batches:
            units += [[batch, chunk] for chunk in harness.chunks([text for text, *_ in problems.depthwise(harness.PROBLEMS, batch)], 12)]
        return units

    def run(self, unit):
        batch, todo = unit
        entries = {}
        for _ in range(self.tries):  # where the budget ended, another run goes on from the database
            document = harness.convoy("bench", todo, "--engines", "cudnn.*,cuda.depthwise", "--budget", 15 * len(todo), f"--{self.caches}",
                              CONVOY_NVML="off")
            if "broken" in document:
                return document
            entries |= {entry["problem"]: entry for entry in document["problems"]}
            todo = [text for text, entry in entries.items() if entry["partial"]]
            if not todo:
                break
        return {"batch": batch, "rows": [timed_entry(e) for e in entries.values()]}

    def summary(self, rows):
        result = {"caches": self.caches, "rows": [], "batches": {},
                  "partial": [r["problem"] for row in rows for r in row.get("rows", []) if r["partial"]], "broken": [row["broken"] for row in rows if "broken" in row]}
        for batch in self.batches:
            floor = {text: max(size / COPY_BYTES, flops / 2 / MULTIPLY_ADDS) for text, flops, size in problems.depthwise(harness.PROBLEMS, batch)}
            mine = [r for row in rows if row.get("batch") == batch for r in row["rows"] if r["cuda"]]
            both = [r for r in mine if r["cudnn"]]
            speedups = [r["cudnn"]["seconds"] / r["cuda"]["seconds"] for r in both]
            shares = [floor[r["problem"]] / r["cuda"]["seconds"] for r in mine]
            forms = collections.defaultdict(list)
            for r, speedup, share in zip(both, speedups, (floor[r["problem"]] / r["cuda"]["seconds"] for r in both)):
                what, x = r["problem"].split(":")[:2]
                forms[" ".join((what, *x[2:].split(",")[::2]))].append((speedup, share))
            union = [r["cudnn"]["seconds"] / min(r["cuda"]["seconds"], r["cudnn"]["seconds"]) for r in both]
            result["batches"][batch] = {
                "problems": len(mine), "with_cudnn": len(both), "geomean_over_cudnn": harness.geomean(speedups), "geomean_share_of_floor": harness.geomean(shares),
                "geomean_of_the_faster_over_cudnn": harness.geomean(union), "cudnn_faster_beyond_noise": sum(value < 1 / NOISE for value in speedups),
                "by_form": {form: {"problems": len(pairs), "over_cudnn": harness.geomean([pair[0] for pair in pairs]),
                                   "share_of_floor": harness.geomean([pair[1] for pair in pairs])} for form, pairs in sorted(forms.items())},
                "layers": [[r["problem"], r["cuda"]["candidate"], r["cuda"]["seconds"], r["cudnn"]["candidate"], r["cudnn"]["seconds"]]
                           for r in both],
                "slowest": sorted(([r["problem"], r["cuda"]["seconds"], r["cudnn"]["seconds"]] for r in both),
                                  key=lambda r: r[2] / r[1])[:20]}
        for row in rows:
            for r in row["rows"] if row.get("batch") == "rows" else []:
                result["rows"].append({**r, "aim_microseconds": problems.DEPTHWISE_ROWS[r["problem"]],
                                       "microseconds": r["cuda"] and r["cuda"]["seconds"] * 1e6})
        return result


class DepthwiseSmall(Depthwise):
    """the same at batch 32 and 1"""
    rows = False
    batches = (32, 1)


class DepthwiseCold(Depthwise):
    """the same at batch 128, 32 and 1, single executions with the caches as a producer leaves them"""
    caches = "cold"
    batches = (128, 32, 1)
