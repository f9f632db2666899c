"""The conditioned audit of many states in one fused pass: loss, bounds, b* and verdict at the cost of the product."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.series import MOST_MASS, Sums, moments, sums_over_classes
from suffice.numerics.compensated import squared_radius, two_product
from suffice.numerics.outward import above
from suffice.numerics.rounding import unit_roundoff
from suffice.numerics.softmax import class_mask
from suffice.pairs import ladder
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import ClosedForm
from suffice.pairs.roundings import formula_roundings
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.geometry_error import gap_roundings
from suffice.states import States
from suffice.tolerances.series import settle
from suffice.tolerances.tolerance import tolerance

__all__ = ["FusedAudit", "chunk_rows", "conditioned_audit"]

# Entries of a working tensor for which fused code is fastest, measured (eager code likes less).
_CHUNK_ENTRIES = {"eager": 65_536, "compiled": 524_288}
# With fewer rows the product becomes a pass over the directions' memory.
_LEAST_ROWS = 64
# Up to this score allowance the enclosures of the bounds are relatively narrower than 1e-9: 16 * (5e-6)^2 = 4e-10.
_LARGEST_ALLOWANCE = 5e-6
# Up to this relative error of an r_j^2 the widening of allowances is linear in it, to a factor 1.00001.
_LARGEST_RADIUS_ERROR = 1e-6
# Rows whose sums over classes are kept at one time.
_BLOCK_ROWS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedAudit:
    """What `conditioned_audit` found, state by state; `direct` marks rows that the series could not settle."""

    loss: Float[Tensor, " queries"]
    loss_bound: Float[Tensor, " queries"]
    probability_bound: Float[Tensor, " queries"]
    gradient_bound: Float[Tensor, " queries"]
    b: Float[Tensor, " queries"]
    upper: Float[Tensor, " queries"]
    certified: Bool[Tensor, " queries"]
    direct: Bool[Tensor, " queries"]
    scope: str = "analytic"


def conditioned_audit(states: States, budgets: Budgets, order: int = 2, *, mode: str = "eager") -> FusedAudit:
    """Loss, conditioned bounds at the closed-form allowance, b* to 1e-9 and verdict for `DebyePair(order)`.

    The same numbers as `evaluate`, `certify` and `tolerance` with the conditioned contract (bounds to the width of
    their enclosures, about 1e-10), in two passes over classes. mode "compiled" fuses them with torch.compile, which
    takes about 20 s once for each order, and falls back to "eager" with a warning where there is no compiler.
    """
    if budgets.prediction:
        raise ValueError("Expected budgets on loss, probability or gradient only; for prediction use sf.certify")
    if mode not in _CHUNK_ENTRIES:
        raise ValueError(f"Expected mode in {sorted(_CHUNK_ENTRIES)}, but got {mode!r}")
    if mode == "compiled" and shutil.which("g++") is None and shutil.which("clang++") is None:
        warnings.warn("no C++ compiler for torch.compile was found; running eager", RuntimeWarning, stacklevel=2)
        mode = "eager"
    if not len(states):
        raise ValueError("Expected at least one state, but got none")
    # written block by block: beyond the outputs, memory does not grow with the number of states
    numbers = [torch.empty_like(states.temperature) for _ in range(6)]
    flags = [torch.empty_like(states.labels, dtype=torch.bool) for _ in range(2)]
    for start in range(0, len(states), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        part = states[block]
        limits = budgets[block].limits(part.temperature)
        for column, values in zip((*numbers, *flags), _block(part, limits, order, mode), strict=True):
            column[block] = values
    loss, loss_bound, probability_bound, gradient_bound, b, upper = numbers
    return FusedAudit(
        loss=loss,
        loss_bound=loss_bound,
        probability_bound=probability_bound,
        gradient_bound=gradient_bound,
        b=b,
        upper=upper,
        certified=flags[0],
        direct=flags[1],
    )


_BOUNDS = ("loss", "probability", "gradient")


class Softmax(NamedTuple):
    """A row's largest score, its target score, its largest |score|, and how far a score and a square may be off.

    `radius_error` is the largest relative error of an r_j^2.
    """

    peak: Float[Tensor, " queries"]
    target: Float[Tensor, " queries"]
    largest: Float[Tensor, " queries"]
    score_error: Float[Tensor, " queries"]
    radius_error: Float[Tensor, " queries"]


class Rounding(NamedTuple):
    """Relative errors of 2 k mu.phi, to k |phi|, of |phi|^2, and of a score, to |s_r - s_k| (8.2, 8.3)."""

    product: float
    square: float
    formula: float


Columns = tuple[Softmax, Sums, Sums]


def _block(states: States, limits: dict[str, Tensor], order: int, mode: str) -> tuple[Tensor, ...]:
    """The columns of `FusedAudit` for one block of rows."""
    decide = _compiled_decide() if mode == "compiled" else _decide
    columns = _sums(states, order, mode)
    loss, *bounds, b, upper, certified, direct = decide(
        *columns, 1 / states.temperature, limits, states.bank.num_classes
    )
    rows = direct.nonzero().squeeze(1)
    if len(rows):
        _directly(states, limits, order, rows, loss, dict(zip(_BOUNDS, bounds, strict=True)), b, upper, certified)
    return (loss, *bounds, b, upper, certified, direct)


def _decide(
    softmax: Softmax,
    uniform_sums: Sums,
    own_sums: Sums,
    scale: Tensor,
    limits: dict[str, Tensor],
    num_classes: int,
) -> tuple[Tensor, ...]:
    """Loss, bounds, b*, verdict and the rows that must be evaluated directly, from the sums over classes."""
    loss = softmax.peak + torch.log(uniform_sums.total) - softmax.target
    u = torch.finfo(loss.dtype).eps / 2
    # as SoftmaxHead.slack of `realize_contrastive`; x e^x is above expm1(x), also where that is compiled
    log_error = 2 * softmax.score_error + u * (4 * softmax.largest + 2 * num_classes + 40)
    slack = 3 * log_error * torch.exp(3 * log_error) + 16 * (num_classes + 500) * u
    uniform, own = moments(uniform_sums, scale), moments(own_sums, scale)
    inverse, settled = settle(uniform, limits, slack)
    enclosures = own.enclosures(_BOUNDS, torch.ones_like(scale))
    # outward: a product with the scale that underflowed is the smallest normal number
    least = torch.finfo(loss.dtype).tiny
    bounds = {
        name: each.upper.clamp_min(least) * (1 + 3 * slack) for name, each in zip(_BOUNDS, enclosures, strict=True)
    }
    certified = torch.stack([bounds[name] <= limit for name, limit in limits.items()]).all(dim=0)
    direct = ~settled | (own.peak > MOST_MASS) | ~(own.largest <= _LARGEST_ALLOWANCE)
    direct |= ~(softmax.radius_error <= _LARGEST_RADIUS_ERROR) | ~torch.isfinite(slack)
    return (loss, *bounds.values(), inverse.accepted, inverse.rejected, certified, direct)


def _sums(states: States, order: int, mode: str) -> Columns:
    """The softmax and the sums of both families of allowances, chunk by chunk."""
    bank, features, dtype = states.bank, states.features, states.features.dtype
    envelope = ClosedForm(order)
    kernel = _compiled_kernel(order) if mode == "compiled" else _kernel(order)
    k, nu = bank.concentrations, bank.nu
    # everything that depends on the class alone, once
    at = ladder.endpoint(order, nu, torch.sqrt(k * k + nu * nu))
    rounding = Rounding(
        product=2 * above(gap_roundings(bank.dim, dtype, dtype, "proved")[0]),
        square=above(gap_roundings(bank.dim, dtype, dtype, "proved")[1]),
        formula=1.001 * formula_roundings(order, nu) * unit_roundoff(dtype),
    )
    classes = (bank.biases, k, two_product(k, k), at, envelope.outward_constant(nu, dtype), rounding)
    transposed = bank.directions.T
    rows = chunk_rows(bank.num_classes, mode)
    # a buffer that every chunk reuses: fresh memory costs as much as the arithmetic
    products = features.new_empty(min(rows, len(states)), bank.num_classes)
    inverse_tau = (1 / states.temperature)[:, None]
    squares = torch.linalg.vecdot(features, features)[:, None] * inverse_tau * inverse_tau
    parts = []
    for start in range(0, len(states), rows):
        part = slice(start, start + rows)
        labels = states.labels[part]
        product = torch.mm(features[part], transposed, out=products[: len(labels)])
        parts.append(kernel(product, squares[part], inverse_tau[part], labels, *classes))
    joined: Columns = pytree.tree_map(lambda *columns: torch.cat(columns), *parts)
    return joined


def chunk_rows(num_classes: int, mode: str) -> int:
    """How many states are worked on together."""
    return max(_LEAST_ROWS, _CHUNK_ENTRIES[mode] // num_classes)


Kernel = Callable[..., tuple[Any, ...]]


@cache
def _compiled_kernel(order: int) -> Kernel:
    compiled: Kernel = torch.compile(_kernel(order), dynamic=True, fullgraph=True)
    return compiled


@cache
def _compiled_decide() -> Kernel:
    compiled: Kernel = torch.compile(_decide, dynamic=True, fullgraph=True)
    return compiled


def _kernel(order: int) -> Kernel:
    """From the bare product f.mu to all sums over classes; pure tensor code, which fuses into one loop over rows."""
    envelope, unit = ClosedForm(order), unit_roundoff(torch.float64)

    def kernel(
        product: Float[Tensor, "queries classes"],
        phi_squared: Float[Tensor, "queries 1"],
        inverse_tau: Float[Tensor, "queries 1"],
        labels: Int[Tensor, " queries"],
        biases: Float[Tensor, " classes"],
        k: Float[Tensor, " classes"],
        square_of_k: tuple[Tensor, Tensor],
        at: ladder.Endpoint,
        constant: float,
        rounding: Rounding,
    ) -> Columns:
        gaps = torch.maximum(product * inverse_tau * (2 * k) + phi_squared, -square_of_k[0])
        r_squared = squared_radius(k, gaps, square_of_k)
        r, s_r = torch.sqrt(r_squared), torch.sqrt(r_squared + at.nu * at.nu)
        delta = gaps / (s_r + at.radius)
        q = ladder.difference_from_radii(at, s_r, delta) + biases
        # what the exact square may differ (docs/theory, 8.2); where it is not small the row is evaluated directly
        length = torch.sqrt(phi_squared) * (1 + rounding.square) + 1e-150
        of_gap = length * (rounding.product * k + rounding.square * length) + unit * gaps.abs() + 1e-290 * (k + length)
        clamped = gaps <= (4 * unit - 1) * square_of_k[0]
        of_gap = of_gap + torch.where(clamped, 4 * unit * square_of_k[0], 0.0)
        # of r^2, past the roundings of the root
        relative = above(of_gap) / r_squared + 16 * unit
        # the exact r is at least (1 - relative) r
        g = (gaps.abs() + of_gap) / (r + k) * (1 + 1.00001 * relative)
        peak = q.amax(dim=1, keepdim=True)
        weights = torch.exp(q - peak)
        total = weights.sum(dim=1, keepdim=True)
        is_target = class_mask(labels, q.shape[1])
        inverse_r = 1 / s_r
        d, a = envelope.from_radii(constant, r, at.inverse, inverse_r, delta.abs())
        moved = 0.50001 * constant * of_gap
        for _ in range(envelope.order + 2):
            moved = moved * inverse_r
        d, a = d + moved, a * (1 + (envelope.order + 3) * relative)
        score_error = 0.50001 * of_gap / (at.nu + s_r) + moved + rounding.formula * delta.abs() + unit * q.abs()
        # nothing but sums and maxima leave this loop: work on single rows would keep inductor from fusing it
        softmax = Softmax(
            peak=peak.squeeze(1),
            target=torch.where(is_target, q, 0.0).sum(dim=1),
            largest=q.abs().amax(dim=1),
            score_error=score_error.amax(dim=1),
            radius_error=relative.amax(dim=1),
        )
        uniform = sums_over_classes(weights, total, g, None, is_target)
        return softmax, uniform, sums_over_classes(weights, total, d, a, is_target)

    return kernel


def _directly(
    states: States,
    limits: dict[str, Tensor],
    order: int,
    rows: Tensor,
    loss: Tensor,
    bounds: dict[str, Tensor],
    b: Tensor,
    upper: Tensor,
    certified: Tensor,
) -> None:
    """Evaluate the rows that the series left open, and write their numbers in."""
    pair = DebyePair(order=order, envelope=ClosedForm(order))
    part = states[rows]
    each = {name: limit[rows] for name, limit in limits.items()}
    some = Budgets(**each)  # type: ignore[arg-type]
    result = tolerance(part, some, pair, "conditioned")
    b[rows], upper[rows] = result.b, result.upper
    done = 0
    for chunk in part.chunks():
        realized = realize_contrastive(chunk, pair)
        exact = realized.bounds(CONDITIONED)
        where = rows[done : done + len(chunk)]
        loss[where] = -realized.head().log_probabilities.gather(1, chunk.labels[:, None]).squeeze(1)
        for name in _BOUNDS:
            bounds[name][where] = getattr(exact, name)
        done += len(chunk)
    certified[rows] = torch.stack([bounds[name][rows] <= limit for name, limit in each.items()]).all(dim=0)
