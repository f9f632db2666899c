"""Every run on images behind the built-in states, and the command that trains one: `python -m examples.runs --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from examples.datasets import load
from examples.training import Setting, train

__all__ = ["RUNS"]


def _small(
    dataset: str, method: str, dim: int, temperature: float, epochs: int, *, batch: int = 64, blocks: int = 3
) -> Setting:
    """A run on a small set: smaller batches, the learning rate with them; early, middle and last epoch captured."""
    return Setting(
        dataset=dataset,
        method=method,
        dim=dim,
        temperature=temperature,
        epochs=epochs,
        capture=(2, epochs // 2, epochs),
        learning_rate=0.2 * batch / 256,
        batch=batch,
        blocks=blocks,
    )


def _digits(method: str, dim: int, temperature: float) -> Setting:
    """A perceptron on images of 8 x 8."""
    return Setting(
        dataset="digits-lt",
        method=method,
        dim=dim,
        temperature=temperature,
        epochs=60,
        capture=(2, 30, 60),
        learning_rate=1e-3,
        batch=64,
        blocks=0,
    )


# by "dataset/name"; the first seven are those of the first collection
RUNS = {
    "cifar100-lt/proco-128": Setting(
        dataset="cifar100-lt", method="proco", dim=128, temperature=0.1, epochs=40, capture=(2, 20, 40)
    ),
    "cifar100-lt/patt-512": Setting(
        dataset="cifar100-lt", method="patt", dim=512, temperature=0.1, epochs=25, capture=(2, 12, 25)
    ),
    "cifar100-lt/proco-1024": Setting(
        dataset="cifar100-lt", method="proco", dim=1024, temperature=0.07, epochs=25, capture=(2, 12, 25)
    ),
    "cifar100-lt/contrastive-128": Setting(
        dataset="cifar100-lt", method="contrastive", dim=128, temperature=0.1, epochs=25, capture=(2, 12, 25)
    ),
    "cifar100-lt/supervised-128": Setting(
        dataset="cifar100-lt", method="supervised", dim=128, temperature=1 / 16, epochs=25, capture=(2, 12, 25)
    ),
    "omniglot/proco-512": Setting(
        dataset="omniglot", method="proco", dim=512, temperature=0.1, epochs=16, capture=(2, 8, 16)
    ),
    "omniglot/contrastive-128": Setting(
        dataset="omniglot", method="contrastive", dim=128, temperature=0.05, epochs=16, capture=(2, 8, 16)
    ),
    "cifar10-lt-100/proco-128": _small("cifar10-lt-100", "proco", 128, 0.05, 60),
    "cifar10-lt-100/proco-512": _small("cifar10-lt-100", "proco", 512, 0.1, 60),
    "cifar10-lt-100/contrastive-128": _small("cifar10-lt-100", "contrastive", 128, 0.03, 60),
    "cifar10-lt-10/proco-128": _small("cifar10-lt-10", "proco", 128, 0.07, 50, blocks=1),
    "cifar10-lt-10/patt-512": _small("cifar10-lt-10", "patt", 512, 0.1, 50, blocks=1),
    "cifar10-lt-1/contrastive-512": _small("cifar10-lt-1", "contrastive", 512, 0.05, 40, batch=128, blocks=1),
    "cifar10-lt-1/proco-1024": _small("cifar10-lt-1", "proco", 1024, 0.07, 40, batch=128, blocks=1),
    "cifar20-lt/proco-128": _small("cifar20-lt", "proco", 128, 0.05, 25, batch=256, blocks=1),
    "cifar20-lt/contrastive-512": _small("cifar20-lt", "contrastive", 512, 0.1, 25, batch=256, blocks=1),
    "omniglot-alphabets/contrastive-128": _small("omniglot-alphabets", "contrastive", 128, 0.07, 30, batch=128),
    "omniglot-alphabets/proco-512": _small("omniglot-alphabets", "proco", 512, 0.1, 30, batch=128, blocks=1),
    "digits-lt/contrastive-64": _digits("contrastive", 64, 0.05),
    "digits-lt/proco-128": _digits("proco", 128, 0.03),
    "digits-lt/contrastive-512": _digits("contrastive", 512, 0.1),
}


def main(
    run: Annotated[str, typer.Argument(help="a run; a wrong one is answered with the list")],
    data: Annotated[Path, typer.Option(help="folder with cifar100_lt.npz, cifar10_part.npz, omniglot_small.npz")],
    out: Annotated[Path, typer.Option(help="folder of runs: log and checkpoints go to a folder in it")],
    resume: Annotated[bool, typer.Option(help="go on from the last checkpoint")] = False,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves torch's choice")] = 0,
    bfloat16: Annotated[bool, typer.Option(help="the encoder in bfloat16 autocast")] = False,
) -> None:
    """Train one run."""
    if run not in RUNS:
        raise typer.BadParameter(f"Expected one of {', '.join(RUNS)}, but got {run}")
    if threads:
        torch.set_num_threads(threads)
    setting = RUNS[run]
    train(setting, load(setting.dataset, data), out / run.replace("/", "-"), resume=resume, bfloat16=bfloat16)


if __name__ == "__main__":
    typer.run(main)
