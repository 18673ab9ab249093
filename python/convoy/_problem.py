"""Convolution problems: who can run one, what is chosen for it, and why."""
from __future__ import annotations

import ctypes
import dataclasses
from ctypes import byref
from typing import Any, List, Optional, Tuple

from convoy import _c, _explain, _options
from convoy._explain import Explanation
from convoy._options import Database, Engines, Rules
from convoy._plan import Measurement, Plan
from convoy._progress import Progress, Told


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An operand of a problem: dims in the order N, C, (D), H, W (w: K, C/groups, ...), strides in elements."""

    type: str  # "f32"
    dims: Tuple[int, ...]
    strides: Tuple[int, ...]
    channel_block: int  # 1, 8 or 16
    bytes: int  # of memory it spans


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An engine's answer for a problem."""

    engine: str
    name: Optional[str]  # with its default knobs, "cpu.gemm{k_block=256}"; None: it can't
    refusal: Optional[str]  # why it can't; None: it can
    predicted_seconds: float  # 0: it can't


class Problem:
    """A convolution, from its problem string: Problem("fprop:x=f32,1x64x28x28,nhwc:w=f32,96x64x3x3:pad=1x1").

    `text` is the whole, canonical string. `x`, `w` and `y` describe the operands.
    """

    def __init__(self, text: str) -> None:
        self._handle = _c.handle(self, _c.library.convoy_problem_destroy, _c.library.convoy_problem_create,
                                 _c.encoded(text, "text"))
        self.text: str = _c.library.convoy_problem_text(self._handle).decode()
        self.computes: str = {"fprop": "y", "dgrad": "x", "wgrad": "w"}[self.text.split(":", 1)[0]]
        self.x = self._tensor(_c.X)
        self.w = self._tensor(_c.W)
        self.y = self._tensor(_c.Y)

    def _tensor(self, operand: int) -> Tensor:
        tensor = _c.sized(_c.Tensor)
        _c.call(_c.library.convoy_problem_tensor, self._handle, operand, byref(tensor))
        rank = tensor.rank
        return Tensor(tensor.type.decode(), tuple(tensor.dims[:rank]), tuple(tensor.strides[:rank]), tensor.channel_block,
                      tensor.bytes)

    @property
    def out(self) -> Tensor:
        """The operand that is computed."""
        return {"x": self.x, "w": self.w, "y": self.y}[self.computes]

    @property
    def flops(self) -> float:
        """A multiply-add is two."""
        return float(_c.library.convoy_problem_flops(self._handle))

    def candidates(self, *, device: object = "cpu", threads: int = 0, target_sms: int = 0) -> List[Candidate]:
        """What each engine of the device answers, in the order of the table."""
        found: List[Candidate] = []

        def answer(_: Any, engine: bytes, reason: Optional[bytes], candidate: Optional[bytes], seconds: float) -> None:
            found.append(Candidate(engine.decode(), _c.decoded(candidate), _c.decoded(reason), seconds))

        options = _options.place(device, threads, target_sms)
        _c.call(_c.library.convoy_query, self._handle, byref(options), _c.AnswerCallback(answer), None)
        return found

    def explain(self, *, rules: Rules = None, engines: Engines = None, deterministic: bool = False,
                workspace_limit: Optional[int] = None, fallback: bool = False, database: Database = True,
                device: object = "cpu", threads: int = 0, target_sms: int = 0) -> Explanation:
        """What select() would choose with the same keywords, and why; every engine's answer."""
        options = _options.make(rules=rules, engines=engines, deterministic=deterministic, workspace_limit=workspace_limit,
                                fallback=fallback, database=database, device=device, threads=threads, target_sms=target_sms)
        return _explain.explain(self, options)

    def select(self, *, rules: Rules = None, engines: Engines = None, deterministic: bool = False,
               workspace_limit: Optional[int] = None, fallback: bool = False, database: Database = True,
               device: object = "cpu", threads: int = 0, target_sms: int = 0, weights: Any = None) -> Plan:
        """A plan of what a rule or the heuristic chooses, or of what the database knows to be faster; nothing is measured.

        rules            text of a rules file, or {pattern: candidate}
        engines          globs over engine names, "cpu.*,!cpu.winograd"
        deterministic    only what gives the same bits each time
        workspace_limit  bytes
        fallback         where a rule's engine can't run: the next best, instead of an error
        database         of what was measured; True: the command's, False: none, or a file
        device           "cpu", "cuda", "cuda:1"
        threads          of the processor; 0: all it has
        weights          on the processor: packed once, and not given at execution
        """
        options = _options.make(rules=rules, engines=engines, deterministic=deterministic, workspace_limit=workspace_limit,
                                fallback=fallback, database=database, device=device, threads=threads, target_sms=target_sms)
        return self._chosen(_c.library.convoy_select, options, device, threads, target_sms, weights)

    def tune(self, *, budget: float = 0.0, database: Database = True, engines: Engines = None, deterministic: bool = False,
             workspace_limit: Optional[int] = None, device: object = "cpu", threads: int = 0, target_sms: int = 0,
             weights: Any = None, progress: Progress = None) -> Plan:
        """A plan of what is measured to be the fastest, each candidate's result compared with the oracle first.

        budget    seconds; 0: until all that may win are measured
        database  where measurements are kept, and looked up first; True: the command's, False: nowhere
        progress  gets the fraction of the candidates that is measured, and the last one's name; it, or Ctrl-C, ends it by an
                  exception, and what was measured until then is kept
        """
        options = _options.make(engines=engines, deterministic=deterministic, workspace_limit=workspace_limit, budget=budget,
                                database=database, device=device, threads=threads, target_sms=target_sms)
        with Told(progress) as told:
            options.progress = ctypes.cast(told.callback, ctypes.c_void_p)
            return self._chosen(_c.library.convoy_tune, options, device, threads, target_sms, weights)

    def plan(self, candidate: str, *, device: object = "cpu", threads: int = 0, target_sms: int = 0,
             weights: Any = None) -> Plan:
        """The plan of a candidate by its name, "cpu.gemm" or "cpu.gemm{k_block=256}"."""
        return Plan(self, candidate, device=device, threads=threads, target_sms=target_sms, weights=weights)

    def _chosen(self, choose: Any, options: _c.Options, device: object, threads: int, target_sms: int, weights: Any) -> Plan:
        library = _c.library
        choice = _Choice()
        handle = _c.handle(choice, library.convoy_choice_destroy, choose, self._handle, byref(options))
        measurements = []
        for index in range(library.convoy_choice_measured(handle)):
            m = _c.sized(_c.Measurement)
            _c.call(library.convoy_choice_measurement, handle, index, byref(m))
            measurements.append(Measurement(m.candidate.decode(), _c.decoded(m.failure), m.median_seconds, m.spread,
                                            m.workspace_bytes, m.max_error))
        return Plan(self, library.convoy_choice_candidate(handle).decode(), device=device, threads=threads,
                    target_sms=target_sms, weights=weights, reason=library.convoy_choice_reason(handle).decode(),
                    warnings=_c.lines(library.convoy_choice_warnings(handle)), measurements=measurements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"convoy.Problem({self.text!r})"

    def __reduce__(self) -> Any:
        return Problem, (self.text,)


class _Choice:
    """Owns a convoy_choice."""
