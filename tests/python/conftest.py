"""What the tests of the Python module share. They run on the source with CONVOY_LIBRARY, and on an installed wheel without."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_folder = tempfile.TemporaryDirectory(prefix="convoy_python_test_")
os.environ["CONVOY_DB"] = str(pathlib.Path(_folder.name) / "tuning.db")  # never the person's own


def pytest_report_header(config):
    import convoy

    return f"convoy {convoy.__version__}: {convoy._c.library._name}"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def models():
    """The folder of trained models."""
    folder = pathlib.Path(os.environ.get("CONVOY_DATA") or ROOT.parent / "shared/data") / "models"
    if not folder.is_dir():
        pytest.skip("no data")
    return folder


def convolved(x, w, padding=0, stride=1):
    """fprop of NCHW arrays in double precision, by NumPy alone."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(np.float64))


def run_script(script, timeout=60):
    """A Python of its own that runs `script`; it must end by itself, with what it forked. What it printed, and its exit code."""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise AssertionError(f"it did not end within {timeout} s") from None
    return out, err, process.returncode
