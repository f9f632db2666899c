"""Small residual networks and batch augmentations for the training examples."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["MLP", "Model", "ResNet", "augment"]


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.stride, self.extra = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.extra:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
        return functional.relu(y + shortcut)


class ResNet(nn.Module):
    """The CIFAR ResNet of depth 6 * blocks + 2 with parameter-free shortcuts: blocks = 3 is ResNet-20."""

    def __init__(self, channels: int = 3, blocks: int = 3, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        layers: list[nn.Module] = []
        inputs = width
        for stage in range(3):
            for block in range(blocks):
                outputs = width * 2**stage
                layers.append(_Block(inputs, outputs, 2 if stage and not block else 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.outputs = inputs
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch outputs"]:
        pooled: Tensor = self.layers(functional.relu(self.norm(self.stem(x)))).mean(dim=(2, 3))
        return pooled


class MLP(nn.Module):
    """Two hidden layers over flattened images, for very small ones."""

    def __init__(self, inputs: int, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.outputs = width

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch outputs"]:
        hidden: Tensor = self.layers(x)
        return hidden


class Model(nn.Module):
    """An encoder with a projection to the p features of the vMF loss and a linear classifier."""

    def __init__(self, encoder: ResNet | MLP, num_classes: int, dim: int, scale: float = 1.0) -> None:
        super().__init__()
        self.encoder, self.scale = encoder, scale
        self.classifier = nn.Linear(encoder.outputs, num_classes)
        self.projector = nn.Sequential(
            nn.Linear(encoder.outputs, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, dim)
        )

    def features(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch dim"]:
        return self.project(self.encoder(x))

    def project(self, hidden: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch dim"]:
        """Features from what the encoder gives; `scale` is their length in units of a fresh layer's."""
        projected: Tensor = self.projector(hidden)
        return self.scale * projected

    def classify(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        logits: Tensor = self.classifier(self.encoder(x))
        return logits


def augment(
    images: Float[Tensor, "batch channels height width"],
    generator: torch.Generator,
    *,
    flip: bool,
    shift: int = 4,
    turn: float = 0.0,
    jitter: float = 0.0,
    erase: int = 0,
) -> Float[Tensor, "batch channels height width"]:
    """Random shift, horizontal flip, small rotation and scaling, brightness and contrast, and one erased square."""
    count, _, height, width = images.shape

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    out = images
    if flip:
        flipped = uniform(0, 1) < 0.5
        out = torch.where(flipped[:, None, None, None], out.flip(3), out)
    if turn:
        angle, size = uniform(-turn, turn), uniform(0.85, 1.15)
        cosine, sine, zero = size * torch.cos(angle), size * torch.sin(angle), torch.zeros(count)
        rows = torch.stack([cosine, -sine, zero, sine, cosine, zero], dim=1).view(count, 2, 3)
        grid = functional.affine_grid(rows, list(images.shape), align_corners=False)
        out = functional.grid_sample(out, grid, align_corners=False, padding_mode="zeros")
    dy, dx = (torch.randint(0, 2 * shift + 1, (count,), generator=generator) for _ in range(2))
    padded = functional.pad(out, (shift,) * 4)
    row = dy[:, None] + torch.arange(height)
    column = dx[:, None] + torch.arange(width)
    batch = torch.arange(count)[:, None, None]
    out = padded[batch, :, row[:, :, None], column[:, None, :]].permute(0, 3, 1, 2)
    if jitter:
        gain, offset = uniform(1 - jitter, 1 + jitter), uniform(-jitter, jitter)
        out = out * gain[:, None, None, None] + offset[:, None, None, None]
    if erase:
        y, x = (torch.randint(0, size, (count, 1), generator=generator) for size in (height, width))
        hidden = ((torch.arange(height) - y).abs() < erase)[:, :, None] & ((torch.arange(width) - x).abs() < erase)[
            :, None, :
        ]
        out = out.masked_fill(hidden[:, None], 0.0)
    return out
