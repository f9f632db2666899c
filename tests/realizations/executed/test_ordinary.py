"""Ordinary rows: allowances are those of the careful way, and hold in Arb class by class; no other row is taken."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.contracts.bounds import Allowances
from suffice.contracts.plain import towards
from suffice.numerics.outward import above
from suffice.pairs.constants import CLOSED_FORM
from suffice.realizations.executed.ordinary import ordinary_rows
from suffice.realizations.executed.program import execute
from suffice.realizations.executed.realization import ExecutedRealized, Execution, executed_geometry
from suffice.truth import surrogate
from tests.realizations.executed.judging import careful, rows_of, states_of, unit_rows
from tests.reference.exact import exact_outputs
from tests.support.executed import adversarial

ORDERS = [1, 2, 3, 6]


@pytest.mark.parametrize("order", ORDERS)
def test_they_are_those_of_the_careful_way(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        states = states_of(seed, dim=(6, 33, 128)[seed % 3])
        executed = execute(states, order)
        slow, quick = careful(monkeypatch, states, executed), rows_of(states, order)
        assert slow._ordinary is None
        wanted, index = slow._matched, (states.labels, slow.top)
        found = quick.matched(index)
        assert wanted.to_target is not None
        assert wanted.to_top is not None
        for ours, theirs in ((found.d, wanted.d), (found.a, wanted.a), (quick.rounding, slow._rounding.d)):
            assert (ours >= theirs * (1 - 1e-11)).all()
            assert (ours <= theirs * (1 + 1e-8)).all()
        # what contracts take; differences of G are off by roundings of G, which are small beside the scores' own
        beside = quick._lost[:, None] + 1e-300
        for ours, theirs, at in zip(_both(found), (wanted.to_target, wanted.to_top), index, strict=True):
            assert (towards(found.d, ours, at) >= towards(wanted.d, theirs, at) * (1 - 1e-11)).all()
            assert (towards(found.d, ours, at) <= towards(wanted.d, theirs, at) * (1 + 1e-8) + 2 * beside).all()
            assert (ours.gather(1, at[:, None]) == 0).all()


def _both(found: Allowances) -> tuple[torch.Tensor, torch.Tensor]:
    assert found.to_target is not None
    assert found.to_top is not None
    return found.to_target, found.to_top


@pytest.mark.parametrize("order", ORDERS)
def test_they_hold_class_by_class(order: int) -> None:
    """Scores, their differences, and the formula's slope times |v|, against Arb."""
    states = states_of(10 + order, queries=3, classes=5, dim=24)
    quick = rows_of(states, order)
    found = quick.matched((states.labels, states.labels))
    scores, radii, nu = quick.executed.scores.tolist(), quick.geometry.radii.tolist(), states.bank.nu
    assert found.to_target is not None
    for n in range(len(states)):
        exact, y = exact_outputs(states[n : n + 1]), int(states.labels[n])
        with ctx.workprec(900):
            errors = [arb(score) - right for score, right in zip(scores[n], exact.scores, strict=True)]
            for j, error in enumerate(errors):
                assert abs(error) <= found.d[n, j].item()
                assert j == y or abs(error - errors[y]) <= found.to_target[n, j].item()
                slope = surrogate.ratio(order, nu, radii[n][j], bits=900) / arb(radii[n][j])
                assert abs(slope - exact.slopes[j]) * exact.radii[j] <= found.a[n, j].item()
                executed = arb(quick.executed.slopes[n, j].item())
                assert abs(slope - executed) <= quick.slope_error[n, j].item()


@pytest.mark.parametrize("order", [3, 4])
def test_differences_of_integrals_lose_no_more_than_is_added(order: int) -> None:
    """Radii that differ in the last digits: G is the same number, or another, for all of them."""
    g = torch.Generator().manual_seed(order)
    direction = unit_rows(g, 1, 32)
    k = 300 * (1 + 1e-15 * torch.arange(40, dtype=torch.float64))
    states = sf.States(sf.ClassBank(direction.repeat(40, 1), k), unit_rows(g, 2, 32), [3, 30], 0.1)
    quick = rows_of(states, order)
    row = next(row for row in CLOSED_FORM if row.order == order and states.bank.nu >= row.nu_min)
    gaps, at = quick.geometry.squared_gaps, states.labels
    found = quick._towards(at) - quick.rounding - quick.rounding.gather(1, at[:, None])
    below = 0
    with ctx.workprec(400):
        v = arb(states.bank.nu)
        c = v / (2 * (v + 1)) if row.value is None else arb(row.value.numerator) / row.value.denominator

        def integral(x: arb, y: arb) -> arb:
            both = [(v * v + z * z).sqrt() ** -order for z in (x, y)]
            return c / order * abs(both[0] - both[1])

        for n, y in enumerate(at.tolist()):
            ends = [(arb(k[j].item()), (arb(k[j].item()) ** 2 + arb(gaps[n, j].item())).sqrt()) for j in range(40)]
            for j in set(range(40)) - {y}:
                exact = integral(ends[j][1], ends[y][1]) + integral(ends[j][0], ends[y][0])
                assert exact <= above(found[n, j].item(), 1 << 20)
                below += bool(exact > found[n, j].item() - quick._lost[n].item())
    # without what is added they would not be enough
    assert below > 10


def test_what_is_not_ordinary_goes_the_careful_way() -> None:
    """Another dtype or envelope, radii of nothing, no feature, and lengths near the ends of the numbers."""
    states = states_of(1)
    bank = states.bank
    assert Execution(sf.DebyePair()).at(states)._ordinary is not None
    assert Execution(sf.DebyePair(), torch.float32).at(states)._ordinary is None
    assert Execution(sf.DebyePair(envelope=sf.Uniform("quarter"))).at(states)._ordinary is None
    against = -bank.concentrations[:1, None] * bank.directions[:1]
    others = (
        sf.States(bank, against, [0], 1.0),
        sf.States(bank, 0 * states.features, states.labels, 1.0),
        sf.States(bank, 1e-110 * states.features, states.labels, 1.0),
        sf.States(bank, 1e101 * states.features, states.labels, 1.0),
    )
    for other in others:
        assert Execution(sf.DebyePair()).at(other)._ordinary is None
    # one row of them is enough
    mixed = sf.States(bank, torch.cat([states.features[:3], against]), [0, 1, 2, 0], 1.0)
    assert Execution(sf.DebyePair()).at(mixed[[0, 1, 2]])._ordinary is not None
    assert Execution(sf.DebyePair()).at(mixed)._ordinary is None


def test_ordinary_radii_are_far_from_their_error() -> None:
    """At adversarial states as well: what is taken is within a billionth, and no clamp acted."""
    taken = 0
    for seed in range(60):
        states = adversarial(seed, 4, 7, 64)
        executed = execute(states, 4)
        geometry = executed_geometry(states, executed)
        found = ordinary_rows(states, executed, sf.DebyePair(order=4), geometry, "proved")
        if found is not None:
            off = ExecutedRealized(states, executed, sf.DebyePair(order=4)).off
            assert (off.of_gap <= 1.1e-9 * geometry.radii**2).all()
            assert (found.error.of_gap >= off.of_gap * (1 - 1e-11)).all()
            assert (off.high <= geometry.radii * above(1 + found.error.widest)).all()
            assert ((states.bank.nu + off.s_r) * (1 + 2 * found.error.widest + 2e-12) >= 1 / found.lead).all()
            taken += 1
    assert 5 < taken < 60


def test_rows_are_taken() -> None:
    states = states_of(3)
    whole, some = rows_of(states, 2), torch.tensor([5, 1])
    assert torch.equal(whole[some].plain.d, whole.plain.d[some])
    assert torch.equal(whole[some].plain.a, whole.plain.a[some])
    realized = Execution(sf.DebyePair()).at(states)
    assert torch.equal(realized[some].own().d, whole.plain.d[some])
