"""What every realization inherits: what comes after the scores, and what left its model, are never forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.base import Needs
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.registry import contract_named
from suffice.numerics.softmax import log_softmax
from suffice.realizations.analytic import Analytic
from suffice.realizations.base import After, Realization, Realized
from suffice.words import Departure, Scope
from tests.support.collections import make_states

CONDITIONED = contract_named("conditioned")
BUDGETS = sf.Budgets(loss=1e-2, gradient=1.0)
COUNT = 5


def _full(value: float, count: int = COUNT) -> Tensor:
    return torch.full((count,), value, dtype=torch.float64)


class Plain(Realized):
    """Scores that are off by `size` at most, and nothing else unless it is set."""

    _shared = frozenset({"size"})

    def __init__(self, states: sf.States, size: float = 1e-4) -> None:
        self.states, self.size = states, size
        self.scores = states.features[:, :6].clone()

    def head(self, _needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        return SoftmaxHead(
            log_probabilities=log_softmax(self.scores.clone()),
            target=self.states.labels,
            gradient_scale=1 / self.states.temperature,
        )

    def own(self, _needs: Needs = Needs.NOTHING) -> Allowances:
        return Allowances(d=torch.full_like(self.scores, self.size), a=torch.zeros_like(self.scores))

    def unit(self, _needs: Needs = Needs.NOTHING) -> Allowances:
        return Allowances(d=torch.ones_like(self.scores), a=torch.zeros_like(self.scores))


@dataclass(frozen=True)
class Given:
    """Whatever was made of the states."""

    after: float | None = None
    outside: int | None = None

    scope = Scope.EXECUTION
    words = "given"

    def record(self) -> dict[str, Any]:
        return {"name": self.words}

    def at(self, states: sf.States) -> Realized:
        made = Plain(states)
        if self.after is not None:
            value = _full(self.after, len(states))
            made.after = After(loss=value, probability=value, gradient=value)
        if self.outside is not None:
            status = np.full(len(states), Departure.INSIDE, dtype="<U16")
            status[self.outside] = Departure.SCORES
            made.status = status
        return made


def _states() -> sf.States:
    return make_states(COUNT, 6, 16, 1, single=False)


def test_it_is_a_realization() -> None:
    assert isinstance(Given(), Realization)
    assert isinstance(Analytic(sf.DebyePair()), Realization)
    assert not isinstance(sf.DebyePair(), Realization)


@pytest.mark.parametrize("outside", [None, 2])
def test_what_comes_after_the_scores_is_added(outside: int | None) -> None:
    """Also of a realization that says nothing of what left its model."""
    bare = Given(outside=outside).at(_states()).bounds(CONDITIONED)
    found = Given(after=1e-3, outside=outside).at(_states()).bounds(CONDITIONED)
    for name in ("loss", "probability", "gradient"):
        less, more = getattr(bare, name), getattr(found, name)
        assert (more >= less + 1e-3).all()
        inside = torch.arange(COUNT) != (-1 if outside is None else outside)
        torch.testing.assert_close(more[inside], less[inside] + 1e-3, rtol=1e-11, atol=0)


@pytest.mark.parametrize("after", [None, 1e-3])
def test_what_left_the_model_has_no_bound(after: float | None) -> None:
    """Also of a realization that has nothing after the scores."""
    realized = Given(after=after, outside=2).at(_states())
    found = realized.bounds(CONDITIONED)
    lost = torch.arange(COUNT) == 2
    for name in ("loss", "probability", "gradient", "margin_use"):
        assert torch.equal(torch.isinf(getattr(found, name)), lost), name
    assert realized.inside is not None
    assert torch.equal(realized.inside, ~lost)


@pytest.mark.parametrize(("after", "outside"), [(None, None), (1e-3, None), (None, 2), (1e-3, 2), (2e-2, None)])
def test_certificate_headroom_and_tolerance_agree(after: float | None, outside: int | None) -> None:
    """A budget that is used up after the scores leaves nothing; a state that left its model has no tolerance."""
    states, given = _states(), Given(after=after, outside=outside)
    certificate = sf.certify(states, BUDGETS, given, CONDITIONED)
    tolerance = sf.tolerance(states, BUDGETS, given, CONDITIONED)
    wanted = [index != outside and (after or 0.0) < 1e-2 for index in range(COUNT)]
    assert certificate.certified.tolist() == wanted
    assert (certificate.headroom >= 1).tolist() == wanted
    assert (tolerance.b > 0).tolist() == wanted
    # b times the unit, and what comes after, are within the budgets
    realized = given.at(states)
    kept = realized.bounds(CONDITIONED, realized.unit().scaled(tolerance.b))
    assert ((kept.loss <= 1e-2) & (kept.gradient <= 1.0)).tolist() == wanted


def test_what_is_left_of_the_budgets() -> None:
    realized = Given(after=4e-3, outside=1).at(_states())
    left, some = realized.left(BUDGETS)
    assert some is not None
    assert some.tolist() == [True, False, True, True, True]
    rest = left.limits(_full(0.0))
    assert (rest["loss"] < 6e-3).all()
    torch.testing.assert_close(rest["loss"], _full(6e-3), rtol=1e-10, atol=0)
    assert not left.prediction
    nothing, none = Given(after=1.0).at(_states()).left(BUDGETS)
    assert none is not None
    assert not none.any()
    assert nothing.names == BUDGETS.names
    assert Given().at(_states()).left(BUDGETS) == (BUDGETS, None)


def test_rows_take_along_what_is_formed() -> None:
    realized = Given(after=1e-3, outside=2).at(_states())
    whole = realized.bounds(CONDITIONED)
    part = realized[torch.tensor([2, 4])]
    assert len(part) == 2
    assert part.status is not None
    assert part.status.tolist() == ["scores", "inside"]
    assert torch.equal(part.bounds(CONDITIONED).loss, whole.loss[[2, 4]])
    assert part.after is not None
    assert part.after.loss.tolist() == [1e-3, 1e-3]


def test_budgets_without_a_bound_are_refused() -> None:
    class Partial(Plain):
        covers = frozenset({"loss"})

    realized = Partial(_states())
    realized.refuse(sf.Budgets(loss=1.0))
    with pytest.raises(ValueError, match=r"Expected budgets in \['loss'\].*but got \['gradient', 'prediction'\]"):
        realized.refuse(sf.Budgets(loss=1.0, gradient=1.0, prediction=True))


def test_defaults() -> None:
    realized = Plain(_states())
    assert realized.inside is None
    assert realized.beside() is None
    assert torch.equal(realized.simple().d, realized.own().d)
    assert torch.equal(realized.like, 1 / _states().temperature)
    pi = realized.described()["target_probability"]
    assert torch.equal(pi, realized.head().log_probabilities.exp()[torch.arange(COUNT), _states().labels])
    own, unit = realized.own_family(CONDITIONED), realized.unit_family(CONDITIONED)
    assert torch.equal(own.at(_full(1.0)).loss, unit.at(_full(1e-4)).loss)
    torch.testing.assert_close(realized.sensitivity(CONDITIONED).loss * 1e-4, own.slopes().loss)
