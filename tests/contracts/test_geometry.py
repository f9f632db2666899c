"""The geometry-only contract: no corner of the error box breaks it, some reach it, and probabilities do not matter."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

import suffice as sf
from tests.support.heads import actual_changes, corner_errors, random_head

NAMES = ("loss", "probability", "gradient")


@pytest.mark.parametrize("seed", range(12))
def test_no_corner_breaks_it(seed: int) -> None:
    made = random_head(seed)
    bounds = sf.geometry_bounds(made.head, made.allowances)
    generator = torch.Generator().manual_seed(seed)
    for e in corner_errors(made.allowances.d):
        moved = normalize(torch.randn(4, 6, generator=generator, dtype=torch.float64), dim=1)
        actual = actual_changes(made, e, made.allowances.a[0][:, None] * moved)
        assert all(actual[name] <= getattr(bounds, name).item() * (1 + 1e-12) + 1e-15 for name in NAMES)


def _two(p: float, d: float) -> tuple[sf.SoftmaxHead, sf.Allowances]:
    log_pi = torch.tensor([[math.log(p), math.log1p(-p)]], dtype=torch.float64)
    head = sf.SoftmaxHead(
        log_probabilities=log_pi, target=torch.tensor([0]), gradient_scale=torch.ones(1, dtype=torch.float64)
    )
    return head, sf.Allowances(d=torch.full_like(log_pi, d), a=torch.zeros_like(log_pi))


def test_what_it_says_is_reached() -> None:
    """Two classes, errors +d and -d: log-odds of -d become +d, and the probability moves by tanh(d/2)."""
    d = 0.7
    head, allowances = _two(1 / (1 + math.exp(d)), d)
    bounds = sf.geometry_bounds(head, allowances)
    exact = 1 / (1 + math.exp(-d))
    assert bounds.probability.item() == pytest.approx(exact - 1 / (1 + math.exp(d)), rel=1e-10)
    assert bounds.loss.item() == pytest.approx(2 * d, rel=1e-10)
    # with nearly all mass elsewhere the loss does move by nearly 2d
    rare, _ = _two(1e-9, d)
    moved = rare.log_probabilities[0] + torch.tensor([-d, d], dtype=torch.float64)
    assert (moved.logsumexp(dim=0) - moved[0] + rare.log_probabilities[0, 0]).item() == pytest.approx(2 * d, rel=1e-6)


def test_only_the_largest_allowances_matter() -> None:
    made = random_head(1)
    bounds = sf.geometry_bounds(made.head, made.allowances)
    other = replace(made.head, log_probabilities=made.head.log_probabilities.flip(1), distances=None)
    again = sf.geometry_bounds(other, made.allowances)
    assert all(torch.equal(getattr(bounds, name), getattr(again, name)) for name in NAMES)
    halved = replace(made.head, gradient_scale=made.head.gradient_scale / 2)
    assert sf.geometry_bounds(halved, made.allowances).gradient.item() == pytest.approx(bounds.gradient.item() / 2)


def test_no_two_distributions_are_further_apart_than_one() -> None:
    head, allowances = _two(0.5, 1e3)
    assert sf.geometry_bounds(head, allowances).probability.item() == 1.0


def test_the_margin_is_strict() -> None:
    head, _ = _two(1 / (1 + math.exp(-1.0)), 0.0)
    for d, holds in ((0.499, True), (0.501, False)):
        _, allowances = _two(0.5, d)
        assert sf.geometry_bounds(head, allowances).prediction.item() is holds
