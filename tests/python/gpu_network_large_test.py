"""Networks on a GPU whose tensors have more than 2^31 elements, beside PyTorch on slices of them. Takes 40 GB there."""
import numpy as np
import pytest

import convoy

try:
    import torch
    import torch.nn.functional as F

    HAS_GPU = torch.cuda.is_available() and torch.cuda.mem_get_info()[0] > 40 << 30
except ImportError:
    HAS_GPU = False
onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(not HAS_GPU, reason="no GPU with 40 GB, or no torch")

SIDE = 11600
LARGE = (1, 16, SIDE, SIDE)  # 2,152,960,000
QUARTER = (1, 16, SIDE // 2, SIDE // 2)
assert np.prod(LARGE) > 2**31


def weights(*dims):
    return (np.random.default_rng(5).standard_normal(dims) / np.sqrt(np.prod(dims[1:]))).astype(np.float16)


def on(array):
    return torch.from_numpy(array).cuda()


def longs(*values):
    return np.array(values, np.int64)


W1, W3, DW, WT = weights(16, 16, 1, 1), weights(8, 16, 3, 3), weights(16, 1, 3, 3), weights(16, 16, 2, 2)
CHANNELS = weights(1, 16, 1, 1)
# Of each: the operator, its attributes, its other inputs, the sizes of x and y, what PyTorch does to a slice, and along which dim slices
# are cut: 0, not at all.
CASES = {
    "Relu": ({}, [], LARGE, LARGE, lambda x: x.relu(), 1),
    "Sigmoid": ({}, [], LARGE, LARGE, lambda x: x.sigmoid(), 1),
    "Mul": ({}, [np.array([[[[0.5]]]], np.float16)], LARGE, LARGE, lambda x: x * 0.5, 1),
    "Add": ({}, [CHANNELS], LARGE, LARGE, lambda x: x + on(CHANNELS), 2),
    "Clip": ({}, [np.float16(-0.5), np.float16(1)], LARGE, LARGE, lambda x: x.clamp(-0.5, 1), 1),
    "Neg": ({}, [], (46342, 46342), (46342, 46342), lambda x: -x, 1),
    "Transpose": ({"perm": [0, 2, 3, 1]}, [], LARGE, (1, SIDE, SIDE, 16), lambda x: x.permute(0, 2, 3, 1), 0),
    "Slice": ({}, [longs(1), longs(SIDE), longs(3), longs(2)], LARGE, (1, 16, SIDE, SIDE // 2), lambda x: x[..., 1::2], 1),
    "Pad": ({}, [longs(0, 0, 1, 0, 0, 0, 0, 2)], LARGE, (1, 16, SIDE + 1, SIDE + 2), lambda x: F.pad(x, (0, 2, 1, 0)), 1),
    "Concat": ({"axis": 1}, [weights(1, 1, SIDE, SIDE)], (1, 15, SIDE, SIDE), LARGE, None, 0),
    "Gather": ({"axis": 2}, [np.arange(SIDE)[::-1].copy()], LARGE, LARGE, lambda x: x.flip(2), 1),
    "MaxPool": ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, [], LARGE, QUARTER, lambda x: F.max_pool2d(x, 3, 2, 1), 1),
    "AveragePool": ({"kernel_shape": [2, 2], "strides": [2, 2]}, [], LARGE, QUARTER, lambda x: F.avg_pool2d(x, 2), 1),
    "GlobalAveragePool": ({}, [], LARGE, (1, 16, 1, 1), lambda x: x.float().mean((2, 3), keepdim=True).half(), 1),
    "ReduceMax": ({"keepdims": 1}, [longs(3)], LARGE, (1, 16, SIDE, 1), lambda x: x.amax(3, keepdim=True), 1),
    "Softmax": ({"axis": 1}, [], LARGE, LARGE, lambda x: x.softmax(1), 2),
    "LayerNormalization": ({"axis": -1}, [np.ones(SIDE, np.float16)], LARGE, LARGE, lambda x: F.layer_norm(x, (SIDE,)), 1),
    "DepthToSpace": ({"blocksize": 2}, [], LARGE, (1, 4, 2 * SIDE, 2 * SIDE), lambda x: F.pixel_shuffle(x[:, [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]], 2), 0),
    "Resize": ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, ["", np.array([1, 1, 2, 2], np.float32)], QUARTER, LARGE,
               lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3), 1),
    "Conv 1x1": ({}, [W1], LARGE, LARGE, lambda x: F.conv2d(x, on(W1)), 2),
    "Conv 3x3": ({"pads": [1] * 4, "strides": [2, 2]}, [W3], LARGE, (1, 8, SIDE // 2, SIDE // 2), lambda x: F.conv2d(x, on(W3), padding=1, stride=2), 0),
    "Conv depthwise": ({"pads": [1] * 4, "group": 16}, [DW], LARGE, LARGE, None, 0),
    "ConvTranspose": ({"strides": [2, 2]}, [WT], QUARTER, LARGE, lambda x: F.conv_transpose2d(x, on(WT), stride=2), 0),
}


def model_of(case):
    attributes, others, x, y, _, _ = CASES[case]
    helper, half = onnx.helper, onnx.TensorProto.FLOAT16
    constants = [onnx.numpy_helper.from_array(np.asarray(each), f"c{i}") for i, each in enumerate(others) if not isinstance(each, str)]
    names = ["" if isinstance(each, str) else f"c{i}" for i, each in enumerate(others)]
    node = helper.make_node(case.split()[0], ["x", *names], ["y"], **attributes)
    graph = helper.make_graph([node], "large", [helper.make_tensor_value_info("x", half, x)], [helper.make_tensor_value_info("y", half, y)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()


def expected(case, x):
    """(which part of y, what it should be), slice by slice."""
    _, others, _, _, of, dim = CASES[case]
    if case == "Concat":
        yield (slice(None), slice(0, 15)), x
        yield (slice(None), slice(15, 16)), on(others[0])
    elif case == "Conv depthwise":
        for c in range(16):
            part = (slice(None), slice(c, c + 1))
            yield part, F.conv2d(x[part], on(DW[c:c + 1]), padding=1)
    elif dim == 0:
        yield (), of(x)
    else:
        parts = 4
        for i in range(parts):
            part = (slice(None),) * dim + (slice(i * x.shape[dim] // parts, (i + 1) * x.shape[dim] // parts),)
            yield part, of(x[part])


@pytest.mark.parametrize("case", CASES)
def test_more_than_32_bits_of_elements(case):
    torch.cuda.empty_cache()
    torch.manual_seed(3)
    x = torch.randn(CASES[case][2], dtype=torch.float16, device="cuda")
    network = convoy.Network(model_of(case), device="cuda", database=False)
    y = network.run({"x": x})["y"]
    assert tuple(y.shape) == CASES[case][3]
    for part, right in expected(case, x):
        found = y[part]
        assert found.shape == right.shape
        for row in range(0, found.shape[-2], 2000):  # in pieces: differences take memory, too
            a, b = (each[..., row:row + 2000, :] for each in (found, right))
            assert (a - b).abs().max() <= 4e-3 * b.abs().max() + 1e-3, (part, row)
