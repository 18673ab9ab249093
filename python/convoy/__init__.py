"""Convoy: convolutions the fastest correct way that the machine knows.

    problem = convoy.Problem("fprop:x=f32,1x64x28x28:w=f32,96x64x3x3:pad=1x1")
    y = problem.select()(x, w)                              # a convolution
    outputs = convoy.Network("model.onnx").run({"x": x})    # a network

docs/python.md has the rest.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

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

if TYPE_CHECKING:
    from convoy._explain import Explanation, Verdict
    from convoy._inference_session import (
        ExecutionMode,
        GraphOptimizationLevel,
        InferenceSession,
        ModelMetadata,
        NodeArg,
        RunOptions,
        SessionOptions,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_device,
        set_default_logger_severity,
        set_seed,
    )
    from convoy._log import reset_log, set_log
    from convoy._network import ModelInfo, Network, Value
    from convoy._network_plan import NetworkPlan, PlannedStep
    from convoy._options import default_database
    from convoy._ort_values import IOBinding, OrtValue
    from convoy._plan import Measurement, Plan
    from convoy._problem import Candidate, Problem, Tensor
    from convoy._session import Session, Step
    from convoy._tune import Tuned, export_database, import_database, tune

_HOMES = {  # names by the module that has them, which is loaded when one of them is asked for: it takes longer than the library
    "_explain": "Explanation Verdict",
    "_inference_session": "ExecutionMode GraphOptimizationLevel InferenceSession ModelMetadata NodeArg RunOptions "
                          "SessionOptions disable_telemetry_events enable_telemetry_events get_all_providers "
                          "get_available_providers get_device set_default_logger_severity set_seed",
    "_log": "reset_log set_log",
    "_network": "ModelInfo Network Value",
    "_network_plan": "NetworkPlan PlannedStep",
    "_options": "default_database",
    "_ort_values": "IOBinding OrtValue",
    "_plan": "Measurement Plan",
    "_problem": "Candidate Problem Tensor",
    "_session": "Session Step",
    "_tune": "Tuned export_database import_database tune",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__version__: str = _c.library.convoy_version_text().decode()

__all__ = [
    "Candidate",
    "ConvoyError",
    "Corrupt",
    "DeviceFailed",
    "ExecutionMode",
    "Explanation",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "Internal",
    "InvalidArgument",
    "Measurement",
    "ModelInfo",
    "ModelMetadata",
    "Network",
    "NetworkPlan",
    "NodeArg",
    "NotFound",
    "OrtValue",
    "OutOfMemory",
    "Plan",
    "PlannedStep",
    "Problem",
    "RunOptions",
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
    "disable_telemetry_events",
    "enable_telemetry_events",
    "export_database",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "import_database",
    "reset_log",
    "set_default_logger_severity",
    "set_log",
    "set_seed",
    "tune",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'convoy' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"convoy.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> List[str]:
    return sorted({*globals(), *_HOME_OF})
