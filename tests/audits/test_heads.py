"""Head states through the whole house: stored, imported, audited, shown and explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.certificates.enclosure import decide
from suffice.cli.application import app
from suffice.reports.page import write_page
from tests.support.moved_heads import MovedRows, gaussian_states

BUDGETS = sf.Budgets(loss=1e-8, probability=1e-9, gradient=1e-8, kl=1e-16, prediction=True)


def write(folder: Path, states: sf.HeadStates) -> Path:
    with sf.CollectionWriter(folder, "made by a test") as writer:
        writer.add(states, source="test", dataset="gaussian", run="a", step=0)
    return folder


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_states_come_back_as_they_were(tmp_path: Path, dtype: torch.dtype) -> None:
    """The weight in its dtype, a masked class masked."""
    made = gaussian_states(3, count=9)
    states = sf.HeadStates(
        sf.LinearHead(made.bank.weight.to(dtype), made.bank.bias), made.hidden, made.labels, made.temperature
    )
    (batch,) = sf.open_collection(write(tmp_path / "c", states))
    found = batch.states
    assert isinstance(found, sf.HeadStates)
    assert found.bank.weight.dtype == dtype
    assert torch.equal(found.bank.weight, states.bank.weight)
    assert torch.equal(found.bank.bias, states.bank.bias)
    assert torch.equal(found.hidden, states.hidden)
    assert torch.equal(found.labels, states.labels)
    assert torch.equal(found.temperature, states.temperature)


def test_a_collection_of_heads_is_audited_as_stored(tmp_path: Path) -> None:
    states = gaussian_states(3, count=9)
    result = sf.audit(write(tmp_path / "c", states), BUDGETS, out=tmp_path / "a")
    assert result.plan.given == sf.ExactHead()
    found = sf.certify(states, BUDGETS)
    (columns,) = read_results(tmp_path / "a")
    assert found.kl is not None
    # where numbers lie in memory may move the last bits of a product
    assert np.allclose(columns["kl_bound"], found.kl.numpy(), rtol=1e-10, atol=0)
    assert np.allclose(columns["loss_bound"], found.loss.numpy(), rtol=1e-10, atol=0)
    assert result.summary.certified == 9
    page = write_page(tmp_path / "a", sf.open_collection(tmp_path / "c")).read_text()
    assert "given the hidden vector: what came before it is not covered" in page
    assert "KL within 1e-16" in page
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "a"), "a:0:4"])
    assert "|h|" in shown.output
    # gradients in the weights, by another realization: another question
    other = sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "w", realization=sf.ExactHead("weights"))
    assert "gradients in the weights" in other.plan.words()
    (columns,) = read_results(tmp_path / "w")
    wanted = sf.certify(states.taken_in("weights"), BUDGETS).gradient.numpy()
    assert np.allclose(columns["gradient_bound"], wanted, rtol=1e-10, atol=0)


def test_without_a_kl_budget_there_are_no_columns_of_it(tmp_path: Path) -> None:
    sf.audit(write(tmp_path / "c", gaussian_states(1)), sf.Budgets(loss=1.0), out=tmp_path / "a")
    (columns,) = read_results(tmp_path / "a")
    assert not any(name.startswith("kl") for name in columns)


def test_states_without_labels(tmp_path: Path) -> None:
    labelled = gaussian_states(1)
    states = sf.HeadStates(labelled.bank, labelled.hidden)
    collection = write(tmp_path / "c", states)
    result = sf.audit(collection, sf.Budgets(probability=1e-9, kl=1e-16, prediction=True), out=tmp_path / "a")
    assert result.summary.certified == len(states)
    (columns,) = read_results(tmp_path / "a")
    assert (columns["label"] == -1).all()
    assert np.isnan(columns["target_probability"]).all()
    write_page(tmp_path / "a", sf.open_collection(collection))
    assert "no label" in CliRunner().invoke(app, ["inspect", str(tmp_path / "a"), "a:0:1"]).output
    with pytest.raises(sf.BudgetError, match="these states have none"):
        sf.audit(collection, sf.Budgets(loss=1.0), out=tmp_path / "b")
    refused = CliRunner().invoke(app, ["audit", str(collection), "--loss", "1", "--out", str(tmp_path / "d")])
    assert refused.exit_code == 2


def test_what_a_contract_leaves_open_is_settled_both_ways() -> None:
    """By the true errors of the realization, which are known to rounding: certified, or violated."""
    states = gaussian_states(1, count=30)
    moved = states.bank.weight.half().double()

    realized = MovedRows(moved).at(states)
    budgets = sf.Budgets(loss=1e-4, probability=1e-5, gradient=1e-4, prediction=True)
    plain = sf.certify(states, budgets, MovedRows(moved))
    rows = np.flatnonzero(plain.verdict == "inconclusive")
    found = decide(states, realized, budgets, rows)
    assert found is not None
    assert set(found.verdict) == {"certified", "violated"}
    assert found.tier == "enclosure"


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_files_are_imported(tmp_path: Path, ending: str) -> None:
    states = gaussian_states(1, count=5)
    assert states.labels is not None
    labels = torch.cat([states.labels, torch.tensor([-100, -100])])
    hidden = torch.cat([states.hidden, states.hidden[:2]]).float()
    arrays = {"weight": states.bank.weight.half(), "bias": states.bank.bias, "hidden": hidden, "labels": labels}
    path = tmp_path / f"head.{ending}"
    if ending == "npz":
        np.savez(path, **{name: each.numpy() for name, each in arrays.items()})
    else:
        safetensors.torch.save_file(arrays, path)
    count = sf.import_states(path, tmp_path / "c", kind="linear")
    assert (count, count.skipped) == (5, 2)
    (batch,) = sf.open_collection(tmp_path / "c")
    assert batch.states.bank.weight.dtype == torch.float16
    assert torch.equal(batch.states.hidden, states.hidden.float().double())
    done = CliRunner().invoke(app, ["states", "import", str(path), "--out", str(tmp_path / "d"), "--kind", "linear"])
    assert done.exit_code == 0
    assert "5 states written" in done.output
    assert "2 with an ignored label left out" in done.output


def test_wrong_files_are_refused_in_words(tmp_path: Path) -> None:
    good = {"weight": torch.eye(3), "hidden": torch.ones(2, 3), "labels": torch.tensor([0, 1])}
    for change, words in (
        ({"labels": torch.tensor([-100, -100])}, "at least one label that is not -100"),
        ({"labels": torch.tensor([0, 3])}, r"\[0, 3\)"),
        ({"hidden": torch.full((2, 3), torch.nan)}, "finite"),
        ({"bias": torch.tensor([0.0, -torch.inf, 0.0])}, "not masked, but got 1 at 1"),
        ({"weight": torch.eye(3, dtype=torch.int64)}, "int64"),
        ({"temperature": torch.tensor([1.0, 0.0])}, "temperature"),
    ):
        path = tmp_path / "bad.safetensors"
        safetensors.torch.save_file({**good, **change}, path)
        with pytest.raises(sf.CollectionError, match=words):
            sf.import_states(path, tmp_path / "c", kind="linear")
    safetensors.torch.save_file({"hidden": good["hidden"]}, path)
    with pytest.raises(sf.CollectionError, match="there is no weight"):
        sf.import_states(path, tmp_path / "c", kind="linear")


def test_a_refused_question_leaves_the_folder_free(tmp_path: Path) -> None:
    """Without labels there is no loss; the question that there is may be asked in the same place."""
    states = gaussian_states(1, count=3)
    with sf.CollectionWriter(tmp_path / "c", "made by a test") as writer:
        writer.add(sf.HeadStates(states.bank, states.hidden), source="test", dataset="heads", run="a", step=0)
    with pytest.raises(sf.BudgetError, match="labels for budgets on loss"):
        sf.audit(tmp_path / "c", sf.Budgets(loss=0.1), out=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert sf.audit(tmp_path / "c", sf.Budgets(prediction=True), out=tmp_path / "a").summary.states == 3
