"""The conditioned audit of many states in one fused pass: loss, bounds, b* and verdict at the cost of the product."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.compensated import squared_radius
from suffice.contracts.conditioned import conditioned_bounds
from suffice.pairs import ladder
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import ClosedForm
from suffice.states import States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.heads import own_allowances, prepare
from suffice.tolerances.moments import MOST_MASS, Moments, moments, settle
from suffice.tolerances.tolerance import tolerance

__all__ = ["FusedAudit", "conditioned_audit"]

# Entries of a working tensor for which fused code is fastest, measured (eager code likes less).
_CHUNK_ENTRIES = {"eager": 65_536, "compiled": 196_608}
# Up to this score allowance the enclosures of the bounds are relatively narrower than 1e-9: 16 * (5e-6)^2 = 4e-10.
_LARGEST_ALLOWANCE = 5e-6
# Rows whose sums over classes are kept at one time.
_BLOCK_ROWS = 16_384
_FIELDS = tuple(Moments.__dataclass_fields__)


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
    takes about 20 s once for each dimension, and falls back to "eager" with a warning where there is no compiler.
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
        limits = {name: budgets.rows(name, start, part.temperature) for name in budgets.names}
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


def _block(states: States, limits: dict[str, Tensor], order: int, mode: str) -> tuple[Tensor, ...]:
    """The columns of `FusedAudit` for one block of rows."""
    loss, slack, uniform, own = _sums(states, order, mode)
    scale = 1 / states.temperature
    inverse, settled = settle(uniform, limits, scale, slack)
    raised = 1 + 3 * slack
    enclosures = own.enclosures(_BOUNDS, torch.ones_like(scale), scale)
    bounds = {name: enclosure.upper * raised for name, enclosure in zip(_BOUNDS, enclosures, strict=True)}
    direct = ~settled | (own.peak > MOST_MASS) | (own.largest > _LARGEST_ALLOWANCE)
    b, upper = inverse.accepted, inverse.rejected
    rows = direct.nonzero().squeeze(1)
    if len(rows):
        b, upper, loss = b.clone(), upper.clone(), loss.clone()
        _directly(states, limits, order, rows, loss, bounds, b, upper)
    certified = torch.ones_like(direct)
    for name, limit in limits.items():
        certified &= bounds[name] <= limit
    return (loss, bounds["loss"], bounds["probability"], bounds["gradient"], b, upper, certified, direct)


_BOUNDS = ("loss", "probability", "gradient")


def _sums(states: States, order: int, mode: str) -> tuple[Tensor, Tensor, Moments, Moments]:
    """Loss, slack and the two sets of moments of every state, chunk by chunk."""
    bank = states.bank
    kernel = _compiled(order, bank.nu) if mode == "compiled" else _kernel(order, bank.nu)
    transposed = bank.directions.T
    rows = max(1, _CHUNK_ENTRIES[mode] // bank.num_classes)
    # buffers that every chunk reuses: fresh memory costs as much as the arithmetic
    points, products = states.features.new_empty(rows, bank.dim), states.features.new_empty(rows, bank.num_classes)
    parts = []
    for start in range(0, len(states), rows):
        labels = states.labels[start : start + rows]
        count = len(labels)
        u, product = points[:count], products[:count]
        torch.div(states.features[start : start + rows], states.temperature[start : start + rows, None], out=u)
        torch.mm(u, transposed, out=product)
        squares = torch.linalg.vecdot(u, u)[:, None]
        parts.append(kernel(product, squares, bank.concentrations, bank.biases, labels))
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    loss, slack = columns[:2]
    count = len(_FIELDS)
    return (
        loss,
        slack,
        Moments(**dict(zip(_FIELDS, columns[2 : 2 + count], strict=True))),
        Moments(**dict(zip(_FIELDS, columns[2 + count :], strict=True))),
    )


Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]


@cache
def _compiled(order: int, nu: float) -> Kernel:
    compiled: Kernel = torch.compile(_kernel(order, nu), dynamic=True)
    return compiled


def _kernel(order: int, nu: float) -> Kernel:
    """From the bare product u.mu to all sums over classes; pure tensor code."""
    envelope = ClosedForm(order)

    def kernel(
        product: Float[Tensor, "queries classes"],
        u_squared: Float[Tensor, "queries 1"],
        k: Float[Tensor, " classes"],
        biases: Float[Tensor, " classes"],
        labels: Int[Tensor, " queries"],
    ) -> tuple[Tensor, ...]:
        gaps = torch.maximum(product * (2 * k) + u_squared, -(k * k))
        r_squared = squared_radius(k, gaps)
        r = torch.sqrt(r_squared)
        s_k, s_r = torch.sqrt(k * k + nu * nu), torch.sqrt(r_squared + nu * nu)
        delta = gaps / (s_r + s_k)
        q = ladder.difference_from_radii(order, nu, s_k, s_r, delta) + biases
        # r + k = 0 only where the gap is 0 as well
        g = gaps.abs() / (r + k).clamp_min(torch.finfo(r.dtype).tiny)
        peak = q.amax(dim=1, keepdim=True)
        weights = torch.exp(q - peak)
        total = weights.sum(dim=1, keepdim=True)
        pi = weights / total
        loss = (peak + torch.log(total) - q.gather(1, labels[:, None])).squeeze(1)
        u = torch.finfo(q.dtype).eps / 2
        worst = (32 * g + 4 * q.abs() + 4 * biases.abs()).amax(dim=1)
        # as SoftmaxHead.slack with the log_error of `prepare`
        slack = 8 * u * (2 * worst + 2 * q.shape[1] + 16) + 16 * (q.shape[1] + 100) * u
        d, a = envelope.from_radii(nu, r, s_k, s_r, delta.abs())
        uniform, own = moments(pi, g, None, labels), moments(pi, d, a, labels)
        sums = [getattr(each, name) for each in (uniform, own) for name in _FIELDS]
        return (loss, slack, *sums)

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
) -> None:
    """Evaluate the rows that the series left open, and write their numbers in."""
    pair = DebyePair(order=order, envelope=ClosedForm(order))
    part = states[rows]
    each = {name: limit[rows] for name, limit in limits.items()}
    some = Budgets(loss=each.get("loss"), probability=each.get("probability"), gradient=each.get("gradient"))
    result = tolerance(part, some, pair, "conditioned")
    b[rows], upper[rows] = result.b, result.upper
    done = 0
    for chunk in part.chunks():
        prepared = prepare(chunk, pair, distances=False)
        exact = conditioned_bounds(prepared.head, own_allowances(prepared, pair))
        where = rows[done : done + len(chunk)]
        loss[where] = -prepared.head.log_probabilities.gather(1, chunk.labels[:, None]).squeeze(1)
        for name in _BOUNDS:
            bounds[name][where] = getattr(exact, name)
        done += len(chunk)
