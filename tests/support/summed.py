"""Sums in all ways that there are: compiled programs as they stand, and passes in either library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import suffice as sf
import suffice.realizations.summed_compiled as compiled
from suffice.contracts.centered_series import CenteredSeries
from suffice.contracts.centered_sums import CenteredSums, centered_sums
from suffice.numerics.arrays import Scalars, TorchArrays
from suffice.realizations.geometry_error import feature_lengths
from suffice.realizations.ordinary import OrdinaryRows, ordinary_envelope
from suffice.realizations.summed import FirstLoop, SummedRows
from suffice.realizations.summed_arrays import ArrayLoops
from suffice.realizations.summed_compiled import CompiledLoops

__all__ = [
    "LOOPS",
    "as_they_stand",
    "both_rows",
    "formed_sums",
    "in_every_way",
    "mixed_states",
    "no_outside",
    "there",
]


def as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs instead of compiling them."""

    def run(program: Callable[..., Any], constants: tuple[Any, ...], inputs: tuple[torch.Tensor, ...]) -> Any:
        return program(*constants, *inputs)

    monkeypatch.setattr(compiled, "run_compiled", run)


def no_outside(states: sf.States) -> torch.Tensor:
    """All rows are inside."""
    return torch.zeros(len(states), dtype=torch.bool)


def _in_torch(states: sf.States, order: int, length: Scalars) -> ArrayLoops:
    return ArrayLoops(states, order, length, TorchArrays(states.features.device))


LOOPS: dict[str, FirstLoop] = {"compiled": CompiledLoops, "numpy": ArrayLoops, "torch": _in_torch}
in_every_way = pytest.mark.parametrize("loops", LOOPS)


def there(numbers: Any) -> torch.Tensor:
    """Numbers of rows as a tensor, wherever they are."""
    return torch.as_tensor(numbers)


def both_rows(states: sf.States, pair: sf.DebyePair, loops: str) -> tuple[SummedRows, OrdinaryRows]:
    """The same states by sums, and formed."""
    proved = ordinary_envelope(pair, states.bank.nu)
    assert proved is not None
    outside = no_outside(states)
    formed = OrdinaryRows(states, states.geometry(), proved.order, proved.cap, outside)
    length = feature_lengths(states).numpy()
    return SummedRows(states, proved.order, proved.cap, outside, LOOPS[loops], length), formed


def formed_sums(rows: OrdinaryRows, *, own: bool) -> tuple[CenteredSums, CenteredSeries, torch.Tensor]:
    """The sums and series of what is formed, and where it is ordinary."""
    head = rows.head.measured(rows.distances)
    placed = rows.own_matched(head.top) if own else rows.unit_matched(head.top)
    sums = centered_sums(head, placed.allowances)
    return sums, CenteredSeries(sums, head.row), placed.ordinary


def mixed_states(seed: int = 7, queries: int = 40) -> sf.States:
    """Ordinary rows, rows that one class dominates, cancelling ones, ties and features that are too large."""
    g = torch.Generator().manual_seed(seed)
    classes, dim = 12, 20
    mu = torch.nn.functional.normalize(torch.randn(classes, dim, generator=g, dtype=torch.float64), dim=1)
    mu[1] = mu[0]
    k = 20 * (0.5 + torch.rand(classes, generator=g, dtype=torch.float64))
    k[1] = k[0]
    f = torch.nn.functional.normalize(torch.randn(queries, dim, generator=g, dtype=torch.float64), dim=1)
    labels = torch.randint(0, classes, (queries,), generator=g)
    tau = 10 ** (-2 * torch.rand(queries, generator=g, dtype=torch.float64))
    tau[3], tau[4] = 1e-3, 1e-4
    f[3], f[4] = 3 * mu[2], mu[5]
    f[5] = -mu[labels[5]] * k[labels[5]] * tau[5]
    f[6] = mu[0] * 2
    f[7] = 0
    f[8] *= 1e200
    f[9] *= 1e-60
    return sf.States(sf.ClassBank(mu, k, torch.randn(classes, generator=g, dtype=torch.float64)), f, labels, tau)
