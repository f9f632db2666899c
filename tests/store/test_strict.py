"""JSON that two readers could understand differently, or that no one can print, is refused in a few words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suffice.store.strict import is_text, read_strictly

CASES = {
    "a key twice": (b'{"a": 1, "a": 2}', "the key 'a' is there twice"),
    "a key twice, deep": (b'[{"b": {"a": 1, "a": 1}}]', "the key 'a' is there twice"),
    "a key twice, spelled differently": (b'{"a": 1, "\\u0061": 2}', "the key 'a' is there twice"),
    "a number of 5,000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
    "nested deeply": (b"[" * 200_000, "nested too deeply"),
    "no JSON": (b"{", "not JSON"),
    "no text": (b"\xff\xfe{", "not JSON"),
    "nothing": (b"", "not JSON"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_in_words(tmp_path: Path, name: str) -> None:
    content, words = CASES[name]
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        read_strictly(tmp_path / "x.json")
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_too_large(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(ValueError, match="68157440 bytes, more than 67108864"):
        read_strictly(tmp_path / "x.json")


def test_half_a_pair_is_no_text() -> None:
    assert is_text("é\u2028\U0001f642")
    assert not is_text("a\ud800")


def test_what_is_right_is_read(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "é\u2028", {"a": {}}], "b": "\U0001f642"}
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert read_strictly(tmp_path / "x.json") == value
