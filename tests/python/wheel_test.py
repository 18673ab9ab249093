"""The wheel as people get it: built, and installed into an empty virtual environment, where nothing of the source or the build is
found. First with NumPy only: the command, the module, the example of docs/python.md. Then its tests, with pytest.

Skipped without a network, since NumPy comes from PyPI. CONVOY_TEST_FULL=1 installs it for every Python that is on the PATH.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHONS = [f"python3.{minor}" for minor in range(9, 15)]
# What the environment of the one who tests has, and nobody else.
OURS = ("CONVOY", "PYTHON", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
NO_NETWORK = re.compile("connection|resolve|retries|timed out|network", re.IGNORECASE)
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build():
    """The wheel, as `make wheel` makes it from a finished build."""
    if pathlib.Path(os.environ["CONVOY_BUILD"]).resolve() != ROOT / "build":
        skip(f"{os.environ['CONVOY_BUILD']} is not the build folder that wheels are made of")
    missing = [tool for tool in ("patchelf", "strip") if shutil.which(tool) is None]
    if missing:
        skip(f"no {', '.join(missing)} (scripts/setup wheel installs it)")
    print(run(ROOT / "scripts/wheel").strip())
    (wheel,) = (ROOT / "build/wheel").glob("*.whl")
    return wheel


def check_contents(wheel):
    """Everything is in it, and nothing names a folder of the one who built it."""
    assert re.fullmatch(r"convoy_dnn-[\d.]+-py3-none-manylinux_\d+_\d+_x86_64\.whl", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for part in ("convoy_exec.pth", "_convoy_exec.py", "convoy/_exec/sitecustomize.py", "convoy/py.typed", "convoy/_native/bin/convoy", "convoy/_native/lib/libconvoy-interposer.so",
                     "convoy/_native/lib/libconvoy-ort.so",
                     "convoy/_native/share/convoy/problems/resnet50.txt"):
            assert part in names, f"{part} is not in {wheel.name}"
        licences = {pathlib.Path(name).stem for name in names if "/share/convoy/licenses/" in name}
        assert {"convoy", "oneDNN", "oneDNN-third-party", "gcc", "fmt", "protobuf", "sqlite", "zlib", "onnx"} <= licences, licences
        assert not [name for name in names if "__pycache__" in name or name.endswith((".h", ".cc"))]
        for name in names:
            assert str(ROOT).encode() not in archive.read(name), f"{name} has the name of the folder it was built in"


def check_debug_files(wheel, work):
    """The names that the wheel's own files are stripped of come back by their build ids."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "unpacked")
    native = work / "unpacked/convoy/_native"
    for file in (native / "bin/convoy", *native.glob("lib/libconvoy*.so*")):
        build_id = re.search(r"Build ID: (\w+)", run("readelf", "-n", file))[1]
        kept = ROOT / "build/wheel-debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        listed = f"{build_id} {file.name.split('.')[0]}"  # the name as it was installed may end in more of the version
        assert any(line.startswith(listed) for line in (ROOT / "build/wheel-debug/files").read_text().splitlines()), file.name
        assert not [line for line in run("nm", file).splitlines() if "convoy" in line], f"{file.name} is not stripped"
        inside = next(line.split() for line in run("nm", kept).splitlines() if re.search(r" t \w*convoy", line))
        assert run("addr2line", "-f", "-e", kept, f"0x{inside[0]}").splitlines()[0] == inside[2]
    print(f"{wheel.name}: debug files by build id")


def environment_of(folder, home):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    kept |= {"HOME": str(home), "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    data = os.environ.get("CONVOY_DATA") or str(ROOT.parent / "shared/data")
    return {**kept, "CONVOY_DATA": data}


def install(environment, *what):
    done = subprocess.run(["pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", *map(str, what)],
                          capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        if NO_NETWORK.search(done.stderr):
            skip("no network")
        sys.exit(f"FAILED: pip install {what}\n{done.stderr}")


# How often the hook of `convoy exec` waits for PyTorch, and whether anything else of Convoy came with it.
HOOKS = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('Finder'), 'convoy' in sys.modules)"


def check_with_numpy_only(python, wheel, work):
    folder = work / f"venv-{pathlib.Path(python).name}"
    run(python, "-m", "venv", folder)
    environment = environment_of(folder, work)
    install(environment, wheel)
    here = {"env": environment, "cwd": work}
    packages = {line.split("==")[0] for line in run("pip", "list", "--format", "freeze", "--disable-pip-version-check", **here).splitlines()}
    assert packages - {"pip", "setuptools"} == {"convoy-dnn", "numpy"}, packages
    version = run("convoy", "--version", **here).strip()
    assert "problems/resnet50.txt" in run("convoy", "list", "problems", **here)
    run("convoy", "exec", "--", "true", **here)  # which needs the interposer
    for flag, hooks in (("-B", 1), ("-E", 1), ("-I", 1), ("-S", 0)):
        assert run("convoy", "exec", "--", "python", flag, "-c", HOOKS, **here) == f"{hooks} False\n", flag
    assert run("python", "-c", HOOKS, **here) == "0 False\n"
    program = EXAMPLE.search((ROOT / "docs/python.md").read_text())[1] + "print(convoy.__version__, convoy._c.library._name)\n"
    printed = run("python", "-W", "error", "-c", program, **here)
    assert str(folder) in printed and version.split()[-1] in printed, printed
    # With names of their own, the libraries of others in the process are not ours, nor ours theirs.
    mapped = run("python", "-c", "import convoy; print(open('/proc/self/maps').read())", **here)
    assert str(folder / "lib") in mapped and str(ROOT / "build") not in mapped.replace(str(ROOT / "build/venv"), "")
    print(f"{python}: {version}, NumPy only: the command, the module, the example")
    return environment


IN_RUNTIME = """
import sys, numpy, onnxruntime, convoy.onnxruntime
x = {"input": numpy.random.default_rng(1).random((1, 3, 64, 64), numpy.float32)}
expected = onnxruntime.InferenceSession(sys.argv[1]).run(None, x)[0]
options = onnxruntime.SessionOptions()
options.enable_profiling = True
said = ""
try:
    convoy.onnxruntime.add_to(options, threads=1)
except ImportError as error:
    said = str(error)
session = onnxruntime.InferenceSession(sys.argv[1], options)
numpy.testing.assert_allclose(session.run(None, x)[0], expected, rtol=1e-3, atol=1e-5)
events = open(session.end_profiling()).read()
print(onnxruntime.__version__, "with" if convoy.onnxruntime.get_ep_name() in events else "without", said)
"""


def check_in_onnxruntime(python, wheel, work):
    """PyPI's onnxruntime takes it: the oldest version that can, and the one of our tests. An older one goes on without, and says why."""
    folder = work / "venv-onnxruntime"
    run(python, "-m", "venv", folder)
    environment = environment_of(folder, work)
    install(environment, wheel, "flatbuffers", "packaging")
    here = {"env": environment, "cwd": work}
    run("convoy", "zoo", "squeezenet1_1", "-o", work / "model.onnx", **here)
    newest = re.search(r"^onnxruntime==(.*)$", (ROOT / "scripts/requirements-test.txt").read_text(), re.MULTILINE)[1]
    for version in ("1.22.1", "1.23.2", newest):
        install(environment, "--no-deps", f"onnxruntime=={version}")
        printed = run("python", "-c", IN_RUNTIME, work / "model.onnx", **here).strip()
        says = "without Convoy needs onnxruntime 1.23.2 or newer, this is 1.22.1" if version == "1.22.1" else "with"
        assert printed == f"{version} {says}", printed
        print(f"onnxruntime {printed}")


def main():
    page = (ROOT / "docs/python.md").read_text()
    for line in ("$ make wheel\n", "$ pip install build/wheel/convoy_dnn-*.whl\n"):
        assert line in page, "docs/python.md says how to install it otherwise"
    wheel = build()
    check_contents(wheel)
    with tempfile.TemporaryDirectory(prefix="convoy_wheel_") as name:
        work = pathlib.Path(name)
        check_debug_files(wheel, work)
        environment = check_with_numpy_only(sys.executable, wheel, work)
        check_in_onnxruntime(sys.executable, wheel, work)
        if os.environ.get("CONVOY_TEST_FULL", "0") not in ("", "0"):
            for python in PYTHONS:
                works = shutil.which(python) and subprocess.run([python, "--version"], capture_output=True).returncode == 0
                print(f"{python}: skipped: not on this machine") if not works else check_with_numpy_only(python, wheel, work)
        pytest = next(line for line in (ROOT / "scripts/requirements-test.txt").read_text().splitlines() if line.startswith("pytest"))
        install(environment, pytest)
        tests = work / "tests"
        shutil.copytree(ROOT / "tests/python", tests, ignore=shutil.ignore_patterns("__pycache__"))
        done = subprocess.run(["python", tests / "run.py"], env=environment, cwd=work)
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
