"""include/convoy.h for Python: its structs, its functions, and errors as exceptions.

Calls let the interpreter's lock go. A handle is destroyed when nothing refers to it any more, never while a call uses it, and
not at all at the end of the process, when other threads may still run.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import threading
import weakref
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p, sizeof
from typing import TYPE_CHECKING, Any, List, Optional

from convoy import _errors

if TYPE_CHECKING:
    import concurrent.futures

MAX_RANK = 5
X, W, Y = 0, 1, 2  # convoy_operand


class Tensor(ctypes.Structure):
    """convoy_tensor"""

    _fields_ = [("size", c_size_t), ("rank", c_int32), ("dims", c_int64 * MAX_RANK), ("strides", c_int64 * MAX_RANK),
                ("channel_block", c_int64), ("bytes", c_int64), ("type", c_char_p)]


class Options(ctypes.Structure):
    """convoy_options"""

    _fields_ = [("size", c_size_t), ("threads", c_int32), ("engines", c_char_p), ("rules", c_char_p), ("fallback", c_int32),
                ("deterministic_only", c_int32), ("workspace_limit", c_int64), ("budget_seconds", c_double),
                ("database", c_char_p), ("device", c_char_p), ("target_sms", c_int32), ("math", c_char_p),
                ("how", c_char_p), ("plan", c_char_p), ("lenient_plan", c_int32), ("precision", c_char_p),
                ("activation_limit", c_int64), ("objective", c_char_p), ("parallel_for", c_void_p), ("parallel_user", c_void_p),
                ("weight_limit", c_int64), ("batch_parts", c_char_p), ("progress", c_void_p), ("progress_user", c_void_p),
                ("no_graph", c_int32), ("synchronous", c_int32), ("device_memory_limit", c_int64)]


class Measurement(ctypes.Structure):
    """convoy_measurement"""

    _fields_ = [("size", c_size_t), ("candidate", c_char_p), ("failure", c_char_p), ("median_seconds", c_double),
                ("spread", c_double), ("workspace_bytes", c_int64), ("max_error", c_double)]


class Arguments(ctypes.Structure):
    """convoy_arguments"""

    _fields_ = [("size", c_size_t), ("x", c_void_p), ("w", c_void_p), ("y", c_void_p), ("out", c_void_p), ("bias", c_void_p),
                ("z", c_void_p), ("slopes", c_void_p), ("scales", c_void_p), ("workspace", c_void_p),
                ("workspace_bytes", c_size_t), ("stream", c_void_p), ("x_zero_point", c_void_p), ("w_zero_points", c_void_p),
                ("gate", c_void_p)]


class Value(ctypes.Structure):
    """convoy_value"""

    _fields_ = [("size", c_size_t), ("name", c_char_p), ("type", c_char_p), ("rank", c_int32), ("dims", POINTER(c_int64)),
                ("dim_names", POINTER(c_char_p)), ("proposed_dims", POINTER(c_int64))]


class ModelInfo(ctypes.Structure):
    """convoy_model_info"""

    _fields_ = [("size", c_size_t), ("producer_name", c_char_p), ("producer_version", c_char_p), ("domain", c_char_p),
                ("description", c_char_p), ("graph_name", c_char_p), ("graph_description", c_char_p), ("version", c_int64),
                ("metadata", c_size_t), ("metadata_keys", POINTER(c_char_p)), ("metadata_values", POINTER(c_char_p))]


class Initializer(ctypes.Structure):
    """convoy_initializer"""

    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_int64)]


class Shape(ctypes.Structure):
    """convoy_shape"""

    _fields_ = [("rank", c_int32), ("dims", POINTER(c_int64))]


class Buffer(ctypes.Structure):
    """convoy_buffer"""

    _fields_ = [("data", c_void_p), ("bytes", c_int64)]


class Output(ctypes.Structure):
    """convoy_output"""

    _fields_ = [("size", c_size_t), ("type", c_char_p), ("rank", c_int32), ("dims", POINTER(c_int64)), ("data", c_void_p),
                ("bytes", c_int64)]


class SessionInfo(ctypes.Structure):
    """convoy_session_info"""

    _fields_ = [("size", c_size_t), ("steps", c_size_t), ("seconds", c_double), ("activation_bytes", c_int64),
                ("weight_bytes", c_int64), ("workspace_bytes", c_int64), ("warnings", c_char_p),
                ("batch_parts", c_char_p), ("runs_at_once", c_int32), ("device", c_char_p), ("device_seconds", c_double),
                ("device_bytes", c_int64)]


class Step(ctypes.Structure):
    """convoy_step"""

    _fields_ = [("size", c_size_t), ("kind", c_char_p), ("nodes", c_char_p), ("engine", c_char_p), ("problem", c_char_p),
                ("reason", c_char_p), ("warnings", c_char_p), ("output_shape", c_char_p), ("seconds", c_double), ("threads", c_int32), ("device", c_char_p)]


class Verdict(ctypes.Structure):
    """convoy_verdict"""

    _fields_ = [("size", c_size_t), ("engine", c_char_p), ("refusal", c_char_p), ("refusal_kind", c_char_p),
                ("excluded", c_char_p), ("candidate", c_char_p), ("no_plan", c_char_p), ("notes", c_char_p),
                ("predicted_seconds", c_double), ("measured_seconds", c_double), ("workspace_bytes", c_int64)]


class Outcome(ctypes.Structure):
    """convoy_outcome"""

    _fields_ = [("size", c_size_t), ("candidate", c_char_p), ("reason", c_char_p), ("decided_by", c_char_p), ("plan", c_char_p),
                ("runner_up", c_char_p), ("why_not_runner_up", c_char_p), ("passed_over", c_char_p), ("warnings", c_char_p)]


LogCallback: Any = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ProgressCallback: Any = ctypes.CFUNCTYPE(c_int32, c_void_p, c_double, c_char_p)
TextCallback: Any = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
AnswerCallback: Any = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p, c_char_p, c_double)

_HANDLE = POINTER(c_void_p)  # where a new handle is written
# Functions that return a convoy_status, and the types of their arguments.
_CHECKED = {
    "convoy_set_log": [c_int, LogCallback, c_void_p],
    "convoy_problem_create": [c_char_p, _HANDLE],
    "convoy_problem_tensor": [c_void_p, c_int, POINTER(Tensor)],
    "convoy_query": [c_void_p, POINTER(Options), AnswerCallback, c_void_p],
    "convoy_select": [c_void_p, POINTER(Options), _HANDLE],
    "convoy_tune": [c_void_p, POINTER(Options), _HANDLE],
    "convoy_explain": [c_void_p, POINTER(Options), _HANDLE],
    "convoy_explanation_verdict": [c_void_p, c_size_t, POINTER(Verdict)],
    "convoy_explanation_outcome": [c_void_p, POINTER(Outcome)],
    "convoy_database_export": [c_char_p, TextCallback, c_void_p],
    "convoy_database_import": [c_char_p, c_char_p, c_size_t, POINTER(c_int64)],
    "convoy_choice_measurement": [c_void_p, c_size_t, POINTER(Measurement)],
    "convoy_plan_create": [c_void_p, c_char_p, POINTER(Options), c_void_p, _HANDLE],
    "convoy_plan_execute": [c_void_p, POINTER(Arguments)],
    "convoy_load_device": [c_char_p],
    "convoy_network_load": [c_char_p, _HANDLE],
    "convoy_network_parse": [c_char_p, c_size_t, c_char_p, _HANDLE],
    "convoy_network_parse_with": [c_char_p, c_size_t, c_char_p, POINTER(Initializer), c_size_t, _HANDLE],
    "convoy_network_input": [c_void_p, c_size_t, POINTER(Value)],
    "convoy_network_output": [c_void_p, c_size_t, POINTER(Value)],
    "convoy_network_info": [c_void_p, POINTER(ModelInfo)],
    "convoy_session_create": [c_void_p, POINTER(Shape), c_size_t, POINTER(Options), _HANDLE],
    "convoy_network_plan": [c_void_p, POINTER(Shape), c_size_t, POINTER(Options), TextCallback, c_void_p],
    "convoy_network_plan_within": [c_void_p, POINTER(Shape), c_size_t, POINTER(c_void_p), c_size_t, c_double, POINTER(Options), TextCallback,
                                   c_void_p],
    "convoy_network_tune": [c_void_p, POINTER(Shape), c_size_t, POINTER(c_void_p), c_size_t, POINTER(Options), c_int32,
                            ProgressCallback, c_void_p],
    "convoy_session_execute": [c_void_p, POINTER(c_void_p), c_size_t, _HANDLE],
    "convoy_results_output": [c_void_p, c_size_t, POINTER(Output)],
    "convoy_session_execute_into": [c_void_p, POINTER(c_void_p), c_size_t, POINTER(Buffer), c_size_t,
                                    POINTER(c_void_p)],
    "convoy_session_enqueue": [c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_void_p), c_size_t, c_void_p],
    "convoy_session_output_value": [c_void_p, c_size_t, POINTER(Value)],
    "convoy_session_run": [c_void_p, POINTER(c_void_p), c_size_t],
    "convoy_session_output": [c_void_p, c_size_t, POINTER(Output)],
    "convoy_session_describe": [c_void_p, POINTER(SessionInfo)],
    "convoy_session_step": [c_void_p, c_size_t, POINTER(Step)],
}
# The others: what they return, and the types of their arguments.
_PLAIN = {
    "convoy_error": (c_char_p, []),
    "convoy_status_name": (c_char_p, [c_int]),
    "convoy_version_text": (c_char_p, []),
    "convoy_knows_operator": (c_int, [c_char_p, c_char_p]),
    "convoy_version_number": (c_int, []),
    "convoy_default_database": (c_char_p, []),
    "convoy_problem_destroy": (None, [c_void_p]),
    "convoy_problem_text": (c_char_p, [c_void_p]),
    "convoy_problem_flops": (c_double, [c_void_p]),
    "convoy_choice_destroy": (None, [c_void_p]),
    "convoy_choice_candidate": (c_char_p, [c_void_p]),
    "convoy_choice_reason": (c_char_p, [c_void_p]),
    "convoy_choice_warnings": (c_char_p, [c_void_p]),
    "convoy_explanation_destroy": (None, [c_void_p]),
    "convoy_explanation_engines": (c_size_t, [c_void_p]),
    "convoy_choice_measured": (c_size_t, [c_void_p]),
    "convoy_plan_destroy": (None, [c_void_p]),
    "convoy_plan_workspace_bytes": (c_size_t, [c_void_p]),
    "convoy_network_destroy": (None, [c_void_p]),
    "convoy_network_inputs": (c_size_t, [c_void_p]),
    "convoy_network_outputs": (c_size_t, [c_void_p]),
    "convoy_session_destroy": (None, [c_void_p]),
    "convoy_results_destroy": (None, [c_void_p]),
}


def native_folder() -> pathlib.Path:
    """Where a wheel has its bin/, lib/ and share/. It need not exist: the module may be used from the source."""
    return pathlib.Path(__file__).resolve().parent / "_native"


def _installed() -> Optional[str]:
    import ctypes.util  # takes as long as the library, and few need it

    return ctypes.util.find_library("convoy")


def _load() -> ctypes.CDLL:
    """The library beside the module (in a wheel), else CONVOY_LIBRARY, else an installed one."""
    beside = native_folder() / "lib"
    named = os.environ.get("CONVOY_LIBRARY")
    path = next(map(str, beside.glob("libconvoy.so*")), None) or named or _installed()
    if path is None:
        raise ImportError(f"libconvoy.so is not found: {beside} has none, CONVOY_LIBRARY is not set, and none is installed")
    # Threads that wait spin briefly, as the command's (src/cli/main.cc says why). GNU OpenMP reads it when it is loaded.
    set_here = "OMP_WAIT_POLICY" not in os.environ and "GOMP_SPINCOUNT" not in os.environ
    if set_here:
        os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        whose = "" if path != named else " (CONVOY_LIBRARY)"
        raise ImportError(f"{path}{whose} can't be loaded: {error}") from None
    finally:
        if set_here:
            del os.environ["GOMP_SPINCOUNT"]


library = _load()
try:
    for _name, _arguments in _CHECKED.items():
        getattr(library, _name).restype = c_int
        getattr(library, _name).argtypes = _arguments
    for _name, (_result, _types) in _PLAIN.items():
        getattr(library, _name).restype = _result
        getattr(library, _name).argtypes = _types
except AttributeError as error:
    raise ImportError(f"{library._name} is not of this module's version: {error}") from None


def raise_last(status: int) -> None:
    """Raises what the last call of this thread failed with."""
    kind = _errors.BY_STATUS.get(status, _errors.Internal)
    raise kind(library.convoy_error().decode(errors="replace"))


# A forked process has the thread that forked, and none of the threads that OpenMP had made for it; that thread would wait for
# them forever. Another one gets new ones: so whatever the forked thread asks of the library is done by one beside it.
_forked_thread: Optional[int] = None
_beside: Optional[concurrent.futures.ThreadPoolExecutor] = None


def _after_fork() -> None:
    global _forked_thread, _beside
    _forked_thread = threading.get_ident()
    _beside = None


os.register_at_fork(after_in_child=_after_fork)


def call(function: Any, *arguments: Any) -> None:
    """Calls a function that returns a convoy_status, and raises its error."""
    global _beside
    if _forked_thread is not None and threading.get_ident() == _forked_thread:
        if _beside is None:
            import concurrent.futures

            _beside = concurrent.futures.ThreadPoolExecutor(1, "convoy")
        return _beside.submit(_call, function, *arguments).result()
    status = function(*arguments)
    if status:
        raise_last(status)
    return None


def _call(function: Any, *arguments: Any) -> None:
    status = function(*arguments)
    if status:
        raise_last(status)


def handle(owner: object, destroy: Any, create: Any, *arguments: Any) -> c_void_p:
    """Makes a handle; `destroy` gets it when `owner` is gone."""
    made = c_void_p()
    call(create, *arguments, byref(made))
    weakref.finalize(owner, destroy, made).atexit = False
    return made


def sized(struct: Any) -> Any:
    """A struct that says its size."""
    made = struct()
    made.size = sizeof(struct)
    return made


def encoded(text: Optional[str], argument: str) -> Optional[bytes]:
    """Text for C."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise _errors.WrongType(f"{argument} is of type {type(text).__name__}, not str")
    if "\0" in text:
        raise _errors.InvalidArgument(f"{argument}={text!r} has a zero byte in it")
    return text.encode()


def decoded(text: Optional[bytes]) -> Optional[str]:
    """Text from C, which may be null."""
    return None if text is None else text.decode(errors="replace")


def lines(text: Optional[bytes]) -> List[str]:
    """Lines from C, where null is none."""
    return [] if text is None else text.decode(errors="replace").split("\n")
