"""Tolerances: budgets -> certificates, certified allowances and headroom."""

from suffice.tolerances.adaptive import Adaptive, adaptive
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.cascade import Cascade, cascade
from suffice.tolerances.certify import Certificate, certify
from suffice.tolerances.explain import Explanation
from suffice.tolerances.rungs import Rung, cheapest_rungs, rungs
from suffice.tolerances.tolerance import Tolerance, sensitivity, tolerance

__all__ = [
    "Adaptive",
    "Budgets",
    "Cascade",
    "Certificate",
    "Explanation",
    "Rung",
    "Tolerance",
    "adaptive",
    "cascade",
    "certify",
    "cheapest_rungs",
    "rungs",
    "sensitivity",
    "tolerance",
]
