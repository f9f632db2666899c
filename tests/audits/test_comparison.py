"""Two audits side by side: every state with its partner, and what became of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.audits.comparison import NothingInCommonError, _without, compare_audits
from suffice.audits.ledger import read_results
from tests.support.collections import make_states, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`loose` and `tight`: one collection under two budgets and orders; `other`: one with states of its own besides."""
    folder = tmp_path_factory.mktemp("compared")
    parts = [make_states(15, 6, 16, 0), make_states(16, 6, 64, 1)]
    write(folder / "c", *parts)
    with sf.CollectionWriter(folder / "d", "the same ids in another order, and more") as writer:
        ids = [i for batch in sf.open_collection(folder / "c") for i in batch.ids]
        writer.add(parts[1], source="s", dataset="d", run="r", step=0, ids=ids[15:])
        writer.add(make_states(3, 6, 64, 5), source="s", dataset="d", run="r", step=0, ids=["x", "y", "z"])
        writer.add(parts[0][:10], source="s", dataset="d", run="r", step=0, ids=ids[:10])
    sf.audit(folder / "c", sf.Budgets(loss=1e-3, gradient=1e-3), out=folder / "loose", page=False)
    sf.audit(folder / "c", sf.Budgets(loss=1e-4, gradient=1e-4), out=folder / "tight", order=1, page=False)
    sf.audit(folder / "d", sf.Budgets(loss=1e-4, gradient=1e-4), out=folder / "other", order=1, page=False)
    return folder


def _joined(folder: Path, name: str) -> np.ndarray:
    return np.concatenate([part[name] for part in read_results(folder)])


def test_every_state_has_its_partner(folder: Path) -> None:
    found = compare_audits(folder / "loose", folder / "tight")
    assert len(found) == 31
    assert (found.only_before, found.only_after) == (0, 0)
    assert found.columns["id"].tolist() == _joined(folder / "tight", "id").tolist()
    for name in ("verdict", "b", "headroom"):
        assert found.columns[f"before_{name}"].tolist() == _joined(folder / "loose", name).tolist()
        assert found.columns[f"after_{name}"].tolist() == _joined(folder / "tight", name).tolist()
    was = _joined(folder / "loose", "verdict") == "certified"
    now = _joined(folder / "tight", "verdict") == "certified"
    assert found.changes == {
        "lost": int((was & ~now).sum()),
        "gained": int((~was & now).sum()),
        "kept": int((was & now).sum()),
        "never": int((~was & ~now).sum()),
    }
    assert found.changes["lost"] > 5
    assert sum(found.verdicts.values()) == 31
    backwards = compare_audits(folder / "tight", folder / "loose")
    assert backwards.changes["gained"] == found.changes["lost"]


def test_what_was_asked_differently(folder: Path) -> None:
    found = compare_audits(folder / "loose", folder / "tight")
    assert found.differs == {"loss": (1e-3, 1e-4), "gradient": (1e-3, 1e-4), "order": (2, 1)}
    assert set(compare_audits(folder / "tight", folder / "other").differs) == {"collection"}
    assert compare_audits(folder / "tight", folder / "tight").differs == {}


def test_how_tolerances_moved(folder: Path) -> None:
    found = compare_audits(folder / "loose", folder / "tight")
    ratio = _joined(folder / "tight", "b") / _joined(folder / "loose", "b")
    spread = found.factors("b")
    assert spread.count == 31
    assert (spread.smallest, spread.largest) == (ratio.min(), ratio.max())
    assert sum(group["states"] for group in found.groups()) == 31
    assert sum(group["lost"] for group in found.groups()) == found.changes["lost"]
    one = found.groups()[0]
    rows = (found.columns["dim"] == one["dim"]) & (found.columns["temperature"] == one["temperature"])
    assert one["b"].smallest == ratio[rows].min()


def test_what_changed_is_listed_with_losses_first(folder: Path) -> None:
    found = compare_audits(folder / "loose", folder / "tight")
    rows = found.changed()
    changed = found.columns["before_verdict"] != found.columns["after_verdict"]
    assert sorted(rows.tolist()) == np.flatnonzero(changed).tolist()
    assert set(found.columns["change"][rows[: found.changes["lost"]]]) == {"lost"}
    moved = np.abs(np.log(found.ratio("headroom")[rows[: found.changes["lost"]]]))
    assert (np.diff(moved) <= 0).all()


def test_states_without_a_partner_are_counted(folder: Path) -> None:
    found = compare_audits(folder / "tight", folder / "other")
    assert (len(found), found.only_before, found.only_after) == (26, 5, 3)
    # by id, whatever the order
    assert found.columns["before_b"].tolist() == pytest.approx(found.columns["after_b"].tolist(), rel=1e-6)


def test_steps_are_matched_by_ids_without_them(tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "two steps") as writer:
        for step, seed in ((2, 0), (60, 1)):
            ids = [f"run/{step}/train/{i}" for i in (2, 60, 7)]
            writer.add(make_states(3, 6, 64, seed), source="s", dataset="d", run="run", step=step, ids=ids)
    audit = sf.audit(tmp_path / "c", sf.Budgets(loss=1e-3), out=tmp_path / "a", page=False)
    found = compare_audits(tmp_path / "a", tmp_path / "a", (2, 60))
    assert found.columns["id"].tolist() == ["run/60/train/2", "run/60/train/60", "run/60/train/7"]
    b = audit.results().column("b").to_pylist()
    assert found.columns["before_b"].tolist() == b[:3]
    assert found.columns["after_b"].tolist() == b[3:]
    assert found.differs == {"step": (2, 60)}
    with pytest.raises(NothingInCommonError, match="at steps 2 and 61"):
        compare_audits(tmp_path / "a", tmp_path / "a", (2, 61))


@pytest.mark.parametrize(
    ("name", "bare"),
    [("run/2/x/7", "run/x/7"), ("run:2:7", "run:7"), ("2/a", "a"), ("a/2", "a"), ("a/2/2", "a/2"), ("a2/b", "a2/b")],
)
def test_an_id_without_its_step(name: str, bare: str) -> None:
    assert _without(name, 2) == bare


def test_nothing_in_common(folder: Path, tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "others") as writer:
        writer.add(make_states(2, 6, 64, 5), source="s", dataset="d", run="r", step=0, ids=["p", "q"])
    sf.audit(tmp_path / "c", sf.Budgets(loss=1e-4), out=tmp_path / "a", page=False)
    with pytest.raises(NothingInCommonError, match="31 and 2 states"):
        compare_audits(folder / "tight", tmp_path / "a")


def test_bad_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(sf.CollectionError, match="not the folder of an audit"):
        compare_audits(folder / "tight", tmp_path)
    shutil.copytree(folder / "tight", tmp_path / "a")
    results = sorted((tmp_path / "a" / "results").glob("*.parquet"))
    shutil.copy(results[0], tmp_path / "a" / "results" / "part-00009-000000000.parquet")
    with pytest.raises(sf.CollectionError, match="there twice"):
        compare_audits(folder / "tight", tmp_path / "a")
    (tmp_path / "a" / "audit.json").write_text(json.dumps({"plan": 3}))
    with pytest.raises(sf.CollectionError, match="plan, question"):
        compare_audits(tmp_path / "a", folder / "tight")
    (tmp_path / "a" / "summary.json").unlink()
    with pytest.raises(sf.CollectionError, match="run the audit to its end"):
        compare_audits(tmp_path / "a", folder / "tight")
