"""Mutants of what the orders share (realizations/orders.py), of the series' sums and of the tiers that are known."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "realizations/orders.py"
_SUMS = "contracts/conditioned_series.py"
_HERE = "tests/realizations/test_orders.py::"
_ARB = tuple(f"{_HERE}test_errors_are_within_their_allowances[{seed}]" for seed in (0, 1, 2, 3))
_SAME = tuple(f"{_HERE}test_they_are_those_of_each_order[{seed}]" for seed in (0, 1, 2))
_WIDE = (f"{_HERE}test_the_geometry_may_be_off",)
_PAIRWISE = ("tests/contracts/test_conditioned_series.py::test_they_are_the_sums_over_pairs_of_classes",)
_TIERS = tuple(
    f"tests/audits/test_tiers.py::test_tiers_are_those_of_a_cascade[{prediction}-{order}]"
    for prediction in (False, True)
    for order in (2, 3)
)
_PLACES = ("tests/audits/test_rows.py::test_saturated_rows_stand_where_they_stood",)


def _orders(name: str, old: str, new: str, why: str, kills: tuple[str, ...]) -> Mutant:
    return Mutant(name=f"orders-{name}", file=_FILE, old=old, new=new, why=why, kills=kills)


MUTANTS: tuple[Mutant, ...] = (
    _orders(
        "power",
        old="total.mul_(inverse_r).add_(power)",
        new="total.mul_(inverse_r)",
        why="leaves out the powers of 1/s(k): d_n is a part of the integral",
        kills=(*_ARB, *_SAME),
    ),
    _orders(
        "moved",
        old="between.add_(moved, alpha=c)",
        new="pass",
        why="what lies between the computed and the exact radius is not in d_n",
        kills=_WIDE,
    ),
    _orders(
        "moved-order",
        old="moved.mul_(inverse)\n        ratio",
        new="moved.mul_(inverse).mul_(inverse)\n        ratio",
        why="a power too many of 1/s",
        kills=_WIDE,
    ),
    _orders(
        "ratio-order",
        old="ratio.mul_(inverse)\n        if n > 1",
        new="ratio.mul_(inverse).mul_(inverse)\n        if n > 1",
        why="a_n with a power too many of 1/s",
        kills=(*_ARB, *_SAME),
    ),
    _orders(
        "ratio-high",
        old="off.high * square",
        new="geometry.radii * square",
        why="a_n at the computed radius: the exact one may be larger",
        kills=_WIDE,
    ),
    _orders(
        "floor",
        old="torch.maximum(above(d[:-1], FEW), floor, out=d[:-1])",
        new="d[:-1] = above(d[:-1], FEW)",
        why="an allowance that underflowed says that there is no error",
        kills=(f"{_HERE}test_what_underflows_is_not_zero",),
    ),
    _orders(
        "score-error-moved",
        old="moved + float(closed_form_constant(n, nu))",
        new="float(closed_form_constant(n, nu))",
        why="scores are not those of the exact geometry, and nothing says so",
        kills=_WIDE,
    ),
    _orders(
        "outside",
        old="error = torch.where(realized.outside, torch.inf, error)",
        new="pass",
        why="rows that overflow would be bounded",
        kills=(f"{_HERE}test_nothing_is_known_of_rows_outside",),
    ),
    _orders(
        "scores",
        old="theta_r).add_(at_k[: len(some)])",
        new="theta_r)",
        why="a divided difference without its values at k is no order's",
        kills=_SAME,
    ),
    Mutant(
        name="conditioned-sums-target",
        file=_SUMS,
        old="scratch = w.scatter(1, column, 0.0)",
        new="scratch = w.clone()",
        why="sums over the other classes with the target among them",
        kills=_PAIRWISE,
    ),
    Mutant(
        name="conditioned-sums-own",
        file=_SUMS,
        old="apart = away.sub_(w)",
        new="apart = away",
        why="t_j takes the class's own allowance for another's",
        kills=_PAIRWISE,
    ),
    Mutant(
        name="conditioned-sums-second",
        file=_SUMS,
        old="apart.sub_(w, alpha=2)",
        new="apart.sub_(w, alpha=1)",
        why="m_j is not the second moment",
        kills=_PAIRWISE,
    ),
    Mutant(
        name="conditioned-sums-third",
        file=_SUMS,
        old="apart.sub_(w, alpha=4)",
        new="apart.sub_(w, alpha=3)",
        why="q_j is not the third moment",
        kills=_PAIRWISE,
    ),
    Mutant(
        name="tiers-strict",
        file="audits/orders.py",
        old="torch.gt(room, 1) if plan.prediction",
        new="torch.ge(room, 0) if plan.prediction",
        why="a headroom below 1 taken for enough",
        kills=(
            *_TIERS,
            "tests/audits/test_orders.py::test_every_order_has_the_verdict_of_its_own_certificate[centered-analytic]",
        ),
    ),
    Mutant(
        name="tiers-multiple",
        file="audits/tiers.py",
        old="asked.b_conditioned >= b, _multiple",
        new="asked.b_conditioned >= b / 2, _multiple",
        why="a tier that does not certify the simple allowances",
        kills=_TIERS,
    ),
    Mutant(
        name="audit-certificates-of-other-rows",
        file="audits/rows.py",
        old="return realized.as_formed, in_order(whole, places),",
        new="return realized.as_formed, whole,",
        why="a verdict of another state",
        kills=_PLACES,
    ),
    Mutant(
        name="audit-tolerances-of-other-rows",
        file="audits/rows.py",
        old="in_order(joined(tolerances), places)",
        new="joined(tolerances)",
        why="a tolerance of another state",
        kills=_PLACES,
    ),
    Mutant(
        name="audit-parts-as-they-come",
        file="audits/parts.py",
        old="in sorted(found, key=lambda each: each[0])]",
        new="in found]",
        why="columns of other states of the batch",
        kills=("tests/audits/test_parts.py::test_columns_are_those_of_the_whole_batch[True]",),
    ),
    Mutant(
        name="orders-true-errors",
        file="audits/orders.py",
        old="certified[rows] = within",
        new="certified[rows] = ~over",
        why="an order that true errors leave open is not certified",
        kills=(
            "tests/audits/test_rows.py::test_every_order_has_its_own_verdict[True-conditioned]",
            "tests/audits/test_orders.py::test_every_order_has_the_verdict_of_its_own_certificate[conditioned-analytic]",
        ),
    ),
)
