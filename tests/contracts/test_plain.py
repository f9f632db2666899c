"""Plain arithmetic agrees with the log domain to both slacks, is never below it, and knows where it may be used."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds, centered_in_logs
from suffice.contracts.conditioned import conditioned_bounds, conditioned_in_logs
from suffice.contracts.plain import LARGEST_MOVEMENT, in_plain_arithmetic, plain_bounds
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states

NEEDS = sf.Needs.DISTANCES | sf.Needs.MATCHED_GAPS
IN_LOGS = {False: conditioned_in_logs, True: centered_in_logs}
NAMES = ("loss", "probability", "gradient", "margin_use")


def _of(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def _head(*scores: float, distances: float = 1.0) -> SoftmaxHead:
    log_pi = torch.log_softmax(_of(*scores), dim=1)
    return SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.tensor([0]),
        gradient_scale=torch.ones(1, dtype=torch.float64),
        distances=torch.full_like(log_pi, distances),
    )


def _even(size: float, classes: int = 3, a: float | None = None) -> Allowances:
    d = torch.full((1, classes), size, dtype=torch.float64)
    return Allowances(d=d, a=torch.full_like(d, size if a is None else a))


def test_both_evaluators_agree_to_their_slacks() -> None:
    """Random and adversarial states, both families, allowances from 1e-12 to past the domain."""
    total = inside_total = 0
    states = [*many_states(140, queries=10), *(extreme_states(seed) for seed in range(40))]
    for each in states:
        realized = Analytic(sf.DebyePair()).at(each)
        head = realized.head(NEEDS)
        for family in (realized.own(NEEDS), realized.unit(NEEDS)):
            largest = family.d.amax(dim=1).clamp_min(1e-300)
            for size in (1e-12, 1e-6, 1e-2, 0.45, 1.2, 12.0, 49.0, 90.0):
                given = family.scaled(size / largest)
                for centered, in_logs in IN_LOGS.items():
                    found, inside = plain_bounds(head, given, centered=centered)
                    total, inside_total = total + len(inside), inside_total + int(inside.sum())
                    if not bool(inside.any()):
                        continue
                    reference = in_logs(head, given)
                    for name in NAMES:
                        plain, logs = getattr(found, name)[inside], getattr(reference, name)[inside]
                        assert (plain >= logs).all(), name
                        assert (plain <= logs * (1 + 1.5 * head.roundings)).all(), name
    assert 0.5 * total < inside_total < total


def test_rows_outside_of_the_domain_are_not_inside() -> None:
    """Movements, allowances, distances and |h| that are too large; bounds that are too small; nothing known."""
    head = _head(0.0, 0.1, 0.2)

    def inside(head: SoftmaxHead, given: Allowances) -> bool:
        return bool(plain_bounds(head, given, centered=True)[1])

    assert inside(head, _even(0.1))
    assert inside(head, _even(LARGEST_MOVEMENT / 2))
    assert not inside(head, _even(LARGEST_MOVEMENT / 2 * 1.001))
    assert not inside(head, replace(_even(0.1), d=_of(0.1, math.nan, 0.1)))
    assert not inside(head, replace(_even(0.1), d=_of(0.1, math.inf, 0.1)))
    assert not inside(head, _even(0.1, a=1e101))
    assert not inside(_head(0.0, 0.1, 0.2, distances=1e101), _even(0.1))
    assert not inside(replace(head, h_bound=1e101), _even(0.1))
    assert not inside(head, _even(0.0))
    assert not inside(head, _even(1e-201))
    # the target has all but 1e-217 of the mass
    assert not inside(_head(500.0, 0.0, 0.0), _even(0.1))
    # movements of 40 magnify what underflowed by e^40 more than those of 30: bounds of 1e-182 are not enough
    assert not inside(_head(498.0, 0.0, 0.0), _even(20.0, a=0.1))
    assert inside(_head(450.0, 0.0, 0.0), _even(20.0))
    assert inside(_head(400.0, 0.0, 0.0), _even(0.1))
    # a gradient of 1e-174 is large enough, and is not beside an allowance of 1e60 for a class that has underflowed
    assert inside(_head(400.0, 0.0, -400.0), _even(0.1))
    assert not inside(_head(400.0, 0.0, -400.0), replace(_even(0.1), a=_of(0.1, 0.1, 1e60)))
    assert not inside(replace(head, log_error=_of(math.inf)[0]), _even(0.1))


@pytest.mark.parametrize("matched", ["to_target", "to_top"])
def test_bounds_on_differences_are_movements(matched: str) -> None:
    """Of one that is not matched, d_i + d_j: 120 is too large where no d_j is."""
    given = replace(_even(60.0), **{matched: _of(0.0, 0.1, 0.1) if matched == "to_target" else _of(0.1, 0.1, 0.0)})
    assert not plain_bounds(_head(0.0, 0.1, 0.2), given, centered=True)[1]
    both = replace(given, to_target=_of(0.0, 0.1, 0.1), to_top=_of(0.1, 0.1, 0.0))
    assert plain_bounds(_head(0.0, 0.1, 0.2), both, centered=True)[1]


def test_a_divergence_that_underflows_is_not_inside() -> None:
    """Of second order: 1e-220 where the others are 1e-110."""
    head = _head(0.0, 0.1, 0.2)
    assert plain_bounds(head, _even(1e-110), centered=True)[1]
    assert not plain_bounds(replace(head, divergence=True), _even(1e-110), centered=True)[1]


@pytest.mark.parametrize("size", [1e-6, 0.1, 3.0, 30.0])
def test_divergences_of_both_evaluators_agree(size: float) -> None:
    """With a vector of differences that is much smaller than d, and one that is not."""
    for matched in (0.01, 0.5, 2.0):
        head = replace(_head(2.0, 0.1, -3.0), divergence=True)
        far = size * _of(0.0, matched, 0.3 * matched)
        given = replace(_even(size), to_target=far, to_top=far)
        found, inside = plain_bounds(head, given, centered=True)
        reference = centered_in_logs(head, given)
        assert inside.all()
        assert found.kl is not None
        assert reference.kl is not None
        assert (found.kl >= reference.kl).all()
        assert (found.kl <= reference.kl * (1 + 1.5 * head.roundings)).all()


@pytest.mark.parametrize("target", [0, 1])
def test_gaps_that_are_one_and_the_same(target: int) -> None:
    """One tensor of bounds on differences, for the top class and for the target: whether these are one class or two."""
    head = replace(_head(2.0, 0.1, -3.0), target=torch.tensor([target]))
    far = _of(0.02, 0.5, 0.7)
    given = replace(_even(1.0), to_target=far, to_top=far)
    apart = replace(given, to_target=far.clone())
    one, other = sf.centered_bounds(head, given), sf.centered_bounds(head, apart)
    reference = centered_in_logs(head, given)
    for name in NAMES:
        assert getattr(one, name) == getattr(other, name)
        assert getattr(one, name) >= getattr(reference, name)
        assert getattr(one, name) <= getattr(reference, name) * (1 + 1.5 * head.roundings)
    part = given[torch.tensor([0])]
    assert part.to_target is part.to_top
    part = apart[torch.tensor([0])]
    assert part.to_target is not part.to_top


def test_a_row_does_not_depend_on_the_others() -> None:
    """One with movements past 1 beside it, and one that is outside: the same to the last bit."""
    heads = [_head(0.3, 0.1, -2.0), _head(1.0, 0.1, 0.2), _head(600.0, 0.0, 1.0)]
    given = [_even(0.2), _even(9.0), _even(0.1)]
    head = replace(
        heads[0],
        log_probabilities=torch.cat([each.log_probabilities for each in heads]),
        target=torch.zeros(3, dtype=torch.long),
        gradient_scale=torch.ones(3, dtype=torch.float64),
        distances=torch.ones(3, 3, dtype=torch.float64),
    )
    joint = Allowances(d=torch.cat([each.d for each in given]), a=torch.cat([each.a for each in given]))
    together = sf.centered_bounds(head, joint)
    for row, (one, allowances) in enumerate(zip(heads, given, strict=True)):
        alone = sf.centered_bounds(one, allowances)
        for name in NAMES:
            assert getattr(together, name)[row] == getattr(alone, name)[0], (row, name)


def test_rows_outside_go_to_the_other_evaluator() -> None:
    """Which is not asked where there are none, and asked for everything in float32."""
    asked: list[int] = []

    def in_logs(head: SoftmaxHead, allowances: Allowances) -> Bounds:
        asked.append(len(head.target))
        return conditioned_in_logs(head, allowances)

    head = _head(0.0, 0.1, 0.2)
    in_plain_arithmetic(head, _even(0.1), in_logs)
    assert asked == []
    in_plain_arithmetic(head, _even(LARGEST_MOVEMENT * 1.001), in_logs)
    assert asked == [1]
    tensors = ("log_probabilities", "gradient_scale", "distances")
    narrow = replace(head, **{name: getattr(head, name).float() for name in tensors})
    given = Allowances(d=_even(0.1).d.float(), a=_even(0.1).a.float())
    in_plain_arithmetic(narrow, given, in_logs)
    assert asked == [1, 1]


def test_exponentials_are_as_accurate_as_assumed() -> None:
    """expm1 over the domain's movements and exp over log-probabilities, against Arb: within 2 of the 4 ulps."""
    g = torch.Generator().manual_seed(0)
    small = LARGEST_MOVEMENT * 10 ** (-20 * torch.rand(4000, generator=g, dtype=torch.float64))
    large = -700 * torch.rand(4000, generator=g, dtype=torch.float64)
    with ctx.workprec(200):
        for name, points in (("expm1", small), ("exp", large)):
            for x, found in zip(points.tolist(), getattr(torch, name)(points).tolist(), strict=True):
                exact = getattr(arb(x), name)()
                assert abs(arb(found) / exact - 1) <= 2 * 2.0**-52, (name, x)


def test_the_centred_contract_is_never_above_at_the_edge_of_the_domain() -> None:
    """Where a centred bound is below 1e-200, and the conditioned one is not."""
    seen = 0
    for states in many_states(1700):
        realized = Analytic(sf.DebyePair()).at(states)
        head, unit = realized.head(NEEDS), realized.unit(NEEDS)
        b = (1 / unit.d.amax(dim=1).clamp_min(1e-3)).clamp_max(1.0)
        for factor in (1.0, 1e-3):
            scaled = unit.scaled(factor * b)
            inside = [plain_bounds(head, scaled, centered=centered)[1] for centered in (True, False)]
            seen += int((inside[1] & ~inside[0]).sum())
            tight, loose = centered_bounds(head, scaled), conditioned_bounds(head, scaled)
            for name in ("loss", "probability", "gradient"):
                assert (getattr(tight, name) <= getattr(loose, name)).all()
    assert seen


def test_multiples_are_those_of_scaled_allowances() -> None:
    """Bounds at b times a unit are those at the scaled one, to their roundings, in all rows and blocks of rows."""
    for each in [*many_states(140, queries=10), *(extreme_states(seed) for seed in range(10))]:
        realized = Analytic(sf.DebyePair()).at(each)
        head = realized.head(NEEDS)
        for unit in (realized.own(NEEDS), realized.unit(NEEDS)):
            for size in (0.0, 1e-6, 0.45, 12.0, 300.0):
                b = size / unit.d.amax(dim=1).clamp_min(1e-300)
                for contract in (contract_named("conditioned"), contract_named("centered")):
                    assert contract.along is not None
                    found, expected = contract.along(head, unit, b, None), contract.bounds(head, unit.scaled(b))
                    for name in NAMES:
                        one, other = getattr(found, name), getattr(expected, name)
                        torch.testing.assert_close(one, other, rtol=2 * head.roundings, atol=0, equal_nan=True)


def test_a_factor_does_not_bring_back_what_underflowed() -> None:
    """pi_j a_j vanishes at a_j = 1e-300, and a factor of 1e300 does not restore it: such rows are for logarithms."""
    head = _head(60.0, 0.0, 0.1, distances=1e-20)
    given = replace(_even(1e-300), d=_of(1e-306, 1e-306, 1e-306))
    b = _of(1e300)[0]
    found, inside = plain_bounds(head, given, centered=True, factor=b)
    assert not inside.any()
    assert plain_bounds(head, given.scaled(b), centered=True)[1].all()
    right = sf.centered_bounds(head, given.scaled(b)).gradient
    assert found.gradient < 0.9 * right
    contract = contract_named("centered")
    assert contract.along is not None
    torch.testing.assert_close(contract.along(head, given, b, None).gradient, right, rtol=1e-11, atol=0)


def test_blocks_of_rows_are_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    states = next(iter(many_states(140, queries=10)))
    realized = Analytic(sf.DebyePair()).at(states)
    head, unit = realized.head(NEEDS), realized.unit(NEEDS)
    b = torch.logspace(-6, -1, 10, dtype=torch.float64) / unit.d.amax(dim=1)
    contract = contract_named("centered")
    assert contract.along is not None
    whole = contract.along(head, unit, b, None)
    monkeypatch.setattr("suffice.contracts.plain._BLOCK", 3 * states.num_classes)
    parts = contract.along(head, unit, b, None)
    for name in (*NAMES, "slow"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-14, atol=0)


def test_what_is_not_asked_for_is_not_below() -> None:
    """For some budgets only: their bounds are the same, and all others at least as large."""
    for states in many_states(40, queries=10):
        realized = Analytic(sf.DebyePair()).at(states)
        head, unit = realized.head(NEEDS), realized.unit(NEEDS)
        b = 0.1 / unit.d.amax(dim=1)
        along = contract_named("centered").along
        assert along is not None
        whole, some = along(head, unit, b, None), along(head, unit, b, frozenset({"loss", "gradient"}))
        for name in NAMES:
            assert (getattr(some, name) >= getattr(whole, name)).all()
        for name in ("loss", "gradient", "slow"):
            assert torch.equal(getattr(some, name), getattr(whole, name))
        probability = along(head, unit, b, frozenset({"probability"})).probability
        assert torch.equal(probability, whole.probability)
        assert torch.equal(along(head, unit, b, frozenset({"prediction"})).margin_use, whole.margin_use)


def test_bounds_have_derivatives() -> None:
    """Where a derivative is wanted, logarithms give it; where it is not, nothing changes."""
    head, given = _head(0.0, 0.1, 0.2), _even(0.1)
    d = given.d.clone().requires_grad_()
    bounds = sf.centered_bounds(head, replace(given, d=d))
    bounds.loss.sum().backward()
    assert d.grad is not None
    # the target's own allowance counts for all others, and each of these for itself
    assert (d.grad > 0).all()
    with torch.no_grad():
        again = sf.centered_bounds(head, replace(given, d=d))
    torch.testing.assert_close(again.loss, bounds.loss.detach(), rtol=1e-11, atol=0)
