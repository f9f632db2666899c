"""The von Mises-Fisher distribution on the unit sphere of R^p, as torch.distributions has distributions.

Densities and entropies go through log C_p(k) + k and 1 - R (`suffice.special`), so that they keep their digits from
p = 2 to 10,000 and from k = 0 to 1e6, in float64 and, rounded once, in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.distributions.constraints import Constraint

from suffice.distributions.angles import draw_angles, reparameterized
from suffice.distributions.placement import place
from suffice.numerics.checks import broadcastable, real_tensor, same_kind
from suffice.numerics.derivatives import with_derivative
from suffice.special import (
    bessel_i_ratio,
    bessel_i_ratio_complement,
    bessel_i_ratio_derivative,
    vmf_log_normalizer,
)

__all__ = ["VonMisesFisher", "versine"]

# far above what normalising in float32 leaves, far below what is no unit vector
_UNIT_TOLERANCE = 1e-4


class _UnitVector(Constraint):
    """Length 1 to 1e-4."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Whether each vector has it; NaN has not."""
        off: Tensor = (torch.linalg.vector_norm(value, dim=-1) - 1).abs() <= _UNIT_TOLERANCE
        return off


class _FiniteNonnegative(Constraint):
    """0 <= k < inf."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each number is one."""
        return (value >= 0) & (value < torch.inf)


class VonMisesFisher(Distribution):
    """Unit vectors x with density C_p(k) exp(k loc.x): around the unit vector `loc`, the closer the larger k is.

    `loc` [..., p] with p >= 2 and `concentration` [...] are float32 or float64 and broadcast; k = 0 is the uniform
    distribution, for every loc. Vectors must be normalised (to 1e-4 where arguments are validated), and what counts is
    their direction: they are divided by their lengths, so that gradients in loc and x are tangent to the sphere.

    `rsample` is differentiable in both arguments, once: in k by the implicit derivative of the angle's distribution
    function, which is unbiased where a derivative through the accepted proposal is not (docs/theory, 5.2).

    >>> p = VonMisesFisher(torch.tensor([0.0, 0.0, 1.0]), torch.tensor(10.0))
    >>> p.log_prob(torch.tensor([0.0, 0.6, 0.8])), p.entropy()
    (tensor(-1.5353), tensor(0.5353))
    >>> torch.distributions.kl_divergence(p, VonMisesFisher.uniform(3))
    tensor(1.9957)
    """

    arg_constraints = {"loc": _UnitVector(), "concentration": _FiniteNonnegative()}  # noqa: RUF012
    support = _UnitVector()
    has_rsample = True

    def __init__(self, loc: Tensor, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        loc = real_tensor("loc", loc)
        k = real_tensor("concentration", concentration, like=loc)
        same_kind(loc=loc, concentration=k)
        if loc.ndim < 1 or loc.shape[-1] < 2:
            raise ValueError(f"Expected loc [..., p] with p >= 2, but got shape {tuple(loc.shape)}")
        batch = broadcastable(**{"loc without its last dimension": loc[..., 0], "concentration": k})
        self.loc, self.concentration = loc.expand(*batch, -1), k.expand(batch)
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)

    @classmethod
    def uniform(
        cls,
        dim: int,
        batch_shape: torch.Size | tuple[int, ...] = (),
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> VonMisesFisher:
        """The uniform distribution on the unit sphere of R^dim: concentration 0."""
        if dim < 2:
            raise ValueError(f"Expected dim >= 2, but got {dim}")
        loc = torch.zeros(dim, dtype=dtype, device=device)
        loc[0] = 1
        return cls(loc, torch.zeros(tuple(batch_shape), dtype=loc.dtype, device=device), validate_args=False)

    def expand(  # type: ignore[override]
        self, batch_shape: torch.Size | tuple[int, ...], _instance: VonMisesFisher | None = None
    ) -> VonMisesFisher:
        """The same distribution for a larger batch, without copying."""
        new = self._get_checked_instance(VonMisesFisher, _instance)  # type: ignore[no-untyped-call]
        batch = torch.Size(batch_shape)
        new.loc, new.concentration = self.loc.expand(*batch, -1), self.concentration.expand(batch)
        super(VonMisesFisher, new).__init__(batch, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new  # type: ignore[no-any-return]

    @property
    def dim(self) -> int:
        """p."""
        return self.event_shape[0]

    @property
    def mode(self) -> Tensor:
        """The mean direction; at k = 0 no direction is more probable than another."""
        return _unit(self.loc)

    @property
    def mean(self) -> Tensor:
        """R(k) loc, a vector inside of the sphere."""
        return self._number(bessel_i_ratio(self._nu, self._k))[..., None] * self.mode

    @property
    def variance(self) -> Tensor:
        """Of each coordinate: R/k across the mean direction and R' along it, so (1 - loc^2) R/k + loc^2 R'."""
        k = self._k
        # at k below 1e-100 R/k is 1/p to all digits
        small = k < 1e-100
        filled = torch.where(small, 1.0, k)
        across = torch.where(small, 1 / self.dim, bessel_i_ratio(self._nu, filled) / filled)
        along = bessel_i_ratio_derivative(self._nu, k)
        square = self.mode.square()
        return self._number(across)[..., None] * (1 - square) + self._number(along)[..., None] * square

    def log_prob(self, value: Tensor) -> Tensor:
        """log C_p(k) + k loc.x, summed as (log C_p(k) + k) - k (1 - loc.x)."""
        if self._validate_args:
            self._validate_sample(value)
        # one float64 copy of k: the two parts of its gradient are added before they are rounded
        k = self._k
        return self._number(vmf_log_normalizer(self.dim, k, scaled=True) - k * versine(value, self.loc))

    def entropy(self) -> Tensor:
        """-log C_p(k) - k R(k), whose derivative is -k R'(k)."""
        return self._number(with_derivative(_entropy, _entropy_derivative, self.dim, x=self._k))

    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        """Unit vectors of shape sample_shape + batch_shape + (p,), by torch's default generator."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        """The same samples, differentiable in loc and concentration."""
        shape = self._extended_shape(torch.Size(sample_shape))
        k = self._k
        angle = draw_angles(self.dim, k.expand(shape[:-1]))
        if torch.is_grad_enabled() and k.requires_grad:
            angle = reparameterized(self.dim, k, angle)
        return place(self.mode, self._number(torch.cos(angle)), self._number(torch.sin(angle)))

    @property
    def _nu(self) -> float:
        return self.dim / 2 - 1

    @property
    def _k(self) -> Tensor:
        return self.concentration.double()

    def _number(self, wide: Tensor) -> Tensor:
        """Rounded to the distribution's dtype, once."""
        return wide.to(self.loc.dtype)


def versine(x: Tensor, y: Tensor) -> Tensor:
    """1 - cos(x, y) = (|x - y|^2 - (|x| - |y|)^2)/(2 |x| |y|) in float64: right also where x and y are close."""
    x, y = x.double(), y.double()
    length, other = (torch.linalg.vector_norm(each, dim=-1) for each in (x, y))
    apart = (x - y).square().sum(dim=-1)
    off: Tensor = (apart - (length - other).square()) / (2 * length * other)
    return off


def _unit(vectors: Tensor) -> Tensor:
    unit: Tensor = vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return unit


def _entropy(dim: int, k: Tensor) -> Tensor:
    """-(log C + k) + k (1 - R)."""
    return k * bessel_i_ratio_complement(dim / 2 - 1, k) - vmf_log_normalizer(dim, k, scaled=True)


def _entropy_derivative(dim: int, k: Tensor) -> Tensor:
    return -k * bessel_i_ratio_derivative(dim / 2 - 1, k)
