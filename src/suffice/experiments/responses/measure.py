"""Thresholds of the actual gradient response beside certified tolerances, some of them checked in Arb."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from flint import arb, ctx

from suffice.budgets import Budgets
from suffice.experiments.distribution.measure import SIZES, tolerance_columns
from suffice.experiments.response import Response, ramp_direction
from suffice.experiments.saved import Array, Columns, Saved, Tick, by_chunks
from suffice.experiments.worst_case import worst_direction
from suffice.pairs.debye import DebyePair
from suffice.pairs.perturbed import ramp
from suffice.realizations.analytic import realize_contrastive
from suffice.states import States
from suffice.tolerances.tolerance import tolerance
from suffice.truth.geometry import exact_geometry
from suffice.truth.rigorous import as_float
from suffice.truth.state import softmax_exponents

__all__ = ["GROUP", "Responses", "measure_response", "ramp_in_arb", "response_columns"]

_PAIR = DebyePair(order=2)
# dimension and temperature of the group that the paper shows by itself
GROUP = (512, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """The columns of `response_columns` and of `tolerance_columns`, the rows of the paper's group, Arb's checks."""

    columns: Columns
    certified: Columns
    group: Array
    checked: int
    wrong: int

    def ratio(self, name: str, contract: str, size: float) -> Array:
        """Response threshold over certified gradient tolerance: below one it would be a broken certificate."""
        ratio: Array = self.columns[f"{name}_{size:g}"] / self.certified[f"{contract}_gradient_{size:g}"]
        return ratio

    @property
    def covered(self) -> int:
        """States at which the contracts' assumption, an exact ratio of at most 1, holds up to the worst threshold.

        With the worst function of size b the exact ratio is at most A + b.
        """
        worst = self.columns["worst_1e-05"]
        return int((self.columns["largest_ratio"] + np.where(np.isfinite(worst), worst, 0) <= 1).sum())

    @property
    def broken(self) -> int:
        """States that fulfil the premise, and whose response is over the budget at the certificate already."""
        return int((~self.columns["kept"] & self.columns["premise"]).sum())


def measure_response(saved: Saved, tick: Tick) -> Responses:
    """Thresholds and tolerances of every state, and Arb's opinion of some."""
    found = saved.columns("responses", response_columns, tick)
    about = saved.described()
    checked, wrong = _arb_checks(saved, found)
    return Responses(
        columns=found,
        certified=saved.columns("tolerances", tolerance_columns),
        group=(about["dim"] == GROUP[0]) & (about["temperature"] == GROUP[1]),
        checked=checked,
        wrong=wrong,
    )


def response_columns(states: States) -> Columns:
    """Thresholds of the ramp F_2 - bH and of the worst function found, scanned from the centred certificate upwards.

    Below the certificate no function of size b can break the budget; that it does not at the certificate is checked.
    """
    return by_chunks(_columns, states)


def _columns(states: States) -> Columns:
    realized = realize_contrastive(states, _PAIR)
    geometry = realized.geometry
    # the premise of app:actual-response: with it the perturbed ratio stays within 1 for b up to 1
    ratio, slope = _PAIR.ratio(geometry.nu, geometry.radii), ramp.derivative(geometry.nu, geometry.radii)
    within = ((ratio >= 0) & (ratio <= 1) & (slope >= 0) & (slope <= 1)).all(dim=1)
    response = Response.of(realized)
    found: Columns = {"premise": within.numpy(), "largest_ratio": ratio.amax(dim=1).numpy()}
    kept = torch.ones(len(states), dtype=torch.bool)
    directions = {"ramp": ramp_direction(geometry), "worst": worst_direction(geometry, response)}
    for size in SIZES:
        start = tolerance(states, Budgets(gradient=size), _PAIR, "centered").b
        for name, direction in directions.items():
            threshold = response.threshold(direction, size, start)
            found[f"{name}_{size:g}"] = threshold.b.numpy()
            kept &= threshold.kept
    return {**found, "kept": kept.numpy()}


def _arb_checks(saved: Saved, found: Columns) -> tuple[int, int]:
    """How many ramp thresholds Arb has checked, and at how many the response is not the budget to 1e-6."""
    checked = wrong = 0
    for index, state in saved.spread():
        b = float(found["ramp_1e-05"][index])
        if np.isfinite(b):
            at = saved.remembered(f"ramp in Arb/{index}/{len(saved)}", partial(ramp_in_arb, state, b))
            checked += 1
            wrong += not abs(float(at["response"][0]) / 1e-5 - 1) < 1e-6
    return checked, wrong


def ramp_in_arb(state: States, b: float) -> Columns:
    """|gradient under F_2 - bH minus gradient under F_2| by plain subtraction in 300 bits."""
    y, geometry = int(state.labels), exact_geometry(state, 300)
    with ctx.workprec(300):
        nu, size = arb(geometry.nu), arb(b)
        sides: tuple[list[arb], list[arb]] = ([], [])
        slopes: tuple[list[arb], list[arb]] = ([], [])
        biases = state.bank.biases.tolist()
        scores = [q + arb(c) for q, c in zip(geometry.surrogate_differences(2), biases, strict=True)]
        ends = zip(geometry.k, geometry.squares, scores, geometry.surrogate_slopes(2), strict=True)
        for k, square, score, slope in ends:
            s_r, s_k = (nu * nu + square).sqrt(), (nu * nu + k * k).sqrt()
            for side, change in enumerate((arb(0), size)):
                sides[side].append(score - change * (s_r - s_k))
                slopes[side].append(slope - change / s_r)
        first, second = ([x / sum(e, arb(0)) for x in e] for e in map(softmax_exponents, sides))
        weights = [
            (q - (j == y)) * slopes[1][j] - (p - (j == y)) * slopes[0][j]
            for j, (p, q) in enumerate(zip(first, second, strict=True))
        ]
    return {"response": np.array([as_float(geometry.length(weights))])}
