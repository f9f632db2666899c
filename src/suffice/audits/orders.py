"""Which orders of the ladder would do at some states, and with how much headroom: those of one geometry, at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.audits.plan import Plan
from suffice.budgets import accepts
from suffice.certificates.enclosure import cheaply_certified, cheaply_decided
from suffice.contracts.conditioned import CONDITIONED
from suffice.objectives.base import Objective
from suffice.pairs.constants import MAX_ORDER, valid_orders
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import AnalyticRealized
from suffice.realizations.base import Realized
from suffice.realizations.executed.realization import ExecutedRealized
from suffice.realizations.orders import Ladder, ladder_at, picked
from suffice.tolerances.invert import invert
from suffice.tolerances.tolerance import headroom
from suffice.words import Verdict

__all__ = ["ORDERS", "Asked", "ask_orders", "meets", "order_columns"]

ORDERS = tuple(range(1, MAX_ORDER + 1))
Columns = dict[str, np.ndarray[Any, Any]]
# Entries of one order in a block; all orders of it are in one tensor.
_BLOCK = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Of every order its headroom by the conditioned contract, and whether it is certified, but for the plan's own.

    `b_conditioned` is b* of the conditioned contract with the plan's order, where it came along.
    """

    rooms: dict[int, Float[Tensor, " queries"]]
    certified: dict[int, Bool[Tensor, " queries"]]
    b_conditioned: Float[Tensor, " queries"] | None = None


def ask_orders(realized: Realized, states: Objective, plan: Plan) -> Asked | None:
    """What the conditioned contract and the plan's say of every order; only a pair has orders."""
    if plan.given is not None:
        return None
    valid = tuple(order for order in ORDERS if order in valid_orders(states.dim / 2 - 1))
    if isinstance(realized, AnalyticRealized):
        return _at_once(realized, plan, valid)
    return _one_by_one(realized, states, plan, valid)


def order_columns(asked: Asked | None, plan: Plan, verdict: np.ndarray[Any, Any]) -> Columns:
    """Which orders are certified, and the headroom of each; the plan's own has the verdict."""
    if asked is None:
        return {}
    out: Columns = {}
    cheapest = np.zeros(len(verdict), dtype=np.int64)
    for order in ORDERS:
        room = np.full(len(verdict), np.nan)
        certified = np.zeros(len(verdict), dtype=bool)
        if order == plan.order:
            certified = verdict == Verdict.CERTIFIED
        elif order in asked.certified:
            certified = asked.certified[order].numpy(force=True)
        if order in asked.rooms:
            room = asked.rooms[order].numpy(force=True)
        out[f"headroom_{order}"] = room
        out[f"certified_{order}"] = certified
        cheapest = np.where((cheapest == 0) & certified, order, cheapest)
    return {**out, "cheapest_order": cheapest}


def _at_once(realized: AnalyticRealized, plan: Plan, orders: tuple[int, ...]) -> Asked:
    """Headrooms by one inversion for all orders, and verdicts from these as far as they go, block by block of rows."""
    rows = max(1, _BLOCK // realized.states.num_classes)
    # blocks take it along, and do not form probabilities of their own for it
    realized.unit()
    parts = [_at_some(realized.part(slice(i, i + rows)), plan, orders) for i in range(0, len(realized), rows)]
    if len(parts) == 1:
        return parts[0]
    return Asked(
        rooms={n: torch.cat([part.rooms[n] for part in parts]) for n in orders},
        certified={n: torch.cat([part.certified[n] for part in parts]) for n in orders if n != plan.order},
        b_conditioned=torch.cat([part.b_conditioned for part in parts if part.b_conditioned is not None]),
    )


def _at_some(realized: AnalyticRealized, plan: Plan, orders: tuple[int, ...]) -> Asked:
    made = ladder_at(realized, orders, plan.order)
    inverse = invert(made.family(CONDITIONED, divergence=plan.budgets.kl is not None), plan.budgets)
    all_rooms = torch.where(torch.isinf(inverse.rejected), torch.inf, inverse.accepted)
    rooms = {order: all_rooms[made.rows(order)] for order in orders}
    others = [order for order in orders if order != plan.order]
    return Asked(
        rooms=rooms,
        certified={order: _decided(realized, plan, made, order, rooms[order]) for order in others},
        b_conditioned=inverse.accepted[made.unit_rows],
    )


def _decided(
    realized: AnalyticRealized, plan: Plan, made: Ladder, order: int, room: Float[Tensor, " queries"]
) -> Bool[Tensor, " queries"]:
    """The plan's verdict for an order: by its headroom, by true errors where next terms show them, by the contract.

    True errors come before a contract that is tighter than the conditioned one: they settle nearly everything at the
    price of one evaluation, both ways.
    """
    pair, chosen = DebyePair(order=order), plan.chosen

    def by_contract(rows: Tensor) -> Bool[Tensor, " rows"]:
        return accepts(plan.budgets.shares(picked(realized, rows, pair).asked(plan.budgets).bounds(chosen)))

    everywhere = torch.arange(len(realized), device=room.device)
    below = chosen is CONDITIONED or CONDITIONED.name in chosen.never_above
    certified = meets(plan, room) if below else by_contract(everywhere)
    rows = everywhere[~certified]
    if len(rows):
        part = picked(realized, rows, pair)
        within, over = cheaply_decided(part, order, made.head[_places(made, order, rows)], plan.budgets)
        certified[rows] = within
        rows = rows[~within & ~over]
    if len(rows) and below and chosen is not CONDITIONED:
        certified[rows] = by_contract(rows)
    return certified


def _places(made: Ladder, order: int, rows: Tensor) -> Tensor:
    """Where some of an order's states are among those of all orders."""
    start: int = made.rows(order).start
    return rows + start


def meets(plan: Plan, room: Float[Tensor, " queries"]) -> Bool[Tensor, " queries"]:
    """Where a headroom is enough: the margin test is strict, the budgets are not."""
    return torch.gt(room, 1) if plan.prediction else torch.ge(room, 1)


def _one_by_one(realized: Realized, states: Objective, plan: Plan, orders: tuple[int, ...]) -> Asked:
    """Each order realized by itself: executed, or of an objective that is no single softmax."""
    rooms, certified = {}, {}
    for order in orders:
        own = order == plan.order
        made = realized if own else _under(realized, states, plan, DebyePair(order=order))
        rooms[order] = headroom(made.asked(plan.budgets), plan.budgets, CONDITIONED)
        if not own:
            certified[order] = _certified(made, plan, rooms[order])
    return Asked(rooms=rooms, certified=certified)


def _under(realized: Realized, states: Objective, plan: Plan, pair: DebyePair) -> Realized:
    """Another order at the same states: at the same geometry, or executed."""
    if isinstance(realized, ExecutedRealized):
        return replace(plan.realization, pair=pair).at(states)  # type: ignore[type-var]
    under: Realized = realized.under(pair)  # type: ignore[attr-defined]
    return under


def _certified(realized: Realized, plan: Plan, room: Float[Tensor, " queries"]) -> Bool[Tensor, " queries"]:
    """The plan's verdict for another order, from its headroom by the conditioned contract as far as that goes."""
    certified = meets(plan, room)
    if plan.chosen is not CONDITIONED and CONDITIONED.name not in plan.chosen.never_above:
        certified = torch.zeros_like(certified)
    rows = (~certified).nonzero().squeeze(1)
    if len(rows) and plan.chosen is not CONDITIONED:
        certified[rows] = accepts(plan.budgets.shares(realized[rows].asked(plan.budgets).bounds(plan.chosen)))
    rows = (~certified).nonzero().squeeze(1)
    if len(rows):
        certified[rows] = torch.from_numpy(cheaply_certified(realized[rows], plan.budgets)).to(certified.device)
    return certified
