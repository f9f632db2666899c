"""True errors of the objective, enclosed in float64, against both sides in Arb."""

from __future__ import annotations

import math

import torch

from suffice.audits import verify
from suffice.audits.stored import State
from suffice.objectives.actual import actual_errors, errors_at, primitive_errors
from suffice.objectives.rigorous import RigorousState
from tests.reference.states import many_states, random_states

ROW = {
    "id": "x",
    "verdict": "inconclusive",
    "status": "unbounded",
    "loss_bound": math.inf,
    "probability_bound": math.inf,
    "gradient_bound": math.inf,
    "prediction_certified": False,
}


def test_enclosures_contain_the_errors_that_arb_finds() -> None:
    checked = narrow = 0
    for states in many_states(120, queries=2, shapes=[(5, 33), (20, 64), (30, 128), (12, 512), (9, 1024), (30, 40)]):
        plan = {"order": 2, "loss": None, "probability": None, "gradient": None, "prediction": True, "contract": ""}
        errors = actual_errors(states, 2)
        for i in range(len(states)):
            state = State(
                features=states.features[i].tolist(),
                label=int(states.labels[i]),
                temperature=float(states.temperature[i]),
                directions=states.bank.directions.tolist(),
                concentrations=states.bank.concentrations.tolist(),
                biases=states.bank.biases.tolist(),
            )
            found = verify.check_state(state, ROW, plan)
            for name in ("loss", "probability", "gradient"):
                truth, error = getattr(found, f"{name}_error"), getattr(errors, name)
                value, radius = error.value[i].item(), error.radius[i].item()
                # the upper end of Arb's ball is above the truth by its last digit
                assert abs(truth - value) <= radius + 1e-6 * abs(truth - value) + 1e-15 * truth
                narrow += radius <= 1e-4 * truth
                checked += 1
    assert checked > 250
    assert narrow > 0.7 * checked


def test_given_exact_probabilities_arb_agrees() -> None:
    """Biases may set the exact side's probabilities: the same errors then have other consequences."""
    states = random_states(7, 6, [(20, 64)])
    generator = torch.Generator().manual_seed(1)
    log_p = torch.log_softmax(3 * torch.randn(6, 20, generator=generator, dtype=torch.float64), dim=1)
    found = errors_at(states, primitive_errors(states, 2), log_p, given_exact=True)
    for i in range(6):
        truth = RigorousState(states[i : i + 1], 2).errors(log_p[i].tolist())
        assert abs(float(truth.loss_change) - found.loss_change.value[i].item()) <= found.loss_change.radius[i].item()
        assert abs(float(truth.probability) - found.probability.value[i].item()) <= found.probability.radius[i].item()
        assert abs(truth.gradient - found.gradient.value[i].item()) <= found.gradient.radius[i].item()
        assert found.loss_change.radius[i] < 1e-4 * found.loss.value[i]
