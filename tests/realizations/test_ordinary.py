"""Ordinary rows: log-probabilities and allowances at the exact geometry, against Arb, and how narrow they are."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.pairs.constants import UNIFORM, closed_form_constant
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.ordinary import OrdinaryRows, ordinary_rows
from tests.reference.oracle import Geometry
from tests.support.ordinary import BITS, ordinary_cases, ordinary_states

ORDERS = (1, 2, 3, 6)
PAIRS = [sf.DebyePair(order=n) for n in ORDERS] + [sf.DebyePair(order=2, envelope=sf.ClosedForm(2))]


def _rows(states: sf.States, pair: sf.DebyePair) -> OrdinaryRows:
    found = ordinary_rows(states, states.geometry(), pair, torch.zeros(len(states), dtype=torch.bool))
    assert found is not None
    return found


class Envelope:
    """The exact envelope of a pair in Arb: its values, and its integral between two radii."""

    def __init__(self, pair: sf.DebyePair, nu: float) -> None:
        self.n, self.nu = pair.order, arb(nu)
        self.c = arb(float(closed_form_constant(pair.order, nu)))
        best = pair.order == 2 and pair.envelope is None
        value = UNIFORM["eleventh"].value
        self.cap = arb(value.numerator) / value.denominator / self.nu**3 if best else None

    def s(self, x: arb) -> arb:
        return (self.nu * self.nu + x * x).sqrt()

    def at(self, x: arb) -> arb:
        found = self.c * x / self.s(x) ** (self.n + 2)
        return found if self.cap is None else min(found, self.cap)

    def between(self, x: arb, y: arb) -> arb:
        found = self.c / self.n * abs(self.s(x) ** -self.n - self.s(y) ** -self.n)
        return found if self.cap is None else min(found, self.cap * abs(x - y))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_allowances_are_above_the_envelope_at_the_exact_radii(pair: sf.DebyePair) -> None:
    seen = 0
    for state, exact in ordinary_cases(20):
        rows = _rows(state, pair)
        top = rows.head.log_probabilities.argmax(dim=1)
        placed = rows.own_matched(top)
        if not bool(placed.ordinary):
            continue
        own, envelope = placed.allowances, Envelope(pair, rows.geometry.nu)
        assert own.to_target is not None
        assert own.to_top is not None
        with ctx.workprec(BITS):
            d = [envelope.between(k, r) for k, r in zip(exact.k, exact.r, strict=True)]
            for j, r in enumerate(exact.r):
                assert d[j] <= arb(own.d[0, j].item())
                assert envelope.at(r) <= arb(own.a[0, j].item())
                for matched, i in ((own.to_target, exact.label), (own.to_top, int(top))):
                    apart = envelope.between(exact.r[i], r) + envelope.between(exact.k[i], exact.k[j])
                    assert matched[0, i] == 0
                    if i != j:
                        assert min(apart, d[i] + d[j]) <= arb(matched[0, j].item())
            seen += 1
    assert seen > 30


def test_the_unit_family_is_above_the_exact_gaps() -> None:
    seen = 0
    for state, exact in ordinary_cases(40):
        rows = _rows(state, sf.DebyePair())
        top = rows.head.log_probabilities.argmax(dim=1)
        placed = rows.unit_matched(top)
        unit = placed.allowances
        assert unit.to_target is not None
        assert unit.to_top is not None
        assert (unit.a == 1).all()
        if not bool(rows.narrow):
            continue
        with ctx.workprec(BITS):
            g = [abs(r - k) for k, r in zip(exact.k, exact.r, strict=True)]
            for j, r in enumerate(exact.r):
                assert g[j] <= arb(unit.d[0, j].item())
                for matched, i in ((unit.to_target, exact.label), (unit.to_top, int(top))):
                    apart = abs(exact.r[i] - r) + abs(exact.k[i] - exact.k[j])
                    if i != j:
                        assert min(apart, g[i] + g[j]) <= arb(matched[0, j].item())
            seen += 1
    assert seen > 60


def _log_probabilities(exact: Geometry, order: int) -> list[arb]:
    ends = exact.bank.surrogate_ends(order)
    sides = [exact.bank.surrogate(order, r)[0] - end for r, end in zip(exact.r, ends, strict=True)]
    probabilities, _ = exact.softmax([q + arb(c) for q, c in zip(sides, exact.bank.c, strict=True)])
    return [p.log() for p in probabilities]


@pytest.mark.parametrize("order", ORDERS)
def test_log_probabilities_are_within_their_error(order: int) -> None:
    """And probabilities within that and a few roundings of them."""
    for state, exact in ordinary_cases(20):
        rows = _rows(state, sf.DebyePair(order=order))
        head = rows.head
        assert head.log_error is not None
        assert head.probabilities is not None
        if not bool(rows.narrow):
            continue
        with ctx.workprec(BITS):
            error = arb(head.log_error.item())
            for j, found in enumerate(_log_probabilities(exact, order)):
                assert abs(arb(head.log_probabilities[0, j].item()) - found) <= error
                if found > -700:
                    assert abs(arb(head.probabilities[0, j].item()).log() - found) <= error + arb(2.0**-49)


def test_they_are_those_of_classes_to_a_billionth() -> None:
    """Nowhere much above what is widened class by class, in the rows that are said to be ordinary."""
    seen = 0
    for seed in range(40):
        states = ordinary_states(seed)
        realized = realize_contrastive(states, sf.DebyePair())
        made, each, top = realized._ordinary, realized._each, realized.top
        assert made is not None
        for placed, other in (
            (made.own_matched(top), each.own_matched(top)),
            (made.unit_matched(top), each.unit_matched(top)),
        ):
            rows = placed.ordinary
            pi = made.head.pi[rows]
            for name in ("d", "a", "to_target", "to_top"):
                ours, theirs = getattr(placed.allowances, name)[rows], getattr(other, name)[rows]
                # of a single class it may be more, and of its mean it is not
                mean = (pi * theirs).sum(dim=1)
                assert ((pi * ours).sum(dim=1) <= mean * (1 + 1e-9)).all()
            seen += int(rows.sum())
        head, other = made.head, each.head
        assert torch.equal(head.log_probabilities, other.log_probabilities)
    assert seen > 100


def test_what_is_not_ordinary_is_formed_by_class() -> None:
    """Rows of both kinds beside each other: each is what it would be alone."""
    eye = torch.eye(6, dtype=torch.float64)
    bank = sf.ClassBank(eye[:2], [2.0, 3.0], [0.0, 1.0])
    features = torch.stack([eye[2], -2 * (1 - 1e-12) * eye[0], eye[3] + eye[0], 0 * eye[0]])
    states = sf.States(bank, features, [0, 1, 0, 1], 1.0)
    realized = realize_contrastive(states, sf.DebyePair())
    made = realized._ordinary
    assert made is not None
    assert made.narrow.tolist() == [True, False, True, False]
    needs = sf.Needs.DISTANCES | sf.Needs.MATCHED_GAPS
    for i in range(4):
        alone = realize_contrastive(states[i : i + 1], sf.DebyePair())
        kept = alone._each if i in (1, 3) else None
        for ours, theirs in ((realized.own(needs), alone.own(needs)), (realized.unit(needs), alone.unit(needs))):
            for name in ("d", "a", "to_target", "to_top"):
                assert torch.equal(getattr(ours, name)[i], getattr(theirs, name)[0])
        if kept is not None:
            assert torch.equal(realized.distances[i], kept.distances[0])
            assert torch.equal(realized.head().log_error[i], kept.head.log_error[0])


def test_where_there_is_none() -> None:
    """Other envelopes, other pairs, and dimensions below six."""
    states = ordinary_states(2)
    geometry, outside = states.geometry(), torch.zeros(4, dtype=torch.bool)
    assert ordinary_rows(states, geometry, sf.DebyePair(), outside) is not None
    assert ordinary_rows(states, geometry, sf.DebyePair(envelope=sf.Uniform("quarter")), outside) is None
    bank = sf.ClassBank(torch.eye(5, dtype=torch.float64)[:2], [1.0, 2.0])
    small = sf.States(bank, torch.ones(1, 5), [0], 1.0)
    assert ordinary_rows(small, small.geometry(), sf.DebyePair(), outside[:1]) is None
    flat = sf.States(sf.ClassBank(torch.eye(3, dtype=torch.float64)[:2], [1.0, 2.0]), torch.ones(1, 3), [0], 1.0)
    with pytest.raises(ValueError, match="Expected nu >= "):
        ordinary_rows(flat, flat.geometry(), sf.DebyePair(), outside[:1])


def test_nothing_is_known_of_rows_outside() -> None:
    states = ordinary_states(1)
    outside = torch.tensor([False, True, False, False])
    rows = ordinary_rows(states, states.geometry(), sf.DebyePair(), outside)
    assert rows is not None
    assert rows.head.log_error is not None
    assert torch.isinf(rows.head.log_error).tolist() == outside.tolist()
    assert not bool(rows.narrow[1])
