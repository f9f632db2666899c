"""Kinds of states: built in, and one that is registered here without a line of the library changing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.store.importing import import_states
from suffice.store.kinds import FEATURE, LABEL, SAMPLES, BankTensor, Column, kind_named, kind_of, register_kind
from suffice.store.manifest import CollectionError
from suffice.store.reader import BadRow, open_collection
from suffice.store.summary import summarize
from suffice.store.writer import CollectionWriter
from tests.store.linear_kind import KIND, Head, Hidden, make_hidden
from tests.support.collections import change_column, make_states, make_supervised, rewrite_part, set_row, write

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("single", [True, False])
def test_supervised_states_come_back_exactly(tmp_path: Path, single: bool) -> None:
    states = make_supervised(single=single)
    collection = open_collection(write(tmp_path / "c", states))
    collection.validate()
    (batch,) = collection
    assert type(batch.states) is sf.SupervisedStates
    for field in ("embeddings", "labels", "samples", "beta"):
        assert torch.equal(getattr(batch.states, field), getattr(states, field)), field
    assert torch.equal(batch.states.bank.directions, states.bank.directions)
    assert batch[2:4].states.samples.shape == (2, 3, 8)


def test_one_type_for_all_arrays_of_a_state(tmp_path: Path) -> None:
    """Embeddings that fit into float32 beside samples that do not: both are stored in float64, none is rounded."""
    single, double = make_supervised(), make_supervised(single=False)
    mixed = sf.SupervisedStates(single.bank, single.embeddings, single.labels, double.samples, 2.0)
    (batch,) = open_collection(write(tmp_path / "c", mixed))
    assert torch.equal(batch.states.embeddings, mixed.embeddings)
    assert torch.equal(batch.states.samples, mixed.samples)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_kind_of_ones_own(tmp_path: Path, dtype: torch.dtype, labels: bool) -> None:
    states = make_hidden(dtype, labels=labels)
    collection = open_collection(write(tmp_path / "c", states))
    collection.validate()
    (batch,) = collection
    found = batch.states
    assert type(found) is Hidden
    assert found.bank.weight.dtype == dtype
    for one, two in ((found.bank.weight, states.bank.weight), (found.bank.bias, states.bank.bias)):
        assert torch.equal(one, two)
    for field in ("hidden", "temperature", "margin"):
        assert torch.equal(getattr(found, field), getattr(states, field)), field
    assert found.labels is None if not labels else torch.equal(found.labels, states.labels)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
@pytest.mark.parametrize("labels", [True, False])
def test_import_of_a_kind_of_ones_own(tmp_path: Path, suffix: str, labels: bool) -> None:
    # numpy has no bfloat16
    states = make_hidden(torch.float32 if suffix == ".npz" else torch.bfloat16, labels=labels)
    tensors = {
        "weight": states.bank.weight,
        "bias": states.bank.bias,
        "hidden": states.hidden,
        "margin": states.margin,
        "temperature": torch.tensor([0.7]),
    }
    tensors |= {"labels": states.labels} if labels else {}
    path = tmp_path / f"mine{suffix}"
    if suffix == ".npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in tensors.items()})
    elif suffix == ".safetensors":
        safetensors.torch.save_file(tensors, path)
    else:
        torch.save(tensors, path)
    assert import_states(path, tmp_path / "c", kind="test-linear") == 9
    collection = open_collection(tmp_path / "c")
    collection.validate()
    (batch,) = collection
    assert torch.equal(batch.states.hidden, states.hidden)
    assert (batch.states.labels is None) == (not labels)


def test_import_of_supervised_states(tmp_path: Path) -> None:
    states = make_supervised()
    arrays = {name: getattr(states, name).numpy() for name in ("embeddings", "labels", "samples", "beta")}
    arrays |= {name: getattr(states.bank, name).numpy() for name in ("directions", "concentrations", "biases")}
    np.savez(tmp_path / "s.npz", **arrays)
    assert import_states(tmp_path / "s.npz", tmp_path / "c", kind="supervised") == 6
    (batch,) = open_collection(tmp_path / "c")
    assert torch.equal(batch.states.samples, states.samples)
    with pytest.raises(CollectionError, match="there is no features, temperature"):
        import_states(tmp_path / "s.npz", tmp_path / "d")
    with pytest.raises(
        ValueError, match=r"unknown kind 'cubic'; known are \['contrastive', 'linear', 'supervised', 'test-linear'\]"
    ):
        import_states(tmp_path / "s.npz", tmp_path / "d", kind="cubic")


def test_one_collection_of_several_kinds(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(), make_supervised(), make_hidden(), make_hidden(labels=False))
    collection = open_collection(path)
    collection.validate()
    assert collection.kinds == ["contrastive", "supervised", "test-linear"]
    # the directions are the same, but a bank is of one kind
    assert len(collection.banks) == 3
    assert [type(batch.states) for batch in collection] == [sf.States, sf.SupervisedStates, Hidden, Hidden]
    groups = summarize(collection).groups
    assert {(group.kind, group.temperature is None, group.largest_concentration is None) for group in groups} >= {
        ("contrastive", False, False),
        ("supervised", True, False),
        ("test-linear", False, True),
    }
    shown = CliRunner().invoke(app, ["states", "info", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "44 states, 3 banks" in shown.output


ROWS = {
    "samples that are no unit vectors": (
        "samples",
        np.full((3, 8), 0.5, dtype="<f4").tobytes(),
        "row 2, samples: expected unit vectors, but some have another norm",
    ),
    "samples that are not finite": (
        "samples",
        np.full((3, 8), np.nan, dtype="<f4").tobytes(),
        "row 2, samples: expected unit vectors",
    ),
    "one sample that is no unit vector": (
        "samples",
        np.diag([1.0, 1.0, 0.5]).astype("<f4").dot(np.eye(3, 8, dtype="<f4")).tobytes(),
        "row 2, samples: expected unit vectors, but some have another norm",
    ),
    "other number of samples": ("samples", b"\0" * 64, "row 2, samples: 64 bytes, but row 0 has 96"),
    "beta of zero": ("beta", 0.0, "row 2, beta: expected finite and > 0, but got 0.0"),
    "beta that is missing": ("beta", None, "column beta: it has missing values"),
    "label without a class": ("label", 6, r"row 2, label: expected labels in \[0, 6\), but got 6"),
    "embedding that is not finite": (
        "feature",
        np.full(8, np.inf, dtype="<f4").tobytes(),
        "row 2, feature: expected numbers, but some are not finite",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_bad_rows_of_supervised_states(tmp_path: Path, name: str) -> None:
    column, value, reason = ROWS[name]
    path = write(tmp_path / "c", make_supervised())
    rewrite_part(path, change_column(column, set_row(2, value)))
    with pytest.raises(CollectionError, match=reason):
        open_collection(path).validate()


def test_samples_of_no_whole_vector(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_supervised())
    rewrite_part(path, change_column("samples", lambda values: [b"\0" * 40] * len(values)))
    with pytest.raises(CollectionError, match="row 0, samples: 40 bytes, where vectors of 32 bytes were expected"):
        open_collection(path).validate()
    rewrite_part(path, change_column("samples", lambda values: [b""] * len(values)))
    with pytest.raises(CollectionError, match="row 0, samples: 0 bytes"):
        open_collection(path).validate()


def test_rows_of_a_kind_of_ones_own_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_hidden())
    rewrite_part(path, change_column("margin", set_row(4, -1.0)))
    bad: list[BadRow] = []
    collection = open_collection(path)
    (batch,) = collection.read_part(collection.parts[0], bad)
    assert bad == [BadRow(part=collection.parts[0], row=4, place="margin", reason="expected >= 0, but got -1.0")]
    assert len(batch) == 8
    rewrite_part(path, change_column("label", set_row(1, None)))
    with pytest.raises(CollectionError, match="column label: it has missing values"):
        open_collection(path).validate()


def test_an_optional_column_is_there_in_all_batches_or_in_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.store.reader.checked_batch_rows", lambda *_: 10)
    path = write(tmp_path / "c", make_hidden(count=20))
    rewrite_part(path, change_column("label", lambda values: [*values[:10], *[None] * 10]))
    with pytest.raises(CollectionError, match=r"row 10: without \['labels'\], but the rows before it without \[\]"):
        open_collection(path).validate()


def test_what_the_states_refuse_names_file_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of rows that misses something must not end in an error without a place."""
    path = write(tmp_path / "c", make_supervised())
    rewrite_part(path, change_column("samples", set_row(2, np.full((3, 8), 0.5, dtype="<f4").tobytes())))
    blind = replace(SAMPLES, wrong=lambda values, _: np.zeros(len(values), dtype=bool))
    kind = kind_named("supervised")
    monkeypatch.setitem(kind.columns, "samples", blind)  # type: ignore[arg-type]
    with pytest.raises(CollectionError, match=r"part-00000.parquet: rows 0 to 5: Expected unit samples"):
        open_collection(path).validate()


def test_banks_are_checked_when_they_are_written(tmp_path: Path) -> None:
    head = Head(weight=torch.ones(4, 3, dtype=torch.int8), bias=torch.zeros(4))
    states = make_hidden()
    with pytest.raises(
        TypeError, match=r"Expected weight in one of \['F64', 'F32', 'F16', 'BF16'\], but got torch.int8"
    ):
        write(tmp_path / "a", replace(states, bank=head))
    with pytest.raises(ValueError, match=r"Expected bias of shape \[4\], but got \[5\]"):
        write(tmp_path / "b", replace(states, bank=replace(states.bank, bias=torch.zeros(5))))


def test_a_bank_that_its_class_refuses(tmp_path: Path) -> None:
    path = write(
        tmp_path / "c", replace(make_hidden(), bank=_without_check(Head(weight=torch.ones(4, 3), bias=torch.zeros(4))))
    )
    with pytest.raises(CollectionError, match="values: Expected weight without NaN"):
        open_collection(path).validate()


def _without_check(head: Head) -> Head:
    head.weight[0, 0] = torch.nan
    return head


def test_the_table_refuses_what_it_cannot_keep() -> None:
    class Other(Hidden):
        pass

    new = replace(KIND, name="test-other", states=Other)
    with pytest.raises(ValueError, match="'test-linear' or its Hidden is in the table already"):
        register_kind(KIND)
    for change in (
        {"tensors": {"weight": BankTensor(shape=("dim",))}},
        {"columns": {"labels": LABEL}},
        {"columns": {"hidden": FEATURE, "again": FEATURE}},
        {"columns": {"hidden": FEATURE, "id": Column(name="id", wrong=LABEL.wrong, reason="")}},
    ):
        with pytest.raises(ValueError, match="Expected tensors with classes and dim, and different columns"):
            register_kind(replace(new, **change))
    for column in (replace(LABEL, integer=False), replace(LABEL, name="x", shape=("dim", "dim"))):
        with pytest.raises(ValueError, match="of another shape or type"):
            register_kind(replace(new, columns={"hidden": FEATURE, "labels": column}))
    with pytest.raises(
        TypeError, match=r"Expected states of a kind in the table \(HeadStates, Hidden, States.*\), but got Other"
    ):
        kind_of(Other(*(getattr(make_hidden(), name) for name in ("bank", "hidden", "temperature", "margin"))))


def test_writer_refuses_what_is_no_states(tmp_path: Path) -> None:
    with CollectionWriter(tmp_path / "c", "") as writer, pytest.raises(TypeError, match="but got list"):
        writer.add([1, 2], source="s", dataset="d", run="r", step=0)


def test_wide_states_are_cut_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups stay small however many samples a state has, and batches with them."""
    monkeypatch.setattr("suffice.store.parts._GROUP_BYTES", 1000)
    monkeypatch.setattr("suffice.store.parts._BATCH_BYTES", 1000)
    states = make_supervised(50, 7)
    collection = open_collection(write(tmp_path / "c", states))
    collection.validate()
    batches = list(collection)
    assert max(len(batch) for batch in batches) <= 3
    assert torch.equal(torch.cat([batch.states.samples for batch in batches]), states.samples)
