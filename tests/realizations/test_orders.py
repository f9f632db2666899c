"""All orders at once: allowances and log-probabilities hold in Arb, and are those of every order by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.contracts.conditioned import CONDITIONED
from suffice.pairs.constants import valid_orders
from suffice.realizations.analytic import AnalyticRealized, realize_contrastive
from suffice.realizations.orders import ladder_at, picked
from tests.reference.oracle import OracleState, states_of
from tests.reference.states import random_states

ORDERS = (1, 2, 3, 4, 5, 6)


def _realized(seed: int, queries: int, shapes: list[tuple[int, int]]) -> AnalyticRealized:
    return realize_contrastive(random_states(seed, queries, shapes), sf.DebyePair())


@pytest.mark.parametrize("seed", range(14))
def test_errors_are_within_their_allowances(seed: int) -> None:
    """Radii near zero, ties, zero features, saturation: from features and bank, never from a computed geometry."""
    realized = _realized(seed, 2, [(2, 5), (3, 7), (7, 64)])
    made = ladder_at(realized, ORDERS, 2)
    assert made.head.log_error is not None
    for i, state in enumerate(states_of(realized.states)):
        with ctx.workprec(1200):
            if not state.at(1200).decided:
                continue
            for n in ORDERS:
                _check(state, n, made.rows(n).start + i, made)


def _check(state: OracleState, order: int, row: int, made: object) -> None:
    head, own = made.head, made.allowances  # type: ignore[attr-defined]
    at = state.at(1200)
    bank, ends = at.bank, at.bank.surrogate_ends(order)
    hats = [bank.surrogate(order, r) for r in at.r]
    scores = [hat[0] - end + c for hat, end, c in zip(hats, ends, bank.c, strict=True)]
    peak = max(scores, key=lambda q: float(q.mid()))
    total = sum(((q - peak).exp() for q in scores), arb(0)).log() + peak
    for j, (r, hat) in enumerate(zip(at.r, hats, strict=True)):
        # without a feature both scores are one ball, of an exact zero
        assert not abs(scores[j] - at.scores[j]) > arb(own.d[row, j].item())
        assert r * abs(hat[1] - at.slopes[j]) <= arb(own.a[row, j].item())
        off = abs(arb(head.log_probabilities[row, j].item()) - (scores[j] - total))
        assert off <= arb(head.log_error[row].item())


@pytest.mark.parametrize("seed", range(10))
def test_they_are_those_of_each_order(seed: int) -> None:
    """Nowhere below an order's own by more than rounding, and nowhere above by more than what is widened."""
    realized = _realized(seed, 9, [(3, 7), (7, 64), (20, 33), (50, 128)])
    made = ladder_at(realized, ORDERS, 3)
    for n in ORDERS:
        alone = realized.under(sf.DebyePair(order=n))._each
        rows, head, own = made.rows(n), alone.head, alone.own
        assert torch.equal(made.head.log_probabilities[rows], head.log_probabilities)
        assert made.head.log_error is not None
        assert head.log_error is not None
        assert (made.head.log_error[rows] >= head.log_error * (1 - 1e-6)).all()
        assert (made.head.log_error[rows] <= head.log_error * 4).all()
        for found, expected in ((made.allowances.d, own.d), (made.allowances.a, own.a)):
            assert (found[rows] >= expected * (1 - 1e-13)).all()
        # where computed and exact radius are close against their distance from k
        close = alone.off.of_gap * 1e9 < realized.geometry.squared_gaps.abs()
        assert (made.allowances.d[rows] <= own.d * (1 + 1e-8))[close].all()
        near = alone.off.high - alone.off.low < 1e-12 * alone.off.high
        assert (made.allowances.a[rows] <= own.a * (1 + 1e-10))[near].all()
    unit = realized.unit()
    assert torch.equal(made.allowances.d[made.unit_rows], unit.d)
    assert torch.equal(made.allowances.a[made.unit_rows], unit.a)
    third = made.head.log_probabilities[made.rows(3)]
    assert torch.equal(made.head.log_probabilities[made.unit_rows], third)


def test_only_the_orders_that_are_asked_for() -> None:
    realized = _realized(3, 4, [(5, 16)])
    whole, some = ladder_at(realized, ORDERS, 2), ladder_at(realized, (2, 5), 5)
    for n in (2, 5):
        assert torch.equal(whole.allowances.d[whole.rows(n)], some.allowances.d[some.rows(n)])
        assert torch.equal(whole.head.log_probabilities[whole.rows(n)], some.head.log_probabilities[some.rows(n)])
    assert len(some.family(CONDITIONED)) == 3 * 4
    assert valid_orders(1.2) == (1, 2, 3)


def test_nothing_is_known_of_rows_outside() -> None:
    base = random_states(0, 3, [(4, 7)])
    scale = torch.tensor([1.0, 1e200, 1.0], dtype=torch.float64)
    states = sf.States(base.bank, base.features * scale[:, None], base.labels, base.temperature)
    made = ladder_at(realize_contrastive(states, sf.DebyePair()), ORDERS, 2)
    assert made.head.log_error is not None
    assert torch.isinf(made.head.log_error.view(-1, 3)).tolist() == [[False, True, False]] * 7


def test_what_underflows_is_not_zero() -> None:
    """s of 1e140: every power of its inverse is zero in float64. Without a feature there is no error at all."""
    bank = sf.ClassBank(torch.eye(7, dtype=torch.float64)[:3], [1e140, 1e140, 2.0])
    features = torch.tensor([[1.0, 1, 1, 0, 0, 0, 0], [0.0] * 7], dtype=torch.float64)
    made = ladder_at(realize_contrastive(sf.States(bank, features, [0, 1], 1.0), sf.DebyePair()), ORDERS, 2)
    assert (made.allowances.a > 0).all()
    for n in ORDERS:
        d = made.allowances.d[made.rows(n)]
        assert (d[0] > 0).all()
        assert (d[1] == 0).all()


def test_some_rows_take_the_geometry_along() -> None:
    realized = _realized(8, 6, [(7, 64)])
    pair = sf.DebyePair(order=4)
    rows = torch.tensor([4, 1])
    for part, places in ((picked(realized, rows, pair), rows), (realized.part(slice(2, 5)), torch.arange(2, 5))):
        assert len(part) == len(places)
        assert torch.equal(part.geometry.radii, realized.geometry.radii[places])
        assert torch.equal(part.off.of_gap, realized.off.of_gap[places])
        assert torch.equal(part.states.labels, realized.states.labels[places])
    assert picked(realized, torch.arange(6), pair).pair == pair
    assert realized.part(slice(0, 2)).pair == realized.pair


def test_the_geometry_may_be_off() -> None:
    """A squared radius known to a tenth: what lies between computed and exact radius is in d, a and the error."""
    realized = _realized(3, 4, [(5, 16)])
    off = realized.off
    wide = replace(off, of_gap=off.of_gap + 0.1, s_r=off.s_r * 0.99, high=off.high * 1.01)
    moved = AnalyticRealized(realized.states, realized.pair, realized.geometry, realized.outside, wide)
    plain, found = ladder_at(realized, ORDERS, 2), ladder_at(moved, ORDERS, 2)
    assert plain.head.log_error is not None
    assert found.head.log_error is not None
    # the integral of R between the radii alone
    least = (2 * 0.1 / (2 * (realized.geometry.nu + off.s_r))).amax(dim=1)
    assert (found.head.log_error.view(-1, 4)[:-1] > least).all()
    for n in ORDERS:
        rows, c = found.rows(n), 0.4
        between = c * 0.1 / 2 / off.s_r ** (n + 2)
        assert (found.allowances.d[rows] - plain.allowances.d[rows] > 0.9 * between).all()
        if n != 2:
            assert (found.allowances.a[rows] > plain.allowances.a[rows] * 1.00999 / 0.99 ** (n + 2)).all()
