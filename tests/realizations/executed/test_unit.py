"""The unit family of an execution, at the exact geometry's place."""

from __future__ import annotations

import torch
from flint import arb, ctx

import suffice as sf
from suffice.realizations.executed.realization import Execution
from tests.realizations.executed.judging import unit_rows
from tests.reference.oracle import states_of


def test_the_unit_family_reaches_the_exact_vectors() -> None:
    """Radii that are all rounding in float32: gaps to the exact radius, and |v|/r with the exact length of v."""
    g = torch.Generator().manual_seed(0)
    longest = 0.0
    for size in torch.logspace(-4.5, -2, 60, dtype=torch.float64).tolist():
        mean, side = unit_rows(g, 2, 6)
        side = torch.nn.functional.normalize(side - (side @ mean) * mean, dim=0)
        mu = torch.nn.functional.normalize(torch.stack([mean + size * side, mean - size * side]), dim=1)
        k = 1 + torch.rand(1, generator=g, dtype=torch.float64).item()
        state = sf.States(sf.ClassBank(mu, [k, k]), -k * mean[None], [0], 1.0)
        made = Execution(sf.DebyePair(order=2), torch.float32).at(state)
        unit, radii = made.unit(), made.geometry.radii
        with ctx.workprec(400):
            exact = states_of(state)[0].at(400)
            for j, r in enumerate(exact.r):
                assert abs(r - exact.k[j]) <= arb(unit.d[0, j].item())
                if radii[0, j] > 0:
                    share = r / arb(radii[0, j].item())
                    assert share <= arb(unit.a[0, j].item()) * (1 + arb(1e-14))
                    longest = max(longest, float(share))
    assert longest > 1.5
