"""What a network's plan decides, as values: the lines of a plan file (docs/plans.md)."""
from __future__ import annotations

import dataclasses
import functools
import re
from typing import Optional, Tuple

from convoy._errors import InvalidArgument

_LINE = re.compile(r'(?P<kind>\w+)\s+"(?P<nodes>(?:[^"\\]|\\.)*)"\s+(?P<runs_on>\S+)\s+(?P<reads>\S+)\s+->\s+(?P<writes>\S+)'
                   r"(?:\s+threads=(?P<threads>\d+))?\s+(?P<cost>\S+)\s+(?P<known_by>\S+)\s*(?:#.*)?")
_KINDS = frozenset({"conv", "op", "convert", "relabel", "inplace"})


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """A line of a plan: what runs a node, and in which layouts."""

    kind: str  # "conv", "op", "convert" (a layout is changed), "relabel", "inplace" (operators that cost nothing)
    nodes: str  # the ONNX nodes that are computed together, "conv1+bn1+relu1"; of "convert" the value
    runs_on: str  # a convolution's candidate, an operator's name; "-": a change of layout
    reads: str  # type and layout, "f32,nhwc"; "-": no activation
    writes: str
    threads: Optional[int]  # where the step has fewer than the network
    seconds: Optional[float]  # alone
    known_by: str  # where `seconds` is from: "measured", "predicted", or "-"


class NetworkPlan(str):
    """A plan file's text, which a file, `convoy run --plan` and Network(plan=) take as it is. `steps` are its lines as values."""

    @functools.cached_property
    def steps(self) -> Tuple[PlannedStep, ...]:
        found = []
        for number, line in enumerate(self.splitlines(), 1):
            if line.split(" ", 1)[0] not in _KINDS:
                continue  # the header, comments
            parts = _LINE.fullmatch(line)
            if parts is None:
                raise InvalidArgument(f"line {number}: {line!r} is not as docs/plans.md has a plan's lines")
            threads, cost = parts["threads"], parts["cost"]
            found.append(PlannedStep(parts["kind"], re.sub(r"\\(x[0-9a-f]{2}|.)", _unescaped, parts["nodes"]), parts["runs_on"],
                                     parts["reads"], parts["writes"], None if threads is None else int(threads),
                                     None if cost == "-" else float(cost.removesuffix("us")) / 1e6, parts["known_by"]))
        return tuple(found)


def _unescaped(found: "re.Match[str]") -> str:
    text = found[1]
    return chr(int(text[1:], 16)) if len(text) == 3 else text
