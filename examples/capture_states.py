"""Make the built-in collections from finished runs: `python -m examples.capture_states --help`.

The rule was fixed before any tolerance was looked at: from every run and captured epoch below, so many training images
and so many test images, drawn class by class (a class uniformly, then one of its images, none twice), so that rare
classes are there. Training images go through the augmentation of the run's contrastive view, test images as they are;
the network is in evaluation mode, in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import track
from torch import Tensor, nn

import suffice as sf
from examples import train_cifar100_lt, train_omniglot
from examples.networks import Model, augment
from examples.training import Data, Setting, batches, build

__all__ = ["RULE", "capture"]

_SEED = 3407


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """From one run: these epochs, and of each so many states from training and as many from test images."""

    collection: str
    dataset: str
    setting: str
    epochs: tuple[int, ...]
    states: int


RULE = (
    Take(collection="contrastive", dataset="cifar100-lt", setting="proco-128", epochs=(2, 20, 40), states=128),
    Take(collection="contrastive", dataset="cifar100-lt", setting="patt-512", epochs=(2, 12, 25), states=128),
    Take(collection="contrastive", dataset="cifar100-lt", setting="proco-1024", epochs=(2, 12, 25), states=128),
    Take(collection="contrastive", dataset="cifar100-lt", setting="contrastive-128", epochs=(2, 12, 25), states=128),
    Take(collection="contrastive", dataset="omniglot", setting="proco-512", epochs=(2, 16), states=256),
    Take(collection="contrastive", dataset="omniglot", setting="contrastive-128", epochs=(2, 16), states=256),
    Take(collection="supervised", dataset="cifar100-lt", setting="supervised-128", epochs=(2, 12, 25), states=64),
)

_PROVENANCE = (
    "Learning states of small ResNets trained with suffice.nn on CIFAR-100-LT (imbalance 100) and on Omniglot with "
    "rotations, at early, middle and last epochs, from training and test images. docs/states.md says how; states of "
    "one run are not independent."
)


def draw(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` different rows, class by class: a class uniformly among those with rows left, then one of its rows."""
    order = torch.randperm(len(labels), generator=generator)
    queues = {int(c): order[labels[order] == c].tolist() for c in labels.unique()}
    rows: list[int] = []
    while len(rows) < count:
        classes = sorted(c for c, queue in queues.items() if queue)
        pick = classes[int(torch.randint(0, len(classes), (), generator=generator))]
        rows.append(queues[pick].pop())
    return torch.tensor(rows)


def load_run(folder: Path, setting: Setting, data: Data, epoch: int) -> tuple[Model, nn.Module]:
    """The model and the loss of a checkpoint, in evaluation mode."""
    saved = torch.load(folder / f"epoch-{epoch:03d}.pt", weights_only=True)
    model, loss, _ = build(setting, data)
    model.load_state_dict(saved["model"])
    loss.load_state_dict(saved["loss"])
    return model.eval(), loss.eval()


@torch.no_grad()
def capture(model: Model, loss: nn.Module, data: Data, split: str, count: int, seed: int) -> tuple[sf.States, Tensor]:
    """States of `count` images of a split, and which images they are."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = (
        (data.train_images, data.train_labels) if split == "train" else (data.test_images, data.test_labels)
    )
    rows = draw(labels, count, generator)
    chosen = images[rows]
    if split == "train":
        chosen = augment(chosen, generator, **data.views["contrastive"])
    features = torch.cat([model.features(part) for part, _ in batches(chosen, labels[rows])])
    return loss.states(features, labels[rows]), rows  # type: ignore[operator]


def main(
    runs: Annotated[Path, typer.Option(help="folder with one folder a run: cifar-proco-128, omniglot-proco-512, ...")],
    data: Annotated[Path, typer.Option(help="folder with cifar100_lt.npz and omniglot_small.npz")],
    out: Annotated[Path, typer.Option(help="folder for the collections")],
) -> None:
    """Write both collections."""
    datasets = {
        "cifar100-lt": (train_cifar100_lt.load(data / "cifar100_lt.npz"), train_cifar100_lt.SETTINGS, "cifar"),
        "omniglot": (train_omniglot.load(data / "omniglot_small.npz"), train_omniglot.SETTINGS, "omniglot"),
    }
    names = sorted({take.collection for take in RULE})
    writers = {name: sf.CollectionWriter(out / name, _PROVENANCE, directions=torch.float32) for name in names}
    for number, take in enumerate(track(RULE, description="capturing")):
        images, settings, prefix = datasets[take.dataset]
        setting = settings[take.setting]
        for epoch in take.epochs:
            model, loss = load_run(runs / f"{prefix}-{take.setting}", setting, images, epoch)
            for offset, split in enumerate(("train", "test")):
                states, rows = capture(
                    model, loss, images, split, take.states, _SEED + 1000 * number + 10 * epoch + offset
                )
                run = f"{take.dataset}/{take.setting}"
                writers[take.collection].add(
                    states,
                    source=setting.method,
                    dataset=f"{take.dataset}/{split}",
                    run=run,
                    step=epoch,
                    ids=[f"{run}/{epoch}/{split}/{row}" for row in rows.tolist()],
                )
    for writer in writers.values():
        writer.close()


if __name__ == "__main__":
    typer.run(main)
