"""Allowances of an execution at the place of the exact geometry: its unit family, and differences of its scores."""

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


def test_differences_of_executed_scores_have_the_rounding_of_both() -> None:
    """Of order six the formula is all but exact: what is left of |e_j - e_y| and |e_j - e_w| is rounding."""
    g, largest = torch.Generator().manual_seed(0), 0.0
    for _ in range(10):
        bank = sf.ClassBank(unit_rows(g, 5, 64), 10 ** (1 + 3 * torch.rand(5, generator=g, dtype=torch.float64)))
        state = sf.States(bank, unit_rows(g, 1, 64), [1], 0.05)
        made = Execution(sf.DebyePair(order=6), torch.float32).at(state)
        own, top = made.own(sf.Needs.MATCHED_GAPS), int(made.top)
        formula = made._envelope.matched((state.labels, made.top))
        assert own.to_target is not None
        assert own.to_top is not None
        assert formula.to_target is not None
        assert formula.to_top is not None
        # beside any formula there is the rounding of both: it makes up all that the formula's own lacks
        beside = made.beside(sf.Needs.MATCHED_GAPS)
        assert beside.to_target is not None
        assert beside.to_top is not None
        assert torch.allclose(formula.to_target + beside.to_target, own.to_target, rtol=1e-12, atol=0)
        assert torch.allclose(formula.to_top + beside.to_top, own.to_top, rtol=1e-12, atol=0)
        with ctx.workprec(400):
            exact = states_of(state)[0].at(400)
            e = [arb(q) - p for q, p in zip(made.executed.scores[0].tolist(), exact.scores, strict=True)]
            for j in range(5):
                for most, other in ((own.to_target, 1), (own.to_top, top)):
                    assert j == other or abs(e[j] - e[other]) <= arb(most[0, j].item())
                if j != 1:
                    largest = max(largest, float(abs(e[j] - e[1]) / arb(formula.to_target[0, j].item())))
    assert largest > 2
