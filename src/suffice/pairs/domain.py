"""Where the ladder's arguments enter: domain of nu, finite nonnegative radii, and the geometry of two endpoints."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from suffice.numerics.checks import (
    Real,
    broadcastable,
    finite,
    finite_nonnegative,
    nonnegative_order,
    real_tensor,
    same_kind,
    within_square_range,
)
from suffice.numerics.compensated import squared_radius
from suffice.pairs.constants import minimum_nu, valid_orders

__all__ = ["Endpoints", "check_domain", "endpoints", "gap_arguments", "pointwise", "pointwise_arguments"]


def check_domain(order: int, nu: float | Tensor) -> None:
    """Raise unless the order's allowance is proved at every nu, and say which orders are."""
    if isinstance(nu, Tensor):
        if torch.compiler.is_compiling() or nu.numel() == 0:
            return
        nu = float(nu.min().item())
    orders = valid_orders(nu)
    if order in orders:
        return
    there = f"orders valid there: {', '.join(map(str, orders))}" if orders else "no order is valid there"
    raise ValueError(
        f"Expected nu >= {minimum_nu(order)} for order {order} (nu = dim/2 - 1), but got {nu}; {there}; "
        "suffice.special has the functions themselves for every nu >= 0"
    )


def pointwise_arguments(order: int, nu: Real, x: Real) -> tuple[float | Tensor, Tensor]:
    """nu and x, checked."""
    tensor = real_tensor("x", x, like=nu if isinstance(nu, Tensor) else None)
    checked = nonnegative_order(nu, like=tensor)
    if isinstance(checked, Tensor):
        broadcastable(nu=checked, x=tensor)
    check_domain(order, checked)
    finite_nonnegative("x", tensor)
    return checked, tensor


def pointwise(order: int, nu: Real, x: Real) -> tuple[float | Tensor, Tensor, Tensor]:
    """nu, x and s(x), checked."""
    checked, tensor = pointwise_arguments(order, nu, x)
    return checked, tensor, torch.hypot(tensor, torch.as_tensor(checked, dtype=tensor.dtype, device=tensor.device))


def gap_arguments(
    order: int, nu: Real, r: Real, k: Real, squared_gap: Real | None
) -> tuple[float | Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """nu, r, k, the squared gap and k^2 + squared gap, checked: the last is finite and >= 0."""
    anchor = next((value for value in (k, r, squared_gap, nu) if isinstance(value, Tensor)), None)
    k = real_tensor("k", k, like=anchor)
    r = real_tensor("r", r, like=k)
    named = {"r": r, "k": k}
    gap = None if squared_gap is None else real_tensor("squared_gap", squared_gap, like=k)
    if gap is not None:
        named["squared_gap"] = gap
    same_kind(**named)
    checked = nonnegative_order(nu, like=k, like_name="k")
    if isinstance(checked, Tensor):
        named["nu"] = checked
    broadcastable(**named)
    check_domain(order, checked)
    finite_nonnegative("r", r)
    finite_nonnegative("k", k)
    r_squared = None
    if gap is not None:
        within_square_range("k", k)
        within_square_range("nu", torch.as_tensor(checked, dtype=k.dtype))
        finite("squared_gap", gap)
        r_squared = _checked_radius(k.detach(), gap.detach())
        _check_consistent(r.detach(), k.detach(), r_squared)
        if r.requires_grad and not gap.requires_grad:
            raise ValueError(
                "Expected squared_gap to carry the gradient of r: with squared_gap given, r is formed from it "
                "(r = sqrt(k^2 + squared_gap)); compute squared_gap from r under autograd, or leave it out"
            )
    return checked, r, k, gap, r_squared


def _checked_radius(k: Tensor, gap: Tensor) -> Tensor:
    """k^2 + squared gap, for a gap that is finite and at least -k^2 up to its own rounding."""
    r_squared = squared_radius(k, gap)
    if finite_nonnegative("k**2 + squared_gap", r_squared) > 0:
        return r_squared
    bad = (gap < -(1 + 4 * torch.finfo(k.dtype).eps) * (k * k)).nonzero()
    if len(bad):
        where = tuple(bad[0].tolist())
        place = f" at index {where}" if where else ""
        raise ValueError(
            f"Expected squared_gap >= -k**2, but got {gap.expand(r_squared.shape)[where].item()}{place}, "
            f"where k = {k.expand(r_squared.shape)[where].item()}"
        )
    return r_squared


def _check_consistent(r: Tensor, k: Tensor, r_squared: Tensor) -> None:
    """Raise unless r is sqrt(k^2 + squared gap) to three digits: swapped endpoints would give another state's bound."""
    if torch.compiler.is_compiling() or r_squared.numel() == 0 or r.numel() == 0:
        return
    within_square_range("r", r)
    off = torch.addcmul(r_squared, r, r, value=-1).abs_()
    off = off.sub_((r_squared + k * k).mul_(1e-3))
    if off.max().item() <= 0:
        return
    where = tuple((off > 0).nonzero()[0].tolist())
    place = f" at index {where}" if where else ""
    raise ValueError(
        f"Expected r = sqrt(k**2 + squared_gap), but got r = {r.expand(off.shape)[where].item()}{place}, where "
        f"k**2 + squared_gap = {r_squared.expand(off.shape)[where].item()}; are r and k swapped? "
        "It is difference(nu, r, k) and score_allowance(nu, k, r)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Two endpoints in the forms the allowances need, all nonnegative; `apart` is where they differ."""

    nu: float | Tensor
    k: Tensor
    r: Tensor
    s_k: Tensor
    s_r: Tensor
    gap: Tensor
    s_gap: Tensor
    apart: Tensor


def endpoints(order: int, nu: Real, k: Real, r: Real, squared_gap: Real | None) -> Endpoints:
    """|r - k| and |s(r) - s(k)| without cancellation, from the squared gap where it is given."""
    checked, r_, k_, gap, r_squared = gap_arguments(order, nu, r, k, squared_gap)
    shift = torch.as_tensor(checked, dtype=k_.dtype, device=k_.device)
    if r_squared is not None:
        r_ = torch.sqrt(r_squared)
    s_k, s_r = torch.hypot(k_, shift), torch.hypot(r_, shift)
    if gap is None:
        difference = (r_ - k_).abs()
        # halves, so that the sums do not overflow where their terms do not
        s_gap = difference * ((r_ / 2 + k_ / 2) / (s_r / 2 + s_k / 2))
        apart = difference > 0
    else:
        # r + k = 0 only where the squared gap is 0 as well
        difference = torch.where(gap == 0, 0.0, gap.abs() / (r_ + k_))
        s_gap = gap.abs() / (s_r + s_k)
        # not "difference > 0": that may underflow
        apart = (gap != 0).expand(s_gap.shape)
    return Endpoints(nu=checked, k=k_, r=r_, s_k=s_k, s_r=s_r, gap=difference, s_gap=s_gap, apart=apart)
