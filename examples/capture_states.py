"""Make the built-in collections from finished runs: `python -m examples.capture_states --help`.

Both rules were fixed before any tolerance was looked at. FIRST and SUPERVISED: from every run and captured epoch below,
so many training images and so many test images, drawn class by class (a class uniformly, then one of its images, none
twice), so that rare classes are there. Training images go through the augmentation of the run's contrastive view, test
images as they are; the network is in evaluation mode, in float32.

SECOND, the default: 40 states of every stratum, a stratum being a run, one of its captured epochs, and training or test
images. Of the runs of the first collection the strata of its earliest and its last epochs, and of each the first 40
states (they were drawn in random order, so they are such a draw themselves); of the newer runs on images all strata;
of the words, whose bank alone is larger than all of those, 400 training and 400 test words at the last epoch.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import track
from torch import Tensor, nn

import suffice as sf
from examples.datasets import Data, load
from examples.networks import Model, augment
from examples.runs import RUNS
from examples.train_words import CAPTURE, SETTING, Text, build_words, features_of, load_text
from examples.training import Setting, batches, build

__all__ = ["FIRST", "KEPT", "SECOND", "SUPERVISED", "WORDS", "Take", "capture", "draw", "write_beside"]

_SEED = 3407


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """From one run: these epochs, and of each so many states from training and as many from test images."""

    run: str
    epochs: tuple[int, ...]
    states: int


FIRST = (
    Take(run="cifar100-lt/proco-128", epochs=(2, 20, 40), states=128),
    Take(run="cifar100-lt/patt-512", epochs=(2, 12, 25), states=128),
    Take(run="cifar100-lt/proco-1024", epochs=(2, 12, 25), states=128),
    Take(run="cifar100-lt/contrastive-128", epochs=(2, 12, 25), states=128),
    Take(run="omniglot/proco-512", epochs=(2, 16), states=256),
    Take(run="omniglot/contrastive-128", epochs=(2, 16), states=256),
)
SUPERVISED = (Take(run="cifar100-lt/supervised-128", epochs=(2, 12, 25), states=64),)
# of the first collection: its own states, 40 of a stratum
KEPT = tuple(Take(run=take.run, epochs=(take.epochs[0], take.epochs[-1]), states=40) for take in FIRST)
_OLD = {take.run for take in (*FIRST, *SUPERVISED)}
SECOND = tuple(Take(run=run, epochs=setting.capture, states=40) for run, setting in RUNS.items() if run not in _OLD)
WORDS = Take(run="shakespeare/contrastive-128", epochs=CAPTURE[-1:], states=400)

_SPLITS = ("train", "test")
_WHERE = "docs/states.md says how; states of one run are not independent."
_PROVENANCE = {
    "first": "Learning states of small ResNets trained with suffice.nn on CIFAR-100-LT (imbalance 100) and on Omniglot "
    f"with rotations, at early, middle and last epochs, from training and test images. {_WHERE}",
    "second": "Learning states of small networks trained with suffice.nn on CIFAR-100-LT and its superclasses, "
    "long-tailed parts of a tenth of CIFAR-10, Omniglot's characters and alphabets, long-tailed digits, and words of "
    f"Shakespeare, at early, middle and last epochs, from training and test data. {_WHERE}",
}


def draw(labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` different rows, class by class: a class uniformly among those with rows left, then one of its rows."""
    order = torch.randperm(len(labels), generator=generator)
    queues: dict[int, list[int]] = {}
    for row in order.tolist():
        queues.setdefault(int(labels[row]), []).append(row)
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


def _add(
    writer: sf.CollectionWriter, states: sf.States, method: str, run: str, epoch: int, split: str, ids: list[str]
) -> None:
    dataset = run.split("/")[0]
    writer.add(states, source=method, dataset=f"{dataset}/{split}", run=run, step=epoch, ids=ids)


def take_images(
    writer: sf.CollectionWriter, takes: tuple[Take, ...], runs: Path, data: Path, *, start: int = 0
) -> None:
    """States of runs on images, from their checkpoints; `start` numbers the first, for its seed."""
    for number, take in enumerate(track(takes, description="capturing"), start):
        setting = RUNS[take.run]
        images = load(setting.dataset, data)
        for epoch in take.epochs:
            model, loss = load_run(runs / take.run.replace("/", "-"), setting, images, epoch)
            for offset, split in enumerate(_SPLITS):
                seed = _SEED + 1000 * number + 10 * epoch + offset
                states, rows = capture(model, loss, images, split, take.states, seed)
                ids = [f"{take.run}/{epoch}/{split}/{row}" for row in rows.tolist()]
                _add(writer, states, setting.method, take.run, epoch, split, ids)


def take_kept(writer: sf.CollectionWriter, first: sf.Collection) -> None:
    """The first states of the first collection's strata that are kept."""
    wanted = {(take.run, epoch): take.states for take in KEPT for epoch in take.epochs}
    for batch in first:
        count = wanted.get((batch.run[0], batch.step[0]))
        if count is not None:
            writer.copy(first, batch[:count])


@torch.no_grad()
def take_words(writer: sf.CollectionWriter, runs: Path, text: Text) -> None:
    """States of the words: features of contexts that the model reads, and the words that follow."""
    for epoch in WORDS.epochs:
        saved = torch.load(runs / WORDS.run.replace("/", "-") / f"epoch-{epoch:03d}.pt", weights_only=True)
        model, loss = build_words(text)
        model.load_state_dict(saved["model"])
        loss.load_state_dict(saved["loss"])
        for offset, (split, tokens) in enumerate(zip(_SPLITS, (text.train, text.test), strict=True)):
            features, labels = features_of(model, tokens)
            rows = draw(labels, WORDS.states, torch.Generator().manual_seed(_SEED + 10 * epoch + offset))
            ids = [f"{WORDS.run}/{epoch}/{split}/{row}" for row in rows.tolist()]
            _add(writer, loss.states(features[rows], labels[rows]), SETTING["method"], WORDS.run, epoch, split, ids)


def write_beside(first: sf.Collection, folder: Path, scratch: Path) -> None:
    """The first collection as a second manifest, first.json, in the folder of the second: shared states are there once.

    A stratum that is kept is its part in queries/ and then a part in first/ with the rest; any other is in first/
    whole. Numbers there begin at 1000, because an audit names its results after the files.
    """
    second = json.loads((folder / "manifest.json").read_text())["files"]
    kept = {batch.ids[0]: batch.part for batch in sf.open_collection(folder)}
    shared = [kept.get(batch.ids[0]) for batch in first]
    with sf.CollectionWriter(scratch, first.provenance) as writer:
        for batch, part in zip(first, shared, strict=True):
            writer.copy(first, batch[second[part]["rows"] if part else 0 :])
    record = json.loads((scratch / "manifest.json").read_text())
    written, files = record["files"], {}
    (folder / "first").mkdir()
    for number, (batch, part) in enumerate(zip(first, shared, strict=True)):
        bank = f"banks/{batch.bank}.safetensors"
        if part:
            files[part] = second[part]
        name = f"first/part-{1000 + number:05d}.parquet"
        files |= {bank: written[bank], name: written[f"queries/part-{number:05d}.parquet"]}
        shutil.copyfile(scratch / f"queries/part-{number:05d}.parquet", folder / name)
    (folder / "first.json").write_text(json.dumps({**record, "states": len(first), "files": files}, indent=1) + "\n")


def main(
    collection: Annotated[str, typer.Argument(help="first, second or supervised")],
    runs: Annotated[Path, typer.Option(help="folder with one folder a run: cifar100-lt-proco-128, ...")],
    data: Annotated[Path, typer.Option(help="folder with the image files, and shakespeare.txt")],
    out: Annotated[Path, typer.Option(help="the collection to write")],
) -> None:
    """Write one of the collections."""
    if collection not in ("first", "second", "supervised"):
        raise typer.BadParameter(f"Expected first, second or supervised, but got {collection}")
    provenance = _PROVENANCE.get(collection, _PROVENANCE["first"])
    with sf.CollectionWriter(out, provenance, directions=torch.float32) as writer:
        if collection == "second":
            take_kept(writer, sf.builtin_collection("first"))
            take_images(writer, SECOND, runs, data)
            take_words(writer, runs, load_text(data / "shakespeare.txt", SETTING["vocabulary"]))
        elif collection == "first":
            take_images(writer, FIRST, runs, data)
        else:
            take_images(writer, SUPERVISED, runs, data, start=len(FIRST))


if __name__ == "__main__":
    typer.run(main)
