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
_OLDEST_ON_GPUS = (1, 24)  # that takes operators of theirs


def get_ep_name(device: str = "cpu") -> str:
    """The provider's name, as sessions are given it and as they list it: on the processor, or on a GPU ("cuda", "cuda:1")."""
    return "ConvoyExecutionProvider" if device == "cpu" else "ConvoyCUDAExecutionProvider"


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


def add_to(session_options: Any, *, device: str = "cpu", **options: Any) -> None:
    """Adds the provider, with these options, to an onnxruntime.SessionOptions: add_to(options, threads=2).

    Versions before 1.25 take the provider so, and not yet by name. `device` may be a GPU, "cuda" or "cuda:1".

    Raises what convoy.Network does where there is no such device.
    """
    register()
    given = {name: str(int(value) if isinstance(value, bool) else value) for name, value in options.items()}
    session_options.add_provider_for_devices(_devices(_runtime(), device), given)


def _runtime() -> Any:
    import onnxruntime  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if _version(onnxruntime) < _OLDEST:
        raise ImportError(f"Convoy needs onnxruntime 1.23.2 or newer, this is {onnxruntime.__version__}")
    return onnxruntime


def _version(runtime: Any) -> "tuple[int, ...]":
    return tuple(int(part) for part in re.findall(r"\d+", runtime.__version__)[:3])


def _devices(runtime: Any, device: str = "cpu") -> Any:
    named = [each for each in runtime.get_ep_devices() if each.ep_name == get_ep_name(device)]
    if device == "cpu":
        return named
    if _version(runtime) < _OLDEST_ON_GPUS:
        raise ImportError(f"Convoy needs onnxruntime 1.24 or newer for device={device!r}, this is {runtime.__version__}")
    _c.call(_c.library.convoy_load_device, device.encode())
    name = "cuda:0" if device == "cuda" else device
    return [each for each in named if each.ep_metadata.get("device") == name]
