"""The ladder's envelope from s and 1/s: at least the exact integrals, and no more than the careful ones by much."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.pairs.constants import CLOSED_FORM
from suffice.pairs.envelopes import StateEnvelope, Uniform
from suffice.realizations.endpoints import Endpoints, OwnEnvelope
from suffice.realizations.executed.envelope import LadderEnvelope, computed_envelope
from suffice.states import Geometry
from tests.reference.states import many_states


def _geometry(nu: float, k: list[float], gaps: list[list[float]]) -> Geometry:
    at_k = torch.tensor(k, dtype=torch.float64)
    squared = torch.tensor(gaps, dtype=torch.float64)
    radii = (at_k * at_k + squared).clamp_min(0).sqrt()
    return Geometry(nu=nu, concentrations=at_k, squared_gaps=squared, radii=radii)


def _exact(order: int, nu: float, x: arb, y: arb) -> arb:
    """The integral of min(c x/s^(n+2), 1/(11 nu^3)) is no more than the smaller of both integrals."""
    row = next(row for row in CLOSED_FORM if row.order == order and nu >= row.nu_min)
    v = arb(nu)
    c = v / (2 * (v + 1)) if row.value is None else arb(row.value.numerator) / row.value.denominator
    first, last = ((v * v + z * z).sqrt() ** -order for z in (x, y))
    found = c / order * abs(first - last)
    uniform = abs(x - y) / (11 * v**3)
    return uniform if order == 2 and bool(uniform < found) else found


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_integrals_are_at_least_the_exact_ones(order: int) -> None:
    """Radii that are nearly equal, tiny, huge, and zero."""
    k = [0.0, 1e-12, 3.0, 3.0000000000000004, 40.0, 1e6]
    gaps = [[0.0, 1e-20, -9.0, 1e-9, 1e3, -1e11], [4.0, 4.0, 4.0, 4.0, 4.0, 4.0], [1e-300] * 6]
    for nu in (2.5, 31.0, 255.0):
        geometry = _geometry(nu, k, gaps)
        made = computed_envelope(geometry, sf.DebyePair(order=order))
        assert isinstance(made, LadderEnvelope)
        index = torch.tensor([2, 4, 0])
        plain, apart = made.plain, made.apart(index)
        with ctx.workprec(400):
            for i in range(3):
                i_k, i_r = arb(k[int(index[i])]), arb(geometry.radii[i, int(index[i])].item())
                for j in range(6):
                    end = arb(geometry.radii[i, j].item())
                    root = (arb(k[j]) ** 2 + arb(gaps[i][j])).nonnegative_part().sqrt()
                    assert not _exact(order, nu, arb(k[j]), root) > arb(plain.d[i, j].item())
                    exact = _exact(order, nu, i_r, end) + _exact(order, nu, i_k, arb(k[j]))
                    assert not exact > arb(apart[i, j].item())


@pytest.mark.parametrize("order", [1, 2, 4])
def test_they_are_those_of_the_pair(order: int) -> None:
    pair = sf.DebyePair(order=order)
    for states in many_states(100, queries=10):
        geometry = states.geometry()
        careful = OwnEnvelope(Endpoints.computed(geometry), pair, torch.zeros_like(geometry.radii))
        made = computed_envelope(geometry, pair)
        towards = states.labels, states.labels.roll(1)
        for found, expected in zip(_all(made, towards), _all(careful, towards), strict=True):
            assert (found <= expected * (1 + 1e-12) + 1e-300).all()
            assert (found >= expected * (1 - 1e-12)).all()
        some = made[torch.tensor([3, 1])]
        assert isinstance(some, LadderEnvelope)
        assert torch.equal(some.plain.d, made.plain.d[[3, 1]])
        assert torch.equal(some.apart(towards[0][[3, 1]]), made.apart(towards[0])[[3, 1]])


def _all(envelope: OwnEnvelope, towards: tuple[Tensor, Tensor]) -> list[Tensor]:
    found = envelope.matched(towards)
    assert found.to_target is not None
    assert found.to_top is not None
    return [found.d, found.a, found.to_target, found.to_top]


def test_what_underflows_is_not_zero() -> None:
    geometry = _geometry(31.0, [1e140, 2e140, 5.0], [[1e100, 1e100, 0.0]])
    made = computed_envelope(geometry, sf.DebyePair(order=4))
    assert (made.plain.d[0, :2] > 0).all()
    assert made.plain.d[0, 2] == 0
    assert (made.plain.a > 0).all()
    assert (made.apart(torch.tensor([2]))[0, :2] > 0).all()
    assert made.apart(torch.tensor([2]))[0, 2] == 0


def test_other_envelopes_are_the_pairs_own() -> None:
    geometry = _geometry(31.0, [3.0, 5.0], [[1.0, 2.0]])
    for envelope in (Uniform(), StateEnvelope()):
        assert type(computed_envelope(geometry, sf.DebyePair(order=2, envelope=envelope))) is OwnEnvelope
    closed = computed_envelope(geometry, sf.DebyePair(order=2, envelope=sf.ClosedForm(2)))
    assert isinstance(closed, LadderEnvelope)
    assert (closed.plain.a >= computed_envelope(geometry, sf.DebyePair()).plain.a).all()
