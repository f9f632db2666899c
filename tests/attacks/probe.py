"""The linear probe of the examples beside the same training in 60 digits: `python -m tests.attacks.probe FOLDER`.

Every bound at every step, and every certified prediction at the end, for all three ways of bounding errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import flint
import torch
from torch import Tensor, nn

import suffice as sf
from examples.datasets import load
from examples.linear_probe import patch_features
from suffice.nn.trajectory import Errors

__all__ = ["DecimalRun", "main"]

_WAYS: tuple[Errors, ...] = ("twin", "enclosed", "derived")
_BITS = 200
_RATE, _DECAY, _EPOCHS, _BATCH = 0.25, 1e-3, 20, 128


class DecimalRun:
    """Gradient descent from zero on the mean cross-entropy, by Arb's midpoints; rows of parameters are coordinates."""

    def __init__(self, features: Tensor, classes: int) -> None:
        flint.ctx.prec = _BITS
        self.classes, self.rows = classes, _rows(features)
        self.parameters = flint.arb_mat(features.shape[1] + 1, classes)

    def step(self, rows: list[int], labels: list[int]) -> None:
        """One step, to 60 digits: a step does not spread what was rounded before."""
        batch = flint.arb_mat([self.rows[row] for row in rows])
        slopes = batch.transpose() * flint.arb_mat(list(self._residuals(batch, labels)))
        decayed = slopes + self.parameters * flint.arb(_DECAY)
        self.parameters = _middle(self.parameters - decayed * flint.arb(_RATE))

    def _residuals(self, batch: flint.arb_mat, labels: list[int]) -> Iterator[list[flint.arb]]:
        scores = batch * self.parameters
        for row, label in enumerate(labels):
            some = [scores[row, j].mid() for j in range(self.classes)]
            peak = max(some, key=float)
            weights = [(score - peak).exp() for score in some]
            total = sum(weights, flint.arb(0))
            yield [((w / total - (j == label)) / len(labels)).mid() for j, w in enumerate(weights)]

    def distance(self, head: nn.Linear) -> float:
        """From a head's parameters."""
        theirs = torch.cat([head.weight, head.bias[:, None]], dim=1).detach().T.double().flatten().tolist()
        off = (ours - flint.arb(other) for ours, other in zip(self.parameters.entries(), theirs, strict=True))
        return float(sum((each * each for each in off), flint.arb(0)).sqrt())

    def predictions(self, features: Tensor) -> Tensor:
        """The class of the largest score."""
        scores = flint.arb_mat(_rows(features)) * self.parameters
        # differences from the first: near ties are decided in all digits
        found = [
            max(range(self.classes), key=lambda j, at=row: float(scores[at, j] - scores[at, 0]))  # type: ignore[misc]
            for row in range(len(features))
        ]
        return torch.tensor(found)


def _rows(features: Tensor) -> list[list[flint.arb]]:
    return [[*map(flint.arb, row), flint.arb(1)] for row in features.double().tolist()]


def _middle(matrix: flint.arb_mat) -> flint.arb_mat:
    return flint.arb_mat(matrix.nrows(), matrix.ncols(), [entry.mid() for entry in matrix.entries()])


def _run(dim: int, classes: int, errors: Errors) -> sf.nn.TrajectoryBound:
    head = nn.Linear(dim, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return sf.nn.TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=_RATE, weight_decay=_DECAY), errors=errors)


def main() -> None:
    """A line for each way: certified predictions, those that are wrong, the last distance and its bound."""
    torch.set_num_threads(1)
    data = load("cifar10-lt-1", Path(sys.argv[1]))
    features, test = patch_features(data)
    runs = {errors: _run(features.shape[1], data.num_classes, errors) for errors in _WAYS}
    exact, g = DecimalRun(features, data.num_classes), torch.Generator().manual_seed(0)
    quotients: dict[Errors, list[float]] = {errors: [] for errors in _WAYS}
    for _ in range(_EPOCHS):
        for rows in torch.randperm(len(features), generator=g).split(_BATCH):
            exact.step(rows.tolist(), data.train_labels[rows].tolist())
            for errors, run in runs.items():
                bound, actual = run.step(features[rows], data.train_labels[rows]), exact.distance(run.head)
                assert actual <= bound, (errors, run.steps, actual, bound)
                quotients[errors].append(bound / actual)
    truth = exact.predictions(test)
    for errors, run in runs.items():
        states = run.report(test, data.test_labels).states
        assert states is not None
        wrong = int(((truth != states.classes) & states.prediction).sum())
        over = torch.tensor(quotients[errors], dtype=torch.float64)
        print(  # noqa: T201
            f"{errors:9} {states.certified} of {len(truth)} certified, {wrong} wrongly; after {run.steps} steps E "
            f"{run.distance:.3g}, over actual {over[-1]:.5g}, median {over.median():.5g}, least {over.min():.9g}"
        )


if __name__ == "__main__":
    main()
