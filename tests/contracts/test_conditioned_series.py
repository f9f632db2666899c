"""Sums over classes in place and by blocks: those of `series.py`, and nothing that is given is overwritten."""

from __future__ import annotations

import math

import torch

import suffice as sf
from suffice.contracts.bounds import Allowances
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.conditioned_series import conditioned_series, eager_sums
from suffice.contracts.series import MOST_MASS, Sums, sums_over_classes
from suffice.numerics.softmax import class_mask
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states


def _flat(sums: Sums) -> list[torch.Tensor]:
    return [part for field in sums for part in (field if isinstance(field, tuple) else (field,))]


def test_they_are_the_sums_of_the_fused_form() -> None:
    """Where no class has nearly everything, to the digits that subtractions leave."""
    checked = 0
    for states in many_states(300, queries=10):
        realized = realize_contrastive(states, sf.DebyePair())
        head = realized.head()
        for allowances in (realized.unit(), realized.own()):
            log_pi, d, a = head.log_probabilities, allowances.d, allowances.a
            kept = [x.clone() for x in (log_pi, d, a)]
            found = eager_sums(log_pi, d, a, head.target)
            assert all(torch.equal(x, y) for x, y in zip((log_pi, d, a), kept, strict=True))
            pi = log_pi.exp()
            is_target = class_mask(head.target, pi.shape[1])
            expected = sums_over_classes(pi, pi.sum(dim=1, keepdim=True), d, a, is_target)
            usable = expected.peak <= MOST_MASS
            largest = d.amax(dim=1)
            sizes = [1.0] * 3 + [largest**k for k in range(1, 4)] + [1.0] * 2 + [largest**k for k in range(1, 4)]
            for value, right, size in zip(_flat(found), _flat(expected), [*sizes, 1.0, 1.0, 1.0], strict=True):
                off = (value - right).abs() <= 1e-11 * right.abs() + 1e-15 * size + 1e-300
                assert off[usable].all()
            checked += int(usable.sum())
    assert checked > 300


def test_blocks_change_nothing() -> None:
    generator = torch.Generator().manual_seed(1)
    log_w = torch.log_softmax(3 * torch.randn(50, 1000, generator=generator, dtype=torch.float64), dim=1)
    unit, ratio = (torch.rand(50, 1000, generator=generator, dtype=torch.float64) for _ in range(2))
    target = torch.randint(0, 1000, (50,), generator=generator)
    whole = eager_sums(log_w, unit, ratio, target)
    one = [eager_sums(log_w[i : i + 1], unit[i : i + 1], ratio[i : i + 1], target[i : i + 1]) for i in range(50)]
    for value, parts in zip(_flat(whole), zip(*(_flat(each) for each in one), strict=True), strict=True):
        torch.testing.assert_close(value, torch.cat(parts), rtol=1e-13, atol=0)


def test_the_target_is_left_out_and_not_subtracted() -> None:
    """The target has all but 1e-12 of what is summed; the others' sums keep all their digits."""
    log_w = torch.tensor([[-0.002, -6.5, -7.5]], dtype=torch.float64)
    unit = torch.tensor([[1e6, 3e-6, 7e-6]], dtype=torch.float64)
    found = eager_sums(log_w, unit, torch.ones_like(unit), torch.tensor([0]))
    others = [(math.exp(-6.5), 3e-6), (math.exp(-7.5), 7e-6)]
    for k, value in enumerate(found.others):
        right = math.fsum(w * v**k for w, v in others)
        assert abs(value.item() / right - 1) < 1e-15


def test_only_for_vectors_of_length_one() -> None:
    realized = realize_contrastive(next(iter(many_states(5, queries=5))), sf.DebyePair())
    head, unit = realized.head(), realized.unit()
    long = sf.SoftmaxHead(
        log_probabilities=head.log_probabilities,
        target=head.target,
        gradient_scale=head.gradient_scale,
        h_bound=2.0,
    )
    assert conditioned_series(long, unit) is None
    assert CONDITIONED.series is conditioned_series
    assert conditioned_series(head, Allowances(d=unit.d, a=unit.a)) is not None
