"""The networks that are trained here: torchvision's, and two U-Nets as segmentation uses them."""
import torch
from torch import nn


class UNet(nn.Module):
    """Encoder and decoder of `depth` levels with skips; 2D or 3D."""

    def __init__(self, dims, channels, base, depth, classes):
        super().__init__()
        conv = {2: nn.Conv2d, 3: nn.Conv3d}[dims]
        norm = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims]
        up = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[dims]
        self.pool = {2: nn.MaxPool2d, 3: nn.MaxPool3d}[dims](2)

        def block(c, k):
            return nn.Sequential(conv(c, k, 3, padding=1, bias=False), norm(k), nn.ReLU(inplace=True),
                                 conv(k, k, 3, padding=1, bias=False), norm(k), nn.ReLU(inplace=True))

        widths = [base << level for level in range(depth)]
        self.down = nn.ModuleList(block(c, k) for c, k in zip([channels] + widths, widths))
        self.ups = nn.ModuleList(up(2 * k, k, 2, stride=2) for k in reversed(widths[:-1]))
        self.merge = nn.ModuleList(block(2 * k, k) for k in reversed(widths[:-1]))
        self.head = conv(base, classes, 1)

    def forward(self, x):
        skips = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        for up, merge, skip in zip(self.ups, self.merge, reversed(skips[:-1])):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


def classifier(name, batch):
    import torchvision
    return lambda: (getattr(torchvision.models, name)(), (batch, 3, 224, 224), (batch,), 1000)


# Name: makes the model, the shapes of a batch and of its labels, and the number of classes.
NETWORKS = {
    "resnet50": classifier("resnet50", 128),
    "resnext50": classifier("resnext50_32x4d", 128),
    "mobilenet_v2": classifier("mobilenet_v2", 256),
    "efficientnet_b0": classifier("efficientnet_b0", 128),
    "convnext_tiny": classifier("convnext_tiny", 128),
    "unet": lambda: (UNet(2, 3, 64, 5, 21), (16, 3, 256, 256), (16, 256, 256), 21),
    "unet3d": lambda: (UNet(3, 1, 32, 4, 3), (4, 1, 96, 96, 96), (4, 96, 96, 96), 3),
}
