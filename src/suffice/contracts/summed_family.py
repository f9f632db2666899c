"""A family whose sums over classes are there already, and its allowances only where somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Estimate, Series
from suffice.contracts.bounds import Bounds, HeadRow
from suffice.contracts.family import SoftmaxFamily, at_one_by_series
from suffice.contracts.sensitivity import Sensitivity

__all__ = ["SummedFamily"]


# no slots: the family of all rows is formed once, if at all
@dataclass(frozen=True, kw_only=True)
class SummedFamily:
    """Multiples of allowances at one head: by the `sums` in the rows that they serve, else as `formed` of some rows.

    `dominating` says where one class has nearly everything, which the series are not for.
    """

    sums: Series
    row: HeadRow
    dominating: Bool[Tensor, " queries"]
    formed: Callable[[Tensor], SoftmaxFamily]

    def __len__(self) -> int:
        return len(self.dominating)

    def __getitem__(self, rows: Tensor) -> SoftmaxFamily:
        """Rows that are asked for are those that the series leave: they are formed."""
        return self.formed(rows)

    def direct(self) -> SoftmaxFamily:
        """All rows, formed: what is known of a row is then known of the same numbers as its bounds."""
        return self._whole

    @cached_property
    def _whole(self) -> SoftmaxFamily:
        return self.formed(torch.arange(len(self), device=self.dominating.device))

    def at_one(self) -> Bounds:
        """The contract at the unit itself."""
        found = at_one_by_series(self.sums, self.row)
        assert found is not None
        bounds, rows = found
        return bounds if not len(rows) else bounds.put(rows, self.formed(rows).at_one())

    def at(self, b: Float[Tensor, " queries"], names: frozenset[str] | None = None) -> Bounds:
        """The contract at b times the unit."""
        return self._whole.at(b, names)

    def alone(self) -> None:
        """Nothing is there at b = 0."""
        return

    def slopes(self) -> Sensitivity:
        """Those of the conditioned contract (prop:sensitivity)."""
        found = self.sums.sensitivity()
        usable = self.sums.usable()
        if usable.all():
            return found
        rows = torch.from_numpy(~usable).nonzero().squeeze(1).to(self.dominating.device)
        rest = self.formed(rows).slopes()
        return Sensitivity(
            loss=found.loss.index_put((rows,), rest.loss),
            probability=found.probability.index_put((rows,), rest.probability),
            gradient=found.gradient.index_put((rows,), rest.gradient),
        )

    def saturated_start(self, loss: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """A b at which one class alone uses up the loss budget."""
        return self._whole.saturated_start(loss)

    def reach(self) -> Float[Tensor, " queries"]:
        """Past this b every exponential has run its course."""
        return self._whole.reach()

    def log_tail(self) -> Float[Tensor, " queries"]:
        """That of the ratio term."""
        return self._whole.log_tail()

    def known(self) -> Bool[Tensor, " queries"]:
        """As formed: the sums know less."""
        return self._whole.known()

    def estimate(self) -> Estimate | None:
        """The contract's."""
        return self._whole.estimate()

    def series(self) -> Series:
        """By the sums."""
        return self.sums

    def dominated(self) -> Bool[Tensor, " queries"]:
        """By the largest probability."""
        return self.dominating

    def aim(self, limits: dict[str, Float[Tensor, " queries"]]) -> Float[Tensor, " queries"] | None:
        """The contract's."""
        return self._whole.aim(limits)

    def slack(self) -> Float[Tensor, " queries"]:
        """The head's."""
        return self.row.slack

    def roundings(self) -> float:
        """The head's."""
        return self.row.roundings
