"""docs/python.md, run as written: its Python in one process, in a folder that has a model.onnx; what it shows is printed.

(The commands of its chapter "Install" are run by wheel_test.)
"""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import warnings

import pytest
from conftest import ROOT

import convoy

PAGE = ROOT / "docs/python.md"


def blocks(text):
    """(words after the fence, the block, the number of its first line)."""
    for match in re.finditer(r"^```(.+?)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        yield match[1].split(), match[2], text.count("\n", 0, match.start(2)) + 1


def model_of(folder):
    """A trained network as a file."""
    trained = pathlib.Path(os.environ.get("CONVOY_DATA") or ROOT.parent / "shared/data") / "models/squeezenet1.1-7/model.onnx"
    if not trained.exists():
        pytest.skip("no data")
    (folder / "model.onnx").write_bytes(trained.read_bytes())


@pytest.mark.parametrize("model", ("model.onnx", "zoo:squeezenet1_1"))
def test_the_page_does_what_it_says(tmp_path, monkeypatch, model):
    """With a file, and with the network that it says needs none."""
    if not PAGE.exists():
        pytest.skip(f"no {PAGE}")
    if model == "model.onnx":
        model_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    names, printed, ran, skipped = {}, "", 0, []
    for words, block, line in blocks(PAGE.read_text()):
        if words[0] == "python":
            missing = [module for module in words[1:] if importlib.util.find_spec(module) is None]
            if missing:
                skipped.append(f"line {line}: no {', '.join(missing)}")
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out), warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                exec(compile("\n" * (line - 1) + block.replace("model.onnx", model), str(PAGE), "exec"), names)
            printed, ran = out.getvalue(), ran + 1
        elif words[0] == "output":
            pattern = re.escape(block.strip()).replace(re.escape("..."), ".*")
            assert re.search(pattern, printed), f"{PAGE.name}:{line}: printed was\n{printed}"
    assert ran >= 8
    if skipped:
        warnings.warn(f"skipped: {'; '.join(skipped)}", stacklevel=1)
    assert convoy.export_database() != ""  # the tests' own: conftest
