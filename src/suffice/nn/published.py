"""The statistics that published ProCo code keeps, as tensors of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["PublishedStatistics", "published_statistics"]

# ours is [current, previous]
_ESTIMATORS = ("estimator", "estimator_old")
_MEAN, _COUNT, _PRIORS = "Ave", "Amount", "weight"
# a mean of unit vectors is no longer than 1 but for what rounding adds up to
_LONGEST = 1 + 1e-3


class PublishedStatistics(NamedTuple):
    """Means and counts of the epoch that is running and of the one before, and priors if there were any."""

    means: Float[Tensor, "2 classes dim"]
    counts: Float[Tensor, "2 classes"]
    priors: Float[Tensor, " classes"] | None


def published_statistics(source: object, num_classes: int, dim: int, *, unit: bool = True) -> PublishedStatistics:
    """From the published loss itself, or from a mapping of its tensors by name, checked.

    The names are `estimator.Ave`, `estimator.Amount`, `estimator_old.Ave` and `estimator_old.Amount`, and perhaps
    `weight`; anything before them, as a model's state_dict puts there, is ignored. Concentrations and normalisers are
    not taken over: they follow from the means, which with `unit` are means of unit vectors.
    """
    found = _from_mapping(source) if isinstance(source, Mapping) else _from_object(source)
    means = torch.stack([_checked(found, f"{each}.{_MEAN}", (num_classes, dim)) for each in _ESTIMATORS])
    counts = torch.stack([_checked(found, f"{each}.{_COUNT}", (num_classes,)) for each in _ESTIMATORS])
    if bool((counts < 0).any()):
        raise ValueError(f"Expected counts >= 0, but got {counts.min().item():g}")
    longest = torch.linalg.vector_norm(means, dim=2).max().item()
    if unit and longest > _LONGEST:
        raise ValueError(
            f"Expected means of unit vectors, but one has length {longest:.6g}; features that were not normalised are "
            "for a loss with normalize=False"
        )
    priors = _checked(found, _PRIORS, (num_classes,), flat=True) if _PRIORS in found else None
    return PublishedStatistics(means, counts, priors)


def _from_object(source: object) -> dict[str, object]:
    found = {}
    for each in _ESTIMATORS:
        for name in (_MEAN, _COUNT):
            value = getattr(getattr(source, each, None), name, None)
            if value is None:
                raise TypeError(
                    f"Expected the published loss, or a mapping of its tensors, but {type(source).__name__} has no "
                    f"{each}.{name}"
                )
            found[f"{each}.{name}"] = value
    priors = getattr(source, _PRIORS, None)
    return found if priors is None else {**found, _PRIORS: priors}


def _from_mapping(source: Mapping[str, object]) -> dict[str, object]:
    if not source:
        raise ValueError(
            "Expected the tensors of the published loss, but got an empty mapping: its statistics are no buffers, so "
            "that its state_dict() has nothing; give the loss itself"
        )
    wanted = [f"{each}.{name}" for each in _ESTIMATORS for name in (_MEAN, _COUNT)]
    first = wanted[0]
    prefixes = [key.removesuffix(first) for key in source if key == first or key.endswith(f".{first}")]
    if len(prefixes) != 1:
        there = ", ".join(sorted(map(str, source))[:8])
        raise ValueError(f"Expected one {first} among the names, but got {len(prefixes)} in {there}")
    missing = [name for name in wanted if f"{prefixes[0]}{name}" not in source]
    if missing:
        raise ValueError(f"Expected {', '.join(wanted)}, but there is no {', '.join(missing)}")
    return {name: source[f"{prefixes[0]}{name}"] for name in (*wanted, _PRIORS) if f"{prefixes[0]}{name}" in source}


def _checked(found: dict[str, object], name: str, shape: tuple[int, ...], *, flat: bool = False) -> Tensor:
    """One of the tensors, on the CPU in float64."""
    value = torch.as_tensor(found[name]).detach().to("cpu", torch.float64)
    value = value.flatten() if flat else value
    if value.shape != shape:
        raise ValueError(f"Expected {name} of shape {shape}, but got {tuple(value.shape)}")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"Expected {name} to be finite, but some of it is not")
    return value
