"""On which side logits differ from those of published ProCo code: `python -m benchmarks.agreement`, docs/migrating.md.

`Published` computes what the published class does, in its dtypes; it is written from a description of it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import suffice as sf
from suffice.experiments.published import miller
from suffice.truth import bessel

__all__ = ["Published", "exact_logits", "some_features", "trained"]

CLASSES, TEMPERATURE = 10, 0.1
# dimensions, and how far features are spread about their class
CASES = ((64, 1.0), (128, 1.0), (512, 1.0), (1024, 1.0), (128, 0.3), (64, 0.3), (16, 0.3))


def _log(nu: float, k: Tensor) -> Tensor:
    """log I - nu log k: the recurrence is in float64, and from an integer nu; k and nu log k are in k's own dtype."""
    log, _, _ = miller(int(nu), k.double())
    scaled = log - k.double()
    return scaled + k - nu * torch.log(k + 1e-20)


class _Estimator:
    """One epoch's means and counts: plain attributes, and so in no state_dict."""

    def __init__(self, dim: int, classes: int) -> None:
        self.dim, self.classes = dim, classes
        self.reset()

    def reset(self) -> None:
        """Random means, and nothing seen."""
        self.Ave = 0.9 * normalize(torch.randn(self.classes, self.dim), dim=1)
        self.Amount = torch.zeros(self.classes)

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Weighted means."""
        hot = nn.functional.one_hot(labels, self.classes).to(features)
        numbers = hot.sum(dim=0)
        averages = hot.T @ features / numbers.clamp_min(1)[:, None]
        weights = torch.nan_to_num(numbers / (numbers + self.Amount))[:, None]
        self.Ave = self.Ave * (1 - weights) + averages * weights
        self.Amount = self.Amount + numbers

    @property
    def kappa(self) -> Tensor:
        """pR/(1 - R^2), with the published cap."""
        length = torch.linalg.vector_norm(self.Ave, dim=1)
        found = self.dim * length / (1 - length**2)
        return torch.where((found > 1e5) | (found < 0), 1e5, found)


class Published(nn.Module):
    """Called with labels it sees the batch, called without it does not; logits come out, the epoch's hook is called."""

    def __init__(self, dim: int, temperature: float, classes: int) -> None:
        super().__init__()
        self.dim, self.temperature = dim, temperature
        self.estimator_old, self.estimator = _Estimator(dim, classes), _Estimator(dim, classes)

    def before_epoch(self) -> None:
        """The published hook."""
        self.estimator_old.Ave, self.estimator_old.Amount = self.estimator.Ave, self.estimator.Amount
        self.estimator.reset()

    def forward(self, features: Tensor, labels: Tensor | None = None) -> Tensor:
        """Logits."""
        if labels is not None:
            self.estimator_old.update(features.detach(), labels)
            self.estimator.update(features.detach(), labels)
        k, nu = self.estimator_old.kappa, self.dim / 2 - 1
        moved = k[:, None] * normalize(self.estimator_old.Ave, dim=1) + features[:, None] / self.temperature
        return _log(nu, torch.linalg.vector_norm(moved, dim=2)) - _log(nu, k)


def some_features(seed: int, dim: int, spread: float = 1.0, count: int = 64) -> tuple[Tensor, Tensor]:
    """Unit features about the same class centers, and labels."""
    centers = normalize(torch.randn(CLASSES, dim, generator=torch.Generator().manual_seed(1)), dim=1)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    return normalize(centers[labels] + spread * torch.randn(count, dim, generator=generator) / dim**0.5, dim=1), labels


def trained(dim: int, spread: float = 1.0) -> tuple[Published, sf.nn.ProCoLoss]:
    """Both after the same two epochs."""
    theirs, ours = Published(dim, TEMPERATURE, CLASSES), sf.nn.ProCoLoss(CLASSES, dim, temperature=TEMPERATURE)
    for epoch in range(2):
        theirs.before_epoch()
        ours.start_epoch()
        for step in range(4):
            features, labels = some_features(100 * epoch + step, dim, spread)
            theirs(features, labels)
            ours.logits(features, labels)
    return theirs, ours


def exact_logits(means: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """The logits in Arb, from means and features as they are stored, and the concentrations."""
    dim, wide = means.shape[1], means.double()
    length = torch.linalg.vector_norm(wide, dim=1)
    k = dim * length / ((1 - length) * (1 + length))
    moved = k[:, None] * normalize(wide, dim=1) + features.double()[:, None] / TEMPERATURE
    rows = [
        [float(bessel.potential_difference(dim / 2 - 1, r, one)) for r, one in zip(row, k.tolist(), strict=True)]
        for row in torch.linalg.vector_norm(moved, dim=2).tolist()
    ]
    return torch.tensor(rows, dtype=torch.float64), k


def main() -> None:
    """The table of docs/migrating.md."""
    torch.manual_seed(0)
    print("| p | concentrations | published | here |\n|---|---|---|---|")
    for dim, spread in CASES:
        theirs, ours = trained(dim, spread)
        features, _ = some_features(7, dim, spread, count=16)
        exact, k = exact_logits(ours.statistics.means[1], features)
        errors = [(logits(features).double() - exact).abs().max().item() for logits in (theirs, ours.logits)]
        print(f"| {dim} | {k.min():.0f} to {k.max():.0f} | {errors[0]:.1e} | {errors[1]:.1e} |")


if __name__ == "__main__":
    main()
