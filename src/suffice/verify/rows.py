"""The rows of a result file: read with their types, and each the collection's row that belongs in its place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from suffice.verify.columns import Said
from suffice.verify.cross import result_columns
from suffice.verify.layout import Wanted
from suffice.verify.plan import Plan
from suffice.verify.report import Finding, Tally, UnreadableError, shown
from suffice.verify.stored import Array, read_table

__all__ = ["Rows", "read_rows"]

_DESCRIBED = {
    **{name: pa.string() for name in ("id", "part", "bank", "source", "dataset", "run")},
    **{name: pa.int64() for name in ("row", "step", "label", "dim", "classes")},
    "temperature": pa.float64(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one result file that are about states of it: `place` in the file, `index` among those it must have."""

    name: str
    said: Said
    place: Array
    index: Array

    def __len__(self) -> int:
        return len(self.place)


def read_rows(audit: Path, wanted: Wanted, plan: Plan, tally: Tally) -> Rows:
    """Read a result file; what is missing, doubled, out of place or about another state is noted."""
    table = read_table(audit / wanted.name, wanted.name)
    kinds = {**_DESCRIBED, **result_columns(plan)}
    for column, kind in kinds.items():
        if column not in table.column_names:
            raise UnreadableError(wanted.name, column, kind, "no such column")
        if table.schema.field(column).type != kind:
            raise UnreadableError(wanted.name, column, kind, table.schema.field(column).type)
    for column in table.column_names:
        if column not in kinds or table.column_names.count(column) > 1:
            tally.findings.append(
                Finding(file=wanted.name, column=column, said="a column", found="none", words="nothing is known of it")
            )
    said = {name: np.asarray(table.column(name).to_numpy(zero_copy_only=False)) for name in kinds}
    place, index = _matched(wanted, said, tally)
    said = {name: column[place] for name, column in said.items()}
    rows = Rows(name=wanted.name, said=said, place=place, index=index)
    for column in _DESCRIBED:
        truth = wanted.columns[column][index]
        for i in (said[column] != truth).nonzero()[0]:
            tally.findings.append(_finding(rows, int(i), column, shown(truth[i]), "as the collection has it"))
        tally.count(column, "collection", len(rows))
    return rows


def _finding(rows: Rows, i: int, column: str, found: str, words: str = "") -> Finding:
    return Finding(
        file=rows.name,
        row=int(rows.place[i]),
        id=str(rows.said["id"][i]),
        column=column,
        said=shown(rows.said[column][i]),
        found=found,
        words=words,
    )


def _matched(wanted: Wanted, said: Said, tally: Tally) -> tuple[Array, Array]:
    """Where each wanted row is; missing, doubled, foreign and misplaced rows are named."""
    keys = list(zip(said["part"].tolist(), said["row"].tolist(), strict=True))
    order = {
        key: i
        for i, key in enumerate(zip(wanted.columns["part"].tolist(), wanted.columns["row"].tolist(), strict=True))
    }
    ids = wanted.columns["id"]
    place, index = [], []
    seen: Counter[tuple[str, int]] = Counter()
    latest = -1
    for i, key in enumerate(keys):
        text = f"{key[0]}, row {key[1]}"
        noted = partial(Finding, file=wanted.name, row=i, id=str(said["id"][i]), column="row", said=text)
        seen[key] += 1
        if key not in order:
            tally.findings.append(noted(found="a row of another file or of none", words="misplaced"))
            continue
        if seen[key] > 1:
            tally.findings.append(noted(found="the same row again", words="doubled"))
            continue
        if order[key] < latest:
            tally.findings.append(noted(found="a later row before it", words="out of place"))
        latest = max(latest, order[key])
        place.append(i)
        index.append(order[key])
    for key, i in order.items():
        if not seen[key]:
            text = f"{key[0]}, row {key[1]}"
            tally.findings.append(
                Finding(
                    file=wanted.name, row=i, id=str(ids[i]), column="row", said="nothing", found=text, words="missing"
                )
            )
    return np.array(place, dtype=np.int64), np.array(index, dtype=np.int64)
