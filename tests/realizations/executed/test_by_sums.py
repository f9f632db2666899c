"""The certificate by sums: states in which one of its terms makes it true, and tables by hand where none does."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.numerics.rounding import unit_roundoff
from suffice.realizations.executed.by_sums import ClassTable, class_table, summed_bounds
from suffice.realizations.executed.program import Executed, execute
from tests.reference.exact import actual_errors, bounds_of

# biases at the foot of a binade of float32: half an ulp is u times the number, all that is allowed for
HALF = 2.0**-4
BIAS = 2.0**20 + 8


def _normal(generator: torch.Generator, *size: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*size, generator=generator, dtype=torch.float64), dim=-1)


def _table(states: sf.States, executed: Executed) -> ClassTable:
    table = class_table(states, executed.order, executed.dtype)
    assert table is not None
    return table


def _holds(state: sf.States, order: int, dtype: torch.dtype = torch.float32) -> dict[str, float]:
    """The executed numbers of one state are within its bounds by sums, against Arb."""
    executed = execute(state, order, dtype)
    bounds, errors = bounds_of(summed_bounds(state, executed, _table(state, executed))), actual_errors(state, executed)
    for name, bound in bounds.items():
        assert errors[name] <= bound < math.inf, name
    return errors


def test_large_score_errors_grow_exponentially() -> None:
    """Two biases of 2^22 are off by a whole ulp, 0.5, in opposite directions: e - 1 is 1.7, and t_0 + t_1 is 1.5."""
    eye = torch.eye(64, dtype=torch.float64)
    bank = sf.ClassBank(torch.stack([eye[0], -eye[0]]), [100.0, 100.0], [2.0**22 + 7.2501, 2.0**22 + 0.2499])
    assert _holds(sf.States(bank, -0.32 * eye[:1], [0], 1.0), 6)["loss"] > 8.5e-4


def test_a_variance_that_is_all_rounding() -> None:
    """Two nearly equal classes: their variance cancels in float32, and score errors of 0.1 make it count."""
    g = torch.Generator().manual_seed(0)
    for size in torch.linspace(1e-4, 3e-4, 40, dtype=torch.float64).tolist():
        mean, side, feature = _normal(g, 3, 64)
        mu = torch.nn.functional.normalize(torch.stack([mean + size * side, mean - size * side]), dim=1)
        bank = sf.ClassBank(mu, [100.0, 100.0], [BIAS - 0.9998 * HALF, BIAS + 0.9998 * HALF])
        _holds(sf.States(bank, 0.01 * feature[None], [0], 1.0), 6)


@pytest.mark.parametrize("k", [1e8, 1e9])
def test_weights_that_underflow(k: float) -> None:
    """A weight of 1e-36 times a slope of 1e-9 is nothing, before it is multiplied by k."""
    g = torch.Generator().manual_seed(0)
    mu, f = _normal(g, 3, 6).split([2, 1])
    for gap in (75.0, 80.0, 83.0, 86.0):
        _holds(sf.States(sf.ClassBank(mu, [k, k * (1 + 1e-3)], [0.0, gap]), f, [1], 1.0), 4)


def _by_hand(states: sf.States, executed: Executed, t: float, a: float) -> ClassTable:
    """A table of an evaluation without any rounding, whose scores are off by t and whose ratios by a."""
    table = _table(states, executed)
    nothing = np.zeros_like(table.fixed)
    return dataclasses.replace(
        table,
        fixed=nothing + t,
        growing=nothing,
        b=nothing,
        z=nothing,
        slope_error=nothing,
        slope_size=nothing,
        t_max=t,
        a_max=a,
        longest=table.longest + a,
        widest=0.0,
        of_weight=0.0,
        of_total=0.0,
        of_sums=0.0,
        of_log=0.0,
        of_softmax=0.0,
    )


def _moved(states: sf.States, executed: Executed, e: Tensor, ratio_errors: Tensor) -> float:
    """|sum_j (P_j - pi_j) h_j|/tau for scores that are off by e, and h_j = hhat_j + an error along the feature."""
    q, bank = executed.scores[0].double(), states.bank
    change = torch.softmax(q - e, dim=0) - torch.softmax(q, dim=0)
    v = bank.concentrations[:, None] * bank.directions + states.features / states.temperature
    along = torch.nn.functional.normalize(states.features, dim=1)
    h = executed.slopes[0].double()[:, None] * v + ratio_errors[:, None] * along
    return (torch.linalg.vector_norm(change @ h) / states.temperature).item()


def test_ratio_errors_spread_class_gradients() -> None:
    """Equal class gradients have no variance; the exact ones may be a apart from them, in opposite directions."""
    mu = torch.eye(64, dtype=torch.float64)[:1]
    states = sf.States(sf.ClassBank(mu.repeat(2, 1), [40.0, 40.0]), 0.7 * mu, [0], 0.5)
    executed = execute(states, 6, torch.float64)
    t, a = 1e-3, 1e-3
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    actual = _moved(states, executed, t * signs, a * signs)
    assert 1e-6 < actual <= summed_bounds(states, executed, _by_hand(states, executed, t, a)).gradient.item()


@pytest.mark.parametrize("gap", [0.0, 2.0, 8.0])
def test_the_targets_own_score_error_moves_probability(gap: float) -> None:
    """Where the target has nearly all of the mass, its error is most of sum_j pi_j t_j^2."""
    mu = torch.eye(64, dtype=torch.float64)[:1]
    states = sf.States(sf.ClassBank(torch.cat([mu, -mu]), [40.0, 40.0], [gap, 0.0]), 1e-6 * mu, [0], 1.0)
    executed = execute(states, 6, torch.float64)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    actual = _moved(states, executed, 1e-3 * signs, 0 * signs)
    assert 0 < actual <= summed_bounds(states, executed, _by_hand(states, executed, 1e-3, 0.0)).gradient.item()


def test_sums_hold_for_the_exact_weights() -> None:
    """Executed weights of e^-20 are off by ten roundings: sum_j |w_j| t_j is raised by more than that."""
    g = torch.Generator().manual_seed(0)
    eye, t = torch.eye(16, dtype=torch.float64), 0.5
    below = 0
    for _ in range(40):
        biases = torch.tensor([0.3, -19.0], dtype=torch.float64) - torch.rand(2, generator=g, dtype=torch.float64)
        states = sf.States(sf.ClassBank(eye[:2], [1.0, 1.0], biases), 1e-20 * eye[:1], [0], 1.0)
        executed = execute(states, 2, torch.float32)
        other = torch.softmax(executed.scores[0].double(), dim=0)[1].item()
        table = _table(states, executed)
        plain = dataclasses.replace(
            table, fixed=np.full_like(table.fixed, t), growing=0 * table.growing, t_max=0.0, of_log=0.0
        )
        assert 2 * other * t <= summed_bounds(states, executed, plain).loss.item()
        below += other > executed.weights[0, 1].item() * (1 + 8 * unit_roundoff(torch.float32))
    assert below > 4


def test_what_is_no_number_has_no_bound() -> None:
    states = sf.States(sf.ClassBank(torch.eye(64)[:2], [10.0, 20.0]), torch.eye(64)[:1], [0], 1.0)
    executed = execute(states, 6, torch.float32)
    broken = dataclasses.replace(executed, gradient=executed.gradient * torch.nan, loss=executed.loss * torch.nan)
    found = summed_bounds(states, broken, _table(states, executed))
    assert found.loss.item() == found.gradient.item() == math.inf
