"""A linear probe on frozen features, trained in float32 with its certificate: `python -m examples.linear_probe`.

With `--data FOLDER --dataset cifar10-lt-1` it is about CIFAR images; without, about scikit-learn's digits. The features
are those of filters that are patches of the training images themselves, rectified and averaged: fixed numbers that
training does not touch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor, nn

import suffice as sf
from examples.datasets import Data, load
from suffice.nn.trajectory import Errors

__all__ = ["patch_features", "probe"]


def patch_features(data: Data, *, filters: int = 128, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Responses to patches of training images, averaged over four quarters; unit length; of both parts."""
    g = torch.Generator().manual_seed(seed)
    images = data.train_images
    size = min(6, images.shape[2] // 2)
    rows = torch.randint(0, len(images), (filters,), generator=g)
    at = torch.randint(0, images.shape[2] - size + 1, (filters, 2), generator=g).tolist()
    patches = torch.stack([images[row, :, y : y + size, x : x + size] for row, (y, x) in zip(rows, at, strict=True)])
    patches = patches - patches.mean(dim=(1, 2, 3), keepdim=True)
    patches = nn.functional.normalize(patches.flatten(1), dim=1).view_as(patches)

    def of(part: Tensor) -> Tensor:
        found = [
            nn.functional.adaptive_avg_pool2d(nn.functional.conv2d(some, patches).relu(), 2).flatten(1)
            for some in part.split(256)
        ]
        return nn.functional.normalize(torch.cat(found), dim=1)

    train, test = of(images), of(data.test_images)
    middle = train.mean(dim=0)
    return 8 * (train - middle), 8 * (test - middle)


def probe(
    data: Data, *, epochs: int = 20, rate: float = 0.25, decay: float = 1e-3, errors: Errors = "twin", seed: int = 0
) -> tuple[sf.nn.TrajectoryReport, float, int]:
    """Train; the report on the test images, the accuracy, and how many certified predictions a float64 run disputes."""
    features, test = patch_features(data, seed=seed)
    head = nn.Linear(features.shape[1], data.num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    run = sf.nn.TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=rate, weight_decay=decay), errors=errors)
    # the same run by torch's own loss and autograd, in float64: nothing of it is the certificate's
    other = nn.Linear(features.shape[1], data.num_classes, dtype=torch.float64)
    other.load_state_dict(head.state_dict())
    plain = torch.optim.SGD(other.parameters(), lr=rate, weight_decay=decay)
    g = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(features), generator=g).split(128):
            run.step(features[rows], data.train_labels[rows])
            plain.zero_grad()
            nn.functional.cross_entropy(other(features[rows].double()), data.train_labels[rows]).backward()
            plain.step()
    report = run.report(test, data.test_labels)
    assert report.states is not None
    with torch.no_grad():
        elsewhere = other(test.double()).argmax(dim=1)
    disputed = int(((elsewhere != report.states.classes) & report.states.prediction).sum())
    right = float((report.states.classes == data.test_labels).double().mean())
    return report, right, disputed


def main(
    data: Annotated[Path, typer.Option(help="the folder with the data sets' files; digits need none")] = Path(),
    dataset: str = "digits-lt",
    epochs: int = 20,
    errors: Annotated[str, typer.Option(help="twin, enclosed or derived")] = "twin",
) -> None:
    """Train a probe in float32 and say how far it is from the same training in exact arithmetic."""
    if errors not in ("twin", "enclosed", "derived"):
        raise typer.BadParameter(f"Expected errors in ['derived', 'enclosed', 'twin'], but got {errors!r}")
    chosen: Errors = "twin" if errors == "twin" else "enclosed" if errors == "enclosed" else "derived"
    report, accuracy, disputed = probe(load(dataset, data), epochs=epochs, errors=chosen)
    console = Console()
    console.print(str(report))
    console.print(f"test accuracy {accuracy:.3f}; {disputed} certified predictions differ from a run in float64")


if __name__ == "__main__":
    typer.run(main)
