"""Class banks and learning states: validated once, then trusted; their geometry as one matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.checks import Real, finite, finite_nonnegative, real_tensor
from suffice.numerics.compensated import squared_radius
from suffice.numerics.pages import give_back_pages, keep_pages
from suffice.numerics.softmax import dots

__all__ = ["ClassBank", "Geometry", "States", "class_labels", "float64_array", "positive_each"]

# Working tensors are [rows, classes] of about this many entries: a few of them fit into a core's cache.
_CHUNK_ENTRIES = 131_072
# With fewer rows than these a product is a pass over the directions' memory: there are as many while four times the
# entries allow it.
_LEAST_ROWS = 8
# Of so many classes what is free is given back after so many runs.
_RUNS = 2
_WORST_NORM_ERROR = 1e-3


@dataclass(frozen=True, slots=True, init=False)
class ClassBank:
    """Unit directions mu [C, p], concentrations k [C] and biases c [C] of C >= 2 classes in dimension p >= 2.

    Everything is kept in float64, and the directions are renormalised there: float32 directions used as they are
    would move a radius by 1e-2 at k = 1e5. `norm_error` records how far they were off, and past 1e-3 they
    are refused as not being directions at all. Below p = 5 there are states, and no pair with a proof: `judge` takes
    them, and pairs refuse.

    >>> bank = ClassBank(torch.eye(5)[:2], [1.0, 2.0])
    >>> bank.num_classes, bank.dim, bank.nu
    (2, 5, 1.5)
    """

    directions: Float[Tensor, "classes dim"]
    concentrations: Float[Tensor, " classes"]
    biases: Float[Tensor, " classes"]
    norm_error: float

    def __init__(
        self, directions: Real, concentrations: Real | Sequence[float], biases: Real | Sequence[float] | None = None
    ) -> None:
        mu = float64_array("directions", directions, 2)
        classes, dim = mu.shape
        if classes < 2 or dim < 2:
            raise ValueError(f"Expected directions [C, p] with C >= 2 and p >= 2, but got shape {tuple(mu.shape)}")
        k = float64_array("concentrations", concentrations, 1, like=mu)
        c = torch.zeros_like(k) if biases is None else float64_array("biases", biases, 1, like=mu)
        for name, vector in (("concentrations", k), ("biases", c)):
            if len(vector) != classes:
                raise ValueError(f"Expected one of {name} for each of {classes} directions, but got {len(vector)}")
        finite_nonnegative("concentrations", k)
        finite("biases", c)
        finite("directions", mu)
        norms = torch.linalg.vector_norm(mu, dim=1)
        off = (norms - 1).abs()
        worst = int(off.argmax())
        if off[worst] > _WORST_NORM_ERROR:
            raise ValueError(
                f"Expected directions of norm 1 up to {_WORST_NORM_ERROR}, but got norm {norms[worst].item()} "
                f"at row {worst}; divide each row by its norm first"
            )
        # a row that is normalised as well as rounding allows stays as it is, so that a stored bank reads back exactly
        norms = torch.where(off <= 4 * torch.finfo(mu.dtype).eps, 1.0, norms)
        object.__setattr__(self, "directions", mu / norms[:, None])
        object.__setattr__(self, "concentrations", k)
        object.__setattr__(self, "biases", c)
        object.__setattr__(self, "norm_error", float(off[worst]))

    @property
    def num_classes(self) -> int:
        return len(self.concentrations)

    @property
    def dim(self) -> int:
        return int(self.directions.shape[1])

    @property
    def nu(self) -> float:
        return self.dim / 2 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Computed numbers of some states: k_j, D_j = r_j^2 - k_j^2 and r_j = sqrt(k_j^2 + D_j), in float64.

    The exact geometry is that of features and bank (docs/theory, 6.10); these are within a proven bound of it. The
    paper takes them for the state itself (app:numerics-reference), which they are not where k^2 + D cancels.
    """

    nu: float
    concentrations: Float[Tensor, " classes"]
    squared_gaps: Float[Tensor, "queries classes"]
    radii: Float[Tensor, "queries classes"]

    @property
    def gaps(self) -> Float[Tensor, "queries classes"]:
        """g_j = |r_j - k_j| = |D_j|/(r_j + k_j), without cancellation; 0 where both ends are 0."""
        total = self.radii + self.concentrations
        return torch.where(total > 0, self.squared_gaps.abs() / total, 0.0)

    def __getitem__(self, rows: Tensor | slice) -> Geometry:
        """That of some rows."""
        return replace(self, squared_gaps=self.squared_gaps[rows], radii=self.radii[rows])


@dataclass(frozen=True, slots=True, init=False)
class States:
    """N queries (feature, label, temperature) against one bank. Features keep their values, in float64.

    >>> bank = ClassBank(torch.eye(5)[:2], [1.0, 2.0])
    >>> len(States(bank, torch.ones(3, 5), torch.tensor([0, 1, 1]), 0.1))
    3
    """

    bank: ClassBank
    features: Float[Tensor, "queries dim"]
    labels: Int[Tensor, " queries"]
    temperature: Float[Tensor, " queries"]
    chunk: int = field(repr=False)

    def __init__(self, bank: ClassBank, features: Real, labels: object, temperature: Real) -> None:
        if not isinstance(bank, ClassBank):
            raise TypeError(f"Expected bank to be a ClassBank, but got {type(bank).__name__}")
        f = float64_array("features", features, 2, like=bank.directions)
        if f.shape[1] != bank.dim:
            raise ValueError(f"Expected features of dimension {bank.dim}, as the bank's, but got {f.shape[1]}")
        finite("features", f)
        tau = positive_each("temperature", temperature, features=f)
        object.__setattr__(self, "bank", bank)
        object.__setattr__(self, "features", f)
        object.__setattr__(self, "labels", class_labels(labels, len(f), bank.num_classes, bank.directions))
        object.__setattr__(self, "temperature", tau)
        rows = min(_LEAST_ROWS, 4 * _CHUNK_ENTRIES // bank.num_classes)
        object.__setattr__(self, "chunk", max(1, rows, _CHUNK_ENTRIES // bank.num_classes))

    @property
    def num_classes(self) -> int:
        return self.bank.num_classes

    @property
    def dim(self) -> int:
        return self.bank.dim

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: slice | Tensor | list[int]) -> States:
        """Some of the states, in the order asked for."""
        if isinstance(rows, int):
            raise TypeError(
                f"Expected a slice or a list of rows, but got the integer {rows}; use states[{rows}:{rows + 1}]"
            )
        part = object.__new__(States)
        for name in ("bank", "chunk"):
            object.__setattr__(part, name, getattr(self, name))
        for name in ("features", "labels", "temperature"):
            object.__setattr__(part, name, getattr(self, name)[rows])
        return part

    def detached(self) -> States:
        """The same states without the autograd graph of their features."""
        part = self[:]
        object.__setattr__(part, "features", self.features.detach())
        return part

    def chunks(self, times: int = 1) -> Iterator[States]:
        """The states in runs of rows whose working tensors fit into cache, so that memory does not grow with N.

        Compiled code has few working tensors, and likes runs that are some `times` as long.
        """
        if not len(self):
            raise ValueError("Expected at least one state, but got none")
        keep_pages()
        rows = times * self.chunk
        if rows >= len(self):
            yield self
            return
        for number, start in enumerate(range(0, len(self), rows)):
            # the pages of that many runs take a part of the time of one
            if number % _RUNS == _RUNS - 1 and self.chunk <= _LEAST_ROWS:
                give_back_pages()
            yield self[start : start + rows]

    def geometry(self) -> Geometry:
        """D_j = 2 k_j mu_j.f/tau + |f|^2/tau^2, one matrix product; for all of these states at once (see `chunks`)."""
        bank, phi = self.bank, self.features / self.temperature[:, None]
        k = bank.concentrations
        return self.geometry_of(torch.addcmul(dots(phi, phi)[:, None], phi @ bank.directions.T, 2 * k))

    def geometry_of(self, gaps: Float[Tensor, "queries classes"]) -> Geometry:
        """The same from these D_j, as their product gave them."""
        bank = self.bank
        k = bank.concentrations
        # rounding may leave D below -k^2 where r is 0 to all digits: such a state is r = 0
        gaps = torch.maximum(gaps, -(k * k))
        radii = squared_radius(k, gaps).sqrt_()
        return Geometry(nu=bank.nu, concentrations=k, squared_gaps=gaps, radii=radii)


def float64_array(name: str, value: object, ndim: int, *, like: Tensor | None = None) -> Tensor:
    """A float64 tensor of the given number of dimensions; values of float32 input are kept exactly."""
    if isinstance(value, list | tuple):
        value = torch.tensor(value, dtype=torch.float64)
    tensor = real_tensor(name, value).double()
    if tensor.ndim != ndim:
        raise ValueError(f"Expected {name} with {ndim} dimensions, but got shape {tuple(tensor.shape)}")
    if like is not None and tensor.device != like.device:
        raise ValueError(f"Expected {name} on {like.device}, where the directions are, but got {tensor.device}")
    return tensor


def positive_each(name: str, value: object, **vectors: Tensor) -> Tensor:
    """One number > 0 for each row of the vectors, or one for all, as a float64 tensor beside them."""
    ((beside, rows),) = vectors.items()
    numbers = real_tensor(name, value, like=rows).double()
    if numbers.ndim == 0:
        numbers = numbers.expand(len(rows))
    if numbers.shape != (len(rows),):
        raise ValueError(f"Expected one {name}, or one for each of {len(rows)} queries, but got {tuple(numbers.shape)}")
    if numbers.device != rows.device:
        raise ValueError(f"Expected {beside} and {name} on one device, but got {rows.device} and {numbers.device}")
    finite_nonnegative(name, numbers)
    if len(numbers) and numbers.min().item() == 0:
        raise ValueError(f"Expected {name} > 0, but got 0 at row {int(numbers.argmin())}")
    return numbers


def class_labels(labels: object, count: int, classes: int, beside: Tensor) -> Tensor:
    """Labels as int64, on the device where the classes are, each the index of one of them."""
    if isinstance(labels, np.ndarray | list | tuple):
        labels = torch.as_tensor(np.asarray(labels))
    if (
        not isinstance(labels, Tensor)
        or labels.is_floating_point()
        or labels.is_complex()
        or labels.dtype == torch.bool
    ):
        kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"Expected labels to be integers, but got {kind}")
    if labels.shape != (count,):
        raise ValueError(f"Expected one label for each of {count} queries, but got shape {tuple(labels.shape)}")
    labels = labels.to(torch.int64)
    bad = ((labels < 0) | (labels >= classes)).nonzero()
    if len(bad):
        row = int(bad[0])
        words = "; leave out the rows that a loss ignores (ignore_index)" if int(labels[row]) == -100 else ""
        raise ValueError(f"Expected labels in [0, {classes}), but got {int(labels[row])} at row {row}{words}")
    if labels.device != beside.device:
        raise ValueError(f"Expected labels on {beside.device}, where the classes are, but got {labels.device}")
    return labels
