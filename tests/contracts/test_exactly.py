"""The contracts in float64 are never below the same contracts in exact arithmetic, and hardly above."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import CENTERED, centered_bounds, centered_in_logs
from suffice.contracts.centered_series import centered_series
from suffice.contracts.conditioned import CONDITIONED, conditioned_bounds, conditioned_in_logs
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.geometry import geometry_bounds
from suffice.verify import contracts as independent


def _at_one(head: SoftmaxHead, given: Allowances) -> Bounds:
    """What a certificate asks: by series, where these are narrow."""
    return SoftmaxFamily(contract=CENTERED, head=head, unit=given).at_one()


def _along(contract: Contract) -> Callable[[SoftmaxHead, Allowances], Bounds]:
    """At a multiple that is exact, of a part."""

    def bounds(head: SoftmaxHead, given: Allowances) -> Bounds:
        matched = {name: getattr(given, name) for name in ("to_target", "to_top")}
        parts = {name: None if each is None else each / 64 for name, each in matched.items()}
        part = Allowances(d=given.d / 64, a=given.a / 64, **parts)
        return SoftmaxFamily(contract=contract, head=head, unit=part).at(torch.full_like(head.gradient_scale, 64.0))

    return bounds


CONTRACTS: dict[str, Callable[[SoftmaxHead, Allowances], Bounds]] = {
    "geometry": geometry_bounds,
    "conditioned": conditioned_bounds,
    "conditioned in logs": conditioned_in_logs,
    "centered": centered_bounds,
    "centered in logs": centered_in_logs,
    "conditioned along a family": _along(CONDITIONED),
    "centered along a family": _along(CENTERED),
    "centered at one": _at_one,
}
NAMES = ("loss", "probability", "gradient")
TINY = torch.finfo(torch.float64).tiny


def _heads(seed: int, count: int = 12) -> tuple[SoftmaxHead, Allowances]:
    """Probabilities down to 1e-600, allowances and scales over many magnitudes, ties and equal allowances."""
    g = torch.Generator().manual_seed(seed)
    classes = (2, 2, 3, 8)[seed % 4]

    def uniform(low: float, high: float, *size: int) -> Tensor:
        return low + (high - low) * torch.rand(*size, generator=g, dtype=torch.float64)

    scores = uniform(-1, 1, count, classes) * 10 ** uniform(-2, (0.5, 1.5, 2.8)[seed % 3], count, 1)
    d = 10 ** uniform(-12, 0.5, count, 1) * uniform(0, 1, count, classes)
    a = 10 ** uniform(-12, 3, count, 1) * uniform(0, 1, count, classes)
    target = torch.randint(0, classes, (count,), generator=g)
    shifted = scores - scores.amax(dim=1, keepdim=True)
    log_pi = shifted - shifted.logsumexp(dim=1, keepdim=True)
    top = log_pi.argmax(dim=1)

    def pairwise(index: Tensor) -> Tensor:
        each = (d + d.gather(1, index[:, None])) * uniform(0.05, 1, count, classes)
        return each.scatter(1, index[:, None], 0.0)

    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=target,
        gradient_scale=10 ** uniform(-3, 3, count),
        distances=uniform(0, 2, count, classes) * 10 ** uniform(-3, 0, count, 1),
    )
    return head, Allowances(d=d, a=a, to_target=pairwise(target), to_top=pairwise(top))


def _exactly(name: str, head: SoftmaxHead, given: Allowances, row: int, factor: float = 1.0) -> dict[str, arb]:
    """By the checker's own evaluation, in Arb, at a multiple of the allowances; probabilities are the given ones over
    their exact sum."""

    def balls(values: Tensor | None) -> list[arb]:
        assert values is not None
        return [arb(x) for x in values[row].tolist()]

    def grown(values: Tensor | None) -> list[arb]:
        return [arb(factor) * x for x in balls(values)]

    with ctx.workprec(400):
        log_pi = balls(head.log_probabilities)
        weights = [x.exp() for x in log_pi]
        total = sum(weights, arb(0))
        pi = [w / total for w in weights]
        top = independent.top_class(log_pi)
        return independent.contract_bounds(
            name.split()[0],
            independent.Head(
                pi=pi,
                others=independent.others_of(pi),
                below=[log_pi[top] - x for x in log_pi],
                target=int(head.target[row]),
                top=top,
                tau=1 / arb(head.gradient_scale[row].item()),
            ),
            independent.Allowances(
                d=grown(given.d),
                a=grown(given.a),
                to_target=grown(given.to_target),
                to_top=grown(given.to_top),
                distances=balls(head.distances),
            ),
            arb(1),
            arb(0),
        )


@pytest.mark.parametrize("name", CONTRACTS)
def test_never_below_and_hardly_above(name: str) -> None:
    for seed in range(24):
        head, given = _heads(seed)
        found = CONTRACTS[name](head, given)
        for row in range(len(head.target)):
            exact = _exactly(name, head, given, row)
            for quantity in NAMES:
                bound = getattr(found, quantity)[row].item()
                with ctx.workprec(400):
                    assert exact[quantity] <= arb(bound), (seed, row, quantity)
                    # upper ends of series are within 1e-10 (docs/theory, 6.13e)
                    near = 1.2e-10 if name == "centered at one" else 1e-11
                    assert arb(bound) <= exact[quantity].max(arb(TINY)) * (1 + near), (seed, row, quantity)
            with ctx.workprec(400):
                # what is used of the margin, of which two roundings are in the gaps themselves
                assert exact["prediction"] * (1 - 1e-12) <= arb(found.margin_use[row].item())


def test_series_enclose_what_is_exact() -> None:
    """To some roundings of their own, far below the three slacks that they are raised by."""
    checked = 0
    for seed in range(12):
        head, given = _heads(seed)
        if seed % 3 == 0:
            # equal movements of many classes: there the orders that are left out are the largest
            even = torch.full_like(given.d, 0.1)
            log_pi = torch.full_like(given.d, -math.log(even.shape[1]))
            head, given = replace(head, log_probabilities=log_pi), replace(given, d=even, to_target=2 * even)
            given = replace(given, to_top=even.scatter(1, torch.zeros_like(head.target)[:, None], 0.0))
        series = centered_series(head, given)
        assert series is not None
        for size in (1e-7, 1.99e-6, 2.01e-6, 1e-4, 1e-2, 0.24):
            b = (size / torch.stack([given.d, given.to_target, given.to_top]).amax(dim=(0, 2))).numpy()
            ends = {name: [series.end(name, b, upper=upper) for upper in (False, True)] for name in NAMES}
            for row in series.usable().nonzero()[0].tolist()[:4]:
                exact = _exactly("centered", head, given, row, b[row])
                for name, (lower, upper) in ends.items():
                    with ctx.workprec(400):
                        assert arb(lower[row]) * (1 - 1e-13) <= exact[name], (seed, row, name, size)
                        assert exact[name] <= arb(upper[row]) * (1 + 1e-13), (seed, row, name, size)
                    checked += 1
    assert checked > 300


def _values(bounds: Bounds) -> Tensor:
    return torch.stack([getattr(bounds, name) for name in NAMES])


@pytest.mark.parametrize("name", CONTRACTS)
def test_probabilities_that_are_known_to_a_factor(name: str) -> None:
    """With log-probabilities within eps, the bound at any of them is within the bound that knows eps."""
    g = torch.Generator().manual_seed(0)
    most = 0.0
    for seed in range(12):
        head, given = _heads(seed)
        # the differences to the top class are about another top class if that changes
        given = Allowances(d=given.d, a=given.a, to_target=given.to_target)
        for eps in (1e-6, 1e-2, 0.3):
            wide = _values(CONTRACTS[name](replace(head, log_error=torch.full_like(head.gradient_scale, eps)), given))
            plain = _values(CONTRACTS[name](head, given))
            for _ in range(4):
                signs = eps * ((torch.rand(given.d.shape, generator=g) < 0.5).double() - 0.5)
                moved = head.log_probabilities + signs
                moved = moved - moved.logsumexp(dim=1, keepdim=True)
                assert (moved - head.log_probabilities).abs().max() <= eps + 1e-12
                at = _values(CONTRACTS[name](replace(head, log_probabilities=moved), given))
                assert (at <= wide * (1 + 1e-11)).all()
                most = max(most, ((at / plain).log() / eps).max().item())
    # it matters, but for the contract that does not look at probabilities
    assert (most > 0.9) == (name != "geometry")


@pytest.mark.parametrize("name", CONTRACTS)
def test_what_underflows_is_raised_before_it_is_scaled(name: str) -> None:
    """Probabilities of 1e-330 times allowances of 1e300, and deviations of 1e-330 over a temperature of 1e-290."""
    log_pi = torch.tensor([[-1e-300, -760.0, -761.0]], dtype=torch.float64)
    ones = torch.ones(1, 3, dtype=torch.float64)
    for a, scale, d in ((1e300, 1.0, 1e-3), (1e-3, 1e290, 1.0), (1e-3, 1e-3, 1.0)):
        head = SoftmaxHead(
            log_probabilities=log_pi,
            target=torch.tensor([0]),
            gradient_scale=torch.tensor([scale], dtype=torch.float64),
            distances=ones,
        )
        movement = 2 * d * torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64)
        given = Allowances(d=d * ones, a=a * ones, to_target=movement, to_top=movement)
        found, exact = CONTRACTS[name](head, given), _exactly(name, head, given, 0)
        with ctx.workprec(400):
            for quantity in NAMES:
                assert exact[quantity] <= arb(getattr(found, quantity).item())
            assert exact["gradient"].max(arb(TINY)) * 1.001 > arb(found.gradient.item())


def test_a_factor_that_underflows_is_raised() -> None:
    """1e-200 times 1e-200 is not zero."""
    small = torch.full((1, 2), 1e-200, dtype=torch.float64)
    found = Allowances(d=small, a=small, to_target=small, to_top=small).scaled(small[:, 0])
    assert found.to_target is not None
    assert found.to_top is not None
    for values in (found.d, found.a, found.to_target, found.to_top):
        assert (values == TINY).all()
    assert (Allowances(d=small, a=0 * small).scaled(0 * small[:, 0]).d == 0).all()
    assert (Allowances(d=small, a=0 * small).scaled(small[:, 0]).a == 0).all()


@pytest.mark.parametrize("name", CONTRACTS)
def test_nothing_is_finite_where_nothing_is_known(name: str) -> None:
    head, given = _heads(3)
    unknown = replace(head, log_error=torch.full_like(head.gradient_scale, math.inf))
    for allowances in (given, given.scaled(torch.zeros_like(head.gradient_scale))):
        found = CONTRACTS[name](unknown, allowances)
        assert torch.isinf(_values(found)).all()
        assert not found.prediction.any()
    # a factor that is large but known leaves what holds for every softmax
    found = CONTRACTS[name](replace(head, log_error=torch.full_like(head.gradient_scale, 1e3)), given)
    assert torch.isfinite(_values(found)).all()
