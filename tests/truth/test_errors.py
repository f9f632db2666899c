"""True errors of the objective, enclosed in float64, against both sides in Arb."""

from __future__ import annotations

import torch
from flint import ctx

from suffice.truth.errors import actual_errors, errors_at, primitive_errors
from suffice.truth.rigorous import RigorousState
from suffice.verify.exact_states import ExactState
from suffice.verify.stored import Bank
from tests.reference.states import many_states, random_states


def test_enclosures_contain_the_errors_that_arb_finds() -> None:
    checked = narrow = 0
    for states in many_states(120, queries=2, shapes=[(5, 33), (20, 64), (30, 128), (12, 512), (9, 1024), (30, 40)]):
        arrays = (states.bank.directions, states.bank.concentrations, states.bank.biases)
        bank = Bank.of(*(array.numpy() for array in arrays))
        errors = actual_errors(states, 2)
        for i in range(len(states)):
            with ctx.workprec(1024):
                state = ExactState(
                    bank, states.features[i].numpy(), int(states.labels[i]), float(states.temperature[i])
                )
                found = {name: float(error) for name, error in state.sides.true_errors(2)[0].items()}
            for name in ("loss", "probability", "gradient"):
                truth, error = found[name], getattr(errors, name)
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
