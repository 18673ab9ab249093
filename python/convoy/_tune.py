"""Tuning of many problems: here, or on the workers of a dask.distributed client, one problem a task."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import pathlib
import socket
import tempfile
import time
from ctypes import byref, c_int64
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from convoy import _c, _options
from convoy._errors import ConvoyError, InvalidArgument, NotFound, WrongType
from convoy._options import Database, Engines
from convoy._plan import Measurement
from convoy._problem import Problem

_TRIES = 2  # of a problem whose worker is lost


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What became of a problem."""

    problem: str
    candidate: Optional[str]  # the fastest; None: there is none, and `error` says why
    seconds: Optional[float]  # of the fastest
    measurements: Tuple[Measurement, ...]  # fastest first, failed ones last
    worker: str  # its address; "here"
    error: Optional[str] = None


def export_database(database: Database = True) -> str:
    """All that a tuning database holds, as lines of JSON; "" where there is no such file."""
    found: List[str] = []

    @_c.TextCallback
    def keep(_: Any, text: int, size: int) -> None:
        found.append(ctypes.string_at(text, size).decode())

    try:
        _c.call(_c.library.convoy_database_export, os.fsencode(_file(database)), keep, None)
    except NotFound:
        return ""
    return found[0]


def import_database(lines: str, database: Database = True) -> int:
    """Adds what export_database() gave to a database; how many measurements came in, or replaced less good ones."""
    taken = c_int64()
    data = lines.encode()
    if data:
        _c.call(_c.library.convoy_database_import, os.fsencode(_file(database)), data, len(data), byref(taken))
    return taken.value


def _file(database: Database) -> str:
    path = _options.database_path(database)
    if path is None:
        raise InvalidArgument(f"database={database!r} names no file")
    return path


def tune(problems: Iterable[Union[str, Problem]], *, client: Any = None, budget: float = 0.0, database: Database = True,
         engines: Engines = None, deterministic: bool = False, workspace_limit: Optional[int] = None, device: object = "cpu",
         threads: int = 0, target_sms: int = 0) -> List[Tuned]:
    """Measures each problem, and keeps what is measured in the database. Results are in the order of the problems.

    client    of dask.distributed: its workers do it, one problem a task and one task a worker at a time. What they measure
              comes into the database here as soon as it is there. With device="cuda" each worker of a host has a GPU of its
              own: the one that CUDA_VISIBLE_DEVICES shows it, else the next by number.
    budget    seconds for all together; 0: until all that may win is measured
    others    as for Problem.tune

    A problem that can't be tuned has an `error`; the others go on.
    """
    listed = [problem if isinstance(problem, Problem) else Problem(problem) for problem in problems]
    if budget < 0:
        raise InvalidArgument(f"budget={budget!r} is not a number of seconds")
    distinct = list(dict.fromkeys(problem.text for problem in listed))
    keywords: Dict[str, Any] = {
        "engines": _options.engines_text(engines), "deterministic": deterministic, "workspace_limit": workspace_limit,
        "device": _options.device_text(device), "threads": threads, "target_sms": target_sms,
    }
    _options.make(**keywords)  # what is wrong is said here, not by each problem
    if client is None:
        done = _tune_here(distinct, budget, database, keywords)
    else:
        done = _Workers(client, database, keywords).tune(distinct, budget)
    return [done[problem.text] for problem in listed]


def _tune_here(texts: Sequence[str], budget: float, database: Database, keywords: Dict[str, Any]) -> Dict[str, Tuned]:
    end = time.monotonic() + budget
    done = {}
    for index, text in enumerate(texts):
        share = _share(budget, end, len(texts) - index)
        done[text] = _tuned(text, "here", dict(keywords, budget=share, database=database))
    return done


def _share(budget: float, end: float, left: int, workers: int = 1) -> float:
    """Seconds for the next of `left` problems. One that comes too late gets so little that only a first answer is measured."""
    if budget == 0:
        return 0.0
    return max((end - time.monotonic()) * min(workers, left) / left, 1e-3)


def _tuned(text: str, worker: str, keywords: Dict[str, Any]) -> Tuned:
    try:
        plan = Problem(text).tune(**keywords)
    except ConvoyError as error:
        return Tuned(text, None, None, (), worker, str(error))
    best = next((m.median_seconds for m in plan.measurements if m.failure is None), None)
    return Tuned(text, plan.candidate, best, plan.measurements, worker)


def _measure(text: str, known: str, worker: str, keywords: Dict[str, Any]) -> Tuple[Tuned, str]:
    """On a worker: what it measured, and that as a database's lines. `known` is not measured again."""
    with tempfile.TemporaryDirectory(prefix="convoy-tune-") as folder:
        database = str(pathlib.Path(folder) / "tuning.db")
        import_database(known, database)
        tuned = _tuned(text, worker, dict(keywords, database=database))
        return tuned, export_database(database)


def _surroundings() -> Tuple[str, str, str]:
    """Of a worker: its host, what it sees of the GPUs there, and its version."""
    import convoy

    return socket.gethostname(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), convoy.__version__


class _Workers:
    """The workers of a client, each with a device."""

    def __init__(self, client: Any, database: Database, keywords: Dict[str, Any]) -> None:
        try:
            import distributed
        except ImportError:
            raise WrongType(f"client is of type {type(client).__name__}, and dask.distributed is not installed") from None
        if not isinstance(client, distributed.Client):
            raise WrongType(f"client is of type {type(client).__name__}, not distributed.Client")
        self.client = client
        self.database = database
        self.keywords = keywords
        self.known = _by_problem(export_database(database) if _options.database_path(database) else "")
        self.devices = self._devices(client.run(_surroundings))

    def _devices(self, surroundings: Dict[str, Tuple[str, str, str]]) -> Dict[str, str]:
        import convoy

        if not surroundings:
            raise InvalidArgument("client has no workers")
        device = str(self.keywords["device"])
        devices, taken = {}, {}  # type: Dict[str, str], Dict[Tuple[str, str], int]
        for worker, (host, visible, version) in sorted(surroundings.items()):
            if version != convoy.__version__:
                raise InvalidArgument(f"worker {worker} has Convoy {version}, this is {convoy.__version__}")
            number = taken[host, visible] = taken.get((host, visible), -1) + 1
            devices[worker] = f"cuda:{number}" if device == "cuda" else device
        return devices

    def tune(self, texts: Sequence[str], budget: float) -> Dict[str, Tuned]:
        import distributed

        end = time.monotonic() + budget
        waiting = [(text, 1) for text in reversed(texts)]
        idle = list(self.devices)
        running = distributed.as_completed()
        tasks: Dict[Any, Tuple[str, int, str]] = {}
        done: Dict[str, Tuned] = {}
        while waiting or tasks:
            while waiting and idle:
                (text, attempt), worker = waiting.pop(), idle.pop(0)
                share = _share(budget, end, len(waiting) + 1, len(self.devices))
                keywords = dict(self.keywords, device=self.devices[worker], budget=share)
                task = self.client.submit(_measure, text, self.known.get(text, ""), worker, keywords, workers=[worker],
                                          allow_other_workers=False, pure=False, retries=0)
                tasks[task] = text, attempt, worker
                running.add(task)
            if not tasks:
                for text, _ in waiting:
                    done[text] = Tuned(text, None, None, (), "", "the client has no worker left")
                break
            task = next(running)
            text, attempt, worker = tasks.pop(task)
            try:
                done[text], lines = task.result()
                if _options.database_path(self.database):
                    import_database(lines, self.database)
                idle.append(worker)
            except ConvoyError:
                raise  # of the database here
            except Exception as error:  # of the worker, or of its way here: another may do it
                if worker in self.client.scheduler_info(n_workers=-1)["workers"]:
                    idle.append(worker)
                if attempt < _TRIES:
                    waiting.append((text, attempt + 1))
                else:
                    done[text] = Tuned(text, None, None, (), worker, f"{type(error).__name__}: {error}")
        return done


def _by_problem(lines: str) -> Dict[str, str]:
    """A database's text for each of its problems."""
    header, *records = lines.splitlines(keepends=True) or [""]
    found: Dict[str, str] = {}
    for record in records:
        problem = json.loads(record)["problem"]
        found[problem] = found.get(problem, header) + record
    return found
