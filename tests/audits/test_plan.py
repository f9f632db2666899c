"""A plan names everything that results depend on, and is read back as it was written."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.audits.plan import Plan, pair_order


def test_plan() -> None:
    assert pair_order("debye4") == 4
    with pytest.raises(ValueError, match="Expected a pair from debye1 to debye6"):
        pair_order("bessel")
    with pytest.raises(ValueError, match="Expected"):
        Plan()
    with pytest.raises(TypeError, match="one loss budget for the whole audit"):
        sf.audit(None, sf.Budgets(loss=torch.ones(3, dtype=torch.float64)), out="x")
