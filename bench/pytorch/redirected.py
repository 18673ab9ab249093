"""Calls of cuDNN by PyTorch, past the library that `convoy exec` put in front of it: plain calls in a process that is steered otherwise."""
import contextlib
import ctypes
import pathlib
import re
import subprocess

import torch

PAGE = 4096
WRITABLE = 1 | 2  # PROT_READ, PROT_WRITE


def base_of(library):
    return min(int(line.split("-")[0], 16) for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(library)))


def slots(library):
    """Address, name: where the loaded library keeps the addresses of cuDNN's functions that it calls."""
    base = base_of(library)
    relocations = subprocess.run(["readelf", "-rW", library], capture_output=True, text=True, check=True).stdout
    for offset, name in re.findall(r"^([0-9a-f]+)\s.*R_X86_64_(?:JUMP_SLO|GLOB_DAT)\w*\s+\S+\s+(cudnn\w+)", relocations, re.MULTILINE):
        yield base + int(offset, 16), name


def functions():
    """Address of cuDNN's own, by name. dlsym would answer with those in front of them."""
    library = next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/libcudnn.so.9" in line)
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", library], capture_output=True, text=True, check=True).stdout
    return {name: base_of(library) + int(value, 16) for value, name in re.findall(r"^\s*\d+:\s+([0-9a-f]+)\s.*\sFUNC\s.*\s(cudnn\w+)", symbols, re.MULTILINE) if int(value, 16)}


def address(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


class Redirected:
    """Of the functions that another library answers before cuDNN does."""

    def __init__(self):
        caller = pathlib.Path(torch.__file__).resolve().parent / "lib/libtorch_cuda.so"
        own, first = functions(), ctypes.CDLL(None)
        self.calls = []
        for slot, name in slots(caller):
            if name in own and hasattr(first, name) and address(first, name) != own[name]:
                ctypes.CDLL(None).mprotect(ctypes.c_void_p(slot & -PAGE), ctypes.c_size_t(PAGE), WRITABLE)
                self.calls.append((ctypes.c_uint64.from_address(slot), address(first, name), own[name]))
        if not self.calls:
            raise RuntimeError("nothing stands before cuDNN")

    @contextlib.contextmanager
    def to_cudnn(self):
        """Not beside a thread that calls cuDNN."""
        for slot, _, own in self.calls:
            slot.value = own
        try:
            yield
        finally:
            for slot, first, _ in self.calls:
                slot.value = first
