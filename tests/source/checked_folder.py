"""What a check of scripts/ says of a folder that a test makes."""

import pathlib
import subprocess
import tempfile


def check(program, files):
    """Its output for a folder with these files, texts by name, and whether it passes."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([program, folder], capture_output=True, text=True)
        return done.stdout, done.returncode == 0
