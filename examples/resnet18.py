"""ResNet-18, written out in plain `nn.Module` code."""

from torch import Tensor, nn


class Residual(nn.Module):
    """Two 3x3 convolutions and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, and a classifier."""

    def __init__(self, blocks: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, padding=1),
        )
        self.stages = nn.ModuleList()
        width = 64
        for stage, count in enumerate(blocks):
            outputs = 64 * 2**stage
            layers: list[nn.Module] = []
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Residual(width, outputs, stride))
                width = outputs
            self.stages.append(nn.Sequential(*layers))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for stage in self.stages:
            x = stage(x)
        return self.classify(self.pool(x).flatten(1))


def resnet18(num_classes: int = 10) -> ResNet:
    """Build a ResNet-18 with random weights for images of shape (batch, 3, height, width)."""
    return ResNet((2, 2, 2, 2), num_classes)
