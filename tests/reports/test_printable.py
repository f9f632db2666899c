"""No character that a terminal obeys gets through, and everything that a person reads does."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from suffice.reports.printable import one_line, printable


@pytest.mark.parametrize("text", ["", "a b", "naïve café", "日本語", "x\u00a0y", "[red]", "a\n\tb", "🙂", "π ≤ 1"])
def test_words_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


def test_no_control_character_of_all_gets_through() -> None:
    shown = printable("".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code) not in "\n\t"))
    assert shown.encode("utf-8")
    assert not {"Cc", "Cf", "Cs"} & set(map(unicodedata.category, set(shown)))


def test_escapes_are_readable() -> None:
    assert printable("\x1b]52;c;aGk=\x07") == "\\x1b]52;c;aGk=\\x07"
    assert printable("\x9b31m") == "\\x9b31m"
    assert printable("ok\rFAIL") == "ok\\rFAIL"
    assert printable("\ud800\u202e") == "\\ud800\\u202e"


def test_one_line_is_one_line() -> None:
    assert one_line("a\n b\t\u2028c\r\nd") == "a b c d"
    assert one_line(ValueError("x\x1b[2J")) == "x\\x1b[2J"
