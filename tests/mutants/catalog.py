"""All mutants, area by area."""

from __future__ import annotations

from tests.mutants import (
    checker,
    compiled,
    contracts,
    dominated,
    evaluators,
    filters,
    geometry,
    heads,
    inversion,
    judging,
    orders,
    ordinary,
    pairs,
    passes,
    plain,
    quantized,
    rounding,
    rows,
    rungs,
    screening,
    seams,
    series,
    stores,
    streams,
    sums,
    training,
    widenings,
)
from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant
    for area in (
        checker,
        contracts,
        evaluators,
        geometry,
        heads,
        quantized,
        rounding,
        sums,
        ordinary,
        widenings,
        rows,
        inversion,
        rungs,
        seams,
        stores,
        streams,
        pairs,
        judging,
        plain,
        dominated,
        series,
        compiled,
        passes,
        orders,
        training,
        filters,
        screening,
    )
    for mutant in area.MUTANTS
)
