"""How accurate is accurate enough? Certified numerical adequacy at learning states."""

from importlib.metadata import version as _version

from suffice import special
from suffice.pairs import Allowance, BestAllowance, ClosedForm, DebyePair, Pair, StateEnvelope, Uniform

__all__ = [
    "Allowance",
    "BestAllowance",
    "ClosedForm",
    "DebyePair",
    "Pair",
    "StateEnvelope",
    "Uniform",
    "__version__",
    "special",
]

__version__ = _version("suffice")
