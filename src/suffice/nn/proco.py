"""The vMF contrastive loss of ProCo, and of PATT's contrastive term, right where the published recurrence is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from suffice.budgets import Budgets
from suffice.certificates.adaptive import Adaptive, adaptive
from suffice.nn import primitives
from suffice.nn.statistics import IGNORED, ClassStatistics
from suffice.states import States

__all__ = ["ProCoLoss"]


class ProCoLoss(nn.Module):
    """Cross-entropy of q_j = Phi(|k_j mu_j + f/tau|) - Phi(k_j) + log prior_j over running class statistics.

    Phi is the vMF log-normaliser's part log I_nu(x) - nu log x, nu = p/2 - 1, for any p >= 2 and any k: there is no
    recurrence and nothing is clipped. Features are normalised here. `class_counts` give the priors of logit adjustment
    (None: uniform). In training mode each call first updates the statistics with the batch, as published; call
    `loss.statistics.advance()` at the end of an epoch. Works under autocast (in float32 at least), under torch.compile
    and in float64. Gradients flow to the features only.

    With `adaptive=Budgets(...)` each sample is evaluated on the cheapest rung of the precision ladder that is certified
    to keep the budgets, rounding included (`sf.adaptive`); `loss.last` then tells which, and what was not certified.

    >>> loss = ProCoLoss(num_classes=10, dim=128, temperature=0.1)
    >>> features = torch.randn(4, 128, requires_grad=True)
    >>> loss(features, torch.tensor([0, 1, 2, 3])).backward()
    """

    biases: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        temperature: float = 0.1,
        class_counts: Sequence[float] | Tensor | None = None,
        estimate: str = "published",
        cap: float | None = 1e5,
        seed: int = 0,
        order: int | None = None,
        dtype: torch.dtype = torch.float32,
        adaptive: Budgets | None = None,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"Expected temperature > 0, but got {temperature}")
        self.temperature, self.order, self.adaptive = float(temperature), order, adaptive
        # what the last adaptive evaluation found: rungs, bounds and verdicts of the batch
        self.last: Adaptive | None = None
        self.nu = dim / 2 - 1
        self.statistics = ClassStatistics(num_classes, dim, estimate=estimate, cap=cap, seed=seed, dtype=dtype)
        counts = torch.ones(num_classes) if class_counts is None else torch.as_tensor(class_counts)
        counts = counts.to(torch.float64)
        if counts.shape != (num_classes,):
            raise ValueError(f"Expected {num_classes} class_counts > 0, but got shape {tuple(counts.shape)}")
        for wrong in (~((counts > 0) & torch.isfinite(counts))).nonzero()[:1, 0].tolist():
            raise ValueError(
                f"Expected {num_classes} class_counts > 0, but class {wrong} has {counts[wrong].item():g}; "
                "leave the class out, or give it a count of 1"
            )
        self.register_buffer("biases", torch.log(counts / counts.sum()).to(dtype))

    def forward(self, features: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"]) -> Tensor:
        """The mean loss of a batch; in training mode the statistics are updated first.

        Rows of label -100 are left out of the mean and of the statistics, as torch's losses do. A batch without any
        other row has a loss of 0, whose gradient is zero.
        """
        with torch.autocast(features.device.type, enabled=False):
            unit, labels = self._unit(features), labels.long()
            if not len(unit):
                return unit.sum()
            if self.training:
                self.statistics.update(unit, labels)
            if self.adaptive is not None:
                return self._adaptive(unit, labels, self.adaptive)
            scores = self._scores(unit, adjusted=True)
            total = nn.functional.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
            return total / (labels != IGNORED).sum().clamp_min(1)

    def _adaptive(self, unit: Tensor, labels: Tensor, budgets: Budgets) -> Tensor:
        """The same on rungs; a row that is not finite is on none, and makes the loss not a number, as it does there."""
        asked = labels != IGNORED
        finite = torch.isfinite(unit).all(dim=1)
        rows = asked & finite
        total = unit[asked & ~finite].sum()
        if bool(rows.any()):
            states = States(self.statistics.bank(self.biases), unit[rows], labels[rows], self.temperature)
            self.last = adaptive(states, budgets)
            total = total + self.last.loss.sum().to(unit.dtype)
        return total / asked.sum().clamp_min(1)

    def logits(
        self, features: Float[Tensor, "queries dim"], *, adjusted: bool = False
    ) -> Float[Tensor, "queries classes"]:
        """The contrastive logits, without the priors unless `adjusted`: their argmax is the balanced prediction."""
        with torch.autocast(features.device.type, enabled=False):
            return self._scores(self._unit(features), adjusted=adjusted)

    @torch.no_grad()
    def states(self, features: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"]) -> States:
        """The learning states of a batch under the statistics in use: what `certify` and the store take."""
        return States(self.statistics.bank(self.biases), self._unit(features), labels, self.temperature)

    def _unit(self, features: Tensor) -> Tensor:
        wide = features.to(torch.promote_types(features.dtype, torch.float32))
        return nn.functional.normalize(wide, dim=1)

    def _scores(self, unit: Tensor, *, adjusted: bool) -> Tensor:
        mu, k = self.statistics.directions.to(unit), self.statistics.concentrations.to(unit)
        q = primitives.scores(self.nu, unit / self.temperature, mu, k, self.order)
        return q + self.biases.to(unit) if adjusted else q

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}, order={self.order or primitives.default_order(self.nu)}"
