"""Certified tolerances of saved states, in groups of dimension and temperature, some of them checked in Arb."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from flint import ctx

from suffice.budgets import Budgets
from suffice.experiments.saved import Array, Columns, Saved, Tick
from suffice.objectives.contrastive import evaluate
from suffice.pairs.debye import DebyePair
from suffice.states import States
from suffice.tolerances.tolerance import tolerance
from suffice.verify.exact_states import BITS, ExactState
from suffice.verify.stored import Bank

__all__ = ["SIZES", "Distribution", "measure_distribution", "tolerance_columns"]

SIZES = (1e-4, 1e-5)
_PAIR = DebyePair(order=2)
_MOST_GROUPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """All tolerances, the dimension of each state, rows by group, and how many b* Arb checked and found wrong."""

    columns: Columns
    dims: Array
    groups: dict[str, Array]
    checked: int
    wrong: int

    @property
    def joint(self) -> Array:
        """b* of the paper's contract at the joint budget 1e-5."""
        return self.columns["conditioned_joint_1e-05"]

    @property
    def broken(self) -> int:
        """What Arb found wrong, and states whose centred b* is below the conditioned one, which it never may be."""
        return self.wrong + int((self.columns["centered_joint_1e-05"] < self.joint * (1 - 1e-8)).sum())


def measure_distribution(saved: Saved, tick: Tick) -> Distribution:
    """Tolerances of every state, and Arb's opinion of some."""
    found = saved.columns("tolerances", tolerance_columns, tick)
    about = saved.described()
    checked, wrong = _arb_checks(saved, found)
    return Distribution(columns=found, dims=about["dim"], groups=_groups(about), checked=checked, wrong=wrong)


def _budgets(quantity: str, size: float) -> Budgets:
    return Budgets(loss=None if quantity == "gradient" else size, gradient=None if quantity == "loss" else size)


def tolerance_columns(states: States) -> Columns:
    """b* of the paper's contract for loss, joint and gradient budgets, its first-order prediction, the centred b*.

    And "away", what the target's probability lacks to one: it is small where a state is saturated.
    """
    found: Columns = {"away": -np.expm1(-evaluate(states, _PAIR).loss.numpy())}
    for size in SIZES:
        for quantity in ("loss", "joint", "gradient"):
            for contract in ("conditioned", "centered"):
                if quantity == "loss" and contract == "centered":
                    continue
                result = tolerance(states, _budgets(quantity, size), _PAIR, contract)
                found[f"{contract}_{quantity}_{size:g}"] = np.where(
                    result.status == "bounded", result.b.numpy(), np.inf
                )
                if contract == "conditioned" and quantity == "joint":
                    found[f"first_order_{size:g}"] = result.first_order.numpy()
    return found


def _arb_checks(saved: Saved, found: Columns) -> tuple[int, int]:
    """How many b* Arb has checked, and at how many B(b*) <= budget < B(b*(1 + 1e-6)) does not hold."""
    checked = wrong = 0
    for index, state in saved.spread():
        for contract in ("conditioned", "centered"):
            b = float(found[f"{contract}_joint_1e-05"][index])
            if not np.isfinite(b):
                continue
            kept = saved.remembered(f"b* in Arb/{contract}/{index}/{len(saved)}", partial(_in_arb, state, contract, b))
            checked += 1
            wrong += not (bool(kept["accepted"][0]) and bool(kept["rejected"][0]))
    return checked, wrong


def _in_arb(state: States, contract: str, b: float) -> Columns:
    """Whether the joint budget 1e-5 is kept at b, and is not a millionth above it."""
    arrays = (state.bank.directions, state.bank.concentrations, state.bank.biases)
    bank = Bank.of(*(array.numpy(force=True) for array in arrays))
    with ctx.workprec(BITS):
        exact = ExactState(bank, state.features[0].numpy(force=True), int(state.labels), state.temperature.item())
        at, above = (exact.bounds(2, contract, "uniform", np.array([x]), "plain") for x in (b, b * (1 + 1e-6)))
    return {
        "accepted": np.array([all(at[name].high[0] <= 1e-5 for name in ("loss", "gradient"))]),
        "rejected": np.array([any(above[name].low[0] > 1e-5 for name in ("loss", "gradient"))]),
    }


def _groups(about: Columns) -> dict[str, Array]:
    """Rows by dimension and temperature; by dimension alone where there are many temperatures (learned ones, say)."""
    pairs = sorted(set(zip(about["dim"].tolist(), about["temperature"].tolist(), strict=True)))
    if len(pairs) <= _MOST_GROUPS:
        return {
            f"p = {dim}, tau = {tau:g}": (about["dim"] == dim) & (about["temperature"] == tau) for dim, tau in pairs
        }
    return {f"p = {dim}": about["dim"] == dim for dim in sorted({dim for dim, _ in pairs})}
