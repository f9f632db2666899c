"""The objective as a program: the operations that are executed, in one dtype, eager or compiled.

Certificates of scope `execution` are about the numbers that this returns. It is the formula of `evaluate`, with the
geometry formed in the dtype of the rung instead of float64.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.compensated import squared_radius
from suffice.objectives.contrastive import objective_weights
from suffice.objectives.softmax import at_class, log_softmax
from suffice.pairs import ladder
from suffice.pairs.constants import check_order, valid_orders
from suffice.pairs.domain import check_domain
from suffice.states import States

__all__ = ["DTYPES", "Executed", "executable", "execute"]

DTYPES = (torch.float32, torch.float64)
# below this nu neighbouring orders cancel so much that float32 has no digits left (docs/theory.md, 8.2)
_SMALLEST_NU_IN_FLOAT32 = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What was computed, in the dtype in which it was: nothing here is exact."""

    order: int
    concentrations: Float[Tensor, " classes"]
    squared_gaps: Float[Tensor, "queries classes"]
    scores: Float[Tensor, "queries classes"]
    log_probabilities: Float[Tensor, "queries classes"]
    loss: Float[Tensor, " queries"]
    gradient: Float[Tensor, "queries dim"]

    def __getitem__(self, rows: Int[Tensor, " rows"]) -> Executed:
        """What was computed for some rows. Executing those alone may round otherwise: products depend on the batch."""
        return replace(
            self,
            squared_gaps=self.squared_gaps[rows],
            scores=self.scores[rows],
            log_probabilities=self.log_probabilities[rows],
            loss=self.loss[rows],
            gradient=self.gradient[rows],
        )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of every operation."""
        return self.scores.dtype


def executable(order: int, dtype: torch.dtype, nu: float) -> bool:
    """Whether the order is proved at this nu, and has digits left in this dtype."""
    return order in valid_orders(nu) and (dtype == torch.float64 or nu >= _SMALLEST_NU_IN_FLOAT32)


def execute(states: States, order: int, dtype: torch.dtype = torch.float64, *, compiled: bool = False) -> Executed:
    """Scores, log-probabilities, loss and feature gradient of order n, computed in `dtype` from the stored inputs.

    For all of these states at once (see `States.chunks`). Inputs are rounded to the dtype first. Overflow leaves
    infinities or NaN, which no certificate accepts.
    """
    check_order(order)
    if dtype not in DTYPES:
        raise ValueError(f"Expected dtype in {[str(d) for d in DTYPES]}, but got {dtype}")
    nu = states.bank.nu
    check_domain(order, nu)
    if dtype == torch.float32 and nu < _SMALLEST_NU_IN_FLOAT32:
        raise ValueError(f"Expected nu >= {_SMALLEST_NU_IN_FLOAT32} in float32, but got {nu}; use float64")
    if dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "Expected torch.get_float32_matmul_precision() to be 'highest', which the model of rounding is about, "
            f"but got {torch.get_float32_matmul_precision()!r}; call torch.set_float32_matmul_precision('highest')"
        )
    bank = states.bank
    inputs = (bank.directions, bank.concentrations, bank.biases, states.features, states.temperature)
    program: Any = _compiled() if compiled else _program
    # autocast would take products in bfloat16: another program than the one that the bounds are about
    with torch.autocast(states.features.device.type, enabled=False):
        found = program(order, nu, *(x.to(dtype) for x in inputs), states.labels)
    return Executed(order=order, concentrations=bank.concentrations.to(dtype), **found)


def _program(
    order: int,
    nu: float,
    mu: Float[Tensor, "classes dim"],
    k: Float[Tensor, " classes"],
    c: Float[Tensor, " classes"],
    f: Float[Tensor, "queries dim"],
    tau: Float[Tensor, " queries"],
    y: Int[Tensor, " queries"],
) -> dict[str, Tensor]:
    u = f / tau[:, None]
    gaps = (u @ mu.T) * (2 * k) + (u * u).sum(dim=1, keepdim=True)
    gaps = torch.maximum(gaps, -(k * k))
    scores = ladder.difference(order, nu, gaps, k, gaps) + c
    log_pi = log_softmax(scores)
    r = torch.sqrt(squared_radius(k, gaps))
    slopes = torch.where(r > 0, ladder.ratio(order, nu, r) / torch.where(r > 0, r, 1.0), 0.0)
    weights = objective_weights(log_pi, y) * slopes
    along = weights.sum(dim=1, keepdim=True) / tau[:, None]
    gradient = ((weights * k) @ mu + along * f) / tau[:, None]
    return {
        "squared_gaps": gaps,
        "scores": scores,
        "log_probabilities": log_pi,
        "loss": -at_class(log_pi, y),
        "gradient": gradient,
    }


@cache
def _compiled() -> Any:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        warnings.warn("No C++ compiler was found: the eager program is used instead of the compiled one", stacklevel=3)
        return _program
    return torch.compile(_program, dynamic=True)
