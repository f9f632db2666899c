"""The centred contract: common shifts cost nothing, matched gaps and distances help, and no corner breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

import suffice as sf
from suffice.contracts.centered import log_redistribution
from tests.support.heads import Vectors, actual_changes, corner_errors, random_head

NAMES = ("loss", "probability", "gradient")


def _matched(made: Vectors, width: float) -> tuple[Vectors, torch.Tensor]:
    """Errors that are a common shift within d, and differences of at most `width` times d."""
    d, target, top = made.allowances.d, made.head.target, made.head.log_probabilities.argmax(dim=1)

    def pairwise(index: torch.Tensor) -> torch.Tensor:
        return (width * (d + d[:, index])).scatter(1, index[:, None], 0.0)

    matched = replace(made.allowances, to_target=pairwise(target), to_top=pairwise(top))
    return replace(made, allowances=matched), width * d


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("width", [1.0, 0.01])
def test_no_corner_breaks_it(seed: int, width: float) -> None:
    made, small = _matched(random_head(seed), width)
    bounds = sf.centered_bounds(made.head, made.allowances)
    shift = (1 - width) * made.allowances.d.min()
    generator = torch.Generator().manual_seed(seed)
    for e in corner_errors(small):
        moved = normalize(torch.randn(4, 6, generator=generator, dtype=torch.float64), dim=1)
        actual = actual_changes(made, e + shift, made.allowances.a[0][:, None] * moved)
        assert all(actual[name] <= getattr(bounds, name).item() * (1 + 1e-12) + 1e-15 for name in NAMES)
    looser = sf.conditioned_bounds(made.head, made.allowances)
    assert all((getattr(bounds, name) <= getattr(looser, name)).all() for name in (*NAMES, "margin_use"))


def test_matched_gaps_are_what_makes_it_small() -> None:
    """With differences a hundredth of the errors, loss and margin are a hundredth of the conditioned ones."""
    made, _ = _matched(random_head(3), 0.01)
    bounds, looser = (each(made.head, made.allowances) for each in (sf.centered_bounds, sf.conditioned_bounds))
    assert bounds.loss.item() < 0.02 * looser.loss.item()
    assert bounds.margin_use.item() < 0.02 * looser.margin_use.item()
    plain = replace(made.allowances, to_target=None, to_top=None)
    assert sf.centered_bounds(made.head, plain).loss.item() == pytest.approx(looser.loss.item(), rel=1e-9)


def test_equal_vectors_have_nothing_to_redistribute() -> None:
    """Where all hhat_j are one vector, moved probability changes no gradient: only ratio errors remain."""
    made = random_head(4)
    head = replace(made.head, distances=torch.zeros_like(made.head.log_probabilities))
    assert log_redistribution(head, made.allowances.d).exp().item() == 0.0
    without_ratios = sf.Allowances(d=made.allowances.d, a=torch.zeros_like(made.allowances.a))
    assert sf.centered_bounds(head, without_ratios).gradient.item() < 1e-300
    assert sf.conditioned_bounds(head, without_ratios).gradient.item() > 1e-6


def test_distances_are_needed() -> None:
    made = random_head(0)
    with pytest.raises(ValueError, match=r"Expected head\.distances for the centred contract, but got None"):
        sf.centered_bounds(replace(made.head, distances=None), made.allowances)
