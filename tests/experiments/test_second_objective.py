"""The second objective at trained states: its bounds are above the enclosed error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.experiments import second_objective
from suffice.experiments.saved import Columns, Saved
from suffice.experiments.second_objective import (
    describe_second_objective,
    draw_second_objective,
    measure_second_objective,
    supervised_columns,
)


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


def test_measured_drawn_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three states one breaks its refined bound, and one seems to but for the radius of its error."""

    def columns(_: sf.States) -> Columns:
        error = np.array([1.0, 2.0, 4.0])
        found = {"error": error, "radius": np.array([0.0, 0.5, 0.1]), "refined": np.array([2.0, 1.75, 3.0])}
        return found | {"uniform": 8 * error, "paper": 16 * error, "beta": np.array([10.0, 11.0, 12.0])}

    monkeypatch.setattr(second_objective, "supervised_columns", columns)
    collection = sf.builtin_collection("supervised")
    measured = measure_second_objective(Saved(collection=collection, sample=1, folder=tmp_path), lambda _: None)
    assert measured.broken == 1
    assert measured.over["refined"][1] == 0.875
    picture = draw_second_objective(measured)
    error, refined, uniform = picture.figure.axes[0].get_lines()
    assert error.get_xdata().tolist() == [1, 2, 4]
    assert refined.get_xdata().tolist() == [1.75, 2, 3]
    assert uniform.get_xdata().tolist() == [8, 16, 32]
    section = describe_second_objective(measured, picture)
    assert section.violations == 1
    assert "3 states" in section.text
    assert "(beta 10 to 12)" in section.text
    assert "(1 broken): in the median the refined one is 0.9 times the actual error" in section.finding
    assert "8.0 times with the allowances in use and 16.0 times" in section.finding
    assert [row[3] for row in section.tables[0].rows] == ["0.875", "8", "16"]
