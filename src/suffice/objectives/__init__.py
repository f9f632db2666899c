"""Objectives: scores, losses and feature gradients under a pair."""

from suffice.objectives.contrastive import Evaluation, GradientMechanism, evaluate, gradient_mechanism
from suffice.objectives.sampling import sample_vmf
from suffice.objectives.supervised import SupervisedEvaluation, evaluate_supervised, supervised_uniform_bound

__all__ = [
    "Evaluation",
    "GradientMechanism",
    "SupervisedEvaluation",
    "evaluate",
    "evaluate_supervised",
    "gradient_mechanism",
    "sample_vmf",
    "supervised_uniform_bound",
]
