"""Actual errors under rearranged probabilities: enclosed at every state, by Arb at some, against the extrema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from suffice.contracts.coupling import CouplingExtrema, coupling_extrema
from suffice.experiments.distribution.measure import tolerance_columns
from suffice.experiments.saved import Array, Columns, Saved, Tick, by_chunks
from suffice.numerics.softmax import at_class, log_softmax
from suffice.objectives.contrastive import class_scores
from suffice.pairs.debye import DebyePair
from suffice.states import States
from suffice.truth.errors import PrimitiveErrors, errors_at, primitive_errors
from suffice.truth.next_terms import SMALLEST_NU
from suffice.truth.rigorous import RigorousState

__all__ = [
    "BUDGETS",
    "PERMUTATIONS",
    "Rearrangement",
    "assignments",
    "measure_rearrangement",
    "rearrangement_columns",
]

PERMUTATIONS = ("identity", "shift by one", "shift by half", "reversal", "seed 3407")
BUDGETS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
# An enclosure whose radius is a larger part of its value than this is not good enough: Arb then.
_NARROW = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearrangement:
    """|loss change| and gradient error, states by assignments, and the first-order b* over the nonlinear one.

    `outside` counts the signed loss changes outside their extrema, `in_arb` the states whose enclosure was not narrow;
    Arb checked `checked` numbers of others and found `wrong` outside their enclosure.
    """

    dims: Array
    b: Array
    ratio: Array
    loss: Array
    gradient: Array
    outside: int
    in_arb: int
    checked: int
    wrong: int

    @property
    def usable_ratio(self) -> Array:
        """The ratio where both tolerances are bounded."""
        return self.ratio[np.isfinite(self.ratio)]

    def met(self, budget: float) -> dict[str, Array]:
        """Which assignments of which states keep a loss, a gradient and a joint budget."""
        loss, gradient = self.loss <= budget, self.gradient <= budget
        return {"loss": loss, "gradient": gradient, "joint": loss & gradient}


def measure_rearrangement(saved: Saved, tick: Tick) -> Rearrangement:
    """Tolerances, errors under every assignment, and what Arb says of some of them."""
    first = saved.columns("tolerances", tolerance_columns)
    found = saved.columns("rearrangement", rearrangement_columns, tick)
    checked, wrong = _arb_checks(saved, found)
    # both are sums over classes of nonnegative terms times rounded errors
    slack = found["loss_radius"] + 1e-12 * np.abs(found["loss"])
    outside = (found["loss"] < found["minus"][:, None] - slack) | (found["loss"] > found["plus"][:, None] + slack)
    return Rearrangement(
        dims=saved.described()["dim"],
        b=first["conditioned_joint_1e-05"],
        ratio=first["first_order_1e-05"] / first["conditioned_joint_1e-05"],
        loss=np.abs(found["loss"]),
        gradient=found["gradient"],
        outside=int(outside.sum()),
        in_arb=int(found["in_arb"].sum()),
        checked=checked,
        wrong=wrong,
    )


def _permutations(count: int) -> list[Tensor]:
    """sigma for `count` non-target classes, in the order of their names."""
    identity = torch.arange(count)
    return [
        identity,
        identity.roll(-1),
        identity.roll(-(count // 2)),
        identity.flip(0),
        torch.from_numpy(np.random.default_rng(3407).permutation(count)),
    ]


def assignments(states: States, errors: PrimitiveErrors) -> list[Tensor]:
    """log P^(sigma): target probability one half, the others' shares rearranged (app:fixed-target-permutation)."""
    log_pi = log_softmax(class_scores(states, errors.geometry, DebyePair(order=2)))
    log_p = log_softmax(log_pi - errors.scores.value)
    others = torch.arange(states.bank.num_classes - 1) + (
        torch.arange(states.bank.num_classes - 1) >= states.labels[:, None]
    ).to(torch.int64)
    shares = log_p.gather(1, others)
    shares = shares - shares.logsumexp(dim=1, keepdim=True)
    half = float(np.log(0.5))
    made = []
    for sigma in _permutations(shares.shape[1]):
        out = torch.full_like(log_p, half).scatter(1, others, half + shares[:, sigma])
        made.append(out)
    # the multisets are the same to the last bit, and so are entropy and exact top-two margin
    first = made[0].sort(dim=1).values
    if not all(torch.equal(first, other.sort(dim=1).values) for other in made):
        raise ArithmeticError("a rearrangement changed the multiset of probabilities")
    return made


def rearrangement_columns(states: States) -> Columns:
    """Signed loss change and gradient error of F_2 under each assignment, and the extrema of prop:ce-coupling.

    By enclosures, and by Arb where these are not narrow (all states of a small dimension).
    """
    return by_chunks(_columns, states)


def _columns(states: States) -> Columns:
    if states.bank.nu < SMALLEST_NU:
        raise ValueError(
            f"Expected dimensions of at least {int(2 * SMALLEST_NU + 2)} for the rearrangement, whose true errors come "
            f"from enclosures, but got {states.bank.dim}; leave it out with --only"
        )
    errors = primitive_errors(states, 2)
    made = assignments(states, errors)
    found = [errors_at(states, errors, log_p, given_exact=True) for log_p in made]
    out: dict[str, Tensor] = {
        "loss": torch.stack([f.loss_change.value for f in found], dim=1),
        "loss_radius": torch.stack([f.loss_change.radius for f in found], dim=1),
        "gradient": torch.stack([f.gradient.value for f in found], dim=1),
        "gradient_radius": torch.stack([f.gradient.radius for f in found], dim=1),
    }
    narrow = (out["loss_radius"] <= _NARROW * out["loss"].abs()) & (out["gradient_radius"] <= _NARROW * out["gradient"])
    judged = (~narrow.all(dim=1)).nonzero().squeeze(1).tolist()
    columns = {name: tensor.numpy() for name, tensor in out.items()}
    for i in judged:
        for name, column in _in_arb(states[i : i + 1], [log_p[i] for log_p in made]).items():
            columns[name][i] = column
    extrema = _extrema(errors.scores.value, made[0], states.labels)
    columns |= {"minus": extrema.minus.numpy(), "plus": extrema.plus.numpy()}
    columns["in_arb"] = np.isin(np.arange(len(states)), judged)
    return columns


def _extrema(e: Tensor, log_p: Tensor, y: Tensor) -> CouplingExtrema:
    """The smallest and largest signed loss change over all rearrangements, at target probability one half."""
    rest = log_p.scatter(1, y[:, None], torch.inf).sort(dim=1).values[:, :-1]
    others = e.scatter(1, y[:, None], torch.inf).sort(dim=1).values[:, :-1]
    # weights that underflow are nothing to a sum, but the function wants positive numbers
    weights = rest.exp().clamp_min(torch.finfo(e.dtype).tiny)
    return coupling_extrema(torch.full((len(y),), 0.5, dtype=e.dtype), at_class(e, y), weights, others)


def _in_arb(state: States, made: list[Tensor]) -> Columns:
    """Both errors of one state under each assignment, with radii that cover the rounding of the middle."""
    rigorous = RigorousState(state, 2)
    truths = [rigorous.errors(log_p.tolist()) for log_p in made]
    found = {}
    for name, balls in (("loss", [t.loss_change for t in truths]), ("gradient", [t.gradient for t in truths])):
        found[name] = np.array([float(ball.mid()) for ball in balls])
        found[f"{name}_radius"] = np.array([float(ball.rad()) for ball in balls]) + 1e-15 * np.abs(found[name])
    return found


def _arb_checks(saved: Saved, found: Columns) -> tuple[int, int]:
    """How many sampled numbers Arb has checked, and how many it found outside their enclosure."""
    checked = wrong = 0
    for index, state in saved.spread():
        made = [log_p[0] for log_p in assignments(state, primitive_errors(state, 2))]
        truth = saved.remembered(f"rearranged in Arb/{index}/{len(saved)}", partial(_in_arb, state, made))
        for name in ("loss", "gradient"):
            off = np.abs(truth[name] - found[name][index])
            wrong += int((off > found[f"{name}_radius"][index] * (1 + 1e-9) + truth[f"{name}_radius"]).sum())
            checked += len(off)
    return checked, wrong
