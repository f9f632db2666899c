"""The states of the comparison: the built-in ones, and 2,000 made to be difficult that depend on a seed only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

import suffice as sf
from tests.attacks.extremes import extreme_states

__all__ = ["ADVERSARIAL", "BUILTIN_SAMPLE", "Block", "adversarial", "builtin", "from_arrays", "to_arrays"]

SEED = 71_000
BANKS = 50
ADVERSARIAL = 2_000
BUILTIN_SAMPLE = 256


class Block(NamedTuple):
    """States of one bank, computed in one batch. `number` counts the blocks of a collection."""

    collection: str
    number: int
    states: sf.States


def adversarial() -> Iterator[Block]:
    """50 banks of 40 states: radii near zero, magnitudes from 1e-300 to 1e300, saturation and ties."""
    for number in range(BANKS):
        yield Block("adversarial", number, _with_relatives(extreme_states(SEED + number)))


def _with_relatives(states: sf.States) -> sf.States:
    """Five for one: also with the next label, half the feature, the opposite one, and four times f and tau.

    The factors are powers of two, so that nothing is rounded: in the last of them f/tau cancels as it did.
    """
    f, y, tau = states.features, states.labels, states.temperature
    small = (f.abs().amax(dim=1) < 1e300) & (tau < 1e300)
    factor = torch.where(small, 4.0, 1.0)
    return sf.States(
        states.bank,
        torch.cat([f, f, f / 2, -f, f * factor[:, None]]),
        torch.cat([y, (y + 1) % states.bank.num_classes, y, y, y]),
        torch.cat([tau, tau, tau, tau, tau * factor]),
    )


def _first() -> sf.Collection:
    """The first collection, which code from before the second knows as the only one."""
    try:
        return sf.builtin_collection("first")
    except ValueError:
        return sf.builtin_collection()


def builtin(sample: int | None = None) -> Iterator[Block]:
    """All states of the first collection and of the second objective, or `sample` of their rows, evenly spaced."""
    collections = {"contrastive": _first(), "supervised": sf.builtin_collection("supervised")}
    total = sum(len(collection) for collection in collections.values())
    wanted = np.arange(total) if sample is None else np.unique(np.linspace(0, total - 1, sample).round().astype(int))
    start, number = 0, 0
    for name, collection in collections.items():
        # a block is a stratum, in however many files it is stored
        for _, batches in groupby(collection, key=lambda batch: (batch.dataset[0], batch.run[0], batch.step[0])):
            states = [batch.states for batch in batches]
            count = sum(len(part) for part in states)
            rows = torch.from_numpy(wanted[(wanted >= start) & (wanted < start + count)] - start)
            if len(rows):
                yield Block(name, number, _joined(states)[rows])
            start, number = start + count, number + 1


def _joined(states: list[Any]) -> Any:
    """States of one bank in one."""
    if len(states) == 1:
        return states[0]
    bank = states[0].bank
    fields = ("features", "labels", "temperature")
    return sf.States(bank, *(torch.cat([getattr(part, name) for part in states]) for name in fields))


_FIELDS = ("directions", "concentrations", "biases", "features", "labels", "temperature")


def to_arrays(states: sf.States) -> dict[str, np.ndarray]:
    """What the states are made of."""
    bank = states.bank
    parts = (bank.directions, bank.concentrations, bank.biases, states.features, states.labels, states.temperature)
    return {name: part.numpy(force=True) for name, part in zip(_FIELDS, parts, strict=True)}


def from_arrays(arrays: dict[str, np.ndarray]) -> sf.States:
    """The states again. Normalised directions stay as they are, so that nothing is rounded."""
    mu, k, c, f, y, tau = (torch.from_numpy(arrays[name]) for name in _FIELDS)
    return sf.States(sf.ClassBank(mu, k, c), f, y, tau)
