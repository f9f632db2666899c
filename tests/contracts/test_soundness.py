"""No contract is ever below the truth: worst-case error functions on thousands of states, real pairs against Arb."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.contracts.bounds import SoftmaxHead
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from suffice.objectives.contrastive import radial_slopes
from suffice.realizations.analytic import realize_contrastive
from suffice.truth.rigorous import RigorousState
from tests.reference.states import SHAPES, actual_errors, many_states, piecewise_errors, random_states

NEEDS = sf.Needs.DISTANCES | sf.Needs.MATCHED_GAPS
CONTRACTS = {"geometry": geometry_bounds, "conditioned": conditioned_bounds, "centered": centered_bounds}


def _with_bound(head: SoftmaxHead, h_bound: float) -> SoftmaxHead:
    return SoftmaxHead(
        log_probabilities=head.log_probabilities,
        target=head.target,
        gradient_scale=head.gradient_scale,
        h_bound=h_bound,
        distances=head.distances,
        log_error=head.log_error,
    )


def _attack(states: sf.States, seed: int) -> tuple[int, float]:
    """Violations over all contracts and quantities at worst-case errors, and the largest share of a bound reached."""
    generator = torch.Generator().manual_seed(seed)
    pair = sf.DebyePair(order=2)
    realized = realize_contrastive(states, pair)
    radii, slopes = realized.geometry.radii, radial_slopes(realized.geometry, pair)
    head, unit = realized.head(NEEDS), realized.unit(NEEDS)
    violations, closest = 0, 0.0
    for exponent in (-9.0, -5.0, -2.0, 0.0):
        gaps = unit.d.amax(dim=1)
        b = 10**exponent / gaps.clamp_min(1e-3)
        b = b.clamp_max(1.0)
        e, ratio = piecewise_errors(states.bank.concentrations, radii, b, generator)
        truth = actual_errors(states, head.log_probabilities, radii, slopes, e, ratio)
        scores = head.log_probabilities - e
        agrees = scores.argmax(dim=1) == realized.top
        previous = None
        for contract in CONTRACTS.values():
            # the exact ratio is A - ratio error, of size up to 1 + b
            bounds = contract(_with_bound(head, 1.0 + float(b.max())), unit.scaled(b))
            values = (bounds.loss, bounds.probability, bounds.gradient)
            for bound, actual in zip(values, truth, strict=True):
                assert torch.isfinite(bound).all()
                # the truth is itself computed in float64: its own rounding, relative and from sums over classes
                rounding = 1e-9 * actual + 1e-13 * b * gaps.clamp_min(1.0)
                violations += int((actual > bound + rounding).sum())
                closest = max(closest, float((actual / bound.clamp_min(1e-300)).max()))
            violations += int((bounds.prediction & ~agrees).sum())
            if previous is not None:
                violations += sum(int((tight > loose).sum()) for tight, loose in zip(values, previous, strict=True))
            previous = values
    return violations, closest


def test_worst_case_error_functions_break_no_bound() -> None:
    closest = 0.0
    for seed, states in enumerate(many_states(3000)):
        violations, share = _attack(states, seed)
        assert violations == 0, seed
        closest = max(closest, share)
    # the attack is sharp: some bound is reached almost exactly
    assert closest > 0.95


@pytest.mark.slow
def test_worst_case_error_functions_break_no_bound_at_many_states() -> None:
    for seed, states in enumerate(many_states(24_000)):
        violations, _ = _attack(states, seed)
        assert violations == 0, seed


def _check_no_violation(count: int, shapes: list[tuple[int, int]]) -> None:
    for number, states in enumerate(many_states(count, queries=2, shapes=shapes)):
        order = 1 + number % 6
        pair = sf.DebyePair(order=order)
        budgets = sf.Budgets(loss=1e-6, gradient=1e-6, prediction=True)
        certificates = [sf.certify(states, budgets, pair, name) for name in CONTRACTS]
        for i in range(len(states)):
            truth = RigorousState(states[i : i + 1], order, bits=560).errors()
            for certificate in certificates:
                with ctx.workprec(400):
                    assert abs(truth.loss_change).upper() <= arb(certificate.loss[i].item()), (number, i)
                    assert truth.probability.upper() <= arb(certificate.probability[i].item()), (number, i)
                    assert truth.gradient.upper() <= arb(certificate.gradient[i].item()), (number, i)
                assert truth.agrees or not certificate.prediction[i]


def test_arb_finds_no_violation() -> None:
    _check_no_violation(240, [(c, p) for c, p in SHAPES if c <= 50])


@pytest.mark.slow
def test_arb_finds_no_violation_at_many_states() -> None:
    _check_no_violation(2400, [(c, p) for c, p in SHAPES if c <= 50])


def test_float64_gradient_agrees_with_the_rigorous_reference() -> None:
    states = random_states(3, 2, [(5, 16)])
    truth = sf.reference(states)
    ours = sf.evaluate(states, sf.DebyePair(order=6))
    allowed = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=6))
    assert ((ours.loss - truth.loss.mid).abs() <= allowed.loss + truth.loss.rad + 1e-12).all()
    distance = torch.linalg.vector_norm(ours.gradient - truth.gradient.mid, dim=1)
    assert (distance <= allowed.gradient + truth.gradient.rad.sum(dim=1) + 1e-12).all()
    assert (truth.gradient.rad < 1e-15).all()
