"""Schemes by name: as `Quantized` of the states' own head, and everything is read back from its record."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.audits.plan import Plan
from suffice.realizations.schemes import STEPS, head_step
from tests.support.moved_heads import gaussian_states


@pytest.mark.parametrize(("scheme", "group"), [("int8", None), ("int4", 8), ("fp8", None)])
def test_as_quantized_by_hand(scheme: str, group: int | None) -> None:
    named = sf.QuantizedTo(scheme, group)
    for seed in (1, 2):
        states = gaussian_states(seed, count=4)
        made, other = named.at(states), sf.Quantized(states.bank, scheme, group=group).at(states)
        assert torch.equal(made.scores, other.scores)
        assert torch.equal(made.d, other.d)
        assert torch.equal(made.row_errors, other.row_errors)


REALIZATIONS = (
    sf.QuantizedTo("int8"),
    sf.QuantizedTo("int4", 32),
    sf.ProductIn(torch.bfloat16),
    sf.ProductIn(torch.float64, torch.float64),
    sf.RoundedLogits(torch.float8_e4m3fn),
    sf.ApproximateExp(1e-3, "probabilities"),
    sf.compose(sf.QuantizedTo("int8"), sf.ProductIn(torch.float32), hidden_error=0.5),
)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_read_back(realization: sf.Realization) -> None:
    record = realization.record()
    assert record["name"] in STEPS
    assert head_step(record) == realization
    plan = Plan(probability=0.1, given=realization)
    assert Plan.from_record(plan.record()).given == realization


def test_bad_input_in_our_words() -> None:
    with pytest.raises(ValueError, match="Expected scheme in"):
        sf.QuantizedTo("int2")
    with pytest.raises(ValueError, match="Expected a group for int4"):
        sf.QuantizedTo("int4")
    with pytest.raises(TypeError, match="Expected HeadStates"):
        sf.QuantizedTo("int8").at(torch.ones(2))
    with pytest.raises(ValueError, match="Expected a realization in"):
        head_step({"name": "exact"})
