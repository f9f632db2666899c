"""Results in a line and in a notebook: counts and quantiles, and words that stay words."""

from __future__ import annotations

import numpy as np
import torch

from suffice.numerics.shown import card, counts, quantiles


def test_counts() -> None:
    assert counts(np.array(["a", "b", "b"])) == "2 b, 1 a"
    assert counts(np.array([], dtype=str)) == "none"


def test_quantiles_are_of_what_is_finite() -> None:
    values = torch.linspace(0, 1, 101, dtype=torch.float64)
    assert quantiles(values) == "5% 0.05, median 0.5, 95% 0.95"
    assert quantiles(torch.tensor([2.0, torch.inf, torch.nan])) == "5% 2, median 2, 95% 2 (2 not finite)"
    assert quantiles(np.array([])) == "none"
    assert quantiles(np.array([np.inf])) == "none (1 not finite)"


def test_words_are_no_markup() -> None:
    text = card("<script>", {"a & b": "<img src=x>"})
    assert "<script>" not in text
    assert "<img" not in text
    assert "a &amp; b" in text
