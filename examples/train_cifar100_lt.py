"""Train vMF models on CIFAR-100-LT: `python -m examples.train_cifar100_lt proco-128 --data FILE.npz --out runs/a`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import typer

from examples.training import Data, Setting, command

__all__ = ["SETTINGS", "load"]

SETTINGS = {
    "proco-128": Setting(method="proco", dim=128, temperature=0.1, epochs=40, capture=(2, 20, 40)),
    "patt-512": Setting(method="patt", dim=512, temperature=0.1, epochs=25, capture=(2, 12, 25)),
    "proco-1024": Setting(method="proco", dim=1024, temperature=0.07, epochs=25, capture=(2, 12, 25)),
    "contrastive-128": Setting(method="contrastive", dim=128, temperature=0.1, epochs=25, capture=(2, 12, 25)),
    "supervised-128": Setting(method="supervised", dim=128, temperature=1 / 16, epochs=25, capture=(2, 12, 25)),
}


def load(path: Path) -> Data:
    """CIFAR-100-LT from one npz: train_images, train_labels, test_images, test_labels as uint8 [n, 32, 32, 3]."""
    with np.load(path) as arrays:
        images = {part: torch.from_numpy(arrays[f"{part}_images"]) for part in ("train", "test")}
        labels = {part: torch.from_numpy(arrays[f"{part}_labels"].astype(np.int64)) for part in ("train", "test")}
    mean, std = torch.tensor([0.507, 0.487, 0.441]), torch.tensor([0.267, 0.256, 0.276])
    scaled = {part: ((x.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous() for part, x in images.items()}
    return Data(
        name="cifar100-lt",
        train_images=scaled["train"],
        train_labels=labels["train"],
        test_images=scaled["test"],
        test_labels=labels["test"],
        num_classes=100,
        views={
            "classifier": {"flip": True, "erase": 5},
            "contrastive": {"flip": True, "jitter": 0.3, "erase": 4},
        },
    )


if __name__ == "__main__":
    typer.run(command(SETTINGS, load))
