"""What is accepted, and inversion by series: the same as the direct one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import suffice as sf
from suffice.budgets import accepts
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.centered import CENTERED, centered_in_logs
from suffice.contracts.conditioned import CONDITIONED, conditioned_in_logs
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import realize_contrastive
from suffice.tolerances.bracket import Inverse
from suffice.tolerances.invert import invert, invert_directly, with_one
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states

PAIR = sf.DebyePair(order=2)


def _row(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_budgets_are_closed_and_the_margin_is_open() -> None:
    shares = _row(1.0, math.nextafter(1.0, 2.0), 0.5, math.nan)
    assert accepts({"loss": shares}).tolist() == [True, False, True, False]
    assert accepts({"prediction": shares}).tolist() == [False, False, True, False]
    # all of them, and NaN in one is enough
    assert accepts({"loss": 0 * shares + 0.5, "gradient": shares}).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "budgets", [sf.Budgets(loss=1e-5, gradient=1e-5), sf.Budgets(loss=1e-4), sf.Budgets(probability=1e-6)], ids=str
)
def test_inversion_by_series_is_the_direct_one(budgets: sf.Budgets) -> None:
    for states in many_states(140, queries=10):
        direct = invert_directly(realize_contrastive(states, PAIR).unit_family(CONDITIONED), budgets)
        quick = sf.tolerance(states, budgets, PAIR, "conditioned")
        bounded = torch.isfinite(direct.rejected)
        torch.testing.assert_close(quick.b[bounded], direct.accepted[bounded], rtol=3e-9, atol=0)
        assert torch.equal(torch.isfinite(quick.upper), bounded)


def test_what_was_found_at_one_has_the_last_word() -> None:
    """A bracket that lies on the other side of 1 by less than its width, or far away, ends at 1 or before."""
    ends = _row(0.5, 1 - 1e-10, 1.0, 1 + 1e-10, 2.0)
    found = Inverse(accepted=ends, rejected=ends * (1 + 1e-9), binding=torch.zeros(5, dtype=torch.long), evaluations=7)
    for share, met in ((1.0, True), (1 + 1e-15, False)):
        bounds = sf.Bounds(**dict.fromkeys(("loss", "probability", "gradient", "margin_use"), 0 * ends + share))
        at = with_one(found, bounds, sf.Budgets(probability=2.0, gradient=1.0))
        assert (at.accepted >= 1).tolist() == [met] * 5
        assert (at.accepted > 0).all()
        if not met:
            assert (at.rejected <= 1).all()
            # where 1 is the rejected end, what rejects it binds
            assert at.binding[3:].tolist() == [1, 1]
        far = 4 if met else 0
        assert at.accepted[far] == ends[far]


def test_what_the_series_leave_open_has_its_own_budgets() -> None:
    """Budgets from 1e-9, which series settle, to 1, which they do not, in any order: each as if it were alone."""
    for states in many_states(40, queries=10, shapes=[(7, 64), (20, 33)]):
        each = torch.logspace(0, -9, 10, dtype=torch.float64).roll(3)
        family = realize_contrastive(states, PAIR).unit_family(CONDITIONED)
        found = invert(family, sf.Budgets(loss=each, gradient=each.flip(0)))
        for row in range(10):
            budgets = sf.Budgets(loss=each[row].item(), gradient=each[9 - row].item())
            alone = invert_directly(family[torch.tensor([row])], budgets)
            torch.testing.assert_close(found.accepted[row : row + 1], alone.accepted, rtol=3e-9, atol=0)


@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
@pytest.mark.parametrize("bias", [0.0, 20.0, 40.0, 100.0])
def test_a_gradient_budget_that_only_the_ratio_term_reaches(contract: str, bias: float) -> None:
    """Past 2/tau the moved probability alone never breaks it: b* is where the ratio term does, however far away."""
    g = torch.Generator().manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(4, 16, generator=g, dtype=torch.float64), dim=1)
    features = 10 * torch.nn.functional.normalize(torch.randn(1, 16, generator=g, dtype=torch.float64), dim=1)
    states = sf.States(sf.ClassBank(mu, [1.0] * 4, [bias, 0.0, 0.0, 0.0]), features, [0], 0.1)
    found = sf.tolerance(states, sf.Budgets(gradient=25.0), PAIR, contract)
    assert found.status.tolist() == ["bounded"]
    family = realize_contrastive(states, PAIR).unit_family(contract_named(contract))
    assert family.at(found.b).gradient.item() <= 25.0 < family.at(found.upper).gradient.item()
    assert found.upper <= found.b * (1 + 1e-9)


@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
def test_a_loss_budget_of_thousands_is_bounded(contract: str) -> None:
    """A bound on the loss grows with every movement, also with matched gaps far below the gaps (theory, 6.3b)."""
    head = SoftmaxHead(
        log_probabilities=torch.log_softmax(_row(0.0, 1.0, 2.0, -3.0)[None], dim=1),
        target=torch.tensor([1]),
        gradient_scale=_row(10.0),
        distances=torch.full((1, 4), 0.5, dtype=torch.float64),
    )
    d = _row(1.0, 2.0, 3.0, 0.5)[None]
    matched = {"to_target": _row(1e-3, 0.0, 2e-3, 1e-3)[None], "to_top": _row(1e-3, 2e-3, 0.0, 1e-3)[None]}
    unit = Allowances(d=d, a=torch.ones_like(d), **matched)
    family = SoftmaxFamily(contract=contract_named(contract), head=head, unit=unit)
    found = invert_directly(family, sf.Budgets(loss=3e5))
    assert family.at(found.accepted).loss.item() <= 3e5 < family.at(found.rejected).loss.item()
    assert found.rejected <= found.accepted * (1 + 1e-9)


@pytest.mark.parametrize("contract", [CONDITIONED, CENTERED], ids=lambda contract: contract.name)
@pytest.mark.parametrize("kind", ["unit_family", "own_family"])
def test_the_log_domain_accepts_what_was_found(contract: Contract, kind: str) -> None:
    """Whatever found b*, series or plain arithmetic: the reference accepts it, and not 1e-9 above."""
    in_logs = {CONDITIONED.name: conditioned_in_logs, CENTERED.name: centered_in_logs}[contract.name]
    reference = replace(contract, bounds=in_logs, estimate=None, series=None)
    judged = 0
    for states in [*many_states(70, queries=10), *(extreme_states(seed) for seed in range(24))]:
        realized = realize_contrastive(states, PAIR)
        family, logs = getattr(realized, kind)(contract), getattr(realized, kind)(reference)
        for budgets in (sf.Budgets(loss=1e-5, gradient=1e-5), sf.Budgets(loss=1e-3, probability=1e-4, gradient=1e-2)):
            found = invert(family, budgets)
            rows = found.accepted > 0
            assert accepts(budgets.shares(logs.at(found.accepted)))[rows].all()
            bounded = rows & torch.isfinite(found.rejected)
            past = torch.where(bounded, found.rejected * (1 + 1e-11), 1.0)
            assert not accepts(budgets.shares(logs.at(past)))[bounded].any()
            assert (found.rejected <= found.accepted * (1 + 1.001e-9))[bounded].all()
            judged += int(bounded.sum())
    assert judged > 200
