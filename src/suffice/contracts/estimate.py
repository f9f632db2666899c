"""Where a tolerance lies, found in plain arithmetic: this aims the inversion and certifies nothing.

The formulas are those of the contracts with x = expm1(d) and y = 1 - e^-d, for which
S_j^+ = (1 + x_j) X_j + x_j pibar_j and -S_j^- = (1 - y_j) Y_j + y_j pibar_j, where X_j, Y_j and pibar_j are the sums of
pi_i x_i, pi_i y_i and pi_i over i != j.
One exponential a class and no logarithm: a fraction of the cost of the log-domain bounds, which then judge both ends
of a narrow bracket.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_use
from suffice.contracts.divergence import divergence, pairwise, returned
from suffice.numerics.softmax import at_class, without

__all__ = ["Scout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """x = expm1(v), S^+ and -S^- for one vector v of score allowances."""

    x: Float[Tensor, "queries classes"]
    y: Float[Tensor, "queries classes"]
    up: Float[Tensor, "queries classes"]
    down: Float[Tensor, "queries classes"]


class Scout:
    """Bounds close to those of the conditioned or the centred contract along multiples of `unit`, beside `extra`."""

    def __init__(self, head: SoftmaxHead, unit: Allowances, extra: Allowances | None = None, *, centered: bool) -> None:
        self.head, self.unit, self.centered, self.extra = head, unit, centered, extra
        self.raised = 1 + head.slack
        self.pi = head.pi
        self.top = head.log_probabilities.argmax(dim=1)
        self.rest = _exclusive(self.pi, self.top)
        self.others = without(self.pi, head.target, 0.0)
        self.slope = self._linear(unit)
        # what there is at b = 0
        self.level = None if extra is None else self._linear(extra)

    def _linear(self, allowances: Allowances) -> dict[str, Tensor]:
        """All that grows in proportion to the allowances."""
        target = self.head.target
        a_y, d_max = at_class(allowances.a, target), allowances.d.amax(dim=1)
        paper = (2 * d_max)[:, None].expand_as(allowances.d)
        to_top = allowances.to_top if self.centered else None
        movement = paper if to_top is None else torch.minimum(paper, to_top)
        return {
            "a_y": a_y,
            "a_max": without(allowances.a, target, 0.0).amax(dim=1),
            "ratio": (self.others * allowances.a).sum(dim=1) + self.others.sum(dim=1) * a_y,
            "d_max": d_max,
            "margin": margin_use(self.head.log_probabilities, movement, self.head.log_error),
        }

    def __getitem__(self, rows: Int[Tensor, " rows"]) -> Scout:
        """The scout of some rows."""
        part = object.__new__(Scout)
        for name, value in vars(self).items():
            picked = value[rows] if isinstance(value, Tensor | SoftmaxHead | Allowances) else value
            if isinstance(value, dict):
                picked = {key: each[rows] for key, each in value.items()}
            setattr(part, name, picked)
        return part

    def _at(self, b: Float[Tensor, " queries"], name: str) -> Float[Tensor, " queries"]:
        """One of the linear parts."""
        grown = self.slope[name] * b
        return grown if self.level is None else grown + self.level[name]

    def _each(self, b: Float[Tensor, " queries"], name: str) -> Float[Tensor, "queries classes"]:
        """Allowances of one name."""
        grown: Tensor = getattr(self.unit, name) * b[:, None]
        return grown if self.extra is None else grown + getattr(self.extra, name)

    def __call__(self, b: Float[Tensor, " queries"]) -> Bounds:
        """What the contract gives at b times the unit, nearly; not a bound."""
        moved = self._moved(self._each(b, "d"))
        size = self._loss_size(moved, b)
        tv = torch.minimum(torch.tanh(self._at(b, "d_max") / 2), self._deviation(moved))
        gradient = 2 * self.head.h_bound * tv + self._at(b, "ratio")
        if self.centered:
            away = (size + self.others.sum(dim=1)) / (1 + size)
            vectors = [moved]
            if self.unit.to_top is not None:
                vectors.append(self._moved(without(self._each(b, "to_top"), self.top, 0.0)))
                tv = torch.minimum(tv, self._deviation(vectors[1]))
            for each in vectors:
                gradient = torch.minimum(gradient, self._redistributed(each) + self._ratio_term(each, away, b))
        raised = self.raised
        kl = None
        if self.head.divergence:
            d, upper = self._each(b, "d"), self.pi / (1 - moved.down)
            apart = pairwise(d, self.top)
            if self.centered and self.unit.to_top is not None:
                apart = torch.minimum(apart, without(self._each(b, "to_top"), self.top, 0.0))
            both = [returned(self.head, d), returned(self.head, apart, self.top)]
            kl = torch.stack([divergence(self.head, upper, each) for each in both]).amin(dim=0) * raised
        return Bounds(
            loss=torch.log1p(size) * raised,
            probability=tv * raised,
            gradient=gradient * self.head.gradient_scale * raised,
            margin_use=self._at(b, "margin"),
            kl=kl,
        )

    def _moved(self, v: Float[Tensor, "queries classes"]) -> _Moved:
        x = torch.expm1(v)
        y = x / (1 + x)
        return _Moved(
            x=x,
            y=y,
            up=torch.addcmul(x * self.rest, 1 + x, _exclusive(self.pi * x, self.top)),
            down=torch.addcmul(y * self.rest, 1 - y, _exclusive(self.pi * y, self.top)),
        )

    def _deviation(self, moved: _Moved) -> Float[Tensor, " queries"]:
        larger = torch.maximum(moved.up / (1 + moved.up), moved.down / (1 - moved.down))
        return 0.5 * (self.pi * larger).sum(dim=1)

    def _loss_size(self, moved: _Moved, b: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """S of the loss: sum_{i != y} pi_i expm1(m_i)."""
        if not self.centered or self.unit.to_target is None:
            return at_class(moved.up, self.head.target)
        return (self.others * torch.expm1(self._each(b, "to_target"))).sum(dim=1)

    def _redistributed(self, moved: _Moved) -> Float[Tensor, " queries"]:
        distances = self.head.distances
        assert distances is not None
        return (self.pi * moved.x * distances).sum(dim=1) / (1 - (self.pi * moved.y).sum(dim=1))

    def _ratio_term(
        self, moved: _Moved, away: Float[Tensor, " queries"], b: Float[Tensor, " queries"]
    ) -> Float[Tensor, " queries"]:
        upper = (self.others * self._each(b, "a") / (1 - moved.down)).sum(dim=1)
        return torch.minimum(upper, away * self._at(b, "a_max")) + away * self._at(b, "a_y")


def _exclusive(
    values: Float[Tensor, "queries classes"], top: Int[Tensor, " queries"]
) -> Float[Tensor, "queries classes"]:
    """Sums over all other classes; the top class gets a sum of its own."""
    others = without(values, top, 0.0)
    total = others.sum(dim=1, keepdim=True)
    return (total + at_class(values, top)[:, None] - others).scatter(1, top[:, None], total)
