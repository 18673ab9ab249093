"""What a caller asked for: rules, and flags, in force for a thread.

Operators get it as text (JSON, "" where nothing is asked for), so that it can be saved with an autograd node, traced by
torch.compile and be part of a key.
"""
from __future__ import annotations

import collections
import contextlib
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import threading
import warnings
from typing import Any, Iterator, List, Mapping, Optional, Tuple, Union

import convoy

PASSES = ("fprop", "dgrad", "wgrad")
# A problem that every rule can be read with.
_ANY = "fprop:x=f32,1x1x1x1:w=f32,1x1x1x1"


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that is in force. The innermost context comes first in `rules`."""

    rules: Tuple[Tuple[str, str], ...] = ()  # (a glob over module names, "" for every convolution; text of a rules file)
    strict: bool = True  # a rule that can't be obeyed is an error
    engines: Optional[str] = None
    deterministic: Optional[bool] = None  # None: PyTorch's own flags say
    workspace: Optional[int] = None  # bytes; None: no limit
    database: bool = True  # whether the tuning database is asked

    @functools.cached_property
    def text(self) -> str:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        changed = {name: value for name, value in fields.items() if value != getattr(_NOTHING, name)}
        return json.dumps(changed, sort_keys=True) if changed else ""

    @staticmethod
    def parse(text: str) -> "Settings":
        if not text:
            return _NOTHING
        fields = json.loads(text)
        fields["rules"] = tuple((glob, lines) for glob, lines in fields.get("rules", ()))
        return Settings(**fields)

    def rules_of(self, module: str) -> Optional[str]:
        """The text of the rules that a module's convolutions get; None: there are none."""
        lines = []
        for glob, text in self.rules:
            if not glob:
                lines.append(text)
            elif fnmatch.fnmatchcase(module, glob):
                lines.append(text)
        return "\n".join(lines) if lines else None

    def globs_of(self, module: str) -> Tuple[str, ...]:
        """Those that the module's name matches."""
        return tuple(glob for glob, _ in self.rules if glob and fnmatch.fnmatchcase(module, glob))

    @property
    def asks(self) -> bool:
        """Whether a candidate is asked for, so that another one in its place would be wrong."""
        return bool(self.engines is not None or self.workspace is not None or (self.rules and self.strict))


_NOTHING = Settings()
_of_thread = threading.local()
# The text that was set last, by any thread. torch.compile can't trace what belongs to a thread; it guards on this one.
_shared: str = ""
_entered = False  # whether any thread has set anything yet
_runs: "collections.Counter[str]" = collections.Counter()  # convolutions of modules whose names a glob matches, by the glob


def count(globs: Tuple[str, ...]) -> None:
    """A convolution of a module that these match ran."""
    _runs.update(globs)


def current() -> str:
    """The settings of this thread, as text."""
    return getattr(_of_thread, "text", "") if _entered else ""


@contextlib.contextmanager
def _in_force(change: Any) -> Iterator[None]:
    global _shared, _entered
    before = getattr(_of_thread, "settings", _NOTHING), getattr(_of_thread, "text", "")
    settings = change(before[0])
    _of_thread.settings, _of_thread.text = settings, settings.text
    _shared = settings.text
    _entered = True
    try:
        yield
    finally:
        _of_thread.settings, _of_thread.text = before
        _shared = before[1]


def _checked(text: str) -> str:
    """The text of rules; a mistake in it is an error of the library's, with its line."""
    convoy.Problem(_ANY).select(rules=text, fallback=True, threads=1)
    return text


def _module_rules(glob: object, value: object) -> str:
    if not isinstance(glob, str) or not glob:
        raise convoy.WrongType(f"rules: a module's name is {glob!r}, not text")
    if isinstance(value, str):
        return _checked(value if "->" in value else f"* -> {value}")
    if isinstance(value, Mapping):
        for name in value:
            if name not in PASSES:
                raise convoy.InvalidArgument(f"rules: {glob}: pass {name!r} is not one of {', '.join(PASSES)}")
        return _checked("".join(f"pass={name} -> {candidate}\n" for name, candidate in value.items()))
    raise convoy.WrongType(f"rules: {glob} is of type {type(value).__name__}, not a candidate's name, rules or a dict by pass")


Rules = Union[str, "os.PathLike[str]", Mapping[str, Union[str, Mapping[str, str]]]]


def _read(rules: Rules) -> List[Tuple[str, str]]:
    if isinstance(rules, Mapping):
        return [(glob, _module_rules(glob, value)) for glob, value in rules.items()]
    if isinstance(rules, os.PathLike) or (isinstance(rules, str) and "->" not in rules and rules.strip()):
        return [("", _checked(pathlib.Path(rules).read_text()))]
    if isinstance(rules, str):
        return [("", _checked(rules))]
    raise convoy.WrongType(f"rules is of type {type(rules).__name__}, not text, a file or a dict by module name")


@contextlib.contextmanager
def rules(rules: Rules, *, strict: bool = True) -> Iterator[None]:
    """Names engines, for the convolutions of this thread whose forward pass runs inside, and for their backward passes.

    rules   text of a rules file or a file's name (docs/selection.md), or a dict by module name, which may be a glob:
            {"layer4.0.conv2": "cudnn.eng23", "head.*": {"fprop": "cpu.gemm", "wgrad": "cpu.direct"}}
    strict  a candidate that can't run is an error; else the next best runs, and a warning and the report say so

    The first rule that matches decides; those of an inner context come before those of an outer one.
    """
    read = tuple(_read(rules))
    before = {glob: _runs[glob] for glob, _ in read if glob}
    with _in_force(lambda outer: dataclasses.replace(outer, rules=read + outer.rules, strict=bool(strict))):
        yield
    for glob in sorted(glob for glob, runs in before.items() if _runs[glob] == runs):
        warnings.warn(f"rules: no convolution ran in a patched module of the name {glob!r}; convoy.torch.patch(model) gives them names",
                      stacklevel=3)


@contextlib.contextmanager
def algo(*, fprop: Optional[int] = None, dgrad: Optional[int] = None, wgrad: Optional[int] = None,
         strict: bool = True) -> Iterator[None]:
    """Names algorithms of cuDNN's older interface by their numbers, as cudnnConvolutionFwdAlgo_t and its like have them."""
    asked = {"fprop": fprop, "dgrad": dgrad, "wgrad": wgrad}
    lines = []
    for name, number in asked.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise convoy.WrongType(f"{name} is of type {type(number).__name__}, not int")
        lines.append(f"pass={name} -> cudnn.legacy.{name}{number}\n")
    if not lines:
        raise convoy.InvalidArgument("none of fprop, dgrad and wgrad is given; give an algorithm's number, as in algo(fprop=1)")
    with rules("".join(lines), strict=strict):
        yield


@contextlib.contextmanager
def flags(*, deterministic: Optional[bool] = None, workspace: Optional[int] = None, engines: Optional[str] = None) -> Iterator[None]:
    """Filters, for the convolutions of this thread whose forward pass runs inside, and for their backward passes.

    deterministic  only what gives the same bits each time; None: as torch.backends.cudnn.deterministic and
                   torch.use_deterministic_algorithms say
    workspace      bytes of scratch memory that a convolution may use
    engines        globs over engine names, "cpu.*,!cpu.winograd"

    What is not given stays as an outer context has it.
    """
    change: dict[str, Any] = {}
    if deterministic is not None:
        change["deterministic"] = bool(deterministic)
    if workspace is not None:
        if isinstance(workspace, bool) or not isinstance(workspace, int):
            raise convoy.WrongType(f"workspace is of type {type(workspace).__name__}, not int")
        if workspace < 0:
            raise convoy.InvalidArgument(f"workspace={workspace} is negative; give a number of bytes")
        change["workspace"] = workspace
    if engines is not None:
        if not isinstance(engines, str):
            raise convoy.WrongType(f"engines is of type {type(engines).__name__}, not str")
        change["engines"] = engines
    with _in_force(lambda outer: dataclasses.replace(outer, **change)):
        yield
