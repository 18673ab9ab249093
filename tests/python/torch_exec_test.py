"""Processes of PyTorch that use no CUDA, under the interposer: they stay so, and nothing of it is noticed."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import convoy

torch = pytest.importorskip("torch", reason="torch is not installed")

INTERPOSER = pathlib.Path(convoy._c.library._name).absolute().with_name("libconvoy-interposer.so")
HOOK = pathlib.Path(convoy.__file__).absolute().parent / "_exec"
# A driver that says who loads it, and who initialises CUDA.
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void tell(const char* what) {
  FILE* file = fopen(getenv("DRIVER_LOG"), "a");
  if (file == NULL) return;
  fprintf(file, "%s\\n", what);
  fclose(file);
}
__attribute__((constructor)) static void loaded(void) { tell("loaded"); }
int cuInit(unsigned flags) { (void)flags; tell("cuInit"); return 100; }
"""
LOADER = """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.nn.functional.conv2d(torch.full((1, 4, 4), float(i)), torch.ones(1, 1, 3, 3)).sum()
if __name__ == "__main__":
    for start in "fork", "spawn":
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=start)
        print(start, sum(float(batch.sum()) for batch in loader))
    assert not torch.cuda.is_initialized()
"""
COMPILED = """
import torch
torch._inductor.config.compile_threads = 2  # workers of their own
@torch.compile
def f(x): return torch.relu(torch.nn.functional.conv2d(x, torch.ones(2, 3, 3, 3))).sin() + 1
if __name__ == "__main__":
    print(round(float(f(torch.ones(1, 3, 8, 8)).sum()), 3))
    assert not torch.cuda.is_initialized()
"""
RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Conv2d(1, 2, 3))
loss = model(torch.ones(1, 1, 5, 5)).square().mean()
loss.backward()
if dist.get_rank() == 0: print("ranks", dist.get_world_size(), model.module.weight.grad.shape[0])
assert not torch.cuda.is_initialized()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("name, text, before", [("loader", LOADER, []), ("compiled", COMPILED, []),
                                                ("ranks", RANKS, ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"])])
def test_a_process_that_uses_no_cuda_never_initialises_it(tmp_path, name, text, before):
    compiler = shutil.which("cc")
    if compiler is None or not INTERPOSER.exists():
        pytest.skip("no cc" if compiler is None else f"no {INTERPOSER}")
    (tmp_path / "driver.c").write_text(DRIVER)
    subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", tmp_path / "driver.c", "-o", tmp_path / "libcuda.so.1"], check=True)
    (tmp_path / "choices.txt").write_text("convoy-choices 2\nfilter\tengines\t*\n")
    program = tmp_path / f"{name}.py"
    program.write_text(text)
    said = {}
    for mode, more in (("plain", {}), ("under", {"LD_PRELOAD": str(INTERPOSER), "CONVOY_CHOICES": str(tmp_path / "choices.txt"),
                                                 "CONVOY_RECORD": str(tmp_path / "r.jsonl"), "CONVOY_SEEN": str(tmp_path / "seen"),
                                                 "CONVOY_PYTHON_HOOK": "steer", "PYTHONPATH": f"{HOOK}:{os.environ.get('PYTHONPATH', '')}"})):
        (tmp_path / "seen").mkdir(exist_ok=True)
        log = tmp_path / f"{mode}.log"
        log.touch()
        environment = {**os.environ, **more, "LD_LIBRARY_PATH": f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                       "DRIVER_LOG": str(log), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                       "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"{mode}.cache")}
        done = subprocess.run([sys.executable, *before, str(program)], env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        said[mode] = done.stdout, log.read_text()
    assert said["under"] == said["plain"], "as without: what it printed, who loaded the driver"
    assert "cuInit" not in said["plain"][1]
    assert not list(tmp_path.glob("r.jsonl*")), "nothing was recorded"
    assert any("hook\ton" in file.read_text() for file in (tmp_path / "seen").iterdir()), "PyTorch has the hook"
    assert not any("called" in file.read_text() for file in (tmp_path / "seen").iterdir()), "cuDNN was not called"
