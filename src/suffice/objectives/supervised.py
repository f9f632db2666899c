"""States of the supervised vMF objective (app:objectives), validated once: embeddings, labels, samples and beta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.checks import Real, finite
from suffice.states import ClassBank, class_labels, float64_array, positive_each

__all__ = ["UNIT_ERROR", "SupervisedStates"]

# how far the norm of a sample may be from 1
UNIT_ERROR = 1e-6
# working tensors are [rows * samples, classes] of about this many entries: a few of them fit into a core's cache
_CHUNK_ENTRIES = 131_072


@dataclass(frozen=True, slots=True, init=False)
class SupervisedStates:
    """N embeddings z = a mu_z with labels, S unit samples each, and beta > 0, against one bank. All in float64.

    The loss is mean_s LSE_j(Phi(|k_j mu_j + beta s|) - Phi(k_j)) - beta R(a) R(k_y) cos(z, mu_y): the expectation is
    the mean over the given samples, which belong to the state. Beta is one number, or one a state.

    >>> bank = ClassBank(torch.eye(5)[:2], [1.0, 2.0])
    >>> states = SupervisedStates(bank, torch.ones(3, 5), [0, 1, 1], torch.eye(5).expand(3, 5, 5), 16.0)
    >>> len(states), states.num_samples
    (3, 5)
    """

    bank: ClassBank
    embeddings: Float[Tensor, "queries dim"]
    labels: Int[Tensor, " queries"]
    samples: Float[Tensor, "queries count dim"]
    beta: Float[Tensor, " queries"]
    chunk: int = field(repr=False)

    def __init__(self, bank: ClassBank, embeddings: Real, labels: object, samples: Real, beta: Real) -> None:
        z = float64_array("embeddings", embeddings, 2, like=bank.directions)
        if z.shape[1] != bank.dim:
            raise ValueError(f"Expected embeddings of dimension {bank.dim}, as the bank's, but got {z.shape[1]}")
        finite("embeddings", z)
        s = float64_array("samples", samples, 3, like=bank.directions)
        if s.shape != (len(z), s.shape[1], bank.dim) or not s.shape[1]:
            raise ValueError(
                f"Expected samples [{len(z)}, S, {bank.dim}] with S >= 1, one set for each embedding, "
                f"but got shape {tuple(s.shape)}"
            )
        _unit("samples", s)
        object.__setattr__(self, "bank", bank)
        object.__setattr__(self, "embeddings", z)
        object.__setattr__(self, "labels", class_labels(labels, len(z), bank.num_classes, bank.directions))
        object.__setattr__(self, "samples", s)
        object.__setattr__(self, "beta", positive_each("beta", beta, embeddings=z))
        object.__setattr__(self, "chunk", max(1, _CHUNK_ENTRIES // (bank.num_classes * s.shape[1])))

    @property
    def num_samples(self) -> int:
        return int(self.samples.shape[1])

    @property
    def num_classes(self) -> int:
        return self.bank.num_classes

    @property
    def dim(self) -> int:
        return self.bank.dim

    @property
    def temperature(self) -> Float[Tensor, " queries"]:
        """1/beta: a sample enters as a feature of length one at that temperature."""
        return 1 / self.beta

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, rows: slice | Tensor | list[int]) -> SupervisedStates:
        """Some of the states, in the order asked for."""
        if isinstance(rows, int):
            raise TypeError(
                f"Expected a slice or a list of rows, but got the integer {rows}; use states[{rows}:{rows + 1}]"
            )
        part = object.__new__(SupervisedStates)
        for name in ("bank", "chunk"):
            object.__setattr__(part, name, getattr(self, name))
        for name in ("embeddings", "labels", "samples", "beta"):
            object.__setattr__(part, name, getattr(self, name)[rows])
        return part

    def detached(self) -> SupervisedStates:
        """The same states without the autograd graph of their embeddings and samples."""
        part = self[:]
        for name in ("embeddings", "samples"):
            object.__setattr__(part, name, getattr(self, name).detach())
        return part

    def chunks(self) -> Iterator[SupervisedStates]:
        """The states in runs of rows whose working tensors fit into cache, so that memory does not grow with N."""
        if not len(self):
            raise ValueError("Expected at least one state, but got none")
        for start in range(0, len(self), self.chunk):
            yield self[start : start + self.chunk]


def _unit(name: str, vectors: Float[Tensor, "queries count dim"]) -> None:
    """Raise unless every vector is finite and has norm 1 up to `UNIT_ERROR`."""
    finite(name, vectors)
    norms = torch.linalg.vector_norm(vectors.detach(), dim=2)
    off = ((norms - 1).abs() > UNIT_ERROR).nonzero()
    if len(off):
        row, index = off[0].tolist()
        raise ValueError(
            f"Expected unit {name}, but got norm {norms[row, index].item()} at row {row}, sample {index}; "
            "see suffice.sample_vmf"
        )
