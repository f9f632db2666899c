"""How accurate is accurate enough? Certified numerical adequacy at learning states.

Names are resolved when they are first used (PEP 562), so that importing costs little more than nothing.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffice import nn, special
    from suffice.audits.plan import Plan, register_realization
    from suffice.audits.run import Audit, audit
    from suffice.audits.summary import AuditSummary, GroupSummary, Spread
    from suffice.budgets import Budgets
    from suffice.certificates.adaptive import Adaptive, adaptive
    from suffice.certificates.cascade import Cascade, cascade
    from suffice.certificates.certify import Certificate, certify
    from suffice.certificates.climb import cheapest_rungs
    from suffice.certificates.explain import ClassShare, Explanation
    from suffice.contracts.base import Contract, Needs
    from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
    from suffice.contracts.centered import centered_bounds
    from suffice.contracts.conditioned import conditioned_bounds
    from suffice.contracts.coupling import CouplingExtrema, coupling_extrema, loss_change
    from suffice.contracts.family import Family
    from suffice.contracts.geometry import geometry_bounds
    from suffice.contracts.parameters import (
        budget_for_update,
        budget_relative_to_gradient,
        jacobian_norm_bound,
        jacobian_norm_estimate,
        jacobian_spectral_norm,
        parameter_gradient_bound,
    )
    from suffice.contracts.registry import register_contract
    from suffice.contracts.sensitivity import Sensitivity
    from suffice.numerics.formats import Format, Ulps, register_format
    from suffice.objectives.contrastive import Evaluation, GradientMechanism, evaluate, gradient_mechanism
    from suffice.objectives.sampling import sample_vmf
    from suffice.objectives.supervised import SupervisedStates
    from suffice.pairs.base import Allowance, Pair
    from suffice.pairs.debye import DebyePair
    from suffice.pairs.envelopes import BestAllowance, ClosedForm, StateEnvelope, Uniform
    from suffice.pairs.integral_envelope import IntegralEnvelope
    from suffice.realizations.analytic import Analytic
    from suffice.realizations.base import After, Realization, Realized
    from suffice.realizations.executed.realization import Execution
    from suffice.realizations.rungs import Rung, rungs
    from suffice.realizations.supervised import SupervisedEvaluation, evaluate_supervised
    from suffice.states import ClassBank, Geometry, States
    from suffice.store.builtin import builtin_collection
    from suffice.store.importing import import_states
    from suffice.store.kinds import BankTensor, Column, Kind, register_kind
    from suffice.store.manifest import CollectionError
    from suffice.store.reader import Batch, Collection, open_collection
    from suffice.store.writer import CollectionWriter
    from suffice.tolerances.tolerance import Tolerance, sensitivity, tolerance
    from suffice.truth.state import Ball, Reference, reference
    from suffice.words import Departure, Outcome, Scope, Tier, Verdict

__version__: str

# where every public name is; a test compares with the imports above
_WHERE = {
    "audits.plan": (
        "Plan",
        "register_realization",
    ),
    "audits.run": (
        "Audit",
        "audit",
    ),
    "audits.summary": (
        "AuditSummary",
        "GroupSummary",
        "Spread",
    ),
    "budgets": ("Budgets",),
    "certificates.adaptive": (
        "Adaptive",
        "adaptive",
    ),
    "certificates.cascade": (
        "Cascade",
        "cascade",
    ),
    "certificates.certify": (
        "Certificate",
        "certify",
    ),
    "certificates.climb": ("cheapest_rungs",),
    "certificates.explain": (
        "ClassShare",
        "Explanation",
    ),
    "contracts.base": (
        "Contract",
        "Needs",
    ),
    "contracts.bounds": (
        "Allowances",
        "Bounds",
        "SoftmaxHead",
    ),
    "contracts.centered": ("centered_bounds",),
    "contracts.conditioned": ("conditioned_bounds",),
    "contracts.coupling": (
        "CouplingExtrema",
        "coupling_extrema",
        "loss_change",
    ),
    "contracts.family": ("Family",),
    "contracts.geometry": ("geometry_bounds",),
    "contracts.parameters": (
        "budget_for_update",
        "budget_relative_to_gradient",
        "jacobian_norm_bound",
        "jacobian_norm_estimate",
        "jacobian_spectral_norm",
        "parameter_gradient_bound",
    ),
    "contracts.registry": ("register_contract",),
    "contracts.sensitivity": ("Sensitivity",),
    "numerics.formats": (
        "Format",
        "Ulps",
        "register_format",
    ),
    "objectives.contrastive": (
        "Evaluation",
        "GradientMechanism",
        "evaluate",
        "gradient_mechanism",
    ),
    "objectives.sampling": ("sample_vmf",),
    "objectives.supervised": ("SupervisedStates",),
    "pairs.base": (
        "Allowance",
        "Pair",
    ),
    "pairs.debye": ("DebyePair",),
    "pairs.envelopes": (
        "BestAllowance",
        "ClosedForm",
        "StateEnvelope",
        "Uniform",
    ),
    "pairs.integral_envelope": ("IntegralEnvelope",),
    "realizations.analytic": ("Analytic",),
    "realizations.base": (
        "After",
        "Realization",
        "Realized",
    ),
    "realizations.executed.realization": ("Execution",),
    "realizations.rungs": (
        "Rung",
        "rungs",
    ),
    "realizations.supervised": (
        "SupervisedEvaluation",
        "evaluate_supervised",
    ),
    "states": (
        "ClassBank",
        "Geometry",
        "States",
    ),
    "store.builtin": ("builtin_collection",),
    "store.importing": ("import_states",),
    "store.kinds": (
        "BankTensor",
        "Column",
        "Kind",
        "register_kind",
    ),
    "store.manifest": ("CollectionError",),
    "store.reader": (
        "Batch",
        "Collection",
        "open_collection",
    ),
    "store.writer": ("CollectionWriter",),
    "tolerances.tolerance": (
        "Tolerance",
        "sensitivity",
        "tolerance",
    ),
    "truth.state": (
        "Ball",
        "Reference",
        "reference",
    ),
    "words": (
        "Departure",
        "Outcome",
        "Scope",
        "Tier",
        "Verdict",
    ),
}
_MODULES = ("nn", "special")
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Adaptive",
    "After",
    "Allowance",
    "Allowances",
    "Analytic",
    "Audit",
    "AuditSummary",
    "Ball",
    "BankTensor",
    "Batch",
    "BestAllowance",
    "Bounds",
    "Budgets",
    "Cascade",
    "Certificate",
    "ClassBank",
    "ClassShare",
    "ClosedForm",
    "Collection",
    "CollectionError",
    "CollectionWriter",
    "Column",
    "Contract",
    "CouplingExtrema",
    "DebyePair",
    "Departure",
    "Evaluation",
    "Execution",
    "Explanation",
    "Family",
    "Format",
    "Geometry",
    "GradientMechanism",
    "GroupSummary",
    "IntegralEnvelope",
    "Kind",
    "Needs",
    "Outcome",
    "Pair",
    "Plan",
    "Realization",
    "Realized",
    "Reference",
    "Rung",
    "Scope",
    "Sensitivity",
    "SoftmaxHead",
    "Spread",
    "StateEnvelope",
    "States",
    "SupervisedEvaluation",
    "SupervisedStates",
    "Tier",
    "Tolerance",
    "Ulps",
    "Uniform",
    "Verdict",
    "__version__",
    "adaptive",
    "audit",
    "budget_for_update",
    "budget_relative_to_gradient",
    "builtin_collection",
    "cascade",
    "centered_bounds",
    "certify",
    "cheapest_rungs",
    "conditioned_bounds",
    "coupling_extrema",
    "evaluate",
    "evaluate_supervised",
    "geometry_bounds",
    "gradient_mechanism",
    "import_states",
    "jacobian_norm_bound",
    "jacobian_norm_estimate",
    "jacobian_spectral_norm",
    "loss_change",
    "nn",
    "open_collection",
    "parameter_gradient_bound",
    "reference",
    "register_contract",
    "register_format",
    "register_kind",
    "register_realization",
    "rungs",
    "sample_vmf",
    "sensitivity",
    "special",
    "tolerance",
]


def __getattr__(name: str) -> Any:
    """A public name, from the module that has it; kept, so that this happens once."""
    if name == "__version__":
        value: Any = _version("suffice")
    elif name in _MODULES:
        value = _import_module(f"suffice.{name}")
    elif name in _MODULE_OF:
        value = getattr(_import_module(f"suffice.{_MODULE_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'suffice' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
