"""The hook of `convoy exec` on a GPU: PyTorch's own depthwise convolutions by other engines, in all their forms."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import convoy

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("skipped: no GPU", allow_module_level=True)

HOOK = pathlib.Path(convoy.__file__).absolute().parent / "_exec"
SCRIPT = """
import json, torch
from torch.nn import functional as F
torch.manual_seed(0)
torch.backends.cudnn.allow_tf32 = False
# A first call, after which the hook is there; what is timed is said to be faster by another engine.
F.conv2d(torch.randn(1, 4, 5, 5, device="cuda"), torch.randn(4, 1, 3, 3, device="cuda"), groups=4)
import convoy.torch._hook as hook
hook._times = lambda functions: [function() is None or 2 - at for at, function in enumerate(functions)]
found = []
FORMS = [(F.conv1d, (3, 8, 50), (8, 1, 4), dict(padding=3)), (F.conv1d, (2, 6, 64), (12, 1, 7), dict(padding=6, dilation=2)),
         (F.conv2d, (2, 8, 14, 14), (8, 1, 3, 3), dict(padding=1)), (F.conv2d, (2, 8, 15, 13), (16, 1, 5, 5), dict(padding=2, stride=2)),
         (F.conv3d, (1, 8, 6, 7, 8), (8, 1, 3, 3, 3), dict(padding=1))]
for dtype, allowed in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)):
    for function, x, w, arguments in FORMS:
        for biased in (False, True):
            values = [torch.randn(*x), torch.randn(*w), *([torch.randn(w[0])] if biased else [])]
            values = [each.to(dtype) for each in values]
            results = []
            for device, precision in (("cpu", torch.float64), ("cuda", dtype)):
                leaves = [each.to(device, precision).requires_grad_() for each in values]
                for _ in range(2):  # the second time what was decided runs
                    y = function(*leaves, groups=x[1], **arguments)
                    gradient = torch.linspace(-1, 1, y.numel()).to(dtype).to(device, precision).reshape(y.shape)
                    gradients = torch.autograd.grad(y, leaves, gradient)
                results.append([y, *gradients])
            errors = [float((a.cpu().double() - b).abs().max() / b.abs().max()) for b, a in zip(*results)]
            found.append([function.__name__, str(dtype), biased, max(errors) / allowed, errors])
rows = [(row.operation, row.problem, row.calls, row.substituted, row.candidate, row.reason) for row in hook.rows()]
model = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, device="cuda")
x = torch.randn(4, 8, 20, 20, device="cuda", requires_grad=True)
def step():
    model.zero_grad(); x.grad = None
    y = model(x); y.sum().backward()
    return y.detach().clone(), x.grad.clone(), model.weight.grad.clone(), model.bias.grad.clone()
eager = step(); eager = step()
side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side): step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): captured = step()
graph.replay(); torch.cuda.synchronize()
same = [bool((a == b).all()) for a, b in zip(eager, captured)]
def gradients(function):
    model.zero_grad(); x.grad = None
    function(x).square().sum().backward()
    return [x.grad.clone(), model.weight.grad.clone(), model.bias.grad.clone()]
def close(results, others, allowed): return [bool((a - b).abs().max() <= allowed * b.abs().max()) for a, b in zip(results, others)]
plain = gradients(lambda x: model(x).relu())
compiled = close(gradients(torch.compile(lambda x: model(x).relu())), plain, 1e-5)
def cast(x):
    with torch.autocast("cuda", torch.bfloat16): y = model(x)
    assert y.dtype == torch.bfloat16
    return y.float().relu()
gradients(cast)
before = sum(row.substituted for row in hook.rows())
autocast = close(gradients(cast), plain, 3e-2)
print(json.dumps({"found": found, "rows": rows, "captured": same, "compiled": compiled, "autocast": autocast,
                  "under_autocast": sum(row.substituted for row in hook.rows()) - before}))
"""


def test_every_form_by_another_engine(tmp_path):
    (tmp_path / "seen").mkdir()
    record, choices = tmp_path / "r.jsonl", tmp_path / "choices"
    # What is predicted to be the fastest of these small forms may be an engine of cuDNN's, which adds no bias and rounds otherwise.
    choices.write_text("convoy-choices 2\nfilter\tengines\tcuda.*\n")
    environment = {**os.environ, "PYTHONPATH": f"{HOOK}:{os.environ.get('PYTHONPATH', '')}", "CONVOY_PYTHON_HOOK": "steer", "CONVOY_SEEN": str(tmp_path / "seen"),
                   "CONVOY_RECORD": str(record), "CONVOY_CHOICES": str(choices), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    said = [line for file in (tmp_path / "seen").iterdir() for line in file.read_text().splitlines()]
    assert done.returncode == 0 and "hook\ton" in said, (said, done.stderr[-3000:])
    told = json.loads(done.stdout.splitlines()[-1])
    assert all(each[3] < 1 for each in told["found"]), [each for each in told["found"] if each[3] >= 1]
    assert told["captured"] == [True] * 4 and told["compiled"] == [True] * 3 and told["autocast"] == [True] * 3 and told["under_autocast"] == 3
    rows = told["rows"]
    assert {row[0] for row in rows} == {"aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::convolution_backward"}
    left = [row for row in rows if row[3] == 0]
    assert not left, left
    assert {row[4].split("{")[0] for row in rows} == {"cuda.depthwise"}
    part, = tmp_path.glob("r.jsonl.*.torch")
    assert len(part.read_text().splitlines()) > len(rows)
