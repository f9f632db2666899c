"""Every widening of an ordinary row is at least what its derivation asks of each class, in Arb (docs/theory, 6.10).

Allowances are hardly ever as small as the exact errors are, so that comparing them with these alone lets a widening be
forgotten. Here the errors of the geometry are as large as 8.2b lets them be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.numerics.rounding import unit_roundoff
from suffice.pairs.constants import UNIFORM, closed_form_constant
from suffice.pairs.roundings import formula_roundings, ratio_roundings, slope_sizes
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.geometry_error import gap_roundings
from suffice.realizations.ordinary import OrdinaryRows, ordinary_rows
from tests.reference.oracle import states_of
from tests.support.ordinary import BITS, exact_distances, ordinary_states

PAIRS = [*(sf.DebyePair(order=n) for n in (1, 2, 3, 6)), sf.DebyePair(order=2, envelope=sf.ClosedForm(2))]
U = arb(unit_roundoff(torch.float64))


class Envelope:
    """c x/s^(n+2), at order 2 at most 1/(11 nu^3), in Arb."""

    def __init__(self, pair: sf.DebyePair, nu: float) -> None:
        self.n, self.nu, self.c = pair.order, arb(nu), arb(float(closed_form_constant(pair.order, nu)))
        value = UNIFORM["eleventh"].value
        capped = pair.order == 2 and pair.envelope is None
        self.cap = arb(value.numerator) / value.denominator / self.nu**3 if capped else None

    def s(self, x: arb) -> arb:
        return (self.nu * self.nu + x * x).sqrt()

    def at(self, x: arb) -> arb:
        found = self.c * x / self.s(x) ** (self.n + 2)
        return found if self.cap is None else min(found, self.cap)

    def between(self, x: arb, y: arb) -> arb:
        """An upper bound of its integral: the smaller of those of its two parts."""
        found = self.c / self.n * abs(self.s(x) ** -self.n - self.s(y) ** -self.n)
        return found if self.cap is None else min(found, self.cap * abs(x - y))


@dataclass(frozen=True)
class Widened:
    """One state: its computed radii as exact roots, and how far each square may be off the exact one."""

    rows: OrdinaryRows
    envelope: Envelope
    k: list[arb]
    gaps: list[arb]
    r: list[arb]
    delta: list[arb]

    @property
    def classes(self) -> range:
        return range(len(self.k))

    def low(self, j: int) -> arb:
        return (self.r[j] ** 2 - self.delta[j]).sqrt()

    def high(self, j: int) -> arb:
        return (self.r[j] ** 2 + self.delta[j]).sqrt()

    def s(self, j: int) -> arb:
        """The least s on the way to the exact radius."""
        return self.envelope.s(self.low(j))

    def moved(self, j: int) -> arb:
        """What the envelope integrates to between computed and exact radius: the closed form's part."""
        return self.envelope.c * self.delta[j] / (2 * self.s(j) ** (self.envelope.n + 2))

    def d(self, j: int) -> arb:
        """6.10b."""
        return self.envelope.between(self.k[j], self.r[j]) + self.least_moved(j)

    def least_moved(self, j: int) -> arb:
        """The smaller of `moved` and of the cap between the radii."""
        capped = None if self.envelope.cap is None else self.envelope.cap * self.delta[j] / (2 * self.r[j])
        return self.moved(j) if capped is None else min(self.moved(j), capped)

    def gap(self, j: int) -> arb:
        """6.10b, of the unit family."""
        return (abs(self.gaps[j]) + self.delta[j]) / (self.k[j] + self.low(j))


def widened(states: sf.States, pair: sf.DebyePair) -> Widened:
    """The numbers of 8.2b, from a single state."""
    rows = ordinary_rows(states, states.geometry(), pair, torch.zeros(1, dtype=torch.bool))
    assert rows is not None
    bank, nu = states.bank, rows.geometry.nu
    product, square = (arb(x) for x in gap_roundings(bank.dim, torch.float64, torch.float64, "proved"))
    phi = [arb(x) / arb(states.temperature.item()) for x in states.features[0].tolist()]
    length = sum((x * x for x in phi), arb(0)).sqrt()
    k, gaps = [arb(x) for x in bank.concentrations.tolist()], [arb(x) for x in rows.geometry.squared_gaps[0].tolist()]
    delta = [length * (product * 2 * x + square * length) + U * abs(gap) for x, gap in zip(k, gaps, strict=True)]
    r = [(x * x + gap).sqrt() for x, gap in zip(k, gaps, strict=True)]
    return Widened(rows=rows, envelope=Envelope(pair, nu), k=k, gaps=gaps, r=r, delta=delta)


def cases(pair: sf.DebyePair, banks: int = 25, more: tuple[float, float] = (0.0, 0.0)) -> Iterator[Widened]:
    """States whose rounding is small beside their radii, one after the other.

    All biases may be `more` by a number, and the first by another: large scores are rounded, and probabilities off.
    """
    seen = 0
    for seed in range(banks):
        states = ordinary_states(seed)
        if more != (0.0, 0.0):
            bank, first = states.bank, torch.zeros_like(states.bank.biases)
            first[0] = more[1]
            bank = sf.ClassBank(bank.directions, bank.concentrations, bank.biases + more[0] + first)
            states = sf.States(bank, states.features, states.labels, states.temperature)
        for i in range(len(states)):
            with ctx.workprec(BITS):
                found = widened(states[i : i + 1], pair)
                if bool(found.rows.narrow):
                    seen += 1
                    yield found
    assert seen > banks


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_own_allowances(pair: sf.DebyePair) -> None:
    for at in cases(pair):
        own, envelope = at.rows.own.allowances, at.envelope
        for j in at.classes:
            assert at.d(j) <= arb(own.d[0, j].item())
            most = envelope.c * at.high(j) / at.s(j) ** (envelope.n + 2)
            assert (most if envelope.cap is None else min(most, envelope.cap)) <= arb(own.a[0, j].item())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_own_matched_gaps(pair: sf.DebyePair) -> None:
    for at in cases(pair):
        top, envelope = at.rows.head.log_probabilities.argmax(dim=1), at.envelope
        own = at.rows.own_matched(top).allowances
        assert own.to_target is not None
        assert own.to_top is not None
        for matched, i in ((own.to_target, int(at.rows.states.labels)), (own.to_top, int(top))):
            for j in at.classes:
                apart = envelope.between(at.r[i], at.r[j]) + envelope.between(at.k[i], at.k[j])
                asked = min(apart + at.least_moved(i) + at.least_moved(j), at.d(i) + at.d(j))
                assert (asked if i != j else arb(0)) <= arb(matched[0, j].item())


def test_the_unit_family() -> None:
    for at in cases(sf.DebyePair()):
        top = at.rows.head.log_probabilities.argmax(dim=1)
        unit = at.rows.unit_matched(top).allowances
        assert unit.to_target is not None
        assert unit.to_top is not None
        for j in at.classes:
            assert at.gap(j) <= arb(unit.d[0, j].item())
        for matched, i in ((unit.to_target, int(at.rows.states.labels)), (unit.to_top, int(top))):
            for j in at.classes:
                off = sum((at.delta[x] / (at.low(x) + at.r[x]) for x in (i, j)), arb(0))
                apart = abs(at.r[i] - at.r[j]) + abs(at.k[i] - at.k[j]) + off
                assert (min(apart, at.gap(i) + at.gap(j)) if i != j else arb(0)) <= arb(matched[0, j].item())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_log_probabilities(pair: sf.DebyePair) -> None:
    """6.10c, with every class's own numbers."""
    for at in cases(pair):
        head, states, nu = at.rows.head, at.rows.states, at.envelope.nu
        assert head.log_error is not None
        q = [arb(x) for x in sf.evaluate(states, pair).scores[0].tolist()]
        formula = arb(formula_roundings(pair.order, at.rows.geometry.nu)) * U
        errors = []
        for j in at.classes:
            s_gap = abs(at.envelope.s(at.r[j]) - at.envelope.s(at.k[j]))
            geometry = at.delta[j] / (2 * (nu + at.s(j))) + at.least_moved(j)
            errors.append(geometry + formula * s_gap + U * abs(q[j]))
        own = U * (4 * max(map(abs, q)) + 2 * len(q) + 40)
        assert (2 * max(errors) + own) * (1 - arb(1e-12)) <= arb(head.log_error.item())


def _away(at: Widened, order: int, j: int) -> arb:
    """What the exact vector may be off for its slope's change and rounding (6.10d, 8.4)."""
    nu, s = at.envelope.nu, at.s(j)
    size, steep = (arb(x) for x in slope_sizes(order, at.rows.geometry.nu))
    first, second = (arb(x) for x in ratio_roundings(order, at.rows.geometry.nu))
    slope = 1 / (nu + s) ** 2 + 1 / s**3 + 3 * size / s**4 + nu * steep / s**5
    change = at.delta[j] / (s + at.envelope.s(at.r[j])) * slope
    return (change + U * (first / (nu + s) + second / s**2)) * at.high(j)


@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("more", [(0.0, 0.0), (1e8, 0.0), (1e8, 30.0)], ids=["usual", "large", "peaked"])
def test_distances(order: int, more: tuple[float, float]) -> None:
    """6.10d, with the computed slopes and probabilities, at vectors that are not rounded."""
    for at in cases(sf.DebyePair(order=order), 15, more):
        states, head = at.rows.states, at.rows.head
        assert head.log_error is not None
        omega, bank = arb(head.log_error.item()), states.bank
        phi = [arb(x) / arb(states.temperature.item()) for x in states.features[0].tolist()]
        s = [at.envelope.s(r) for r in at.r]
        slopes = [_slope(at, order, x) for x in s]
        vectors = [
            [slope * (k * arb(m) + x) for m, x in zip(row, phi, strict=True)]
            for row, k, slope in zip(bank.directions.tolist(), at.k, slopes, strict=True)
        ]
        log_pi = [arb(x) for x in head.log_probabilities[0].tolist()]
        total = sum((x.exp() for x in log_pi), arb(0))
        pi = [x.exp() / total for x in log_pi]
        center = [sum((p * v[i] for p, v in zip(pi, vectors, strict=True)), arb(0)) for i in range(len(phi))]
        rho = [sum(((x - c) ** 2 for x, c in zip(v, center, strict=True)), arb(0)).sqrt() for v in vectors]
        away = [_away(at, order, j) for j in at.classes]
        grown = (2 * omega).expm1()
        mean = sum((p * a for p, a in zip(pi, away, strict=True)), arb(0))
        mean += grown * sum((p * x for p, x in zip(pi, rho, strict=True)), arb(0))
        top = int(head.top)
        for j in at.classes:
            found = arb(at.rows.distances[0, j].item())
            if j != top:
                assert rho[j] + away[j] + omega.exp() * mean <= found
                continue
            others = [i for i in at.classes if i != top]
            rest = sum((pi[i] for i in others), arb(0))
            beside = sum((pi[i] / rest * (away[i] * (2 * omega).exp() + grown * rho[i]) for i in others), arb(0))
            nearest = rho[top] + rest * (away[top] + beside)
            assert min(rho[j] + away[j] + omega.exp() * mean, omega.exp() * nearest) <= found


def _slope(at: Widened, order: int, s: arb) -> arb:
    """A_n(x)/x by the formula, at s(x)."""
    x = float((s * s - at.envelope.nu**2).sqrt().mid())
    radii = torch.tensor([x], dtype=torch.float64)
    return arb((sf.DebyePair(order=order).ratio(at.rows.geometry.nu, radii) / radii).item())


@pytest.mark.parametrize("size", [1e-49, 1e-20, 1e20, 3e39, 3e44, 1e49])
def test_allowances_at_the_ends_of_the_range(size: float) -> None:
    """Lengths of any size: rows whose powers overflow are formed by class, and above the envelope."""
    g = torch.Generator().manual_seed(5)
    k = size * torch.tensor([1.0, 1.1, 1.3], dtype=torch.float64)
    pair = sf.DebyePair(order=6)
    for _ in range(8):
        mu = torch.nn.functional.normalize(torch.randn(3, 64, generator=g, dtype=torch.float64), dim=1)
        # a radius of a tenth of its parts is the farthest off that is still narrow
        state = sf.States(sf.ClassBank(mu, k), -mu[:1] * k[0] * (0.9 + 1e-3 * torch.rand(1, generator=g)), [0], 1.0)
        own, envelope = realize_contrastive(state, pair).own(), Envelope(pair, state.bank.nu)
        with ctx.workprec(BITS):
            exact = states_of(state)[0].at(BITS)
            for j, (end, r) in enumerate(zip(exact.k, exact.r, strict=True)):
                assert envelope.between(end, r) <= arb(own.d[0, j].item())
                assert envelope.at(r) <= arb(own.a[0, j].item())


def test_a_distance_of_the_top_class_that_underflows() -> None:
    """1 - pi is 1e-412: the distance is as small, and said to be the smallest normal number."""
    states = ordinary_states(2, queries=1)
    biases = torch.full((states.num_classes,), -950.0, dtype=torch.float64)
    biases[0] = 0.0
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, biases)
    there = sf.States(bank, states.features, states.labels, states.temperature)
    made = realize_contrastive(there, sf.DebyePair())._ordinary
    assert made is not None
    assert bool(made.narrow)
    with ctx.workprec(3000):
        exact = exact_distances(there, bits=3000)
        assert 0 < exact[int(made.head.top)] < 1e-308
        for rho, found in zip(exact, made.distances[0], strict=True):
            assert rho <= arb(found.item())
