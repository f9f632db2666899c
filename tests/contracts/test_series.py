"""The series of the conditioned bounds: they enclose the direct evaluation, and settle what it settles."""

from __future__ import annotations

import shutil

import pytest
import torch

import suffice as sf
from suffice.contracts.conditioned import conditioned_bounds, log_loss_size, log_total_variation
from suffice.contracts.intervals import probability_intervals
from suffice.contracts.series import MOST_MASS, moments, sums_over_classes
from suffice.numerics.softmax import at_class, class_mask
from suffice.realizations.analytic import prepare, uniform_allowances
from suffice.tolerances.fused import conditioned_audit
from suffice.tolerances.solving import invert_directly
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states

PAIR = sf.DebyePair(order=2)


def test_enclosures_contain_the_direct_bounds() -> None:
    checked = 0
    for states in many_states(400, queries=10):
        prepared = prepare(states, PAIR, distances=False)
        unit, log_pi = uniform_allowances(prepared), prepared.head.log_probabilities
        is_target = class_mask(states.labels, states.bank.num_classes)
        pi = log_pi.exp()
        sums = moments(sums_over_classes(pi, pi.sum(dim=1, keepdim=True), unit.d, None, is_target))
        usable = sums.peak <= MOST_MASS
        for exponent in (-9, -7, -5, -3, -1.3):
            b = 10.0**exponent / sums.largest.clamp_min(1e-6)
            d = unit.d * b[:, None]
            loss = log_loss_size(prepared.head, d + at_class(d, states.labels)[:, None]).exp().log1p()
            tv = log_total_variation(probability_intervals(log_pi, d), d).exp()
            for value, enclosure in ((loss, sums.loss(b)), (tv, sums.probability(b))):
                assert (enclosure.lower <= value * (1 + 1e-12))[usable].all()
                assert (value * (1 - 1e-12) <= enclosure.upper)[usable].all()
                checked += int(usable.sum())
    assert checked > 2000


@pytest.mark.parametrize(
    "budgets", [sf.Budgets(loss=1e-5, gradient=1e-5), sf.Budgets(loss=1e-4), sf.Budgets(probability=1e-6)], ids=str
)
def test_inversion_by_series_is_the_direct_one(budgets: sf.Budgets) -> None:
    for states in many_states(140, queries=10):
        prepared = prepare(states, PAIR, distances=False)
        unit = uniform_allowances(prepared)
        direct = invert_directly(conditioned_bounds, prepared.head, unit, budgets, 0)
        quick = sf.tolerance(states, budgets, PAIR, "conditioned")
        bounded = torch.isfinite(direct.rejected)
        torch.testing.assert_close(quick.b[bounded], direct.accepted[bounded], rtol=3e-9, atol=0)
        assert torch.equal(torch.isfinite(quick.upper), bounded)


@pytest.mark.parametrize(
    "mode",
    [
        "eager",
        # what is compiled equals what is eager by the next test but one
        pytest.param(
            "compiled",
            marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")],
        ),
    ],
)
def test_fused_audit_agrees_with_its_parts(mode: str) -> None:
    budgets = sf.Budgets(loss=1e-6, gradient=1e-6)
    pair = sf.DebyePair(order=2, envelope=sf.ClosedForm(2))
    direct = 0
    for states in many_states(60, queries=10, shapes=[(20, 33), (50, 33), (100, 33), (400, 33), (2, 33), (7, 33)]):
        audit = conditioned_audit(states, budgets, mode=mode)
        torch.testing.assert_close(audit.loss, sf.evaluate(states, pair).loss, rtol=1e-9, atol=1e-12)
        certificate = sf.certify(states, budgets, pair, "conditioned")
        for ours, theirs in (
            (audit.loss_bound, certificate.loss),
            (audit.probability_bound, certificate.probability),
            (audit.gradient_bound, certificate.gradient),
        ):
            # the same bound, with three slacks instead of one where the series gave it
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-300)
        result = sf.tolerance(states, budgets, pair, "conditioned")
        bounded = torch.as_tensor(result.status == "bounded")
        torch.testing.assert_close(audit.b[bounded], result.b[bounded], rtol=2e-9, atol=0)
        assert ((audit.upper / audit.b)[bounded] <= 1 + 1e-9).all()
        direct += int(audit.direct.sum())
    assert direct > 0


def test_fused_bounds_are_not_below_the_direct_ones_at_extreme_states() -> None:
    """Which the oracle has judged: radii near zero, magnitudes from 1e-300 to 1e300, saturation."""
    budgets = sf.Budgets(loss=1e-4, gradient=1e-4)
    pair = sf.DebyePair(order=2, envelope=sf.ClosedForm(2))
    for seed in (*range(20), 254):
        states = extreme_states(seed)
        audit = conditioned_audit(states, budgets)
        certificate = sf.certify(states, budgets, pair, "conditioned")
        assert (audit.loss_bound >= certificate.loss * (1 - 1e-9)).all()
        assert (audit.probability_bound >= certificate.probability * (1 - 1e-9)).all()
        assert (audit.gradient_bound >= certificate.gradient * (1 - 1e-9)).all()
        assert (audit.b <= sf.tolerance(states, budgets, pair, "conditioned").upper * (1 + 1e-8)).all()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_equals_eager_to_1e_12() -> None:
    generator = torch.Generator().manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(60, 256, generator=generator, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, 5 + 300 * torch.rand(60, generator=generator))
    f = torch.nn.functional.normalize(torch.randn(40, 256, generator=generator, dtype=torch.float64), dim=1)
    states = sf.States(bank, f, torch.randint(0, 60, (40,), generator=generator), 0.1)
    budgets = sf.Budgets(loss=1e-5, gradient=1e-5)
    fast, plain = (conditioned_audit(states, budgets, mode=mode) for mode in ("compiled", "eager"))
    assert not plain.direct.any()
    for name in ("loss", "loss_bound", "probability_bound", "gradient_bound", "b"):
        torch.testing.assert_close(getattr(fast, name), getattr(plain, name), rtol=1e-12, atol=0)
    assert torch.equal(fast.certified, plain.certified)


def test_bad_input() -> None:
    states = next(iter(many_states(10, queries=10)))
    with pytest.raises(ValueError, match=r"for prediction use sf\.certify"):
        conditioned_audit(states, sf.Budgets(prediction=True))
    with pytest.raises(ValueError, match=r"Expected mode in \['compiled', 'eager'\]"):
        conditioned_audit(states, sf.Budgets(loss=1.0), mode="fast")
