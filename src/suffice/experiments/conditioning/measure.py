"""What becomes of one primitive error when the temperature or the target's weight moves: errors by Arb, and bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from suffice.budgets import Budgets
from suffice.certificates.certify import certify
from suffice.experiments.saved import Array, Columns, Saved, Tick
from suffice.objectives.contrastive import evaluate
from suffice.pairs.debye import DebyePair
from suffice.states import ClassBank, States
from suffice.truth.rigorous import RigorousState, as_float

__all__ = ["Conditioning", "Control", "coordinate_control", "measure_conditioning", "target_control"]

_PAIR = DebyePair(order=2)
_ANY = Budgets(loss=1.0)
_CONTRACTS = ("geometry", "conditioned", "centered")
_POWERS = range(-3, 5)
_LOG_ODDS = np.linspace(-6.0, 22.0, 29)
_MOST_CLASSES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One state under the coordinate control: temperatures, actual errors, geometry-only bounds."""

    id: str
    dim: int
    columns: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditioning:
    """One or two states under the coordinate control, and the first of them under the target control.

    `away` is 1 - target probability, `exactly` whether error times temperature is one float64 number, `fell` the factor
    by which the biases change the error, `broken` the bounds below their error.
    """

    controls: list[Control]
    target: Columns
    away: Array
    exactly: bool
    fell: float
    broken: int


def measure_conditioning(saved: Saved, tick: Tick) -> Conditioning:
    """Both controls, at one state of each of the two smallest dimensions."""
    chosen = _chosen(saved)
    if not chosen:
        raise ValueError(f"Expected states with at most {_MOST_CLASSES} classes for fig:conditioning, but got none")
    controls = []
    for one in chosen[:2]:
        columns = saved.remembered(f"coordinate/{one.id}", partial(coordinate_control, one.state))
        controls.append(Control(id=one.id, dim=one.dim, columns=columns))
        tick(1)
    target = saved.remembered(f"target/{chosen[0].id}", partial(target_control, chosen[0].state))
    tick(1)
    curves = [control.columns for control in controls]
    broken = sum(int((curve["actual"] > curve["geometry"]).sum()) for curve in curves)
    broken += sum(int((target["actual"] > target[name]).sum()) for name in _CONTRACTS)
    # the exact complement, where 1 - p would have lost its digits
    complement = np.exp(-np.log1p(np.exp(_LOG_ODDS)))
    return Conditioning(
        controls=controls,
        target=target,
        away=np.where(target["target_probability"] > 0.5, complement, 1 - target["target_probability"]),
        exactly=all((c["actual"] * c["tau"] == c["actual"][0] * c["tau"][0]).all() for c in curves),
        fell=float(target["actual"].max() / target["actual"].min()),
        broken=broken,
    )


def coordinate_control(state: States) -> Columns:
    """f and tau times the same power of two: every scalar input keeps its bits, the gradient error scales by 1/tau."""
    taus, actual, certificate = [], [], []
    first = state.geometry()
    for power in _POWERS:
        scaled = States(state.bank, state.features * 2.0**power, state.labels, state.temperature * 2.0**power)
        geometry = scaled.geometry()
        if not (torch.equal(geometry.radii, first.radii) and torch.equal(geometry.squared_gaps, first.squared_gaps)):
            raise ArithmeticError("a power of two changed the geometry")
        taus.append(scaled.temperature.item())
        actual.append(as_float(RigorousState(scaled, 2).errors().gradient))
        certificate.append(certify(scaled, _ANY, _PAIR, "geometry").gradient.item())
    return {"tau": np.array(taus), "actual": np.array(actual), "geometry": np.array(certificate)}


def target_control(state: States) -> Columns:
    """One bias on the target class of both sides: geometry, score errors and allowances stay, the weights move."""
    y, bank = int(state.labels), state.bank
    scores = evaluate(state, _PAIR).scores[0]
    others = torch.cat([scores[:y], scores[y + 1 :]]).logsumexp(dim=0)
    rigorous = RigorousState(state, 2)
    exact = [float(q.mid()) for q in rigorous.scores]
    rows = []
    for odds in _LOG_ODDS:
        shift = odds - float(scores[y] - others)
        biases = bank.biases.clone()
        biases[y] += shift
        moved = States(
            ClassBank(bank.directions, bank.concentrations, biases), state.features, state.labels, state.temperature
        )
        shifted = [q + (shift if j == y else 0.0) for j, q in enumerate(exact)]
        bounds = [certify(moved, _ANY, _PAIR, name).gradient.item() for name in _CONTRACTS]
        actual = as_float(rigorous.errors(shifted).gradient)
        rows.append((1 / (1 + math.exp(-odds)), actual, *bounds))
    names = ("target_probability", "actual", *_CONTRACTS)
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    dim: int
    id: str
    state: States


def _chosen(saved: Saved) -> list[_Chosen]:
    """One state a dimension: the middle one, in the order of the collection, of a bank that Arb can do in time."""
    found: dict[int, list[_Chosen]] = {}
    for batch in saved.batches():
        if batch.states.bank.num_classes <= _MOST_CLASSES:
            dim = batch.states.bank.dim
            some = [_Chosen(dim=dim, id=name, state=batch.states[i : i + 1]) for i, name in enumerate(batch.ids)]
            found.setdefault(dim, []).extend(some)
    return [found[dim][len(found[dim]) // 2] for dim in sorted(found)]
