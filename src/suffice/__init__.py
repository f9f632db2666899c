"""How accurate is accurate enough? Certified numerical adequacy at learning states.

Names are resolved when they are first used (PEP 562), so that importing costs little more than nothing.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffice import nn, special
    from suffice.audits.run import Audit, audit
    from suffice.budgets import Budgets
    from suffice.certificates.adaptive import Adaptive, adaptive
    from suffice.certificates.cascade import Cascade, cascade
    from suffice.certificates.certify import Certificate, certify
    from suffice.certificates.explain import Explanation
    from suffice.certificates.rungs import Rung, cheapest_rungs, rungs
    from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
    from suffice.contracts.centered import centered_bounds
    from suffice.contracts.conditioned import conditioned_bounds
    from suffice.contracts.coupling import CouplingExtrema, coupling_extrema, loss_change
    from suffice.contracts.geometry import geometry_bounds
    from suffice.objectives.contrastive import Evaluation, evaluate, gradient_mechanism
    from suffice.objectives.sampling import sample_vmf
    from suffice.objectives.supervised import SupervisedStates
    from suffice.pairs.base import Allowance, Pair
    from suffice.pairs.debye import DebyePair
    from suffice.pairs.envelopes import BestAllowance, ClosedForm, StateEnvelope, Uniform
    from suffice.realizations.supervised import evaluate_supervised
    from suffice.states import ClassBank, States
    from suffice.store.builtin import builtin_collection
    from suffice.store.importing import import_states
    from suffice.store.manifest import CollectionError
    from suffice.store.reader import Collection, open_collection
    from suffice.store.writer import CollectionWriter
    from suffice.tolerances.tolerance import Tolerance, sensitivity, tolerance
    from suffice.truth.state import Reference, reference

__version__: str

# where every public name is; a test compares with the imports above
_WHERE = {
    "audits.run": ("Audit", "audit"),
    "budgets": ("Budgets",),
    "certificates.adaptive": ("Adaptive", "adaptive"),
    "certificates.cascade": ("Cascade", "cascade"),
    "certificates.certify": ("Certificate", "certify"),
    "certificates.explain": ("Explanation",),
    "certificates.rungs": ("Rung", "cheapest_rungs", "rungs"),
    "contracts.bounds": ("Allowances", "Bounds", "SoftmaxHead"),
    "contracts.centered": ("centered_bounds",),
    "contracts.conditioned": ("conditioned_bounds",),
    "contracts.coupling": ("CouplingExtrema", "coupling_extrema", "loss_change"),
    "contracts.geometry": ("geometry_bounds",),
    "objectives.contrastive": ("Evaluation", "evaluate", "gradient_mechanism"),
    "objectives.sampling": ("sample_vmf",),
    "objectives.supervised": ("SupervisedStates",),
    "pairs.base": ("Allowance", "Pair"),
    "pairs.debye": ("DebyePair",),
    "pairs.envelopes": ("BestAllowance", "ClosedForm", "StateEnvelope", "Uniform"),
    "realizations.supervised": ("evaluate_supervised",),
    "states": ("ClassBank", "States"),
    "store.builtin": ("builtin_collection",),
    "store.importing": ("import_states",),
    "store.manifest": ("CollectionError",),
    "store.reader": ("Collection", "open_collection"),
    "store.writer": ("CollectionWriter",),
    "tolerances.tolerance": ("Tolerance", "sensitivity", "tolerance"),
    "truth.state": ("Reference", "reference"),
}
_MODULES = ("nn", "special")
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Adaptive",
    "Allowance",
    "Allowances",
    "Audit",
    "BestAllowance",
    "Bounds",
    "Budgets",
    "Cascade",
    "Certificate",
    "ClassBank",
    "ClosedForm",
    "Collection",
    "CollectionError",
    "CollectionWriter",
    "CouplingExtrema",
    "DebyePair",
    "Evaluation",
    "Explanation",
    "Pair",
    "Reference",
    "Rung",
    "SoftmaxHead",
    "StateEnvelope",
    "States",
    "SupervisedStates",
    "Tolerance",
    "Uniform",
    "__version__",
    "adaptive",
    "audit",
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
    "loss_change",
    "nn",
    "open_collection",
    "reference",
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
