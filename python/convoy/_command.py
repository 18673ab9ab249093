"""The command `convoy` of a wheel: the program in it."""
from __future__ import annotations

import os
import sys

from convoy import _c


def main() -> None:
    program = _c.native_folder() / "bin" / "convoy"
    if not program.exists():
        sys.exit(f"convoy: {program} does not exist: the module is not of a wheel")
    os.execv(program, ["convoy", *sys.argv[1:]])
