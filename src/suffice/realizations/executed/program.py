"""The objective as a program: the operations that are executed, in one dtype, eager or compiled.

Certificates of scope `execution` are about the numbers that this returns. It is the formula of `evaluate`, with the
geometry formed in the dtype of the rung instead of float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.numerics.compiling import run_compiled
from suffice.numerics.formats import FORMATS, format_of, name_of
from suffice.numerics.products import check_products, product, squares
from suffice.numerics.softmax import at_class, softmax, total_over_classes
from suffice.objectives.contrastive import weights_from
from suffice.pairs import ladder
from suffice.pairs.constants import check_order, valid_orders
from suffice.pairs.domain import check_domain
from suffice.states import States

__all__ = ["Executed", "executable", "execute", "has_bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What was computed, in the dtype in which it was: nothing here is exact.

    `scaled` is f/tau. The product with the directions was taken from numbers of dtype `inputs`. What was `compiled` may
    be rounded otherwise than the same operations one by one.
    """

    order: int
    inputs: torch.dtype
    directions: Float[Tensor, "classes dim"]
    concentrations: Float[Tensor, " classes"]
    scaled: Float[Tensor, "queries dim"]
    squared_gaps: Float[Tensor, "queries classes"]
    scores: Float[Tensor, "queries classes"]
    log_probabilities: Float[Tensor, "queries classes"]
    weights: Float[Tensor, "queries classes"]
    slopes: Float[Tensor, "queries classes"]
    loss: Float[Tensor, " queries"]
    gradient: Float[Tensor, "queries dim"]
    compiled: bool = False

    def __getitem__(self, rows: Int[Tensor, " rows"]) -> Executed:
        """What was computed for some rows. Executing those alone may round otherwise: products depend on the batch."""
        return replace(
            self,
            scaled=self.scaled[rows],
            squared_gaps=self.squared_gaps[rows],
            scores=self.scores[rows],
            log_probabilities=self.log_probabilities[rows],
            weights=self.weights[rows],
            slopes=self.slopes[rows],
            loss=self.loss[rows],
            gradient=self.gradient[rows],
        )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of every operation."""
        return self.scores.dtype


def executable(order: int, dtype: torch.dtype, nu: float) -> bool:
    """Whether the order is proved at this nu, and has digits left in this dtype."""
    return order in valid_orders(nu) and nu >= format_of(dtype).smallest_nu


@cache
def has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 numbers itself: products of such inputs are then the faster ones."""
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def execute(
    states: States,
    order: int,
    dtype: torch.dtype = torch.float64,
    *,
    compiled: bool = False,
    inputs: torch.dtype | None = None,
) -> Executed:
    """Scores, log-probabilities, loss and feature gradient of order n, computed in `dtype` from the stored inputs.

    For all of these states at once (see `States.chunks`). Inputs are rounded to the dtype first. Overflow leaves
    infinities or NaN, which no certificate accepts. The product with the directions may have `inputs` (and a result)
    of a dtype that the row of `dtype` names: bfloat16 beside float32.
    """
    check_order(order)
    row, bank = format_of(dtype), states.bank
    inputs = dtype if inputs is None else inputs
    if inputs not in (dtype, *row.inputs):
        raise ValueError(f"Expected inputs of dtype {dtype}, or {_inputs_beside()}, but got {inputs}")
    nu = bank.nu
    check_domain(order, nu)
    if nu < row.smallest_nu:
        raise ValueError(f"Expected nu >= {row.smallest_nu} in {row.name}, but got {nu}; use float64")
    check_products(dtype)
    stored = (bank.directions, bank.concentrations, bank.biases, states.features, states.temperature)
    mu, k, c, f, tau = (x.to(dtype) for x in stored)
    # autocast would take products in bfloat16: another program than the one that the bounds are about
    with torch.autocast(states.features.device.type, enabled=False):
        phi = f / tau[:, None]
        arguments = _geometry_product(phi, mu, inputs), squares(phi), k, c, states.labels
        if compiled:
            found = dict(run_compiled(_between_products, (order, nu), arguments))
        else:
            found = _between_products(order, nu, *arguments)
        gradient = (product(found.pop("pulls"), mu, "classes") + found.pop("along") * phi) / tau[:, None]
    return Executed(
        order=order,
        inputs=inputs,
        directions=mu,
        concentrations=k,
        scaled=phi,
        gradient=gradient,
        compiled=compiled,
        **found,
    )


def _inputs_beside() -> str:
    return ", ".join(f"{name_of(inputs)} beside {row.name}" for row in FORMATS.values() for inputs in row.inputs)


def _geometry_product(
    phi: Float[Tensor, "queries dim"], mu: Float[Tensor, "classes dim"], inputs: torch.dtype
) -> Float[Tensor, "queries classes"]:
    if inputs == phi.dtype:
        return product(phi, mu.T, "dim")
    return (phi.to(inputs) @ mu.to(inputs).T).to(phi.dtype)


def _between_products(
    order: int,
    nu: float,
    mu_phi: Float[Tensor, "queries classes"],
    phi_squared: Float[Tensor, "queries 1"],
    k: Float[Tensor, " classes"],
    c: Float[Tensor, " classes"],
    y: Int[Tensor, " queries"],
) -> dict[str, Tensor]:
    """From mu.phi and |phi|^2 to loss and the weights of the gradient's product: what is compiled."""
    gaps = torch.maximum(mu_phi * (2 * k) + phi_squared, -(k * k))
    r_squared = squared_radius(k, gaps)
    r = torch.sqrt(r_squared)
    # which overwrites the square
    scores = ladder.difference(order, nu, r, k, gaps, r_squared) + c
    log_pi, pi = softmax(scores)
    weights = weights_from(pi, y)
    # 0 at r = 0, where the ratio is
    slopes = ladder.ratio(order, nu, r) / r.clamp_min(torch.finfo(r.dtype).tiny)
    along = weights * slopes
    return {
        "squared_gaps": gaps,
        "scores": scores,
        "log_probabilities": log_pi,
        "weights": weights,
        "slopes": slopes,
        "loss": -at_class(log_pi, y),
        "pulls": along * k,
        "along": total_over_classes(along),
    }
