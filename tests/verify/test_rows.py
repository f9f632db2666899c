"""Rows of a result file matched with the collection's: missing, doubled, foreign and altered ones are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.verify.cross import result_columns
from suffice.verify.layout import Wanted
from suffice.verify.report import Tally, UnreadableError
from suffice.verify.rows import Rows, read_rows
from suffice.verify.stored import Bank
from tests.support.verifying import Linear, honest_rows, plan_of

COUNT, NAME, PART = 4, "results/part-00000-000000000.parquet", "queries/part-00000.parquet"
PLAN = plan_of(loss=1.0)
Table = pa.Table


def _wanted() -> Wanted:
    bank = Bank.of(np.eye(6)[:3], np.ones(3), np.zeros(3))
    words = {name: np.full(COUNT, name, dtype=object) for name in ("source", "dataset", "run")}
    columns = {
        "part": np.full(COUNT, PART, dtype=object),
        "row": np.arange(COUNT),
        "id": np.array([f"row {i}" for i in range(COUNT)], dtype=object),
        "bank": np.full(COUNT, bank.digest, dtype=object),
        "label": np.arange(COUNT) % 3,
        "temperature": np.full(COUNT, 0.1),
        **words,
        "step": np.zeros(COUNT, dtype=np.int64),
        "dim": np.full(COUNT, 6),
        "classes": np.full(COUNT, 3),
    }
    return Wanted(name=NAME, bank=bank, features=np.zeros((COUNT, 6)), columns=columns)


def _table() -> Table:
    said = honest_rows(Linear(np.linspace(0.1, 0.4, COUNT), np.full(COUNT, 0.5)))
    kinds = result_columns(PLAN)
    columns = {**_wanted().columns, **{name: pa.array(said[name].tolist(), kind) for name, kind in kinds.items()}}
    return pa.table(columns)


def _read(folder: Path, change: Callable[[Table], Table]) -> tuple[Rows, Tally]:
    (folder / "results").mkdir(exist_ok=True)
    pq.write_table(change(_table()), folder / NAME)
    tally = Tally()
    return read_rows(folder, _wanted(), PLAN, tally), tally


def _with(column: str, row: int, value: object) -> Callable[[Table], Table]:
    def change(table: Table) -> Table:
        index = table.schema.get_field_index(column)
        values = table.column(index).to_pylist()
        values[row] = value
        return table.set_column(index, column, pa.array(values, table.schema.field(index).type))

    return change


def _found(tally: Tally) -> list[tuple[int | None, str, str]]:
    return [(each.row, each.column, each.words) for each in tally.findings]


def test_the_rows_of_the_collection(tmp_path: Path) -> None:
    rows, tally = _read(tmp_path, lambda table: table)
    assert tally.findings == []
    assert len(rows) == COUNT
    assert rows.place.tolist() == rows.index.tolist() == list(range(COUNT))
    assert tally.columns["label"]["collection"] == COUNT
    assert rows.said["loss_bound"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_a_missing_row(tmp_path: Path) -> None:
    rows, tally = _read(tmp_path, lambda table: table.take([0, 1, 3]))
    assert _found(tally) == [(2, "row", "missing")]
    assert (rows.place.tolist(), rows.index.tolist()) == ([0, 1, 2], [0, 1, 3])


def test_a_doubled_row(tmp_path: Path) -> None:
    """The first of the two is judged, whichever is the better one."""
    rows, tally = _read(tmp_path, lambda table: table.take([0, 1, 1, 2, 3]))
    assert _found(tally) == [(2, "row", "doubled")]
    assert rows.place.tolist() == [0, 1, 3, 4]


def test_a_row_of_another_file(tmp_path: Path) -> None:
    for column, value in (("part", "queries/part-00001.parquet"), ("row", 99)):
        rows, tally = _read(tmp_path, _with(column, 1, value))
        assert _found(tally) == [(1, "row", "misplaced"), (1, "row", "missing")]
        assert rows.index.tolist() == [0, 2, 3]


def test_rows_in_another_order(tmp_path: Path) -> None:
    """They are judged as what they say they are."""
    rows, tally = _read(tmp_path, lambda table: table.take([1, 0, 2, 3]))
    assert _found(tally) == [(1, "row", "out of place")]
    assert rows.index.tolist() == [1, 0, 2, 3]
    assert rows.said["id"].tolist() == ["row 1", "row 0", "row 2", "row 3"]


@pytest.mark.parametrize(
    ("column", "value"),
    [("id", "x"), ("bank", "0"), ("label", 2), ("temperature", 0.2), ("source", "y"), ("step", 1), ("dim", 7)],
)
def test_what_describes_a_state_is_the_collections(tmp_path: Path, column: str, value: object) -> None:
    _, tally = _read(tmp_path, _with(column, 0, value))
    assert _found(tally) == [(0, column, "as the collection has it")]


def test_columns(tmp_path: Path) -> None:
    """One that is not there or has another type cannot be read; one that nothing is known of is named."""
    with pytest.raises(UnreadableError, match="b_upper: said double, found no such column"):
        _read(tmp_path, lambda table: table.drop(["b_upper"]))
    with pytest.raises(UnreadableError, match="loss_bound: said double, found float"):
        _read(
            tmp_path,
            lambda table: table.set_column(
                table.schema.get_field_index("loss_bound"), "loss_bound", table.column("loss_bound").cast(pa.float32())
            ),
        )
    _, tally = _read(tmp_path, lambda table: table.append_column("note", pa.array(["x"] * COUNT)))
    assert _found(tally) == [(None, "note", "nothing is known of it")]
    with pytest.raises(UnreadableError, match="a value is missing"):
        _read(tmp_path, _with("b", 1, None))
