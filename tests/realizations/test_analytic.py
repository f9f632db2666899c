"""What goes into a contract: rows that overflow, scores and log-probabilities within their error, in Arb."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from flint import arb, ctx

import suffice as sf
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.class_by_class import ClassByClass
from suffice.realizations.geometry_error import geometry_error
from tests.reference.oracle import states_of
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)


def test_rows_that_overflow_are_unknown() -> None:
    """One row or one class past 1e150: no bound, no tolerance, and the other rows are as they were."""
    base = random_states(0, 3, [(4, 7)])
    scale = torch.tensor([1.0, 1e200, 1.0], dtype=torch.float64)
    states = sf.States(base.bank, base.features * scale[:, None], base.labels, base.temperature)
    budgets = sf.Budgets(loss=1.0, gradient=1.0)
    plain, found = sf.certify(base, budgets, PAIR), sf.certify(states, budgets, PAIR)
    assert torch.isinf(found.gradient).tolist() == [False, True, False]
    assert torch.equal(found.gradient[[0, 2]], plain.gradient[[0, 2]])
    assert found.verdict[1] == "inconclusive"
    assert not found.prediction[1]
    for contract in ("geometry", "conditioned", "centered"):
        b = sf.tolerance(states, budgets, PAIR, contract)
        assert b.status.tolist() == ["bounded", "zero", "bounded"]
        assert (b.b[1], b.upper[1]) == (0, 0)
    large = sf.ClassBank(base.bank.directions, [1.0, 2.0, 1e200, 3.0])
    assert torch.isinf(sf.certify(sf.States(large, base.features, base.labels, 1.0), budgets, PAIR).loss).all()


def test_scores_that_are_all_formula() -> None:
    """Features of powers of two along axes: the geometry is exact, and the formula's roundings are all that is left."""
    g = torch.Generator().manual_seed(0)
    eye = torch.eye(16, dtype=torch.float64)
    k = torch.round(2.0**20 * 10 ** (2 * torch.rand(12, generator=g, dtype=torch.float64))) / 2.0**20
    states = sf.States(sf.ClassBank(eye[:12], k), 4 * eye[12:14], [0, 1], 1.0)
    worst = 0.0
    for order in (2, 4, 6):
        pair = sf.DebyePair(order=order)
        geometry = states.geometry()
        nothing = torch.zeros_like(geometry.radii)
        off = geometry_error(states, geometry, torch.float64, torch.float64, "proved")
        exact = replace(off, of_gap=nothing, low=geometry.radii, high=geometry.radii)
        realized = ClassByClass(states, pair, geometry, exact, torch.zeros(len(states), dtype=torch.bool))
        scores, error = realized.scores, realized._score_error()
        with ctx.workprec(400):
            for i, state in enumerate(states_of(states)):
                at = state.at(400)
                ends = at.bank.surrogate_ends(order)
                for j, r in enumerate(at.r):
                    off_by = abs(arb(scores[i, j].item()) - (at.bank.surrogate(order, r)[0] - ends[j]))
                    assert off_by <= arb(error[i, j].item())
                    worst = max(worst, float(off_by) / (2.0**-53 * abs(scores[i, j].item())))
    # more than the last rounding, which alone is counted with the bias
    assert worst > 1.5


def test_log_probabilities_are_within_their_error() -> None:
    """Of exact scores that are computed, and of scores that are taken as exact: only the softmax is rounded there."""
    largest = 0.0
    for seed in range(30):
        states = random_states(seed, 2, [(2, 5), (3, 7), (20, 33)])
        head = realize_contrastive(states, PAIR).head()
        assert head.log_error is not None
        for i, state in enumerate(states_of(states)):
            with ctx.workprec(1200):
                at = state.at(1200)
                if not at.decided:
                    continue
                ends = at.bank.surrogate_ends(2)
                each = zip(at.r, ends, at.bank.c, strict=True)
                scores = [at.bank.surrogate(2, r)[0] - end + arb(c) for r, end, c in each]
                peak = max(scores, key=lambda q: float(q.mid()))
                total = sum(((q - peak).exp() for q in scores), arb(0)).log() + peak
                for j, q in enumerate(scores):
                    off = abs(arb(head.log_probabilities[i, j].item()) - (q - total))
                    assert off <= arb(head.log_error[i].item())
                    largest = max(largest, float(off) / head.log_error[i].item())
    assert math.isfinite(largest)
    # equal scores that are exact: the sum of 2,000 exponentials and its logarithm are all that is rounded
    bank = sf.ClassBank(torch.eye(2003, dtype=torch.float64)[:2003], [0.0] * 2003)
    still = realize_contrastive(sf.States(bank, torch.zeros(1, 2003), [0], 1.0), PAIR).head()
    assert still.log_error is not None
    with ctx.workprec(200):
        off = abs(arb(still.log_probabilities[0, 0].item()) + arb(2003).log())
        assert 0 < off <= arb(still.log_error.item())
