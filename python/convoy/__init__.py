"""Convoy: convolutions the fastest correct way that the machine knows.

    problem = convoy.Problem("fprop:x=f32,1x64x28x28:w=f32,96x64x3x3:pad=1x1")
    y = problem.select()(x, w)                              # a convolution
    outputs = convoy.Network("model.onnx").run({"x": x})    # a network

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
from convoy._explain import Explanation, Verdict
from convoy._inference_session import (
    ExecutionMode,
    GraphOptimizationLevel,
    InferenceSession,
    NodeArg,
    SessionOptions,
    get_available_providers,
    get_device,
)
from convoy._log import reset_log, set_log
from convoy._network import Network, Session, Step, Value
from convoy._options import default_database
from convoy._plan import Measurement, Plan
from convoy._problem import Candidate, Problem, Tensor
from convoy._tune import Tuned, export_database, import_database, tune

__version__: str = _c.library.convoy_version_text().decode()

__all__ = [
    "Candidate",
    "ConvoyError",
    "Corrupt",
    "DeviceFailed",
    "ExecutionMode",
    "Explanation",
    "GraphOptimizationLevel",
    "InferenceSession",
    "Internal",
    "InvalidArgument",
    "Measurement",
    "Network",
    "NodeArg",
    "NotFound",
    "OutOfMemory",
    "Plan",
    "Problem",
    "Session",
    "SessionOptions",
    "Step",
    "Tensor",
    "Tuned",
    "Unsupported",
    "Value",
    "Verdict",
    "WrongResult",
    "WrongType",
    "default_database",
    "export_database",
    "get_available_providers",
    "get_device",
    "import_database",
    "reset_log",
    "set_log",
    "tune",
]
