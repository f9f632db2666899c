"""What a certificate says of its own bounds: strict margins, rounded margins, verdicts that agree with headroom."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)
CONTRACTS = {"geometry": geometry_bounds, "conditioned": conditioned_bounds, "centered": centered_bounds}


def _row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_margin_that_is_used_up_certifies_nothing() -> None:
    use = _row(math.nextafter(1.0, 0.0), 1.0, math.inf, math.nan)
    bounds = Bounds(loss=use, probability=use, gradient=use, margin_use=use)
    assert bounds.prediction.tolist() == [True, False, False, False]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_margin_is_known_up_to_the_rounding_of_scores(contract: str) -> None:
    """Two log-probabilities 1e-3 apart, each off by up to 4e-4: 2e-4 are left, or nothing at 6e-4."""

    def use(log_error: float, d: float) -> float:
        head = SoftmaxHead(
            log_probabilities=torch.log_softmax(_row(1e-3, 0.0), dim=0)[None],
            target=torch.tensor([0]),
            gradient_scale=_row(1.0),
            distances=_row(0.1, 0.1)[None],
            log_error=_row(log_error),
        )
        allowances = Allowances(d=torch.full((1, 2), d, dtype=torch.float64), a=torch.zeros(1, 2, dtype=torch.float64))
        found: Bounds = CONTRACTS[contract](head, allowances)
        return found.margin_use.item()

    assert use(6e-4, 1e-9) == math.inf
    assert use(4e-4, 0.9e-4) == pytest.approx(0.9, rel=0.05)
    assert use(4e-4, 1.1e-4) > 1


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("scope", ["analytic", "execution"])
@pytest.mark.parametrize("name", ["loss", "gradient"])
def test_a_budget_that_is_the_bound_itself(contract: str, scope: str, name: str) -> None:
    """Certified with a headroom of 1; one ulp less is neither."""
    for seed in (3, 8, 9):
        states = random_states(seed, 6, [(7, 64)])
        bound = getattr(sf.certify(states, sf.Budgets(loss=1.0), PAIR, contract, scope=scope), name)
        met = sf.certify(states, sf.Budgets(**{name: bound}), PAIR, contract, scope=scope)
        assert met.certified.all()
        assert (met.headroom >= 1).all()
        less = torch.nextafter(bound, torch.zeros_like(bound))
        missed = sf.certify(states, sf.Budgets(**{name: less}), PAIR, contract, scope=scope)
        assert not missed.certified.any()
        assert (missed.headroom < 1).all()


def _within(allowances: Allowances, target: Tensor, top: Tensor) -> bool:
    """Whether matched gaps are at most the sums, and 0 for the class itself."""
    d, rows = allowances.d, torch.arange(len(allowances.d))
    found = []
    for matched, index in ((allowances.to_target, target), (allowances.to_top, top)):
        assert matched is not None
        found += [(matched <= d + d[rows, index][:, None]).all(), (matched[rows, index] == 0).all()]
    return all(map(bool, found))


def test_matched_gaps_that_are_said_to_be_within_the_sums_are() -> None:
    """Of ordinary rows, of others, of both put together, of parts, and of executions; a sum of two does not say so."""
    needs = sf.Needs.MATCHED_GAPS
    eye = torch.eye(6, dtype=torch.float64)
    # ordinary, a radius near zero, ordinary, no feature
    features = torch.stack([eye[2], -2 * (1 - 1e-12) * eye[0], eye[3] + eye[0], 0 * eye[0]])
    mixed = sf.States(sf.ClassBank(eye[:3], [2.0, 3.0, 2.0], [0.0, 1.0, 0.0]), features, [0, 1, 0, 1], 1.0)
    for states in (mixed, *(random_states(seed, queries=6) for seed in range(5))):
        for order in (1, 2, 4):
            realized = sf.Analytic(sf.DebyePair(order=order)).at(states)
            head = realized.head()
            for family in (realized.own(needs), realized.unit(needs)):
                assert family.within
                assert _within(family, head.target, head.top)
                assert family[torch.tensor([3, 1])].within
                assert not family.plus(family).within
                assert not realized.own().within
        executed = sf.Execution(sf.DebyePair()).at(states)
        for family in (executed.own(needs), executed.unit(needs), executed.beside(needs)):
            head = executed.head()
            assert not family.within or _within(family, head.target, head.top)


def test_multiples_and_mixtures_are_not_said_to_be_within() -> None:
    """What underflows is raised to the least number: a gap above the sum by it, and one of two parts that is not."""
    gaps = torch.tensor([[0.0, 1e-300]], dtype=torch.float64)
    d = torch.tensor([[1e-300, 0.0]], dtype=torch.float64)
    given = Allowances(d=d, a=d, to_target=gaps, to_top=gaps, within=True)
    small = given.scaled(_row(1e-100))
    assert small.to_target is not None
    assert not small.within
    other = Allowances(d=d, a=d, to_target=2 * gaps, to_top=gaps)
    assert not given.put(torch.tensor([0]), other).within
    assert given.put(torch.tensor([0]), given).within


def test_a_head_with_distances_keeps_what_has_been_formed() -> None:
    scores = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 2.0]], dtype=torch.float64)
    head = SoftmaxHead(
        log_probabilities=scores.log_softmax(dim=1), target=torch.tensor([0, 1]), gradient_scale=_row(1.0, 1.0)
    )
    pi, rest, top = head.pi, head.rest, head.top
    measured = head.measured(torch.ones_like(scores))
    assert measured.pi is pi
    assert measured.rest is rest
    assert measured.top is top
    assert head.distances is None
    assert measured.distances is not None
    # a part of it forms its own
    part = measured[torch.tensor([1])]
    assert torch.equal(part.rest, rest[1:])
    assert part.top.tolist() == [0]
