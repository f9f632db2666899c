"""The series of the conditioned bounds: they enclose the direct evaluation."""

from __future__ import annotations

import math

import torch

import suffice as sf
from suffice.contracts.conditioned import log_loss_size, log_total_variation
from suffice.contracts.intervals import probability_intervals
from suffice.contracts.series import MOST_MASS, moments, sums_over_classes
from suffice.numerics.softmax import at_class, class_mask
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states

PAIR = sf.DebyePair(order=2)


def test_enclosures_contain_the_direct_bounds() -> None:
    checked = 0
    for states in many_states(400, queries=10):
        realized = realize_contrastive(states, PAIR)
        head, unit = realized.head(), realized.unit()
        log_pi = head.log_probabilities
        is_target = class_mask(states.labels, states.bank.num_classes)
        pi = log_pi.exp()
        sums = moments(sums_over_classes(pi, pi.sum(dim=1, keepdim=True), unit.d, None, is_target), head.gradient_scale)
        usable = sums.peak <= MOST_MASS
        for exponent in (-9, -7, -5, -3, -1.3):
            b = 10.0**exponent / sums.largest.clamp_min(1e-6)
            d = unit.d * b[:, None]
            loss = log_loss_size(head, d + at_class(d, states.labels)[:, None]).exp().log1p()
            tv = log_total_variation(probability_intervals(log_pi, d), d).exp()
            for value, enclosure in ((loss, sums.loss(b)), (tv, sums.probability(b))):
                assert (enclosure.lower <= value * (1 + 1e-12))[usable].all()
                assert (value * (1 - 1e-12) <= enclosure.upper)[usable].all()
                checked += int(usable.sum())
    assert checked > 2000


def test_what_the_largest_class_leaves_keeps_its_digits() -> None:
    """Of 4,000 classes, one with nearly all of the mass: sum pi_j (1 - pi_j) g_j against exactly rounded sums."""
    generator = torch.Generator().manual_seed(3407)
    weights = torch.rand(8, 4000, generator=generator, dtype=torch.float64)
    weights[:, 7] = weights.sum(dim=1) * 900
    weights[4:, 11] = weights[4:, 7]
    unit = torch.rand(8, 4000, generator=generator, dtype=torch.float64) * 1e-6
    unit[:, 7] = 1.0
    total = weights.sum(dim=1, keepdim=True)
    found = sums_over_classes(weights, total, unit, None, torch.zeros_like(weights, dtype=torch.bool)).spread
    for row in range(8):
        w, g = weights[row].tolist(), unit[row].tolist()
        away = [math.fsum([*w, -x]) for x in w]
        right = math.fsum(x * y * z for x, y, z in zip(w, away, g, strict=True))
        assert abs(found[row].item() / right - 1) < 2e-15
