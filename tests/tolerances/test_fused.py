"""The fused audit is the sum of its parts, never below the direct bounds, compiled as eager."""

from __future__ import annotations

import shutil

import pytest
import torch

import suffice as sf
from suffice.tolerances.fused import conditioned_audit
from tests.attacks.extremes import extreme_states
from tests.reference.states import many_states

PAIR = sf.DebyePair(order=2)


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
