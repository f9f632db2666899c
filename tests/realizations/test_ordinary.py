"""Ordinary rows: log-probabilities and allowances at the exact geometry, against Arb, and how narrow they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.objectives.contrastive import class_scores
from suffice.pairs.constants import UNIFORM, closed_form_constant
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.class_by_class import softmax_roundings
from suffice.realizations.ordinary import OrdinaryRows, ordinary_rows
from suffice.states import Geometry as Computed
from tests.reference.oracle import Geometry, states_of
from tests.support.ordinary import BITS, ordinary_cases, ordinary_states, shaken_cases

ORDERS = (1, 2, 3, 6)
PAIRS = [sf.DebyePair(order=n) for n in ORDERS] + [sf.DebyePair(order=2, envelope=sf.ClosedForm(2))]


def _rows(states: sf.States, pair: sf.DebyePair, geometry: Computed | None = None) -> OrdinaryRows:
    nothing = torch.zeros(len(states), dtype=torch.bool)
    found = ordinary_rows(states, states.geometry() if geometry is None else geometry, pair, nothing)
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
        found = self.closed(x)
        return found if self.cap is None else min(found, self.cap)

    def closed(self, x: arb) -> arb:
        return self.c * x / self.s(x) ** (self.n + 2)

    def between(self, x: arb, y: arb) -> arb:
        found = self.c / self.n * abs(self.s(x) ** -self.n - self.s(y) ** -self.n)
        return found if self.cap is None else min(found, self.cap * abs(x - y))

    def integral(self, x: arb, y: arb) -> arb:
        """Of `at` itself: below the other, which is the smaller of two integrals."""
        if self.cap is None:
            return self.between(x, y)
        peak = float(self.nu) / (self.n + 1) ** 0.5
        crossed = self.closed(arb(peak)) > self.cap
        ends = [self._crossing(0.0, peak), self._crossing(1e3 * peak, peak)] if crossed else []
        x, y = min(x, y), max(x, y)
        parts = [x, *(arb(end) for end in ends if x < end < y), y]
        # on each part it is one of the two, and the other is not below it
        return sum((self.between(a, b) for a, b in pairwise(parts)), arb(0))

    def _crossing(self, outside: float, inside: float) -> float:
        """Where the closed form crosses the cap, to a rounding."""
        for _ in range(200):
            middle = (outside + inside) / 2
            outside, inside = (outside, middle) if self.closed(arb(middle)) > self.cap else (middle, inside)
        return middle


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_allowances_are_above_the_envelope_at_the_exact_radii(pair: sf.DebyePair) -> None:
    seen = 0
    for state, exact in ordinary_cases(20):
        rows, envelope = _rows(state, pair), Envelope(pair, state.geometry().nu)
        if bool(rows.own_matched(rows.head.top).ordinary):
            _own_is_above(rows, exact, envelope.at, envelope.between)
            seen += 1
    assert seen > 30


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_allowances_of_a_geometry_that_is_off_by_its_widening(
    pair: sf.DebyePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proposition, where what it adds is no rounding: 1e-11 of every product."""
    seen = 0
    for state, computed, exact in shaken_cases(20, monkeypatch):
        rows = _rows(state, pair, computed)
        _own_is_above(rows, exact, Envelope(pair, computed.nu).at, Envelope(pair, computed.nu).integral)
        seen += 1
    assert seen > 30


def _own_is_above(
    rows: OrdinaryRows, exact: Geometry, at: Callable[[arb], arb], between: Callable[[arb, arb], arb]
) -> None:
    top = rows.head.top
    own = rows.own_matched(top).allowances
    assert own.to_target is not None
    assert own.to_top is not None
    with ctx.workprec(BITS):
        d = [between(k, r) for k, r in zip(exact.k, exact.r, strict=True)]
        for j, r in enumerate(exact.r):
            assert d[j] <= arb(own.d[0, j].item())
            assert at(r) <= arb(own.a[0, j].item())
            for matched, i in ((own.to_target, exact.label), (own.to_top, int(top))):
                apart = between(exact.r[i], r) + between(exact.k[i], exact.k[j])
                assert matched[0, i] == 0
                if i != j:
                    assert min(apart, d[i] + d[j]) <= arb(matched[0, j].item())


def test_the_unit_family_is_above_the_exact_gaps() -> None:
    seen = 0
    for state, exact in ordinary_cases(40):
        rows = _rows(state, sf.DebyePair())
        if bool(rows.narrow):
            _unit_is_above(rows, exact)
            seen += 1
    assert seen > 60


def test_the_unit_family_of_a_geometry_that_is_off_by_its_widening(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for state, computed, exact in shaken_cases(40, monkeypatch):
        _unit_is_above(_rows(state, sf.DebyePair(), computed), exact)
        seen += 1
    assert seen > 60


def _unit_is_above(rows: OrdinaryRows, exact: Geometry) -> None:
    top = rows.head.top
    unit = rows.unit_matched(top).allowances
    assert unit.to_target is not None
    assert unit.to_top is not None
    assert (unit.a == 1).all()
    with ctx.workprec(BITS):
        g = [abs(r - k) for k, r in zip(exact.k, exact.r, strict=True)]
        for j, r in enumerate(exact.r):
            assert g[j] <= arb(unit.d[0, j].item())
            for matched, i in ((unit.to_target, exact.label), (unit.to_top, int(top))):
                apart = abs(exact.r[i] - r) + abs(exact.k[i] - exact.k[j])
                if i != j:
                    assert min(apart, g[i] + g[j]) <= arb(matched[0, j].item())


def _scores(exact: Geometry, order: int) -> list[arb]:
    each = zip(exact.r, exact.bank.surrogate_ends(order), exact.bank.c, strict=True)
    return [exact.bank.surrogate(order, r)[0] - end + arb(c) for r, end, c in each]


def _log_probabilities(exact: Geometry, order: int) -> list[arb]:
    probabilities, _ = exact.softmax(_scores(exact, order))
    return [p.log() for p in probabilities]


def _score_errors(rows: OrdinaryRows, exact: Geometry) -> tuple[float, float, float]:
    """The largest error of a score, what the head's log-error leaves for one of two, and the largest score."""
    scores = class_scores(rows.states, rows.geometry, sf.DebyePair(order=rows.order))
    assert rows.head.log_error is not None
    left = (rows.head.log_error - softmax_roundings(scores)).item() / 2
    with ctx.workprec(BITS):
        right = _scores(exact, rows.order)
        off = max(float(abs(arb(q) - p)) for q, p in zip(scores[0].tolist(), right, strict=True))
    return off, left, scores.abs().max().item()


@pytest.mark.parametrize("order", ORDERS)
def test_scores_are_within_their_part_of_the_error(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, and at a geometry that is off by its widening, where that is most of what they may be off."""
    pair = sf.DebyePair(order=order)
    for state, exact in ordinary_cases(20):
        rows = _rows(state, pair)
        off, left, _ = _score_errors(rows, exact)
        assert not bool(rows.narrow) or off <= left
    worst = 0.0
    for state, computed, exact in shaken_cases(20, monkeypatch):
        off, left, _ = _score_errors(_rows(state, pair, computed), exact)
        worst = max(worst, off / left)
    assert 0.3 < worst <= 1


@pytest.mark.parametrize("order", [2, 4, 6])
def test_scores_that_are_all_formula(order: int) -> None:
    """Features of powers of two along axes: the geometry is exact, and is said to be so."""
    g = torch.Generator().manual_seed(0)
    eye = torch.eye(16, dtype=torch.float64)
    worst = 0.0
    for _ in range(40):
        k = torch.round(2.0**20 * 10 ** (2 * torch.rand(2, generator=g, dtype=torch.float64))) / 2.0**20
        state = sf.States(sf.ClassBank(eye[:2], k), 4 * eye[12:13], [0], 1.0)
        rows = _rows(state, sf.DebyePair(order=order))
        vars(rows)["widening"] = replace(rows.widening, over_s=np.zeros(1))
        with ctx.workprec(BITS):
            off, left, largest = _score_errors(rows, states_of(state)[0].at(BITS))
        assert off <= left
        worst = max(worst, off / (2.0**-53 * largest))
    # more than the last rounding, which alone is counted with the bias
    assert worst > 1.2


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


def test_scores_that_are_all_bias() -> None:
    """Short features: what a bias is added to is below the rounding of that sum."""
    g = torch.Generator().manual_seed(0)
    eye, worst = torch.eye(16, dtype=torch.float64), 0.0
    for _ in range(10):
        biases = 1000 * torch.rand(12, generator=g, dtype=torch.float64)
        state = sf.States(sf.ClassBank(eye[:12], torch.ones(12), biases), 1e-5 * eye[12:13], [0], 1.0)
        with ctx.workprec(BITS):
            off, left, largest = _score_errors(_rows(state, sf.DebyePair()), states_of(state)[0].at(BITS))
        assert off <= left
        worst = max(worst, off / (2.0**-53 * largest))
    assert worst > 0.3


def test_scores_that_are_equal() -> None:
    """Features of 1e-30: the sum of 2,003 exponentials and its logarithm are all that is rounded."""
    g = torch.Generator().manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(2003, 16, generator=g, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, torch.ones(2003))
    rows = _rows(sf.States(bank, 1e-30 * torch.eye(16, dtype=torch.float64)[:1], [0], 1.0), sf.DebyePair())
    head = rows.head
    assert bool(rows.narrow)
    assert head.log_error is not None
    with ctx.workprec(200):
        off = abs(arb(head.log_probabilities[0, 0].item()) + arb(2003).log())
        assert 1e-20 < off <= arb(head.log_error.item())


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


def test_some_rows_are_those_rows() -> None:
    """Parts of what is realized, also after its unit family is formed: what those states alone have."""
    whole = ordinary_states(2)
    far = torch.tensor([1.0, 1.0, 1e200, 1.0], dtype=torch.float64)
    states = sf.States(whole.bank, whole.features * far[:, None], whole.labels, whole.temperature)
    realized, rows = realize_contrastive(states, sf.DebyePair()), torch.tensor([3, 1, 2])
    for _ in range(2):
        part, alone = realized.part(rows), realize_contrastive(states[rows], sf.DebyePair())
        for ours, theirs in ((part.own(), alone.own()), (part.unit(), alone.unit())):
            assert torch.equal(ours.d, theirs.d)
            assert torch.equal(ours.a, theirs.a)
        assert torch.equal(part.head().log_error, alone.head().log_error)
        assert part.head().known.tolist() == [True, True, False]
        realized.unit()


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
