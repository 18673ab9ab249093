"""What is told while the library measures, and how it is ended: by an exception of the callback, or by Ctrl-C."""
from __future__ import annotations

import signal
import threading
from typing import Any, Callable, List, Optional

from convoy import _c

Progress = Optional[Callable[[float, str], None]]


class Told:
    """A C callback for `progress`, for a `with` around the call. What ended it is raised at its end.

    An exception inside of a C callback has nowhere to go: Python prints it and goes on. So Ctrl-C is only noted meanwhile, the
    library is told to stop, and the handler that was there gets the signal when it has.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._raised: List[BaseException] = []
        self._signals: List[Any] = []
        self._handler: Any = None
        self.callback = _c.ProgressCallback(self._told)

    def _told(self, _user: Any, fraction: float, what: bytes) -> int:
        if self._progress is not None and not self._raised and not self._signals:
            try:
                self._progress(fraction, what.decode(errors="replace"))
            except BaseException as error:  # pylint: disable=broad-except
                self._raised.append(error)
        return len(self._raised) + len(self._signals)

    def __enter__(self) -> "Told":
        # Handlers are the first thread's, and Python's: one that C has put there, or that ignores it, is left alone.
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, lambda *given: self._signals.append(given))
        return self

    def __exit__(self, _kind: Any, error: Optional[BaseException], _trace: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._signals:
                self._handler(*self._signals[0])
        if self._raised and error is None:
            raise self._raised[0]
