"""Kinds of states that a collection can hold: the tensors of a bank, the columns of a query, what is wrong in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from suffice.objectives.linear import HeadStates, LinearHead
from suffice.objectives.supervised import UNIT_ERROR, SupervisedStates
from suffice.realizations.base import Realization
from suffice.realizations.linear import ExactHead
from suffice.states import ClassBank, States

__all__ = [
    "BETA",
    "DESCRIBED",
    "FEATURE",
    "LABEL",
    "SAMPLES",
    "STANDARD",
    "TEMPERATURE",
    "BankTensor",
    "Column",
    "Kind",
    "kind_named",
    "kind_of",
    "register_kind",
]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BankTensor:
    """One tensor of a bank: its sizes by name, and the safetensors dtypes in which it may be stored.

    The sizes "classes" and "dim" are the manifest's; any other name is one size wherever it occurs.
    """

    shape: tuple[str, ...]
    dtypes: tuple[str, ...] = ("F64",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One value a state, in the query files: an integer, a number, or an array as little-endian bytes.

    `shape` () is one value; ("dim",) a vector; ("count", "dim") any count of vectors, the same for all rows of a part.
    `wrong` takes the values of some rows and the number of classes, and says which rows are no states; `reason` is why,
    where {value} and {classes} stand for what was found. An optional column is empty in all rows of a part or in none.
    """

    name: str
    wrong: Callable[[Array, int], Array]
    reason: str
    shape: tuple[str, ...] = ()
    integer: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of states. Names of tensors and columns are fields of `bank` and `states`, and keywords to make them.

    `columns` goes from the states' field to its column; one of them must be the feature. `needed` are the arrays that
    a file must have to be imported. `realization` is what an audit without one is of (None: a pair of the ladder), and
    `note` what a page says of everything that is certified of such states. Where `keeps_dtypes`, a bank's tensors are
    imported in the dtypes that they come in, and rows with the label `ignored` are left out, and counted.
    """

    name: str
    bank: type[Any]
    states: type[Any]
    tensors: Mapping[str, BankTensor]
    columns: Mapping[str, Column]
    needed: tuple[str, ...]
    realization: Realization | None = None
    note: str = ""
    keeps_dtypes: bool = False
    ignored: int | None = None


def _not_finite(values: Array, _classes: int) -> Array:
    return np.asarray(~np.isfinite(values).all(axis=1))


def _not_positive(values: Array, _classes: int) -> Array:
    return np.asarray(~(np.isfinite(values) & (values > 0)))


def _not_unit(values: Array, _classes: int) -> Array:
    norms = torch.linalg.vector_norm(torch.from_numpy(values), dim=2)
    # NaN is no unit vector either
    return np.asarray((~((norms - 1).abs() <= UNIT_ERROR)).any(dim=1))


LABEL = Column(
    name="label",
    wrong=lambda values, classes: (values < 0) | (values >= classes),
    reason="expected labels in [0, {classes}), but got {value}",
    integer=True,
)
FEATURE = Column(
    name="feature",
    wrong=_not_finite,
    reason="expected numbers, but some are not finite",
    shape=("dim",),
)
TEMPERATURE = Column(name="temperature", wrong=_not_positive, reason="expected finite and > 0, but got {value}")
BETA = Column(name="beta", wrong=_not_positive, reason="expected finite and > 0, but got {value}")
SAMPLES = Column(
    name="samples", wrong=_not_unit, reason="expected unit vectors, but some have another norm", shape=("count", "dim")
)
# what every row says of itself
DESCRIBED = ("id", "bank", "kind", "dim", "source", "dataset", "run", "step")
# in every query file, whatever its kind: so all of them have one schema, unless a kind brings columns of its own
STANDARD = (LABEL, TEMPERATURE, BETA, FEATURE, SAMPLES)

_VMF = {
    "directions": BankTensor(shape=("classes", "dim"), dtypes=("F32", "F64")),
    "concentrations": BankTensor(shape=("classes",)),
    "biases": BankTensor(shape=("classes",)),
}
_SHAPES = ((), ("dim",), ("count", "dim"))
_KINDS: dict[str, Kind] = {}


def register_kind(kind: Kind) -> None:
    """Add a kind to the table, for this process; its name and its class of states must be new."""
    known = {each.states for each in _KINDS.values()}
    if kind.name in _KINDS or kind.states in known:
        raise ValueError(
            f"Expected a new kind, but {kind.name!r} or its {kind.states.__name__} is in the table already"
        )
    sizes = {size for tensor in kind.tensors.values() for size in tensor.shape}
    columns = [column.name for column in kind.columns.values()]
    named = [*columns, *DESCRIBED]
    if not {"classes", "dim"} <= sizes or "feature" not in columns or len(set(named)) < len(named):
        raise ValueError(
            f"Expected tensors with classes and dim, and different columns with a feature, but {kind.name!r} has "
            f"{sorted(sizes)} and {columns}"
        )
    standard = {column.name: column for column in STANDARD}
    for column in kind.columns.values():
        like = standard.get(column.name, column)
        if column.shape not in _SHAPES or (column.shape, column.integer) != (like.shape, like.integer):
            raise ValueError(f"Expected column {column.name!r} of another shape or type, but got {column.shape}")
    _KINDS[kind.name] = kind


def kind_named(name: str) -> Kind:
    """The kind of that name."""
    if name not in _KINDS:
        raise ValueError(f"unknown kind {name!r}; known are {sorted(_KINDS)}")
    return _KINDS[name]


def kind_of(states: object) -> Kind:
    """The kind of some states, by their class."""
    for kind in _KINDS.values():
        if type(states) is kind.states:
            return kind
    known = sorted(kind.states.__name__ for kind in _KINDS.values())
    raise TypeError(f"Expected states of a kind in the table ({', '.join(known)}), but got {type(states).__name__}")


register_kind(
    Kind(
        name="contrastive",
        bank=ClassBank,
        states=States,
        tensors=_VMF,
        columns={"labels": LABEL, "features": FEATURE, "temperature": TEMPERATURE},
        needed=("features", "labels", "directions", "concentrations", "temperature"),
    )
)
register_kind(
    Kind(
        name="supervised",
        bank=ClassBank,
        states=SupervisedStates,
        tensors=_VMF,
        columns={"labels": LABEL, "embeddings": FEATURE, "samples": SAMPLES, "beta": BETA},
        needed=("embeddings", "labels", "samples", "directions", "concentrations", "beta"),
    )
)
register_kind(
    Kind(
        name="linear",
        bank=LinearHead,
        states=HeadStates,
        tensors={
            "weight": BankTensor(shape=("classes", "dim"), dtypes=("F64", "F32", "F16", "BF16")),
            "bias": BankTensor(shape=("classes",)),
        },
        columns={"labels": replace(LABEL, optional=True), "hidden": FEATURE, "temperature": TEMPERATURE},
        needed=("hidden", "weight"),
        realization=ExactHead(),
        note="All of it is given the hidden vector: what came before it is not covered.",
        keeps_dtypes=True,
        ignored=-100,
    )
)
