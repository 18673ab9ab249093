"""onnxruntime's OrtValue and IOBinding: arrays with a device's name, and where a run reads and writes. What is bound on a GPU is the
caller's memory there."""
from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy

from convoy._arrays import numpy_type
from convoy._errors import InvalidArgument, Unsupported, WrongType

if TYPE_CHECKING:
    from convoy._inference_session import InferenceSession, RunOptions

Array = numpy.ndarray  # OrtValue has a method of the name numpy
# onnx.TensorProto.DataType's numbers.
_BY_NUMBER = {1: "f32", 2: "u8", 3: "s8", 4: "u16", 5: "s16", 6: "s32", 7: "s64", 9: "bool", 10: "f16", 11: "f64", 12: "u32",
              13: "u64", 16: "bf16"}
_ELEMENTS = {"float64": "double", "float32": "float"}


def _on_processor(argument: str, device_type: str, device_id: int) -> None:
    if str(device_type).lower() != "cpu" or device_id != 0:
        raise Unsupported(f"{argument}: device {device_type}:{device_id}; it is for the processor's memory, 'cpu', here")


def _dtype(element_type: Any) -> "numpy.dtype[Any]":
    """Of NumPy's type or ONNX's number."""
    if isinstance(element_type, int):
        if element_type not in _BY_NUMBER:
            raise WrongType(f"element_type={element_type} is none of ONNX's types that arrays have")
        return numpy_type(_BY_NUMBER[element_type])
    found: "numpy.dtype[Any]" = numpy.dtype(element_type)
    return found


class OrtValue:
    """An array that a session takes and gives. Like onnxruntime's it refers to the array, and copies nothing."""

    def __init__(self, array: numpy.ndarray) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _on_processor("ortvalue_from_numpy", device_type, device_id)
        array = numpy.asarray(numpy_obj)
        return OrtValue(array if array.flags.c_contiguous else numpy.ascontiguousarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0) -> "OrtValue":
        """Of values that nobody has set."""
        _on_processor("ortvalue_from_shape_and_type", device_type, device_id)
        return OrtValue(numpy.empty(tuple(shape), _dtype(element_type)))

    def numpy(self) -> Array:
        return self._array

    def __array__(self, *arguments: Any, **keywords: Any) -> Array:
        return numpy.asarray(self._array, *arguments, **keywords)

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Tuple[int, int]:
        kind, ordinal = self._array.__dlpack_device__()
        return int(kind), int(ordinal)

    def update_inplace(self, array: Array) -> None:
        numpy.copyto(self._array, array, casting="no")

    def shape(self) -> List[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        """tensor(float)"""
        name = self._array.dtype.name
        return f"tensor({_ELEMENTS.get(name, name)})"

    def element_type(self) -> int:
        """onnx.TensorProto.DataType's number."""
        return next(number for number, name in _BY_NUMBER.items() if numpy_type(name) == self._array.dtype)

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False


class _Memory:
    """By CUDA's array interface."""

    def __init__(self, pointer: int, shape: Sequence[int], dtype: "numpy.dtype[Any]") -> None:
        self.__cuda_array_interface__ = {"shape": tuple(shape), "typestr": dtype.str, "data": (pointer, False), "version": 3}


class _OnGpu(OrtValue):
    """The caller's memory on a GPU."""

    def __init__(self, pointer: int, shape: Sequence[int], dtype: "numpy.dtype[Any]") -> None:
        super().__init__(numpy.broadcast_to(numpy.zeros((), dtype), tuple(shape)))  # its type and sizes
        self._pointer = int(pointer)
        self.memory = _Memory(self._pointer, shape, dtype)

    def numpy(self) -> Array:
        raise Unsupported("numpy: it lies on the GPU: copy it with the library that its memory is of")

    def __array__(self, *arguments: Any, **keywords: Any) -> Array:
        return self.numpy()

    def __dlpack__(self, **keywords: Any) -> Any:
        raise Unsupported("__dlpack__: it lies on the GPU, and is the caller's memory")

    def update_inplace(self, array: Array) -> None:
        self.numpy()

    def data_ptr(self) -> int:
        return self._pointer

    def device_name(self) -> str:
        return "cuda"


def _at(argument: str, device_type: str, device_id: int, pointer: int, shape: Sequence[int], element_type: Any) -> Any:
    """The caller's memory as an array."""
    dtype = _dtype(element_type)
    if not pointer:
        raise InvalidArgument(f"{argument}: buffer_ptr is null")
    if str(device_type).lower() == "cuda":
        return _OnGpu(pointer, shape, dtype)
    _on_processor(argument, device_type, device_id)
    size = int(numpy.prod(tuple(shape), dtype=numpy.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(int(pointer))
    found: Array = numpy.frombuffer(memory, dtype).reshape(tuple(shape))
    return found


class IOBinding:
    """Inputs and outputs that a session reads and writes where they are; session.io_binding() makes one."""

    def __init__(self, session: "InferenceSession") -> None:
        self._session = session
        self._inputs: Dict[str, Any] = {}
        self._outputs: Dict[str, Any] = {}  # None: new ones
        self._found: List[OrtValue] = []

    def _known(self, name: str, what: str) -> None:
        values = self._session.network.inputs if what == "input" else self._session.network.outputs
        names = [value.name for value in values]
        if name not in names:
            raise InvalidArgument(f"{name!r} is no {what}, the model's are {', '.join(map(repr, names))}")

    def bind_cpu_input(self, name: str, arr_on_cpu: numpy.ndarray) -> None:
        self._known(name, "input")
        self._inputs[name] = numpy.ascontiguousarray(arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        self._known(name, "input")
        self._inputs[name] = _at("bind_input", device_type, device_id, buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._known(name, "input")
        self._inputs[name] = ortvalue.numpy()

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        """Without a buffer the run makes one, on the processor."""
        self._known(name, "output")
        if buffer_ptr is None:
            _on_processor("bind_output without buffer_ptr", device_type, device_id)
        self._outputs[name] = None if buffer_ptr is None else _at("bind_output", device_type, device_id, buffer_ptr, shape or (),
                                                                  element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._known(name, "output")
        self._outputs[name] = ortvalue.numpy()

    def synchronize_inputs(self) -> None:
        """onnxruntime's. The processor's memory is always ready."""

    def synchronize_outputs(self) -> None:
        """onnxruntime's. A run has ended when it returns."""

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._found = []

    def get_outputs(self) -> List[OrtValue]:
        """Of the last run, in the order in which they were bound."""
        return list(self._found)

    def copy_outputs_to_cpu(self) -> List[numpy.ndarray]:
        return [value.numpy().copy() for value in self._found]

    def _run(self, run_options: "Optional[RunOptions]") -> None:
        names = list(self._outputs)
        if not names:
            raise InvalidArgument("no output is bound: bind_output(NAME)")
        if any(isinstance(value, _OnGpu) for value in (*self._inputs.values(), *self._outputs.values())):
            self._run_there(names)
            return
        found = self._session.run(names, self._inputs, run_options)
        self._found = []
        for name, array in zip(names, found):
            bound = self._outputs[name]
            if bound is not None:
                if bound.shape != array.shape or bound.dtype != array.dtype:
                    raise InvalidArgument(f"output {name!r} is bound to {bound.dtype} of {bound.shape}, "
                                          f"the model gives {array.dtype} of {array.shape}")
                numpy.copyto(bound, array)
                array = bound
            self._found.append(OrtValue(array))

    def _run_there(self, names: List[str]) -> None:
        """On PyTorch's current stream, where it is loaded, else on the default stream; it is not waited for."""
        network = self._session.network
        missing = [value.name for value in network.outputs if value.name not in names]
        if missing:
            raise Unsupported(f"output {missing[0]!r} is not bound: on a GPU all are, to the caller's memory there")
        torch = sys.modules.get("torch")
        stream = None
        if torch is not None and torch.cuda.is_initialized():
            stream = torch.cuda.current_stream(int(network.device.rpartition(":")[2])).cuda_stream
        inputs, out = ({name: value.memory if isinstance(value, _OnGpu) else value for name, value in values.items()}
                       for values in (self._inputs, self._outputs))
        network.run(inputs, out=out, stream=stream)
        self._found = [self._outputs[name] for name in names]
