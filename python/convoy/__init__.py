"""Convoy: convolutions the fastest correct way that the machine knows.

    plan = convoy.Problem("fprop:x=f32,1x64x28x28:w=f32,96x64x3x3:pad=1x1").select()
    plan.candidate, plan.reason

docs/python.md has the rest.
"""
from __future__ import annotations

from convoy import _c
from convoy._errors import (
    ConvoyError,
    Corrupt,
    DeviceFailed,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfMemory,
    Unsupported,
    WrongResult,
    WrongType,
)
from convoy._options import default_database
from convoy._plan import Measurement, Plan
from convoy._problem import Candidate, Problem, Tensor

__version__: str = _c.library.convoy_version_text().decode()

__all__ = [
    "Candidate",
    "ConvoyError",
    "Corrupt",
    "DeviceFailed",
    "Internal",
    "InvalidArgument",
    "Measurement",
    "NotFound",
    "OutOfMemory",
    "Plan",
    "Problem",
    "Tensor",
    "Unsupported",
    "WrongResult",
    "WrongType",
    "default_database",
]
