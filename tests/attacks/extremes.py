"""States that make certificates as wrong as they can be: radii near zero, mixed magnitudes, saturation, ties."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import suffice as sf

QUERIES = 8
# three in ten near r = 0, two of mixed magnitudes, two saturated, the rest random or tied
KINDS = ("zero", "zero", "zero", "magnitude", "magnitude", "saturated", "saturated", "random", "random", "tied")
LARGE = ((3, 64), (4, 33), (40, 8), (5, 64))


class Dice:
    """Seeded numbers."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self, low: float, high: float, *size: int) -> Tensor:
        return low + (high - low) * torch.rand(*size, generator=self.generator, dtype=torch.float64)

    def power(self, low: float, high: float, *size: int) -> Tensor:
        return 10 ** self.uniform(low, high, *size)

    def number(self, low: float, high: float) -> float:
        return float(self.uniform(low, high, 1))

    def whole(self, below: int) -> int:
        return int(torch.randint(0, below, (1,), generator=self.generator))

    def pick(self, *values: float) -> float:
        return values[self.whole(len(values))]

    def units(self, rows: int, dim: int) -> Tensor:
        return torch.nn.functional.normalize(
            torch.randn(rows, dim, generator=self.generator, dtype=torch.float64), dim=1
        )

    def signs(self, *size: int) -> Tensor:
        return torch.where(self.uniform(0, 1, *size) < 0.5, -1.0, 1.0)


def kind_of(seed: int) -> str:
    return KINDS[seed % len(KINDS)]


def extreme_states(seed: int) -> sf.States:
    """One bank and eight queries."""
    dice = Dice(seed)
    classes, dim = LARGE[(seed // 13) % len(LARGE)] if seed % 13 == 12 else (2 + dice.whole(7), 5 + dice.whole(12))
    if dice.whole(4) == 0 and classes <= dim:
        mu = torch.eye(dim, dtype=torch.float64)[torch.randperm(dim, generator=dice.generator)[:classes]]
    else:
        mu = dice.units(classes, dim)
    make = {"zero": _near_zero, "magnitude": _magnitudes, "saturated": _saturated, "random": _random, "tied": _tied}
    return make[kind_of(seed)](dice, mu)


def _score(nu: float, k: Tensor, r: Tensor) -> Tensor:
    """Roughly Phi(r) - Phi(k), for biases that make up for it."""
    total = torch.zeros(())
    for x, sign in ((r, 1.0), (k, -1.0)):
        s = torch.hypot(x, torch.full_like(x, nu))
        total = total + sign * (s - nu * torch.log(nu + s) - torch.log(s) / 2)
    return total


def _balanced(dice: Dice, mu: Tensor, k: Tensor, u: Tensor) -> Tensor:
    """Biases with which the classes of one query are within some digits of each other."""
    r = torch.linalg.vector_norm(k[:, None] * mu + u, dim=1)
    return -_score(mu.shape[1] / 2 - 1, k, r) + dice.uniform(-6, 6, len(k))


def _near_zero(dice: Dice, mu: Tensor) -> sf.States:
    """|f|/tau = k_j (1 + x) against mu_j, or that plus x k_j in any direction."""
    classes, dim = mu.shape
    twin = classes > 2 and dice.whole(4) == 0
    if twin:
        # two classes whose radii are near zero at once
        mu[1] = torch.nn.functional.normalize(mu[0] + dice.power(-16, -6, 1) * dice.units(1, dim)[0], dim=0)
    k = dice.power(0, 8, classes)
    if dice.whole(2):
        k[1:] = dice.power(-1, 2, classes - 1)
    if twin:
        k[1] = k[0] * (1 + dice.power(-16, -6, 1))
    tau = dice.power(-2, 1, QUERIES)
    labels = torch.randint(0, classes, (QUERIES,), generator=dice.generator)
    near = torch.where(
        dice.uniform(0, 1, QUERIES) < 0.7, 0, torch.randint(0, classes, (QUERIES,), generator=dice.generator)
    )
    labels = torch.where(dice.uniform(0, 1, QUERIES) < 0.5, near, labels)
    x = dice.power(-16, -3, QUERIES)[:, None]
    along = (dice.uniform(0, 1, QUERIES) < 0.5)[:, None]
    sideways = dice.units(QUERIES, dim)
    size = k[near][:, None]
    u = torch.where(along, -size * mu[near] * (1 + dice.signs(QUERIES, 1) * x), -size * mu[near] + size * x * sideways)
    biases = torch.zeros(classes, dtype=torch.float64)
    if dice.whole(3):
        biases = _balanced(dice, mu, k, u[0])
    return sf.States(sf.ClassBank(mu, k, biases), u * tau[:, None], labels, tau)


def _magnitudes(dice: Dice, mu: Tensor) -> sf.States:
    """Any of features, temperatures, concentrations and biases from 1e-300 to 1e300, alone and together."""
    classes, dim = mu.shape
    reach = dice.pick(8.0, 40.0, 150.0, 300.0)
    which = dice.whole(7)
    k = dice.power(-1, 3, classes)
    biases = dice.uniform(-3, 3, classes)
    tau = dice.power(-2, 1, QUERIES)
    lengths = dice.power(-1, 1, QUERIES)
    if which in (0, 5):
        # f/tau stays ordinary
        scale = dice.power(-reach, reach, QUERIES).clamp(1e-305, 1e305)
        tau, lengths = tau * scale, lengths * scale
    if which in (1, 6):
        lengths = dice.power(-reach, reach, QUERIES)
    if which in (2, 6):
        tau = dice.power(-reach, reach, QUERIES)
    if which in (3, 5, 6):
        k = dice.power(-reach, reach, classes)
        if dice.whole(2):
            k[0] = 10.0
    if which in (4, 5):
        biases = dice.signs(classes) * dice.power(-reach, reach, classes)
    f = torch.nn.functional.normalize(mu[torch.arange(QUERIES) % classes] + dice.units(QUERIES, dim), dim=1)
    f = f * lengths[:, None]
    if dice.whole(3) == 0:
        # coordinates of different magnitudes
        f = f * dice.power(-min(reach, 30.0), 0, QUERIES, dim)
    return sf.States(sf.ClassBank(mu, k, biases), f, torch.arange(QUERIES) % classes, tau.clamp(5e-308, 1e308))


def _saturated(dice: Dice, mu: Tensor) -> sf.States:
    """One class holds all but 1e-50 to 1e-10000 of the mass; the target is it, the last or the second."""
    classes, dim = mu.shape
    k = dice.power(-1, 3, classes)
    if dice.whole(3) == 0:
        k[dice.whole(classes)] = 0.0
    tau = dice.power(-2, 1, QUERIES)
    how = dice.whole(3)
    biases = dice.uniform(-1, 1, classes)
    if how != 1:
        biases = biases + dice.uniform(-1, 1, classes) * dice.pick(120.0, 500.0, 750.0, 1500.0, 1e4)
    if how != 0:
        tau = tau * 10 ** dice.number(-6, -2)
    f = torch.nn.functional.normalize(mu[torch.arange(QUERIES) % classes] + dice.units(QUERIES, dim), dim=1)
    f = f * dice.power(-1, 1.5, QUERIES, 1)
    if dice.whole(5) == 0:
        f = torch.round(f * 4)
    u = f / tau[:, None]
    scores = torch.stack(
        [_score(dim / 2 - 1, k, torch.linalg.vector_norm(k[:, None] * mu + row, dim=1)) + biases for row in u]
    )
    places = torch.tensor([0, 0, 0, 1, 1, classes - 1, classes - 1, classes // 2])[:QUERIES]
    labels = scores.argsort(dim=1, descending=True).gather(1, places[:, None])[:, 0]
    return sf.States(sf.ClassBank(mu, k, biases), f, labels, tau)


def _random(dice: Dice, mu: Tensor) -> sf.States:
    """Ordinary states, some with long or short features and zero concentrations."""
    classes, dim = mu.shape
    k = dice.power(-1, dice.pick(2.0, 5.0), classes)
    if dice.whole(4) == 0:
        k[: classes // 2] = 0.0
    f = torch.nn.functional.normalize(
        mu[torch.arange(QUERIES) % classes] * dice.uniform(-2, 2, QUERIES, 1) + dice.units(QUERIES, dim), dim=1
    )
    f = f * dice.power(-2, 1, QUERIES, 1)
    if dice.whole(4) == 0:
        f[0] = 0.0
    labels = torch.randint(0, classes, (QUERIES,), generator=dice.generator)
    biases = dice.uniform(-1, 1, classes) * dice.pick(0.0, 1.0, 30.0)
    return sf.States(sf.ClassBank(mu, k, biases), f, labels, dice.power(-2, 1, QUERIES))


def _tied(dice: Dice, mu: Tensor) -> sf.States:
    """Equal classes, and classes that differ in the last digits."""
    classes, dim = mu.shape
    k = dice.power(-1, 4, classes)
    half = math.ceil(classes / 2)
    nearly = dice.pick(0.0, 1e-15, 1e-12, 1e-7)
    mu[half:] = torch.nn.functional.normalize(mu[: classes - half] + nearly * dice.units(classes - half, dim), dim=1)
    k[half:] = k[: classes - half] * (1 + nearly * dice.uniform(-1, 1, classes - half))
    f = torch.nn.functional.normalize(mu[torch.arange(QUERIES) % classes] + dice.units(QUERIES, dim), dim=1)
    labels = torch.randint(0, classes, (QUERIES,), generator=dice.generator)
    return sf.States(sf.ClassBank(mu, k), f * dice.power(-2, 1, QUERIES, 1), labels, dice.power(-2, 1, QUERIES))
