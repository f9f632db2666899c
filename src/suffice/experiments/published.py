"""The ways people compute vMF normaliser differences and ratios today, written from their descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["miller", "miller_difference_and_ratio", "scipy_difference_and_ratio"]


def miller(nu: int, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log I_nu, log I_{nu+1} and their ratio by backward recurrence from order 2 nu, as published code does it.

    I_{i-1} = (2i/x) I_i + I_{i+1} from I_{2nu} = 1, I_{2nu+1} = 0, in a Python loop over the whole tensor, rescaled
    when a value overflows, and normalised at order 0 by i0e. Unless x is small against nu^2, that start is too low.
    """
    above, here, scale = torch.zeros_like(x), torch.ones_like(x), torch.zeros_like(x)
    at_nu = at_next = ratio = x
    for i in range(2 * nu, 0, -1):
        below = 2 * i / x * here + above
        if torch.isinf(below).any():
            scale = scale + torch.log(here)
            above, here = above / here, torch.ones_like(x)
            below = 2 * i / x * here + above
        above, here = here, below
        if i - 1 == nu + 1:
            at_next = torch.log(here) + scale
        elif i - 1 == nu:
            at_nu, ratio = torch.log(here) + scale, above / here
    shift = torch.log(torch.special.i0e(x)) + x - torch.log(here) - scale
    return at_nu + shift, at_next + shift, ratio


def miller_difference_and_ratio(nu: int, r: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Phi(r) - Phi(k) and R(r) by Miller's recurrence at both ends."""
    log_r, _, ratio = miller(nu, r)
    log_k, _, _ = miller(nu, k)
    return (log_r - nu * torch.log(r)) - (log_k - nu * torch.log(k)), ratio


def scipy_difference_and_ratio(
    nu: float, r: np.ndarray[Any, Any], k: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The same by SciPy's ive, at both orders and both ends (the ratio at k is what a gradient in k needs).

    Needs SciPy: pip install 'suffice[reproduce]'.
    """
    from scipy import special

    i_r, i_k = special.ive(nu, r), special.ive(nu, k)
    next_r, next_k = special.ive(nu + 1, r), special.ive(nu + 1, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = (np.log(i_r) + r - nu * np.log(r)) - (np.log(i_k) + k - nu * np.log(k))
        return difference, next_r / i_r + 0 * (next_k / i_k)
