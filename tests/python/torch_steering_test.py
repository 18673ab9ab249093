"""convoy.torch: patch, rules, flags, algo, report, threads, processes, compilation and training."""
import copy
import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import warnings

import pytest

# PyTorch and Convoy have threads of OpenMP each. On a machine that others use too, those that wait are not to spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
torch = pytest.importorskip("torch", reason="skipped: torch is not installed")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import convoy  # noqa: E402
import convoy.torch as ct  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    ct.reset_report()
    yield
    ct.unpatch()
    assert F.conv2d is torch.conv2d and ct._settings.current() == "" and ct._settings._shared == ""


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 2, stride=2),
                         nn.Sequential(nn.Conv2d(4, 4, 3, groups=4, padding="same", padding_mode="reflect")))


def packed():
    """How many parameters are packed for plans."""
    return sum(len(call._packed) for call in ct._calls.all_calls())


X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def ran(**fields):
    return [row for row in ct.report().ran if all(getattr(row, name) == value for name, value in fields.items())]


# ---- packed weights ----

def test_weights_are_packed_once_where_nobody_differentiates():
    ct.clear()
    model = small().eval()
    expected = model(X).detach()
    with ct.patch(model):
        model(X).sum().backward()
        assert packed() == 0
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
        assert packed() == 3
        plans = [entry.plan for call in ct._calls.all_calls() for entry in call._packed.values()]
        with torch.no_grad():
            model(X)
        assert plans == [entry.plan for call in ct._calls.all_calls() for entry in call._packed.values()] and None not in plans


@pytest.mark.parametrize("change", (
    lambda weight: weight.mul_(-2),  # as optimizers do
    lambda weight: weight.data.mul_(-2),  # which no version counts
    lambda weight: setattr(weight, "data", weight.data * -2),  # other memory
    lambda weight: weight.copy_(weight * -2),
))
def test_changed_weights_are_packed_again(change):
    layer = nn.Conv2d(16, 16, 3, padding=1, bias=False)
    x = torch.randn(1, 16, 12, 12)
    with ct.patch(layer), torch.no_grad():
        before = layer(x)
        change(layer.weight)
        torch.testing.assert_close(layer(x), before * -2, rtol=1e-4, atol=1e-4)
        layer.load_state_dict({"weight": layer.weight * -0.5})
        torch.testing.assert_close(layer(x), before, rtol=1e-4, atol=1e-4)


def test_packed_weights_go_with_their_parameter():
    ct.clear()
    x = torch.randn(1, 16, 12, 12)
    with torch.no_grad(), ct.patch():
        weights = [nn.Parameter(torch.randn(16, 16, 3, 3)) for _ in range(4)]
        results = [F.conv2d(x, weight) for weight in weights]
        assert packed() == 4  # of one size, so of one call
        for weight, result in zip(weights, results):
            torch.testing.assert_close(F.conv2d(x, weight), result)
        del weight
        weights.clear()
        assert packed() == 0
        F.conv2d(x, torch.randn(16, 16, 3, 3))  # no parameter: who knows for how long it is there
        assert packed() == 0
    ct.clear()


# ---- patch ----

def test_patch_of_a_model():
    model = small()
    names, text, expected = [type(m) for m in model.modules()], repr(model), model(X)
    with ct.patch(model) as patch:
        torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
        assert isinstance(model[0], nn.Conv2d) and repr(model) == text
        assert "3 modules of Sequential" in repr(patch)
        assert {row.module for row in ct.report().ran} == {"0", "2", "3.0"}
        F.conv2d(X, model[0].weight)
        assert sum(row.calls for row in ct.report().ran) == 3
    assert [type(m) for m in model.modules()] == names
    assert not any(hasattr(module, "_convoy_module") for module in model.modules())
    model(X)
    assert sum(row.calls for row in ct.report().ran) == 3


def test_patch_of_everything():
    model = small()
    with ct.patch():
        model(X)
        F.conv1d(X[0], torch.randn(2, 8, 3))
    assert sum(row.calls for row in ct.report().ran) == 4
    assert {row.module for row in ct.report().ran} == {""}
    assert F.conv2d is torch.conv2d


def test_patches_nest():
    model = small()
    with ct.patch(), ct.patch(), ct.patch(model):
        with ct.patch(model), ct.patch():
            pass
        assert F.conv2d is ct.conv2d
        model(X)
    assert F.conv2d is torch.conv2d and type(model[0]) is nn.Conv2d
    assert ran(module="0")
    handle = ct.patch()
    ct.patch()
    ct.unpatch()
    assert F.conv2d is torch.conv2d
    handle.undo()  # again
    ct.patch(model)
    ct.patch(model)
    ct.unpatch(model)
    assert type(model[0]) is nn.Conv2d


def test_an_exception_undoes_a_patch():
    with pytest.raises(ZeroDivisionError), ct.patch(), ct.rules("* -> reference"):
        1 / 0
    assert F.conv2d is torch.conv2d


def test_somebody_elses_patch_stays():
    def mine(*arguments):
        return torch.conv2d(*arguments)

    ct.patch()
    F.conv2d = mine
    ct.unpatch()
    try:
        assert F.conv2d is mine
    finally:
        F.conv2d = torch.conv2d


def test_what_is_not_a_model():
    with pytest.raises(TypeError, match="model is of type int"):
        ct.patch(3)


def test_copies_and_files():
    model = small()
    expected = model(X)
    ct.patch(model)
    twin = copy.deepcopy(model)
    assert type(twin[0]) is type(model[0]) and twin[0].weight is not model[0].weight
    ct.reset_report()
    torch.testing.assert_close(twin(X), expected, rtol=1e-4, atol=1e-4)
    assert ran(module="3.0")
    restored = pickle.loads(pickle.dumps(model))
    assert [type(m) for m in restored.modules()] == [type(m) for m in small().modules()]
    torch.testing.assert_close(restored(X), expected)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(X), expected)
    assert model.state_dict().keys() == small().state_dict().keys()


def test_classes_with_a_forward_of_their_own():
    class Padded(nn.Conv2d):
        def forward(self, x):
            return F.conv2d(F.pad(x, [1, 1, 1, 1]), self.weight, self.bias)

    model = nn.Sequential(Padded(3, 4, 3), nn.LazyConv2d(2, 1))
    with pytest.warns(UserWarning, match=r"0 \(Padded\), 1 \(LazyConv2d\) stay as they are"), ct.patch(model):
        assert type(model[0]) is Padded
    with ct.patch():
        model[0](X)
    assert ran()


def test_parametrized_modules():
    model = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3))
    expected = model(X)
    with ct.patch(model):
        torch.testing.assert_close(model(X), expected, rtol=1e-4, atol=1e-4)
    assert ran(name="fprop")


# ---- rules, flags, algo ----

def test_rules_by_module_name():
    """Forward and backward; the backward pass runs when the rules are no longer in force."""
    model = small()
    ct.patch(model)
    with ct.rules({"0": {"fprop": "onednn.gemm", "wgrad": "reference"}, "3.*": "reference", "2": "pass=dgrad -> reference"}):
        loss = model(X).square().sum()
    loss.backward()
    engines = {(row.module, row.name): row.candidate.split("{")[0] for row in ct.report().ran}
    assert engines[("0", "fprop")] == "onednn.gemm" and engines[("0", "wgrad")] == "reference"
    assert {engines[("3.0", name)] for name in ("fprop", "dgrad", "wgrad")} == {"reference"}
    assert engines[("2", "dgrad")] == "reference"  # a transposed convolution's forward pass
    assert engines[("2", "fprop")] != "reference" and engines[("2", "wgrad")] != "reference"
    assert all(row.reason.startswith("rule") for row in ran(module="3.0"))


def test_rules_of_text_and_files(tmp_path):
    file = tmp_path / "some.rules"
    file.write_text("# all\npass=fprop filter=3x3 -> onednn.gemm\n")
    w = torch.randn(4, 3, 3, 3)
    for given in (file.read_text(), file, str(file)):
        ct.reset_report()
        with ct.rules(given):
            ct.conv2d(X, w)
        (row,) = ct.report().ran
        assert row.candidate.startswith("onednn.gemm") and "filter=3x3" in row.reason


def test_the_inner_rule_comes_first():
    with ct.rules("* -> reference"), ct.rules("pass=fprop -> onednn.gemm"), ct.flags(deterministic=True):
        x = X.clone().requires_grad_()
        ct.conv2d(x, torch.randn(4, 3, 3, 3)).square().sum().backward()
    assert {row.name: row.candidate.split("{")[0] for row in ct.report().ran} == {"fprop": "onednn.gemm", "dgrad": "reference"}


def test_rules_that_are_wrong(tmp_path):
    for given, kind, message in (("* -> cpu.nope", convoy.NotFound, "cpu.nope"), ({"0": "cpu.nope"}, convoy.NotFound, "cpu.nope"),
                                 ({"0": {"forward": "cpu.gemm"}}, convoy.InvalidArgument, "'forward' is not one of fprop, dgrad, wgrad"),
                                 ({"0": 3}, convoy.WrongType, "0 is of type int"), (3, convoy.WrongType, "rules is of type int"),
                                 ("x -> ", convoy.InvalidArgument, "line 1"), (tmp_path / "none", FileNotFoundError, "none")):
        with pytest.raises(kind, match=message), ct.rules(given):
            pass


def test_a_rule_that_can_not_be_obeyed():
    w = torch.randn(4, 3, 3, 3)
    with ct.rules("* -> cpu.depthwise"), pytest.raises(convoy.Unsupported, match="cpu.depthwise can't run.*groups=1"):
        ct.conv2d(X, w)
    with ct.rules("* -> cpu.depthwise", strict=False), pytest.warns(UserWarning, match="cpu.depthwise can't run.*groups=1.* runs"):
        ct.conv2d(X, w)
    row, = ran(name="fprop")
    assert row.candidate != "cpu.depthwise" and "cpu.depthwise can't run" in row.passed_over
    assert row.passed_over in str(ct.report()).partition("passed over:")[2]
    ct.reset_report()
    with ct.rules({"*": "cpu.depthwise"}, strict=False), pytest.warns(UserWarning, match="rules: [02]: .*cpu.depthwise can't run"):
        ct.patch(model := small())
        model(X)
    assert all(bool(row.passed_over) == row.module.startswith(("0", "2")) for row in ct.report().ran)


def test_a_name_that_no_module_has():
    model = small()
    ct.patch(model)
    with pytest.warns(UserWarning, match="'head.*'"), ct.rules({"head.*": "reference", "0": "reference"}):
        model(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):  # choices are kept, so names are not looked at again
            with ct.rules({"0": "reference"}):
                model(X)
    with pytest.warns(UserWarning, match="'0'"), ct.rules({"0": "reference"}):
        model[1](X)


def test_an_engine_that_fails(monkeypatch):
    """PyTorch computes it, and the problem is left alone from then on; what was named is an error."""
    tried = []

    def fail(self, *arguments):
        tried.append(self.candidate)
        raise convoy.DeviceFailed("it fell over")

    ct.clear()
    w = torch.randn(4, 3, 3, 3)
    monkeypatch.setattr(convoy.Plan, "execute", fail)
    for _ in range(3):
        torch.testing.assert_close(ct.conv2d(X, w), F.conv2d(X, w))
    (row,) = ct.report().fell_back
    assert len(tried) == 1 and row.calls == 3 and row.reason == f"{tried[0]} failed: it fell over"
    with ct.rules("* -> onednn.gemm"), pytest.raises(convoy.DeviceFailed):
        ct.conv2d(X, w)
    ct.clear()


def test_algorithms_by_number():
    """cuDNN's need a GPU: that it is asked for is seen here."""
    with ct.algo(fprop=1, wgrad=0), pytest.raises(convoy.Unsupported, match="cudnn.legacy.fprop1 can't run"):
        ct.conv2d(X, torch.randn(4, 3, 3, 3))
    with pytest.raises(convoy.NotFound, match="cudnn.legacy.dgrad77"), ct.algo(dgrad=77):
        pass
    with pytest.raises(convoy.InvalidArgument, match="none of"), ct.algo():
        pass
    with pytest.raises(convoy.WrongType, match="fprop is of type str"), ct.algo(fprop="1"):
        pass


def test_flags():
    w = torch.randn(4, 3, 3, 3)
    with ct.flags(workspace=0), pytest.raises(convoy.Unsupported, match="workspace_limit=0"):
        ct.conv2d(X, w)
    with ct.flags(engines="onednn.*"), ct.flags(deterministic=True):
        ct.conv2d(X, w)
    assert ct.report().ran[0].candidate.startswith("onednn.")
    for keywords, kind in (({"workspace": -1}, convoy.InvalidArgument), ({"workspace": "1"}, convoy.WrongType), ({"engines": 3}, convoy.WrongType)):
        with pytest.raises(kind), ct.flags(**keywords):
            pass


@pytest.mark.parametrize("how", ["cudnn", "algorithms", "flags", "flags, false"])
def test_deterministic(how, monkeypatch):
    """PyTorch's flags, and this module's, reach the selection."""
    asked = []
    select = convoy.Problem.select
    monkeypatch.setattr(convoy.Problem, "select", lambda self, **k: asked.append(k["deterministic"]) or select(self, **k))
    ct.clear()
    w = torch.randn(4, 3, 3, 3)
    try:
        if how in ("cudnn", "flags, false"):
            torch.backends.cudnn.deterministic = True
        if how == "algorithms":
            torch.use_deterministic_algorithms(True)
        if how.startswith("flags"):
            with ct.flags(deterministic=how == "flags"):
                ct.conv2d(X, w)
        else:
            ct.conv2d(X, w)
    finally:
        torch.backends.cudnn.deterministic = False
        torch.use_deterministic_algorithms(False)
    ct.conv2d(X, w)
    assert asked == ([False] if how == "flags, false" else [True, False])  # the same plan is not asked for again


# ---- report, available ----

def test_report():
    assert str(ct.report()) == "no convolution ran"
    model = small()
    with ct.patch(model):
        for _ in range(3):
            model(X)
    ct.conv2d(X.to(torch.complex64), torch.randn(4, 3, 3, 3).to(torch.complex64))
    report = ct.report()
    assert all(row.calls == 3 for row in report.ran) and len(report.ran) == 3
    data = json.loads(report.json())
    assert data == report.data() and data["fell_back"][0]["reason"] == "a tensor is of torch.complex64"
    text = str(report)
    assert "3.0" in text and "computed by PyTorch:" in text and "torch.complex64" in text
    listed = dict(reversed(line.split(" ")) for line in report.problems().splitlines())
    assert listed == {row.problem: "3" for row in report.ran}
    assert all(convoy.Problem(problem).text == problem for problem in listed)


def test_available():
    here = ct.available()
    assert here and here.library == convoy.__version__
    assert (here.gpu is None) == bool(here.gpu_reason)
    assert here.interposer or "convoy exec" in here.interposer_reason
    assert convoy.__version__ in str(here)


def test_what_needs_the_interposer():
    if ct.available().interposer:
        pytest.skip("skipped: the interposer is loaded")
    with pytest.raises(RuntimeError, match="convoy exec --record"):
        ct.recorded()


# ---- threads and processes ----

def test_threads():
    """Each thread has its own rules, and the backward pass those of its forward pass."""
    w = torch.randn(4, 3, 3, 3)
    expected = F.conv2d(X, w)
    wrong = []

    def work(engine):
        for _ in range(20):
            x = X.clone().requires_grad_()
            with ct.rules(f"* -> {engine}"):
                y = ct.conv2d(x, w)
            y.backward(y)
            if not torch.allclose(y, expected, atol=1e-4):
                wrong.append(engine)

    threads = [threading.Thread(target=work, args=(engine,)) for engine in ("reference", "onednn.gemm", "reference", "onednn.gemm")]
    [thread.start() for thread in threads]
    [thread.join(300) for thread in threads]
    assert not wrong
    calls = {}
    for row in ct.report().ran:
        key = row.name, row.candidate.split("{")[0]
        calls[key] = calls.get(key, 0) + row.calls
    assert calls == {(name, engine): 40 for name in ("fprop", "dgrad") for engine in ("reference", "onednn.gemm")}


class Convolved(torch.utils.data.Dataset):
    weight = torch.ones(1, 3, 3, 3)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return ct.conv2d(torch.full((1, 3, 5, 5), float(index)), self.weight)[0]


def test_workers_that_are_forked():
    ct.conv2d(X, Convolved.weight)  # plans, and threads, of the parent's
    loader = torch.utils.data.DataLoader(Convolved(), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=120)
    values = [float(value) for batch in loader for value in batch[:, 0, 0, 0]]
    assert values == [0.0, 27.0, 54.0, 81.0]


def test_a_process_that_is_forked():
    """With the number of threads that the parent had. In a process of its own, since OpenMP's threads are PyTorch's, too."""
    program = """
import os, torch, convoy.torch as ct
torch.set_num_threads(2)
x, w = torch.ones(1, 3, 16, 16), torch.ones(4, 3, 3, 3)
ct.conv2d(x, w)
child = os.fork()
if not child:
    os._exit(0 if float(ct.conv2d(x, w)[0, 0, 0, 0]) == 27 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n", done.stderr


def test_the_end_of_a_process():
    """Plans, rules and a patch in force, and a thread that never ends. (In a call it would end the process: PyTorch's own do.)"""
    program = """
import threading, torch, convoy.torch as ct
x, w = torch.ones(1, 3, 16, 16), torch.ones(4, 3, 3, 3)
ct.patch()
scope = ct.rules("* -> onednn.gemm")
scope.__enter__()
ran = threading.Event()
def forever():
    with ct.rules("* -> reference"):
        torch.nn.functional.conv2d(x, w)
        ran.set()
        threading.Event().wait()
threading.Thread(target=forever, daemon=True).start()
for _ in range(50):
    torch.nn.functional.conv2d(x, w)
ran.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr


# ---- compilation, training ----

def test_compiled():
    """One graph, the same results and gradients, and rules that change are seen."""
    model = small()
    x = X.clone().requires_grad_()
    model(x).square().sum().backward()
    expected = [x.grad] + [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    ct.patch(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for rules in (None, "* -> reference", None):
        ct.reset_report()
        x = X.clone().requires_grad_()
        model.zero_grad()
        if rules is None:
            y = compiled(x)
        else:
            with ct.rules(rules):
                y = compiled(x)
        y.square().sum().backward()
        for mine, theirs in zip([x.grad] + [p.grad for p in model.parameters()], expected):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
        assert {(row.module, row.name) for row in ct.report().ran} == {(m, p) for m in ("0", "2", "3.0") for p in ("fprop", "dgrad", "wgrad")}
        assert ({row.candidate for row in ct.report().ran} == {"reference"}) == (rules is not None)
        assert not ct.report().fell_back, str(ct.report())


def test_compiled_with_sizes_that_vary():
    w = torch.randn(4, 3, 3, 3, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: ct.conv2d(x, w, padding="same").relu(), backend="aot_eager", dynamic=True, fullgraph=True)
    for size in (6, 7, 9):
        x = torch.randn(2, 3, size, size + 1)
        y = compiled(x)
        torch.testing.assert_close(y, F.conv2d(x, w, padding="same").relu(), rtol=1e-4, atol=1e-4)
        y.sum().backward()


def losses(model, steps, shape, seed=3, compiled=False):
    torch.manual_seed(seed)
    model.train()
    # Small steps: at 0.01 a network of batch norms is so unsteady that PyTorch without oneDNN differs by 6% after ten.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    run = torch.compile(model, backend="aot_eager") if compiled else model
    pictures, target = torch.randn(shape), torch.randint(10, (shape[0],))
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(pictures), target)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


@pytest.mark.parametrize("network,how", [("resnet18", "model"), ("resnet18", "everywhere"), ("resnet18", "compiled"), ("convnext", "model"),
                                         ("convnext, channels_last", "model")])
def test_training(network, how):
    torchvision = pytest.importorskip("torchvision", reason="skipped: torchvision is not installed")

    def made():
        torch.manual_seed(2)
        if network == "resnet18":
            return torchvision.models.resnet18(num_classes=10)
        setting = torchvision.models.convnext.CNBlockConfig
        model = torchvision.models.convnext.ConvNeXt([setting(16, 32, 1), setting(32, 64, 2), setting(64, None, 1)], num_classes=10)
        return model.to(memory_format=torch.channels_last) if "channels_last" in network else model

    steps, shape = 10, (8, 3, 64, 64)
    plain = losses(made(), steps, shape)
    model = made()
    torch._dynamo.reset()
    with ct.patch(None if how == "everywhere" else model):
        mine = losses(model, steps, shape, compiled=how == "compiled")
    assert mine == pytest.approx(plain, rel=5e-3)
    assert not ct.report().fell_back, str(ct.report())
    convolutions = sum(isinstance(m, nn.Conv2d) for m in model.modules())
    assert sum(row.calls for row in ran(name="fprop")) == steps * convolutions
    assert sum(row.calls for row in ran(name="wgrad")) == steps * convolutions
    if how != "everywhere":
        assert len({row.module for row in ct.report().ran}) == convolutions


# ---- the docs ----

def snippets():
    page = pathlib.Path(os.environ.get("CONVOY_SOURCE", pathlib.Path(__file__).resolve().parents[2])) / "docs" / "python-torch.md"
    if not page.exists():
        return []
    return [part.split("```")[0] for part in page.read_text().split("```python\n")[1:]]


def test_the_page_in_docs(tmp_path, monkeypatch, capsys):
    """The snippets run in order, as one program; those with a GPU in them need one."""
    pytest.importorskip("torchvision", reason="skipped: torchvision is not installed")
    found = snippets()
    if not found:
        pytest.skip("skipped: docs/python-torch.md is not here; CONVOY_SOURCE names the folder of the sources")
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, snippet in enumerate(found):
        if "cuda" in snippet and not torch.cuda.is_available():
            continue
        exec(compile(snippet, f"docs/python-torch.md, snippet {number + 1}", "exec"), names)
    assert "calls" in capsys.readouterr().out
