"""A pass of a convolution on real tensors: looked up by sizes, chosen and planned once, then run.

What is looked up is a tuple; text is only made once a problem. Plans are shared between modules and threads.
"""
from __future__ import annotations

import ctypes
import threading
import warnings
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

import convoy
from convoy.torch import _aten, _geometry, _settings
from convoy.torch._geometry import Operand
from convoy.torch._settings import Settings

ORACLES = frozenset({"reference", "cuda.reference", "onednn.ref"})
# On a processor PyTorch takes no Winograd algorithm, whose results differ from a direct convolution's in more bits. An engine
# that is excluded is none that another runs on, so this is cpu.nhwc{engine=cpu.winograd}, too.
AS_PRECISE = "!*winograd*"

_calls: Dict[Tuple[Any, ...], "Call"] = {}
_plans: Dict[Tuple[Any, ...], convoy.Plan] = {}

_empty, _empty_strided = torch.empty, torch.empty_strided
_threads = torch.get_num_threads
_deterministic_algorithms = torch.are_deterministic_algorithms_enabled
_cudnn_deterministic = torch._C._get_cudnn_deterministic
_precision = torch._C._get_fp32_precision_getter
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # absent where PyTorch is built without CUDA


_of_thread = threading.local()


def _scratch(size: int) -> Tensor:
    """A thread's memory for workspaces on the processor. One taken for each call would go back to the system after it, and its
    pages would have to be made again: 13,000 page faults in a training step of resnet18."""
    memory: Optional[Tensor] = getattr(_of_thread, "memory", None)
    if memory is None or memory.numel() < size:
        memory = _of_thread.memory = _empty(size, dtype=torch.uint8)
    return memory


class _Packed(NamedTuple):
    """A parameter's values packed for a plan. They are those of one version of it: whoever changes it in place makes another."""

    weight: "weakref.ref[Tensor]"
    state: Tuple[Any, ...]
    plan: Optional[convoy.Plan]  # None: there is none with weights of its own


def _state(weight: Tensor) -> Tuple[Any, ...]:
    """What tells whether a parameter's values are the same: where it lies, its version, and some of its bytes, since what is
    written through `.data` does not count as a version."""
    address, size = weight.data_ptr(), weight.numel() * weight.element_size()
    part = min(size, 16)
    return (address, weight._version, weight.shape,
            *[ctypes.string_at(address + (size - part) * i // 3, part) for i in range(4)])


class Call:
    """One pass of one problem in one module: how it runs, and how often it did."""

    _arguments: Tuple[Any, ...]  # what PyTorch's own convolution takes after the tensors
    _channels_last: bool  # the result's format
    _asked: bool  # whether the caller named what runs
    globs: Tuple[str, ...]  # of the rules in force that the module's name matches
    # Of a plan:
    _shape: Tuple[int, ...]
    _strides: Tuple[int, ...]
    _dtype: torch.dtype
    _device: torch.device
    _index: int  # of the GPU; -1: the processor
    _copy: Tuple[bool, bool]  # which tensors are copied first, to _format
    _format: torch.memory_format
    _bias_after: bool  # it is added by another kernel
    _choice: Tuple[Any, ...]  # what it was chosen by: _chosen's arguments

    def __init__(self, name: str, module: str, sizes: str) -> None:
        self.name, self.module, self.sizes = name, module, sizes
        self.plan: Optional[convoy.Plan] = None
        self.reason = ""  # why PyTorch computes it, where there is no plan
        self.calls = 0
        self.copied = ""  # operands, "x,w"
        self._packed: Dict[int, _Packed] = {}  # by the parameter's id

    def _with_weights(self, weight: Tensor) -> Optional[convoy.Plan]:
        """A plan that has the parameter's values packed. One for each parameter is kept, until it changes or is gone."""
        key, state = id(weight), _state(weight)
        packed = self._packed.get(key)
        if packed is None or packed.weight() is not weight or packed.state != state:
            values = weight.detach()
            if self._copy[1]:
                values = values.contiguous(memory_format=self._format)
            chosen = _chosen(*self._choice, weights=values)
            plan = chosen if isinstance(chosen, convoy.Plan) else None
            if plan is not None:
                plan._weights = None  # a copy for arrays of other alignments, of which there are none
            kept = self._packed
            packed = _Packed(weakref.ref(weight, lambda _: kept.pop(key, None)), state, plan)
            self._packed[key] = packed
        return packed.plan

    def run(self, a: Tensor, b: Tensor, bias: Optional[Tensor], inference: bool) -> Tensor:
        """On tensors that are laid out as those it was made for. `inference`: nobody differentiates it."""
        plan = self.plan
        if plan is None:
            return self._fall_back(a, b, bias)
        given = a, b, bias
        packed = None
        if inference and self._index < 0 and type(b) is torch.nn.Parameter and not b.is_inference():
            packed = self._with_weights(b)
        if packed is not None:
            plan = packed
        first, second = self._copy
        if first:
            a = a.contiguous(memory_format=self._format)
        if second and packed is None:
            b = b.contiguous(memory_format=self._format)
        out = _empty_strided(self._shape, self._strides, dtype=self._dtype, device=self._device)
        scratch = plan.workspace_bytes
        workspace = None if not scratch else _scratch(scratch) if self._index < 0 else _empty(scratch, dtype=torch.uint8, device=self._device)
        address = None if workspace is None else workspace.data_ptr()
        stream = _stream(self._index) if self._index >= 0 else None  # type: ignore[misc]
        name = self.name
        weights = None if packed is not None else b.data_ptr()
        if name == "fprop":
            x, w, y = a.data_ptr(), weights, None
        elif name == "dgrad":
            x, w, y = None, weights, a.data_ptr()
        else:
            x, w, y = a.data_ptr(), None, weights
        added = None
        if bias is not None and not self._bias_after:
            bias = bias.contiguous()
            added = bias.data_ptr()
        try:
            plan.execute(x, w, y, out.data_ptr(), added, None, None, None, address, scratch, stream)
        except convoy.ConvoyError as error:
            if self._asked:
                raise
            self.plan, self.reason = None, f"{plan.candidate} failed: {error}"  # from now on
            return self._fall_back(*given)
        if bias is not None and self._bias_after:
            out.add_(bias.view([1, -1] + [1] * (out.dim() - 2)))
        self.calls += 1
        return out

    def _fall_back(self, a: Tensor, b: Tensor, bias: Optional[Tensor]) -> Tensor:
        compute: Any = _aten.PASSES[self.name]
        out: Tensor = compute(a, b, bias, *self._arguments)
        self.calls += 1
        # What torch.compile was told of the result's strides holds here too.
        if not _geometry.packed(Operand(tuple(out.shape), out.stride(), out.dtype), self._channels_last):
            out = torch.empty_strided(out.shape, _geometry.packed_strides(out.shape, self._channels_last), dtype=out.dtype,
                                      device=out.device).copy_(out)
        return out


def _chosen(text: str, device: torch.device, threads: int, settings: Settings, rules: Optional[str],
            deterministic: bool, weights: Optional[Tensor] = None) -> "convoy.Plan | str":
    """A plan, or why Convoy has none. What was asked for by name and can't be is an error. A plan with weights is the caller's alone."""
    key = (text, device, threads, rules, settings.strict, settings.engines, settings.workspace, settings.database, deterministic)
    plan = _plans.get(key) if weights is None else None
    if plan is not None:
        return plan
    problem = convoy.Problem(text)
    where: Dict[str, Any] = {"device": str(device), "threads": threads, "deterministic": deterministic, "database": settings.database}
    engines = settings.engines
    if engines is None and rules is None and device.type == "cpu":
        engines = AS_PRECISE
    try:
        plan = problem.select(rules=rules, engines=engines, workspace_limit=settings.workspace, fallback=not settings.strict,
                              weights=weights, **where)
    except convoy.ConvoyError as error:
        if settings.asks:
            try:
                problem.select(**where)
            except convoy.ConvoyError:
                return str(error).splitlines()[0]
            raise  # without what was asked for it would run
        return str(error).splitlines()[0]
    engine = plan.candidate.split("{")[0]
    if engine in ORACLES and plan.reason == "heuristic" and engine not in (settings.engines or "").split(","):
        return f"only {engine}, the oracle, can run it: {text.split(',')[0].split('=')[1]} tensors of these layouts on {device}"
    return _plans.setdefault(key, plan) if weights is None else plan


class _Maker:
    """Makes a Call for tensors."""

    def __init__(self, name: str, a: Tensor, b: Tensor, bias: Optional[Tensor], sizes: Optional[Sequence[int]], stride: Sequence[int],
                 padding: Sequence[int], dilation: Sequence[int], groups: int, module: str, settings: str,
                 tf32: Optional[bool] = None) -> None:
        """`tf32`: whether f32 may be rounded to it; None: as PyTorch's flag says."""
        self.tf32 = tf32
        self.name, self.a, self.b, self.bias = name, a, b, bias
        self.window = padding, stride, dilation, groups
        self.sizes, self.module = sizes, module
        self.settings = Settings.parse(settings)
        self.device = a.device
        self.channels_last = (_geometry.looks_channels_last(a.shape, a.stride())
                              or _geometry.looks_channels_last(b.shape, b.stride()))

    def make(self) -> Call:
        call = Call(self.name, self.module, " and ".join("x".join(map(str, t.shape)) for t in (self.a, self.b)))
        padding, stride, dilation, groups = self.window
        call._arguments = self.sizes, stride, padding, dilation, groups
        call._channels_last, call._asked = self.channels_last, self.settings.asks
        call.globs = self.settings.globs_of(self.module)
        reason = self._unfit() or self._plan(call)
        if reason:
            call.plan, call.reason = None, reason
        return call

    def _shapes(self) -> Tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Of x, w and y."""
        a, b, sizes = tuple(self.a.shape), tuple(self.b.shape), self.sizes or ()
        if self.name == "dgrad":
            return sizes, b, a
        if self.name == "wgrad":
            return a, sizes, b
        padding, stride, dilation, _ = self.window
        if len(a) != len(b) or len(a) - 2 != len(stride) or len(padding) % len(stride) or min(stride) < 1:
            return a, b, (a[0] if a else 0, 0)
        return a, b, (a[0], b[0], *_geometry.output_sizes(a[2:], b[2:], padding, stride, dilation))

    def _unfit(self) -> Optional[str]:
        """Why Convoy is not asked. PyTorch then says what is wrong, where something is."""
        a, b, bias = self.a, self.b, self.bias
        for other in (b, bias):
            if other is not None and other.device != a.device:
                return f"tensors are on {a.device} and {other.device}"
            if other is not None and other.dtype != a.dtype:
                return f"tensors are of {a.dtype} and {other.dtype}"
        if a.dtype not in _geometry.TYPES:
            return f"tensors are of {a.dtype}"
        padding, stride, dilation, groups = self.window
        x, w, y = self._shapes()
        biased = x[1] if self.name == "dgrad" else y[1]
        return _geometry.mismatch(x, w, y, padding, stride, dilation, groups, None if bias is None else bias.shape, biased)

    def _plan(self, call: Call) -> Optional[str]:
        """Gives the call a plan, or says why there is none: for the tensors as they lie, else for copies in the result's format."""
        given = [Operand(tuple(t.shape), t.stride(), t.dtype) for t in (self.a, self.b)]
        format = self.channels_last
        shapes = dict(zip("xwy", self._shapes()))
        computed = {"fprop": "y", "dgrad": "x", "wgrad": "w"}[self.name]
        shape = tuple(shapes[computed])
        out = Operand(shape, tuple(_geometry.packed_strides(shape, format)), self.a.dtype)
        copies = [not _geometry.packed(operand, format) for operand in given]
        reason: Optional[str] = "its tensors share memory between elements"
        # Weights with gaps are copied, as PyTorch does, and on a processor all tensors with gaps: they then give the bits that packed
        # ones give, by the same plan.
        gaps = [not any(_geometry.packed(operand, each) for each in (False, True)) for operand in given]
        first = gaps[0] and self.device.type == "cpu"
        second = gaps[1] and (self.name != "wgrad" or self.device.type == "cpu")
        ways: List[Tuple[bool, bool]] = [(first, second)] if all(map(_geometry.describable, given)) else []
        for way in ways + ([(copies[0], copies[1])] if any(copies) else []):
            laid = [Operand(o.shape, tuple(_geometry.packed_strides(o.shape, format)), o.dtype) if copy else o for o, copy in zip(given, way)]
            plan, bias_after, choice = self._choose(laid, out)
            if isinstance(plan, str):
                reason = plan
                continue
            call.plan, call._bias_after, call._copy, call._choice = plan, bias_after, way, choice
            names = {"fprop": "xw", "dgrad": "yw", "wgrad": "xy"}[self.name]
            call.copied = ",".join(name for name, copy in zip(names, way) if copy)
            call._shape, call._strides, call._dtype, call._device = shape, out.strides, out.dtype, self.device
            call._index = self.a.get_device() if self.device.type == "cuda" else -1
            memory_formats = {4: torch.channels_last, 5: torch.channels_last_3d}
            call._format = memory_formats[len(shape)] if format else torch.contiguous_format
            return None
        return reason

    def _choose(self, given: List[Operand], out: Operand) -> "Tuple[convoy.Plan | str, bool, Tuple[Any, ...]]":
        """The plan or why there is none, whether bias is added after it, and what it was chosen by."""
        x, w, y = {"fprop": (given[0], given[1], out), "dgrad": (out, given[1], given[0]), "wgrad": (given[0], out, given[1])}[self.name]
        cuda = self.device.type == "cuda"
        tf32 = cuda and (_precision("cuda", "conv") == "tf32" if self.tf32 is None else self.tf32)
        alignment = _alignment(self.a, self.b, self.bias)
        asked = self.settings.deterministic
        deterministic = _deterministic() if asked is None else asked
        rules = self.settings.rules_of(self.module)
        padding, stride, dilation, groups = self.window

        def choose(bias: bool) -> "Tuple[convoy.Plan | str, Tuple[Any, ...]]":
            text = _geometry.problem_text(self.name, x, w, y, padding, stride, dilation, groups, bias, tf32, alignment)
            choice = text, self.device, 0 if cuda else _threads(), self.settings, rules, deterministic
            return _chosen(*choice), choice

        if self.bias is None or not cuda:
            plan, choice = choose(self.bias is not None)
            return plan, False, choice
        # cuDNN has few engines that add a bias, so it is added by another kernel, as PyTorch does. Convoy's own add it.
        plain, choice = choose(False)
        if isinstance(plain, convoy.Plan) and plain.candidate.startswith("cuda."):
            fused, with_bias = choose(True)
            if isinstance(fused, convoy.Plan) and fused.candidate.split("{")[0] == plain.candidate.split("{")[0]:
                return fused, False, with_bias
        return plain, True, choice


def _deterministic() -> bool:
    return _cudnn_deterministic() or _deterministic_algorithms()


def _alignment(*tensors: Optional[Tensor]) -> int:
    """The power of two that all addresses are multiples of, at most what a problem says by itself."""
    bits = _geometry.ALIGNMENT
    for tensor in tensors:
        if tensor is not None:
            bits |= tensor.data_ptr()
    return bits & -bits


def run(name: str, a: Tensor, b: Tensor, bias: Optional[Tensor], sizes: Optional[Tuple[int, ...]], stride: Tuple[int, ...],
        padding: Tuple[int, ...], dilation: Tuple[int, ...], groups: int, module: str, settings: str, inference: bool = False) -> Tensor:
    """Computes y from x and w (fprop), x from y and w (dgrad) or w from x and y (wgrad); `sizes` are those of dgrad's x, wgrad's w.

    `inference`: nobody differentiates it, so that on a processor a parameter is worth packing once.
    """
    device = a.device
    address = a.data_ptr() | b.data_ptr()
    if bias is None:
        added: Any = None
    else:
        added = bias.shape, bias.dtype, bias.device
        address |= bias.data_ptr()
    key = (name, a.shape, a.stride(), b.shape, b.stride(), a.dtype, b.dtype, device, b.device, added, sizes, stride, padding, dilation,
           groups, module, settings, address & 63, _cudnn_deterministic(), _deterministic_algorithms(),
           _threads() if device.type == "cpu" else _precision("cuda", "conv"))
    call = _calls.get(key)
    if call is None:
        call = _Maker(name, a, b, bias, sizes, stride, padding, dilation, groups, module, settings).make()
        for passed_over in call.plan.warnings if call.plan is not None else ():
            warnings.warn(f"rules: {module or 'a convolution'}: {passed_over}; {call.plan.candidate} runs", stacklevel=2)
        call = _calls.setdefault(key, call)
    if call.globs:
        _settings.count(call.globs)
    return call.run(a, b, bias, inference)


def all_calls() -> List[Call]:
    return list(_calls.values())


def forget_counts() -> None:
    for call in all_calls():
        call.calls = 0


def clear() -> None:
    """Drops all choices and plans of the processor, whose memory is freed; those of GPUs stay, since captured graphs may use them."""
    _calls.clear()
    _plans.clear()
