"""Audits of a filter: written, read again, explained; and refused in words by the checker, which does not know it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.cli.application import app
from suffice.realizations.executed.realization import Execution
from suffice.reports.page import write_page
from tests.support.batches import random_batch, trained_proco
from tests.support.moved_heads import gaussian_states

BUDGETS = sf.Budgets(gradient=1e-1)


def _collection(folder: Path, states: sf.HeadStates | sf.States) -> Path:
    with sf.CollectionWriter(folder, "made by a test") as writer:
        writer.add(states, source="test", dataset="gaussian", run="a", step=0)
    return folder


def _vmf() -> sf.States:
    return trained_proco(16).states(*random_batch(16))


@pytest.mark.parametrize(
    ("states", "filtered"),
    [
        (gaussian_states(3, count=9), sf.Filtered(0.02)),
        (gaussian_states(3, count=9), sf.Filtered(0.02, truncated=True)),
        (gaussian_states(3, count=9), sf.Filtered(0.02, sf.RoundedLogits(torch.bfloat16))),
        (_vmf(), sf.Filtered(0.02)),
        (_vmf(), sf.Filtered(0.02, sf.DebyePair(order=4))),
        (_vmf(), sf.Filtered(0.02, Execution(sf.DebyePair(), torch.float32))),
    ],
    ids=lambda each: each.words if isinstance(each, sf.Filtered) else type(each).__name__,
)
def test_an_audit_of_a_filter(tmp_path: Path, states: sf.HeadStates | sf.States, filtered: sf.Filtered) -> None:
    made = sf.audit(_collection(tmp_path / "c", states), BUDGETS, out=tmp_path / "a", realization=filtered)
    (columns,) = read_results(tmp_path / "a")
    found = sf.certify(states, BUDGETS, filtered)
    assert np.allclose(columns["gradient_bound"], found.gradient.numpy(), rtol=1e-9, atol=0)
    assert columns["verdict"].tolist() == found.verdict.tolist()
    assert made.scope == filtered.scope
    # without the filter there are other bounds
    plain = sf.certify(states, BUDGETS, sf.Filtered(0.0, filtered.of, truncated=filtered.truncated)).gradient
    assert bool((plain < found.gradient).any())
    runner = CliRunner()
    shown = runner.invoke(app, ["inspect", str(tmp_path / "a"), "a:0:4"])
    assert shown.exit_code == 0, shown.output
    assert str(found.verdict[4]) in shown.output
    # the page is made from what the folder says, and the audit goes on where it was
    page = write_page(tmp_path / "a", sf.open_collection(tmp_path / "c")).read_text()
    assert "0.02 left out" in page
    again = sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "a", realization=filtered)
    assert again.summary == made.summary
    refused = runner.invoke(app, ["verify", str(tmp_path / "a")])
    assert refused.exit_code == 3
    assert "this checker does not know the realization" in refused.output


def test_another_threshold_is_another_audit(tmp_path: Path) -> None:
    folder = _collection(tmp_path / "c", gaussian_states(3, count=9))
    sf.audit(folder, BUDGETS, out=tmp_path / "a", realization=sf.Filtered(0.02))
    with pytest.raises(FileExistsError, match="holds the audit of another question"):
        sf.audit(folder, BUDGETS, out=tmp_path / "a", realization=sf.Filtered(0.03))
