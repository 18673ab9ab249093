"""Routes the convolutions of a model, or of the process, through Convoy's operators, and back."""
from __future__ import annotations

import copy
import functools
import threading
import types
import warnings
from typing import Any, Dict, List, Optional, Tuple, Type

import torch
import torch.nn.grad
from torch import Tensor, nn
from torch.nn import functional

from convoy.torch import _functional

_lock = threading.Lock()
_everywhere = 0  # patch() without a model that are in force
_before: Dict[str, Any] = {}  # what torch.nn.functional and torch.nn.grad had then
_NAME = "_convoy_module"  # attribute of a patched module: its name in its model
_COUNT = "_convoy_patches"  # and how many patch(model) of it are in force


# ---- modules of a model ----

def _conv_forward(self: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    dims = len(self.kernel_size)
    padding = self.padding
    if self.padding_mode != "zeros":
        input = functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        padding = 0
    return _functional.convolution(f"conv{dims}d", dims, getattr(self, _NAME), input, weight, bias, self.stride, padding, self.dilation,
                                   self.groups)


def _transposed_forward(self: Any, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
    if self.padding_mode != "zeros":
        raise ValueError(f"padding_mode={self.padding_mode!r}: transposed convolutions take 'zeros' only")
    dims = len(self.kernel_size)
    more = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation)
    return _functional.transposed(f"conv_transpose{dims}d", dims, getattr(self, _NAME), input, self.weight, self.bias, self.stride,
                                  self.padding, more, self.groups, self.dilation)


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def _overrides(kind: Type[nn.Module]) -> Optional[Dict[str, Any]]:
    """What a patched class has of its own; None: the class computes its convolution itself."""
    for base in _CONVOLUTIONS:
        if issubclass(kind, base):
            own = kind.forward is base.forward and getattr(kind, "_conv_forward") is base._conv_forward
            return {"_conv_forward": _conv_forward} if own else None
    for transposed in _TRANSPOSED:
        if issubclass(kind, transposed):
            return {"forward": _transposed_forward} if kind.forward is transposed.forward else None
    return None


def _reduce(self: Any, protocol: Any) -> Any:
    """Pickled, a module is what it was before patch(), so that a saved model needs no Convoy."""
    plain = copy.copy(self.__dict__)
    plain.pop(_NAME, None)
    plain.pop(_COUNT, None)
    return _rebuild, (type(self)._convoy_original,), plain


def _rebuild(kind: Any) -> nn.Module:
    made: nn.Module = object.__new__(kind)
    return made


def _deepcopy(self: Any, memo: Dict[int, Any]) -> Any:
    """A copy is patched like the original."""
    made: Any = object.__new__(type(self))
    memo[id(self)] = made
    made.__setstate__(copy.deepcopy(self.__dict__, memo))
    return made


@functools.lru_cache(maxsize=None)
def _patched_class(kind: Type[nn.Module]) -> Type[nn.Module]:
    """A subclass that goes by the same name: repr() and torch.fx look at it."""
    overrides = _overrides(kind)
    assert overrides is not None
    own = {"__reduce_ex__": _reduce, "__deepcopy__": _deepcopy, "_convoy_original": kind, "__module__": kind.__module__,
           "__qualname__": kind.__qualname__, "__doc__": kind.__doc__, **overrides}
    return types.new_class(kind.__name__, (kind,), exec_body=lambda namespace: namespace.update(own))


def _patch_model(model: nn.Module) -> List[nn.Module]:
    patched: List[nn.Module] = []
    others: List[str] = []
    for name, module in model.named_modules():
        if not isinstance(module, (*_CONVOLUTIONS, *_TRANSPOSED)):
            continue
        if hasattr(type(module), "_convoy_original"):
            setattr(module, _COUNT, getattr(module, _COUNT) + 1)
        elif _overrides(type(module)) is None or isinstance(module, nn.modules.lazy.LazyModuleMixin):
            others.append(f"{name} ({type(module).__name__})")
            continue
        else:
            module.__class__ = _patched_class(type(module))  # type: ignore[assignment,arg-type]
            setattr(module, _COUNT, 1)
            setattr(module, _NAME, name)
        patched.append(module)
    if others:
        warnings.warn(f"patch: {', '.join(others)} stay as they are: a class with a forward of its own, or one without sizes yet; "
                      "patch() without a model routes what they call", stacklevel=3)
    return patched


def _restore(module: nn.Module, all_of_them: bool) -> None:
    if not hasattr(type(module), "_convoy_original"):
        return
    left = 0 if all_of_them else getattr(module, _COUNT) - 1
    if left > 0:
        setattr(module, _COUNT, left)
        return
    module.__class__ = getattr(type(module), "_convoy_original")
    delattr(module, _NAME)
    delattr(module, _COUNT)


# ---- torch.nn.functional, torch.nn.grad ----

_ROUTED: List[Tuple[Any, str, Any]] = [(functional, name, function) for name, function in _functional.FUNCTIONS.items()]
_ROUTED += [(torch.nn.grad, name, function) for name, function in _functional.GRADIENTS.items()]


def _patch_everywhere() -> None:
    global _everywhere
    with _lock:
        if _everywhere == 0:
            for place, name, function in _ROUTED:
                _before[name] = getattr(place, name)
                setattr(place, name, function)
        _everywhere += 1


def _restore_everywhere(all_of_them: bool) -> None:
    global _everywhere
    with _lock:
        if _everywhere == 0:
            return
        _everywhere = 0 if all_of_them else _everywhere - 1
        if _everywhere > 0:
            return
        for place, name, function in _ROUTED:
            if getattr(place, name) is function:  # else somebody has put another in its place since
                setattr(place, name, _before[name])


class Patch:
    """What one patch() did. A `with` undoes it at its end; so does undo()."""

    def __init__(self, model: Optional[nn.Module]) -> None:
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(f"model is of type {type(model).__name__}, not torch.nn.Module")
        self.model = model
        self._done = False
        self._modules: Tuple[nn.Module, ...] = ()
        if model is None:
            _patch_everywhere()
        else:
            self._modules = tuple(_patch_model(model))

    def undo(self) -> None:
        if self._done:
            return
        self._done = True
        if self.model is None:
            _restore_everywhere(False)
        for module in self._modules:
            _restore(module, False)

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        what = "torch.nn.functional" if self.model is None else f"{len(self._modules)} modules of {type(self.model).__name__}"
        return f"<convoy.torch.Patch of {what}{', undone' if self._done else ''}>"


def patch(model: Optional[nn.Module] = None) -> Patch:
    """Routes convolutions through Convoy's operators.

    With a model: its Conv1d to ConvTranspose3d modules, under their names in it, which rules() and report() know.
    Without: torch.nn.functional's conv1d to conv_transpose3d, and with them all such modules, and torch.nn.grad's conv1d_input to
    conv3d_weight, in the whole process. Code that imported one of these functions by name before keeps the one it has.

    It may be nested and repeated; each counts. Under `with` it is undone at the end.
    """
    return Patch(model)


def unpatch(model: Optional[nn.Module] = None) -> None:
    """Undoes every patch() of the model, or every patch() without one."""
    if model is None:
        _restore_everywhere(True)
        return
    for module in model.modules():
        _restore(module, True)
