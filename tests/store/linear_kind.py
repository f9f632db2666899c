"""A kind that the library does not have, made with nothing but its table: a linear head and hidden vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from suffice.store.kinds import FEATURE, LABEL, TEMPERATURE, BankTensor, Column, Kind, register_kind

__all__ = ["KIND", "Head", "Hidden", "make_hidden"]


@dataclass(frozen=True, kw_only=True)
class Head:
    """Weight [C, p] in whatever dtype it has, and a bias."""

    weight: Tensor
    bias: Tensor

    def __post_init__(self) -> None:
        if torch.isnan(self.weight).any():
            raise ValueError("Expected weight without NaN")


@dataclass(frozen=True)
class Hidden:
    """Hidden vectors against a head, perhaps with labels."""

    bank: Head
    hidden: Tensor
    temperature: Tensor
    margin: Tensor
    labels: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", self.hidden.double())
        object.__setattr__(self, "temperature", torch.as_tensor(self.temperature).double().expand(len(self.hidden)))

    def __len__(self) -> int:
        return len(self.hidden)


MARGIN = Column(name="margin", wrong=lambda values, _: values < 0, reason="expected >= 0, but got {value}")
KIND = Kind(
    name="test-linear",
    bank=Head,
    states=Hidden,
    tensors={
        "weight": BankTensor(shape=("classes", "dim"), dtypes=("F64", "F32", "F16", "BF16")),
        "bias": BankTensor(shape=("classes",), dtypes=("F64", "F32")),
    },
    columns={
        "labels": replace(LABEL, optional=True),
        "hidden": FEATURE,
        "temperature": TEMPERATURE,
        "margin": MARGIN,
    },
    needed=("hidden", "temperature", "margin", "weight", "bias"),
)
register_kind(KIND)


def make_hidden(dtype: torch.dtype = torch.float32, *, labels: bool = True, count: int = 9, dim: int = 3) -> Hidden:
    """Some hidden vectors against four classes."""
    generator = torch.Generator().manual_seed(5)
    head = Head(
        weight=torch.randn(4, dim, generator=generator).to(dtype), bias=torch.randn(4, generator=generator).double()
    )
    return Hidden(
        head,
        torch.randn(count, dim, generator=generator),
        torch.tensor(0.7),
        torch.rand(count, generator=generator, dtype=torch.float64),
        torch.randint(0, 4, (count,), generator=generator) if labels else None,
    )
