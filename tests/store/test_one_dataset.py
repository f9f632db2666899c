"""`queries/` is one dataset for pandas, polars, DuckDB and Arrow, whatever dimensions, widths and kinds are in it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pytest
import torch

import suffice as sf
from tests.store.linear_kind import make_hidden
from tests.support.collections import make_states, make_supervised, write

PARTS = [
    make_states(7, 3, 5, 1),
    make_states(30, 9, 16, 2),
    make_states(4, 3, 5, 4, single=False),
    make_supervised(6, 3),
    make_states(2, 6, 8, 3),
]
FEATURES = [part.embeddings if isinstance(part, sf.SupervisedStates) else part.features for part in PARTS]


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("one") / "c", *PARTS) / "queries"


def _stacked(values: list[bytes], dim: int) -> np.ndarray:
    return np.stack([np.frombuffer(value, "<f4" if len(value) == 4 * dim else "<f8") for value in values])


def _wanted(dim: int) -> torch.Tensor:
    return torch.cat([features for features in FEATURES if features.shape[1] == dim])


def test_pandas(queries: Path) -> None:
    frame = pd.read_parquet(queries)
    assert len(frame) == 49
    assert frame["temperature"].isna().sum() == 6
    for dim, some in frame.groupby("dim"):
        assert np.array_equal(_stacked(list(some["feature"]), dim), _wanted(dim))
    supervised = frame[frame["kind"] == "supervised"]
    samples = np.stack([np.frombuffer(value, "<f4").reshape(-1, 8) for value in supervised["samples"]])
    assert np.array_equal(samples, PARTS[3].samples)


@pytest.mark.parametrize("lazy", [True, False])
def test_polars(queries: Path, lazy: bool) -> None:
    where = f"{queries}/**/*.parquet"
    frame = pl.scan_parquet(where).collect() if lazy else pl.read_parquet(where)
    assert len(frame) == 49
    assert frame["label"].dtype == pl.Int64
    for (dim,), some in frame.group_by("dim", maintain_order=True):
        assert np.array_equal(_stacked(some["feature"].to_list(), dim), _wanted(dim))
    assert frame.filter(pl.col("kind") == "supervised")["beta"].to_list() == PARTS[3].beta.tolist()


def test_duckdb(queries: Path) -> None:
    where = f"'{queries}/**/*.parquet'"
    with duckdb.connect() as connection:
        counted = connection.sql(f"select kind, dim, count(*) from {where} group by all order by all").fetchall()
        assert counted == [("contrastive", 5, 11), ("contrastive", 8, 2), ("contrastive", 16, 30), ("supervised", 8, 6)]
        for dim in (5, 8, 16):
            rows = connection.sql(f"select feature from {where} where dim = {dim} order by step, id").fetchall()
            found = {tuple(row) for row in _stacked([row[0] for row in rows], dim).tolist()}
            assert found == {tuple(row) for row in _wanted(dim).tolist()}


def test_arrow(queries: Path) -> None:
    table = pyarrow.dataset.dataset(queries).to_table()
    assert table.num_rows == 49
    assert pyarrow.dataset.dataset(queries).to_table(filter=pyarrow.dataset.field("dim") == 16).num_rows == 30


def test_kinds_with_columns_of_their_own_are_read_by_name(tmp_path: Path) -> None:
    """What docs/format.md says of them, whichever comes first."""
    for name, parts in (("a", (PARTS[0], make_hidden())), ("b", (make_hidden(), PARTS[0]))):
        where = write(tmp_path / name, *parts) / "queries" / "**" / "*.parquet"
        with duckdb.connect() as connection:
            relation = connection.sql(f"select margin from read_parquet('{where}', union_by_name=true)")
            assert sum(row[0] is not None for row in relation.fetchall()) == 9
        assert len(pl.scan_parquet(where, missing_columns="insert", extra_columns="ignore").collect()) == 16


def test_what_the_documentation_shows(queries: Path) -> None:
    """The recipes of docs/format.md, word for word, with the path changed."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text()
    # sessions on the built-in states are run by tests/test_docs.py
    blocks = [block for block in text.split("```python\n")[1:] if not block.startswith(">>>")]
    assert len(blocks) == 3
    for block in blocks:
        names: dict[str, object] = {}
        exec(block.split("```")[0].replace("collection/queries", str(queries)), names)
        features = names["features"]
        assert isinstance(features, np.ndarray)
        assert features.shape == (30, 16)
        order = np.lexsort(features.T)
        wanted = PARTS[1].features.numpy()
        assert np.array_equal(features[order], wanted[np.lexsort(wanted.T)])
