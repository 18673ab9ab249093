"""What there is here: the library, a GPU, the interposer."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any, Dict, List, Optional

import torch

import convoy

_HOW = "start the program with `convoy exec --record r.jsonl -- python ...`"


@dataclasses.dataclass(frozen=True)
class Available:
    """True where convolutions can run at all; printed, it says what there is and why the rest is not."""

    library: str  # its version
    gpu: Optional[str]  # its name; None: none that both PyTorch and Convoy can use
    gpu_reason: str  # why there is none
    interposer: bool  # whether the process runs under `convoy exec`
    interposer_reason: str

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return "\n".join([f"library: {self.library}", f"GPU: {self.gpu or 'none: ' + self.gpu_reason}",
                          f"interposer: {'loaded' if self.interposer else 'not loaded: ' + self.interposer_reason}"])


def _gpu() -> "tuple[Optional[str], str]":
    if not torch.cuda.is_available():
        return None, "torch.cuda.is_available() is False"
    try:
        convoy.Problem("fprop:x=f32,1x1x1x1:w=f32,1x1x1x1").candidates(device=f"cuda:{torch.cuda.current_device()}")
    except convoy.ConvoyError as error:
        return None, str(error)
    return torch.cuda.get_device_name(), ""


def _interposer() -> "tuple[bool, str]":
    try:
        loaded = "libconvoy-interposer.so" in pathlib.Path("/proc/self/maps").read_text()
    except OSError as error:
        return False, str(error)
    return loaded, "" if loaded else _HOW


def available() -> Available:
    gpu, gpu_reason = _gpu()
    interposer, interposer_reason = _interposer()
    return Available(convoy.__version__, gpu, gpu_reason, interposer, interposer_reason)


def recorded() -> List[Dict[str, Any]]:
    """What PyTorch's own cuDNN calls in this process were, under `convoy exec --record`: the lines of docs/pytorch.md.

    The interposer renews them once a minute. Convolutions of convoy.torch are not among them: report() has those.
    """
    loaded, why = _interposer()
    if not loaded:
        raise RuntimeError(f"recorded: the interposer is not loaded; {why}")
    file = os.environ.get("CONVOY_RECORD")
    if not file:
        raise RuntimeError(f"recorded: this process is not recorded; {_HOW}")
    path = pathlib.Path(f"{file}.{os.getpid()}")
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
