"""What a monitor says of some states: plain numbers and words, for any logger."""

from __future__ import annotations

from typing import Any

import torch

from suffice.budgets import Budgets
from suffice.certificates.certify import certify_realized
from suffice.contracts.registry import contract_named
from suffice.numerics.records import joined
from suffice.pairs.base import Pair
from suffice.realizations.base import Realization
from suffice.realizations.shorthand import realization_of
from suffice.tolerances.tolerance import tolerance_of

__all__ = ["MonitorReport", "certified_report"]

_QUANTILES = (0.05, 0.5, 0.95)


class MonitorReport(dict[str, float | int | str]):
    """What a monitor reports, as a plain dict; `numbers` and `words` are its two halves, for loggers that take one.

    >>> MonitorReport({"suffice/states": 4, "suffice/binding": "loss"}).numbers
    {'suffice/states': 4}
    """

    @property
    def numbers(self) -> dict[str, float | int]:
        """What can be drawn over steps."""
        return {name: value for name, value in self.items() if not isinstance(value, str)}

    @property
    def words(self) -> dict[str, str]:
        """What cannot: the budget that binds most often, the scope."""
        return {name: value for name, value in self.items() if isinstance(value, str)}


def certified_report(
    states: Any, budgets: Budgets, realization: Pair | Realization | None, contract: str
) -> MonitorReport:
    """Verdicts, headroom and tolerance of some states; "suffice/basis" where a budget is an estimate."""
    chosen, taken = contract_named(contract), realization_of(realization, states=states)
    certificates, results, start = [], [], 0
    # realized once for both
    for part in states.chunks():
        made, some = taken.at(part), budgets[start : start + len(part)]
        certificates.append(certify_realized(taken, made, some, chosen))
        results.append(tolerance_of(made, some, chosen))
        start += len(part)
    certificate, result = joined(certificates, states=states, budgets=budgets), joined(results)
    bounded = result.b[torch.as_tensor(result.status == "bounded", device=result.b.device)]
    names, numbers = _counted(result.binding)
    report = MonitorReport()
    report |= {
        "suffice/states": len(states),
        "suffice/certified": float((certificate.verdict == "certified").mean()),
        "suffice/headroom_min": float(certificate.headroom.min()),
        "suffice/headroom_median": float(certificate.headroom.median()),
        "suffice/binding": names[0],
        "suffice/bounded": len(bounded),
        "suffice/scope": certificate.scope,
    }
    report |= {f"suffice/binding_{name}": n / len(states) for name, n in zip(names, numbers, strict=True)}
    if len(bounded):
        values = torch.quantile(bounded, torch.tensor(_QUANTILES, dtype=bounded.dtype, device=bounded.device))
        report |= {f"suffice/b_q{100 * q:02.0f}": v for q, v in zip(_QUANTILES, values.tolist(), strict=True)}
    if budgets.estimated:
        report["suffice/basis"] = "the gradient budget is estimated from noise"
    return report


def _counted(binding: object) -> tuple[list[str], list[int]]:
    """The binding budgets, the most frequent first."""
    counts: dict[str, int] = {}
    for name in map(str, binding):  # type: ignore[call-overload]
        counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts, key=lambda name: -counts[name])
    return ordered, [counts[name] for name in ordered]
