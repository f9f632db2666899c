"""Plain arithmetic agrees with the log domain to both slacks, is never below it, and knows where it may be used."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds, centered_in_logs
from suffice.contracts.conditioned import conditioned_bounds, conditioned_in_logs
from suffice.contracts.plain import LARGEST_MOVEMENT, in_plain_arithmetic, plain_bounds
from suffice.numerics.softmax import exclusive
from suffice.realizations.analytic import Analytic
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states

NEEDS = sf.Needs.DISTANCES | sf.Needs.MATCHED_GAPS
IN_LOGS = {False: conditioned_in_logs, True: centered_in_logs}
NAMES = ("loss", "probability", "gradient", "margin_use")


def _of(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def _head(*scores: float, distances: float = 1.0) -> SoftmaxHead:
    log_pi = torch.log_softmax(_of(*scores), dim=1)
    return SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.tensor([0]),
        gradient_scale=torch.ones(1, dtype=torch.float64),
        distances=torch.full_like(log_pi, distances),
    )


def _even(size: float, classes: int = 3, a: float | None = None) -> Allowances:
    d = torch.full((1, classes), size, dtype=torch.float64)
    return Allowances(d=d, a=torch.full_like(d, size if a is None else a))


def test_both_evaluators_agree_to_their_slacks() -> None:
    """Random and adversarial states, both families, allowances from 1e-12 to past the domain."""
    total = inside_total = 0
    states = [*many_states(140, queries=10), *(extreme_states(seed) for seed in range(40))]
    for each in states:
        realized = Analytic(sf.DebyePair()).at(each)
        head = realized.head(NEEDS)
        for family in (realized.own(NEEDS), realized.unit(NEEDS)):
            largest = family.d.amax(dim=1).clamp_min(1e-300)
            for size in (1e-12, 1e-6, 1e-2, 0.45, 1.2, 12.0, 40.0):
                given = family.scaled(size / largest)
                for centered, in_logs in IN_LOGS.items():
                    found, inside = plain_bounds(head, given, centered=centered)
                    total, inside_total = total + len(inside), inside_total + int(inside.sum())
                    if not bool(inside.any()):
                        continue
                    reference = in_logs(head, given)
                    for name in NAMES:
                        plain, logs = getattr(found, name)[inside], getattr(reference, name)[inside]
                        assert (plain >= logs).all(), name
                        assert (plain <= logs * (1 + 1.5 * head.roundings)).all(), name
    assert 0.5 * total < inside_total < total


def test_rows_outside_of_the_domain_are_not_inside() -> None:
    """Movements, allowances, distances and |h| that are too large; bounds that are too small; nothing known."""
    head = _head(0.0, 0.1, 0.2)

    def inside(head: SoftmaxHead, given: Allowances) -> bool:
        return bool(plain_bounds(head, given, centered=True)[1])

    assert inside(head, _even(0.1))
    assert inside(head, _even(LARGEST_MOVEMENT / 2))
    assert not inside(head, _even(LARGEST_MOVEMENT / 2 * 1.001))
    assert not inside(head, replace(_even(0.1), d=_of(0.1, math.nan, 0.1)))
    assert not inside(head, replace(_even(0.1), d=_of(0.1, math.inf, 0.1)))
    assert not inside(head, _even(0.1, a=1e101))
    assert not inside(_head(0.0, 0.1, 0.2, distances=1e101), _even(0.1))
    assert not inside(replace(head, h_bound=1e101), _even(0.1))
    assert not inside(head, _even(0.0))
    assert not inside(head, _even(1e-201))
    # the target has all but 1e-217 of the mass
    assert not inside(_head(500.0, 0.0, 0.0), _even(0.1))
    assert inside(_head(400.0, 0.0, 0.0), _even(0.1))
    # a gradient of 1e-174 is large enough, and is not beside an allowance of 1e60 for a class that has underflowed
    assert inside(_head(400.0, 0.0, -400.0), _even(0.1))
    assert not inside(_head(400.0, 0.0, -400.0), replace(_even(0.1), a=_of(0.1, 0.1, 1e60)))
    assert not inside(replace(head, log_error=_of(math.inf)[0]), _even(0.1))


def test_a_row_does_not_depend_on_the_others() -> None:
    """One with movements past 1 beside it, and one that is outside: the same to the last bit."""
    heads = [_head(0.3, 0.1, -2.0), _head(1.0, 0.1, 0.2), _head(600.0, 0.0, 1.0)]
    given = [_even(0.2), _even(9.0), _even(0.1)]
    head = replace(
        heads[0],
        log_probabilities=torch.cat([each.log_probabilities for each in heads]),
        target=torch.zeros(3, dtype=torch.long),
        gradient_scale=torch.ones(3, dtype=torch.float64),
        distances=torch.ones(3, 3, dtype=torch.float64),
    )
    joint = Allowances(d=torch.cat([each.d for each in given]), a=torch.cat([each.a for each in given]))
    together = sf.centered_bounds(head, joint)
    for row, (one, allowances) in enumerate(zip(heads, given, strict=True)):
        alone = sf.centered_bounds(one, allowances)
        for name in NAMES:
            assert getattr(together, name)[row] == getattr(alone, name)[0], (row, name)


def test_rows_outside_go_to_the_other_evaluator() -> None:
    """Which is not asked where there are none, and asked for everything in float32."""
    asked: list[int] = []

    def in_logs(head: SoftmaxHead, allowances: Allowances) -> Bounds:
        asked.append(len(head.target))
        return conditioned_in_logs(head, allowances)

    head = _head(0.0, 0.1, 0.2)
    in_plain_arithmetic(head, _even(0.1), in_logs)
    assert asked == []
    in_plain_arithmetic(head, _even(100.0), in_logs)
    assert asked == [1]
    narrow = replace(head, log_probabilities=head.log_probabilities.float(), gradient_scale=head.gradient_scale.float())
    given = Allowances(d=_even(0.1).d.float(), a=_even(0.1).a.float())
    in_plain_arithmetic(narrow, given, in_logs)
    assert asked == [1, 1]


@pytest.mark.parametrize("values", [(1.0, 1e-17, 1e-18), (1e-17, 1e-18, 1.0), (1.0, 1.0, 1e-20), (0.0, 0.0, 3.0)])
def test_exclusive_sums_keep_their_digits(values: tuple[float, ...]) -> None:
    found = exclusive(_of(*values))[0]
    for j in range(3):
        expected = math.fsum(x for i, x in enumerate(values) if i != j)
        assert found[j].item() == pytest.approx(expected, rel=1e-15, abs=0)


def test_exponentials_are_as_accurate_as_assumed() -> None:
    """expm1 over the domain's movements and exp over log-probabilities, against Arb: within 2 of the 4 ulps."""
    g = torch.Generator().manual_seed(0)
    small = 30 * 10 ** (-20 * torch.rand(4000, generator=g, dtype=torch.float64))
    large = -700 * torch.rand(4000, generator=g, dtype=torch.float64)
    with ctx.workprec(200):
        for name, points in (("expm1", small), ("exp", large)):
            for x, found in zip(points.tolist(), getattr(torch, name)(points).tolist(), strict=True):
                exact = getattr(arb(x), name)()
                assert abs(arb(found) / exact - 1) <= 2 * 2.0**-52, (name, x)


def test_the_centred_contract_is_never_above_at_the_edge_of_the_domain() -> None:
    """Where a centred bound is below 1e-200, and the conditioned one is not."""
    seen = 0
    for states in many_states(1700):
        realized = Analytic(sf.DebyePair()).at(states)
        head, unit = realized.head(NEEDS), realized.unit(NEEDS)
        b = (1 / unit.d.amax(dim=1).clamp_min(1e-3)).clamp_max(1.0)
        for factor in (1.0, 1e-3):
            scaled = unit.scaled(factor * b)
            inside = [plain_bounds(head, scaled, centered=centered)[1] for centered in (True, False)]
            seen += int((inside[1] & ~inside[0]).sum())
            tight, loose = centered_bounds(head, scaled), conditioned_bounds(head, scaled)
            for name in ("loss", "probability", "gradient"):
                assert (getattr(tight, name) <= getattr(loose, name)).all()
    assert seen
