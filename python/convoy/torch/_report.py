"""What ran, what fell back to PyTorch's own convolutions, and why."""
from __future__ import annotations

import collections
import dataclasses
import json
from typing import Any, Dict, Iterable, List, Tuple

# Convolutions that the functions handed to PyTorch before an operator was called: (function, reason) -> calls.
handed_over: "collections.Counter[Tuple[str, str]]" = collections.Counter()


@dataclasses.dataclass(frozen=True)
class Ran:
    """A convolution's pass that Convoy ran."""

    name: str  # the pass: "fprop", "dgrad", "wgrad"
    module: str  # of a model under patch(model); "" elsewhere
    problem: str
    device: str
    candidate: str  # "cpu.winograd{m=4}"
    reason: str  # "heuristic", "rule '...'"
    calls: int
    workspace_bytes: int
    copied: str  # operands that were copied first, since no engine takes them as they lie: "x"; "" for none
    passed_over: str  # rules that could not be obeyed, and why; a line each


@dataclasses.dataclass(frozen=True)
class FellBack:
    """A convolution that PyTorch computed."""

    name: str  # a function ("conv2d") or a pass ("fprop")
    module: str
    sizes: str  # "" where a function handed it over
    reason: str
    calls: int


def _table(head: Tuple[str, ...], rows: List[Tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, tuple("-" * width for width in widths), *rows]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


@dataclasses.dataclass(frozen=True)
class Report:
    """What convoy.torch did since it was imported, or since reset_report(). Printed, it is a table; the most calls come first."""

    ran: Tuple[Ran, ...]
    fell_back: Tuple[FellBack, ...]

    def data(self) -> Dict[str, List[Dict[str, Any]]]:
        """For JSON."""
        return {"ran": [dataclasses.asdict(row) for row in self.ran], "fell_back": [dataclasses.asdict(row) for row in self.fell_back]}

    def json(self) -> str:
        return json.dumps(self.data(), indent=1)

    def problems(self) -> str:
        """A problem list, which `convoy tune` takes: a line a problem, how often it ran before it."""
        calls: "collections.Counter[str]" = collections.Counter()
        for row in self.ran:
            calls[row.problem] += row.calls
        return "".join(f"{count} {problem}\n" for problem, count in calls.most_common())

    def __str__(self) -> str:
        parts = []
        if self.ran:
            parts.append(_table(("calls", "module", "engine", "chosen by", "copied", "convolution"),
                                [(str(r.calls), r.module, r.candidate, r.reason, r.copied, r.problem) for r in self.ran]))
            passed_over = dict.fromkeys(row.passed_over for row in self.ran if row.passed_over)
            if passed_over:
                parts.append("rules that were passed over:\n" + "\n".join(passed_over))
        if self.fell_back:
            parts.append("computed by PyTorch:\n" + _table(("calls", "module", "what", "why", "sizes"),
                                                           [(str(r.calls), r.module, r.name, r.reason, r.sizes) for r in self.fell_back]))
        return "\n\n".join(parts) if parts else "no convolution ran"


def _make(calls: Iterable[Any]) -> Report:
    """From the calls of _calls.py."""
    ran: "collections.Counter[Ran]" = collections.Counter()
    fell: "collections.Counter[FellBack]" = collections.Counter()
    for call in calls:
        plan = call.plan
        if not call.calls:
            continue
        if plan is not None:
            ran[Ran(call.name, call.module, plan.problem.text, plan.device, plan.candidate, plan.reason, 0, plan.workspace_bytes,
                    call.copied, "\n".join(plan.warnings))] += call.calls
        else:
            fell[FellBack(call.name, call.module, call.sizes, call.reason, 0)] += call.calls
    for (function, reason), count in list(handed_over.items()):
        fell[FellBack(function, "", "", reason, 0)] += count
    return Report(tuple(dataclasses.replace(row, calls=count) for row, count in ran.most_common()),
                  tuple(dataclasses.replace(row, calls=count) for row, count in fell.most_common()))
