"""Records of experiments whose numbers are easy to find again."""

from __future__ import annotations

from typing import Any

import numpy as np

from suffice.experiments.conditioning.measure import Conditioning, Control
from suffice.experiments.distribution.measure import Distribution
from suffice.experiments.rearrangement.measure import Rearrangement
from suffice.experiments.responses.measure import Responses

__all__ = ["conditioning", "distribution", "rearrangement", "responses"]


def conditioning(controls: int = 2, **changed: Any) -> Conditioning:
    """Numbers that are easy to find again."""
    curve = {
        "tau": np.array([0.1, 0.2, 0.4]),
        "actual": np.array([4e-3, 2e-3, 1e-3]),
        "geometry": np.array([8e-3, 6e-3, 2e-3]),
    }
    p = np.array([0.1, 0.3, 0.5, 0.7, 0.9995])
    target = {"target_probability": p, "actual": np.array([5.0, 4.0, 3.0, 2.0, 0.25])}
    target |= {"centered": p + 6, "conditioned": p + 7, "geometry": p * 0 + 8}
    some = [Control(id=f"state {i}", dim=16 * (i + 1), columns=curve) for i in range(controls)]
    usual = {"controls": some, "target": target, "away": 1 - p, "exactly": True, "fell": 20.0, "broken": 0}
    return Conditioning(**(usual | changed))


def responses(orders: float = 2.0, *, group: bool = False) -> Responses:
    """Five states; the ramp is 12 and 6 times, the worst function 4 and 2 times the two certificates."""
    b = np.geomspace(1e-7, 1e-7 * 10**orders, 5)
    columns = {"ramp_1e-05": 12 * b, "ramp_0.0001": 120 * b, "worst_1e-05": 4 * b, "worst_0.0001": 40 * b}
    columns |= {"kept": np.array([False, True, True, True, True]), "premise": np.array([True, True, True, False, True])}
    columns["largest_ratio"] = np.array([0.5, 0.5, 0.5, 0.5, 1.0])
    certified = {f"conditioned_gradient_{size:g}": b * size / 1e-5 for size in (1e-4, 1e-5)}
    certified |= {f"centered_gradient_{size:g}": 2 * b * size / 1e-5 for size in (1e-4, 1e-5)}
    rows = np.arange(5) < (3 if group else 0)
    return Responses(columns=columns, certified=certified, group=rows, checked=5, wrong=2)


def rearrangement(**changed: Any) -> Rearrangement:
    """Three states and two assignments."""
    usual = {
        "dims": np.array([64, 64, 128]),
        "b": np.array([1e-7, 1e-6, np.inf]),
        "ratio": np.array([1.002, 1.004, np.nan]),
        "loss": np.array([[1e-7, 4e-7], [2e-6, 3e-6], [5e-9, 5e-8]]),
        "gradient": np.array([[2e-7, 6e-7], [5e-5, 5e-6], [7e-9, 7e-9]]),
        "outside": 1,
        "in_arb": 2,
        "checked": 8,
        "wrong": 3,
    }
    return Rearrangement(**(usual | changed))


def distribution(orders: float = 2.0) -> Distribution:
    """101 states whose tolerances span some orders of magnitude, evenly."""
    b = np.geomspace(1e-7, 1e-7 * 10**orders, 101)
    columns = {f"conditioned_{name}_{size}": b for name in ("loss", "joint") for size in ("0.0001", "1e-05")}
    columns |= {f"centered_joint_{size}": 3 * b for size in ("0.0001", "1e-05")}
    columns["away"] = 0.0005 + np.arange(100, -1, -1) / 100
    dims = np.where(np.arange(101) < 40, 64, 128)
    groups = {"p = 64, tau = 0.1": dims == 64, "p = 128, tau = 0.2": dims == 128}
    return Distribution(columns=columns, dims=dims, groups=groups, checked=24, wrong=1)
