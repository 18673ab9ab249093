"""What a plan checks of the arrays that it is given: type, sizes, strides, device."""
from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from convoy import _arrays
from convoy._arrays import Array, sizes
from convoy._errors import InvalidArgument, Unsupported, WrongType

if TYPE_CHECKING:
    from convoy._problem import Problem, Tensor

_DEFAULT_ALIGNMENT = 64  # bytes, of a tensor whose problem string says none


class Operands:
    """The operands of a problem on a device."""

    def __init__(self, problem: "Problem", device: str, has_weights: bool) -> None:
        self.problem = problem
        self.device = "cuda:0" if device == "cuda" else device
        number = self.device.rpartition(":")[2]
        self.ordinal = int(number) if number.isdigit() else 0
        read = [name for name in "xwy" if name != problem.computes]
        self.read = [name for name in read if not (has_weights and name == "w")]
        self.fields = dict(field.partition("=")[::2] for field in problem.text.split(":")[1:])
        self._least = tuple(self._alignment(name) for name in "xwy")
        self._small = self._small_ones()
        self._takes = {*self._small, *(["z"] if {"gamma", "residual"} & set(self.fields) else [])}
        self._in_memory = {name: _shape_in_memory(getattr(problem, name)) for name in "xwy"}

    def _alignment(self, name: str) -> int:
        found = re.search(r",align=(\d+)", self.fields[name])
        return int(found[1]) if found else _DEFAULT_ALIGNMENT

    def _small_ones(self) -> Dict[str, Tuple[str, Tuple[int, ...]]]:
        """What is read a value a channel: {argument: (type, how many there may be)}, of those that the problem has."""
        out, fields = self.problem.out, self.fields
        channels = out.dims[0 if self.problem.computes == "w" else 1]
        accumulator = fields.get("compute") or ("f64" if out.type == "f64" else "s32" if self.problem.x.type in ("s8", "u8") else "f32")
        found: Dict[str, Tuple[str, Tuple[int, ...]]] = {}
        if "bias" in fields:
            found["bias"] = ({"out": out.type, "f32": "f32"}.get(fields["bias"], accumulator), (channels,))
        if fields.get("act", "").startswith("prelu"):
            found["slopes"] = ("f32", (channels,))
        if "requant" in fields:
            found["scales"] = ("f32", (1,) if fields["requant"] == "tensor" else (channels,))
        if fields.get("gate") == "1":
            found["gate"] = (self.problem.x.type, tuple(self.problem.x.dims[:2]))
        zero_points = fields.get("zp", "").split(",")
        if zero_points[0] == "given":
            found["x_zero_point"] = ("s32", (1,))
        if zero_points[1:2] == ["given"]:
            found["w_zero_points"] = ("s32", (self.problem.w.dims[0],))
        return found

    def named(self, operands: Tuple[Any, ...], **keywords: Any) -> Dict[str, Any]:
        """The operands that the pass reads, from positions and keywords."""
        given = {name: value for name, value in keywords.items() if value is not None}
        order = ", ".join(self.read)
        if len(operands) > len(self.read):
            raise InvalidArgument(f"{len(operands)} operands by position, the plan reads {len(self.read)}: {order}")
        for name, value in zip(self.read, operands):
            if name in given:
                raise InvalidArgument(f"{name} is given twice, by position and by name")
            given[name] = value
        for name in given:
            if name == self.problem.computes:
                raise InvalidArgument(f"{name} is what the plan computes: give it as out")
            if name not in self.read:
                raise InvalidArgument(f"{name} is given, and the plan has its own, from weights")
        for name in self.read:
            if given.get(name) is None:
                raise InvalidArgument(f"{name} is missing; the plan reads {order}")
        return {name: given[name] for name in self.read}

    def new(self, given: Dict[str, Any]) -> Any:
        """Memory for the result."""
        if "beta" in self.fields:
            raise InvalidArgument(f"out is missing, and it is read: the problem says beta={self.fields['beta']}")
        tensor = self.problem.out
        dims, strides = self._in_memory[self.problem.computes]
        first = next(iter(given.values()))
        if _arrays.is_torch(first) or self.device != "cpu":
            return _arrays.new_like(first, tensor.type, dims, strides, tensor.bytes, self.device)
        return _arrays.numpy_empty(tensor.type, dims, strides, tensor.bytes)

    def check_all(self, given: Dict[str, Any], out: Any, rest: Dict[str, Any], stream: Optional[int]) -> Dict[str, Array]:
        """All arrays of an execution, by the names that Plan.execute has for them."""
        computes = self.problem.computes
        found = {name: self.checked(name, name, value, stream) for name, value in given.items()}
        found["out"] = self.checked(computes, "out", out, stream)
        if not found["out"].writable:
            raise InvalidArgument("out can't be written to")
        for name, value in rest.items():
            takes = name in self._takes
            if value is None:
                if takes:
                    raise InvalidArgument(f"{name} is missing, and the problem has it")
            elif not takes:
                raise InvalidArgument(f"{name} is given, and the problem has none: {self.problem.text}")
            elif name == "z":
                found[name] = self.checked(computes, name, value, stream)
            else:
                found[name] = self._checked_small(name, value, stream)
        return found

    def checked(self, operand: str, argument: str, value: Any, stream: Optional[int]) -> Array:
        """An array that is described by an operand of the problem."""
        tensor: "Tensor" = getattr(self.problem, operand)
        found = _arrays.array(argument, value, stream)
        self._check(argument, found, tensor.type)
        dims, strides = self._in_memory[operand]
        if found.dims != dims:
            raise InvalidArgument(f"{argument} has the sizes {sizes(found.dims)}, the problem's {operand} {sizes(dims)}")
        if found.strides == strides or 0 in dims:
            return found
        # Where there is one element, the stride says nothing.
        if any(a != b for size, a, b in zip(dims, found.strides, strides) if size != 1):
            raise InvalidArgument(f"{argument} has the strides {sizes(found.strides)}, the problem's {operand} {sizes(strides)}: "
                                  f"a problem with {operand}={tensor.type},{sizes(dims)},strides={sizes(found.strides)} takes it")
        return found

    def copied(self, operand: str, argument: str, value: Any) -> Any:
        """A copy of an operand's bytes, aligned to 64; of None, None."""
        if value is None:
            return None
        found = self.checked(operand, argument, value, None)
        size = getattr(self.problem, operand).bytes
        copy = _arrays.numpy_empty("u8", (size,), (1,), size)
        if size:
            ctypes.memmove(copy.ctypes.data, found.pointer, size)
        return copy

    def _checked_small(self, argument: str, value: Any, stream: Optional[int]) -> Array:
        type_name, dims = self._small[argument]
        found = _arrays.array(argument, value, stream)
        self._check(argument, found, type_name)
        if found.dims != dims and not (dims == (1,) and found.dims == ()):
            raise InvalidArgument(f"{argument} has the sizes {sizes(found.dims)}, the problem takes {sizes(dims)}")
        strides = (*dims[1:], 1)
        # Of no element, or one, the stride says nothing.
        if 0 not in dims and any(size != 1 and a != b for size, a, b in zip(dims, found.strides, strides)):
            raise InvalidArgument(f"{argument} has the stride {sizes(found.strides)}, it must be {sizes(strides)}")
        return found

    def _check(self, argument: str, found: Array, type_name: str) -> None:
        if found.type != type_name:
            raise WrongType(f"{argument} has elements of type {found.type}, the problem says {type_name}")
        if not _arrays.is_on(found.device, self.device):
            raise InvalidArgument(f"{argument} is on {found.device}, the plan is for {self.device}")

    def alignments(self, pointers: Dict[str, int]) -> Optional[Tuple[int, ...]]:
        """What the operands are aligned to, where that is less than the problem says; None: it isn't."""
        computes = self.problem.computes
        actual = []
        for name, least in zip("xwy", self._least):
            address = pointers.get("out" if name == computes else name, 0)
            if name == computes:
                address |= pointers.get("z", 0)
            if name == "x":
                address |= pointers.get("gate", 0)
            actual.append(min(least, address & -address) if address else least)
        return None if tuple(actual) == self._least else tuple(actual)

    def with_alignments(self, alignments: Tuple[int, ...]) -> "Problem":
        """The same problem for less aligned arrays."""
        text = self.problem.text
        for name, alignment in zip("xwy", alignments):
            field = f"{name}={self.fields[name]}"
            text = text.replace(f":{field}", f":{re.sub(',align=[0-9]+', '', field)},align={alignment}", 1)
        return type(self.problem)(text)


def _shape_in_memory(tensor: "Tensor") -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Sizes and strides of an array for a tensor. A tensor in blocks of channels is an array N, C/block, (D), H, W, block."""
    block = tensor.channel_block
    if block == 1:
        return tensor.dims, tensor.strides
    if len(tensor.dims) < 3:
        raise Unsupported(f"blocks of {block} channels in {len(tensor.dims)} dims")
    blocks = -(-tensor.dims[1] // block)
    return (tensor.dims[0], blocks, *tensor.dims[2:], block), (*tensor.strides, 1)
