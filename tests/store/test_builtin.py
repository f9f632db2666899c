"""The shipped states are what their data card says, and the losses are exact on them where published code is not."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest
import torch

import suffice as sf
from benchmarks import states_card
from examples.capture_states import FIRST, KEPT, SECOND, WORDS, Take
from suffice.store.builtin import builtin_path
from suffice.store.summary import summarize

CARD = (Path(__file__).resolve().parents[2] / "docs" / "states.md").read_text()


@pytest.fixture(scope="module")
def collection() -> sf.Collection:
    return sf.builtin_collection()


@pytest.fixture(scope="module")
def first() -> sf.Collection:
    return sf.builtin_collection("first")


def _shown(name: str) -> str:
    return CARD.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- end {name} -->")[0]


@pytest.mark.parametrize("name", ["contrastive", "first"])
def test_size_count_and_content(name: str) -> None:
    collection = sf.builtin_collection(name)
    collection.validate()
    assert len(collection) == 5120


def test_language() -> None:
    """A head in float16, one hidden vector and one next token a state, from both parts of the text."""
    collection = sf.builtin_collection("language")
    collection.validate()
    assert (len(collection), collection.kinds) == (1024, ["linear"])
    assert {(g.dataset, g.dim, g.classes, g.states) for g in summarize(collection).groups} == {
        (f"shakespeare/{split}", 128, 4096, 512) for split in ("train", "test")
    }
    for batch in collection:
        head = batch.states.head
        assert head.weight.dtype == torch.float16
        # a model that has learned: better than the commonest token by far
        scores = batch.states.hidden @ head.rows(slice(None)).T
        right = (scores.argmax(dim=1) == batch.states.labels).double().mean()
        assert right > 0.2


def test_all_of_it_together_is_small() -> None:
    """The wheel must not pass 25 MB, code and all: compressed as a wheel compresses."""
    files = [file for file in builtin_path().parents[2].rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert sum(len(zlib.compress(file.read_bytes())) for file in files) <= 25_000_000


def _strata(takes: tuple[Take, ...]) -> dict[tuple[str, int, str], int]:
    return {
        (take.run, epoch, split): take.states for take in takes for epoch in take.epochs for split in ("train", "test")
    }


def test_states_come_from_where_the_rule_says(collection: sf.Collection, first: sf.Collection) -> None:
    for found, takes in ((first, FIRST), (collection, (*KEPT, *SECOND, WORDS))):
        groups = summarize(found).groups
        assert {(g.run, g.step, g.dataset.rsplit("/", 1)[1]): g.states for g in groups} == _strata(takes)
    groups = {(g.dim, g.temperature, g.classes) for g in summarize(first).groups}
    assert groups == {(128, 0.1, 100), (512, 0.1, 100), (1024, 0.07, 100), (512, 0.1, 968), (128, 0.05, 968)}


def test_the_second_covers_what_was_asked_for(collection: sf.Collection) -> None:
    groups = summarize(collection).groups
    new = [g for g in groups if g.run not in {take.run for take in FIRST}]
    assert len({g.run for g in new}) >= 12
    assert {g.dim for g in new} >= {64, 128, 512, 1024}
    assert {g.temperature for g in new} >= {0.03, 0.05, 0.07, 0.1}
    assert {g.classes for g in groups} >= {8, 10, 20, 100, 968, 4096}
    assert {g.source for g in groups} == {"proco", "patt", "contrastive"}


def test_kept_states_are_those_of_the_first(collection: sf.Collection, first: sf.Collection) -> None:
    """To the bit: features, and banks by their digests."""
    rows = {name: (batch, i) for batch in first for i, name in enumerate(batch.ids)}
    kept = [batch for batch in collection if batch.ids[0] in rows]
    assert sum(len(batch) for batch in kept) == 960
    for batch in kept:
        for i, name in enumerate(batch.ids):
            old, row = rows[name]
            assert batch.bank == old.bank
            assert torch.equal(batch.states.features[i], old.states.features[row])
            assert batch.states.labels[i] == old.states.labels[row]


def test_rare_classes_and_wrong_predictions_are_there(collection: sf.Collection) -> None:
    wrong = rare = 0
    for batch in collection:
        prediction = sf.evaluate(batch.states, sf.DebyePair()).prediction
        wrong += int((prediction != batch.states.labels).sum())
        priors = batch.states.bank.biases.exp()[batch.states.labels]
        rare += int((priors < 20 / 10847).sum())
    assert wrong > 500
    assert rare > 500


def test_supervised_states() -> None:
    collection = sf.builtin_collection("supervised")
    collection.validate()
    assert len(collection) == 384
    with pytest.raises(ValueError, match=r"Expected name in \['contrastive', 'first', 'supervised', 'language'\]"):
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
    for name in ("cifar100-lt-proco-128", "cifar100-lt-proco-1024"):
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
