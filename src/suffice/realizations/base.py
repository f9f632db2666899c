"""What a realization is, and what is formed once when one is taken at some states."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import BudgetError, Budgets
from suffice.contracts.base import Contract, Needs
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.family import Family, SoftmaxFamily
from suffice.contracts.sensitivity import Sensitivity
from suffice.numerics.outward import above, below
from suffice.numerics.softmax import at_class
from suffice.words import Departure, Scope

Made = TypeVar("Made")

__all__ = ["After", "Realization", "Realized", "Wording", "chunks_of"]


@runtime_checkable
class Realization(Protocol):
    """What is used in place of the exact objective: a formula, a program, a quantised head.

    `words` says in a line what it is, for people; `record` is the same as plain data, which an audit writes down.
    """

    @property
    def scope(self) -> Scope:
        """What a certificate of it covers."""
        ...

    @property
    def words(self) -> str:
        """For people: what is realized, and how."""
        ...

    def at(self, states: Any) -> Realized:
        """This realization at some states, all at once: the caller cuts states into chunks."""
        ...

    def record(self) -> dict[str, Any]:
        """Plain data that tell this realization from every other."""
        ...


def chunks_of(realization: Realization, states: Any) -> Iterator[Any]:
    """The states in runs of rows: the realization's own, where it needs less memory a state, or the states'."""
    found: Iterator[Any] = getattr(realization, "chunks", lambda some: some.chunks())(states)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What an explanation calls the parts of a state: those of a von Mises-Fisher objective, unless told otherwise."""

    feature: str = "|f|"
    largest: str = "largest endpoint gap"
    unit: str = "gap"
    allowances: str = "the pair's allowances"
    remedy: str = "a higher order"
    tie: str = "the two best scores are tied"


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """What comes after the scores: absolute errors of loss, probabilities (TV) and gradient, and of log-probabilities.

    Without the last there is no bound on KL, which is that of the softmax of the returned log-probabilities.
    """

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]
    log_probabilities: Float[Tensor, "queries classes"] | None = None

    def __getitem__(self, rows: Tensor) -> After:
        """That of some rows."""
        of_logs = None if self.log_probabilities is None else self.log_probabilities[rows]
        return After(
            loss=self.loss[rows],
            probability=self.probability[rows],
            gradient=self.gradient[rows],
            log_probabilities=of_logs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Bounds or a family that were formed for a contract."""

    contract: Contract
    made: Any

    def __getitem__(self, rows: Tensor) -> _Found:
        return _Found(contract=self.contract, made=self.made[rows])


class Realized(ABC):
    """One realization at some states. Each part is formed when it is first asked for, and once.

    A subclass gives the head and two kinds of allowances: its own, and those of the unit family. Attributes are one
    entry a state, so that `realized[rows]` takes along what is formed already; those that are not are in `_shared`, or
    in `_left_behind`.
    What is `after` the scores is zero unless it is set, and all states are inside unless `status` says otherwise.
    """

    _shared: ClassVar[frozenset[str]] = frozenset()
    # attributes that are formed anew for some rows
    _left_behind: ClassVar[frozenset[str]] = frozenset()
    # whether it is one softmax, which can be explained class by class, and in which words
    by_class: ClassVar[bool] = True
    wording: ClassVar[Wording] = Wording()
    # the budgets that there is a bound for
    covers: ClassVar[frozenset[str]] = frozenset({"loss", "probability", "gradient", "kl", "prediction"})

    states: Any
    # whether bounds on KL are formed as well
    divergence: bool = False
    after: After | None = None
    status: np.ndarray[Any, Any] | None = None
    # the numbers that a program has returned, where one was executed
    loss: Float[Tensor, " queries"] | None = None
    gradient: Float[Tensor, "queries dim"] | None = None

    @property
    def unit_words(self) -> str:
        """What b of the unit family is a bound on, in words for a page."""
        return "error of the unit family"

    @abstractmethod
    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """The approximate log-probabilities, with the distances if they are needed."""

    @abstractmethod
    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """Proven allowances for all of its errors up to the scores, with matched gaps if they are needed."""

    @abstractmethod
    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """The unit family at b = 1."""

    def of_family(self, family: str) -> Self:
        """The same with another unit family, where there are several."""
        raise ValueError(f"Expected no family, of which {type(self.states).__name__} have one only, but got {family!r}")

    def beside(self, _needs: Needs = Needs.NOTHING) -> Allowances | None:
        """The part of its own allowances that is there beside the unit family, whatever b."""
        return None

    def simple(self) -> Allowances:
        """Allowances that are cheaper to form than its own and never less: where a cascade begins."""
        return self.own()

    def refuse(self, budgets: Budgets) -> None:
        """Raise if there is a budget that this objective has no bound for."""
        missing = [name for name in budgets.names if name not in self.covers]
        if missing:
            raise BudgetError(
                f"Expected budgets in {sorted(self.covers)}, for which {type(self.states).__name__} have a bound, "
                f"but got {missing}; leave them out"
            )

    def asked(self, budgets: Budgets) -> Self:
        """The same, ready for these budgets; raises if there is one that this objective has no bound for."""
        self.refuse(budgets)
        if self.divergence or budgets.kl is None:
            return self
        other = copy.copy(self)
        for name in [name for name in vars(other) if name.startswith("_found_")]:
            del vars(other)[name]
        other.divergence = True
        return other

    def _asked_head(self, needs: Needs) -> SoftmaxHead:
        """The head, with what a bound on KL needs where there is a budget on it."""
        head = self.head(needs)
        if not self.divergence:
            return head
        return replace(head, divergence=True, log_after=None if self.after is None else self.after.log_probabilities)

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: Tensor) -> Self:
        """The same for some rows."""
        part = object.__new__(type(self))
        for name, value in vars(self).items():
            if name in self._left_behind:
                continue
            if isinstance(value, bool):
                part.__dict__[name] = value
                continue
            index = rows.numpy(force=True) if isinstance(value, np.ndarray) else rows
            part.__dict__[name] = value if value is None or name in self._shared else value[index]
        return part

    @property
    def like(self) -> Float[Tensor, " queries"]:
        """One float64 number a state, on the states' device."""
        return self.head().gradient_scale

    def described(self) -> dict[str, Float[Tensor, " queries"]]:
        """What an audit writes down about the states themselves, one number each."""
        head = self.head()
        return {"target_probability": at_class(head.log_probabilities, head.target).exp()}

    @property
    def inside(self) -> Bool[Tensor, " queries"] | None:
        """Where the realization stayed inside of what its allowances are proved for; None if it cannot leave."""
        if self.status is None:
            return None
        return torch.from_numpy(self.status == Departure.INSIDE).to(self.like.device)

    def bounds(self, contract: Contract, allowances: Allowances | None = None) -> Bounds:
        """A contract at these (its own) allowances, plus what comes after the scores; infinite where it left."""
        if allowances is not None:
            return self.completed(contract.bounds(self._asked_head(contract.needs), allowances))
        # formed once: a certificate and the last tier of a cascade ask the same
        return self.completed(self._once("bounds", contract, lambda: self._own_bounds(contract)))

    def _own_bounds(self, contract: Contract) -> Bounds:
        """The contract at its own allowances, before anything comes after the scores."""
        return self._own_softmax(contract).at_one()

    def _own_softmax(self, contract: Contract) -> SoftmaxFamily:
        needs = contract.needs
        return self._once(
            "own",
            contract,
            lambda: SoftmaxFamily(contract=contract, head=self._asked_head(needs), unit=self.own(needs)),
        )

    def _once(self, what: str, contract: Contract, form: Callable[[], Made]) -> Made:
        """What was formed for this contract, or is now."""
        name = f"_found_{what}_{contract.name}"
        kept: _Found | None = vars(self).get(name)
        if kept is None or kept.contract is not contract:
            kept = vars(self)[name] = _Found(contract=contract, made=form())
        return kept.made  # type: ignore[no-any-return]

    def completed(self, bounds: Bounds) -> Bounds:
        """A contract's bounds with what comes after the scores."""
        after, inside = self.after, self.inside
        if after is None and inside is None:
            return bounds

        def total(name: str) -> Tensor:
            bound: Tensor = getattr(bounds, name)
            found = bound if after is None else above(bound + getattr(after, name))
            kept = found if inside is None else torch.where(inside, found, torch.inf)
            return kept.nan_to_num(nan=torch.inf, posinf=torch.inf)

        use, kl = bounds.margin_use, bounds.kl
        if kl is not None and inside is not None:
            kl = torch.where(inside, kl, torch.inf)
        return Bounds(
            loss=total("loss"),
            probability=total("probability"),
            gradient=total("gradient"),
            margin_use=use if inside is None else torch.where(inside, use, torch.inf),
            kl=kl,
        )

    def pieces(self, budgets: Budgets, contract: Contract) -> Iterator[tuple[Tensor, Realized]]:
        """Rows, and what certifies them: itself, unless some rows are certified in another way."""
        del budgets, contract
        yield torch.arange(len(self)), self

    def own_family(self, contract: Contract) -> Family:
        """Multiples of all of its own allowances: their inverse is the headroom."""
        return self._own_softmax(contract)

    def unit_family(self, contract: Contract) -> Family:
        """Multiples of the unit family, beside what is there anyway: their inverse is the tolerance."""

        def form() -> SoftmaxFamily:
            needs = contract.needs
            head = self._asked_head(needs)
            return SoftmaxFamily(contract=contract, head=head, unit=self.unit(needs), beside=self.beside(needs))

        return self._once("unit", contract, form)

    @property
    def unit_reach(self) -> float:
        """How far, a unit of b, the other side's class-gradient vectors may be outside of what H bounds.

        Zero where H bounds the vectors of every objective that the unit family is about.
        """
        return 0.0

    def sensitivity(self, contract: Contract) -> Sensitivity:
        """How fast the bounds grow along the unit family, to first order."""
        return self.unit_family(contract).slopes()

    def left(self, budgets: Budgets) -> tuple[Budgets, Bool[Tensor, " queries"] | None]:
        """What is left of the budgets for the scores, rounded down, and where anything is (None: everywhere)."""
        after, inside = self.after, self.inside
        if after is None:
            return budgets, inside
        left: dict[str, Tensor] = {}
        some = torch.ones_like(after.loss, dtype=torch.bool) if inside is None else inside.clone()
        for name, limit in budgets.limits(after.loss).items():
            if name == "kl":
                # its bound has what comes after the scores in it
                left[name] = limit
                continue
            # a bound of the scores within the rest is in the budget after `above` in `completed`
            rest = below(below(limit)) - getattr(after, name)
            some &= rest > 0
            left[name] = torch.where(rest > 0, rest, 1.0)
        return Budgets(**left, prediction=budgets.prediction, estimated=budgets.estimated), some
