"""Sums over classes in place and by blocks: those of their definition, and nothing that is given is overwritten."""

from __future__ import annotations

import math

import torch

import suffice as sf
from suffice.contracts.bounds import Allowances
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.conditioned_series import conditioned_series, eager_sums
from suffice.contracts.series import MOST_MASS, Sums
from suffice.numerics.softmax import at_class, without
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states


def _flat(sums: Sums) -> list[torch.Tensor]:
    return [part for field in sums for part in (field if isinstance(field, tuple) else (field,))]


def _over_pairs(w: torch.Tensor, v: torch.Tensor, a: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
    """The same sums by their definition, over all pairs of classes: t, m and q have a sum of their own for each j."""
    apart = w[:, :, None].expand(-1, -1, w.shape[1]).clone()
    apart.diagonal(dim1=1, dim2=2).zero_()
    total = w.sum(dim=1)
    both = v[:, :, None] + v[:, None, :]
    away, t, m, q = ((apart * both**k).sum(dim=1) / total[:, None] for k in range(4))
    others = without(w, target, 0.0)
    second = (w * (m / 2 - t * t).abs()).sum(dim=1)
    third = (w * (q / 6 - t * m + t**3)).sum(dim=1)
    return [
        total,
        w.amax(dim=1),
        *((others * v**k).sum(dim=1) for k in range(4)),
        at_class(v, target),
        v.amax(dim=1),
        (w * v * away).sum(dim=1) * total,
        second * total**2,
        third * total**3,
        (others * a).sum(dim=1),
        at_class(a, target),
        a.amax(dim=1),
    ]


def test_they_are_the_sums_over_pairs_of_classes() -> None:
    """Where no class has nearly everything, to the digits that subtractions leave."""
    checked = 0
    for states in many_states(900, queries=10):
        if states.num_classes > 60:
            continue
        realized = realize_contrastive(states, sf.DebyePair())
        head = realized.head()
        for allowances in (realized.unit(), realized.own()):
            log_pi, d, a = head.log_probabilities, allowances.d, allowances.a
            kept = [x.clone() for x in (log_pi, d, a)]
            found = eager_sums(log_pi.exp(), d, a, head.target)
            assert all(torch.equal(x, y) for x, y in zip((log_pi, d, a), kept, strict=True))
            expected = _over_pairs(log_pi.exp(), d, a, head.target)
            usable = expected[1] <= MOST_MASS
            largest = d.amax(dim=1)
            sizes = [1.0] * 3 + [largest**k for k in range(1, 4)] + [1.0] * 2 + [largest**k for k in range(1, 4)]
            for value, right, size in zip(_flat(found), expected, [*sizes, 1.0, 1.0, 1.0], strict=True):
                off = (value - right).abs() <= 1e-11 * right.abs() + 1e-15 * size + 1e-300
                assert off[usable].all()
            checked += int(usable.sum())
    assert checked > 300


def test_what_the_largest_class_leaves_keeps_its_digits() -> None:
    """Of 4,000 classes, one with nearly all of the mass: sum pi_j (1 - pi_j) g_j against exactly rounded sums."""
    generator = torch.Generator().manual_seed(3407)
    weights = torch.rand(8, 4000, generator=generator, dtype=torch.float64)
    weights[:, 7] = weights.sum(dim=1) * 900
    weights[4:, 11] = weights[4:, 7]
    unit = torch.rand(8, 4000, generator=generator, dtype=torch.float64) * 1e-6
    unit[:, 7] = 1.0
    logs = weights.log()
    found = eager_sums(logs.exp(), unit, torch.ones_like(unit), torch.zeros(8, dtype=torch.int64)).spread
    for row in range(8):
        w, g = logs[row].exp().tolist(), unit[row].tolist()
        away = [math.fsum([*w, -x]) for x in w]
        right = math.fsum(x * y * z for x, y, z in zip(w, away, g, strict=True))
        assert abs(found[row].item() / right - 1) < 2e-15


def test_blocks_change_nothing() -> None:
    generator = torch.Generator().manual_seed(1)
    log_w = torch.log_softmax(3 * torch.randn(50, 1000, generator=generator, dtype=torch.float64), dim=1)
    unit, ratio = (torch.rand(50, 1000, generator=generator, dtype=torch.float64) for _ in range(2))
    target = torch.randint(0, 1000, (50,), generator=generator)
    whole = eager_sums(log_w.exp(), unit, ratio, target)
    one = [eager_sums(log_w[i : i + 1].exp(), unit[i : i + 1], ratio[i : i + 1], target[i : i + 1]) for i in range(50)]
    for value, parts in zip(_flat(whole), zip(*(_flat(each) for each in one), strict=True), strict=True):
        torch.testing.assert_close(value, torch.cat(parts), rtol=1e-13, atol=0)


def test_the_target_is_left_out_and_not_subtracted() -> None:
    """The target has all but 1e-12 of what is summed; the others' sums keep all their digits."""
    log_w = torch.tensor([[-0.002, -6.5, -7.5]], dtype=torch.float64)
    unit = torch.tensor([[1e6, 3e-6, 7e-6]], dtype=torch.float64)
    found = eager_sums(log_w.exp(), unit, torch.ones_like(unit), torch.tensor([0]))
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
