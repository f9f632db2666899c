"""The protocols: what is shipped satisfies them, and a formula alone does not."""

from __future__ import annotations

import torch

import suffice as sf
from suffice.pairs.perturbed import PerturbedPair, ramp


def test_what_is_shipped_satisfies_its_protocol() -> None:
    for allowance in (sf.Uniform(), sf.StateEnvelope(), sf.ClosedForm(3), sf.BestAllowance(4), sf.IntegralEnvelope()):
        assert isinstance(allowance, sf.Allowance)
        assert not isinstance(allowance, sf.Pair)
    for pair in (sf.DebyePair(order=5), PerturbedPair(base=sf.DebyePair(), bump=ramp, amount=1e-3)):
        assert isinstance(pair, sf.Pair)
        assert isinstance(pair, sf.Allowance)


def test_a_formula_without_allowances_is_no_pair() -> None:
    class Formula:
        def ratio(self, nu: float, x: torch.Tensor) -> torch.Tensor:
            return x / (nu + torch.hypot(x, torch.tensor(nu)))

    assert not isinstance(Formula(), sf.Pair)
