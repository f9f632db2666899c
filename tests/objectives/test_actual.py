"""True errors of the objective, enclosed in float64, against both sides in Arb."""

from __future__ import annotations

import math

from suffice.audits import verify
from suffice.objectives.actual import actual_errors
from tests.reference.states import many_states

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
            state = verify._State(
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
