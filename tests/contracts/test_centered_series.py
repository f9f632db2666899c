"""The series of the centred bounds: they enclose the direct evaluation, of both families, wherever they say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import suffice as sf
import suffice.contracts.centered_series as module
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.centered import centered_in_logs
from suffice.contracts.centered_series import CenteredSeries, centered_series
from suffice.contracts.conditioned import conditioned_in_logs
from suffice.realizations.analytic import Analytic
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states
from tests.support.heads import random_head, stressed_head

NEEDS = sf.Needs.DISTANCES | sf.Needs.MATCHED_GAPS
NAMES = ("loss", "probability", "gradient")
# of the direct bounds, in their own roundings
ROUNDED = 1e-12


def _series(head: SoftmaxHead, unit: Allowances) -> CenteredSeries:
    series = centered_series(head, unit)
    assert series is not None
    return series


def _check(head: SoftmaxHead, unit: Allowances, size: float) -> int:
    """How many rows are near enough; in each, the bound before it is raised is inside."""
    series = _series(head, unit)
    largest = torch.maximum(unit.d.amax(dim=1), torch.as_tensor(0.0))
    for matched in (unit.to_target, unit.to_top):
        if matched is not None:
            largest = torch.maximum(largest, matched.amax(dim=1))
    b = size / largest.clamp_min(1e-300)
    good = torch.from_numpy(series.usable() & series.near(b.numpy(), 0.25))
    rows = (good & (head.slack < 1e-9)).nonzero().squeeze(1)
    if not len(rows):
        return 0
    direct = centered_in_logs(head[rows], unit.scaled(b)[rows])
    for name, found in zip(NAMES, series.enclosures(NAMES, b), strict=True):
        bound = getattr(direct, name) / (1 + head.slack[rows])
        assert (found.lower[rows] * (1 - ROUNDED) <= bound * (1 + head.slack[rows])).all(), (name, size)
        assert (bound * (1 - ROUNDED) <= found.upper[rows]).all(), (name, size)
    return len(rows)


def test_enclosures_contain_the_direct_bounds() -> None:
    checked = 0
    for states in [*many_states(140, queries=10), *(extreme_states(seed) for seed in range(30))]:
        realized = Analytic(sf.DebyePair()).at(states)
        for family in (realized.own(NEEDS), realized.unit(NEEDS)):
            for size in (1e-9, 1e-5, 1e-3, 1e-2, 0.05, 0.1, 0.12):
                checked += _check(realized.head(NEEDS), family, size)
    assert checked > 500


def test_every_term_is_needed_somewhere() -> None:
    """Heads without a geometry behind them, at allowances where the remainders are as large as they may be."""
    checked = 0
    for seed in range(40):
        head, unit = stressed_head(seed, (2, 3, 5, 40)[seed % 4])
        for size in (1e-4, 3e-3, 0.03, 0.1, 0.24):
            checked += _check(head, unit, size)
            # without matched gaps there is one vector
            checked += _check(head, replace(unit, to_target=None, to_top=None), size / 2)
    assert checked > 4000


def test_the_second_order_encloses_at_any_movement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Total variation to second order is used where it is narrow; its remainder is proved as far as the third's."""
    monkeypatch.setattr(module, "_STRAIGHT", 1.0)
    checked = 0
    for seed in range(40):
        head, unit = stressed_head(seed, (2, 3, 5, 40)[seed % 4])
        for size in (1e-4, 3e-3, 0.03, 0.1, 0.24):
            checked += _check(head, unit, size)
    assert checked > 2000


def test_rows_of_small_and_of_large_movements() -> None:
    """Each row has the order that its own movement asks for, whatever the rows beside it."""
    head, unit = stressed_head(7, 5)
    sizes = np.resize([1e-7, 0.2], len(head.gradient_scale))
    whole = _series(head, unit)
    for i in range(len(sizes)):
        rows = torch.tensor([i])
        alone = _series(head[rows], unit[rows])
        for upper in (False, True):
            found = whole.end("probability", sizes, upper=upper)[i]
            assert found == pytest.approx(alone.end("probability", sizes[i : i + 1], upper=upper)[0], rel=1e-13)


def test_the_ends_at_one() -> None:
    """Upper ends, within 1e-10 of the direct bounds, in rows of small movements; never said of any other row."""
    seen = 0
    for seed in range(40):
        head, given = stressed_head(seed, (2, 3, 5, 40)[seed % 4])
        log_pi = head.log_probabilities.clone()
        log_pi[0] = torch.log_softmax(20 * torch.eye(log_pi.shape[1], dtype=torch.float64)[head.target[0]], dim=0)
        head = replace(head, log_probabilities=log_pi)
        for size in (1e-70, 1e-9, 1e-6, 9e-5, 3e-2, 2.0):
            unit = given.scaled(torch.full_like(head.gradient_scale, size))
            found, narrow = _series(head, unit).at_one()
            # where one class has nearly all, where powers underflow, and where movements are large
            assert not bool(narrow[0])
            assert not (narrow & (unit.d.amax(dim=1) > 1e-4)).any()
            assert size > 1e-60 or not narrow.any()
            direct = centered_in_logs(head, unit)
            for name in NAMES:
                bound = getattr(direct, name)[narrow] / (1 + head.slack[narrow])
                assert (bound * (1 - ROUNDED) <= getattr(found, name)[narrow]).all(), name
                assert (getattr(found, name)[narrow] <= bound * (1 + 2e-10)).all(), name
            seen += int(narrow.sum())
    assert seen > 500


def test_enclosures_are_narrow() -> None:
    """At allowances of 1e-4 loss and gradient are known to 1e-10, of 1e-5 the probabilities to 1e-8."""
    head, unit = stressed_head(3, 40)
    series = _series(head, unit)
    usable = torch.from_numpy(series.usable())
    assert usable.sum() > 10
    for size, name, width in ((1e-4, "loss", 1e-10), (1e-4, "gradient", 1e-10), (1e-5, "probability", 1e-8)):
        (found,) = series.enclosures((name,), torch.full_like(head.gradient_scale, size))
        assert (found.upper <= found.lower * (1 + width))[usable].all()


def test_rows_that_are_not_for_series() -> None:
    """One class with nearly everything, probabilities that add up to less, allowances out of range, no distances."""
    made = random_head(0)
    head, given = made.head, made.allowances

    def usable(head: SoftmaxHead, unit: Allowances) -> bool:
        return bool(_series(head, unit).usable())

    assert usable(head, given)
    peaked = torch.log_softmax(torch.tensor([[9.0, 0.0, 0.0, 0.0]], dtype=torch.float64), dim=1)
    assert not usable(replace(head, log_probabilities=peaked), given)
    assert not usable(replace(head, log_probabilities=head.log_probabilities - 1e-5), given)
    one = torch.ones_like(head.gradient_scale)

    def narrow(head: SoftmaxHead, unit: Allowances) -> bool:
        return bool(_series(head, unit).at_one()[1])

    # far below 1e-4, and by the same rows
    small = given.scaled(1e-5 * one)
    assert narrow(head, small)
    assert not narrow(head, given.scaled(one / given.d.amax(dim=1)))
    assert not narrow(replace(head, log_probabilities=peaked), small)
    assert not narrow(replace(head, log_probabilities=head.log_probabilities - 1e-5), small)
    for factor in (1e-70, 1e70):
        assert not usable(head, given.scaled(factor * one))
    assert not usable(head, replace(given, d=0 * given.d))
    assert not usable(replace(head, distances=1e70 * head.log_probabilities.exp()), given)
    assert not _series(head, given).near(one.numpy(), 1e-9)
    # a movement of a class that hardly counts, and one towards the target or the top class alone
    rare = replace(head, log_probabilities=torch.tensor([[-0.7, -0.7, -9.0, -9.0]], dtype=torch.float64))
    far = replace(given, d=torch.tensor([[0.0, 0.0, 0.0, 1.0]], dtype=torch.float64))
    assert not _series(rare, far).near(one.numpy(), 0.25)
    for name in ("to_target", "to_top"):
        large = replace(given, d=torch.ones_like(given.d), **{name: torch.full_like(given.d, 2.0)})
        assert not _series(head, large).near(one.numpy(), 1.5)
    assert centered_series(replace(head, distances=None), given) is None
    tensors = ("log_probabilities", "gradient_scale", "distances")
    narrow = replace(head, **{name: getattr(head, name).float() for name in tensors})
    assert centered_series(narrow, Allowances(d=given.d.float(), a=given.a.float())) is None


def test_slopes_are_the_first_order() -> None:
    for seed in range(8):
        head, unit = stressed_head(seed, 5)
        series = _series(head, unit)
        b = torch.full_like(head.gradient_scale, 1e-7)
        for name, slope in series.slopes().items():
            (found,) = series.enclosures((name,), b)
            torch.testing.assert_close(torch.from_numpy(slope) * b, found.lower, rtol=1e-4, atol=1e-20)


def test_gaps_within_the_sums_are_taken_as_they_are() -> None:
    """The same numbers to the last bit, and the allowances are left alone."""
    for states in many_states(20, queries=10):
        realized = Analytic(sf.DebyePair()).at(states)
        for family in (realized.own(NEEDS), realized.unit(NEEDS)):
            assert family.within
            assert family.to_target is not None
            assert family.to_top is not None
            before = family.to_target.clone(), family.to_top.clone()
            ours, theirs = (_series(realized.head(NEEDS), each) for each in (family, replace(family, within=False)))
            (found, rows), (expected, others) = ours.at_one(), theirs.at_one()
            assert torch.equal(rows, others)
            for name in (*NAMES, "margin_use"):
                assert torch.equal(getattr(found, name), getattr(expected, name))
            assert torch.equal(family.to_target, before[0])
            assert torch.equal(family.to_top, before[1])


def _far(seed: int) -> tuple[SoftmaxHead, Allowances]:
    """Some with distances that are larger than what the paper takes for them."""
    head, unit = stressed_head(seed, (2, 3, 5, 40)[seed % 4])
    assert head.distances is not None
    return (replace(head, distances=30 * head.distances) if seed % 3 == 0 else head), unit


def _of_all(series: CenteredSeries, name: str, b: np.ndarray, *, upper: bool) -> np.ndarray:
    """The smallest end of all bounds."""
    if name != "gradient":
        return series.end(name, b, upper=upper)
    return np.minimum(series._paper(b, upper=upper), series._centered(b, upper=upper)) * series.scale


@module.quiet
def test_the_nearer_vector_is_the_smaller_one() -> None:
    """Without a doubt, and both are looked at where there is one: bounds are those of both vectors (6.13g)."""
    one = both = 0
    for seed in range(24):
        heads, units = _far(seed)
        for row in range(len(heads.gradient_scale)):
            at = torch.tensor([row])
            for size in (1e-6, 1e-3, 0.1):
                found, wanted = _series(heads[at], units[at]), _series(heads[at], units[at])
                b = size / found._largest
                if not (found.usable() & found.near(b, 0.25)).all():
                    continue
                wanted._both, wanted._stacked = True, module._Stacked(wanted.vectors, wanted.total, wanted.ratio)
                wanted._deviating = lambda _, vectors=wanted.vectors: vectors  # type: ignore[method-assign]
                for name in NAMES:
                    low, high = (_of_all(wanted, name, b, upper=upper) for upper in (False, True))
                    assert found.end(name, b, upper=True) == pytest.approx(high, rel=1e-15), (seed, row, size, name)
                    # the smallest of all lower ends may be that of a bound which is not the smallest
                    assert found.end(name, b, upper=False) >= low * (1 - 1e-15)
                one, both = one + (not found._both), both + found._both
    assert min(one, both) > 100


def _direct(head: SoftmaxHead, unit: Allowances, v: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The centred gradient bound of one vector (6.5), class by class."""
    assert unit.to_target is not None
    assert head.distances is not None
    pi, v = head.log_probabilities.exp(), b[:, None] * v
    up, down = pi * torch.exp(v), pi * torch.exp(-v)
    u = up / (up + (down.sum(dim=1, keepdim=True) - down))
    is_y = torch.nn.functional.one_hot(head.target, pi.shape[1]).bool()
    size = (pi * torch.expm1(b[:, None] * unit.to_target)).masked_fill(is_y, 0).sum(dim=1)
    mass = pi.masked_fill(is_y, 0).sum(dim=1)
    away = (size + mass) / (1 + size)
    a = unit.a.masked_fill(is_y, 0)
    ratios = torch.minimum((u * a).sum(dim=1), away * a.amax(dim=1)) + away * unit.a[is_y]
    return (pi * head.distances * torch.expm1(v)).sum(dim=1) / down.sum(dim=1) + b * ratios


@module.quiet
def test_movements_without_a_doubt() -> None:
    """Just below a threshold the bounds of both vectors, or the paper's and theirs, stand in the order that it says."""
    seen = {"vectors": 0, "paper": 0}
    for seed in range(60):
        head, unit = _far(seed)
        series = _series(head, unit)
        for name, limit in (("vectors", series._without_doubt), ("paper", series._without_paper)):
            b = torch.from_numpy(np.minimum(limit, 0.25) * (1 - 1e-9) / series._largest)
            rows = series.usable() & (limit > 1e-12)
            assert unit.to_top is not None
            top = torch.nn.functional.one_hot(head.top, unit.d.shape[1]).bool()
            to_top = torch.minimum(unit.to_top, unit.d + unit.d[top][:, None]).masked_fill(top, 0)
            own, other = (_direct(head, unit, v, b).numpy() for v in (unit.d, to_top))
            second = series._firsts[1] < series._firsts[0]
            smaller, larger = np.where(second, other, own), np.where(second, own, other)
            if name == "paper":
                larger = (conditioned_in_logs(head, unit.scaled(b)).gradient / head.gradient_scale).numpy()
            assert (smaller <= larger * (1 + 1e-12))[rows].all(), (seed, name)
            seen[name] += int(rows.sum())
    assert min(seen.values()) > 300


def test_what_a_total_variation_is_magnified_by() -> None:
    """Twice the longest class gradient, and the scale: budgets are held against that before they are inverted."""
    states = next(iter(many_states(7, queries=3)))
    realized = Analytic(sf.DebyePair()).at(states)
    head, unit = realized.head(NEEDS), realized.unit(NEEDS)
    scale = head.gradient_scale.numpy()
    assert np.array_equal(_series(replace(head, h_bound=2.0**150), unit).magnified(), 2.0**151 * scale)
    assert np.array_equal(_series(replace(head, h_bound=0.25), unit).magnified(), scale)
