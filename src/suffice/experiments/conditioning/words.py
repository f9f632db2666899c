"""What fig:conditioning shows, said: whether the error scales as the temperature and falls with the target's bias."""

from __future__ import annotations

from suffice.experiments.conditioning.measure import Conditioning
from suffice.experiments.document import Picture, Section, Table, number

__all__ = ["describe_conditioning"]


def describe_conditioning(found: Conditioning, picture: Picture) -> Section:
    """It holds if the scaling is exact and the biases change the error by more than a factor of ten."""
    return Section(
        title="The same primitive error, different consequences",
        labels=("fig:conditioning", "sec:exp-conditioning", "app:conditioning-detail"),
        text=(
            f"**a, b**: f and tau of one state ({', '.join(one.id for one in found.controls)}) times the same power of "
            "two, so that f/tau, and with it every scalar input, keeps its bits; the actual gradient error is computed "
            "in Arb anew at each temperature. **c**: a bias on the target class of "
            f"{found.controls[0].id}, added to exact and approximate scores alike. The pair is F_2, its certificates "
            "come from its own allowances."
        ),
        finding=_finding(found),
        tables=[_table(found)],
        pictures=[picture],
        violations=found.broken,
    )


def _finding(found: Conditioning) -> str:
    scaling = (
        "error times temperature is the same float64 number at every one of them"
        if found.exactly
        else "error times temperature is NOT the same at all of them"
    )
    if found.exactly and found.fell > 10:
        return (
            f"Holds: over {len(found.controls[0].columns['tau'])} temperatures {scaling}, and the certificate follows "
            f"it; over the biases the actual error falls by a factor of {found.fell:.1e} while the geometry-only bound "
            "does not move and the conditioned and centred bounds follow it down."
        )
    return (
        f"Does not hold as in the paper: {scaling}; over the biases the error changes by a factor of {found.fell:.1e}."
    )


def _table(found: Conditioning) -> Table:
    """Every fourth bias; probabilities near one by what is missing."""
    target = found.target
    shown = ("actual", "centered", "conditioned", "geometry")
    return Table(
        name="conditioning",
        caption="Panel c in numbers: gradient error and bounds.",
        headings=("target probability", "actual", "centred", "conditioned", "geometry-only"),
        rows=[
            [f"{p:.3g}" if p < 0.999 else f"1 - {x:.2g}", *(number(float(target[name][i])) for name in shown)]
            for i, (p, x) in enumerate(zip(target["target_probability"], found.away, strict=True))
            if i % 4 == 0
        ],
    )
