"""The image sets of the training examples, each from files in one folder: `load("cifar10-lt-100", folder)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["DATASETS", "SUPERCLASSES", "Data", "load", "long_tail"]

# Of the twenty drawings of an Omniglot character, the last five are held out.
_HELD_OUT = 5
_LARGEST = {"cifar10": 500, "digits": 130}
_SEED = 3407

# the twenty superclasses of CIFAR-100 (Krizhevsky 2009)
SUPERCLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Images in [channels, height, width], scaled; the augmentation that suits them; classes by size."""

    name: str
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    num_classes: int
    views: dict[str, dict[str, Any]]

    @property
    def class_counts(self) -> Tensor:
        """Training images of each class."""
        return torch.bincount(self.train_labels, minlength=self.num_classes)


def long_tail(labels: Tensor, largest: int, imbalance: float) -> Tensor:
    """Rows of a long-tailed part: class c of C keeps largest * imbalance^(-c/(C - 1)) rows (all it has, if fewer)."""
    generator = torch.Generator().manual_seed(_SEED)
    classes = int(labels.max()) + 1
    kept = []
    for c in range(classes):
        rows = (labels == c).nonzero().squeeze(1)
        count = round(largest * imbalance ** (-c / (classes - 1)))
        kept.append(rows[torch.randperm(len(rows), generator=generator)[:count]])
    return torch.cat(kept).sort().values


def _cifar(path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], list[str]]:
    """Images and labels of both parts, and the names of the classes."""
    with np.load(path) as arrays:
        images = {part: torch.from_numpy(arrays[f"{part}_images"]) for part in ("train", "test")}
        labels = {part: torch.from_numpy(arrays[f"{part}_labels"].astype(np.int64)) for part in ("train", "test")}
        names = [str(name) for name in arrays["class_names"]]
    mean, std = torch.tensor([0.507, 0.487, 0.441]), torch.tensor([0.267, 0.256, 0.276])
    scaled = {part: ((x.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous() for part, x in images.items()}
    return scaled, labels, names


def _cifar_data(name: str, images: dict[str, Tensor], labels: dict[str, Tensor], num_classes: int) -> Data:
    return Data(
        name=name,
        train_images=images["train"],
        train_labels=labels["train"],
        test_images=images["test"],
        test_labels=labels["test"],
        num_classes=num_classes,
        views={
            "classifier": {"flip": True, "erase": 5},
            "contrastive": {"flip": True, "jitter": 0.3, "erase": 4},
        },
    )


def _cifar100(folder: Path) -> Data:
    images, labels, _ = _cifar(folder / "cifar100_lt.npz")
    return _cifar_data("cifar100-lt", images, labels, 100)


def _cifar20(folder: Path) -> Data:
    """CIFAR-100-LT with its twenty superclasses as labels."""
    images, labels, names = _cifar(folder / "cifar100_lt.npz")
    group = {name: number for number, members in enumerate(SUPERCLASSES.values()) for name in members.split()}
    coarse = torch.tensor([group[name] for name in names])
    return _cifar_data("cifar20-lt", images, {part: coarse[x] for part, x in labels.items()}, len(SUPERCLASSES))


def _cifar10(imbalance: int) -> Callable[[Path], Data]:
    """CIFAR-10-LT from a tenth of CIFAR-10: at most 500 images in the largest class."""

    def read(folder: Path) -> Data:
        images, labels, _ = _cifar(folder / "cifar10_part.npz")
        rows = long_tail(labels["train"], _LARGEST["cifar10"], imbalance)
        images["train"], labels["train"] = images["train"][rows], labels["train"][rows]
        return _cifar_data(f"cifar10-lt-{imbalance}", images, labels, 10)

    return read


def _omniglot(folder: Path) -> tuple[Tensor, Tensor, Tensor, list[str]]:
    """Scaled drawings, their characters, which are held out, and the characters' names ("Alphabet/character")."""
    with np.load(folder / "omniglot_small.npz") as arrays:
        images = torch.from_numpy(arrays["images"]).float() / 255
        labels = torch.from_numpy(arrays["labels"].astype(np.int64))
        names = [str(name) for name in arrays["class_names"]]
    rank = torch.zeros_like(labels)
    for character in range(len(names)):
        rows = (labels == character).nonzero().squeeze(1)
        rank[rows] = torch.arange(len(rows)) - len(rows)
    return images, labels, rank >= -_HELD_OUT, names


def _drawings(name: str, images: Tensor, labels: Tensor, held_out: Tensor) -> Data:
    scaled = ((images - 0.1) / 0.25)[:, None]
    view = {"flip": False, "shift": 2, "turn": 0.2}
    return Data(
        name=name,
        train_images=scaled[~held_out].contiguous(),
        train_labels=labels[~held_out],
        test_images=scaled[held_out].contiguous(),
        test_labels=labels[held_out],
        num_classes=int(labels.max()) + 1,
        views={"classifier": view, "contrastive": view},
    )


def _rotations(folder: Path) -> Data:
    """Omniglot's characters; each of four rotations is a class of its own."""
    images, labels, held_out, names = _omniglot(folder)
    turned = torch.cat([torch.rot90(images, turn, dims=(1, 2)) for turn in range(4)])
    classes = torch.cat([labels + turn * len(names) for turn in range(4)])
    return _drawings("omniglot-rotations", turned, classes, held_out.repeat(4))


def _alphabets(folder: Path) -> Data:
    """Omniglot's alphabets as classes: the same drawings, each labelled with the alphabet of its character."""
    images, labels, held_out, names = _omniglot(folder)
    alphabets = sorted({name.split("/")[0] for name in names})
    alphabet = torch.tensor([alphabets.index(name.split("/")[0]) for name in names])
    return _drawings("omniglot-alphabets", images, alphabet[labels], held_out)


def _digits(_: Path) -> Data:
    """scikit-learn's digits, 8 x 8, no file needed: every fourth held out, the rest long-tailed, imbalance 100."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.3) / 0.38
    labels = torch.tensor(digits.target)
    held_out = torch.arange(len(labels)) % 4 == 0
    rows = (~held_out).nonzero().squeeze(1)
    rows = rows[long_tail(labels[rows], _LARGEST["digits"], 100)]
    view = {"flip": False, "shift": 0}
    return Data(
        name="digits-lt",
        train_images=images[rows],
        train_labels=labels[rows],
        test_images=images[held_out],
        test_labels=labels[held_out],
        num_classes=10,
        views={"classifier": view, "contrastive": view},
    )


DATASETS: dict[str, Callable[[Path], Data]] = {
    "cifar100-lt": _cifar100,
    "cifar20-lt": _cifar20,
    **{f"cifar10-lt-{imbalance}": _cifar10(imbalance) for imbalance in (1, 10, 100)},
    "omniglot": _rotations,
    "omniglot-alphabets": _alphabets,
    "digits-lt": _digits,
}


def load(name: str, folder: Path) -> Data:
    """One of `DATASETS`, from the files in a folder."""
    return DATASETS[name](folder)
