"""A network that is prepared for sizes, and its runs."""
from __future__ import annotations

import ctypes
import dataclasses
import math
import re
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, cast

import numpy

from convoy import _arrays, _c
from convoy._arrays import sizes
from convoy._errors import InvalidArgument, Unsupported, WrongType

if TYPE_CHECKING:
    from convoy._network import _Model


@dataclasses.dataclass(frozen=True)
class Step:
    """What one step of a prepared network does."""

    kind: str  # "conv", "op", "convert" (a change of layout)
    nodes: str  # the ONNX nodes that it computes, "conv1+bn1+relu1"
    engine: str  # a convolution's candidate, else who does it
    problem: Optional[str]  # of a convolution
    reason: Optional[str]  # why a convolution runs on it
    warnings: Tuple[str, ...]
    output_shape: str  # "1x64x56x56 nhwc"
    seconds: float  # of the last run, the mean of its parts; 0: before
    threads: int  # that it runs on: the session's, or 1 where it is tiny
    device: str  # "cpu", "cuda:0"; a copy's is the one that it is not of the processor


def as_shapes(shapes: Optional[List[Tuple[int, ...]]]) -> Tuple[Any, int]:
    """As convoy_shape, and how many."""
    if shapes is None:
        return None, 0
    given = (_c.Shape * max(len(shapes), 1))()
    for shape, dims in zip(given, shapes):
        shape.rank = len(dims)
        shape.dims = (c_int64 * len(dims))(*dims)
    return given, len(shapes)


_IN_PLACE = 16 << 10  # bytes from which on an output is written where the caller gets it; a smaller one is copied sooner


class _Known:
    """An output whose sizes are known before a run."""

    def __init__(self, dims: Tuple[int, ...], dtype: Any) -> None:
        self.dims = dims
        self.dtype = numpy.dtype(dtype)
        self.bytes = math.prod(dims) * self.dtype.itemsize

    def array(self, buffer: Any) -> numpy.ndarray:
        """Memory for it, aligned as Convoy writes without a copy; `buffer`, a convoy_buffer, gets its address."""
        memory = numpy.empty(self.bytes + 64, numpy.uint8)
        begin = _arrays.address(memory)
        skipped = -begin % 64
        buffer.data, buffer.bytes = begin + skipped, self.bytes
        made: numpy.ndarray = memory[skipped: skipped + self.bytes].view(self.dtype).reshape(self.dims)
        return made


_nowhere = (ctypes.c_char * 64)()
_NOWHERE = ctypes.addressof(_nowhere)  # of inputs that have no elements


def as_pointers(addresses: List[int]) -> Any:
    return (c_void_p * (len(addresses) or 1))(*[address or _NOWHERE for address in addresses])


class Session:
    """A network made ready for sizes. Any number of threads may run it at once.

    So many runs go on side by side as the processor has threads for, those it has by `threads`; the others wait.
    """

    def __init__(self, model: "_Model", shapes: Optional[List[Tuple[int, ...]]], options: _c.Options) -> None:
        self._model = model
        self._shapes = shapes
        given, count = as_shapes(shapes)
        self._handle = _c.handle(self, _c.library.convoy_session_destroy, _c.library.convoy_session_create,
                                 model.handle, given, count, byref(options))
        self._names = [value.name for value in model.outputs]
        self._known = [self._known_output(index) for index in range(len(model.outputs))]
        info = self._info()
        self.warnings = tuple(_c.lines(info.warnings))
        self.device: str = info.device.decode()  # where it runs: "cpu", "cuda:0"
        self.batch_parts = _c.decoded(info.batch_parts)  # as Network has it: "whole", "4", "1/thread". Steps are those of a part

    def _info(self) -> _c.SessionInfo:
        info: _c.SessionInfo = _c.sized(_c.SessionInfo)
        _c.call(_c.library.convoy_session_describe, self._handle, byref(info))
        return info

    def __repr__(self) -> str:
        given = ", ".join("x".join(map(str, dims)) for dims in self._shapes or []) or "the model's sizes"
        return f"<convoy.Session of {self._model.name}: {given}, {self._info().steps} steps>"

    @property
    def seconds(self) -> float:
        """Of the run that ended last; 0: before."""
        return float(self._info().seconds)

    @property
    def device_seconds(self) -> float:
        """On a GPU: of the run of the processor's arrays that ended last, without copies; else 0."""
        return float(self._info().device_seconds)

    @property
    def memory(self) -> Dict[str, int]:
        """Bytes of activations, weights and workspace. Of activations and workspace those of one run: `runs_at_once` times that.
        "device": on a GPU, all that is held there now."""
        info = self._info()
        return {"activations": info.activation_bytes, "weights": info.weight_bytes, "workspace": info.workspace_bytes,
                "device": info.device_bytes}

    @property
    def runs_at_once(self) -> int:
        """The most runs that have gone on side by side, at least 1; memory for so many is kept."""
        return int(self._info().runs_at_once)

    def steps(self) -> List[Step]:
        """In the order in which they are run."""
        found = []
        for index in range(self._info().steps):
            s = _c.sized(_c.Step)
            _c.call(_c.library.convoy_session_step, self._handle, index, byref(s))
            found.append(Step(s.kind.decode(), s.nodes.decode(), s.engine.decode(), _c.decoded(s.problem),
                              _c.decoded(s.reason), tuple(_c.lines(s.warnings)), s.output_shape.decode(), s.seconds,
                              s.threads, s.device.decode()))
        return found

    def run(self, inputs: Mapping[str, Any], *, out: Optional[Mapping[str, Any]] = None, stream: Any = None) -> Dict[str, Any]:
        """As Network.run, for inputs of the sizes prepared for."""
        address = self._model.stream(inputs, stream)
        arrays = self._model.checked(inputs, address)
        if self._shapes is not None:
            for value, found, dims in zip(self._model.inputs, arrays, self._shapes):
                if found.dims != dims:
                    raise InvalidArgument(f"input {value.name!r} has the sizes {sizes(found.dims)}, "
                                          f"the session was prepared for {sizes(dims)}")
        return self._run_on(inputs, arrays, out, address)

    def _run_on(self, inputs: Mapping[str, Any], arrays: List[_arrays.Array], out: Optional[Mapping[str, Any]],
                stream: Optional[int]) -> Dict[str, Any]:
        """Where the inputs are."""
        pointers = [found.pointer for found in arrays]
        on_gpu = bool(arrays) and arrays[0].device != "cpu"
        if not on_gpu and out is None:
            return self._run(pointers)
        values = self._outputs()
        for name in out or ():
            if name not in [value.name.decode() for value in values]:
                raise InvalidArgument(f"out: {name!r} is no output, the model's are "
                                      f"{', '.join(repr(value.name.decode()) for value in values)}")
        found = {value.name.decode(): self._into(value, inputs, out, on_gpu, stream) for value in values}
        memory = [_arrays.array(f"out {name!r}", array, stream) for name, array in found.items()]
        if on_gpu:
            _c.call(_c.library.convoy_session_enqueue, self._handle, as_pointers(pointers), len(pointers),
                    as_pointers([array.pointer for array in memory]), len(memory), stream)
        else:
            buffers = (_c.Buffer * len(memory))(*[_c.Buffer(array.pointer or _NOWHERE, _bytes_of(array.type, array.dims))
                                                  for array in memory])
            _c.call(_c.library.convoy_session_execute_into, self._handle, as_pointers(pointers), len(pointers), buffers,
                    len(memory), None)
        return found

    def _outputs(self) -> List[_c.Value]:
        """As this session makes them."""
        values = []
        for index in range(len(self._model.outputs)):
            value = _c.sized(_c.Value)
            _c.call(_c.library.convoy_session_output_value, self._handle, index, byref(value))
            values.append(value)
        return values

    def _into(self, value: _c.Value, inputs: Mapping[str, Any], out: Optional[Mapping[str, Any]], on_gpu: bool,
              stream: Optional[int]) -> Any:
        """The array that an output goes to: the caller's, else a new one."""
        name, type_name, dims = value.name.decode(), value.type.decode(), tuple(value.dims[: max(value.rank, 0)])
        if value.rank < 0 or -1 in dims:
            raise Unsupported(f"output {name!r} has sizes that are known only when it has run: it gets memory of its own, for "
                              "inputs on the processor and without out")
        given = None if out is None else out.get(name)
        packed = _arrays.packed_strides(dims)
        if given is None:
            if not on_gpu:
                return numpy.empty(dims, _arrays.numpy_type(type_name))
            return _arrays.new_like(inputs[self._model.inputs[0].name], type_name, dims, packed, _bytes_of(type_name, dims),
                                    self.device)
        argument = f"out {name!r}"
        found = _arrays.array(argument, given, stream)
        if found.type != type_name:
            raise WrongType(f"{argument} has elements of type {found.type}, the model gives {type_name}")
        if found.dims != dims:
            raise InvalidArgument(f"{argument} has the sizes {sizes(found.dims)}, the model gives {sizes(dims)}")
        where = self.device if on_gpu else "cpu"
        if not _arrays.is_on(found.device, where):
            raise InvalidArgument(f"{argument} is on {found.device}, it must be where the inputs are, on {where}")
        if not found.writable:
            raise InvalidArgument(f"{argument} can't be written to")
        _arrays.check_row_major(argument, found)
        return given

    def _known_output(self, index: int) -> Optional[_Known]:
        value = _c.sized(_c.Value)
        _c.call(_c.library.convoy_session_output_value, self._handle, index, byref(value))
        if value.rank < 0:
            return None
        dims, dtype = tuple(value.dims[: value.rank]), _arrays.OWN_TYPES.get(value.type.decode())
        if dtype is None or min(dims, default=0) < 0:
            return None
        known = _Known(dims, dtype)
        return known if known.bytes >= _IN_PLACE else None

    def _run(self, addresses: List[int]) -> Dict[str, numpy.ndarray]:
        given = self._handle, as_pointers(addresses), len(addresses)
        buffers = (_c.Buffer * len(self._known))()
        made = [None if known is None else known.array(buffer) for known, buffer in zip(self._known, buffers)]
        if None not in self._known:
            _c.call(_c.library.convoy_session_execute_into, *given, buffers, len(made), None)
            return dict(zip(self._names, cast(List[numpy.ndarray], made)))
        results = c_void_p()
        _c.call(_c.library.convoy_session_execute_into, *given, buffers, len(made), byref(results))
        try:
            return {name: _output(results, index) if array is None else array
                    for index, (name, array) in enumerate(zip(self._names, made))}
        finally:
            _c.library.convoy_results_destroy(results)


def _bytes_of(type_name: str, dims: Tuple[int, ...]) -> int:
    bits = re.search(r"[0-9]+", type_name)
    return math.prod(dims) * max(int(bits[0]) // 8 if bits else 1, 1)


def _output(results: c_void_p, index: int) -> numpy.ndarray:
    output = _c.sized(_c.Output)
    _c.call(_c.library.convoy_results_output, results, index, byref(output))
    made = numpy.empty(tuple(output.dims[: output.rank]), _arrays.numpy_type(output.type.decode()))
    if output.bytes:
        ctypes.memmove(_arrays.address(made), output.data, output.bytes)
    return made
