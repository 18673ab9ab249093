"""The networks of peers.py and floor.py, as inference runs them: bench/pytorch/networks.py's, with weights of one seed, norms that have
statistics, batch norms folded into convolutions. All peers, and Convoy, get these weights in the type that is measured."""
import functools
import itertools
import json
import pathlib
import shutil
import subprocess
import sys

# PyTorch is imported where it is asked for: scripts/gpu-check knows the rows without.
NAMES = ("resnet50", "resnext50", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "unet", "unet3d")
BATCHES = {"unet": (1, 8), "unet3d": (1, 4)}
USUAL_BATCHES = (1, 32, 128)
SIZES = {"unet": 512}  # of the other networks: what they are trained on
IN_ALL_TYPES = ("resnet50", "efficientnet_b0", "unet")
VOLUMES = ("meshnet", "video_decoder")  # labels of an MRI's voxels, and latent video to frames: one of either, beside eager PyTorch
AUTOTUNED = ("resnet50", "mobilenet_v2", "convnext_tiny")  # in f16; minutes a row
ROOT = pathlib.Path(__file__).resolve().parents[2]
OPSET = 20  # the newest of PyTorch's exporter by tracing
OPSET_WITH_BF16 = 22  # of convolutions and pools, which it changed in nothing else


def cells():
    """(network, type, batch) of all that is compared, in order: f16 first."""
    for type_ in ("f16", "bf16", "tf32"):
        for name in NAMES if type_ == "f16" else IN_ALL_TYPES:
            yield from itertools.product([name], [type_], BATCHES.get(name, USUAL_BATCHES))


def volumes():
    return itertools.product(VOLUMES, ("f16", "tf32"), (1,))


def commit():
    """What is measured: of a bundle or copied folder by its build.json, else git's answer."""
    build = ROOT / "build.json"
    if build.exists():
        return json.loads(build.read_text()).get("commit")
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip() if shutil.which("git") else None


def dtype(type_):
    import torch
    return {"f16": torch.float16, "bf16": torch.bfloat16}.get(type_, torch.float32)


def meshnet(width=5, labels=3):
    """Fedorov et al., 2017: dilated convolutions without a pool, as `meshnet_gwm_5ch` has them."""
    from torch import nn
    layers = []
    for level, dilation in enumerate((1, 2, 4, 8, 16, 8, 4, 2, 1)):
        layers += [nn.Conv3d(width if level else 1, width, 3, padding=dilation, dilation=dilation), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv3d(width, labels, 1))


def of_training(name):
    """The module, and the shape of its input with any batch."""
    sys.path.insert(0, str(ROOT / "bench/pytorch"))
    if name == "meshnet":
        return meshnet(), (1, 1, 256, 256, 256)
    if name == "video_decoder":
        from programs import VideoDecoder
        return VideoDecoder(), (1, 16, 5, 60, 90)
    from networks import NETWORKS
    return NETWORKS[name]()[:2]


@functools.lru_cache
def dims(name, size=None):
    """Channels and sizes of an input; `size` in place of the usual ones."""
    _, shape = of_training(name)
    size = size or SIZES.get(name)
    return (shape[1], *([size] * (len(shape) - 2) if size else shape[2:]))


@functools.lru_cache(maxsize=1)
def folded(name):
    """The network in f32, on the processor, in evaluation mode: an fx.GraphModule without batch norms. To be copied, not changed."""
    import torch
    from torch.fx.experimental.optimization import fuse
    torch.manual_seed(1)
    module = of_training(name)[0].eval()
    with torch.no_grad():
        for part in module.modules():
            if getattr(part, "running_var", None) is not None:
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.5, 1.5)
            if hasattr(part, "layer_scale"):  # begins as 1e-6, which would hide a block's result
                part.layer_scale.uniform_(0.1, 0.5)
    return fuse(module)


def channels_last(tensor_or_module, rank):
    import torch
    return tensor_or_module.to(memory_format=torch.channels_last if rank == 4 else torch.channels_last_3d)


def export(module, example, file):
    """The module as ONNX, with a batch that is free; `example` has the type."""
    import torch
    with torch.no_grad():
        torch.onnx.export(module, (example,), str(file), dynamo=False, opset_version=OPSET, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "N"}, "y": {0: "N"}})


def with_batch(file, batch, target):
    """The exported file with a fixed batch, so that nothing about sizes is left to a run."""
    import onnx
    model = onnx.load(str(file))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
        if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            model.opset_import[0].version = OPSET_WITH_BF16
    del model.graph.value_info[:]
    onnx.save(model, str(target))
