"""Networks of well-known model libraries as both exporters of PyTorch write them, for bench/exports.py.

    pip install torch torchaudio onnxscript monai segmentation-models-pytorch kornia diffusers transformers ultralytics python-doctr
    python bench/library_models.py FOLDER [LIBRARY ...]
    python bench/exports.py FOLDER

Writes LIBRARY_MODEL_dynamo.onnx and LIBRARY_MODEL_script.onnx, and LIBRARY_MODEL.npy, the input. Weights are random, sizes as a processor takes
them; what an exporter refuses is printed. A LIBRARY that isn't installed is skipped, and that is printed.
"""
import contextlib
import io
import logging
import os
import pathlib
import sys
import warnings

import numpy as np
import torch

os.environ["YOLO_VERBOSE"] = "False"
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Calls(torch.nn.Module):
    """A network, called otherwise than with one tensor for one tensor."""

    def __init__(self, network, call):
        super().__init__()
        self.network, self.call = network, call

    def forward(self, x):
        return self.call(self.network, x)


def monai():
    from monai.networks import nets as n
    volume = (1, 1, 64, 64, 64)
    return {"unet": (lambda: n.UNet(3, 1, 4, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2), (1, 1, 96, 96, 96)),
            "basicunet": (lambda: n.BasicUNet(3, 1, 4, (16, 16, 32, 64, 128, 16), norm="batch"), volume),
            "segresnet": (lambda: n.SegResNet(3, 8, 1, 4), volume),
            "dynunet": (lambda: n.DynUNet(3, 1, 3, [3, 3, 3, 3], [1, 2, 2, 2], [2, 2, 2], filters=[16, 32, 64, 128], norm_name="instance"), volume),
            "vnet": (lambda: n.VNet(3, 1, 2), (1, 1, 32, 64, 64)),
            "attentionunet": (lambda: n.AttentionUnet(3, 1, 2, (8, 16, 32, 64), (2, 2, 2)), volume),
            "unetr": (lambda: n.UNETR(1, 4, (48, 48, 48), 16, 96, 192, 4), (1, 1, 48, 48, 48)),
            "swinunetr": (lambda: n.SwinUNETR(1, 4, feature_size=12, spatial_dims=3), volume),
            "highresnet": (lambda: n.HighResNet(3, 1, 4), (1, 1, 48, 48, 48)),
            "densenet3d": (lambda: n.DenseNet121(3, 1, 2), volume),
            "autoencoder": (lambda: n.AutoEncoder(2, 1, 1, (16, 32, 64), (2, 2, 2)), (1, 1, 128, 128)),
            "flexibleunet": (lambda: n.FlexibleUNet(3, 2, "efficientnet-b0"), (1, 3, 224, 224))}


def smp():
    import segmentation_models_pytorch as s
    networks = {"Unet": "resnet34", "UnetPlusPlus": "resnet18", "MAnet": "resnet18", "Linknet": "mobilenet_v2", "FPN": "resnet34",
                "PSPNet": "resnet18", "PAN": "resnet18", "DeepLabV3Plus": "mobilenet_v2", "UPerNet": "resnet18", "Segformer": "mit_b0"}
    return {name.lower(): (lambda name=name, encoder=encoder: getattr(s, name)(encoder, encoder_weights=None, classes=5), (1, 3, 256, 256))
            for name, encoder in networks.items()}


def kornia():
    import kornia as k
    return {"canny": (k.filters.Canny, (1, 3, 128, 128)), "blur": (lambda: k.filters.GaussianBlur2d((7, 7), (1.5, 1.5)), (1, 3, 256, 256)),
            "sobel": (k.filters.Sobel, (1, 3, 256, 256)), "hardnet": (lambda: k.feature.HardNet(False), (32, 1, 32, 32)),
            "keynet": (lambda: k.feature.KeyNet(False), (1, 1, 128, 128))}


def diffusers():
    import diffusers as d
    auto = {"down_block_types": ("DownEncoderBlock2D",) * 3, "up_block_types": ("UpDecoderBlock2D",) * 3, "layers_per_block": 1, "norm_num_groups": 16}
    kl = lambda: d.AutoencoderKL(block_out_channels=(32, 64, 64), **auto)  # noqa: E731
    unet = {"sample_size": 32, "layers_per_block": 1, "norm_num_groups": 16}
    return {"unet2d": (lambda: Calls(d.UNet2DModel(block_out_channels=(64, 128, 128), down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                                                   up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"), **unet),
                                     lambda m, x: m(x, 10).sample), (1, 3, 32, 32)),
            "conditionalunet": (lambda: Calls(d.UNet2DConditionModel(
                block_out_channels=(64, 128, 256), down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=128, **unet),
                lambda m, x: m(x, 10, x.reshape(1, 32, 128)).sample), (1, 4, 32, 32)),
            "klencoder": (lambda: Calls(kl(), lambda m, x: m.encode(x).latent_dist.mean), (1, 3, 128, 128)),
            "kldecoder": (lambda: Calls(kl(), lambda m, x: m.decode(x).sample), (1, 4, 32, 32)),
            "tinydecoder": (lambda: Calls(d.AutoencoderTiny(), lambda m, x: m.decode(x).sample), (1, 4, 32, 32)),
            "videodecoder": (lambda: Calls(d.AutoencoderKLWan(base_dim=16, z_dim=4, dim_mult=[1, 2, 2], num_res_blocks=1, temperal_downsample=[False, True]),
                                           lambda m, x: m.decode(x).sample), (1, 4, 3, 16, 16)),
            "dit": (lambda: Calls(d.DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=32, num_layers=4, sample_size=32, norm_num_groups=16),
                                  lambda m, x: m(x, timestep=torch.tensor([10]), class_labels=torch.tensor([1])).sample), (1, 4, 32, 32))}


def ultralytics():
    from ultralytics import RTDETR, YOLO

    def network(name, kind):
        made = kind(name + ".yaml").model.float().eval().fuse()
        for module in made.modules():
            if hasattr(module, "export"):
                module.export, module.format = True, "onnx"
        return Calls(made, lambda m, x: m(x))
    names = ["yolov3-tiny", "yolov5n", "yolov8n", "yolov8n-seg", "yolov8n-pose", "yolov8n-obb", "yolov8n-cls", "yolov9t", "yolov10n", "yolo11n",
             "yolo11n-seg", "yolo12n", "yolo26n"]
    return {**{name: (lambda name=name: network(name, YOLO), (1, 3, 320, 320)) for name in names},
            "rtdetr": (lambda: network("rtdetr-resnet50", RTDETR), (1, 3, 320, 320))}


def torchaudio():
    from torchaudio import models as a, transforms as t
    wav2vec2 = {"extractor_mode": "group_norm", "extractor_conv_layer_config": [(128, 10, 5), (128, 3, 2), (128, 3, 2), (128, 2, 2)],
                "extractor_conv_bias": False, "encoder_embed_dim": 128, "encoder_projection_dropout": 0, "encoder_pos_conv_kernel": 128,
                "encoder_pos_conv_groups": 16, "encoder_num_layers": 3, "encoder_num_heads": 4, "encoder_attention_dropout": 0,
                "encoder_ff_interm_features": 256, "encoder_ff_interm_dropout": 0, "encoder_dropout": 0, "encoder_layer_norm_first": False,
                "encoder_layer_drop": 0, "aux_num_out": 32}
    return {"convtasnet": (lambda: a.ConvTasNet(enc_num_feats=128, msk_num_feats=64, msk_num_hidden_feats=128, msk_num_layers=5, msk_num_stacks=2),
                           (1, 1, 16000)),
            "conformer": (lambda: Calls(a.Conformer(80, 4, 128, 4, 31), lambda m, x: m(x, torch.tensor([100]))[0]), (1, 100, 80)),
            "wav2vec2": (lambda: Calls(a.wav2vec2_model(**wav2vec2), lambda m, x: m(x)[0]), (1, 16000)),
            "deepspeech": (lambda: a.DeepSpeech(80, 256, 29), (1, 1, 100, 80)), "wav2letter": (lambda: a.Wav2Letter(29, "mfcc", 40), (1, 40, 200)),
            "squim": (a.squim_objective_base, (1, 8000)), "mel": (lambda: t.MelSpectrogram(16000, 400, n_mels=64), (1, 16000)),
            "mfcc": (lambda: t.MFCC(16000, 40, melkwargs={"n_fft": 400, "n_mels": 64}), (1, 16000))}


def doctr():
    from doctr import models as d

    def network(make):
        made = make(pretrained=False, pretrained_backbone=False)
        made.exportable = True
        return made
    page, words = (1, 3, 256, 256), (2, 3, 32, 128)
    return {"dbnet": (lambda: network(d.detection.db_resnet50), page), "fast": (lambda: network(d.detection.fast_tiny), page),
            "crnn": (lambda: network(d.recognition.crnn_mobilenet_v3_small), words), "vitstr": (lambda: network(d.recognition.vitstr_small), words),
            "parseq": (lambda: network(d.recognition.parseq), words)}


def transformers():
    import transformers as t
    vit = {"hidden_size": 96, "num_attention_heads": 3, "intermediate_size": 192}
    stages = {"out_features": ["stage1", "stage2", "stage3", "stage4"], "depths": [1, 1, 2, 1]}
    both = lambda m, x: (lambda o: (o.logits, o.pred_boxes))(m(x))  # noqa: E731
    return {"hifigan": (lambda: t.SpeechT5HifiGan(t.SpeechT5HifiGanConfig(upsample_initial_channel=128)), (50, 80)),
            "encodec": (lambda: Calls(t.EncodecModel(t.EncodecConfig(num_filters=8, codebook_dim=32, hidden_size=32)), lambda m, x: m.decoder(m.encoder(x))),
                        (1, 1, 8000)),
            "sam": (lambda: Calls(t.SamVisionModel(t.SamVisionConfig(hidden_size=96, num_hidden_layers=3, num_attention_heads=3, image_size=256,
                                                                     global_attn_indexes=[2], output_channels=64)), lambda m, x: m(x)[0]), (1, 3, 256, 256)),
            "rtdetr": (lambda: Calls(t.RTDetrForObjectDetection(t.RTDetrConfig()), both), (1, 3, 256, 256)),
            "dfine": (lambda: Calls(t.DFineForObjectDetection(t.DFineConfig()), both), (1, 3, 256, 256)),
            "dpt": (lambda: Calls(t.DPTForDepthEstimation(t.DPTConfig(num_hidden_layers=4, image_size=128, backbone_out_indices=[0, 1, 2, 3],
                                                                      neck_hidden_sizes=[24, 48, 96, 96], fusion_hidden_size=32, **vit)),
                                  lambda m, x: m(x).predicted_depth), (1, 3, 128, 128)),
            "upernet": (lambda: Calls(t.UperNetForSemanticSegmentation(t.UperNetConfig(
                backbone_config=t.ConvNextConfig(hidden_sizes=[24, 48, 96, 192], **stages), hidden_size=64, auxiliary_in_channels=96,
                auxiliary_channels=32)), lambda m, x: m(x).logits), (1, 3, 128, 128)),
            "swin2sr": (lambda: Calls(t.Swin2SRForImageSuperResolution(t.Swin2SRConfig(embed_dim=48, depths=[2, 2], num_heads=[2, 2], image_size=64)),
                                      lambda m, x: m(x).reconstruction), (1, 3, 64, 64)),
            "patchtst": (lambda: Calls(t.PatchTSTForPrediction(t.PatchTSTConfig(num_input_channels=3, context_length=96, prediction_length=24)),
                                       lambda m, x: m(x).prediction_outputs), (1, 96, 3)),
            "timesformer": (lambda: Calls(t.TimesformerModel(t.TimesformerConfig(num_hidden_layers=2, image_size=64, num_frames=4, **vit)),
                                          lambda m, x: m(x)[0]), (1, 4, 3, 64, 64))}


LIBRARIES = (monai, smp, kornia, diffusers, ultralytics, torchaudio, doctr, transformers)


def export(network, x, how, path):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        if how == "dynamo":
            torch.onnx.export(network, (x,), path, dynamo=True, external_data=False, verbose=False)
        else:
            torch.onnx.export(network, (x,), path, dynamo=False, opset_version=17)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for library in LIBRARIES:
        if sys.argv[2:] and library.__name__ not in sys.argv[2:]:
            continue
        try:
            networks = library()
        except ImportError as error:
            print(f"{library.__name__}: not installed: {error}", flush=True)
            continue
        for name, (make, dims) in networks.items():
            torch.manual_seed(0)
            with contextlib.redirect_stdout(io.StringIO()):
                network = make().eval()
            for module in network.modules():  # so that no normalization does nothing
                if getattr(module, "running_var", None) is not None:
                    module.running_var.uniform_(0.5, 1.5)
                    module.running_mean.normal_(0, 0.1)
            x = (torch.rand(dims) - 0.45) / 0.25
            stem = folder / f"{library.__name__}_{name}"
            np.save(stem.with_name(stem.name + ".npy"), x.numpy())
            for how in ("dynamo", "script"):
                path = stem.with_name(f"{stem.name}_{how}.onnx")
                try:
                    export(network, x, how, path)
                    print(path, flush=True)
                except Exception as error:  # pylint: disable=broad-except  # of any kind: each exporter has its own
                    path.unlink(missing_ok=True)
                    print(f"{path}: not exported: {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)


if __name__ == "__main__":
    main()
