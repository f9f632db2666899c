"""Distributions on the sphere that torch.distributions has not."""

from suffice.distributions import divergence as _divergence  # noqa: F401
from suffice.distributions.von_mises_fisher import VonMisesFisher

__all__ = ["VonMisesFisher"]
