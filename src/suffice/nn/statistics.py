"""Running vMF statistics of classes: mean directions and concentrations, as ProCo and PATT keep them."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from suffice.special import fit_concentration
from suffice.states import ClassBank

__all__ = ["IGNORED", "ClassStatistics"]

_CURRENT, _PREVIOUS = 0, 1
# the label of a row that a loss leaves out, as in torch
IGNORED = -100
# The mean resultant length that a class has before it has been seen: k = 90p/19 by the published estimate.
_UNSEEN_LENGTH = 0.9


class ClassStatistics(nn.Module):
    """Means of unit features by class for the current epoch and for the previous one; both are updated by each batch.

    Losses use the previous epoch's statistics, which have seen at least an epoch of data, and `advance` ends an epoch.
    A class that has never been seen has a random direction of length 0.9; one that was not seen in the last epoch keeps
    what it had. Rows that are not finite, as mixed precision makes now and then, enter nothing: `skipped` counts them,
    and the first is warned of (on a device at the end of the epoch, so that no step waits for it). Concentrations come
    from the mean's length R: `estimate` "published" is pR/(1 - R^2), "exact" inverts the Bessel ratio. `cap` bounds
    them (None: no bound, and R = 1 is an error). Everything is a buffer, so `state_dict` holds all of it.

    >>> statistics = ClassStatistics(num_classes=3, dim=8)
    >>> statistics.update(torch.nn.functional.normalize(torch.ones(4, 8), dim=1), torch.tensor([0, 0, 1, 1]))
    >>> statistics.seen
    tensor([ True,  True, False])
    """

    means: Tensor
    counts: Tensor
    epoch: Tensor
    skipped: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        estimate: str = "published",
        cap: float | None = 1e5,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if num_classes < 2 or dim < 2:
            raise ValueError(f"Expected num_classes >= 2 and dim >= 2, but got {num_classes} and {dim}")
        if estimate not in ("exact", "published"):
            raise ValueError(f"Expected estimate in ['exact', 'published'], but got {estimate!r}")
        if cap is not None and not cap > 0:
            raise ValueError(f"Expected cap > 0 or None, but got {cap}")
        self.num_classes, self.dim = num_classes, dim
        self.estimate, self.cap, self.seed = estimate, cap, seed
        self.register_buffer("means", torch.empty(2, num_classes, dim, dtype=dtype))
        self.register_buffer("counts", torch.zeros(2, num_classes, dtype=torch.float64))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        self.register_buffer("skipped", torch.zeros((), dtype=torch.int64))
        self._warned = False
        self.means[_CURRENT] = self._unseen(0)
        self.means[_PREVIOUS] = self._unseen(0)

    def _unseen(self, epoch: int) -> Tensor:
        """Random directions of length 0.9, the same on every process and after every resume."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        random = torch.randn(self.num_classes, self.dim, generator=generator, dtype=torch.float64)
        return (_UNSEEN_LENGTH * nn.functional.normalize(random, dim=1)).to(self.means)

    @torch.no_grad()
    def update(self, features: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"]) -> None:
        """Add a batch of unit features to both epochs, in place. With torch.distributed, all processes' batches.

        Labels are integers of any type; rows of label -100 are left out, as torch's losses do.
        """
        if features.ndim != 2 or features.shape[1] != self.dim or labels.shape != features.shape[:1]:
            raise ValueError(
                f"Expected features [N, {self.dim}] and labels [N], "
                f"but got {tuple(features.shape)} and {tuple(labels.shape)}"
            )
        features = features.detach().to(self.means.dtype)
        labels = labels.long()
        finite, asked = torch.isfinite(features).all(dim=1), labels != IGNORED
        kept = finite & asked
        # a row that is left out is a row of zeros with weight 0 at class 0: no shape depends on what is in the batch
        features = torch.where(kept[:, None], features, 0.0)
        labels = torch.where(kept, labels, 0)
        weights = kept.to(self.counts.dtype)
        numbers = self.counts.new_zeros(self.num_classes).index_add_(0, labels, weights)
        skipped = (asked & ~finite).sum().to(numbers)
        if dist.is_available() and dist.is_initialized():
            sums = self.means.new_zeros(self.num_classes, self.dim).index_add_(0, labels, features)
            told = torch.cat([numbers, skipped[None]])
            dist.all_reduce(sums)
            dist.all_reduce(told)
            numbers, skipped = told[:-1], told[-1]
            weights = numbers / (self.counts + numbers).clamp_min(1)
            averages = sums / numbers.clamp_min(1)[:, None].to(sums)
            self.means.add_(weights[..., None].to(sums) * (averages - self.means))
        else:
            # m += sum_i (f_i - m)/(count + n): only the rows of the batch are touched
            rates = (1 / (self.counts + numbers).clamp_min(1)).to(self.means)
            for mean, rate in zip(self.means, rates, strict=True):
                step = (features - mean[labels]) * (rate[labels] * weights.to(rate))[:, None]
                mean.index_add_(0, labels, step)
        self.counts += numbers
        self.skipped += skipped.to(self.skipped.dtype)
        if features.device.type == "cpu" and not torch.compiler.is_compiling():
            self._warn()

    def _warn(self) -> None:
        """Once; looks at a number, for which a device would have to be waited for."""
        if not self._warned and int(self.skipped):
            self._warned = True
            warnings.warn(
                f"{int(self.skipped)} rows with features that are not finite were left out of the class statistics; "
                "`statistics.skipped` counts them from here on",
                RuntimeWarning,
                stacklevel=3,
            )

    @torch.no_grad()
    def advance(self) -> None:
        """End an epoch: what was current becomes previous, and a new current one starts empty."""
        self._warn()
        seen = self.counts[_CURRENT] > 0
        self.means[_PREVIOUS] = torch.where(seen[:, None], self.means[_CURRENT], self.means[_PREVIOUS])
        self.counts[_PREVIOUS] = torch.where(seen, self.counts[_CURRENT], self.counts[_PREVIOUS])
        self.epoch += 1
        self.means[_CURRENT] = self._unseen(int(self.epoch))
        self.counts[_CURRENT] = 0

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # checkpoints of releases that counted nothing
        state_dict.setdefault(f"{prefix}skipped", torch.zeros_like(self.skipped))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def seen(self) -> Bool[Tensor, " classes"]:
        """Which classes the statistics in use have seen."""
        return self.counts[_PREVIOUS] > 0

    @property
    def running(self) -> Bool[Tensor, ""]:
        """Whether the epoch that is running has seen anything."""
        return (self.counts[_CURRENT] > 0).any()

    @property
    def directions(self) -> Float[Tensor, "classes dim"]:
        """Unit mean directions."""
        return nn.functional.normalize(self.means[_PREVIOUS], dim=1)

    @property
    def concentrations(self) -> Float[Tensor, " classes"]:
        """k of every class, in the dtype of the means."""
        return self._concentrations().to(self.means.dtype)

    def _concentrations(self) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(self.means[_PREVIOUS], dim=1, dtype=torch.float64)
        if self.cap is None:
            if bool((length >= 1).any()):
                raise ValueError(
                    f"Expected mean resultant lengths below 1, but class {int(length.argmax())} has "
                    f"{length.max():.9g}; give a cap for classes with one sample"
                )
            return self._estimated(length)
        # just below 1 the estimate is far above any cap in use
        k = self._estimated(length.clamp_max(1 - 1e-12))
        return torch.where(length < 1, k.clamp_max(self.cap), self.cap)

    def _estimated(self, length: Tensor) -> Tensor:
        if self.estimate == "exact":
            return fit_concentration(self.dim, length)
        return self.dim * length / ((1 - length) * (1 + length))

    def bank(self, biases: Float[Tensor, " classes"] | None = None) -> ClassBank:
        """The statistics in use as a class bank."""
        return ClassBank(self.directions, self.concentrations, biases)

    def extra_repr(self) -> str:
        return f"{self.num_classes}, {self.dim}, estimate={self.estimate!r}, cap={self.cap}"
