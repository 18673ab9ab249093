"""Steps that compare every engine with the oracle."""
import collections
import re

import problems
from steps import harness


class Checked(harness.Step):
    """Shared by the steps that compare every engine with the oracle."""
    jobs = 8
    flags = ("--all-engines", "--defaults")
    size = 4
    repeats = 2

    def units(self):
        return harness.chunks(self.problems(), self.size)

    def run(self, texts):
        document = harness.convoy("verify", texts, "--repeat", self.repeats, "--repro-folder", harness.OUT / "repro", *self.flags)
        if "broken" in document:
            return document
        # A candidate that loses the device takes the process's other problems along: those have another try.
        lost = [c["problem"] for c in document["checks"] if c["fault"] == "not_checked"]
        if lost and len(lost) < len(texts):
            rest = self.run(lost)
            document["checks"] = [c for c in document["checks"] if c["fault"] != "not_checked"] + rest.get("checks", [])
        return {"problems": texts, "checks": [
            {key: check.get(key) for key in ("problem", "candidate", "fault", "failure", "max_error", "deterministic") if check.get(key)}
            for check in document["checks"]],
            "refusals": collections.Counter(f"{r['engine'].split('.')[0]} {r['code']}" for r in document["refusals"]),
            "reasons": collections.Counter(f"{r['code']}: {re.sub('[0-9]+', 'N', r['reason'])[:90]}" for r in document["refusals"])
            .most_common(40), "unsupported": document["unsupported"]}

    def summary(self, rows):
        faults, refusals, reasons, engines = (collections.Counter() for _ in range(4))
        failures = []
        for row in rows:
            for check in row.get("checks", []):
                faults[check["fault"]] += 1
                engines[check.get("candidate", "none").split("{")[0]] += check["fault"] == "none"
                if check["fault"] != "none":
                    failures.append(check)
            refusals.update(row.get("refusals", {}))
            for reason, count in row.get("reasons", []):
                reasons[reason] += count
        return {"problems": sum(len(row.get("problems", [])) for row in rows), "candidates": sum(faults.values()),
                "by_fault": faults, "refused_by_code": refusals, "reasons": reasons.most_common(60), "right_by_engine": engines,
                "nothing_can": [text for row in rows for text in row.get("unsupported", [])], "failures": failures[:300],
                "broken": [row["broken"] for row in rows if "broken" in row]}


class Candidates(Checked):
    """165 problems of the lists, every engine by index at its default knobs"""

    def problems(self):
        return problems.spread(harness.PROBLEMS)


class Random(Checked):
    """1,000 random problems, each engine once"""
    size = 20
    repeats = 1

    def problems(self):
        return problems.random_problems(1000)


class Repeatability(Checked):
    """20 executions of every engine that claims the same bits, on 30 problems"""
    repeats = 20
    size = 3

    def problems(self):
        return problems.spread(harness.PROBLEMS, 30, 8, seed=3)

    def summary(self, rows):
        whole = super().summary(rows)
        whole["broke_their_promise"] = [f for f in whole["failures"] if f["fault"] == "other_bits"]
        return whole


class Large3d(Checked):
    """a 3D convolution of more than 2^31 elements with the heuristic's choice, and how it is split"""
    size = 1
    flags = ()
    repeats = 1

    def problems(self):
        return [problems.LARGE_3D]

    def run(self, texts):
        explained = harness.convoy("explain", texts)
        return {**super().run(texts), "chosen": explained.get("problems", [{}])[0].get("chosen"),
                "advice": explained.get("problems", [{}])[0].get("advice")}

    def summary(self, rows):
        return {**super().summary(rows), "chosen": rows[0].get("chosen"), "advice": rows[0].get("advice")}


class Knobs(harness.Step):
    """all knobs of all engines on 10 problems: which are right, as far as the budget goes; side by side, so their times say little"""
    jobs = 10

    def units(self):
        return problems.spread(harness.PROBLEMS, 10, 16, seed=4)

    def run(self, text):
        document = harness.convoy("bench", [text], "--engines", "cudnn.*", "--all-knobs", "--budget", 70, CONVOY_NVML="off")
        if "broken" in document:
            return document
        candidates = document["problems"][0]["candidates"]
        other = [c for c in candidates if c["status"] != "ok"]
        shown = [{key: c.get(key) for key in ("candidate", "status", "seconds", "reason")}
                 for c in harness.right({"candidates": candidates})[:20] + [c for c in other if c["status"] == "wrong"][:100]]
        reasons = collections.Counter(f"{c['status']}: {re.sub('[0-9]+', 'N', (c.get('reason') or '').split(': ', 1)[-1])[:120]}" for c in other)
        return {"problem": text, "candidates": shown, "right": len(candidates) - len(other), "not_right": reasons.most_common(30),
                "engines": sorted({c["candidate"].split("{")[0] for c in candidates if c["status"] == "ok"})}

    def summary(self, rows):
        return {"problems": [row for row in rows if "broken" not in row], "broken": [row["broken"] for row in rows if "broken" in row]}
