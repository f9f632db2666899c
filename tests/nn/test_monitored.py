"""A report has numbers and words, and says where a budget is an estimate."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.nn.monitored import certified_report


def test_numbers_are_those_of_certificate_and_tolerance() -> None:
    g = torch.Generator().manual_seed(0)
    head = sf.LinearHead(torch.randn(5, 3, generator=g))
    states = sf.HeadStates(head, torch.randn(9, 3, generator=g), torch.randint(0, 5, (9,), generator=g))
    budgets = sf.Budgets(loss=1e-3, gradient=1e-3)
    report = certified_report(states, budgets, sf.Filtered(0.1), "conditioned")
    certificate = sf.certify(states, budgets, sf.Filtered(0.1), "conditioned")
    assert report["suffice/certified"] == pytest.approx((certificate.verdict == "certified").mean())
    assert report["suffice/headroom_min"] == pytest.approx(float(certificate.headroom.min()))
    assert report["suffice/states"] == 9
    assert "suffice/basis" not in report
    estimated = certified_report(states, sf.Budgets.below_noise((1.0, 9)), None, "conditioned")
    assert estimated["suffice/basis"] == "the gradient budget is estimated from noise"
    assert set(estimated.words) == {"suffice/basis", "suffice/binding", "suffice/scope"}
    assert {**estimated.numbers, **estimated.words} == estimated
