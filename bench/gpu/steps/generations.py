"""cuDNN's two APIs on the same problems: is the newer one's best engine at least as fast as the older one's best algorithm?"""
import collections

import problems
from steps import harness
from steps.timed import NOISE

KINDS = {"graph": "cudnn.eng", "legacy": "cudnn.legacy."}


def best_of(entry):
    """Of each API the fastest right candidate, and the fastest of those with the same bits every time."""
    found = {}
    for name, prefix in KINDS.items():
        candidates = [c for c in harness.right(entry) if c["engine"].startswith(prefix)]
        fixed = [c for c in candidates if "NONDETERMINISTIC" not in (c.get("notes") or [])]
        keep = lambda c: c and {key: c.get(key) for key in ("candidate", "seconds", "spread", "workspace_bytes", "notes")}  # noqa: E731
        found[name] = keep(next(iter(candidates), None))
        found[f"{name}_deterministic"] = keep(next(iter(fixed), None))
        found[f"{name}_right"] = len(candidates)
    return found


def ratio(row, kind=""):
    """Of seconds: the older API's best over the newer one's; over 1: the newer one is faster."""
    newer, older = row.get("graph" + kind), row.get("legacy" + kind)
    return older["seconds"] / newer["seconds"] if newer and older else None


class ApiGenerations(harness.Step):
    """cuDNN's v7 algorithms beside the graph API's engines on the same problems: the ratio of their fastest, a problem"""
    jobs = 3

    def units(self):
        wanted = [text for text in problems.spread(harness.PROBLEMS, 72, 32, seed=17) if "s8" not in text.split(":")[1]]
        return harness.chunks(wanted, 6)

    def run(self, texts):
        document = harness.convoy("bench", texts, "--engines", "cudnn.eng*,cudnn.legacy.*", "--budget", 12 * len(texts), CONVOY_NVML="off")
        if "broken" in document:
            return document
        return {"rows": [{"problem": entry["problem"], "partial": entry["partial"], **best_of(entry)} for entry in document["problems"]]}

    def summary(self, rows):
        every = [row for unit in rows for row in unit.get("rows", [])]
        ratios = {row["problem"]: ratio(row) for row in every if ratio(row)}
        fixed = [value for value in (ratio(row, "_deterministic") for row in every) if value]
        by_kind = collections.defaultdict(list)
        for text, value in ratios.items():
            what, x = text.split(":")[:2]
            fields = x.split("=", 1)[1].split(",")
            by_kind[f"{what} {fields[0]} {fields[2]}"].append(value)
        return {"problems": len(every), "in_both": len(ratios), "partial": sum(row["partial"] for row in every),
                "geomean_legacy_over_graph": harness.geomean(list(ratios.values())),
                "geomean_deterministic_only": harness.geomean(fixed),
                "by_pass_type_layout": {kind: {"problems": len(values), "geomean": harness.geomean(values), "least": min(values)}
                                        for kind, values in sorted(by_kind.items())},
                "graph_slower_beyond_noise": sorted(([text, value] for text, value in ratios.items() if value < 1 / NOISE), key=lambda each: each[1]),
                "only_in_one": [[row["problem"], "graph" if row["graph"] else "legacy" if row["legacy"] else "neither"]
                                for row in every if row["problem"] not in ratios],
                "rows": every, "broken": [row["broken"] for row in rows if "broken" in row]}
