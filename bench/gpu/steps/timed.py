"""What is kept of a problem that `convoy bench` timed."""
from steps import harness


NOISE = 1.03


def timed_entry(entry):
    """What is kept of a problem that `convoy bench` timed."""
    candidates = harness.right(entry)
    best = {kind: next((c for c in candidates if c["engine"].startswith(kind)), None) for kind in ("cudnn.", "cuda.")}
    pick = entry.get("heuristic") or {}
    return {"problem": entry["problem"], "pick": pick.get("candidate"), "over_best": pick.get("over_best"), "partial": entry["partial"],
            "right": len(candidates), "not_right": sum(c["status"] != "ok" for c in entry["candidates"]),
            **{kind.strip("."): best[kind] and {key: best[kind][key] for key in ("candidate", "seconds", "spread", "workspace_bytes")}
               for kind in best}}
