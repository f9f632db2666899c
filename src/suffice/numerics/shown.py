"""Results in a line and in a notebook: counts and quantiles, never whole tensors."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["card", "counts", "quantiles"]


def counts(words: np.ndarray[Any, Any]) -> str:
    """How often each word occurs, the most frequent first.

    >>> counts(np.array(["inconclusive", "certified", "certified"]))
    '2 certified, 1 inconclusive'
    """
    return ", ".join(f"{number:,} {word}" for word, number in Counter(map(str, words)).most_common()) or "none"


def quantiles(values: Tensor | np.ndarray[Any, Any]) -> str:
    """5%, median and 95% of the numbers that are finite, and how many are not.

    >>> quantiles(np.array([1.0, 2.0, 3.0, np.inf]))
    '5% 1.1, median 2, 95% 2.9 (1 not finite)'
    """
    array = values.detach().double().numpy(force=True) if isinstance(values, Tensor) else np.asarray(values, float)
    fine = array[np.isfinite(array)]
    rest = f" ({array.size - fine.size:,} not finite)" if fine.size < array.size else ""
    if not fine.size:
        return f"none{rest}"
    low, middle, high = np.quantile(fine, (0.05, 0.5, 0.95))
    return f"5% {low:.3g}, median {middle:.3g}, 95% {high:.3g}{rest}"


def card(title: str, rows: Mapping[str, str]) -> str:
    """A small table for a notebook; every word is text, none is markup."""
    lines = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(words)}</td></tr>'
        for name, words in rows.items()
    )
    return f"<table><caption><b>{html.escape(title)}</b></caption>{lines}</table>"
