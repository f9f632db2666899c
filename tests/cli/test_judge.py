"""`suffice judge`: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from tests.support.collections import make_states, write

run = CliRunner().invoke


@pytest.fixture
def right(tmp_path: Path) -> dict[str, np.ndarray]:
    """A collection of two dimensions, and its outputs by order 6."""
    parts = make_states(9, 6, 16, 0), make_states(5, 4, 32, 1)
    write(tmp_path / "c", *parts)
    found = [sf.evaluate(part, sf.DebyePair(order=6)) for part in parts]
    gradient, log_p = np.zeros((14, 32)), np.full((14, 6), -np.inf)
    gradient[:9, :16], gradient[9:] = found[0].gradient, found[1].gradient
    log_p[:9], log_p[9:, :4] = found[0].log_probabilities, found[1].log_probabilities
    return {
        "loss": np.concatenate([each.loss for each in found]),
        "gradient": gradient,
        "log_probabilities": log_p,
        "prediction": np.concatenate([each.prediction for each in found]),
    }


def test_right_outputs_are_certified(tmp_path: Path, right: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "mine.npz", **right)
    asked = ["--loss", "1e-5", "--gradient", "1e-4", "--probability", "1e-5", "--prediction"]
    done = run(app, ["judge", str(tmp_path / "c"), str(tmp_path / "mine.npz"), *asked, "--out", str(tmp_path / "j")])
    assert done.exit_code == 0, done.output
    assert "All 14 states are certified." in done.output
    assert "these very numbers" in " ".join(done.output.split())
    table = pq.read_table(tmp_path / "j" / "judged.parquet")
    assert table.num_rows == 14
    assert set(table.column("verdict").to_pylist()) == {"certified"}
    assert max(table.column("gradient_high").to_pylist()) < 1e-4
    page = (tmp_path / "j" / "report.html").read_text()
    assert "All 14 states are certified." in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<polyline" in page


def test_broken_outputs_are_violated(tmp_path: Path, right: dict[str, np.ndarray]) -> None:
    right["loss"][3] = np.nan
    right["gradient"] *= 0.5
    torch.save({name: torch.from_numpy(values) for name, values in right.items()}, tmp_path / "mine.pt")
    asked = [
        "judge",
        str(tmp_path / "c"),
        str(tmp_path / "mine.pt"),
        "--gradient",
        "1e-9",
        "--out",
        str(tmp_path / "j"),
    ]
    done = run(app, asked)
    assert done.exit_code == 1
    assert "Of 14 states 0 are certified; 14 are violated." in done.output
    assert "no number" in done.output
    record = json.loads(run(app, [*asked, "--loss", "1e-5", "--json"]).stdout)
    assert record["violated"] == 14
    assert sum(group["largest"]["loss"] is None for group in record["groups"]) == 1
    assert record == json.loads((tmp_path / "j" / "judgement.json").read_text())
    assert "no number" in (tmp_path / "j" / "report.html").read_text()


def test_a_budget_that_no_order_keeps(tmp_path: Path, right: dict[str, np.ndarray]) -> None:
    """Arb decides at 1e-14."""
    np.savez(tmp_path / "mine.npz", loss=right["loss"])
    arguments = ["judge", str(tmp_path / "c"), str(tmp_path / "mine.npz"), "--loss", "1e-14", "--json"]
    done = run(app, [*arguments, "--out", str(tmp_path / "j")])
    record = json.loads(done.stdout)
    assert record["inconclusive"] == 0
    assert record["truths"]["Arb"] > 0


def test_usage_and_bad_files(tmp_path: Path, right: dict[str, np.ndarray]) -> None:
    collection, out = str(tmp_path / "c"), ["--out", str(tmp_path / "j")]

    def judged(name: str, *asked: str, **arrays: np.ndarray) -> tuple[int, str]:
        np.savez(tmp_path / f"{name}.npz", **arrays)
        done = run(app, ["judge", collection, str(tmp_path / f"{name}.npz"), *asked, *out])
        return done.exit_code, " ".join(done.output.split())

    assert judged("a", **right)[0] == 2
    assert judged("a", "--loss", "0", **right)[0] == 2
    code, words = judged("b", "--gradient", "1", loss=right["loss"])
    assert code == 2
    assert "Expected gradient=" in words
    assert judged("c", "--loss", "1", other=right["loss"]) == judged("c", "--loss", "1", other=right["loss"])
    assert judged("c", "--loss", "1", other=right["loss"])[0] == 3
    assert "one row a state" in judged("d", "--loss", "1", loss=right["loss"][1:])[1]
    assert judged("e", "--loss", "1", loss=right["loss"].astype(int))[0] == 3
    wide = right["gradient"].copy()
    wide[0, 20] = 1.0
    code, words = judged("f", "--gradient", "1", gradient=wide)
    assert code == 3
    assert "expected 16 numbers for state 0" in words
    assert judged("g", "--gradient", "1", gradient=wide[:, :16])[0] == 3
    assert run(app, ["judge", collection, str(tmp_path / "none.npz"), "--loss", "1"]).exit_code == 3
    assert run(app, ["judge", str(tmp_path / "nothing"), str(tmp_path / "a.npz"), "--loss", "1"]).exit_code == 3


def test_the_built_in_collection(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", loss=np.zeros(5120, dtype=np.float32))
    done = run(app, ["judge", "built-in", str(tmp_path / "m.npz"), "--loss", "1e-3", "--out", str(tmp_path / "j")])
    assert done.exit_code == 1
    assert "Of 5,120 states" in done.output
