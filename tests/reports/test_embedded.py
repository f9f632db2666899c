"""What makes a page whole: data that unfold to what they were, and a policy for the page's own scripts alone."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from suffice.reports.embedded import coded, packed, rounded, write_html


def test_data_unfold_to_what_they_were() -> None:
    data = {"word": "</script><!--<script>", "numbers": [1.5, None]}
    text = packed(data)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", text)
    assert json.loads(gzip.decompress(base64.b64decode(text))) == data
    # the same data are the same page
    assert packed(data) == text
    with pytest.raises(ValueError, match="JSON"):
        packed([float("nan")])


def test_numbers_have_the_digits_of_a_page() -> None:
    assert rounded(np.array([1.23456e-7, np.nan, np.inf, 0.0])) == [1.235e-7, None, None, 0.0]
    assert rounded(np.array([[0.12345]]), 2) == [0.12]


def test_words_are_written_once() -> None:
    found = coded(np.array(["b", "a", "b"], dtype=object))
    assert found == {"words": ["a", "b"], "codes": [1, 0, 1]}


def test_the_policy_names_the_scripts(tmp_path: Path) -> None:
    values = {
        "record": {"run": dict.fromkeys(("command", "torch", "python", "machine", "threads", "engine", "date"), "<b>")},
        "summary": {
            **dict.fromkeys(("states", "certified", "violated", "inconclusive", "first_order_within_1_percent"), 0),
            "b": {"median": None, "span": None},
            "headroom": {"median": None},
            "bad_rows": 0,
            "groups": [],
            "rungs": {},
            "open_by_order": {},
            "cheapest_order_for_all": None,
        },
        **dict.fromkeys(("question", "answer", "scope", "contract", "unit", "none_open", "data"), "<i>"),
        "prediction": False,
        "closed": True,
        "orders": [],
        "formats": [
            {**dict.fromkeys(("certified", "share", "violated", "inconclusive"), 0), "name": "<i>", "words": "<b>"}
        ],
        "stride": 1,
        "saturated": False,
        "certified_below_one": 0,
        "listed": 0,
        "listed_all": True,
        "open": [],
    }
    values["record"] |= {"suffice": "0", "collection": "c", "fingerprint": "f"}  # type: ignore[operator]
    values["record"]["run"]["seconds"] = 1.0  # type: ignore[index]
    text = write_html(tmp_path / "p.html", "page.html", **values).read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    # words are text
    assert "<i>" not in text
    assert "<b>" not in text
