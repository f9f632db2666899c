"""`suffice reproduce`: every part runs, is remembered, and finds no bound broken; its numbers are the library's."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.experiments.conditioning import coordinate_control, target_control
from suffice.experiments.distribution import tolerance_columns
from suffice.experiments.evaluators import EVALUATORS, evaluator_columns
from suffice.experiments.rearrangement import assignments, rearrangement_columns
from suffice.experiments.reproduce import EXPERIMENTS, reproduce
from suffice.experiments.saved import Saved
from suffice.experiments.second_objective import supervised_columns
from suffice.truth.errors import primitive_errors
from suffice.truth.rigorous import RigorousState
from tests.reference.states import random_states
from tests.support.collections import make_states, write


def _collection(path: Path) -> Path:
    groups = (make_states(40, 9, 64, 0), make_states(30, 12, 128, 1))
    return write(path, *groups)


def _digests(folder: Path) -> dict[str, str]:
    paths = [*(folder / "figures").glob("*.svg"), *(folder / "tables").glob("*"), folder / "reproduction.md"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_everything_runs_and_is_remembered(tmp_path: Path) -> None:
    collection = sf.open_collection(_collection(tmp_path / "c"))
    ticks: dict[str, int] = {}

    def watch(name: str, total: int):  # type: ignore[no-untyped-def]
        ticks[name] = -total

        def tick(n: int) -> None:
            ticks[name] += n

        return tick

    began = time.perf_counter()
    cold = reproduce(collection, tmp_path / "out", sample=60, watch=watch)
    cold_seconds = time.perf_counter() - began
    assert cold.violations == 0
    assert list(cold.seconds) == list(EXPERIMENTS)
    assert set(ticks.values()) == {0}
    text = cold.path.read_text()
    for name in EXPERIMENTS:
        assert name in text or name == "evaluators"
    assert text.count("](figures/") == 6
    assert "nan" not in text
    for name in ("concept", "conditioning", "tolerance-distribution", "first-order-prediction", "actual-response"):
        for ending in ("svg", "png"):
            assert (tmp_path / "out" / "figures" / f"{name}.{ending}").stat().st_size > 5000
    first = _digests(tmp_path / "out")
    began = time.perf_counter()
    reproduce(collection, tmp_path / "out", sample=60)
    assert time.perf_counter() - began < cold_seconds
    assert _digests(tmp_path / "out") == first


def test_a_sample_is_even_and_of_the_size_asked(tmp_path: Path) -> None:
    collection = sf.open_collection(_collection(tmp_path / "c"))
    every = [name for batch in collection for name in batch.ids]
    for sample in (1, 7, 33, 70, 500):
        saved = Saved(collection=collection, sample=sample, folder=tmp_path / "cache")
        chosen = [name for batch in saved.batches() for name in batch.ids]
        wanted = min(sample, 70)
        assert chosen == [every[i * 70 // wanted] for i in range(wanted)]
        assert saved.described()["id"].tolist() == chosen


def test_what_is_remembered_depends_on_the_question(tmp_path: Path) -> None:
    collection = sf.open_collection(_collection(tmp_path / "c"))
    saved = Saved(collection=collection, sample=None, folder=tmp_path / "cache")
    calls = []

    def compute(states: sf.States) -> dict[str, np.ndarray]:
        calls.append(len(states))
        return {"x": np.arange(len(states))}

    first = saved.columns("a", compute)
    assert sum(calls) == 70
    np.testing.assert_array_equal(saved.columns("a", compute)["x"], first["x"])
    assert sum(calls) == 70
    saved.columns("b", compute)
    assert sum(calls) == 140
    other = sf.open_collection(write(tmp_path / "d", make_states(70, 9, 64, 5)))
    Saved(collection=other, sample=None, folder=tmp_path / "cache").columns("a", compute)
    assert sum(calls) == 210


def test_tolerances_are_the_librarys() -> None:
    states = make_states(20, 9, 64, 3)
    found = tolerance_columns(states)
    direct = sf.tolerance(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(order=2), "conditioned")
    np.testing.assert_array_equal(found["conditioned_joint_1e-05"], direct.b.numpy())
    np.testing.assert_array_equal(found["first_order_1e-05"], direct.first_order.numpy())


def test_the_coordinate_control_scales_exactly() -> None:
    found = coordinate_control(make_states(1, 5, 32, 0))
    for name in ("actual", "geometry"):
        assert (found[name] * found["tau"] == found[name][0] * found["tau"][0]).all()
    assert (found["actual"] <= found["geometry"]).all()


def test_the_target_control_changes_the_weights_only() -> None:
    found = target_control(make_states(1, 5, 32, 0))
    assert np.ptp(found["geometry"]) <= 1e-12 * found["geometry"][0]
    assert (found["actual"] <= found["centered"]).all()
    assert (found["centered"] <= found["conditioned"]).all()
    assert (found["conditioned"] <= found["geometry"]).all()
    assert found["actual"][-1] < 1e-6 * found["actual"].max()


@pytest.mark.parametrize("seed", [0, 7, 14])
def test_rearrangements_are_what_arb_finds(seed: int) -> None:
    states = random_states(seed, 4, [(7, 64)])
    found = rearrangement_columns(states)
    made = assignments(states, primitive_errors(states, 2))
    assert len({tuple(log_p[0].tolist()) for log_p in made}) == 5
    for i in range(4):
        rigorous = RigorousState(states[i : i + 1], 2)
        for j, log_p in enumerate(made):
            assert log_p[i, states.labels[i]].exp().item() == pytest.approx(0.5)
            assert log_p[i].exp().sum().item() == pytest.approx(1)
            truth = rigorous.errors(log_p[i].tolist())
            assert abs(float(truth.loss_change) - found["loss"][i, j]) <= found["loss_radius"][i, j] * (1 + 1e-9)
            assert abs(truth.gradient - found["gradient"][i, j]) <= found["gradient_radius"][i, j] * (1 + 1e-9)
            slack = found["loss_radius"][i, j] + 1e-15
            assert found["minus"][i] - slack <= found["loss"][i, j] <= found["plus"][i] + slack


def test_evaluators_are_judged_against_the_truth() -> None:
    states = make_states(6, 9, 128, 2)
    found = evaluator_columns(states)
    assert set(found) == {
        "loss",
        "gradient",
        *(f"{name}/{word}" for name in EVALUATORS for word in ("loss", "gradient")),
    }
    truth = sf.reference(states)
    np.testing.assert_allclose(found["loss"], truth.loss.mid.numpy(), rtol=0, atol=1e-11)
    for order in (2, 4):
        allowed = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=order))
        assert (found[f"F_{order}, float64/loss"] <= allowed.loss.numpy() + 1e-11).all()
    # published code fails where concentrations are large; there it must be seen to
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations * 0 + 1e5)
    wild = evaluator_columns(sf.States(bank, states.features, states.labels, states.temperature))
    assert (wild["Miller from 2 nu, float64 (published code)/gradient"] > 1e-3).all()
    assert (wild["F_4, float64/gradient"] < 1e-6).all()


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
