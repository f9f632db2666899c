"""Filtered gradients as programs, judged against rigorous enclosures of the exact ones."""

from __future__ import annotations

import torch
from torch import Tensor

import suffice as sf
from suffice.pairs.debye import DebyePair
from suffice.realizations.executed.realization import Execution
from tests.support.batches import class_batch, trained_proco

__all__ = ["filtered_executed", "filtered_head", "filtered_pair", "thresholds_at", "vmf_states"]

F64 = torch.float64


def vmf_states(seed: int, dim: int, count: int, temperature: float) -> sf.States:
    """Classes from wide to one point, with features that lean towards their labels."""
    loss = trained_proco(dim, temperature=temperature)
    features, labels = class_batch(seed, count, dim, 8)
    return loss.states(features.double(), labels)


def _filtered(g: Tensor, threshold: Tensor) -> Tensor:
    return torch.where(g.abs() < threshold.to(g.dtype)[:, None], 0.0, g)


def filtered_head(states: sf.HeadStates, threshold: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The gradient in h of a head in float64, of logits that may have been rounded, without small residuals."""
    weight, labels = states.head.weight.double(), states.labels
    assert labels is not None
    logits = states.hidden @ weight.T + states.head.bias
    logits = logits if dtype is None else logits.to(dtype).double()
    g = torch.softmax(logits / states.temperature[:, None], dim=1)
    rows = torch.arange(len(g))
    # the label's is minus the sum of the others: 1 - pi would have no digits where pi is nearly 1
    g[rows, labels] = 0
    g[rows, labels] = -g.sum(dim=1)
    return _filtered(g, threshold) @ weight / states.temperature[:, None]


def filtered_pair(states: sf.States, threshold: Tensor, pair: DebyePair) -> Tensor:
    """The gradient of a pair in float64 without small residuals."""
    geometry, tau = states.geometry(), states.temperature[:, None]
    g = sf.evaluate(states, pair).log_probabilities.exp()
    rows = torch.arange(len(g))
    g[rows, states.labels] = 0
    g[rows, states.labels] = -g.sum(dim=1)
    along = _filtered(g, threshold) * pair.ratio(geometry.nu, geometry.radii) / geometry.radii
    pulls = (along * geometry.concentrations) @ states.bank.directions
    return (pulls + along.sum(dim=1, keepdim=True) * states.features / tau) / tau


def filtered_executed(states: sf.States, threshold: Tensor, execution: Execution) -> Tensor:
    """The gradient of an executed program whose small weights were set to zero in its own dtype."""
    made = execution.run(states)
    along = _filtered(made.weights, threshold) * made.slopes
    pulls = (along * made.concentrations) @ made.directions
    total = along.sum(dim=1, keepdim=True, dtype=F64).to(made.dtype)
    return (pulls + total * made.scaled) / states.temperature.to(made.dtype)[:, None]


def thresholds_at(weights: Tensor, share: float) -> Tensor:
    """The next number after one of each row's own residuals, where rounding decides who is left out."""
    ordered = weights.abs().sort(dim=1).values
    chosen = ordered[:, int(share * (ordered.shape[1] - 1))]
    return torch.nextafter(chosen, torch.full_like(chosen, torch.inf)).double()
