"""The comparison of app:numerics-endpoint: direct subtraction against the stable form, by relative gap.

`python -m benchmarks.endpoint_table` prints the Markdown table that docs/theory/07-measured.md shows.
"""

from __future__ import annotations

import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth import surrogate

__all__ = ["GAPS", "endpoint_errors", "markdown"]

GAPS = (1.0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
_NU, _POINTS = 255.0, 200


def endpoint_errors(gap: float) -> tuple[float, float, float]:
    """The worst relative errors at one gap (r^2 - k^2)/k^2, p = 512, order 2: direct, stable, stable in float32.

    The inputs are the same stored k and squared gaps throughout, taken as exact; k runs from 1 to 1e5.
    """
    pair = sf.DebyePair(order=2)
    k = torch.logspace(0, 5, _POINTS, dtype=torch.float64).float().double()
    squared = (k * k * gap).float().double()
    r = torch.sqrt(k * k + squared)
    direct = pair.potential(_NU, r) - pair.potential(_NU, k)
    stable = pair.difference(_NU, r, k, squared)
    narrow = pair.difference(_NU, r.float(), k.float(), squared.float()).double()
    exact = [
        surrogate.potential_difference(2, _NU, 0.0, low, square)
        for low, square in zip(k.tolist(), squared.tolist(), strict=True)
    ]
    return _worst(direct, exact), _worst(stable, exact), _worst(narrow, exact)


def _worst(values: torch.Tensor, exact: list[arb]) -> float:
    with ctx.workprec(512):
        return max(float(abs(arb(v) / e - 1)) for v, e in zip(values.tolist(), exact, strict=True))


def markdown() -> str:
    """The table, one row a gap."""
    head = "| (r^2 - k^2)/k^2 | direct, float64 | stable, float64 | stable, float32 |\n|---|---|---|---|\n"
    rows = (f"| {gap:.0e} | " + " | ".join(f"{e:.1e}" for e in endpoint_errors(gap)) + " |\n" for gap in GAPS)
    return head + "".join(rows)


if __name__ == "__main__":
    print(markdown(), end="")
