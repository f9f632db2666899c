"""One audited state in words: the numbers are the certificate's and the row's, also after bad rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import suffice as sf
from suffice.reports.inspection import explain_audited
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


@pytest.mark.parametrize("scope", ["analytic", "execution"])
def test_words_are_those_of_the_row(tmp_path: Path, scope: str) -> None:
    states = make_states(6, 6, 64)
    collection = write(tmp_path / "c", states)
    sf.audit(collection, BUDGETS, out=tmp_path / "a", scope=scope)
    text = explain_audited(tmp_path / "a", sf.open_collection(collection), "a:0:4")
    row = pq.read_table(tmp_path / "a" / "results").to_pylist()[4]
    for part in (
        "a:0:4: test on random, run a, step 0",
        f"label {row['label']}, target probability {row['target_probability']:.3g}",
        f"b* = {row['b']:.4g} ({row['status']}, {row['binding']} binds",
        f"verdict {row['verdict']}, decided by {row['tier']}, headroom {row['headroom']:.4g}",
    ):
        assert part in text
    certificate = sf.certify(states[4:5], BUDGETS, sf.DebyePair(order=2), scope=scope)
    assert text.endswith(str(certificate.explain(0)))


def test_rows_after_a_bad_one_are_the_right_ones(tmp_path: Path) -> None:
    states = make_states(6, 6, 64)
    collection = write(tmp_path / "c", states)
    rewrite_part(collection, change_column("label", set_row(2, 99)))
    sf.audit(collection, BUDGETS, out=tmp_path / "a", skip_bad=True)
    text = explain_audited(tmp_path / "a", sf.open_collection(collection), "a:0:4")
    assert f"temperature {states.temperature[4].item():.3g}" in text
    with pytest.raises(KeyError, match="has no state 'a:0:2'"):
        explain_audited(tmp_path / "a", sf.open_collection(collection), "a:0:2")
