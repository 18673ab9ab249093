"""JAX under the interposer, as far as it goes without a GPU: its plugin looks cuDNN up by dlsym, which is the interposer's."""
import os
import pathlib
import subprocess
import sys

import pytest

import convoy

pytest.importorskip("jax_plugins.xla_cuda13", reason="jax[cuda13] is not installed")

INTERPOSER = pathlib.Path(convoy._c.library._name).absolute().with_name("libconvoy-interposer.so")
PROGRAM = """
import jax
x, w = jax.numpy.ones((2, 8, 8, 3)), jax.numpy.ones((3, 3, 3, 4))
y = jax.jit(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))(x, w)
print(float(y.sum()), jax.devices()[0].platform)
"""


def test_its_lookups_come_by(tmp_path):
    if not INTERPOSER.exists():
        pytest.skip(f"no {INTERPOSER}")

    def run(**environment):  # without the check, where it has no GPU, it loads no plugin
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout

    plain = run()
    assert plain.startswith("11616.0 ")
    assert run(LD_PRELOAD=str(INTERPOSER), LD_DEBUG="bindings", LD_DEBUG_OUTPUT=str(tmp_path / "bound")) == plain
    bound = "".join(log.read_text(errors="replace") for log in tmp_path.glob("bound.*"))
    lines = [line for line in bound.splitlines() if "symbol `dlsym'" in line and "binding file" in line]
    plugin = [line for line in lines if "xla_cuda_plugin.so" in line.split(" to ")[0]]
    assert plugin and all(f" to {INTERPOSER}" in line for line in plugin), lines
