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
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

from convoy import _c, _options
from convoy._errors import ConvoyError, InvalidArgument, NotFound, WrongType
from convoy._options import Database, Engines
from convoy._plan import Measurement
from convoy._problem import Problem

_TRIES = 2  # of a problem whose worker is lost
_LOOK_SECONDS = 1.0  # how often it is looked whether the workers are there
_RESULT_SECONDS = 5.0  # after which it is looked whether the worker of a result, which it may have taken with it, is there


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

    def keep(_: Any, text: int, size: int) -> None:
        found.append(ctypes.string_at(text, size).decode())

    try:
        _c.call(_c.library.convoy_database_export, os.fsencode(_file(database)), _c.TextCallback(keep), None)
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


def _version() -> str:
    text: bytes = _c.library.convoy_version_text()
    return text.decode()


def _surroundings() -> Tuple[str, str, str]:
    """Of a worker: its host, what it sees of the GPUs there, and its version."""
    return socket.gethostname(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), _version()


@dataclasses.dataclass(frozen=True)
class _Task:
    """What a worker does."""

    worker: str
    problem: str = ""  # "": says what its surroundings are
    attempt: int = 1


class _Workers:
    """The workers of a client, each with a device.

    All that is asked of a worker is a task, and no call waits for one without an end: a task whose worker is gone may only run
    there, and so neither runs nor fails.
    """

    def __init__(self, client: Any, database: Database, keywords: Dict[str, Any]) -> None:
        try:
            import distributed  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise WrongType(f"client is of type {type(client).__name__}, and dask.distributed is not installed") from None
        if not isinstance(client, distributed.Client):
            raise WrongType(f"client is of type {type(client).__name__}, not distributed.Client")
        self.client: Any = client
        self.wait: Any = distributed.wait
        self.database = database
        self.keywords = keywords
        self.known = _by_problem(export_database(database) if _options.database_path(database) else "")
        self.devices: Dict[str, str] = {}
        self._places: Dict[str, Tuple[str, str]] = {}  # of a worker: its host, and what it sees of the GPUs there
        self.idle: List[str] = []
        self.running: Dict[Any, _Task] = {}
        self.there: Set[str] = set()
        self.look()
        if not self.there:
            raise InvalidArgument("client has no workers")

    def look(self) -> None:
        """Who is there: workers come, and are asked for their surroundings, and go."""
        self.there = set(self.client.nthreads())
        for worker in set(self.devices) - self.there:
            del self.devices[worker], self._places[worker]
        self.idle = [worker for worker in self.idle if worker in self.devices]
        asked = {task.worker for task in self.running.values()}
        for worker in sorted(self.there - set(self.devices) - asked):
            self._submit(_Task(worker), _surroundings)

    def meet(self, worker: str, surroundings: Tuple[str, str, str]) -> None:
        """Gives a worker its device."""
        host, visible, version = surroundings
        if version != _version():
            raise InvalidArgument(f"worker {worker} has Convoy {version}, this is {_version()}")
        beside = {self.devices[other] for other, place in self._places.items() if place == (host, visible)}
        own = next(f"cuda:{number}" for number in range(len(beside) + 1) if f"cuda:{number}" not in beside)
        self.devices[worker] = own if self.keywords["device"] == "cuda" else self.keywords["device"]
        self._places[worker] = host, visible
        self.idle.append(worker)

    def tune(self, texts: Sequence[str], budget: float) -> Dict[str, Tuned]:
        end = time.monotonic() + budget
        waiting = [(text, 1) for text in reversed(texts)]
        done: Dict[str, Tuned] = {}
        while waiting or self.running:
            while waiting and self.idle:
                (text, attempt), worker = waiting.pop(), self.idle.pop(0)
                share = _share(budget, end, len(waiting) + 1, len(self.there))
                keywords = dict(self.keywords, device=self.devices[worker], budget=share)
                self._submit(_Task(worker, text, attempt), _measure, text, self.known.get(text, ""), worker, keywords)
            for task, value, lost in self._ended():
                if not task.problem:
                    if value is not None:
                        self.meet(task.worker, value)
                    elif task.worker in self.there:
                        raise InvalidArgument(f"worker {task.worker} can't use Convoy: {lost}")
                    continue
                if value is not None:
                    done[task.problem], lines = value
                    if _options.database_path(self.database):
                        import_database(lines, self.database)
                elif task.attempt < _TRIES:
                    waiting.append((task.problem, task.attempt + 1))
                else:
                    done[task.problem] = Tuned(task.problem, None, None, (), task.worker, lost)
                if task.worker in self.devices:
                    self.idle.append(task.worker)
            if not self.devices and not self.running:
                for text, _ in waiting:
                    done[text] = Tuned(text, None, None, (), "", "the client has no worker left")
                break
        return done

    def _submit(self, task: _Task, function: Any, *arguments: Any) -> None:
        future = self.client.submit(function, *arguments, workers=[task.worker], allow_other_workers=False, pure=False)
        self.running[future] = task

    def _ended(self) -> List[Tuple[_Task, Any, Optional[str]]]:
        """Tasks that ended, at least one: what each gave, or None and why."""
        import asyncio  # 30 ms, which whoever imports convoy would wait for

        ended: List[Tuple[_Task, Any, Optional[str]]] = []
        while not ended:
            try:
                self.wait(list(self.running), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
            except asyncio.TimeoutError:
                pass
            self.look()
            for future, task in list(self.running.items()):
                try:
                    if task.worker not in self.there:
                        ended.append((task, None, f"worker {task.worker} is gone"))
                        self.client.cancel(future, force=True)
                    elif future.done():
                        ended.append((task, future.result(timeout=_RESULT_SECONDS), None))
                    else:
                        continue
                except asyncio.TimeoutError:  # its worker went between the two
                    continue
                except Exception as error:
                    ended.append((task, None, f"{future.status}: {error}"))
                del self.running[future]
        return ended


def _by_problem(lines: str) -> Dict[str, str]:
    """A database's text for each of its problems."""
    header, *records = lines.splitlines(keepends=True) or [""]
    found: Dict[str, str] = {}
    for record in records:
        problem = json.loads(record)["problem"]
        found[problem] = found.get(problem, header) + record
    return found
