"""Networks on a GPU whose memory runs short, whose capture fails, which is lost; and what many sizes leave behind. Alone on the GPU."""
import concurrent.futures
import sys

import numpy as np
import pytest
from conftest import run_script

import convoy

try:
    import torch

    HAS_GPU = torch.cuda.is_available()
except ImportError:
    HAS_GPU = False
pytestmark = pytest.mark.skipif(not HAS_GPU, reason="no GPU, or no torch")
MODEL = "zoo:squeezenet1_1"


@pytest.fixture
def network():
    return convoy.Network(MODEL, device="cuda", database=False)


@pytest.fixture
def given(rng):
    return rng.standard_normal((2, 3, 64, 48)).astype(np.float32)


def small_model(folder):
    onnx = pytest.importorskip("onnx")
    helper, random = onnx.helper, np.random.default_rng(3)
    weights = [onnx.numpy_helper.from_array(random.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12, name) for name in ("v", "w")]
    nodes = [helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w"], ["c"], pads=[1] * 4), helper.make_node("Softmax", ["c"], ["y"], axis=1)]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 16, "h", "w"]) for name in "xy"]
    graph = helper.make_graph(nodes, "small", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "small.onnx")
    return str(folder / "small.onnx")


def used():
    free, total = torch.cuda.mem_get_info()
    return total - free


def test_memory_after_many_sizes_levels_off(tmp_path):
    network = convoy.Network(small_model(tmp_path), device="cuda", database=False)

    def run(i):
        x = np.ones((1 + i % 4, 16, 20 + i % 50, 24 + i), np.float32)
        for _ in range(2):  # the second is captured
            y = network.run({"x": x})["y"]
        return np.allclose(y.sum(axis=1), 1, atol=1e-5)

    seen = []
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for first in range(0, 200, 20):
            assert all(threads.map(run, range(first, first + 20)))
            seen.append(used() >> 20)
    print(seen)
    assert max(seen[7:]) <= max(seen[2:5]) + 64, seen  # MiB


def test_memory_that_runs_out_is_an_error_of_its_run(network, given):
    expected = network.run({"input": given})["flatten_out"]
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(free - (256 << 20), dtype=torch.uint8, device="cuda")
    with pytest.raises(convoy.ConvoyError) as raised:
        network.run({"input": np.zeros((512, 3, 224, 224), np.float32)})
    print(raised.value)
    np.testing.assert_array_equal(network.run({"input": given})["flatten_out"], expected)
    del hog
    torch.cuda.empty_cache()
    assert network.run({"input": np.zeros((512, 3, 224, 224), np.float32)})["flatten_out"].shape[0] == 512


def test_a_limit_of_memory_is_an_error_of_its_run(given):
    network = convoy.Network(MODEL, device="cuda", database=False, device_memory_limit=64 << 20)
    expected = network.run({"input": given})["flatten_out"]
    with pytest.raises(convoy.ConvoyError, match="batch") as raised:
        network.run({"input": np.zeros((512, 3, 224, 224), np.float32)})
    print(raised.value)
    np.testing.assert_array_equal(network.run({"input": given})["flatten_out"], expected)


def test_a_capture_that_fails_is_an_error_of_its_run(network, given):
    expected = network.run({"input": given})["flatten_out"]
    x, y = torch.from_numpy(given).cuda(), torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises((convoy.ConvoyError, RuntimeError)) as raised, torch.cuda.graph(graph):
        y.sum().item()  # waits, which ends the capture
        network.run({"input": x})
    print(raised.value)
    torch.cuda.synchronize()
    np.testing.assert_array_equal(network.run({"input": given})["flatten_out"], expected)
    np.testing.assert_array_equal(network.run({"input": x})["flatten_out"].cpu().numpy(), expected)


LOST = '''
import sys
sys.path[:0] = {path!r}
import numpy as np, torch, convoy
x = np.ones((1, 3, 64, 64), np.float32)
network = convoy.Network("zoo:squeezenet1_1", device="cuda", database=False)
network.run({{"input": x}})
try:
    torch.zeros(4, device="cuda")[torch.tensor([1 << 20], device="cuda")].cpu()
except RuntimeError:
    print("lost")
for _ in range(2):
    try:
        network.run({{"input": x}})
    except convoy.ConvoyError as error:
        print(type(error).__name__, error)
print(convoy.Network("zoo:squeezenet1_1", database=False).run({{"input": x}})["flatten_out"].shape)
'''


def test_a_gpu_that_is_lost_is_an_error_of_its_runs():
    out, err, code = run_script(LOST.format(path=sys.path), timeout=200)
    print(out)
    assert code == 0, err[-2000:]
    lines = out.splitlines()
    assert lines[0] == "lost" and len(lines) == 4 and lines[-1] == "(1, 1000)", out
