"""Heads in float64: the same contract as in Arb, and large heads, which are checked so alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from flint import ctx

import suffice as sf
from suffice.contracts.registry import contract_named
from suffice.verify.exact_heads import ExactHead
from suffice.verify.float_heads import FloatHeads
from suffice.verify.stored import HeadBank
from tests.support.head_audits import BUDGETS, both, made
from tests.support.moved_heads import gaussian_states
from tests.support.tampering import change_row, seal
from tests.support.verifying import plan_of


@pytest.mark.parametrize("coordinate", ["hidden", "weights"])
@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
def test_all_three_evaluations_agree(contract: str, coordinate: str) -> None:
    """What certifies is no smaller than the exact contract, and within the widened one; float64 and Arb agree."""
    plan = plan_of(head=True, coordinate=coordinate, kl=1e-9, contract=contract)
    for seed in (1, 3):
        states = gaussian_states(seed, count=4).taken_in(coordinate)  # type: ignore[arg-type]
        assert states.labels is not None
        bank = HeadBank(digest="", weight=states.bank.weight.numpy(), bias=states.bank.bias.numpy())
        floats = FloatHeads(bank, states.hidden.numpy(), states.labels.numpy(), states.temperature.numpy(), plan)
        made_here = sf.ExactHead().at(states).asked(sf.Budgets(kl=1.0))
        for family, allowances in (("own", made_here.own()), ("uniform", made_here.unit())):
            scale = np.full(4, 1e-3 if family == "uniform" else 1.0)
            said = made_here.bounds(contract_named(contract), allowances.scaled(torch.from_numpy(scale)))
            found = floats.bounds(0, contract, family, scale)
            for n in range(4):
                with ctx.workprec(200):
                    exact = ExactHead(
                        bank, states.hidden[n].numpy(), int(states.labels[n]), float(states.temperature[n]), plan
                    ).bounds(0, contract, family, scale[n : n + 1])
                for name in ("loss", "probability", "gradient", "kl"):
                    bound = getattr(said, name)[n].item()
                    assert exact[name].low[0] <= bound <= exact[name].wide[0]
                    assert found[name].low[n] * (1 - 1e-9) <= bound <= found[name].wide[n]
                    assert found[name].low[n] <= exact[name].high[0] * (1 + 1e-9)
                    assert exact[name].low[0] <= found[name].high[n] * (1 + 1e-9)
                    assert found[name].wide[n] <= 1.001 * found[name].low[n]


def test_a_large_head_is_checked_in_float64(tmp_path: Path) -> None:
    """Arb is for heads of some hundred thousand entries: of others nothing is wrong in float64."""
    g = torch.Generator().manual_seed(1)
    head = sf.LinearHead((0.05 * torch.randn(3000, 96, generator=g)).half())
    states = sf.HeadStates(head, torch.randn(5, 96, generator=g), [1, 2, 3, 4, 5])
    audit, collection = made(tmp_path, states, BUDGETS)
    for report in both(audit, collection):
        assert report.findings == []
        assert report.in_arb == 0
    change_row(audit / "results/part-00000-000000000.parquet", 1, {"kl_bound": lambda row: row["kl_bound"] / 3})
    seal(audit, collection)
    for report in both(audit, collection):
        assert {(each.row, each.column) for each in report.findings} == {(1, "kl_bound")}
