"""The library's errors as exceptions. Every message names the field or argument, and its value."""
from __future__ import annotations


class ConvoyError(Exception):
    """What every error of the library is."""


class InvalidArgument(ConvoyError, ValueError):
    """An argument or a field of a problem is wrong."""


class WrongType(InvalidArgument, TypeError):
    """An argument is of a type that can't be used at all, or holds elements of another type than the problem says."""


class NotFound(ConvoyError, LookupError):
    """There is no such file, engine or network."""


class Corrupt(ConvoyError, ValueError):
    """A file is damaged, or is not what it should be."""


class Unsupported(ConvoyError, NotImplementedError):
    """It is well-formed, and nothing here can run it."""


class OutOfMemory(ConvoyError, MemoryError):
    """There is not enough memory."""


class WrongResult(ConvoyError, ArithmeticError):
    """An engine computed something wrong."""


class Internal(ConvoyError, RuntimeError):
    """A fault of Convoy's own."""


class DeviceFailed(ConvoyError, RuntimeError):
    """A GPU or its driver failed."""


# By convoy_status.
BY_STATUS = {
    1: InvalidArgument,
    2: NotFound,
    3: Corrupt,
    4: Unsupported,
    5: OutOfMemory,
    6: WrongResult,
    7: Internal,
    8: DeviceFailed,
}
