"""Which classes matter at some audited states: what each contributes to the bound that binds, and its error."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from suffice.audits.plan import Plan
from suffice.certificates.explain import shares_by_class
from suffice.numerics.softmax import at_class, log_exclusive
from suffice.realizations.base import Realized
from suffice.store.reader import Collection

__all__ = ["SHOWN", "class_weights"]

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

# classes of a state that a page shows
SHOWN = 6


def class_weights(columns: Columns, plan: Plan, collection: Collection) -> tuple[Columns, str]:
    """For each state its leading classes, with shares, probabilities and score allowances; and what b is, in words.

    `columns` name the states by part and row, and the budget to explain (`missed`). Besides there is `rest`, log10 of
    the probability that is left for other classes than the target, to all of its digits. Where an objective cannot be
    explained class by class, the class is -1 and `rest` comes from the rounded probability of the target.
    """
    count = len(columns["id"])
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log10(np.maximum(1 - columns["target_probability"], np.finfo(float).eps / 2))
    found: Columns = {"class": np.full((count, SHOWN), -1, dtype=np.int64), "rest": rest}
    for name in ("share", "probability", "allowance"):
        found[name] = np.full((count, SHOWN), np.nan)
    words = "error"
    places: dict[str, dict[int, int]] = {}
    for index, (part, row) in enumerate(zip(columns["part"].tolist(), columns["row"].tolist(), strict=True)):
        places.setdefault(part, {})[row] = index
    for part in collection.parts:
        wanted = places.get(part, {})
        for batch in collection.read_part(part, []) if wanted else ():
            picked = [row for row, number in enumerate(batch.rows) if number in wanted]
            where = np.asarray([wanted[batch.rows[row]] for row in picked], dtype=np.int64)
            start = 0
            for chunk in batch.states[picked].chunks() if picked else ():
                realized = plan.realization.at(chunk)
                words = realized.unit_words
                if realized.by_class:
                    _explain(found, realized, where[start : start + len(chunk)], columns["missed"])
                start += len(chunk)
    return found, words


def _explain(found: Columns, realized: Realized, where: Array, missed: Array) -> None:
    """Write the leading classes of one chunk to their rows."""
    head, own = realized.head(), realized.own()
    log_rest = at_class(log_exclusive(head.log_probabilities), head.target) / np.log(10)
    # where there is no label the probability of the target is not a number, and stays so
    labelled = ~np.isnan(found["rest"][where])
    found["rest"][where[labelled]] = log_rest.numpy(force=True)[labelled]
    for name in np.unique(missed[where]):
        rows = torch.from_numpy((missed[where] == name).nonzero()[0])
        shares = shares_by_class(realized[rows], str(name))
        top = shares.topk(min(SHOWN, shares.shape[1]), dim=1)
        into = (where[rows.numpy()], slice(0, top.indices.shape[1]))
        found["class"][into] = top.indices.numpy(force=True)
        found["share"][into] = top.values.numpy(force=True)
        found["probability"][into] = head.log_probabilities[rows].gather(1, top.indices).exp().numpy(force=True)
        found["allowance"][into] = own.d[rows].gather(1, top.indices).numpy(force=True)
