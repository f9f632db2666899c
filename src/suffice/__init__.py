"""How accurate is accurate enough? Certified numerical adequacy at learning states."""

from importlib.metadata import version as _version

from suffice import nn, special
from suffice.audits import Audit, audit
from suffice.contracts import (
    Allowances,
    Bounds,
    CouplingExtrema,
    SoftmaxHead,
    centered_bounds,
    conditioned_bounds,
    coupling_extrema,
    geometry_bounds,
    loss_change,
)
from suffice.objectives import (
    Evaluation,
    evaluate,
    gradient_mechanism,
    sample_vmf,
)
from suffice.objectives.reference import Reference, reference
from suffice.pairs import Allowance, BestAllowance, ClosedForm, DebyePair, Pair, StateEnvelope, Uniform
from suffice.states import ClassBank, States
from suffice.store import (
    Collection,
    CollectionError,
    CollectionWriter,
    builtin_collection,
    import_states,
    open_collection,
)
from suffice.tolerances import (
    Adaptive,
    Budgets,
    Cascade,
    Certificate,
    Explanation,
    Rung,
    Tolerance,
    adaptive,
    cascade,
    certify,
    cheapest_rungs,
    rungs,
    sensitivity,
    tolerance,
)
from suffice.tolerances.supervised import evaluate_supervised

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

__version__ = _version("suffice")
