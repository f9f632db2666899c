"""The series of the conditioned bounds: they enclose the direct evaluation."""

from __future__ import annotations

import torch

import suffice as sf
from suffice.contracts.conditioned import log_loss_size, log_ratio_term, log_total_variation
from suffice.contracts.conditioned_series import conditioned_series
from suffice.contracts.intervals import probability_intervals
from suffice.contracts.series import MOST_MASS
from suffice.numerics.softmax import at_class
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states
from tests.support.heads import stressed_head

PAIR = sf.DebyePair(order=2)


def test_enclosures_contain_the_direct_bounds() -> None:
    checked = 0
    for states in many_states(400, queries=10):
        realized = realize_contrastive(states, PAIR)
        head, unit = realized.head(), realized.unit()
        log_pi = head.log_probabilities
        sums = conditioned_series(head, unit)
        assert sums is not None
        usable = torch.from_numpy(sums.peak <= MOST_MASS)
        for exponent in (-9, -7, -5, -3, -1.3):
            b = 10.0**exponent / torch.from_numpy(sums.largest).clamp_min(1e-6)
            d = unit.d * b[:, None]
            loss = log_loss_size(head, d + at_class(d, states.labels)[:, None]).exp().log1p()
            tv = log_total_variation(probability_intervals(log_pi, d), d).exp()
            for value, enclosure in zip((loss, tv), sums.enclosures(("loss", "probability"), b), strict=True):
                assert (enclosure.lower <= value * (1 + 1e-12))[usable].all()
                assert (value * (1 - 1e-12) <= enclosure.upper)[usable].all()
                checked += int(usable.sum())
    assert checked > 2000


def test_every_term_is_needed_somewhere() -> None:
    """Heads without a geometry behind them, at allowances where the remainders are as large as they may be."""
    checked = 0
    for seed in range(40):
        head, unit = stressed_head(seed, (2, 3, 5, 40)[seed % 4])
        sums = conditioned_series(head, unit)
        assert sums is not None
        for size in (1e-6, 1e-4, 3e-3, 0.03, 0.1, 0.24):
            b = size / unit.d.amax(dim=1).clamp_min(1e-6)
            usable = torch.from_numpy(sums.usable() & sums.near(b.numpy(), 0.25))
            d = unit.d * b[:, None]
            loss = log_loss_size(head, d + at_class(d, head.target)[:, None]).exp().log1p()
            tv = log_total_variation(probability_intervals(head.log_probabilities, d), d).exp()
            ratio = log_ratio_term(head, unit.a * b[:, None]).exp()
            direct = (loss, tv, (2 * tv + ratio) * head.gradient_scale)
            for value, found in zip(direct, sums.enclosures(("loss", "probability", "gradient"), b), strict=True):
                assert (found.lower <= value * (1 + 1e-12))[usable].all()
                assert (value * (1 - 1e-12) <= found.upper)[usable].all()
            checked += int(usable.sum())
    assert checked > 2000
