"""What a first choice that measures nothing costs, beside one query of cuDNN's own heuristic."""
import json

from steps import harness


class ChoiceCost(harness.Step):
    """a first choice by prediction over one query of cuDNN's heuristic, of every problem in the lists, each once a process"""

    def units(self):
        return sorted(path.name for path in harness.PROBLEMS.glob("*.txt"))

    def run(self, name):
        code, out, err = harness.command([harness.ROOT / "tests/gpu_choice_cost", harness.PROBLEMS / name])
        return {"list": name, **json.loads(out)} if code == 0 else {"list": name, "exit_code": code, "error": (out + err)[-1500:]}

    def summary(self, rows):
        measured = [row for row in rows if "rows" in row]
        ratios = sorted(each["choice_seconds"] / each["query_seconds"] for row in measured for each in row["rows"])
        return {"problems": len(ratios), "median_ratio": ratios[len(ratios) // 2] if ratios else None,
                "worst_ratio": ratios[-1] if ratios else None, "over_twice": sum(ratio > 2 for ratio in ratios),
                "lists": [{key: row.get(key) for key in ("list", "problems", "median_ratio", "worst_ratio", "median_choice_seconds",
                                                         "median_query_seconds", "exit_code", "error")} for row in rows],
                "rows": [each for row in measured for each in row["rows"]]}
