"""The library's log in Python."""
from __future__ import annotations

import atexit
import logging
import sys
import threading
from typing import Any, Callable, Optional, Union

from convoy import _c
from convoy._errors import InvalidArgument, WrongType

_LEVELS = {"off": 0, "error": 1, "warning": 2, "info": 3, "debug": 4}
_NAMES = {number: name for name, number in _LEVELS.items()}
_LOGGING = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}

Receiver = Callable[[str, str], None]
_receiver: Any = None  # what the library calls; it must live as long as it is set
_lock = threading.Lock()


def set_log(level: str = "info", receiver: Union[Receiver, logging.Logger, None] = None) -> None:
    """Sends the library's events up to `level` to a logger, or to receiver(level, message); with level "off" nowhere.

    With None they go to the logger "convoy". The receiver is called on the thread that something happens on, from several at
    once. What it raises is reported as an exception that nobody catches (sys.unraisablehook), and goes no further.
    """
    if level not in _LEVELS:
        raise InvalidArgument(f"level={level!r} is not one of {', '.join(_LEVELS)}")
    if receiver is None:
        receiver = logging.getLogger("convoy")
    if isinstance(receiver, logging.Logger):
        logger = receiver

        def send(of_event: int, message: str) -> None:
            logger.log(_LOGGING.get(of_event, logging.INFO), "%s", message)
    elif callable(receiver):
        called = receiver

        def send(of_event: int, message: str) -> None:
            called(_NAMES.get(of_event, "info"), message)
    else:
        raise WrongType(f"receiver is of type {type(receiver).__name__}, neither callable nor a logger")

    def receive(_: Any, of_event: int, message: bytes) -> None:
        send(of_event, message.decode(errors="replace"))

    _set(_LEVELS[level], _c.LogCallback(receive))


def reset_log() -> None:
    """Events go where CONVOY_LOG says again."""
    _set(0, None)


def _set(level: int, receive: Optional[Any]) -> None:
    global _receiver
    with _lock:
        _c.call(_c.library.convoy_set_log, level, receive if receive is not None else _c.LogCallback(), None)
        _receiver = receive  # the one before is not called any more


@atexit.register
def _at_exit() -> None:
    # The interpreter can't be called when it has ended, while other threads may still log.
    if _receiver is not None and not sys.is_finalizing():
        reset_log()
