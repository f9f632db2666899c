"""Objectives: scores, losses and feature gradients under a pair."""

from suffice.objectives.contrastive import Evaluation, GradientMechanism, evaluate, gradient_mechanism
from suffice.objectives.sampling import sample_vmf

__all__ = [
    "Evaluation",
    "GradientMechanism",
    "evaluate",
    "gradient_mechanism",
    "sample_vmf",
]
