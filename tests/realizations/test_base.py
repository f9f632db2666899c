"""What every realization inherits: rows, what comes after the scores, what left, and what is left of a budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.certificates.cascade import cascade_realized
from suffice.contracts.base import Needs
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.registry import contract_named, contract_names
from suffice.numerics.softmax import log_softmax
from suffice.objectives.supervised import SupervisedStates
from suffice.realizations.analytic import Analytic
from suffice.realizations.base import After, Realization, Realized
from suffice.realizations.executed.realization import Execution
from suffice.tolerances.tolerance import headroom, tolerance_of
from suffice.words import Departure, Scope
from tests.reference.states import random_states
from tests.support.collections import make_states
from tests.support.realized import after_of, plain

BOUNDS = ("loss", "probability", "gradient", "margin_use")
PAIR = sf.DebyePair(order=2)


def _kinds() -> dict[str, Realized]:
    states = random_states(3, 6, [(7, 64)])
    # the second row leaves float32
    scale = torch.tensor([1.0, 1e80, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    far = sf.States(states.bank, states.features * scale[:, None], states.labels, 0.1)
    mixed = plain(6)
    mixed.after = after_of(1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3)
    mixed.status = np.array([Departure.INSIDE, Departure.SCORES, *[Departure.INSIDE] * 4])
    return {
        "plain": mixed,
        "analytic": Analytic(PAIR).at(far),
        "execution": Execution(PAIR, torch.float32).at(far),
    }


@pytest.mark.parametrize("rows", [[4, 2, 1], [5, 4, 3, 2, 1, 0]], ids=["some", "all"])
@pytest.mark.parametrize("kind", ["plain", "analytic", "execution"])
def test_rows_are_those_of_the_whole(kind: str, rows: list[int]) -> None:
    """Before and after anything was formed: every row has its own numbers, and all have what they share."""
    for formed in (False, True):
        for name in contract_names() if kind != "plain" else ["geometry", "conditioned"]:
            whole = _kinds()[kind]
            contract, index = contract_named(name), torch.tensor(rows)
            expected = whole.bounds(contract) if formed else _kinds()[kind].bounds(contract)
            found = whole[index].bounds(contract)
            for bound in BOUNDS:
                wanted = getattr(expected, bound)[index]
                torch.testing.assert_close(getattr(found, bound), wanted, rtol=1e-9, atol=0)
            assert len(set(expected.loss.tolist())) == 6
            family = whole.unit_family(contract)
            each = torch.full((6,), 1e-3, dtype=torch.float64)
            torch.testing.assert_close(
                family[index].at(each[index]).gradient, family.at(each).gradient[index], rtol=1e-12, atol=0
            )


def test_what_comes_after_the_scores_is_added_outward() -> None:
    """Also where no row can leave. In exact arithmetic too: 1e16 and 1 are not 1e16."""
    made = plain(2)
    scores = made.bounds(CONDITIONED)
    each = {
        name: torch.tensor([1.0, 3.0], dtype=torch.float64) * scale
        for name, scale in zip(BOUNDS[:3], (1, 2, 3), strict=True)
    }
    made.after = After(**each)
    for status in (None, np.array([Departure.INSIDE, Departure.INSIDE])):
        made.status = status
        found = made.bounds(CONDITIONED)
        for name in BOUNDS[:3]:
            for total, bound, added in zip(getattr(found, name), getattr(scores, name), each[name], strict=True):
                exact = Fraction(bound.item()) + Fraction(added.item())
                assert exact <= Fraction(total.item()) <= exact * (1 + Fraction(1, 10**11))
        assert torch.equal(found.margin_use, scores.margin_use)
    large = sf.Bounds(**dict.fromkeys(BOUNDS, torch.full((2,), 1e16, dtype=torch.float64)))
    assert (made.completed(large).loss > 1e16).all()


@pytest.mark.parametrize("after", [None, after_of(1e-3, 1e-3, 1e-3)], ids=["nothing after", "after"])
def test_rows_that_left_have_no_bound_and_no_tolerance(after: After | None) -> None:
    made, budgets = plain(3), sf.Budgets(loss=1.0, gradient=1.0, prediction=True)
    made.after, made.status = after, np.array([Departure.INSIDE, Departure.GRADIENT, Departure.INSIDE])
    found = made.bounds(CONDITIONED)
    for name in BOUNDS:
        assert torch.isfinite(getattr(found, name)).tolist() == [True, False, True]
    allowed = tolerance_of(made, budgets, CONDITIONED)
    assert (allowed.b > 0).tolist() == [True, False, True]
    assert allowed.status.tolist() == ["bounded", "zero", "bounded"]
    assert (headroom(made, budgets, CONDITIONED) > 0).tolist() == [True, False, True]
    assert cascade_realized(made, budgets).verdict.tolist() == ["certified", "inconclusive", "certified"]


def test_what_is_no_number_is_over_every_budget() -> None:
    made = plain(2)
    made.after = after_of(torch.nan, 0.0)
    assert torch.isinf(made.bounds(CONDITIONED).loss).tolist() == [True, False]
    _, some = made.left(sf.Budgets(loss=1.0))
    assert some is not None
    assert some.tolist() == [False, True]


def test_what_is_left_of_a_budget_is_rounded_down() -> None:
    """Scores that use up the rest are within the budget once all is added, and hardly more would fit."""
    g = torch.Generator().manual_seed(0)
    limits = 10 ** (-6 * torch.rand(1000, generator=g, dtype=torch.float64))
    shares = torch.rand(1000, generator=g, dtype=torch.float64)
    made = plain(1000)
    made.after = after_of(*(limits * shares).tolist())
    rest, some = made.left(sf.Budgets(loss=limits, gradient=2 * limits, prediction=True))
    assert some is not None
    assert some.all()
    assert rest.prediction
    assert rest.names == ("loss", "gradient", "prediction")
    nothing = torch.zeros_like(limits)
    left = rest.limits(nothing)
    total = made.completed(
        sf.Bounds(loss=left["loss"], probability=nothing, gradient=left["gradient"], margin_use=nothing)
    )
    assert (total.loss <= limits).all()
    assert (total.gradient <= 2 * limits).all()
    assert (left["loss"] >= limits * (1 - shares) - 3e-12 * limits).all()


def test_a_budget_that_is_used_up_after_the_scores() -> None:
    """Where what comes after is all of a budget, or more, nothing is accepted: neither b nor any headroom."""
    made = plain(4)
    made.after = after_of(0.5, 1.0, 2.0, 0.0)
    budgets = sf.Budgets(loss=1.0, gradient=10.0)
    _, some = made.left(budgets)
    assert some is not None
    assert some.tolist() == [True, False, False, True]
    found = tolerance_of(made, budgets, CONDITIONED)
    assert found.status.tolist() == ["bounded", "zero", "zero", "bounded"]
    assert (found.b[1:3] == 0).all()
    assert (found.upper[1:3] == 0).all()
    for at_one in (None, made.bounds(CONDITIONED)):
        room = headroom(made, budgets, CONDITIONED, at_one)
        assert (room[1:3] == 0).all()
        # with what comes after, at both: b* of the unit family, and the headroom of its own
        for family, b in ((made.unit_family(CONDITIONED), found.b), (made.own_family(CONDITIONED), room)):
            total = made.completed(family.at(b))
            kept = (total.loss <= 1.0) & (total.gradient <= 10.0)
            assert kept.tolist() == [True, False, False, True]
            more = made.completed(family.at(b * (1 + 1e-6)))
            assert not ((more.loss <= 1.0) & (more.gradient <= 10.0)).any()


def test_a_budget_without_a_bound_is_refused() -> None:
    """By everything that takes one: the supervised objective has a bound on its loss alone."""
    bank = sf.ClassBank(torch.eye(5)[:2], [1.0, 2.0])
    states = SupervisedStates(bank, torch.ones(3, 5), [0, 1, 1], torch.eye(5).expand(3, 5, 5), 16.0)
    realized = Analytic(PAIR).at(states)
    for budgets in (sf.Budgets(loss=1.0, gradient=1.0), sf.Budgets(probability=1.0), sf.Budgets(prediction=True)):
        for call in (
            lambda b=budgets: sf.certify(states, b, PAIR),
            lambda b=budgets: sf.tolerance(states, b, PAIR),
            lambda b=budgets: sf.cascade(states, b, PAIR),
        ):
            with pytest.raises(ValueError, match=r"Expected budgets in \['loss'\], for which SupervisedStates have"):
                call()
    assert sf.certify(states, sf.Budgets(loss=1e6), PAIR).certified.all()
    found = realized.bounds(CONDITIONED)
    for name in BOUNDS[1:]:
        assert torch.isinf(getattr(found, name)).all()


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
