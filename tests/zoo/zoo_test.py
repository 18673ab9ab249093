"""Every network of the zoo: a valid ONNX file, the convolutions that problems/ lists, and ONNX Runtime's answers.

    zoo_test.py [NAME ...]     all networks without names; $CONVOY is the program, $ONE_IMPORT the one beside this test

Each network is imported once and then run at two input sizes, each at two batch sizes. CONVOY_TEST_FULL=1 adds the size
that the network was published for.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "problems"))
import make_lists  # noqa: E402

CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
ONE_IMPORT = os.environ.get("ONE_IMPORT", str(ROOT / "build/tests/one_import"))
FULL = os.environ.get("CONVOY_TEST_FULL", "0") not in ("", "0")
# Two sizes a network, the smaller the quicker; small_sizes for those not named.
SMALL_SIZES = ((64, 64), (96, 72))
SIZES = {
    "vgg16": ((224, 224), (256, 224)),
    "unet": ((188, 188), (204, 188)),
    "unet3d": ((92, 92, 92), (100, 92, 92)),
    "hunyuan_video_decoder": ((1, 2, 3), (3, 2, 2)),
    "yolo_tiny": ((64, 96), (96, 96)),
    "yolov8n": ((64, 96), (96, 96)),
}
PARTS = {"yolov8n": [4]}  # where outputs of other magnitudes begin along axis 1: scores behind boxes in pixels
RELATIVE, OF_THE_LARGEST = 1e-3, 1e-4  # |a - b| <= RELATIVE*|b| + OF_THE_LARGEST*max|b|


def call(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


def convoy(*arguments):
    return call(CONVOY, *arguments)


def published_sizes(model):
    sizes = {entry.key.removeprefix("convoy.size."): int(entry.value) for entry in model.metadata_props}
    return tuple(sizes[name] for name in "DHW" if name in sizes)


def problems_of(model, sizes):
    """The convolutions at batch 1 as problem strings with their counts; the fully connected layers left out."""
    shapes = {}
    for tensor in model.graph.initializer:
        shapes[tensor.name] = tuple(tensor.dims)
    small = onnx.ModelProto()
    small.CopyFrom(model)
    del small.graph.initializer[:]
    for tensor in model.graph.initializer:  # inference needs the indices, but only the shapes of the weights
        if tensor.data_type == onnx.TensorProto.INT64 or "scales" in tensor.name:
            small.graph.initializer.append(tensor)
        else:
            small.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    dims = small.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value = 1
    for dim, size in zip(dims[2:], sizes):
        dim.dim_value = size
    inferred = onnx.shape_inference.infer_shapes(small, strict_mode=True, data_prop=True)
    for value in list(inferred.graph.value_info) + [inferred.graph.input[0]]:
        shapes[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    net = make_lists.Net(1, sizes)
    for node in model.graph.node:
        if node.name.startswith("fc"):
            continue
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv":
            x, w = shapes[node.input[0]], shapes[node.input[1]]
            net.c, net.size = x[1], x[2:]
            half = len(attributes["pads"]) // 2
            assert attributes["pads"][:half] == attributes["pads"][half:]
            net.conv(node.name, w[0], w[2:], attributes["strides"], attributes["pads"][:half], attributes["dilations"],
                     attributes["group"])
        elif node.op_type == "ConvTranspose":
            x, w = shapes[node.input[0]], shapes[node.input[1]]
            net.c, net.size = x[1], x[2:]
            net.up(node.name, w[1], w[2:], attributes["strides"])
    return {text: len(names) for text, names in net.layers.items()}


def cases_of(name, channels, published):
    sizes = SIZES.get(name, SMALL_SIZES)
    cases = [(batch, channels, *size) for size in sizes for batch in (1, 2)]
    if FULL:
        cases.append((1, channels, *published))
    return cases


def compare(label, got, wanted):
    assert got.shape == wanted.shape, f"{label}: shape {got.shape}, ONNX Runtime's is {wanted.shape}"
    assert np.isfinite(got).all(), f"{label}: not finite"
    error, largest, spread = np.abs(got - wanted), np.abs(wanted).max(), wanted.std()
    print(f"{label:36} largest error {error.max() / largest:.1e} of the largest value; std {spread:.3g}", flush=True)
    assert 1e-3 <= spread <= 1e3, f"{label}: standard deviation {spread}"
    beyond = (error > RELATIVE * np.abs(wanted) + OF_THE_LARGEST * largest).sum()
    assert beyond == 0, f"{label}: {beyond} of {error.size} values differ, the largest error is {error.max()}"


def test(name, folder):
    path = folder / f"{name}.onnx"
    convoy("zoo", name, "-o", path)
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    published, channels = published_sizes(model), model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    here = problems_of(model, published)
    listed = {text: len(names) for text, names in getattr(make_lists, name)().layers.items()}
    assert here == listed, (f"problems/{name}.txt differs from the network: only in the network "
                            f"{here.items() - listed.items()}, only in the list {listed.items() - here.items()}")
    del model

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(7)
    cases = cases_of(name, channels, published)
    wanted, pairs = [], []
    for index, shape in enumerate(cases):
        value = random.standard_normal(shape, dtype=np.float32)
        wanted.append(session.run(None, {"input": value})[0])
        pairs += [folder / f"in{index}.npy", folder / f"out{index}.npy"]
        np.save(pairs[-2], value)
    call(ONE_IMPORT, path, os.cpu_count(), *pairs)  # one import, all cases
    for index, shape in enumerate(cases):
        ours, theirs = (np.split(output, PARTS.get(name, []), axis=1) for output in (np.load(pairs[2 * index + 1]), wanted[index]))
        for got, right in zip(ours, theirs):
            compare(f"{name} {'x'.join(map(str, shape))}", got, right)
    path.unlink()


def main():
    names = sys.argv[1:] or [row["name"] for row in json.loads(convoy("list", "zoo", "--json"))["zoo"]]
    failures = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(name, pathlib.Path(folder))
            except Exception as error:  # the other networks' results are wanted too
                failures.append(name)
                print(f"{name}: FAILED: {error}", flush=True)
    if failures:
        sys.exit(f"{len(failures)} of {len(names)} failed: {', '.join(failures)}")
    print(f"{len(names)} networks agree with ONNX Runtime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
