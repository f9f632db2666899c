"""What a certificate says of its own bounds: strict margins, rounded margins, verdicts that agree with headroom."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_used
from suffice.contracts.centered import centered_bounds, centered_in_logs
from suffice.contracts.centered_series import centered_series
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from suffice.tolerances.invert import invert, invert_directly
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)
CONTRACTS = {"geometry": geometry_bounds, "conditioned": conditioned_bounds, "centered": centered_bounds}


def _row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_margin_that_is_used_up_certifies_nothing() -> None:
    use = _row(math.nextafter(1.0, 0.0), 1.0, math.inf, math.nan)
    bounds = Bounds(loss=use, probability=use, gradient=use, margin_use=use)
    assert bounds.prediction.tolist() == [True, False, False, False]


EVALUATORS = {
    **CONTRACTS,
    "centered in logarithms": centered_in_logs,
    "centered by series": lambda head, allowances: centered_series(head, allowances).at_one()[0],
}


@pytest.mark.parametrize("contract", EVALUATORS)
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
        found: Bounds = EVALUATORS[contract](head, allowances)
        return found.margin_use.item()

    assert use(6e-4, 1e-9) == math.inf
    assert use(4e-4, 0.9e-4) == pytest.approx(0.9, rel=0.05)
    assert use(4e-4, 1.1e-4) > 1


def test_a_margin_of_some_roundings_keeps_its_digits() -> None:
    """Gaps of one to six ulps, less what log-probabilities may be off: a part of an ulp counts."""
    best, ulp = math.log(0.5), math.ulp(math.log(0.5))
    gap = _row(1.0, 1.0, 2.0, 6.0) * ulp
    log_error = _row(0.2, 0.45, 0.7, 0.2) * ulp
    log_pi = torch.stack([torch.full_like(gap, best), best - gap], dim=1)
    d = torch.full((4, 2), 1e-17, dtype=torch.float64)
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.zeros(4, dtype=torch.long),
        gradient_scale=torch.ones_like(gap),
        log_error=log_error,
    )
    to_top = torch.stack([torch.zeros_like(gap), torch.full_like(gap, 2e-17)], dim=1)
    exact = 2e-17 / (gap - 2 * log_error)
    assert (margin_used(head, d, to_top) >= exact).all()
    assert (margin_used(head, d, to_top) <= exact * (1 + 1e-10)).all()


def _head(dtype: torch.dtype = torch.float64) -> SoftmaxHead:
    scores = torch.tensor([[2.0, 0.5, -1.0]] * 3, dtype=dtype)
    return SoftmaxHead(
        log_probabilities=torch.log_softmax(scores, dim=1),
        target=torch.tensor([0, 1, 2]),
        gradient_scale=torch.ones(3, dtype=dtype),
        distances=torch.ones_like(scores),
    )


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_allowance_that_is_no_number_accepts_nothing(contract: str, value: float) -> None:
    """Whichever class has it, at every multiple but zero."""
    head, even = _head(), torch.full((3, 3), 1e-3, dtype=torch.float64)
    unknown = even.clone().fill_diagonal_(value)
    one = torch.ones(3, dtype=torch.float64)
    for given, names in (
        (Allowances(d=unknown, a=even), ("loss", "probability", "gradient")),
        (Allowances(d=even, a=unknown), ("gradient",)),
    ):
        for found in (CONTRACTS[contract](head, given), CONTRACTS[contract](head, given.scaled(1e-3 * one))):
            for name in names:
                # no two distributions are further apart than 1, and no two gradients than 2 and their ratio errors
                assert (getattr(found, name) >= 1).all()
        family = SoftmaxFamily(contract=contract_named(contract), head=head, unit=given)
        assert (invert(family, sf.Budgets(gradient=1.0)).accepted == 0).all()


def test_one_dtype_for_all() -> None:
    """Sums of float32 allowances, or a float32 slack, would be below what float64 bounds are raised by."""
    head, even = _head(), torch.full((3, 3), 1e-3, dtype=torch.float64)
    half = Allowances(d=even.float(), a=even.float())
    for bounds in CONTRACTS.values():
        with pytest.raises(TypeError, match=r"in torch\.float64, as the head is, but got torch\.float32"):
            bounds(head, half)
    with pytest.raises(TypeError, match="as the head is"):
        SoftmaxFamily(contract=contract_named("centered"), head=head, unit=half)
    with pytest.raises(TypeError, match=r"Expected one dtype for all allowances"):
        Allowances(d=even, a=even.float())
    with pytest.raises(TypeError, match=r"one dtype for a head, but got gradient_scale in torch\.float32"):
        replace(head, gradient_scale=torch.ones(3))
    assert torch.isfinite(conditioned_bounds(_head(torch.float32), half).loss).all()


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


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_is_a_bracket_point_of_the_search_itself(contract: str) -> None:
    """Where no series and no aim settles a row: accepted from 1 on, or rejected there, without another word."""
    for seed in (3, 8, 9):
        realized = Analytic(PAIR).at(random_states(seed, 6, [(7, 64)]))
        family = realized.own_family(contract_named(contract))
        bounds = realized.bounds(contract_named(contract))
        for name in ("loss", "gradient"):
            bound = getattr(bounds, name)
            met = invert_directly(family, sf.Budgets(**{name: bound}), bounds)
            assert (met.accepted >= 1).all()
            less = torch.nextafter(bound, torch.zeros_like(bound))
            missed = invert_directly(family, sf.Budgets(**{name: less}), bounds)
            assert (missed.accepted < 1).all()
            assert (missed.rejected <= 1).all()
