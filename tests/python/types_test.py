"""The module's types hold together, as mypy --strict reads them; those who import it see them (py.typed)."""
import subprocess
import sys

import pytest
from conftest import ROOT


def test_mypy_finds_nothing(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    if not (ROOT / "python/convoy").is_dir():
        pytest.skip(f"no {ROOT / 'python/convoy'}")
    (tmp_path / "user.py").write_text(
        "import convoy\n"
        "seconds: float = convoy.Problem('').candidates()[0].predicted_seconds\n"
        "name: str = convoy.Network('').inputs[0].name\n"
        "import numpy\n"
        "x = numpy.zeros(1)\n"
        "plan = convoy.Problem('').select()\n"
        "sizes: str = str(plan(x, x).shape)\n"
        "class Mine: ...\n"
        "mine: Mine = plan(x, x, out=Mine())\n"
        "alone: float | None = convoy.Network('').plan().steps[0].seconds\n"
        "reveal_type(plan(x, x))\nreveal_type(plan(Mine(), x))\n"
    )
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n[mypy-distributed.*,dask.*]\nfollow_imports = skip\n")
    files = sorted(map(str, (ROOT / "python/convoy").glob("*.py")))
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", *files, tmp_path / "user.py"],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    revealed = [line.partition("Revealed type is ")[2] for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == 2 and "numpy.ndarray" in revealed[0] and revealed[1] == '"Any"', done.stdout
