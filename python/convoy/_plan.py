"""A candidate made ready for a problem."""
from __future__ import annotations

import dataclasses
from ctypes import byref, c_void_p, sizeof
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple, TypeVar, overload

import numpy

from convoy import _arrays, _c, _options
from convoy._errors import InvalidArgument
from convoy._operands import Operands

if TYPE_CHECKING:
    from convoy._problem import Problem

_Out = TypeVar("_Out")
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
    """Runs `problem` by `candidate`: y = plan(x, w). Any number of threads may use a plan at once.

    reason           why this candidate: "heuristic", "stored", "network hint", "measured", "rule '...'"; "named": the caller did
    warnings         of the choice: a rule that fell back, a budget that ended early
    measurements     from Problem.tune: fastest first, failed ones last
    workspace_bytes  what an execution needs; it is taken for the call where none is given
    device           "cpu", "cuda:0"
    """

    def __init__(self, problem: "Problem", candidate: str, *, device: object = "cpu", threads: int = 0, target_sms: int = 0,
                 weights: Any = None, reason: str = "named", warnings: Sequence[str] = (),
                 measurements: Sequence[Measurement] = (), _same_as: Optional["Plan"] = None) -> None:
        self.problem = problem
        self.candidate = candidate
        self.device = _options.device_text(device)
        self.reason = reason
        self.warnings = tuple(warnings)
        self.measurements = tuple(measurements)
        self._place = (device, threads, target_sms)
        self._less_aligned: Dict[Tuple[int, ...], Plan] = {}
        has_weights = weights is not None or (_same_as is not None and _same_as._weights is not None)
        self._operands = Operands(problem, self.device, has_weights)
        if weights is not None and self.device != "cpu":
            raise InvalidArgument(f"weights are given, and device={self.device}: there they come with each execution, as w")
        # A copy, since plans for less aligned arrays are made of them later.
        self._weights: Any = self._operands.copied("w", "weights", weights) if _same_as is None else _same_as._weights
        self._handle = self._made(problem, candidate, _options.place(device, threads, target_sms))
        self.workspace_bytes: int = _c.library.convoy_plan_workspace_bytes(self._handle)

    def _made(self, problem: "Problem", candidate: str, options: _c.Options) -> c_void_p:
        library = _c.library
        weights = None if self._weights is None else self._weights.ctypes.data
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

    @overload
    def __call__(self, *operands: Any, out: _Out, x: Any = None, w: Any = None, y: Any = None, bias: Any = None, z: Any = None,
                 slopes: Any = None, scales: Any = None, x_zero_point: Any = None, w_zero_points: Any = None,
                 gate: Any = None, stream: Any = None) -> _Out: ...
    @overload
    def __call__(self, *operands: numpy.ndarray, out: None = None, x: Optional[numpy.ndarray] = None,
                 w: Optional[numpy.ndarray] = None, y: Optional[numpy.ndarray] = None, bias: Any = None, z: Any = None,
                 slopes: Any = None, scales: Any = None, x_zero_point: Any = None, w_zero_points: Any = None,
                 gate: Any = None, stream: Any = None) -> numpy.ndarray: ...
    @overload
    def __call__(self, *operands: Any, out: Any = None, x: Any = None, w: Any = None, y: Any = None, bias: Any = None,
                 z: Any = None, slopes: Any = None, scales: Any = None, x_zero_point: Any = None, w_zero_points: Any = None,
                 gate: Any = None, stream: Any = None) -> Any: ...
    def __call__(self, *operands: Any, x: Any = None, w: Any = None, y: Any = None, out: Any = None, bias: Any = None,
                 z: Any = None, slopes: Any = None, scales: Any = None, x_zero_point: Any = None, w_zero_points: Any = None,
                 gate: Any = None, stream: Any = None) -> Any:
        """Runs on arrays, and returns the one that is computed: `out`, or a new one.

        fprop: plan(x, w), dgrad: plan(w, y), wgrad: plan(x, y); where the plan has its weights, without w. Arrays are
        NumPy's, PyTorch's, or of whatever has DLPack. They are used where they are: what does not have the type, sizes,
        strides and device that the problem says is an error. A new array is of the first operand's library, else NumPy's.

        bias     a value for each channel of the result          z       the residual, as the result is
        slopes   prelu's, f32                                    scales  of the requantization, f32
        gate     x's, a value an image and channel
        stream   on a GPU; None: the current one of PyTorch or CuPy

        Arrays less aligned than the problem says get a plan of the same candidate for theirs, which is made at the first call.
        """
        given = self._operands.named(operands, x=x, w=w, y=y)
        on = None
        if self.device == "cpu":
            if stream is not None:
                raise InvalidArgument(f"stream={stream!r}, and the plan is for the processor, which has none")
        else:
            on = _arrays.current_stream(given, self._operands.ordinal) if stream is None else _arrays.stream_address(stream)
        if out is None:
            out = self._operands.new(given)
        rest = {"bias": bias, "z": z, "slopes": slopes, "scales": scales, "x_zero_point": x_zero_point,
                "w_zero_points": w_zero_points, "gate": gate}
        arrays = self._operands.check_all(given, out, rest, on)
        pointers = {name: found.pointer for name, found in arrays.items()}
        alignments = self._operands.alignments(pointers)
        plan = self if alignments is None else self._for(alignments)
        plan.execute(stream=on, **pointers)
        return out

    def _for(self, alignments: Tuple[int, ...]) -> "Plan":
        """The same for arrays of less alignment."""
        plan = self._less_aligned.get(alignments)
        if plan is None:
            device, threads, target_sms = self._place
            plan = Plan(self._operands.with_alignments(alignments), self.candidate, device=device, threads=threads,
                        target_sms=target_sms, _same_as=self)
            plan = self._less_aligned.setdefault(alignments, plan)
        return plan

    def execute(self, x: Optional[int] = None, w: Optional[int] = None, y: Optional[int] = None, out: Optional[int] = None,
                bias: Optional[int] = None, z: Optional[int] = None, slopes: Optional[int] = None, scales: Optional[int] = None,
                workspace: Optional[int] = None, workspace_bytes: int = 0, stream: Optional[int] = None,
                x_zero_point: Optional[int] = None, w_zero_points: Optional[int] = None,
                gate: Optional[int] = None) -> None:
        """Runs on addresses, as convoy_plan_execute does; types, sizes and lifetimes are the caller's matter.

        The operand that is computed is given as `out`. On a GPU it returns when the work is enqueued on `stream`.
        """
        arguments = _c.Arguments(_SIZE, x, w, y, out, bias, z, slopes, scales, workspace, workspace_bytes, stream,
                                 x_zero_point, w_zero_points, gate)
        _c.call(_c.library.convoy_plan_execute, self._handle, byref(arguments))

    def __repr__(self) -> str:
        return f"<convoy.Plan {self.candidate} ({self.reason}) on {self.device} of {self.problem.text}>"
