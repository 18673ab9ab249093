"""Models of torchvision and timm with random weights, as PyTorch's exporters write them. Each is the same each time."""
import contextlib
import io
import logging
import warnings

VIDEO = {"r3d_18": (1, 3, 8, 112, 112), "mvit_v2_s": (1, 3, 16, 224, 224), "s3d": (1, 3, 16, 224, 224)}
SEGMENTATION = {"deeplabv3_mobilenet": ("deeplabv3_mobilenet_v3_large", 320), "lraspp": ("lraspp_mobilenet_v3_large", 320), "fcn_resnet50": ("fcn_resnet50", 224)}
# Of torchvision and of timm, by the picture's size.
PICTURES = {224: """mobilenet_v3_large shufflenet_v2_x1_0 regnet_y_400mf mnasnet1_0 wide_resnet50_2 vit_b_16 swin_t maxvit_t convnext_small alexnet""",
            299: "inception_v3", 300: "efficientnet_v2_s"}
TIMM = {224: """mobilenetv4_conv_small mobileone_s0 repvgg_a0 ghostnet_100 hardcorenas_a tf_efficientnet_b0 mixnet_s efficientvit_b0 poolformer_s12
        convnextv2_atto res2net50_26w_4s dla34 hrnet_w18_small levit_128s nfnet_l0 xcit_nano_12_p16_224 coatnet_nano_rw_224 focalnet_tiny_srf
        tiny_vit_5m_224 inception_next_atto rdnet_tiny resnetv2_50 skresnet18 lcnet_050 volo_d1_224 densenet121 efficientnet_lite0 regnetx_008
        tinynet_a rexnet_100 deit_tiny_patch16_224 convit_tiny mixer_s32_224 resmlp_12_224 pvt_v2_b0 gernet_s dpn68 selecsls42b
        ese_vovnet19b_dw starnet_s1 fasternet_t0 efficientformer_l1 hgnetv2_b0 resnest14d""",
        256: "edgenext_xx_small mobilevit_xxs fastvit_t8 cspresnet50 mobilevitv2_050"}
SIZES = {**VIDEO, **{name: (1, 3, size, size) for name, (_, size) in SEGMENTATION.items()},
         **{name: (1, 3, size, size) for size, names in PICTURES.items() for name in names.split()},
         **{f"timm_{name}": (1, 3, size, size) for size, names in TIMM.items() for name in names.split()}}
EXPORTERS = ("script", "dynamo")


def module(name):
    """In f32 on the processor, with an input."""
    import torch
    import torchvision.models as tv
    torch.manual_seed(0)
    if name.startswith("timm_"):
        import timm
        made = timm.create_model(name[5:], pretrained=False)
    elif name in VIDEO:
        made = getattr(tv.video, name)(weights=None)
    elif name in SEGMENTATION:
        made = getattr(tv.segmentation, SEGMENTATION[name][0])(weights=None, weights_backbone=None)
    else:
        made = getattr(tv, name)(weights=None, **({"init_weights": False} if name == "inception_v3" else {}))
    made.eval()
    with torch.no_grad():
        for each in made.modules():
            if getattr(each, "running_var", None) is not None:
                each.running_var.uniform_(.5, 1.5)
                each.running_mean.normal_(0, .1)
        for weight in made.parameters():  # a last layer of zeros shows nothing
            if weight.dim() > 1 and not weight.any():
                weight.normal_(0, .02)
    return made, (torch.rand(SIZES[name]) - .45) / .25


def export(made, x, exporter, path):
    import torch
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if exporter == "dynamo":
            torch.onnx.export(made, (x,), path, dynamo=True, external_data=False, verbose=False)
        else:
            torch.onnx.export(made, (x,), path, dynamo=False, opset_version=17)


def tensors(found):
    """A module's outputs, in the order of an export's."""
    if isinstance(found, dict):
        return [each for value in found.values() for each in tensors(value)]
    return [each for value in found for each in tensors(value)] if isinstance(found, (list, tuple)) else [found]
