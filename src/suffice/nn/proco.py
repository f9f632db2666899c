"""The vMF contrastive loss of ProCo, and of PATT's contrastive term, right where the published recurrence is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from suffice.budgets import Budgets, check_budgets
from suffice.certificates.adaptive import Adaptive, adaptive
from suffice.nn import primitives
from suffice.nn.published import published_statistics
from suffice.nn.statistics import IGNORED, ClassStatistics
from suffice.states import States

__all__ = ["ProCoLoss"]

_REDUCTIONS = ("mean", "sum", "none")
# no pair has a proof below
_LEAST_PROVED = 5


class ProCoLoss(nn.Module):
    """Cross-entropy of q_j = Phi(|k_j mu_j + f/tau|) - Phi(k_j) + log prior_j over running class statistics.

    Phi is the vMF log-normaliser's part log I_nu(x) - nu log x, nu = p/2 - 1, for any p >= 2 and any k: there is no
    recurrence and nothing is clipped. Features are normalised here, unless `normalize` is false. `class_counts` give
    the priors of logit adjustment (None: uniform; `set_class_counts` changes them later). In training mode each call
    first updates the statistics with the batch, as published; call `start_epoch()` before each epoch, or `end_epoch()`
    after it. `reduction` is "mean", "sum" or "none". Works under autocast (in float32 at least), under torch.compile
    and in float64. Gradients flow to the features only.

    With `adaptive=Budgets(...)` each sample is evaluated on the cheapest rung of the precision ladder that is certified
    to keep the budgets, rounding included (`sf.adaptive`); `loss.last` then tells which, and what was not certified. No
    rung is proved below p = 5.

    docs/migrating.md has the published class's calls beside these.

    >>> loss = ProCoLoss(num_classes=10, dim=128, temperature=0.1)
    >>> features = torch.randn(4, 128, requires_grad=True)
    >>> loss(features, torch.tensor([0, 1, 2, 3])).backward()
    >>> value, logits = loss(features, torch.tensor([0, 1, 2, 3]), return_logits=True)
    >>> logits.shape
    torch.Size([4, 10])
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
        reduction: str = "mean",
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"Expected temperature > 0, but got {temperature}")
        if reduction not in _REDUCTIONS:
            raise ValueError(f"Expected reduction in {list(_REDUCTIONS)}, but got {reduction!r}")
        if adaptive is not None:
            check_budgets(adaptive)
        if adaptive is not None and dim < _LEAST_PROVED:
            raise ValueError(f"Expected dim >= {_LEAST_PROVED} with adaptive, where a rung is proved, but got {dim}")
        self.temperature, self.order, self.adaptive = float(temperature), order, adaptive
        self.reduction, self.normalize = reduction, normalize
        # what the last adaptive evaluation found: rungs, bounds and verdicts of the batch
        self.last: Adaptive | None = None
        self.nu = dim / 2 - 1
        self.statistics = ClassStatistics(num_classes, dim, estimate=estimate, cap=cap, seed=seed, dtype=dtype)
        counts = torch.ones(num_classes) if class_counts is None else class_counts
        self.register_buffer("biases", _log_priors(counts, num_classes).to(dtype))

    @torch.no_grad()
    def set_class_counts(self, class_counts: Sequence[float] | Tensor) -> None:
        """Give the priors of logit adjustment anew; checkpoints keep them."""
        self.biases.copy_(_log_priors(class_counts, self.statistics.num_classes))

    @overload
    def forward(self, features: Tensor, labels: Tensor) -> Tensor: ...

    @overload
    def forward(self, features: Tensor, labels: Tensor, *, return_logits: Literal[False]) -> Tensor: ...

    @overload
    def forward(self, features: Tensor, labels: Tensor, *, return_logits: Literal[True]) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, features: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"], *, return_logits: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The loss of a batch; in training mode the statistics are updated first.

        With `return_logits` also the contrastive logits that it was made of, without the priors. Rows of label -100
        are left out of the mean and of the statistics, as torch's losses do. A batch without any other row has a loss
        of 0, whose gradient is zero.
        """
        with torch.autocast(features.device.type, enabled=False):
            unit, labels = self._unit(features), labels.long()
            self._see(unit, labels)
            if self.adaptive is not None:
                losses = self._adaptive(unit, labels, self.adaptive)
                found = self.unit_logits(unit) if return_logits else None
            else:
                found = self.unit_logits(unit)
                losses = _cross_entropies(self.adjust(found), labels)
            value = self._reduced(losses, labels)
            return value if found is None or not return_logits else (value, found)

    def _see(self, unit: Tensor, labels: Tensor) -> None:
        if self.training and len(unit):
            self.statistics.update(unit, labels)

    def _reduced(self, losses: Tensor, labels: Tensor) -> Tensor:
        """Of a mean, the rows that are asked for are the number; of none it is 0."""
        if self.reduction == "none":
            return losses
        total = losses.sum()
        return total if self.reduction == "sum" else total / (labels != IGNORED).sum().clamp_min(1)

    def _adaptive(self, unit: Tensor, labels: Tensor, budgets: Budgets) -> Tensor:
        """The same on rungs; a row that is not finite is on none, and its loss is not a number, as it is there."""
        asked = labels != IGNORED
        finite = torch.isfinite(unit).all(dim=1)
        rows = asked & finite
        losses = torch.where(asked & ~finite, unit.sum(dim=1), torch.zeros_like(unit[:, 0]))
        if bool(rows.any()):
            states = States(self.statistics.bank(self.biases), unit[rows], labels[rows], self.temperature)
            self.last = adaptive(states, budgets)
            losses = losses.index_put((rows.nonzero()[:, 0],), self.last.loss.to(unit.dtype))
        return losses

    def logits(
        self,
        features: Float[Tensor, "queries dim"],
        labels: Int[Tensor, " queries"] | None = None,
        *,
        adjusted: bool = False,
    ) -> Float[Tensor, "queries classes"]:
        """The contrastive logits, without the priors unless `adjusted`: their argmax is the balanced prediction.

        With labels, in training mode, the statistics are updated with the batch first, as published code does when it
        is called with labels.
        """
        with torch.autocast(features.device.type, enabled=False):
            unit = self._unit(features)
            if labels is not None:
                self._see(unit, labels)
            logits = self.unit_logits(unit)
            return self.adjust(logits) if adjusted else logits

    def adjust(self, logits: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
        """Any logits of these classes plus their log-priors."""
        return logits + self.biases.to(logits)

    def adjusted_loss(self, logits: Float[Tensor, "queries classes"], labels: Int[Tensor, " queries"]) -> Tensor:
        """The logit-adjusted cross-entropy of any logits, a classifier's say, reduced as the loss is."""
        labels = labels.long()
        with torch.autocast(logits.device.type, enabled=False):
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            return self._reduced(_cross_entropies(self.adjust(wide), labels), labels)

    @staticmethod
    def combine(classifier: Tensor, *contrastive: Tensor, weight: float = 1.0) -> Float[Tensor, "queries classes"]:
        """A classifier's logits plus `weight` times the mean of the views' contrastive ones: what accuracy is taken of.

        >>> ProCoLoss.combine(torch.zeros(1, 2), torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 2.0]]))
        tensor([[2., 2.]])
        """
        if not contrastive:
            return classifier
        return classifier + weight * torch.stack(contrastive).mean(dim=0)

    def start_epoch(self) -> None:
        """What the last epoch has seen is used from here on; before the first epoch nothing happens.

        Either of `start_epoch` and `end_epoch` is enough, and both do no harm: an epoch without a batch does not end.
        """
        if bool(self.statistics.running):
            self.statistics.advance()

    def end_epoch(self) -> None:
        """The same at the end of an epoch."""
        self.start_epoch()

    @torch.no_grad()
    def load_published(self, source: object) -> None:
        """Take over the class statistics of the published loss: the loss itself, or a mapping of its tensors by name.

        The published `state_dict()` is empty, since its statistics are no buffers; docs/migrating.md says how to save
        them. Priors are taken over if it has any. Nothing is unpickled here.
        """
        found = published_statistics(source, self.statistics.num_classes, self.statistics.dim, unit=self.normalize)
        if found.priors is not None:
            self.set_class_counts(found.priors)
        self.statistics.means.copy_(found.means)
        self.statistics.counts.copy_(found.counts)

    @torch.no_grad()
    def states(self, features: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"]) -> States:
        """The learning states of a batch under the statistics in use: what `certify` and the store take."""
        return States(self.statistics.bank(self.biases), self._unit(features), labels, self.temperature)

    def _unit(self, features: Tensor) -> Tensor:
        wide = features.to(torch.promote_types(features.dtype, torch.float32))
        return nn.functional.normalize(wide, dim=1) if self.normalize else wide

    def unit_logits(self, unit: Float[Tensor, "queries dim"]) -> Float[Tensor, "queries classes"]:
        """The contrastive logits of features that are taken as they are, in their dtype."""
        mu, k = self.statistics.directions.to(unit), self.statistics.concentrations.to(unit)
        return primitives.scores(self.nu, unit / self.temperature, mu, k, self.order)

    def extra_repr(self) -> str:
        order = self.order or primitives.default_order(self.nu)
        return f"temperature={self.temperature}, order={order}, reduction={self.reduction!r}"


def _cross_entropies(logits: Tensor, labels: Tensor) -> Float[Tensor, " queries"]:
    return nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")


def _log_priors(class_counts: Sequence[float] | Tensor, num_classes: int) -> Float[Tensor, " classes"]:
    counts = torch.as_tensor(class_counts).to(torch.float64)
    if counts.shape != (num_classes,):
        raise ValueError(f"Expected {num_classes} class_counts > 0, but got shape {tuple(counts.shape)}")
    for wrong in (~((counts > 0) & torch.isfinite(counts))).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"Expected {num_classes} class_counts > 0, but class {wrong} has {counts[wrong].item():g}; "
            "leave the class out, or give it a count of 1"
        )
    return torch.log(counts / counts.sum())
