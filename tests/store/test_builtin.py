"""The shipped states are what their data card says, and the losses are exact on them where published code is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import suffice as sf
from benchmarks import states_card
from examples.capture_states import RULE
from suffice.store.summary import summarize

CARD = (Path(__file__).resolve().parents[2] / "docs" / "states.md").read_text()


@pytest.fixture(scope="module")
def collection() -> sf.Collection:
    return sf.builtin_collection()


def _shown(name: str) -> str:
    return CARD.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- end {name} -->")[0]


def test_size_count_and_content(collection: sf.Collection) -> None:
    collection.validate()
    assert len(collection) == 5120
    assert summarize(collection).bytes <= 24 * 2**20


def test_states_come_from_where_the_rule_says(collection: sf.Collection) -> None:
    found = {(g.run, g.step, g.dataset.rsplit("/", 1)[1]): g.states for g in summarize(collection).groups}
    wanted = {
        (f"{take.dataset}/{take.setting}", epoch, split): take.states
        for take in RULE
        if take.collection == "contrastive"
        for epoch in take.epochs
        for split in ("train", "test")
    }
    assert found == wanted
    groups = {(g.dim, g.temperature, g.classes) for g in summarize(collection).groups}
    assert groups == {(128, 0.1, 100), (512, 0.1, 100), (1024, 0.07, 100), (512, 0.1, 968), (128, 0.05, 968)}


def test_rare_classes_and_wrong_predictions_are_there(collection: sf.Collection) -> None:
    wrong = rare = 0
    for batch in collection:
        prediction = sf.evaluate(batch.states, sf.DebyePair()).prediction
        wrong += int((prediction != batch.states.labels).sum())
        if batch.states.bank.num_classes == 100:
            priors = batch.states.bank.biases.exp()[batch.states.labels]
            rare += int((priors < 20 / 10847).sum())
    assert wrong > 500
    assert rare > 500


def test_supervised_states() -> None:
    collection = sf.builtin_collection("supervised")
    collection.validate()
    assert len(collection) == 384
    with pytest.raises(ValueError, match=r"Expected name in \['contrastive', 'supervised'\]"):
        sf.builtin_collection("other")


def test_card_has_the_tables_that_the_files_make(collection: sf.Collection) -> None:
    assert _shown("runs") == states_card.runs_table()
    assert _shown("curves") == states_card.curves_table()
    assert _shown("counts") == states_card.counts_table(collection)


def test_card_has_the_tolerances_of_the_states(collection: sf.Collection) -> None:
    numbers = [
        [float(x) for x in re.findall(r"\d+\.\d+e-\d+|\d+\.\d+", text)]
        for text in (_shown("tolerance"), states_card.tolerance_table(collection))
    ]
    assert len(numbers[0]) > 100
    assert numbers[0] == pytest.approx(numbers[1], rel=0.02)


def test_runs_are_real() -> None:
    """Floors of accuracy on test images that no run saw."""
    logs = states_card._logs()
    for name in ("cifar-proco-128", "cifar-proco-1024"):
        assert max(logs[name][-1]["vmf_accuracy"], logs[name][-1]["classifier_accuracy"]) >= 0.25
    for name in ("omniglot-proco-512", "omniglot-contrastive-128"):
        assert logs[name][-1]["vmf_accuracy"] >= 0.6


@pytest.mark.parametrize("dim", [128, 512, 1024])
@pytest.mark.parametrize("largest", [None, 1e5])
def test_loss_is_exact_where_the_published_recurrence_is_not(
    collection: sf.Collection, dim: int, largest: float | None
) -> None:
    batch = next(b for b in collection if b.states.bank.dim == dim and b.states.bank.num_classes == 100)
    errors = states_card._errors(states_card._scaled(batch.states[:1], largest))
    assert max(errors["float64"]) < 1e-6
    assert max(errors["float32"]) < 2e-5
    if largest:
        assert max(errors["miller"]) > 1e6 * max(errors["float64"])
    assert torch.isfinite(torch.tensor(errors["float64"])).all()
