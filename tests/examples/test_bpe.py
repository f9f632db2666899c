"""Byte pairs: what is encoded can be read again, and merges are learned commonest first."""

from __future__ import annotations

import pytest

from examples.bpe import learn

TEXT = "to be, or not to be: that is the question.\nwhether 'tis nobler in the mind to suffer\n" * 3


def test_there_and_back() -> None:
    encoding = learn(TEXT, 60)
    assert len(encoding) == len(set(encoding.tokens)) == 60
    numbers = encoding.encode(TEXT)
    assert "".join(encoding.tokens[number] for number in numbers) == TEXT
    assert len(numbers) < 0.6 * len(TEXT)


def test_the_commonest_pair_is_first() -> None:
    encoding = learn("ab ab ab cd", 6)
    assert encoding.tokens == [" ", "a", "b", "c", "d", "ab"]
    assert encoding.encode("cd ab") == [3, 4, 0, 5]


def test_a_text_may_be_too_short() -> None:
    with pytest.raises(ValueError, match="ends at 3"):
        learn("ab", 9)
