"""The second objective at trained states: its bounds are above the enclosed error."""

from __future__ import annotations

import numpy as np
import torch

import suffice as sf
from suffice.experiments.second_objective import supervised_columns


def test_second_objective_against_arb() -> None:
    batch = next(iter(sf.builtin_collection("supervised")))
    found = supervised_columns(batch.states[0:6])
    assert (found["error"] + found["radius"] <= found["refined"]).all()
    assert (found["refined"] <= found["uniform"]).all()
    assert (found["radius"] < 1e-3 * found["error"]).all()
    # order 6 stands for the truth: the difference of the two losses is the error of order 2
    states = batch.states[0:6]
    length = torch.linalg.vector_norm(states.features, dim=1)
    generator = torch.Generator().manual_seed(3407)
    samples = sf.sample_vmf(states.features / length[:, None], length, 4, generator=generator)
    beta = 1 / states.temperature[0].item()
    losses = [
        sf.evaluate_supervised(states.bank, states.features, states.labels, samples, beta, sf.DebyePair(order=n)).loss
        for n in (2, 6)
    ]
    np.testing.assert_allclose(found["error"], (losses[0] - losses[1]).abs().numpy(), rtol=1e-3, atol=1e-13)
