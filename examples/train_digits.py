"""Train ProCo on scikit-learn's digits in a minute: `python -m examples.train_digits --out runs/digits`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from torch import nn

import suffice as sf

__all__ = ["train_digits"]


def train_digits(
    out: Path, *, epochs: int = 12, dim: int = 64, seed: int = 0, adaptive: float | None = None
) -> tuple[float, Counter[str]]:
    """Train, save states of the first and the last epoch under `out`; the test accuracy, and evaluations by rung.

    With `adaptive`, a budget on loss and gradient, every sample is evaluated on the cheapest rung that is certified to
    keep it; evaluations that none was certified for are counted under "not certified".
    """
    from sklearn.datasets import load_digits

    torch.manual_seed(seed)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    test = torch.arange(len(labels)) % 4 == 0
    encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, dim))
    loss = sf.nn.ProCoLoss(
        10,
        dim,
        temperature=0.1,
        class_counts=labels[~test].bincount(),
        adaptive=None if adaptive is None else sf.Budgets(loss=adaptive, gradient=adaptive),
    )
    rungs: Counter[str] = Counter()
    monitor = sf.nn.ToleranceMonitor(loss, sf.Budgets(loss=1e-5, gradient=1e-5), every=50)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    rows = (~test).nonzero().squeeze(1)
    console = Console()
    with sf.CollectionWriter(out, "ProCo on scikit-learn's digits") as writer:
        for epoch in range(epochs):
            for part in rows[torch.randperm(len(rows))].split(64):
                features = encoder(images[part])
                value = loss(features, labels[part])
                optimizer.zero_grad()
                value.backward()
                if loss.last is not None:
                    rungs.update(np.where(loss.last.certified.numpy(), loss.last.rung, "not certified").tolist())
                optimizer.step()
                report = monitor(features, labels[part])
                if report:
                    console.print(f"epoch {epoch + 1}, loss {float(value.detach()):.3f}", report)
            loss.statistics.advance()
            if epoch in (0, epochs - 1):
                with torch.no_grad():
                    states = loss.states(encoder(images[test]), labels[test])
                writer.add(states, source="proco", dataset="digits/test", run="digits", step=epoch + 1)
    loss.eval()
    with torch.no_grad():
        right = loss.logits(encoder(images[test])).argmax(dim=1) == labels[test]
    return float(right.double().mean()), rungs


def main(
    out: Annotated[Path, typer.Option(help="the collection to write")],
    epochs: int = 12,
    adaptive: Annotated[float | None, typer.Option(help="certify every evaluation to this budget")] = None,
) -> None:
    """Train on digits and say how well it went."""
    accuracy, rungs = train_digits(out, epochs=epochs, adaptive=adaptive)
    for name, count in rungs.most_common():
        Console().print(f"{name}: {count} evaluations, {100 * count / rungs.total():.1f}%")
    Console().print(f"test accuracy {accuracy:.3f}; states in {out}, see `suffice states info {out}`")


if __name__ == "__main__":
    typer.run(main)
