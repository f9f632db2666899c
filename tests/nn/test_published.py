"""Agreement with published training code, and on which side the difference is; its statistics taken over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.agreement import CLASSES, Published, exact_logits, some_features, trained
from suffice.nn import ProCoLoss
from suffice.nn.published import published_statistics


@pytest.mark.parametrize("dim", [64, 128, 512])
def test_the_difference_is_on_the_published_side(dim: int) -> None:
    """nu log k is rounded to float32 there; where everything is float64 both are right, and so alike."""
    theirs, ours = trained(dim)
    torch.testing.assert_close(theirs.estimator_old.Ave, ours.statistics.means[1], rtol=0, atol=2e-7)
    features, _ = some_features(7, dim, count=8)
    found, other = ours.logits(features).double(), theirs(features).double()
    exact, _ = exact_logits(ours.statistics.means[1], features)
    here, there = (found - exact).abs().max().item(), (other - exact).abs().max().item()
    assert here < 3e-6
    assert 5 * here < there < 1e-6 * dim
    theirs.double()
    for each in (theirs.estimator, theirs.estimator_old):
        each.Ave, each.Amount = each.Ave.double(), each.Amount.double()
    wide = ProCoLoss(CLASSES, dim, temperature=0.1, dtype=torch.float64, order=6)
    wide.load_published(theirs)
    unit = normalize(features.double(), dim=1)
    torch.testing.assert_close(wide.logits(unit), theirs(unit), rtol=0, atol=1e-8)


def test_statistics_are_taken_over() -> None:
    theirs, _ = trained(32)
    ours = ProCoLoss(CLASSES, 32, temperature=0.1)
    ours.load_published(theirs)
    features, labels = some_features(9, 32)
    # and training goes on alike
    theirs(features, labels)
    ours(features, labels)
    torch.testing.assert_close(ours.statistics.means[0], theirs.estimator.Ave, rtol=0, atol=2e-7)
    torch.testing.assert_close(ours.statistics.means[1], theirs.estimator_old.Ave, rtol=0, atol=2e-7)
    assert torch.equal(ours.statistics.counts[1], theirs.estimator_old.Amount.double())


def _tensors(source: Published, prefix: str = "") -> dict[str, Tensor]:
    return {
        f"{prefix}{each}.{name}": getattr(getattr(source, each), name)
        for each in ("estimator", "estimator_old")
        for name in ("Ave", "Amount")
    }


@pytest.mark.parametrize("prefix", ["", "criterion."])
def test_tensors_by_name_are_taken_over(prefix: str) -> None:
    theirs, _ = trained(16)
    ours, same = ProCoLoss(CLASSES, 16), ProCoLoss(CLASSES, 16)
    priors = torch.arange(1.0, CLASSES + 1)
    ours.load_published({**_tensors(theirs, prefix), f"{prefix}weight": priors[None] / priors.sum()})
    same.load_published(theirs)
    assert torch.equal(ours.statistics.means, same.statistics.means)
    torch.testing.assert_close(ours.biases, torch.log(priors / priors.sum()))
    torch.testing.assert_close(same.biases.exp(), torch.full((CLASSES,), 1 / CLASSES))


def test_what_cannot_be_taken_over_is_named() -> None:
    theirs, _ = trained(16)
    ours = ProCoLoss(CLASSES, 16)
    before = ours.statistics.means.clone()
    tensors = _tensors(theirs)
    for source, words in (
        (theirs.state_dict(), "its state_dict\\(\\) has nothing"),
        ({"model.weight": torch.ones(3)}, "Expected one estimator.Ave among the names, but got 0 in model.weight"),
        ({**tensors, **_tensors(theirs, "old.")}, "but got 2"),
        ({name: value for name, value in tensors.items() if name != "estimator_old.Amount"}, "there is no estimator_"),
        ({**tensors, "estimator.Ave": torch.zeros(3, 16)}, r"estimator.Ave of shape \(10, 16\), but got \(3, 16\)"),
        ({**tensors, "estimator.Ave": torch.full((10, 16), torch.nan)}, "estimator.Ave to be finite"),
        ({**tensors, "estimator.Amount": -torch.ones(10)}, "Expected counts >= 0, but got -1"),
        ({**tensors, "estimator.Ave": torch.ones(10, 16)}, "Expected means of unit vectors, but one has length 4"),
        ({**tensors, "weight": torch.zeros(10)}, "class 0 has 0"),
    ):
        with pytest.raises(ValueError, match=words):
            ours.load_published(source)
        assert torch.equal(before, ours.statistics.means)
    with pytest.raises(TypeError, match=r"but SimpleNamespace has no estimator\.Ave"):
        ours.load_published(SimpleNamespace())


def test_means_of_features_that_were_not_normalised() -> None:
    theirs, _ = trained(16)
    tensors = {**_tensors(theirs), "estimator_old.Ave": torch.full((CLASSES, 16), 0.5)}
    found = published_statistics(tensors, CLASSES, 16, unit=False)
    assert found.priors is None
    loss = ProCoLoss(CLASSES, 16, normalize=False)
    loss.load_published(tensors)
    # a mean that is as long as a unit vector or longer has the largest concentration, as published
    assert (loss.statistics.concentrations == 1e5).all()
