"""Tolerances: budgets -> certificates, certified allowances and headroom."""

from suffice.tolerances.budgets import Budgets
from suffice.tolerances.cascade import Cascade, cascade
from suffice.tolerances.certify import Certificate, certify
from suffice.tolerances.explain import Explanation
from suffice.tolerances.tolerance import Tolerance, sensitivity, tolerance

__all__ = [
    "Budgets",
    "Cascade",
    "Certificate",
    "Explanation",
    "Tolerance",
    "cascade",
    "certify",
    "sensitivity",
    "tolerance",
]
