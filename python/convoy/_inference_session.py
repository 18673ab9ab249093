"""onnxruntime's InferenceSession on Convoy: a script changes `import onnxruntime` to `import convoy as onnxruntime`."""
from __future__ import annotations

import dataclasses
import difflib
import enum
import os
import threading
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy

from convoy import _c, _options
from convoy._errors import ConvoyError, InvalidArgument, Unsupported
from convoy._network import Network, Value
from convoy._ort_values import IOBinding, OrtValue

_ONNX_TYPES = {
    "f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16", "f8_e4m3": "float8e4m3fn",
    "f8_e5m2": "float8e5m2", "s64": "int64", "s32": "int32", "s16": "int16", "s8": "int8", "u64": "uint64", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2",
    "f4_e2m1": "float4e2m1", "f8_e4m3fnuz": "float8e4m3fnuz", "f8_e5m2fnuz": "float8e5m2fnuz", "f8_e8m0": "float8e8m0",
}
_PROVIDER, _GPU_PROVIDER = "CPUExecutionProvider", "CUDAExecutionProvider"
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

    def __init__(self, value: Value, known: Mapping[str, int]) -> None:
        self.name = value.name
        self.type = f"tensor({_ONNX_TYPES[value.type]})"
        self.shape: List[Union[int, str, None]] = [
            size if size >= 0 else known.get(name, name or None) for size, name in zip(value.dims or (), value.dim_names)
        ]

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class _Strict:
    """Attributes are the class's: a misspelt one is an AttributeError, as onnxruntime's own classes have it."""

    _entries: Dict[str, str]
    _defaults: Dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:  # for what __init__ does not find in its place, and for type checkers
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __init__(self) -> None:
        object.__setattr__(self, "_entries", {})
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            close = difflib.get_close_matches(name, self._defaults, 1)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}" + (f"; {close[0]!r}?" if close else ""))
        object.__setattr__(self, name, value)


class SessionOptions(_Strict):
    """onnxruntime's. `intra_op_num_threads`, 0 being all, `use_deterministic_compute` and overrides of free dimensions are
    followed. What can't be is refused or warned of when a session is made; the others change nothing."""

    _defaults = {
        "intra_op_num_threads": 0, "inter_op_num_threads": 0, "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": None, "enable_profiling": False,
        "profile_file_prefix": "onnxruntime_profile_", "optimized_model_filepath": "", "enable_mem_pattern": True,
        "enable_mem_reuse": True, "enable_cpu_mem_arena": True, "log_severity_level": 2, "log_verbosity_level": 0, "logid": "",
        "use_deterministic_compute": False, "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_free_dimensions", {})

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Inputs' free sizes of this name are this one."""
        self._free_dimensions[name] = int(value)

    def register_custom_ops_library(self, path: str) -> None:
        raise Unsupported(f"register_custom_ops_library({path!r}): operators of other libraries can't be had here; "
                          "docs/add-an-operator.md says how one is added")


class RunOptions(_Strict):
    """onnxruntime's. `terminate`, set before a run, ends it; the others change nothing."""

    _defaults = {"log_severity_level": 2, "log_verbosity_level": 0, "logid": "", "terminate": False,
                 "only_execute_path_to_fetches": False, "training_mode": False}

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return self._entries[key]


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What the model's file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Dict[str, str]


class InferenceSession:
    """A model, from its path or bytes. Sizes may change from run to run; each new combination is prepared once.

    The first of `providers` that Convoy has says where it runs: CUDAExecutionProvider, with its option device_id, on a GPU
    (docs/gpu-networks.md), CPUExecutionProvider, and none at all, on the processor. Where there is no such GPU, or nothing that
    Convoy has is among them, a warning says that the processor is used. Further keywords are Network's; `device` goes before
    providers.
    """

    def __init__(self, path_or_bytes: Union[str, bytes, "os.PathLike[str]"], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Any]] = None,
                 **keywords: Any) -> None:
        if "device" not in keywords:
            keywords["device"] = _device_of(providers, provider_options)
        options = sess_options if sess_options is not None else SessionOptions()
        self._options = options
        keywords = {name: value for name, value in keywords.items() if name not in _IGNORED}
        keywords.setdefault("threads", options.intra_op_num_threads)
        if options.use_deterministic_compute:
            keywords.setdefault("deterministic", True)
        if options.enable_profiling:
            warnings.warn("enable_profiling: no file is written; session.network.steps() has the times of the last run",
                          stacklevel=2)
        if options.optimized_model_filepath:
            raise Unsupported(f"optimized_model_filepath={options.optimized_model_filepath!r}: a network is not written as "
                              "ONNX; session.network.plan() is what was decided for it")
        if keywords["device"] != "cpu":  # beside the file; what fails is said where the session is prepared
            device = _c.encoded(_options.device_text(keywords["device"]), "device")
            threading.Thread(target=_c.library.convoy_load_device, args=(device,)).start()
        self.network = Network(path_or_bytes, **keywords)
        self._output_names = [value.name for value in self.network.outputs]
        self._types = {value.name: value.type for value in self.network.inputs}
        self._sizes: Dict[str, int] = options._free_dimensions
        free = {name for value in self.network.inputs for name in value.dim_names if name}
        for name in self._sizes:
            if name not in free:
                raise InvalidArgument(f"add_free_dimension_override_by_name({name!r}): the model's free dimensions are "
                                      f"{', '.join(map(repr, sorted(free))) or 'none'}")

    def get_inputs(self) -> List[NodeArg]:
        return [NodeArg(value, self._sizes) for value in self.network.inputs]

    def get_outputs(self) -> List[NodeArg]:
        return [NodeArg(value, self._sizes) for value in self.network.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        info = self.network.info
        return ModelMetadata(info.producer_name, info.graph_name, info.domain, info.description, info.graph_description,
                             info.version, dict(info.metadata))

    def get_overridable_initializers(self) -> List[NodeArg]:
        return []

    def get_providers(self) -> List[str]:
        return [_PROVIDER] if self.network.device == "cpu" else [_GPU_PROVIDER, _PROVIDER]

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        device = self.network.device
        return {name: {"device_id": device.rpartition(":")[2]} if name == _GPU_PROVIDER else {} for name in self.get_providers()}

    def set_providers(self, providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Any]] = None) -> None:
        device = _device_of(providers, provider_options)
        if device != self.network.device:
            raise Unsupported(f"set_providers: the session runs on {self.network.device}: make another for {device}")

    def enable_fallback(self) -> None:
        """onnxruntime's; there is one provider."""

    def disable_fallback(self) -> None:
        """onnxruntime's; there is one provider."""

    def get_session_options(self) -> SessionOptions:
        return self._options

    def end_profiling(self) -> str:
        """The file of onnxruntime's profile; "", as there where enable_profiling was not set."""
        return ""

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Optional[RunOptions] = None) -> List[numpy.ndarray]:
        """The outputs that are named, in that order; None or none: all. A feed that is not row-major is copied, as there."""
        if run_options is not None and run_options.terminate:
            raise ConvoyError("run_options.terminate is set")
        wanted = list(output_names) if output_names else self._output_names
        for name in wanted:
            if name not in self._output_names:
                raise InvalidArgument(f"output_names has {name!r}, the model's outputs are "
                                      f"{', '.join(map(repr, self._output_names))}")
        found = None if self._sizes else self.network._run_ready(input_feed)
        if found is None:
            feed = {name: _row_major(value, self._types.get(name)) for name, value in input_feed.items()}
            if self._sizes:
                self._check_sizes(feed)
            found = self.network.run(feed)
        return [found[name] for name in wanted]

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: Optional[RunOptions] = None) -> List[OrtValue]:
        feed = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(found) for found in self.run(output_names, feed, run_options)]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        """Runs on what is bound; the outputs go where they are bound to."""
        iobinding._run(run_options)

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
                  callback: Callable[[List[numpy.ndarray], Any, str], None], user_data: Any,
                  run_options: Optional[RunOptions] = None) -> None:
        """Runs in a thread of its own, which then calls callback(results, user_data, error); `error` is "" where it ran."""

        def work() -> None:
            results: List[numpy.ndarray] = []
            error = ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as raised:  # pylint: disable=broad-except
                error = str(raised)
            callback(results, user_data, error)

        threading.Thread(target=work, name="convoy-run-async").start()

    def _check_sizes(self, feed: Mapping[str, Any]) -> None:
        for value in self.network.inputs:
            dims = getattr(feed.get(value.name), "shape", ())
            for name, size in zip(value.dim_names, dims):
                if self._sizes.get(name, size) != size:
                    raise InvalidArgument(f"input {value.name!r} has {size} for {name!r}, which the session options say is "
                                          f"{self._sizes[name]}")


def _device_of(providers: Optional[Sequence[Any]], provider_options: Optional[Sequence[Any]]) -> str:
    """Where the first of them that Convoy has runs."""
    given = [(each, {}) if isinstance(each, str) else (each[0], each[1]) for each in providers or [_PROVIDER]]
    if provider_options is not None:
        given = [(name, options or own) for (name, own), options in zip(given, provider_options)]
    names = [name for name, _ in given]
    for name, options in given:
        if name == _PROVIDER:
            return "cpu"
        if name != _GPU_PROVIDER:
            continue
        device = f"cuda:{int(options.get('device_id', 0))}"
        why = _options.why_no_device(device)
        if why is None:
            return device
        warnings.warn(f"providers={names}: {_GPU_PROVIDER}: {why}; it runs on the processor, {_PROVIDER}", stacklevel=3)
        return "cpu"
    warnings.warn(f"providers={names}: Convoy has none of them; it runs on the processor, {_PROVIDER}", stacklevel=3)
    return "cpu"


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
    """onnxruntime's: the processor's, behind the GPU's where there is one."""
    return [_PROVIDER] if _options.why_no_device("cuda") else [_GPU_PROVIDER, _PROVIDER]


def get_all_providers() -> List[str]:
    """onnxruntime's: a GPU's and the processor's."""
    return [_GPU_PROVIDER, _PROVIDER]


def get_device() -> str:
    """onnxruntime's: "GPU" where there is one, else "CPU"."""
    return "CPU" if _options.why_no_device("cuda") else "GPU"


def set_default_logger_severity(severity: int) -> None:
    """onnxruntime's: 0 (all) to 4 (fatal errors). convoy.set_log takes the messages themselves."""
    if not 0 <= severity <= 4:
        raise InvalidArgument(f"severity={severity} is not in 0..4")


def set_seed(seed: int) -> None:
    """onnxruntime's. Nothing here is random."""


def disable_telemetry_events() -> None:
    """onnxruntime's. There are none."""


def enable_telemetry_events() -> None:
    """onnxruntime's. There are none."""
