"""The centred contract by groups: never below the contract itself, close to it, and nothing past its domain."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds
from suffice.contracts.grouped import LARGEST_DIFFERENCE, Grouped, GroupedFamily, Groups, Singles
from suffice.numerics.softmax import at_class
from suffice.tolerances.invert import invert_directly

NAMES = ("loss", "probability", "gradient", "margin_use", "kl")
ROWS, CLASSES, SINGLE, SIZE = 16, 46, 6, 8


def made(seed: int, spread: float, peaked: float = 3.0) -> tuple[SoftmaxHead, Allowances, Grouped]:
    """A head with all of its classes, and the same by groups of eight beside the six most probable classes."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    log_pi = torch.log_softmax(peaked * torch.randn(ROWS, CLASSES, generator=g, dtype=torch.float64), dim=1)
    log_pi = log_pi.sort(dim=1, descending=True).values
    d = 0.3 * uniform(ROWS, 1) * (1 + spread * uniform(ROWS, CLASSES))
    d[::3, SINGLE + SIZE :] *= 0.2
    a, rho = 0.4 * (1 + spread * uniform(ROWS, CLASSES)), 0.1 + uniform(ROWS, CLASSES)
    target = torch.randint(0, SINGLE, (ROWS,), generator=g)
    scale = 0.5 + uniform(ROWS)
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=target,
        gradient_scale=scale,
        h_bound=1.5,
        distances=rho,
        log_error=torch.full((ROWS,), 1e-14, dtype=torch.float64),
        divergence=True,
    )
    return head, Allowances(d=d, a=a), grouped_of(head, Allowances(d=d, a=a))


def grouped_of(head: SoftmaxHead, allowances: Allowances) -> Grouped:
    assert head.distances is not None
    assert head.log_error is not None
    pi, d, a = head.log_probabilities.exp(), allowances.d, allowances.a
    gap = head.log_probabilities[:, :1] - head.log_probabilities - 2 * head.log_error[:, None]
    gap[:, 0] = torch.inf

    def by_group(x: Tensor) -> Tensor:
        return x[:, SINGLE:].unflatten(1, (-1, SIZE))

    mass, low, high = by_group(pi).sum(2), by_group(d).amin(2), by_group(d).amax(2)
    far = by_group(pi * head.distances).sum(2)
    # from the least on, as a difference of means would lose a class of little mass
    past = by_group(d) - low[:, :, None]
    moved, far_moved = (by_group(pi) * past).sum(2), (by_group(pi * head.distances) * past).sum(2)
    mean = torch.minimum(low + moved / mass, high)
    span = (high - low).clamp_min(1e-300)
    groups = Groups(
        pi=mass,
        low=low,
        high=high,
        mean=mean,
        share=(moved / mass / span).clamp(0, 1),
        far=far,
        far_share=(far_moved / far / span).clamp(0, 1),
        a=by_group(a).amax(2),
        gap=by_group(gap).amin(2),
    )
    singles = Singles(
        pi=pi[:, :SINGLE], d=d[:, :SINGLE], a=a[:, :SINGLE], distance=head.distances[:, :SINGLE], gap=gap[:, :SINGLE]
    )
    return Grouped(
        singles=singles,
        groups=groups,
        target=head.target,
        top=torch.zeros_like(head.target),
        gradient_scale=head.gradient_scale,
        slack=head.slack,
        largest=d.amax(dim=1),
        largest_ratio=float(a.max()),
        farthest=head.distances.amax(dim=1),
        h_bound=head.h_bound,
        roundings=head.roundings,
        divergence=True,
    )


@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("seed", range(12))
def test_never_below_the_contract(seed: int, spread: float) -> None:
    head, allowances, grouped = made(seed, spread, peaked=1.0 + seed)
    for b in (1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0, 100.0):
        factor = torch.full((ROWS,), b, dtype=torch.float64)
        direct, by_group = centered_bounds(head, allowances.scaled(factor)), grouped.bounds(factor)
        assert (torch.isfinite(by_group.loss) | (2 * b * grouped.largest > LARGEST_DIFFERENCE)).all()
        for name in NAMES:
            ours, theirs = getattr(by_group, name), getattr(direct, name)
            assert (ours >= theirs * (1 - 1e-13)).all(), (name, b)


@pytest.mark.parametrize("b", [0.1, 1.0, 3.0])
def test_never_below_where_groups_are_nearly_everything(b: float) -> None:
    """Singles that hardly move and hardly count, and ratio errors that are the groups' alone."""
    head, _, _ = made(2, 0.0, peaked=0.0)
    g = torch.Generator().manual_seed(5)
    d = 0.5 + torch.rand(ROWS, CLASSES, generator=g, dtype=torch.float64)
    d[:, :SINGLE] *= 1e-3
    a, far = torch.full_like(d, 1e-6), torch.full_like(d, 1e-9)
    # the largest of one class only: what counts for each class is smaller than that for all
    a[:, -1], a[::2, :SINGLE] = 1e3, 1e-9
    log_pi = torch.log_softmax(torch.where(torch.arange(CLASSES) == CLASSES - 1, -30.0, head.log_probabilities), dim=1)
    head, factor = replace(head, distances=far, log_probabilities=log_pi), torch.full((ROWS,), b, dtype=torch.float64)
    allowances = Allowances(d=d, a=a)
    direct, by_group = centered_bounds(head, allowances.scaled(factor)), grouped_of(head, allowances).bounds(factor)
    for name in NAMES:
        assert (getattr(by_group, name) >= getattr(direct, name) * (1 - 1e-13)).all(), name


def test_what_is_left_of_a_mass_keeps_its_digits() -> None:
    """e^-v past a movement of 1, on which everything stands where groups have nearly all that is left."""
    head, _, _ = made(2, 0.0, peaked=0.0)
    d = torch.full((ROWS, CLASSES), 40.0, dtype=torch.float64)
    d[:, SINGLE:] = torch.linspace(5.0, 37.0, ROWS, dtype=torch.float64)[:, None]
    head = replace(head, distances=torch.full_like(d, 1e-40))
    allowances, one = Allowances(d=d, a=torch.zeros_like(d)), torch.ones(ROWS, dtype=torch.float64)
    direct, by_group = centered_bounds(head, allowances), grouped_of(head, allowances).bounds(one)
    assert (direct.gradient < 1e-6).all()
    for name in NAMES:
        assert (getattr(by_group, name) >= getattr(direct, name) * (1 - 1e-13)).all(), name


def test_close_to_the_contract_where_groups_are_narrow() -> None:
    worst = dict.fromkeys(NAMES, 0.0)
    for seed in range(12):
        head, allowances, grouped = made(seed, 0.05)
        for b in (1e-3, 0.1, 1.0):
            factor = torch.full((ROWS,), b, dtype=torch.float64)
            direct, by_group = centered_bounds(head, allowances.scaled(factor)), grouped.bounds(factor)
            for name in NAMES:
                worst[name] = max(worst[name], float((getattr(by_group, name) / getattr(direct, name)).max()) - 1)
    assert worst["loss"] < 1e-3
    # classes of a group are not taken out of their own sums: they have a few percent of the mass each
    assert worst["probability"] < 0.1
    assert worst["gradient"] < 0.05
    assert worst["margin_use"] < 0.1
    assert worst["kl"] < 0.05


def test_attained_errors_are_within_the_bounds() -> None:
    """Scores moved by their whole allowances, up and down: the truth, class by class."""
    g = torch.Generator().manual_seed(1)
    nearest = 0.0
    for seed in range(20):
        head, allowances, grouped = made(seed, 1.0)
        one = grouped.bounds(torch.ones(ROWS, dtype=torch.float64))
        for _ in range(40):
            signs = torch.randint(0, 2, (ROWS, CLASSES), generator=g) * 2.0 - 1
            exact = torch.log_softmax(head.log_probabilities + signs * allowances.d, dim=1)
            loss = at_class(exact - head.log_probabilities, head.target).abs()
            tv = (exact.exp() - head.log_probabilities.exp()).abs().sum(dim=1) / 2
            kl = (exact.exp() * (exact - head.log_probabilities)).sum(dim=1)
            assert (loss <= one.loss).all()
            assert (tv <= one.probability).all()
            assert one.kl is not None
            assert (kl <= one.kl).all()
            assert ((exact.argmax(dim=1) == 0) | ~one.prediction).all()
            nearest = max(nearest, float((loss / one.loss).max()))
    assert nearest > 0.5


def test_zero_at_zero_and_nothing_past_the_domain() -> None:
    _, _, grouped = made(3, 0.5)
    at_zero = grouped.bounds(torch.zeros(ROWS, dtype=torch.float64))
    for name in NAMES:
        assert (getattr(at_zero, name) == 0).all()
    past = grouped.bounds(1.001 * LARGEST_DIFFERENCE / (2 * grouped.largest))
    for name in NAMES:
        assert torch.isinf(getattr(past, name)).all()


def test_a_tie_is_no_prediction_at_any_b() -> None:
    head, allowances, _ = made(4, 0.5)
    log_pi = head.log_probabilities.clone()
    log_pi[:, 1] = log_pi[:, 0]
    log_pi = torch.log_softmax(log_pi, dim=1)
    tied = grouped_of(SoftmaxHead(**{**_fields(head), "log_probabilities": log_pi}), allowances)
    for b in (0.0, 1e-9, 1.0):
        assert not tied.bounds(torch.full((ROWS,), b, dtype=torch.float64)).prediction.any()


def test_what_underflows_is_not_nothing() -> None:
    head, allowances, _ = made(5, 0.5)
    tiny = Allowances(d=allowances.d * 1e-305, a=allowances.a * 1e-305)
    bounds = grouped_of(head, tiny).bounds(torch.ones(ROWS, dtype=torch.float64))
    for name in ("loss", "probability", "gradient", "kl"):
        assert (getattr(bounds, name) > 0).all()


def test_the_family_inverts_to_an_end_that_is_accepted() -> None:
    _, _, grouped = made(6, 0.5)
    budgets = Budgets(loss=0.02, probability=0.01, gradient=0.05, kl=1e-3, prediction=True)
    family = GroupedFamily(grouped=grouped)
    found = invert_directly(family, budgets)
    assert (found.accepted > 0).all()
    assert torch.isfinite(found.rejected).all()
    assert (found.rejected <= found.accepted * (1 + 1e-9)).all()
    assert (torch.stack(list(budgets.shares(family.at(found.accepted)).values())) <= 1).all()
    assert (torch.stack(list(budgets.shares(family.at(found.rejected)).values())) > 1).any(dim=0).all()


def test_some_rows_are_those_rows() -> None:
    _, _, grouped = made(7, 0.5)
    rows = torch.tensor([5, 0, 3])
    one = torch.ones(ROWS, dtype=torch.float64)
    whole: Bounds = grouped.bounds(one)[rows]
    part = GroupedFamily(grouped=grouped)[rows].at(one[:3])
    for name in NAMES:
        assert torch.allclose(getattr(whole, name), getattr(part, name), rtol=1e-13)


def _fields(head: SoftmaxHead) -> dict[str, object]:
    return {name: getattr(head, name) for name in head.__dataclass_fields__}


def test_a_divisor_keeps_its_digits_where_nothing_is_left() -> None:
    """e^-35 is no whole number of last places of 1: a difference from 1 would be a twentieth too large."""
    head, _, _ = made(0, 0.0, peaked=0.1)
    head = replace(head, distances=torch.full_like(head.log_probabilities, 1e-33))
    wide = torch.full_like(head.log_probabilities, 35.0)
    allowances = Allowances(d=wide, a=torch.zeros_like(wide))
    one = torch.ones(ROWS, dtype=torch.float64)
    ours, theirs = grouped_of(head, allowances).bounds(one), centered_bounds(head, allowances)
    assert (theirs.gradient < 0.1).all()
    assert (ours.gradient >= theirs.gradient * (1 - 1e-9)).all()
