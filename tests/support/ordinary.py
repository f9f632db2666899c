"""States whose radii are far from their rounding, up to where that ends, with their exact geometry in Arb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
import suffice.realizations.row_widening as widening
from suffice.states import Geometry as Computed
from tests.reference.oracle import Geometry, states_of

__all__ = ["BITS", "exact_distances", "ordinary_cases", "ordinary_states", "shaken", "shaken_cases"]

BITS = 400


def ordinary_states(seed: int, queries: int = 4) -> sf.States:
    """Radii from a hundredth of their parts' lengths up, one class with nearly all or little, odd dimensions."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    classes, dim = [(2, 6), (3, 7), (6, 16), (12, 33), (8, 64)][seed % 5]
    mu = torch.nn.functional.normalize(torch.randn(classes, dim, generator=g, dtype=torch.float64), dim=1)
    k = 10 ** (3 * uniform(1)) * (0.5 + uniform(classes))
    if seed % 4 == 3:
        # concentrations of different sizes in one bank
        k = 10 ** (3 * uniform(classes))
    labels = torch.randint(0, classes, (queries,), generator=g)
    tau = 10 ** (2 * uniform(queries) - 2)
    f = torch.nn.functional.normalize(torch.randn(queries, dim, generator=g, dtype=torch.float64), dim=1)
    if seed % 3 == 1:
        # nearly opposite to a class of the same length: r is 1e-1 to 1e-2 of k
        shrink = 1 - 10 ** (-1 - uniform(queries, 1))
        f = -mu[labels] * k[labels][:, None] * tau[:, None] * shrink
    biases = torch.randn(classes, generator=g, dtype=torch.float64) * (0.0, 3.0, 12.0)[seed % 3]
    return sf.States(sf.ClassBank(mu, k, biases), f, labels, tau)


def ordinary_cases(banks: int) -> Iterator[tuple[sf.States, Geometry]]:
    """One state after the other."""
    for seed in range(banks):
        whole = ordinary_states(seed)
        for i in range(len(whole)):
            state = whole[i : i + 1]
            with ctx.workprec(BITS):
                yield state, states_of(state)[0].at(BITS)


def shaken(states: sf.States, generator: torch.Generator) -> Computed:
    """The geometry off by nearly all that `row_widening` says, in one direction or the other, class by class."""
    geometry = states.geometry()
    wide = widening.row_widening(states, geometry)
    per_k, constant = torch.from_numpy(wide.per_k), torch.from_numpy(wide.constant)
    off = per_k[:, None] * geometry.concentrations + constant[:, None]
    signs = 2 * (torch.rand(off.shape, generator=generator) < 0.5).double() - 1
    gaps = geometry.squared_gaps + 0.999 * signs * off
    return replace(geometry, squared_gaps=gaps, radii=torch.sqrt(geometry.concentrations**2 + gaps))


def shaken_cases(
    banks: int, monkeypatch: pytest.MonkeyPatch, roundings: float = 1e-11
) -> Iterator[tuple[sf.States, Computed, Geometry]]:
    """States, a geometry that is off by products of larger roundings, as it is widened by, and the exact one."""
    monkeypatch.setattr(widening, "gap_roundings", lambda *_: (roundings, roundings))
    monkeypatch.setattr(widening, "_NARROW", 1000 * roundings)
    generator = torch.Generator().manual_seed(0)
    for state, exact in ordinary_cases(banks):
        if bool(widening.row_widening(state, state.geometry()).narrow):
            yield state, shaken(state, generator), exact


def exact_distances(state: sf.States, order: int = 2, bits: int = 1200) -> list[arb]:
    """rho_j of F_n's vectors and probabilities at the exact geometry."""
    with ctx.workprec(bits):
        exact = states_of(state)[0].at(bits)
        sides = [exact.bank.surrogate(order, r) for r in exact.r]
        ends = exact.bank.surrogate_ends(order)
        p, _ = exact.softmax([f - end + arb(c) for (f, _), end, c in zip(sides, ends, exact.bank.c, strict=True)])
        found = []
        for j in exact.classes:
            others = sum((q for i, q in enumerate(p) if i != j), arb(0))
            weights = [(others if i == j else -q) * sides[i][1] for i, q in enumerate(p)]
            found.append(sum(((x * exact.tau) ** 2 for x in exact.vector(weights)), arb(0)).sqrt())
        return found
