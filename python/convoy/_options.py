"""What problems, plans and networks take as keywords, as convoy_options."""
from __future__ import annotations

import math as _math
import os
from ctypes import byref, c_void_p
from typing import Iterable, Mapping, Optional, Union

from convoy import _c
from convoy._errors import ConvoyError, InvalidArgument, WrongType

Rules = Union[str, Mapping[str, str], None]
Engines = Union[str, Iterable[str], None]
Database = Union[bool, str, "os.PathLike[str]", None]


def default_database() -> str:
    """Where the command keeps its tuning database: CONVOY_DB, else convoy/tuning.db in XDG_DATA_HOME or ~/.local/share."""
    path = _c.library.convoy_default_database()
    if path is None:
        _c.raise_last(1)
    return os.fsdecode(path)


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise WrongType(f"{name} is of type {type(value).__name__}, not int")
    number = int(value.__index__())
    if not -(2**31) <= number < 2**31:
        raise InvalidArgument(f"{name}={number} does not fit 32 bits")
    return number


def _limit(name: str, value: object) -> int:
    """Bytes, or -1 for none."""
    if value is None:
        return -1
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise WrongType(f"{name} is of type {type(value).__name__}, not int")
    number = int(value.__index__())
    if not 0 <= number < 2**63:
        raise InvalidArgument(f"{name}={number} is not a number of bytes")
    return number


def seconds(name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or not _math.isfinite(value) or value < 0:
        raise InvalidArgument(f"{name}={value!r} is not a number of seconds")
    return value


def rules_text(rules: Rules) -> Optional[str]:
    """The text of a rules file: from that text, or from {pattern: candidate}."""
    if rules is None or isinstance(rules, str):
        return rules
    if isinstance(rules, Mapping):
        for pattern, candidate in rules.items():
            for part in (pattern, candidate):
                if not isinstance(part, str) or "\n" in part:
                    raise InvalidArgument(f"rules: {part!r} is not text of one line")
        return "".join(f"{pattern} -> {candidate}\n" for pattern, candidate in rules.items())
    raise WrongType(f"rules is of type {type(rules).__name__}, not str or a mapping from patterns to candidates")


def engines_text(engines: Engines) -> Optional[str]:
    """Globs over engine names, from "cpu.*,!cpu.winograd" or a list of them."""
    if engines is None or isinstance(engines, str):
        return engines
    globs = list(engines)
    for glob in globs:
        if not isinstance(glob, str):
            raise WrongType(f"engines: {glob!r} is of type {type(glob).__name__}, not str")
    if not globs:
        raise InvalidArgument("engines is empty, so that no engine is allowed; None allows all")
    return ",".join(globs)


def database_path(database: Database) -> Optional[str]:
    """A database's file: True is the command's, False and None are none."""
    if database is True:
        return default_database()
    if database is None or database is False:
        return None
    return os.fsdecode(os.fspath(database))


def device_text(device: object) -> str:
    """"cpu", "cuda" or "cuda:1"; also what prints as one, as torch.device does."""
    return device if isinstance(device, str) else str(device)


def place(device: object = "cpu", threads: int = 0, target_sms: int = 0) -> _c.Options:
    """Options that only say where."""
    options: _c.Options = _c.sized(_c.Options)
    options.workspace_limit = options.activation_limit = options.weight_limit = options.device_memory_limit = -1
    options.device = _c.encoded(device_text(device), "device")
    options.threads = _integer("threads", threads)
    options.target_sms = _integer("target_sms", target_sms)
    return options


def why_no_device(device: str) -> Optional[str]:
    """Nothing runs on it, and this is why; None: it is there."""
    nothing = _c.AnswerCallback(lambda *_: None)
    problem = c_void_p()
    _c.call(_c.library.convoy_problem_create, b"fprop:x=f32,1x1x1x1:w=f32,1x1x1x1", byref(problem))
    try:
        _c.call(_c.library.convoy_query, problem, byref(place(device)), nothing, None)
    except ConvoyError as error:
        return str(error)
    finally:
        _c.library.convoy_problem_destroy(problem)
    return None


def make(*, device: object = "cpu", threads: int = 0, target_sms: int = 0, rules: Rules = None, engines: Engines = None,
         fallback: bool = False, deterministic: bool = False, workspace_limit: Optional[int] = None, budget: float = 0.0,
         database: Database = None, math: Optional[str] = None, how: Optional[str] = None, plan: Optional[str] = None,
         lenient_plan: bool = False, precision: Optional[str] = None, activation_limit: Optional[int] = None,
         weight_limit: Optional[int] = None, objective: Optional[str] = None,
         batch_parts: Optional[str] = None, graphs: bool = True, synchronous: bool = False,
         device_memory_limit: Optional[int] = None) -> _c.Options:
    """All of convoy_options."""
    options = place(device, threads, target_sms)
    options.rules = _c.encoded(rules_text(rules), "rules")
    options.engines = _c.encoded(engines_text(engines), "engines")
    options.fallback = bool(fallback)
    options.deterministic_only = bool(deterministic)
    options.workspace_limit = _limit("workspace_limit", workspace_limit)
    options.budget_seconds = seconds("budget", budget)
    options.database = _c.encoded(database_path(database), "database")
    options.math = _c.encoded(math, "math")
    options.how = _c.encoded(how, "how")
    options.plan = _c.encoded(plan, "plan")
    options.lenient_plan = bool(lenient_plan)
    options.precision = _c.encoded(precision, "precision")
    options.activation_limit = _limit("activation_limit", activation_limit)
    options.weight_limit = _limit("weight_limit", weight_limit)
    options.objective = _c.encoded(objective, "objective")
    options.batch_parts = _c.encoded(batch_parts, "batch_parts")
    options.no_graph = not graphs
    options.synchronous = bool(synchronous)
    options.device_memory_limit = _limit("device_memory_limit", device_memory_limit)
    return options
