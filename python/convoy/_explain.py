"""Why a problem runs on what it runs on."""
from __future__ import annotations

import dataclasses
from ctypes import byref
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from convoy import _c

if TYPE_CHECKING:
    from convoy._problem import Problem


@dataclasses.dataclass(frozen=True)
class Verdict:
    """An engine's part in a choice."""

    engine: str
    refusal: Optional[str]  # why it can't run the problem; None: it can
    refusal_kind: Optional[str]  # what that is about, "layout"
    excluded: Optional[str]  # it can: why it must not be chosen, a filter or that it is an oracle
    candidate: Optional[str]  # it can: with its default knobs
    no_plan: Optional[str]  # it can: why a plan of that could not be made
    notes: str
    predicted_seconds: float
    measured_seconds: Optional[float]  # of the fastest of it that is known
    workspace_bytes: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What select() would choose, and why it and not another. Printed, it is a text for people."""

    problem: str
    engines: Tuple[Verdict, ...]  # in the table's order
    candidate: Optional[str]  # None: nothing can run it
    reason: str  # "heuristic"; where there is no candidate: why
    decided_by: Optional[str]
    plan: Optional[str]  # how it is carried out
    runner_up: Optional[str]
    why_not_runner_up: Optional[str]
    passed_over: Tuple[str, ...]  # what promises to be faster, with what kept it out
    warnings: Tuple[str, ...]

    def __str__(self) -> str:
        rows = [("engine", "predicted", "measured", "workspace", "why not")]
        for verdict in self.engines:
            if verdict.refusal is None:
                rows.append((verdict.engine, _seconds(verdict.predicted_seconds), _seconds(verdict.measured_seconds),
                             _bytes(verdict.workspace_bytes), verdict.excluded or verdict.no_plan or ""))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [self.problem]
        for row in rows:
            first, *numbers = (text.ljust(width) if column == 0 else text.rjust(width)
                               for column, (text, width) in enumerate(zip(row, widths)))
            lines.append("  ".join(("", first, *numbers, row[4])).rstrip())
        refusals: Dict[str, List[str]] = {}
        for verdict in self.engines:
            if verdict.refusal is not None:
                refusals.setdefault(verdict.refusal, []).append(verdict.engine)
        lines += [f"  {', '.join(names)}: {why}" for why, names in refusals.items()]
        lines.append(f"chosen: {self.candidate or 'none'} ({self.reason})")
        for name, text in (("decided by", self.decided_by), ("plan:", self.plan)):
            if text:
                lines.append(f"  {name} {text}")
        if self.runner_up:
            lines.append(f"  runner-up: {self.runner_up}: {self.why_not_runner_up}")
        lines += [f"  passed over: {text}" for text in self.passed_over]
        lines += [f"  {text}" for text in self.warnings]
        return "\n".join(lines)


def _seconds(value: Optional[float]) -> str:
    if not value:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _bytes(count: int) -> str:
    """As the command writes it: "512 B", "1.50 KiB"."""
    if count < 1024:
        return f"{count} B"
    value, unit = count / 1024, 0
    while value >= 1024:
        value, unit = value / 1024, unit + 1
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {'KMGTP'[unit]}iB"


class _Owner:
    """Owns a convoy_explanation."""


def explain(problem: "Problem", options: _c.Options) -> Explanation:
    library = _c.library
    owner = _Owner()
    handle = _c.handle(owner, library.convoy_explanation_destroy, library.convoy_explain, problem._handle, byref(options))
    verdicts: List[Verdict] = []
    for index in range(library.convoy_explanation_engines(handle)):
        v = _c.sized(_c.Verdict)
        _c.call(library.convoy_explanation_verdict, handle, index, byref(v))
        verdicts.append(Verdict(v.engine.decode(), _c.decoded(v.refusal), _c.decoded(v.refusal_kind), _c.decoded(v.excluded),
                                _c.decoded(v.candidate), _c.decoded(v.no_plan), v.notes.decode(), v.predicted_seconds,
                                v.measured_seconds or None, v.workspace_bytes))
    o = _c.sized(_c.Outcome)
    _c.call(library.convoy_explanation_outcome, handle, byref(o))
    return Explanation(problem.text, tuple(verdicts), _c.decoded(o.candidate), o.reason.decode(), _c.decoded(o.decided_by),
                       _c.decoded(o.plan), _c.decoded(o.runner_up), _c.decoded(o.why_not_runner_up),
                       tuple(_c.lines(o.passed_over)), tuple(_c.lines(o.warnings)))
