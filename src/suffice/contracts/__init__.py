"""Contracts: allowances on score and ratio errors -> bounds on loss, probability, gradient and prediction."""

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.coupling import CouplingExtrema, coupling_extrema, loss_change
from suffice.contracts.geometry import geometry_bounds

__all__ = [
    "Allowances",
    "Bounds",
    "CouplingExtrema",
    "SoftmaxHead",
    "centered_bounds",
    "conditioned_bounds",
    "coupling_extrema",
    "geometry_bounds",
    "loss_change",
]
