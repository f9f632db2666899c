"""What comes out of sums is one number a row, on the host, whoever has added it up."""

from __future__ import annotations

import numpy as np
import pytest

import suffice as sf
from suffice.realizations.summed_numbers import RowNumbers
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, both_rows, in_every_way


@in_every_way
def test_one_number_a_row(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)
    states = ordinary_states(4)
    summed, _ = both_rows(states, sf.DebyePair(), loops)
    found = summed.loops.numbers
    assert isinstance(found, RowNumbers)
    rows = [*found, *summed.own._sums.losses, *summed.unit._sums.losses]
    for series in (summed.own, summed.unit):
        rows += [each for vector in series.vectors for each in (vector.mean, vector.third, vector.twist)]
    for each in rows:
        assert isinstance(each, np.ndarray)
        assert each.shape == (len(states),)
        assert each.dtype == (np.int64 if each is found.top else np.float64)
