"""onnxruntime's InferenceSession on Convoy: a script changes `import onnxruntime` to `import convoy as onnxruntime`."""
from __future__ import annotations

import enum
import os
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy

from convoy._errors import InvalidArgument
from convoy._network import Network, Value

_ONNX_TYPES = {
    "f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16", "f8_e4m3": "float8e4m3fn",
    "f8_e5m2": "float8e5m2", "s64": "int64", "s32": "int32", "s16": "int16", "s8": "int8", "u64": "uint64", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2",
    "f4_e2m1": "float4e2m1", "f8_e4m3fnuz": "float8e4m3fnuz", "f8_e5m2fnuz": "float8e5m2fnuz", "f8_e8m0": "float8e8m0",
}
_PROVIDER = "CPUExecutionProvider"
# Keywords of onnxruntime's that say nothing here.
_IGNORED = ("disabled_optimizers", "enable_fallback")


class GraphOptimizationLevel(enum.IntEnum):
    """onnxruntime's. A network is always prepared in the same way."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """onnxruntime's. Steps run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class NodeArg:
    """An input or output: `name`, `type` as "tensor(float)", `shape` with a free size's name, or None, in its place."""

    def __init__(self, value: Value) -> None:
        self.name = value.name
        self.type = f"tensor({_ONNX_TYPES[value.type]})"
        self.shape: List[Union[int, str, None]] = [
            size if size >= 0 else name or None for size, name in zip(value.dims or (), value.dim_names)
        ]

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class SessionOptions:
    """onnxruntime's. `intra_op_num_threads` is followed, 0 being all; the others are there, and change nothing."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
        self.enable_profiling = False
        self.enable_mem_pattern = True
        self.enable_cpu_mem_arena = True
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.use_deterministic_compute = False
        self._entries: Dict[str, str] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._entries[key]


class InferenceSession:
    """A model, from its path or bytes. Sizes may change from run to run; each new combination is prepared once.

    `providers` is accepted: where the processor's is not among them, a warning says that it is used. Further keywords are
    Network's.
    """

    def __init__(self, path_or_bytes: Union[str, bytes, "os.PathLike[str]"], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Any]] = None,
                 **keywords: Any) -> None:
        names = [provider if isinstance(provider, str) else provider[0] for provider in providers or [_PROVIDER]]
        if _PROVIDER not in names:
            warnings.warn(f"providers={names}: Convoy's networks run on the processor, {_PROVIDER}", stacklevel=2)
        options = sess_options if sess_options is not None else SessionOptions()
        self._options = options
        keywords = {name: value for name, value in keywords.items() if name not in _IGNORED}
        keywords.setdefault("threads", options.intra_op_num_threads)
        if getattr(options, "use_deterministic_compute", False):
            keywords.setdefault("deterministic", True)
        self.network = Network(path_or_bytes, **keywords)

    def get_inputs(self) -> List[NodeArg]:
        return [NodeArg(value) for value in self.network.inputs]

    def get_outputs(self) -> List[NodeArg]:
        return [NodeArg(value) for value in self.network.outputs]

    def get_overridable_initializers(self) -> List[NodeArg]:
        return []

    def get_providers(self) -> List[str]:
        return [_PROVIDER]

    def get_session_options(self) -> SessionOptions:
        return self._options

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Any = None) -> List[numpy.ndarray]:
        """The outputs that are named, in that order; None or none: all. A feed that is not row-major is copied, as there."""
        known = [value.name for value in self.network.outputs]
        wanted = list(output_names) if output_names else known
        for name in wanted:
            if name not in known:
                raise InvalidArgument(f"output_names has {name!r}, the model's outputs are {', '.join(map(repr, known))}")
        types = {value.name: value.type for value in self.network.inputs}
        feed = {name: _row_major(value, types.get(name)) for name, value in input_feed.items()}
        found = self.network.run(feed)
        return [found[name] for name in wanted]


def _row_major(value: Any, type_name: Optional[str]) -> Any:
    """As onnxruntime takes feeds: lists and views become arrays; an array's type stays, so that a wrong one is an error."""
    if isinstance(value, (numpy.ndarray, list, tuple, int, float, numpy.generic)):
        if not isinstance(value, (numpy.ndarray, numpy.generic)) and type_name is not None:
            from convoy._arrays import numpy_type

            value = numpy.asarray(value, dtype=numpy_type(type_name))
        array = numpy.asarray(value)
        return array if array.flags.c_contiguous else numpy.ascontiguousarray(array)
    return value


def get_available_providers() -> List[str]:
    """onnxruntime's: the processor."""
    return [_PROVIDER]


def get_device() -> str:
    """onnxruntime's: "CPU"."""
    return "CPU"
