"""A small language model is trained, resumed and captured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import suffice as sf
from examples import train_language as language

TEXT = "the cat sat on the mat; the dog sat on the log, and the cat saw the dog. " * 120


def test_it_learns_goes_on_and_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(language.SETTING, "vocabulary", 40)
    monkeypatch.setitem(language.SETTING, "epochs", 2)
    monkeypatch.setattr(language, "STATES", 20)
    (tmp_path / "text").write_text(TEXT)
    text = language.load_tokens(tmp_path / "text")
    assert text.vocabulary == 40
    language.train_language(text, tmp_path / "run", resume=False)
    with pytest.raises(SystemExit, match="--resume"):
        language.train_language(text, tmp_path / "run", resume=False)
    monkeypatch.setitem(language.SETTING, "epochs", 4)
    model = language.train_language(text, tmp_path / "run", resume=True)
    records = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records] == [1, 2, 3, 4]
    assert records[-1]["loss"] < records[0]["loss"]
    language.capture_language(model, text, tmp_path / "states")
    collection = sf.open_collection(tmp_path / "states")
    collection.validate()
    assert len(collection) == 40
    for batch in collection:
        assert batch.states.head.weight.dtype == torch.float16
        assert torch.equal(batch.states.head.weight, model.head.weight.half())
        assert torch.equal(batch.states.hidden, batch.states.hidden.half().double())
