"""The objective as a program: the operations that are executed, in one dtype, eager or compiled.

Certificates of scope `execution` are about the numbers that this returns. It is the formula of `evaluate`, with the
geometry formed in the dtype of the rung instead of float64.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.numerics.softmax import at_class, softmax, total_over_classes
from suffice.objectives.contrastive import weights_from
from suffice.pairs import ladder
from suffice.pairs.constants import check_order, valid_orders
from suffice.pairs.domain import check_domain
from suffice.states import States

__all__ = ["DTYPES", "Executed", "executable", "execute", "has_bfloat16", "roundings_of_product"]

DTYPES = (torch.float32, torch.float64)
# below this nu neighbouring orders cancel so much that float32 has no digits left (docs/theory.md, 1)
_SMALLEST_NU_IN_FLOAT32 = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What was computed, in the dtype in which it was: nothing here is exact.

    `scaled` is f/tau. The product with the directions was taken from numbers of dtype `inputs`.
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
    return order in valid_orders(nu) and (dtype == torch.float64 or nu >= _SMALLEST_NU_IN_FLOAT32)


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
    infinities or NaN, which no certificate accepts. With float32 the product with the directions may have bfloat16
    `inputs` (and result).
    """
    check_order(order)
    if dtype not in DTYPES:
        raise ValueError(f"Expected dtype in {[str(d) for d in DTYPES]}, but got {dtype}")
    inputs = dtype if inputs is None else inputs
    if inputs not in (dtype, torch.bfloat16) or (inputs == torch.bfloat16 and dtype != torch.float32):
        raise ValueError(f"Expected inputs of dtype {dtype}, or bfloat16 beside float32, but got {inputs}")
    nu = states.bank.nu
    check_domain(order, nu)
    if dtype == torch.float32 and nu < _SMALLEST_NU_IN_FLOAT32:
        raise ValueError(f"Expected nu >= {_SMALLEST_NU_IN_FLOAT32} in float32, but got {nu}; use float64")
    if dtype == torch.float32:
        _check_products()
    bank = states.bank
    stored = (bank.directions, bank.concentrations, bank.biases, states.features, states.temperature)
    mu, k, c, f, tau = (x.to(dtype) for x in stored)
    # autocast would take products in bfloat16: another program than the one that the bounds are about
    with torch.autocast(states.features.device.type, enabled=False):
        u = f / tau[:, None]
        products = _geometry_product(u, mu, inputs), _squares(u)
        between = _as_compiled if compiled else _between_products
        found = between(order, nu, *products, k, c, states.labels)
        gradient = (_product(found.pop("pulls"), mu, "classes") + found.pop("along") * u) / tau[:, None]
    return Executed(order=order, inputs=inputs, directions=mu, concentrations=k, scaled=u, gradient=gradient, **found)


# A sum of n terms in any order has up to n - 1 roundings; a sum of blocks' sums far fewer, however each is added up.
# More blocks, or smaller ones, would cost more time than they save digits.
_MOST_BLOCKS = 16


def _blocks(terms: int, over: str, dtype: torch.dtype) -> int:
    """In how many blocks a product over the dimension or over the classes is added up: float64 has digits to spare."""
    if dtype == torch.float64:
        return 1
    wanted = terms // 48 if over == "classes" else min(terms // 16, max(8, terms // 64))
    return max(1, min(wanted, _MOST_BLOCKS))


def roundings_of_product(terms: int, over: str, dtype: torch.dtype) -> int:
    """How many roundings any of the terms goes through: its product, its block's sum, the sum of blocks, the rest."""
    blocks = _blocks(terms, over, dtype)
    return terms // blocks + blocks - 1 + (terms % blocks > 0)


def _geometry_product(
    u: Float[Tensor, "queries dim"], mu: Float[Tensor, "classes dim"], inputs: torch.dtype
) -> Float[Tensor, "queries classes"]:
    if inputs == u.dtype:
        return _product(u, mu.T, "dim")
    return (u.to(inputs) @ mu.to(inputs).T).to(u.dtype)


def _product(
    a: Float[Tensor, "rows terms"], b: Float[Tensor, "terms columns"], over: str
) -> Float[Tensor, "rows columns"]:
    """a @ b, block by block of the terms."""
    blocks = _blocks(len(b), over, a.dtype)
    if blocks == 1:
        return a @ b
    whole = len(b) - len(b) % blocks
    left = a[:, :whole].unflatten(1, (blocks, -1)).transpose(0, 1)
    total = torch.bmm(left, b[:whole].unflatten(0, (blocks, -1))).sum(dim=0)
    return total if whole == len(b) else total.add_(a[:, whole:] @ b[whole:])


def _squares(u: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows 1"]:
    """|u|^2, likewise."""
    blocks = _blocks(u.shape[1], "dim", u.dtype)
    whole = u.shape[1] - u.shape[1] % blocks
    parts = u[:, :whole].unflatten(1, (blocks, -1))
    rest = u[:, whole:]
    total: Tensor = torch.linalg.vecdot(parts, parts).sum(dim=1) + torch.linalg.vecdot(rest, rest)
    return total[:, None]


def _between_products(
    order: int,
    nu: float,
    mu_u: Float[Tensor, "queries classes"],
    u_squared: Float[Tensor, "queries 1"],
    k: Float[Tensor, " classes"],
    c: Float[Tensor, " classes"],
    y: Int[Tensor, " queries"],
) -> dict[str, Tensor]:
    """From mu.u and |u|^2 to loss and the weights of the gradient's product: what is compiled."""
    gaps = torch.maximum(mu_u * (2 * k) + u_squared, -(k * k))
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


def _as_compiled(order: int, nu: float, *inputs: Tensor) -> dict[str, Tensor]:
    """What the compiled program returns, and an error where torch ran another one instead.

    Past its limit of recompilations, with its compiler switched off, or where it suppresses a compiler's errors, torch
    runs the eager program without a word.
    """
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise RuntimeError(
            "Expected a C++ compiler for compiled=True, but found neither g++ nor clang++; use compiled=False"
        )
    # values at which a program is traced anew are its own: torch allows a function few recompilations
    found, was_compiled = _compiled(order, nu, inputs[0].dtype)(*inputs)
    if not was_compiled:
        raise RuntimeError(
            "Expected torch.compile to compile the program, but torch ran the eager one instead (its limit of "
            "recompilations, torch.compiler.set_stance or TORCHDYNAMO_DISABLE); call torch.compiler.reset(), or use "
            "compiled=False"
        )
    return dict(found)


@cache
def _compiled(order: int, nu: float, dtype: torch.dtype) -> Any:
    def program(*inputs: Tensor) -> tuple[dict[str, Tensor], bool]:
        # a constant of the trace: true in compiled code, and false wherever this line is run as it stands
        return _between_products(order, nu, *inputs), torch.compiler.is_compiling()

    # recompilations are counted by code object
    program.__code__ = program.__code__.replace(
        co_name=f"order_{order}_at_{2 * nu:g}_halves_in_{dtype}".replace(".", "_")
    )
    return torch.compile(program, dynamic=True)


def _check_products() -> None:
    """Raise unless float32 products are taken in float32: TF32 and bfloat16 are outside of the model of rounding."""
    if hasattr(torch.backends, "fp32_precision"):
        # each inherits from torch.backends.fp32_precision, and set_float32_matmul_precision writes to both
        backends: Any = torch.backends
        for name in ("mkldnn", "cuda"):
            value = getattr(backends, name).matmul.fp32_precision
            if value not in ("none", "ieee"):
                raise ValueError(
                    f"Expected torch.backends.{name}.matmul.fp32_precision to be 'none' or 'ieee', which the model of "
                    f"rounding is about, but got {value!r}; call torch.set_float32_matmul_precision('highest')"
                )
    elif torch.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "Expected torch.get_float32_matmul_precision() to be 'highest', which the model of rounding is about, "
            f"but got {torch.get_float32_matmul_precision()!r}; call torch.set_float32_matmul_precision('highest')"
        )
