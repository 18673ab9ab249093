"""Convoy inside ONNX Runtime: an execution provider that takes over the nodes that Convoy runs.

    import onnxruntime, convoy.onnxruntime

    convoy.onnxruntime.register()
    session = onnxruntime.InferenceSession("model.onnx", providers=[convoy.onnxruntime.get_ep_name(), "CPUExecutionProvider"])

docs/onnxruntime.md has the provider's options, and what to expect.
"""

import os
import pathlib
import re
from typing import Any

from convoy import _c

__all__ = ["add_to", "get_ep_name", "get_library_path", "register"]

_OLDEST = (1, 23, 2)  # that takes execution providers as libraries, and gives them a part of a graph


def get_ep_name() -> str:
    """The provider's name, as sessions are given it and as they list it."""
    return "ConvoyExecutionProvider"


def get_library_path() -> str:
    """The provider's library, for programs that register it themselves.

    Raises FileNotFoundError where it is neither in the wheel nor beside the library that CONVOY_LIBRARY names.
    """
    name = "libconvoy-ort.so"
    named = os.environ.get("CONVOY_LIBRARY")
    folders = [_c.native_folder() / "lib"] + ([pathlib.Path(named).absolute().parent] if named else [])
    for folder in folders:
        if (folder / name).is_file():
            return str(folder / name)
    raise FileNotFoundError(f"{name} is in none of {', '.join(map(str, folders))}")


def register() -> None:
    """Makes the provider known to this process's ONNX Runtime. Calling it again does nothing.

    Raises ImportError where there is no onnxruntime, or one older than 1.23.2, and RuntimeError with its words where it
    can't load the library.
    """
    runtime = _runtime()
    if get_ep_name() in runtime.get_available_providers() or _devices(runtime):
        return
    try:
        runtime.register_execution_provider_library(get_ep_name(), get_library_path())
    except FileNotFoundError:
        raise
    except Exception as error:  # of onnxruntime's own classes
        raise RuntimeError(f"onnxruntime {runtime.__version__} can't load Convoy: {error}") from error


def add_to(session_options: Any, **options: Any) -> None:
    """Adds the provider, with these options, to an onnxruntime.SessionOptions: add_to(options, threads=2).

    Versions before 1.25 take the provider so, and not yet by name.
    """
    register()
    given = {name: str(int(value) if isinstance(value, bool) else value) for name, value in options.items()}
    session_options.add_provider_for_devices(_devices(_runtime()), given)


def _runtime() -> Any:
    import onnxruntime  # type: ignore[import-untyped,import-not-found,unused-ignore]

    version = tuple(int(part) for part in re.findall(r"\d+", onnxruntime.__version__)[:3])
    if version < _OLDEST:
        raise ImportError(f"Convoy needs onnxruntime 1.23.2 or newer, this is {onnxruntime.__version__}")
    return onnxruntime


def _devices(runtime: Any) -> Any:
    return [device for device in runtime.get_ep_devices() if device.ep_name == get_ep_name()]
