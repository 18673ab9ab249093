"""PyTorch's own depthwise convolutions under `convoy exec`: how the hook gets in, and what it does with a kernel, on the processor."""
import ast
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import venv

import pytest

import convoy

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")

HOOK = pathlib.Path(convoy.__file__).absolute().parent / "_exec"
LIBRARY = pathlib.Path(convoy._c.library._name).absolute()
COMMAND = LIBRARY.parent.parent / "bin/convoy"
SHOWN = """
import sys, torch
print("convoy" in sys.modules, "aten/_conv_depthwise2d/CUDA" in torch.library._impls, any(path.endswith("_exec") for path in sys.path),
      getattr(sys.modules.get("sitecustomize"), "WHOSE", "none"), torch.cuda.is_initialized())
"""
# A depthwise kernel of the processor, under the entry that PyTorch has for GPUs.
ON_THE_PROCESSOR = """
import importlib.util, json, sys, torch
FACTOR, SECONDS = {factor}, {seconds}
given = torch.library.Library("aten", "IMPL")
def own(x, w, kernel, bias, stride, padding, dilation):
    return FACTOR * torch.ops.aten.convolution(x, w, bias, stride, padding, dilation, False, [0, 0], x.shape[1])
given.impl("_conv_depthwise2d", own, "CPU")
spec = importlib.util.spec_from_file_location("hooked", {file!r})
hooked = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooked)
import convoy.torch._hook as hook
start = hook.start
hook.start = lambda library: start(library, "CPU")
hooked.install(torch, "CPU")
hook._times = lambda functions: [function() is None or seconds for function, seconds in zip(functions, SECONDS)]
def rows(): return [(row.operation.split("::")[1], row.problem.split(":")[0], row.calls, row.substituted, row.candidate.split("{{")[0], row.reason) for row in hook.rows()]
torch.manual_seed(0)
x, w, b = torch.randn(2, 8, 9, 9), torch.randn(8, 1, 3, 3), torch.randn(8)
def forward(x=x): return torch.ops.aten._conv_depthwise2d(x, w, [3, 3], b, [1, 1], [1, 1], [1, 1])
"""


def python(folder, script, *flags, program=sys.executable, **environment):
    (folder / "seen").mkdir(exist_ok=True)
    given = {**os.environ, "PYTHONPATH": f"{HOOK}:{os.environ.get('PYTHONPATH', '')}", "CONVOY_PYTHON_HOOK": "steer", "CONVOY_SEEN": str(folder / "seen"),
             **environment}
    done = subprocess.run([program, *flags, "-c", script], env=given, capture_output=True, text=True, timeout=300)
    said = [line for file in (folder / "seen").iterdir() for line in file.read_text().splitlines()]
    return done.stdout.strip(), done.stderr.strip(), done.returncode, said


def on_the_processor(folder, script, factor=1, seconds=(2, 1), **environment):
    text = ON_THE_PROCESSOR.format(factor=factor, seconds=seconds, file=str(HOOK / "sitecustomize.py"))
    out, err, code, _ = python(folder, text + script, CONVOY_LIBRARY=str(LIBRARY), **environment)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


# ---- how it gets in ----

def test_torch_gets_the_hook_and_nothing_else_of_convoy(tmp_path):
    out, err, code, said = python(tmp_path, SHOWN, "-W", "error")
    assert (out, err, code) == (f"False {torch.version.cuda is not None} False none False", "", 0)
    assert said == ["hook\ton"]


@pytest.mark.parametrize("environment", [{"CONVOY_PYTHON_HOOK": ""}, {"CONVOY_EXEC": "off"}])
def test_without_the_variable_it_is_inert(tmp_path, environment):
    out, err, code, said = python(tmp_path, SHOWN, **environment)
    assert (out, err, code, said) == ("False False False none False", "", 0, [])


@pytest.mark.parametrize("text, says", [("WHOSE = 'mine'\n", ""), ("raise ValueError('of mine')\n", "of mine"), ("import no_such_module\n", "no_such_module")])
def test_the_next_sitecustomize_runs_as_without(tmp_path, text, says):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text(text)
    plain = python(tmp_path, SHOWN, PYTHONPATH=str(tmp_path / "mine"))
    hooked = python(tmp_path, SHOWN, PYTHONPATH=f"{HOOK}:{tmp_path / 'mine'}")
    assert hooked[2] == plain[2] == 0 and says in hooked[1] and says in plain[1]
    words = plain[0].split()
    assert hooked[0].split() == [words[0], str(torch.version.cuda is not None), *words[2:]]
    assert hooked[3] == ["hook\ton"]


@pytest.mark.parametrize("flag, hooked", [("-I", False), ("-E", False), ("-S", False), ("-B", True)])
def test_flags_that_keep_it_out(tmp_path, flag, hooked):
    """(-S has no site-packages either, so that torch is found by a path.)"""
    path = [p for p in sys.path if p]
    out, err, code, said = python(tmp_path, f"import sys; sys.path[:0] = {path!r}\n" + SHOWN, flag)
    assert code == 0, err
    assert said == (["hook\ton"] if hooked else [])


def test_a_package_that_fails_leaves_pytorchs_kernels(tmp_path):
    (tmp_path / "convoy").mkdir()
    (tmp_path / "convoy/__init__.py").write_text("")
    script = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import sitecustomize, torch
import importlib.util
given = torch.library.Library("aten", "IMPL")
given.impl("_conv_depthwise2d", lambda x, *_: x + 1, "CPU")
spec = importlib.util.spec_from_file_location("hooked", {str(HOOK / 'sitecustomize.py')!r})
hooked = importlib.util.module_from_spec(spec); spec.loader.exec_module(hooked); hooked.install(torch, "CPU")
for _ in range(2): print(float(torch.ops.aten._conv_depthwise2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1), [1, 1], None, [1, 1], [0, 0], [1, 1])))
"""
    out, err, code, said = python(tmp_path, script, PYTHONPATH=str(HOOK))
    assert (out.split(), code) == (["2.0", "2.0"], 0), err
    assert [line for line in said if "another package named convoy" in line] and len(said) == 3, said


CHANNELS_LAST = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("hooked", {file!r})
hooked = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooked)
hooked.lay_channels_last(torch, ["cpu"])
def made():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3), torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv2d(6, 4, 3)), torch.nn.Sequential(torch.nn.BatchNorm2d(4)))
plain, model, x = made(), made(), torch.randn(2, 4, 9, 9)
weights, last = list(model.parameters()), torch.channels_last
model.to("cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
y, wanted = model(x), plain(x)
y.square().mean().backward()
optimizer.step()
print(all(a is b for a, b in zip(weights, model.parameters())), y.is_contiguous(memory_format=last), wanted.is_contiguous(memory_format=last),
      torch.allclose(y, wanted, atol=1e-5), model[0].weight.grad.is_contiguous(memory_format=last),
      optimizer.state[model[0].weight]["momentum_buffer"].is_contiguous(memory_format=last))
layers = torch.nn.ModuleList([torch.nn.Conv3d(2, 4, 3), torch.nn.Conv1d(2, 4, 3), torch.nn.LazyConv2d(4, 3), torch.nn.Linear(3, 4)]).to("cpu")
print(layers[0].weight.is_contiguous(memory_format=torch.channels_last_3d), layers[1].weight.is_contiguous(), type(layers[2].weight).__name__, layers[3].weight.is_contiguous())
"""


def test_weights_lie_channels_last_where_a_model_is_moved(tmp_path):
    script = CHANNELS_LAST.format(file=str(HOOK / "sitecustomize.py"))
    out, err, code, said = python(tmp_path, script)
    assert code == 0, err
    assert out.splitlines() == ["True True False True True True", "True True UninitializedParameter True"], out
    assert "channels-last\t4" in said, said


def test_only_where_it_is_asked_for(tmp_path):
    shown = "import torch; print(torch.nn.Module._apply.__name__)"
    assert python(tmp_path, shown)[0] == "_apply"
    assert python(tmp_path, shown, CONVOY_PYTHON_HOOK="steer,channels-last")[0] == "apply_and_lay"


# ---- by the wheel's .pth ----

@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A Python that has the package, its .pth and PyTorch, as the wheel would put them; and where."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    site, = folder.glob("lib/python*/site-packages")
    (site / "convoy").symlink_to(HOOK.parent)
    for name in ("_convoy_exec.py", "convoy_exec.pth"):
        shutil.copy(HOOK.parent.parent / name, site)
    (site / "others.pth").write_text(str(pathlib.Path(torch.__file__).parent.parent) + "\n")
    return folder / "bin/python", site


@pytest.mark.parametrize("flag, folder_too, hooked", [("-B", False, True), ("-B", True, True), ("-I", True, True), ("-E", False, True), ("-S", True, False)])
def test_the_pth_brings_it_in_once(tmp_path, installed, flag, folder_too, hooked):
    program, site = installed
    script = f"import sys; sys.path[:0] = {[str(site), str(pathlib.Path(torch.__file__).parent.parent)]!r}\n" + SHOWN if flag == "-S" else SHOWN
    out, err, code, said = python(tmp_path, script, flag, program=program, PYTHONPATH=str(HOOK) if folder_too else "")
    assert (err, code) == ("", 0)
    assert out.split()[:3] == ["False", str(hooked and torch.version.cuda is not None), str(flag == "-S")] and out.endswith("none False")
    assert said == (["hook\ton"] if hooked else [])


STATE = "import sys; print(sorted(sys.modules), sys.meta_path, sys.path)"


@pytest.mark.parametrize("environment", [{"CONVOY_PYTHON_HOOK": ""}, {"CONVOY_PYTHON_HOOK": "", "CONVOY_SEEN": "/nowhere"}])
def test_without_the_variable_the_pth_changes_nothing_of_python(tmp_path, installed, environment):
    program, site = installed
    inert = python(tmp_path, STATE, program=program, PYTHONPATH="", **environment)
    os.rename(site / "convoy_exec.pth", site / "convoy_exec.away")
    try:
        assert python(tmp_path, STATE, program=program, PYTHONPATH="", **environment) == inert and inert[1:] == ("", 0, [])
    finally:
        os.rename(site / "convoy_exec.away", site / "convoy_exec.pth")
    assert python(tmp_path, STATE, program=program, PYTHONPATH="") != inert


@pytest.mark.parametrize("broken", ["no module", "no package", "another package", "unreadable"])
def test_the_pth_never_raises(tmp_path, broken):
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(HOOK.parent.parent / "convoy_exec.pth", site)
    if broken != "no module":
        shutil.copy(HOOK.parent.parent / "_convoy_exec.py", site)
    if broken in ("another package", "unreadable"):
        (site / "convoy/_exec").mkdir(parents=True)
        (site / "convoy/__init__.py").write_text("raise SystemExit(3)")
    if broken == "unreadable":
        (site / "convoy/_exec/sitecustomize.py").write_text("syntax error\n")
    assert python(tmp_path, f"import site; site.addsitedir({str(site)!r}); print('on')", PYTHONPATH="") == ("on", "", 0, [])


@pytest.mark.parametrize("program", sorted({os.path.realpath(found) for found in glob.glob("/usr/bin/python3*") + glob.glob("/usr/local/bin/python3.*")
                                            if "config" not in found}))
def test_the_pth_is_harmless_for_every_python_of_the_system(tmp_path, installed, program):
    _, site = installed
    script = f"import site, sys; site.addsitedir({str(site)!r}); import _convoy_exec; print([type(finder).__name__ for finder in sys.meta_path].count('Finder'))"
    out, err, code, said = python(tmp_path, script, program=program, PYTHONPATH="")
    assert (err, code, said) == ("", 0, []) and out in ("0", "1")
    assert python(tmp_path, script, program=program, PYTHONPATH="", CONVOY_PYTHON_HOOK="")[:3] == ("0", "", 0)


def test_older_pythons_can_read_what_the_pth_runs():
    for file in (HOOK / "sitecustomize.py", HOOK.parent.parent / "_convoy_exec.py", HOOK.parent.parent / "convoy_exec.pth"):
        ast.parse(file.read_text(), feature_version=(3, 8))
    assert len((HOOK.parent.parent / "convoy_exec.pth").read_text().splitlines()) == 1, "site runs a line at a time"


# ---- by exec ----

def exec_(folder, *arguments, python_flags=(), script="import torch", program=sys.executable, **environment):
    """A variable that is None isn't there."""
    given = {**os.environ, "CONVOY_DB": str(folder / "none.db"), **environment}
    done = subprocess.run([COMMAND, "exec", *arguments, "--", program, *python_flags, "-c", script], capture_output=True, text=True, timeout=300,
                          env={name: value for name, value in given.items() if value is not None})
    assert done.returncode == 0, done.stderr
    return done


needs_command = pytest.mark.skipif(not COMMAND.exists() or not LIBRARY.with_name("libconvoy-interposer.so").exists(), reason="no command beside the library")


@needs_command
def test_exec_puts_it_in_and_says_where_it_could_not(tmp_path):
    shown = "import os; print(os.environ.get('CONVOY_PYTHON_HOOK'))"
    without = "torch was imported without the hook"
    for arguments, mode in (((), "steer"), (("--record", str(tmp_path / "r.jsonl")), "record"), (("--no-db",), "no-db"), (("--channels-last",), "steer,channels-last"), (("--no-python-hook",), "None")):
        assert exec_(tmp_path, *arguments, script=shown).stdout.split() == [mode]
    library = "import os; print(os.environ.get('CONVOY_LIBRARY'))"
    assert pathlib.Path(exec_(tmp_path, script=library, CONVOY_LIBRARY=None).stdout.strip()).samefile(LIBRARY), "the hook needs it, and no wheel is there"
    assert exec_(tmp_path, script=library, CONVOY_LIBRARY="/theirs").stdout.split() == ["/theirs"]
    assert without not in exec_(tmp_path).stderr
    assert without in (said := exec_(tmp_path, python_flags=["-E"]).stderr) and "with -I or -E and has no Convoy installed" in said
    assert without not in exec_(tmp_path, "--no-python-hook", python_flags=["-E"]).stderr


@needs_command
def test_exec_finds_the_hook_of_an_installed_package(tmp_path, installed):
    program, site = installed
    path = f"import sys; sys.path[:0] = {[str(site), str(pathlib.Path(torch.__file__).parent.parent)]!r}; import torch"
    for flag, says in (("-I", False), ("-E", False), ("-B", False), ("-S", True)):
        assert ("torch was imported without the hook" in exec_(tmp_path, python_flags=[flag], script=path, program=program).stderr) == says, flag


@needs_command
def test_its_part_of_the_record_is_joined(tmp_path):
    record = tmp_path / "r.jsonl"
    script = ON_THE_PROCESSOR.format(factor=1, seconds=(2, 1), file=str(HOOK / "sitecustomize.py")) + "forward(); forward()"
    exec_(tmp_path, "--record", str(record), script=script)
    header, row = map(json.loads, record.read_text().splitlines())
    assert header["hook"] and row["operations"] == "aten::_conv_depthwise2d" and row["calls"] == 2
    assert f"2 {row['problem']}  # torch.depthwise" in record.with_suffix(".txt").read_text() and sorted(os.listdir(tmp_path)) == ["r.jsonl", "r.txt"]
    told = subprocess.run([COMMAND, "report", record], capture_output=True, text=True, env={**os.environ, "CONVOY_DB": str(tmp_path / "none.db")})
    assert told.returncode == 0 and "torch.depthwise" in told.stdout, told.stdout + told.stderr


# ---- what it does ----

PASSES = """
y = forward(); again = forward()
leaf, weight = x.clone().requires_grad_(), w.clone().requires_grad_()
import warnings; hook._BACKENDS = {{torch._C._select_conv_backend(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 8)}}
torch.nn.functional.conv2d(leaf, weight, b, padding=1, groups=8).backward(y)
line, taps = torch.randn(2, 8, 30).requires_grad_(), torch.randn(8, 1, 4).requires_grad_()
hook._BACKENDS.add(torch._C._select_conv_backend(line.detach(), taps.detach(), None, [1], [3], [1], False, [0], 8))
gradient = torch.randn(2, 8, 33)
torch.nn.functional.conv1d(line, taps, padding=3, groups=8).backward(gradient)
print(json.dumps(rows()))
plain = [torch.nn.functional.conv2d(x, w, b, padding=1, groups=8), torch.nn.grad.conv2d_input(x.shape, w, y, padding=1, groups=8),
         torch.nn.grad.conv2d_weight(x, w.shape, y, padding=1, groups=8), torch.nn.grad.conv1d_input(line.shape, taps, gradient, padding=3, groups=8),
         torch.nn.grad.conv1d_weight(line, taps.shape, gradient, padding=3, groups=8)]
print(json.dumps([float((a - b).abs().max()) for a, b in zip(plain, [again, leaf.grad, weight.grad, line.grad, taps.grad])]))
""".replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize("seconds, replaced", [((2, 1), True), ((1.01, 1), False), ((1, 2), False)])
def test_it_is_replaced_where_it_is_faster_by_more_than_two_percent(tmp_path, seconds, replaced):
    rows, differences = on_the_processor(tmp_path, PASSES, seconds=seconds)
    found = [(operation, name, calls) for operation, name, calls, *_ in rows[:5]]
    assert found == [("_conv_depthwise2d", "fprop", 2), ("convolution_backward", "dgrad", 1), ("convolution_backward", "wgrad", 1),
                     ("convolution_backward", "dgrad", 1), ("convolution_backward", "wgrad", 1)]
    for _, _, calls, substituted, candidate, reason in rows[:5]:
        assert candidate and (substituted, reason == "") == ((calls, True) if replaced else (0, False)), rows
    assert max(differences) < 1e-4, differences


AT_ONCE = """
import threading
inside, returned, registered, starts, seen = threading.Event(), threading.Event(), threading.Event(), [], []
def held(function):
    def hold(*arguments):
        inside.set()
        returned.wait(2)  # for the other thread, which should wait for this one
        return function(*arguments)
    return hold
on_cpu = hook.start
def once(library):
    starts.append(library)
    on_cpu(library)
    registered.set()
hook.start = once
if "{where}" == "load":
    hooked.load = held(hooked.load)
else:
    hook.start = held(once)
def second():
    inside.wait()
    forward()
    seen.append(registered.is_set())
    returned.set()
threads = [threading.Thread(target=forward), threading.Thread(target=second)]
for thread in threads: thread.start()
for thread in threads: thread.join()
leaf = x.clone().requires_grad_()
torch.nn.functional.conv2d(leaf, w, b, padding=1, groups=8).sum().backward()
print(json.dumps([len(starts), seen, leaf.grad is not None, rows()[0][2]]))
"""


@pytest.mark.parametrize("where", ["load", "start"])
def test_threads_whose_first_convolutions_meet_start_it_once(tmp_path, where):
    """A second start would find Convoy's own kernel of the backward pass in place of PyTorch's."""
    (starts, seen, differentiated, calls), = on_the_processor(tmp_path, AT_ONCE.replace("{where}", where))
    assert (starts, seen, differentiated, calls) == (1, [True], True, 2)


def test_a_result_that_differs_leaves_pytorchs(tmp_path):
    rows, same = on_the_processor(tmp_path, "y = forward(); print(json.dumps(rows())); print(json.dumps(bool((y == own(x, w, 0, b, [1, 1], [1, 1], [1, 1])).all())))",
                                  factor=1.001)
    assert rows[0][3] == 0 and rows[0][5] == "its result differs from that of PyTorch's kernel" and same


def test_numbers_that_are_not_finite_decide_nothing(tmp_path):
    script = "x[0, 0, 0, 0] = float('inf'); forward(); print(json.dumps(rows())); x[0, 0, 0, 0] = 0; forward(); print(json.dumps(rows()))"
    before, after = on_the_processor(tmp_path, script)
    assert before[0][3:] == [0, "", ""] and after[0][2:4] == [2, 1]


def test_where_it_only_records_nothing_is_replaced(tmp_path):
    rows, = on_the_processor(tmp_path, "forward(); print(json.dumps(rows()))", CONVOY_PYTHON_HOOK="record")
    assert rows[0][2:] == [1, 0, "", ""]


def test_what_is_wrong_is_said_by_pytorch(tmp_path):
    script = "try: forward(torch.randn(2, 7, 9, 9))\nexcept Exception as error: print(json.dumps([type(error).__name__, len(rows())]))"
    assert on_the_processor(tmp_path, script) == [["RuntimeError", 0]]


def test_a_fork_records_what_it_does_itself(tmp_path):
    """The child ends as a program does, with what is registered for that."""
    script = "import os; forward(); forward(); child = os.fork()\nif child == 0: forward()\nelse: os.waitpid(child, 0)"
    on_the_processor(tmp_path, script, CONVOY_RECORD=str(tmp_path / "r.jsonl"), OMP_NUM_THREADS="1")
    parts = [[json.loads(line) for line in part.read_text().splitlines()] for part in tmp_path.glob("r.jsonl.*.torch")]
    assert sorted(row["calls"] for _, row in parts) == [1, 2] and len({header["pid"] for header, _ in parts}) == 2


def test_rules_and_filters_of_exec_hold(tmp_path):
    choices = tmp_path / "choices.txt"
    choices.write_text("convoy-choices 2\nrule\tpass=fprop\treference\n")
    rows, = on_the_processor(tmp_path, "forward(); print(json.dumps(rows()))", seconds=(1, 2), CONVOY_CHOICES=str(choices))
    assert rows[0][3:5] == [1, "reference"], "a rule is the user's word: no time is asked"
    choices.write_text("convoy-choices 2\nfilter\tengines\tonednn.*\n")
    rows, = on_the_processor(tmp_path, "forward(); print(json.dumps(rows()))", seconds=(1, 2), CONVOY_CHOICES=str(choices))
    assert rows[0][3] == 0 and rows[0][4].startswith("onednn.")


# As Inductor writes it (2.11): a call with the operators that it is of in front of it.
GENERATED = """
        # Topologically Sorted Source Nodes: [conv2d], Original ATen: [aten.convolution]
        buf0 = extern_kernels.convolution(arg1_1, arg0_1, stride=(1, 1), padding=(1, 1), dilation=(1, 1), transposed=False, output_padding=(0, 0), groups=1, bias=None)
        # Topologically Sorted Source Nodes: [conv2d_1], Original ATen: [aten.convolution]
        extern_kernels.mm(reinterpret_tensor(buf0, (8192, 64), (64, 1), 0), reinterpret_tensor(arg2_1, (64, 64), (1, 64), 0), out=buf1)
        # Topologically Sorted Source Nodes: [conv2d_2], Original ATen: [aten.convolution]
        triton_tem_fused_convolution_3.run(buf1, arg3_1, buf2, 128, 1, 1, stream=stream0)
        # Topologically Sorted Source Nodes: [conv2d_2, relu], Original ATen: [aten.convolution, aten.relu]
        triton_poi_fused_convolution_relu_4.run(buf3, arg4_1, 524288, stream=stream0)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.mm]
        extern_kernels.mm(buf3, arg5_1, out=buf4)
"""


def test_what_inductor_made_of_convolutions_is_named(tmp_path):
    sample = tmp_path / "sample.py"
    sample.write_text(GENERATED)
    script = f"""
import torch, types
@torch.compile
def f(x): return torch.relu(torch.nn.functional.conv2d(x, torch.ones(2, 3, 3, 3, dtype=torch.float64)))
f(torch.ones(1, 3, 8, 8, dtype=torch.float64))
from torch._inductor.codecache import PyCodeCache
assert any("extern_kernels.convolution(" in open(module.__file__).read() for module in PyCodeCache.modules)
PyCodeCache.modules.append(types.SimpleNamespace(__file__={str(sample)!r}))
"""
    out, err, code, said = python(tmp_path, script, CONVOY_RECORD=str(tmp_path / "r.jsonl"), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    assert (code, said) == (0, ["hook\ton"]), (err, said)
    part, = tmp_path.glob("r.jsonl.*.torch")
    header, *rows = map(json.loads, part.read_text().splitlines())
    assert header["hook"] and [(row["operations"], row["calls"]) for row in rows] == [("extern_kernels.mm", 1), ("triton_tem_fused_convolution_3", 1)]


def test_sums_that_differ_by_rounding_agree():
    from convoy.torch._hook import agree
    a, b = torch.randn(64, 4096), torch.randn(64, 4096)
    mine, exact, magnitude = (a * b).sum(1), (a.double() * b.double()).sum(1), (a * b).abs().sum(1)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert agree(mine.to(dtype), exact.to(dtype), magnitude, 4096)
        wrong = exact.to(dtype)
        wrong[3] += 1e-2 * magnitude[3].to(dtype)
        assert not agree(mine.to(dtype), wrong, magnitude, 4096)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_that_were_added_in_16_bits_agree(dtype):
    """As PyTorch's 3D wgrad adds the sums of 256 threads."""
    from convoy.torch._hook import agree
    torch.manual_seed(4)
    products = (torch.randn(256, 4096).to(dtype).float() * torch.randn(256, 4096).to(dtype).float()).double()

    def halved(sums):
        sums = sums.to(dtype)
        while sums.shape[1] > 1:
            sums = sums[:, ::2] + sums[:, 1::2]
        return sums[:, 0]

    own, magnitude = (halved(each.reshape(256, 256, 16).sum(2)) for each in (products, products.abs()))
    mine = products.sum(1).to(dtype)
    assert agree(mine, own, magnitude, 4096, narrow=True) and not agree(mine, own, magnitude, 4096)
    assert not agree(mine.roll(1), own, magnitude, 4096, narrow=True)
