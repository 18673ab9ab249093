"""PyTorch's convolutions by Convoy.

    import convoy.torch

    with convoy.torch.patch(model):
        loss = criterion(model(pictures), labels)
        loss.backward()
    print(convoy.torch.report())

docs/python-torch.md has the rest.
"""
from __future__ import annotations

from convoy.torch import _calls, _report
from convoy.torch._available import Available, available, recorded
from convoy.torch._calls import clear
from convoy.torch._functional import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from convoy.torch._patch import Patch, patch, unpatch
from convoy.torch._report import FellBack, Ran, Report
from convoy.torch._settings import algo, flags, rules


def report() -> Report:
    """What ran since the import or reset_report(), and what PyTorch computed instead, and why."""
    return _report._make(_calls.all_calls())


def reset_report() -> None:
    """Counts from 0 again."""
    _calls.forget_counts()
    _report.handed_over.clear()


__all__ = [
    "Available",
    "FellBack",
    "Patch",
    "Ran",
    "Report",
    "algo",
    "available",
    "clear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "flags",
    "patch",
    "recorded",
    "report",
    "reset_report",
    "rules",
    "unpatch",
]
