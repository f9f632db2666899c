"""Budgets: what is one, what is none, and which a state has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import suffice as sf
from tests.support.collections import make_states


def test_budgets_are_checked() -> None:
    with pytest.raises(ValueError, match="Expected at least one budget"):
        sf.Budgets()
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="Expected a loss budget > 0 and finite"):
            sf.Budgets(loss=bad)
    # judged in float64: neither of these is 0 or inf
    assert sf.Budgets(loss=1e-300, gradient=1e100).names == ("loss", "gradient")
    with pytest.raises(ValueError, match="Expected a gradient budget > 0"):
        sf.Budgets(gradient=torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"loss": torch.ones(3, 1)}, ValueError, r"shape \[\] or \[states\], but got \[3, 1\]"),
        ({"loss": np.ones(3)}, TypeError, "but got ndarray; use torch.as_tensor"),
        ({"gradient": True}, TypeError, "a gradient budget to be a number or a tensor, but got bool"),
        ({"gradient": False}, TypeError, "but got bool"),
        ({"loss": "1e-3"}, TypeError, "but got str"),
        ({"loss": 1j}, TypeError, "but got complex"),
        ({"loss": 10**400}, ValueError, "within the range of float64"),
        ({"loss": torch.ones(3, dtype=torch.int64)}, TypeError, "in float32 or float64, but got torch.int64"),
        ({"loss": torch.ones(3, dtype=torch.bool)}, TypeError, "but got torch.bool"),
        ({"loss": torch.ones(3, dtype=torch.complex128)}, TypeError, "but got torch.complex128"),
        ({"probability": torch.tensor([1.0, torch.nan])}, ValueError, "> 0 and finite, but got nan"),
        ({"loss": 1.0, "prediction": 1}, TypeError, "prediction to be True or False, but got int"),
        ({"loss": 1.0, "prediction": torch.tensor(True)}, TypeError, "but got Tensor"),
    ],
)
def test_what_is_no_budget_is_refused(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sf.Budgets(**wrong)


def test_names_are_in_a_fixed_order() -> None:
    budgets = sf.Budgets(prediction=True, gradient=1.0, loss=2.0)
    assert budgets.names == ("loss", "gradient", "prediction")
    assert sf.Budgets(probability=0.1).names == ("probability",)


def test_every_row_has_its_own() -> None:
    like = torch.zeros(3, dtype=torch.float64)
    each = sf.Budgets(loss=torch.arange(1.0, 7.0), gradient=0.5, probability=torch.tensor(0.25), prediction=True)
    for rows, expected in ((slice(2, 5), [3.0, 4.0, 5.0]), (torch.tensor([5, 0, 4]), [6.0, 1.0, 5.0])):
        some = each[rows]
        assert some.names == ("loss", "probability", "gradient", "prediction")
        limits = some.limits(like)
        assert {name: limit.tolist() for name, limit in limits.items()} == {
            "loss": expected,
            "probability": [0.25] * 3,
            "gradient": [0.5] * 3,
        }
        assert all(limit.dtype == torch.float64 for limit in limits.values())
    # of a part of a part, and of one state
    assert each[2:][torch.tensor([3, 1])].limits(like[:2])["loss"].tolist() == [6.0, 4.0]
    assert each[5:6].limits(like[:1])["loss"].tolist() == [6.0]
    for wrong in (each, each[:1], each[4:]):
        with pytest.raises(ValueError, match="Expected one loss budget, or one for each of 3 states, but got"):
            wrong.limits(like)


def test_shares_are_those_of_all_budgets() -> None:
    each = torch.tensor([1.0, 2.0], dtype=torch.float64)
    bounds = sf.Bounds(loss=each, probability=2 * each, gradient=4 * each, margin_use=each / 8)
    shares = sf.Budgets(loss=torch.tensor([1.0, 4.0]), gradient=8.0, prediction=True).shares(bounds)
    assert {name: share.tolist() for name, share in shares.items()} == {
        "loss": [1.0, 0.5],
        "gradient": [0.5, 1.0],
        "prediction": [0.125, 0.25],
    }
    assert list(sf.Budgets(prediction=True).shares(bounds)) == ["prediction"]


def test_the_number_of_states_is_checked() -> None:
    each = sf.Budgets(loss=torch.ones(3), gradient=torch.tensor(1.0))
    each.check(3)
    with pytest.raises(ValueError, match="Expected one loss budget, or one for each of 4 states, but got 3"):
        each.check(4)


def test_a_graph_is_not_kept_and_a_numpy_number_is_taken() -> None:
    assert sf.Budgets(loss=torch.tensor(0.5, requires_grad=True)).names == ("loss",)
    assert sf.Budgets(loss=np.float32(0.5)).names == ("loss",)  # type: ignore[arg-type]


def test_what_is_no_budget_is_named_wherever_budgets_are_asked_for() -> None:
    states, pair = make_states(4), sf.DebyePair()
    loss = sf.nn.ProCoLoss(6, 8)
    asked: list[Callable[[Any], object]] = [
        lambda wrong: sf.certify(states, wrong, pair),
        lambda wrong: sf.tolerance(states, wrong, pair),
        lambda wrong: sf.cascade(states, wrong, pair),
        lambda wrong: sf.cheapest_rungs(states, wrong),
        lambda wrong: sf.adaptive(states, wrong),
        lambda wrong: sf.judge(states, wrong, loss=torch.zeros(4)),
        lambda wrong: sf.audit(None, wrong, out="nowhere"),
        lambda wrong: sf.nn.ToleranceMonitor(loss, wrong),
        lambda wrong: sf.nn.ProCoLoss(6, 8, adaptive=wrong),
    ]
    for call in asked:
        for wrong, name in ((5, "int"), ({"loss": 1e-3}, "dict")):
            with pytest.raises(TypeError, match=f"Expected budgets to be Budgets, .* but got {name}"):
                call(wrong)


def test_budgets_below_the_noise_are_estimated() -> None:
    g = torch.Generator().manual_seed(0)
    gradients = torch.randn(6, 3, generator=g)
    budgets = sf.Budgets.below_noise(gradients, kappa=0.2, loss=1e-3, prediction=True)
    assert budgets.names == ("loss", "gradient", "prediction")
    trace = float(torch.cov(gradients.double().T).trace())
    assert budgets.gradient == pytest.approx(0.2 * math.sqrt(trace / 6))
    assert budgets.estimated
    assert budgets[torch.tensor([0])].estimated
    assert sf.Budgets.below_noise((trace, 6), kappa=0.2).gradient == budgets.gradient
    assert not sf.Budgets(loss=1.0).estimated
    with pytest.raises(ValueError, match="one sample says nothing about noise"):
        sf.Budgets.below_noise(gradients[:1])
    with pytest.raises(ValueError, match="Expected a trace of the gradients' covariance > 0"):
        sf.Budgets.below_noise(torch.ones(4, 2))
