"""How accurate is accurate enough? Certified numerical adequacy at learning states."""

from importlib.metadata import version as _version

from suffice import special
from suffice.contracts import CouplingExtrema, coupling_extrema
from suffice.objectives import Evaluation, evaluate, gradient_mechanism
from suffice.objectives.reference import Reference, reference
from suffice.pairs import Allowance, BestAllowance, ClosedForm, DebyePair, Pair, StateEnvelope, Uniform
from suffice.states import ClassBank, States
from suffice.tolerances import Budgets, Certificate, Explanation, Tolerance, certify, sensitivity, tolerance

__all__ = [
    "Allowance",
    "BestAllowance",
    "Budgets",
    "Certificate",
    "ClassBank",
    "ClosedForm",
    "CouplingExtrema",
    "DebyePair",
    "Evaluation",
    "Explanation",
    "Pair",
    "Reference",
    "StateEnvelope",
    "States",
    "Tolerance",
    "Uniform",
    "__version__",
    "certify",
    "coupling_extrema",
    "evaluate",
    "gradient_mechanism",
    "reference",
    "sensitivity",
    "special",
    "tolerance",
]

__version__ = _version("suffice")
