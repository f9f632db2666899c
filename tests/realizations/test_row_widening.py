"""One number a row is above every class's own, and says where it is narrow."""

from __future__ import annotations

import torch
from flint import arb, ctx

import suffice as sf
from suffice.numerics.arrays import quiet
from suffice.realizations.analytic import computable
from suffice.realizations.geometry_error import geometry_error
from suffice.realizations.row_widening import row_widening
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states
from tests.support.ordinary import BITS, ordinary_cases


def test_the_exact_radii_are_within_it() -> None:
    seen = 0
    for state, exact in ordinary_cases(30):
        geometry = state.geometry()
        wide = row_widening(state, geometry)
        with ctx.workprec(BITS):
            nu = arb(geometry.nu)
            for j, r in enumerate(exact.r):
                k, gap = arb(geometry.concentrations[j].item()), arb(geometry.squared_gaps[0, j].item())
                off = abs(k * k + gap - r * r)
                assert off <= arb(wide.per_k.item()) * k + arb(wide.constant.item())
                assert off <= arb(wide.relative.item()) * r * r * (1 + arb(1e-9))
                assert off <= arb(wide.over_r.item()) * r
                assert off <= arb(wide.over_s.item()) * (nu * nu + r * r).sqrt()
                assert arb(wide.s_least.item()) <= (nu * nu + r * r).sqrt()
                assert r <= arb(wide.r_most.item())
                seen += bool(wide.narrow)
    assert seen > 200


@quiet
def test_no_class_has_more() -> None:
    """Of every kind of state: the largest of the class's own numbers, and no s that is smaller."""
    for states in [*many_states(100, queries=10), *(extreme_states(seed) for seed in range(20))]:
        inside, _ = computable(states)
        geometry = inside.geometry()
        off = geometry_error(inside, geometry, torch.float64, torch.float64, "proved")
        wide = row_widening(inside, geometry)
        rows = wide.narrow
        low, s_r = off.low.numpy(force=True), off.s_r.numpy(force=True)
        of_gap = wide.per_k[:, None] * geometry.concentrations.numpy(force=True) + wide.constant[:, None]
        assert (off.of_gap.numpy(force=True) <= of_gap)[rows].all()
        assert (of_gap <= wide.over_r[:, None] * low)[rows].all()
        assert (of_gap <= wide.over_s[:, None] * s_r)[rows].all()
        assert (of_gap <= wide.relative[:, None] * low**2)[rows].all()
        assert (wide.s_least[:, None] <= s_r * (1 + 1e-11))[rows].all()
        assert (wide.r_most[:, None] >= off.high.numpy(force=True))[rows].all()
        lengths = (inside.features / inside.temperature[:, None]).norm(dim=1).numpy(force=True)
        assert (wide.length[rows] >= lengths[rows]).all()


def test_what_is_not_narrow() -> None:
    """A radius of the size of its rounding, no feature, and numbers out of range."""
    eye = torch.eye(6, dtype=torch.float64)

    def narrow(feature: torch.Tensor, k: list[float]) -> bool:
        states = sf.States(sf.ClassBank(eye[:2], k), feature[None], [0], 1.0)
        return bool(row_widening(states, states.geometry()).narrow)

    assert narrow(eye[2], [1.0, 2.0])
    assert not narrow(-2 * (1 - 1e-9) * eye[0], [2.0, 3.0])
    assert narrow(eye[2], [1.0, 100.0])
    assert not narrow(0 * eye[2], [1.0, 2.0])
    assert not narrow(1e-60 * eye[2], [1.0, 2.0])
    assert not narrow(1e60 * eye[2], [1.0, 2.0])
    assert not narrow(eye[2], [1e60, 1e60])
    # the seventh power of such a radius overflows
    assert narrow(1e39 * eye[2], [1e39, 1e39])
    assert not narrow(1e45 * eye[2], [1.0, 2.0])
    assert not narrow(eye[2], [1e45, 1e45])
