"""One evaluation is both ends of a bracket, where the bounds grow as fast as their family."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Bounds
from suffice.contracts.centered import CENTERED, centered_in_logs
from suffice.contracts.family import SoftmaxFamily
from suffice.tolerances.aimed import aimed, rejected_from
from suffice.tolerances.bracket import RELATIVE_WIDTH
from suffice.tolerances.invert import invert, invert_directly
from tests.support.saturated_heads import saturated_family

BUDGETS = [
    sf.Budgets(loss=1e-5, gradient=1e-5),
    sf.Budgets(loss=1e-3),
    sf.Budgets(gradient=1e-7),
    sf.Budgets(loss=1e-1, gradient=3.0),
    sf.Budgets(loss=1e-40, gradient=1e-60),
]
IN_LOGS = replace(CENTERED, bounds=centered_in_logs, estimate=None, series=None, along=None, aim=None)


def _of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _share(family: SoftmaxFamily, budgets: sf.Budgets, b: Tensor) -> Tensor:
    return torch.stack(list(budgets.shares(family.at(b)).values())).amax(dim=0)


@pytest.mark.parametrize("budgets", BUDGETS, ids=str)
def test_what_is_settled_is_accepted_and_rejected(budgets: sf.Budgets) -> None:
    """By the contract, and by the log-domain evaluator alone; and it is where a bracket of that ends."""
    settled_rows = 0
    for seed in range(30):
        family = saturated_family(seed)
        found = aimed(family, budgets)
        assert found is not None
        inverse, settled = found
        rows = settled.nonzero().squeeze(1)
        if not len(rows):
            continue
        settled_rows += len(rows)
        some = family[rows]
        reference = replace(some, contract=IN_LOGS)
        low, high = inverse.accepted[rows], inverse.rejected[rows]
        assert (high > low).all()
        assert (high <= low * (1 + RELATIVE_WIDTH)).all()
        assert (_share(some, budgets, low) <= 1).all()
        assert (_share(reference, budgets, low) <= 1).all()
        assert (_share(some, budgets, high) > 1).all()
        # logarithms are raised once less, and bounds grow as b does at least
        assert (_share(reference, budgets, high * (1 + 2 * some.head.roundings)) > 1).all()
        direct = invert_directly(reference, budgets)
        torch.testing.assert_close(low, direct.accepted, rtol=2.1e-9, atol=0)
    assert settled_rows > 100


@pytest.mark.parametrize("budgets", BUDGETS, ids=str)
def test_inversion_is_that_of_the_log_domain(budgets: sf.Budgets) -> None:
    """All rows, whatever settles them: the same ends to their width, the same rows unbounded."""
    for seed in range(30):
        family = saturated_family(seed)
        found, direct = invert(family, budgets), invert_directly(replace(family, contract=IN_LOGS), budgets)
        assert torch.equal(torch.isfinite(found.rejected), torch.isfinite(direct.rejected))
        bounded = torch.isfinite(direct.rejected)
        torch.testing.assert_close(found.accepted[bounded], direct.accepted[bounded], rtol=2.1e-9, atol=0)


def test_bounds_grow_as_fast_as_their_family() -> None:
    """Loss, and gradient up to the slow ones: twice the allowances, at least twice the bound (docs/theory, 6.15a)."""
    for seed in range(40):
        family = saturated_family(seed)
        b = 10 ** (-torch.rand(16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 6)
        one, more = family.at(b), family.at(b * 1.25)
        exact = 1 - 4 * family.head.roundings
        assert one.slow is not None
        assert more.slow is not None
        # a bound that is raised to a normal number is not one of these
        assert ((more.loss >= 1.25 * exact * one.loss) | (one.loss < 1e-300)).all()
        fast = torch.minimum(1.25 * one.gradient, one.slow)
        assert ((more.gradient >= fast * exact) | (one.gradient < 1e-300)).all()
        assert (more.slow >= one.slow * exact).all()


def _bounds(loss: Tensor, gradient: Tensor, slow: Tensor | None) -> Bounds:
    nothing = torch.zeros_like(loss)
    return Bounds(loss=loss, probability=nothing + 0.9, gradient=gradient, margin_use=nothing, slow=slow)


def test_where_a_row_is_rejected() -> None:
    """At budget over bound, by the loss or by the gradient, unless a slow bound on it is within the budget."""
    b = _of(2.0, 2.0, 2.0, 2.0)
    bounds = _bounds(_of(0.5, 0.1, 0.1, 1.5), _of(0.1, 0.8, 0.8, 0.1), _of(9.0, 9.0, 1.0, 9.0))
    past, binding = rejected_from(bounds, sf.Budgets(loss=1.0, gradient=1.0), b, 1e-12)
    # a bound that is over its budget already rejects at b itself
    assert past.tolist() == pytest.approx([4.0, 2.5, 20.0, 2.0], rel=1e-10)
    assert binding.tolist() == [0, 1, 0, 0]
    assert (past > _of(4.0, 2.5, 20.0, 2.0)).all()
    # nothing is known of a total variation, and of a gradient whose slow bounds are not
    past, _ = rejected_from(bounds, sf.Budgets(probability=1.0), b, 1e-12)
    assert torch.isinf(past).all()
    past, _ = rejected_from(replace(bounds, slow=None), sf.Budgets(gradient=1.0), b, 1e-12)
    assert torch.isinf(past).all()
    # as much above the budget as roundings may be
    close = replace(bounds, slow=_of(*[1 + 4e-12] * 4))
    past, _ = rejected_from(close, sf.Budgets(gradient=1.0), b, 1e-12)
    assert torch.isinf(past).all()


def test_a_slow_bound_within_the_budget_settles_nothing() -> None:
    """Total variation saturates: the gradient's bound may stop below a budget that the aim takes for reached."""
    family = saturated_family(3)
    head = replace(family.head, h_bound=1e-3)
    slow = replace(family, head=head, unit=replace(family.unit, a=1e-9 * family.unit.a))
    budgets = sf.Budgets(gradient=0.05 * head.gradient_scale)
    found = aimed(slow, budgets)
    assert found is not None
    inverse, settled = found
    assert not settled.any()
    # the contract accepts far above what was aimed at
    assert (_share(slow, budgets, 1.001 * inverse.accepted) <= 1).all()


@pytest.mark.parametrize("off", [1e-6, 0.5])
def test_an_aim_that_is_too_high(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    """What the contract rejects is not settled, however near it is."""
    _off_by(monkeypatch, 1 + off)
    found = aimed(saturated_family(2), sf.Budgets(loss=1e-5, gradient=1e-5))
    assert found is not None
    assert not found[1].any()


@pytest.mark.parametrize("off", [1e-6, 0.2])
def test_an_aim_that_is_too_low(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    """Nor is what is accepted too far below its budget."""
    _off_by(monkeypatch, 1 - off)
    found = aimed(saturated_family(2), sf.Budgets(loss=1e-5, gradient=1e-5))
    assert found is not None
    assert not found[1].any()


def _off_by(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    aim = SoftmaxFamily.aim

    def off(family: SoftmaxFamily, limits: dict[str, Tensor]) -> Tensor:
        found = aim(family, limits)
        assert found is not None
        return factor * found

    monkeypatch.setattr(SoftmaxFamily, "aim", off)


@pytest.mark.parametrize("budget", [1e-290, 1e-305])
def test_budgets_among_the_smallest_numbers(budget: float) -> None:
    """A bound that is raised to a normal number grows with nothing."""
    for seed in range(6):
        family = saturated_family(seed)
        found = aimed(family, sf.Budgets(loss=budget, gradient=budget))
        assert found is not None
        assert not found[1].any()


def test_what_is_asked_for_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    at = SoftmaxFamily.at

    def counted(family: SoftmaxFamily, b: Tensor, names: frozenset[str] | None = None) -> Bounds:
        calls.append(len(b))
        return at(family, b, names)

    monkeypatch.setattr(SoftmaxFamily, "at", counted)
    family, budgets = saturated_family(2), sf.Budgets(loss=1e-5, gradient=1e-5)
    found = aimed(family, budgets)
    assert found is not None
    settled = found[1].nonzero().squeeze(1)
    assert len(settled) >= 8
    calls.clear()
    assert invert(family[settled], budgets).evaluations == 1
    assert calls == [len(settled)]


def test_predictions_are_not_aimed_at() -> None:
    assert aimed(saturated_family(2), sf.Budgets(loss=1e-5, prediction=True)) is None
