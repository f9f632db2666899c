"""A collection in numbers, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.store.summary import summarize
from tests.support.collections import make_states, make_supervised, write


def test_info_command(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(7), make_states(9, dim=16, seed=3))
    runner = CliRunner()
    shown = runner.invoke(app, ["states", "info", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "16 states, 2 banks" in shown.output
    record = json.loads(runner.invoke(app, ["states", "info", str(path), "--json"]).stdout)
    assert record["states"] == 16
    assert {group["dim"] for group in record["groups"]} == {8, 16}
    (path / "manifest.json").write_text("{")
    broken = runner.invoke(app, ["states", "info", str(path)])
    assert broken.exit_code == 3
    assert "not JSON" in broken.output


def test_states_are_counted_by_where_they_come_from(tmp_path: Path) -> None:
    base = make_states(5)
    warm = sf.States(
        base.bank, base.features, base.labels, torch.tensor([0.1, 0.1, 0.1, 0.5, 0.5], dtype=torch.float64)
    )
    large = sf.ClassBank(base.bank.directions, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 900.0]))
    with sf.CollectionWriter(tmp_path / "c", "here") as writer:
        writer.add(warm, source="a", dataset="x", run="r", step=0)
        writer.add(warm[:2], source="a", dataset="x", run="r", step=1)
        writer.add(warm[:2], source="a", dataset="x", run="r", step=0, ids=["1", "2"])
        # another bank of the same group: the largest concentration is that of both
        writer.add(sf.States(large, base.features[:1], [0], 0.5), source="a", dataset="x", run="r", step=0, ids=["3"])
    collection = sf.open_collection(tmp_path / "c")
    found = summarize(collection)
    groups = {(group.step, group.temperature): group for group in found.groups}
    assert {key: group.states for key, group in groups.items()} == {(0, 0.1): 5, (0, 0.5): 3, (1, 0.1): 2}
    assert groups[0, 0.5].largest_concentration == 900
    assert groups[1, 0.1].largest_concentration == base.bank.concentrations.max().item()
    assert (found.states, found.banks, found.provenance, found.finished) == (10, 2, "here", True)
    assert found.bytes == sum(
        path.stat().st_size for folder in ("banks", "queries") for path in (tmp_path / "c" / folder).iterdir()
    )
    assert found.digest == collection.digest


def test_a_temperature_that_is_not_stored_is_none(tmp_path: Path) -> None:
    """Supervised states derive one from beta; by it every state would be a group of its own."""
    (group,) = summarize(sf.open_collection(write(tmp_path / "c", make_supervised(6)))).groups
    assert (group.kind, group.temperature, group.states) == ("supervised", None, 6)
