"""Arrays of other libraries as memory: NumPy's, PyTorch's and whatever has DLPack (CuPy, JAX) or CUDA's array interface
(Numba). Nothing is copied."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

import numpy

from convoy._errors import InvalidArgument, Unsupported, WrongType

# Convoy's names of element types, by the names that NumPy, ml_dtypes and PyTorch use.
_TYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3",
    "float8_e5m2": "f8_e5m2", "int64": "s64", "int32": "s32", "int16": "s16", "int8": "s8", "uint64": "u64", "uint32": "u32",
    "uint16": "u16", "uint8": "u8", "bool": "bool", "int4": "s4", "uint4": "u4", "int2": "s2", "uint2": "u2",
    "float4_e2m1fn": "f4_e2m1", "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0",
}
_NAMES = {convoy: theirs for theirs, convoy in _TYPES.items()}
# DLPack's codes, with bits.
_DLPACK_TYPES = {
    (2, 64): "f64", (2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (10, 8): "f8_e4m3", (12, 8): "f8_e5m2", (0, 64): "s64",
    (0, 32): "s32", (0, 16): "s16", (0, 8): "s8", (1, 64): "u64", (1, 32): "u32", (1, 16): "u16", (1, 8): "u8", (6, 8): "bool",
}
_CPU_DEVICES = (1, 3)  # DLPack's kDLCPU, kDLCUDAHost
_CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged


class Array(NamedTuple):
    """Memory of somebody else's array, which `owner` keeps alive. Strides are in elements."""

    pointer: int
    type: str
    dims: Tuple[int, ...]
    strides: Tuple[int, ...]
    device: str  # "cpu", "cuda:0"; "cuda": it doesn't say which
    writable: bool
    owner: Any


def sizes(values: Tuple[int, ...]) -> str:
    """1x64x28x28"""
    return "x".join(map(str, values)) if values else "()"


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


# Names of dtypes that were seen: to ask a dtype takes longer than the rest of a call.
_known_dtypes: Dict[Any, str] = {}


def _name_of(argument: str, dtype: Any) -> str:
    name = _known_dtypes.get(dtype)
    if name is None:
        name = _TYPES.get(getattr(dtype, "name", None) or str(dtype).rpartition(".")[2])
        if name is None or not getattr(dtype, "isnative", True):
            raise WrongType(f"{argument}.dtype={dtype} is none that Convoy has")
        _known_dtypes[dtype] = name
    return name


_first_byte: Any = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


def address(value: numpy.ndarray) -> int:
    """Where its elements begin. Its `ctypes.data` takes six times as long, and is asked where it has no buffer to write to."""
    try:
        return _address_of(_first_byte(value))
    except (TypeError, ValueError, BufferError):
        return int(value.ctypes.data)


def _of_numpy(argument: str, value: numpy.ndarray) -> Array:
    name = _name_of(argument, value.dtype)
    if name in ("s4", "s2"):  # ml_dtypes leaves the bits above an element's own 0, here they are its sign
        value = value.astype(numpy.int8)
    size = value.itemsize
    strides = tuple([stride // size for stride in value.strides])
    if any([stride % size for stride in value.strides]):
        raise InvalidArgument(f"{argument}.strides={value.strides} are not multiples of its {size} bytes an element")
    pointer = address(value) if value.flags.c_contiguous else value.ctypes.data
    return Array(pointer, name, value.shape, strides, "cpu", value.flags.writeable, value)


def _of_torch(argument: str, value: Any) -> Array:
    torch = sys.modules["torch"]
    name = _name_of(argument, value.dtype)
    if value.layout != torch.strided or value.is_quantized or value.device.type not in ("cpu", "cuda"):
        raise WrongType(f"{argument} is a tensor of layout {value.layout} on {value.device}, not a strided one in memory")
    if value.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(f"{argument}.requires_grad=True, and a plan computes no gradients: use convoy.torch, "
                              f"{argument}.detach() or torch.no_grad()")
    if value.is_conj() or value.is_neg():
        raise InvalidArgument(f"{argument} is a lazily negated or conjugated view: use {argument}.resolve_neg()")
    device = "cpu" if value.device.type == "cpu" else f"cuda:{value.device.index or 0}"
    return Array(value.data_ptr(), name, tuple(value.shape), tuple(value.stride()), device, True, value)


def _of_dlpack(argument: str, value: Any, stream: Optional[int]) -> Array:
    kind, ordinal = (int(part) for part in value.__dlpack_device__())
    if kind in _CUDA_DEVICES:
        # 1 is the default stream's number there. The owner makes its work come before what is enqueued on the stream.
        capsule = value.__dlpack__(stream=stream or 1)
    elif kind in _CPU_DEVICES:
        capsule = value.__dlpack__()
    else:
        raise WrongType(f"{argument} is on DLPack's device {kind}, neither the processor's memory nor a CUDA device's")
    # Never renamed, so that the capsule itself gives the tensor back when it goes.
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    name = _DLPACK_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise WrongType(f"{argument} has elements of DLPack's type {tensor.code} with {tensor.bits} bits, none that Convoy has")
    dims = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else packed_strides(dims)
    device = f"cuda:{ordinal}" if kind in _CUDA_DEVICES else "cpu"
    # DLPack of this form says nothing of being read-only; of those who have it only JAX means it.
    writable = not is_of(value, "jax")
    return Array((tensor.data or 0) + tensor.byte_offset, name, dims, strides, device, writable, (value, capsule))


def _of_cuda_interface(argument: str, value: Any, stream: Optional[int]) -> Array:
    said = value.__cuda_array_interface__
    dtype = numpy.dtype(said["typestr"])
    name = _name_of(argument, dtype)
    pointer, read_only = said["data"]
    dims = tuple(said["shape"])
    strides = said.get("strides")
    steps = packed_strides(dims) if strides is None else tuple(stride // dtype.itemsize for stride in strides)
    # None: nothing is under way. 1 and 2 are the default streams; ours is an address, or None for the first of them.
    own = said.get("stream")
    if own is not None and own != (stream or 1):
        raise InvalidArgument(f"{argument} says that work on it is under way on stream {own}, and this runs on {stream or 1}: "
                              "give that stream, or synchronize it")
    return Array(pointer or 0, name, dims, steps, "cuda", not read_only, value)


def is_of(value: Any, package: str) -> bool:
    """Whether the type of `value` is of this package."""
    return type(value).__module__.partition(".")[0] in (package, package + "lib")


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array(argument: str, value: Any, stream: Optional[int] = None) -> Array:
    """The memory of `value`; `stream` is where it is going to be used, on a GPU."""
    if isinstance(value, numpy.ndarray):
        return _of_numpy(argument, value)
    if is_torch(value):
        return _of_torch(argument, value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _of_dlpack(argument, value, stream)
    if hasattr(value, "__cuda_array_interface__"):
        return _of_cuda_interface(argument, value, stream)
    raise WrongType(f"{argument} is of type {type(value).__name__}, which is neither a NumPy array nor has DLPack")


def is_on(found: str, device: str) -> bool:
    """Whether an array's device is this one."""
    return found == device or (found == "cuda" and device.startswith("cuda:"))


def new_like(like: Any, name: str, dims: Tuple[int, ...], strides: Tuple[int, ...], storage_bytes: int, device: str) -> Any:
    """An array of PyTorch or CuPy, as `like` is, where it is. Strides are in elements."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.empty_strided(dims, strides, dtype=getattr(torch, _NAMES[name]), device=like.device)
    if not is_of(like, "cupy"):
        raise InvalidArgument(f"out is missing: of {type(like).__name__} no new array can be made on {device}")
    cupy = sys.modules["cupy"]
    dtype = numpy_type(name)
    return cupy.ndarray(dims, dtype, cupy.cuda.alloc(storage_bytes), tuple(stride * dtype.itemsize for stride in strides))


def check_row_major(argument: str, found: Array) -> None:
    """Raises where its elements are not packed so."""
    packed = packed_strides(found.dims)
    if 0 in found.dims or all(a == b for n, a, b in zip(found.dims, found.strides, packed) if n != 1):
        return
    copies = "numpy.ascontiguousarray copies it so" if found.device == "cpu" else ".contiguous() copies a tensor of PyTorch's so"
    raise InvalidArgument(f"{argument} has the strides {sizes(found.strides)}, it must be row-major, {sizes(packed)}: {copies}")


def packed_strides(dims: Tuple[int, ...]) -> Tuple[int, ...]:
    """Row-major."""
    strides, step = [], 1
    for size in reversed(dims):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


# NumPy's own dtypes, by Convoy's names of types.
OWN_TYPES: "Dict[str, numpy.dtype[Any]]" = {name: numpy.dtype(theirs) for name, theirs in _NAMES.items() if hasattr(numpy, theirs)}


def numpy_type(name: str) -> "numpy.dtype[Any]":
    """NumPy's dtype of one of Convoy's types; the small floats are ml_dtypes'."""
    own = OWN_TYPES.get(name)
    if own is not None:
        return own
    theirs = _NAMES[name]
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Unsupported(f"NumPy has no type for {name}: install ml_dtypes, or give an array of another library as out") from None
    found: "numpy.dtype[Any]" = numpy.dtype(getattr(ml_dtypes, theirs))
    return found


def numpy_empty(name: str, dims: Tuple[int, ...], strides: Tuple[int, ...], storage_bytes: int) -> Any:
    """Aligned to 64 bytes. Strides are in elements."""
    dtype = numpy_type(name)
    memory = numpy.empty(storage_bytes + 63, numpy.uint8)
    start = -memory.ctypes.data % 64
    return numpy.ndarray(dims, dtype, memory, start, tuple(stride * dtype.itemsize for stride in strides))


def current_stream(values: Mapping[str, Any], ordinal: int) -> Optional[int]:
    """Of the library that the arrays are of; None, the default stream, for others."""
    for value in values.values():
        if is_torch(value):
            return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream) or None
        if is_of(value, "cupy"):
            return int(sys.modules["cupy"].cuda.get_current_stream().ptr) or None
    return None


def stream_address(stream: Any) -> Optional[int]:
    """From an address, or a stream of PyTorch or CuPy."""
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise WrongType(f"stream is of type {type(stream).__name__}, not an address or a stream of PyTorch or CuPy")
    return int(stream) or None
