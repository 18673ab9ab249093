"""PyTorch's own depthwise convolutions of a program under `convoy exec`: seen, and replaced where another engine is faster.

aten's entries call forward() and backward() (convoy/_exec/sitecustomize.py). A problem's pass is decided at its first call that is not
captured: an engine is chosen as convoy.torch chooses, but in the math of PyTorch's kernel and with the same bits each time; its result is
compared with that of PyTorch's kernel on the program's data, and both are timed. It runs from then on where it is faster by more than 2%
or a rule names it. Whatever goes wrong, PyTorch computes it.
"""
from __future__ import annotations

import atexit
import json
import math
import os
import pathlib
import statistics
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

import convoy
from convoy.torch import _calls, _geometry, _settings
from convoy.torch._geometry import Operand

MARGIN = 1.02
ROUNDS = 7
ENGINE = "torch.depthwise"  # PyTorch's kernels, as records name them
_WIDTHS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}  # bits of the mantissa

_lock = threading.Lock()
_rows: Dict[Tuple[Any, ...], "Row"] = {}
_written = time.monotonic()
_capturing = torch.cuda.is_current_stream_capturing
_BACKENDS = {getattr(torch._C._ConvBackend, name) for name in ("CudaDepthwise2d", "CudaDepthwise3d")}
_own_backward: Any = None
_is_own: Dict[Tuple[Any, ...], bool] = {}  # whether a backward pass is PyTorch's own kernel's


# ---- what was asked for ----

def _asked(choices: str) -> _settings.Settings:
    """The rules and filters of the choice file (src/interposer/choices.h)."""
    rules, engines, workspace = [], None, None
    for line in choices.splitlines():
        fields = line.split("\t")
        if fields[0] == "rule":
            rules.append(f"{fields[1]} -> {fields[2]}\n")
        elif fields[:2] == ["filter", "engines"]:
            engines = fields[2]
        elif fields[:2] == ["filter", "workspace"]:
            workspace = int(fields[2])
    return _settings.Settings(rules=(("", "".join(rules)),) if rules else (), strict=False, engines=engines, deterministic=True,
                              workspace=workspace, database=_MODE != "no-db")


def _read_choices() -> _settings.Settings:
    file = os.environ.get("CONVOY_CHOICES")
    return _asked(pathlib.Path(file).read_text() if file else "")


_MODE = os.environ.get("CONVOY_PYTHON_HOOK", "").split(",")[0]
_SETTINGS = _read_choices().text
_STEERS = _MODE != "record"


# ---- a pass of a problem ----

class Row:
    """What is known of one pass of one problem in this process."""

    def __init__(self, problem: str, operation: str, device: str) -> None:
        self.problem, self.operation, self.device = problem, operation, device
        self.calls = self.substituted = self.captured = 0
        self.decided = False
        self.call: Optional[_calls.Call] = None  # what runs in place of PyTorch's kernel; None: that runs
        self.candidate = ""  # what was looked at
        self.reason = ""  # why it does not run
        self.seconds: Optional[Tuple[float, float]] = None  # of PyTorch's kernel, and of the other

    def line(self) -> Dict[str, Any]:
        """Of the record."""
        plan: Dict[str, Any] = {"candidate": ENGINE, "notes": [], "made": 1, "calls": self.calls, "captured": self.captured}
        if self.seconds is not None:
            plan["seconds"] = self.seconds[0]
        line: Dict[str, Any] = {"problem": self.problem, "operations": self.operation, "device": self.device, "calls": self.calls,
                                "plans": [plan]}
        if self.call is not None:
            plan.update(substitute=self.candidate, substituted=self.substituted)
            if self.seconds is not None:
                plan["substitute_seconds"] = self.seconds[1]
        elif self.candidate or self.reason:
            line["not_placed"] = [{"candidate": self.candidate or "cuda.depthwise", "reason": self.reason}]
        return line


def _times(functions: Sequence[Callable[[], Any]]) -> List[float]:
    """Seconds of each on the GPU, interleaved. The host is ahead, so that its own time does not count."""
    for function in functions:
        function()
    torch.cuda._sleep(4_000_000)
    marks: List[List[Tuple[Any, Any]]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, mine in zip(functions, marks):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            function()
            end.record()
            mine.append((begin, end))
    torch.cuda.current_stream().synchronize()
    return [1e-3 * statistics.median(begin.elapsed_time(end) for begin, end in mine) for mine in marks]


def agree(mine: Tensor, own: Tensor, magnitude: Tensor, terms: int, narrow: bool = False) -> bool:
    """Whether two sums of `terms` products differ by rounding alone. `magnitude`: the sum of the products' absolute values. `narrow`: own
    was added up in its type, not in f32."""
    a, b = mine.float(), own.float()
    of_terms = (8 + 4 * math.sqrt(terms)) * 2.0 ** -24 + (2.0 ** -_WIDTHS[own.dtype] if narrow else 0)
    allowed = (a.abs() + b.abs()) * 2.0 ** -_WIDTHS[own.dtype] + magnitude.float() * of_terms
    return bool(((a - b).abs() <= allowed).all())


def _decide(row: Row, name: str, a: Tensor, b: Tensor, bias: Optional[Tensor], sizes: Optional[Tuple[int, ...]], stride: Sequence[int],
            padding: Sequence[int], dilation: Sequence[int], groups: int, own: Callable[[Tensor, Tensor, Optional[Tensor]], Tensor]) -> None:
    """Whether PyTorch's kernel, own(), is replaced. Not decided where the program's numbers are not finite."""
    if not _STEERS:
        row.decided, row.seconds = True, (_times([lambda: own(a, b, bias)])[0], 0.0)
        return
    if a.dtype not in _WIDTHS:
        row.decided, row.reason = True, f"tensors are of {a.dtype}"
        return
    expected = own(a, b, bias)
    if not bool(torch.isfinite(expected).all()):
        return
    row.decided = True
    maker = _calls._Maker(name, a, b, bias, sizes, stride, padding, dilation, groups, "", _SETTINGS, tf32=False)
    call = maker.make()
    if call.plan is None:
        row.reason = call.reason
        return
    row.candidate = call.plan.candidate
    if bias is not None and call._bias_after and a.dtype != torch.float32:
        row.reason = "it would round before the bias is added"
        return
    result = call.run(a, b, bias, False)
    if call.plan is None:
        row.reason = call.reason
        return
    filter = (sizes if name == "wgrad" else b.shape)[2:]  # type: ignore[index]
    terms = math.prod(filter) if name != "wgrad" else b.shape[0] * math.prod(b.shape[2:])
    # PyTorch's 3D wgrad adds the sums of a block's threads in the tensors' type.
    narrow = name == "wgrad" and len(filter) == 3
    if not agree(result, expected, own(a.abs(), b.abs(), None if bias is None else bias.abs()), terms, narrow):
        row.reason = "its result differs from that of PyTorch's kernel"
        return
    del result, expected
    named = call.plan.reason.startswith("rule")
    own_seconds, seconds = _times([lambda: own(a, b, bias), lambda: call.run(a, b, bias, False)])
    row.seconds = own_seconds, seconds
    if named or seconds * MARGIN < own_seconds:
        row.call = call
    else:
        row.reason = f"it takes {1e6 * seconds:.1f} us, PyTorch's kernel {1e6 * own_seconds:.1f}"


def _run(name: str, entry: str, a: Tensor, b: Tensor, bias: Optional[Tensor], sizes: Optional[Tuple[int, ...]], stride: Sequence[int],
         padding: Sequence[int], dilation: Sequence[int], groups: int,
         own: Callable[[Tensor, Tensor, Optional[Tensor]], Tensor]) -> Optional[Tensor]:
    """A pass of x and w (fprop), y and w (dgrad) or x and y (wgrad), all contiguous; counted. None: PyTorch's kernel, own(), is to run."""
    alignment = _calls._alignment(a, b, bias)
    key = (name, a.shape, b.shape, sizes, a.dtype, b.dtype, a.device, bias is not None, tuple(stride), tuple(padding), tuple(dilation),
           groups, alignment)
    row = _rows.get(key)
    if row is None:
        shapes = {"fprop": (a.shape, b.shape, None), "dgrad": (sizes, b.shape, a.shape), "wgrad": (a.shape, sizes, b.shape)}[name]
        x, w = tuple(shapes[0]), tuple(shapes[1])  # type: ignore[arg-type]
        y = tuple(shapes[2] or (x[0], w[0], *_geometry.output_sizes(x[2:], w[2:], padding, stride, dilation)))
        laid = [Operand(shape, tuple(_geometry.packed_strides(shape, False)), a.dtype) for shape in (x, w, y)]
        try:
            text = convoy.Problem(_geometry.problem_text(name, *laid, padding, stride, dilation, groups, False, False, alignment)).text
        except Exception:  # PyTorch's own words are the program's
            return None
        device = torch.cuda.get_device_name(a.device) if a.is_cuda else str(a.device)
        with _lock:
            row = _rows.setdefault(key, Row(text, f"aten::{entry}", device))
    captured = a.is_cuda and _capturing()
    row.calls += 1
    row.captured += captured
    if not row.decided and not captured:
        try:
            _decide(row, name, a, b, bias, sizes, tuple(stride), tuple(padding), tuple(dilation), groups, own)
        except Exception as error:
            row.decided, row.call, row.reason = True, None, f"{type(error).__name__}: {error}"
    if time.monotonic() - _written > 60:
        write()
    call = row.call
    if call is None:
        return None
    row.substituted += 1
    return call.run(a, b, bias, False)


# ---- aten's entries ----

def forward(entry: Any, name: str, keys: Any, x: Tensor, w: Tensor, kernel: Sequence[int], bias: Optional[Tensor],
            stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """aten::_conv_depthwise2d, aten::conv_depthwise3d; `entry` is PyTorch's kernel."""
    def own(a: Tensor, b: Tensor, added: Optional[Tensor]) -> Tensor:
        return entry.call_boxed(keys, a, b, kernel, added, stride, padding, dilation)  # type: ignore[no-any-return]

    y = None
    if x.is_contiguous() and w.is_contiguous() and x.numel() and w.numel():
        y = _run("fprop", name, x, w, bias, None, stride, padding, dilation, x.shape[1], own)
    return own(x, w, bias) if y is None else y


def backward(keys: Any, g: Tensor, x: Tensor, w: Tensor, *arguments: Any) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    """aten::convolution_backward."""
    if arguments[6] == 1:  # groups
        return _own_backward.call_boxed(keys, g, x, w, *arguments)  # type: ignore[no-any-return]
    return _backward(keys, g, x, w, *arguments)


def _backward(keys: Any, g: Tensor, x: Tensor, w: Tensor, bias_sizes: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
              transposed: bool, output_padding: Sequence[int], groups: int,
              mask: Sequence[bool]) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    def own(g: Tensor, x: Tensor, w: Tensor, mask: Sequence[bool]) -> Any:
        return _own_backward.call_boxed(keys, g, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)

    if transposed or groups != x.shape[1] or not _depthwise(x, w, stride, padding, dilation, output_padding, groups):
        return own(g, x, w, mask)  # type: ignore[no-any-return]
    signal = x.dim() == 3  # PyTorch gives them a height of 1

    def high(tensor: Tensor) -> Tensor:
        return tensor.unsqueeze(2) if signal else tensor

    def low(tensor: Tensor) -> Tensor:
        return tensor.squeeze(2) if signal else tensor

    g2, x2, w2 = high(g.contiguous()), high(x.contiguous()), high(w.contiguous())
    window = ([1, *stride], [0, *padding], [1, *dilation]) if signal else (stride, padding, dilation)
    dx = dw = None
    if mask[0]:
        dx = _run("dgrad", "convolution_backward", g2, w2, None, tuple(x2.shape), *window, groups,
                  lambda a, b, _: high(own(low(a), low(x2), low(b), [True, False, False])[0]))
    if mask[1]:
        dw = _run("wgrad", "convolution_backward", x2, g2, None, tuple(w2.shape), *window, groups,
                  lambda a, b, _: high(own(low(b), low(a), w, [False, True, False])[1]))
    if dx is None and dw is None:
        return own(g, x, w, mask)  # type: ignore[no-any-return]
    left = [mask[0] and dx is None, mask[1] and dw is None, False]
    own_dx, own_dw, _ = own(g, low(x2), w, left) if any(left) else (None, None, None)
    db = g.sum([0, *range(2, g.dim())]) if mask[2] else None  # as aten has it; by its entry x would be copied once more
    return own_dx if dx is None else low(dx), own_dw if dw is None else low(dw), db


def _depthwise(x: Tensor, w: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], output_padding: Sequence[int],
               groups: int) -> bool:
    """Whether PyTorch computes its gradients by kernels of its own."""
    key = (x.shape, x.stride(), w.shape, w.stride(), x.dtype, x.device, tuple(stride), tuple(padding), tuple(dilation), groups,
           torch.backends.cudnn.enabled)
    known = _is_own.get(key)
    if known is None:
        backend = torch._C._select_conv_backend(x, w, None, list(stride), list(padding), list(dilation), False, list(output_padding), groups)
        known = _is_own[key] = backend in _BACKENDS and x.numel() > 0 and w.numel() > 0
    return known


def start(library: Any, key: str = "CUDA") -> None:
    """At the first forward pass: until then a program's backward passes cost nothing more."""
    global _own_backward
    import warnings
    _own_backward = torch.library.get_kernel("aten::convolution_backward", key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced
        library.impl("convolution_backward", backward, key, with_keyset=True)
    atexit.register(write)
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_begin_anew)


def _begin_anew() -> None:
    """In a child: a record has what a process does itself."""
    _rows.clear()
    _lock.release()


# ---- the record ----

def rows() -> List[Row]:
    with _lock:
        return list(_rows.values())


def write() -> None:
    """What was seen so far, for `convoy exec --record`: a part of the record beside the interposer's."""
    global _written
    _written = time.monotonic()
    file = os.environ.get("CONVOY_RECORD")
    if not file or not _rows:
        return
    header = {"convoy_record": 1, "pid": os.getpid(), "program": " ".join(getattr(sys, "orig_argv", sys.argv)), "cudnn": torch.backends.cudnn.version() or 0,
              "torch": torch.__version__, "hook": True}
    try:
        part = pathlib.Path(f"{file}.{os.getpid()}.torch")
        part.write_text("".join(json.dumps(line) + "\n" for line in [header, *(row.line() for row in rows())]))
    except OSError:
        pass  # `convoy exec` has ended before its program's children
