"""Objectives: scores, losses and feature gradients under a pair."""

from suffice.objectives.contrastive import Evaluation, GradientMechanism, evaluate, gradient_mechanism

__all__ = ["Evaluation", "GradientMechanism", "evaluate", "gradient_mechanism"]
