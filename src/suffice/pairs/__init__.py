"""Pairs: realizations (F, A) of (Phi, R) with F' = A, and the proven allowances of their errors."""

from suffice.pairs.base import Allowance, Pair
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import BestAllowance, ClosedForm, StateEnvelope, Uniform

__all__ = ["Allowance", "BestAllowance", "ClosedForm", "DebyePair", "Pair", "StateEnvelope", "Uniform"]
