"""Train vMF models on Omniglot: `python -m examples.train_omniglot proco-512 --data FILE.npz --out runs/b`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import typer

from examples.training import Data, Setting, command

__all__ = ["SETTINGS", "load"]

SETTINGS = {
    "proco-512": Setting(method="proco", dim=512, temperature=0.1, epochs=16, capture=(2, 8, 16)),
    "contrastive-128": Setting(method="contrastive", dim=128, temperature=0.05, epochs=16, capture=(2, 8, 16)),
}
# Of the twenty drawings of a character, the last five are held out.
_HELD_OUT = 5


def load(path: Path) -> Data:
    """Omniglot from one npz: images uint8 [n, 28, 28] and labels; each of four rotations is a class of its own."""
    with np.load(path) as arrays:
        images = torch.from_numpy(arrays["images"]).float() / 255
        labels = torch.from_numpy(arrays["labels"].astype(np.int64))
    characters = int(labels.max()) + 1
    rank = torch.zeros_like(labels)
    for character in range(characters):
        rows = (labels == character).nonzero().squeeze(1)
        rank[rows] = torch.arange(len(rows)) - len(rows)
    held_out = rank >= -_HELD_OUT
    turned = torch.cat([torch.rot90(images, turn, dims=(1, 2)) for turn in range(4)])[:, None]
    classes = torch.cat([labels + turn * characters for turn in range(4)])
    scaled = (turned - 0.1) / 0.25
    held_out = held_out.repeat(4)
    return Data(
        name="omniglot-rotations",
        train_images=scaled[~held_out].contiguous(),
        train_labels=classes[~held_out],
        test_images=scaled[held_out].contiguous(),
        test_labels=classes[held_out],
        num_classes=4 * characters,
        views={
            "classifier": {"flip": False, "shift": 2, "turn": 0.2},
            "contrastive": {"flip": False, "shift": 2, "turn": 0.2},
        },
    )


if __name__ == "__main__":
    typer.run(command(SETTINGS, load))
