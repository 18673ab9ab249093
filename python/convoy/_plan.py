"""A candidate made ready for a problem."""
from __future__ import annotations

import dataclasses
from ctypes import byref, c_void_p, sizeof
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple

from convoy import _c, _options

if TYPE_CHECKING:
    from convoy._problem import Problem

_SIZE = sizeof(_c.Arguments)
# Work that a plan enqueued on a GPU, or a captured graph, may run after nothing refers to the plan any more. So plans for a GPU
# stay until the process ends, and one that is asked for again is the one there is.
_on_gpus: Dict[Tuple[str, str, str, int], c_void_p] = {}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A candidate's, from tuning."""

    candidate: str
    failure: Optional[str]  # None: it ran, and was right
    median_seconds: float
    spread: float  # interquartile range over the median
    workspace_bytes: int
    max_error: float  # in units of the tolerance


class Plan:
    """Runs `problem` by `candidate`. Any number of threads may use a plan at once.

    reason           why this candidate: "heuristic", "measured", "rule '...'"; "named": the caller did
    measurements     from Problem.tune: fastest first, failed ones last
    workspace_bytes  what an execution needs; it is taken for the call where none is given
    device           "cpu", "cuda:0"
    """

    def __init__(self, problem: "Problem", candidate: str, *, device: object = "cpu", threads: int = 0, target_sms: int = 0,
                 weights: Any = None, reason: str = "named", measurements: Sequence[Measurement] = ()) -> None:
        self.problem = problem
        self.candidate = candidate
        self.device = _options.device_text(device)
        self.reason = reason
        self.measurements = tuple(measurements)
        options = _options.place(device, threads, target_sms)
        self._handle = self._made(problem, candidate, options, weights)
        self.workspace_bytes: int = _c.library.convoy_plan_workspace_bytes(self._handle)

    def _made(self, problem: "Problem", candidate: str, options: _c.Options, weights: Optional[int]) -> c_void_p:
        library = _c.library
        arguments = (library.convoy_plan_create, problem._handle, _c.encoded(candidate, "candidate"), byref(options), weights)
        if self.device == "cpu":
            return _c.handle(self, library.convoy_plan_destroy, *arguments)
        key = (problem.text, candidate, self.device, options.target_sms)
        made = _on_gpus.get(key)
        if made is None:
            made = c_void_p()
            _c.call(*arguments, byref(made))
            made = _on_gpus.setdefault(key, made)
        return made

    def execute(self, x: Optional[int] = None, w: Optional[int] = None, y: Optional[int] = None, out: Optional[int] = None,
                bias: Optional[int] = None, z: Optional[int] = None, slopes: Optional[int] = None, scales: Optional[int] = None,
                workspace: Optional[int] = None, workspace_bytes: int = 0, stream: Optional[int] = None,
                x_zero_point: Optional[int] = None, w_zero_points: Optional[int] = None) -> None:
        """Runs on addresses, as convoy_plan_execute does; types, sizes and lifetimes are the caller's matter.

        The operand that is computed is given as `out`. On a GPU it returns when the work is enqueued on `stream`.
        """
        arguments = _c.Arguments(_SIZE, x, w, y, out, bias, z, slopes, scales, workspace, workspace_bytes, stream,
                                 x_zero_point, w_zero_points)
        _c.call(_c.library.convoy_plan_execute, self._handle, byref(arguments))

    def __repr__(self) -> str:
        return f"<convoy.Plan {self.candidate} ({self.reason}) on {self.device} of {self.problem.text}>"
