"""Mutants of the fast evaluators: plain arithmetic (contracts/plain.py) and series (contracts/centered_series.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "contracts/plain.py"
_HERE = "tests/contracts/test_plain.py::"
_AGREE = (f"{_HERE}test_both_evaluators_agree_to_their_slacks",)
_DOMAIN = (f"{_HERE}test_rows_outside_of_the_domain_are_not_inside",)
_SUMS = (f"{_HERE}test_exclusive_sums_keep_their_digits",)

_SERIES = "contracts/centered_series.py"
_ENCLOSED = (
    "tests/contracts/test_centered_series.py::test_every_term_is_needed_somewhere",
    "tests/contracts/test_centered_series.py::test_enclosures_contain_the_direct_bounds",
)
_UNUSED = ("tests/contracts/test_centered_series.py::test_rows_that_are_not_for_series",)


def _series(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _ENCLOSED) -> Mutant:
    return Mutant(name=f"series-{name}", file=_SERIES, old=old, new=new, why=why, kills=kills)


def _mutant(name: str, old: str, new: str, why: str, kills: tuple[str, ...]) -> Mutant:
    return Mutant(name=f"plain-{name}", file=_FILE, old=old, new=new, why=why, kills=kills)


MUTANTS = (
    _mutant(
        "up-without-own",
        "up=torch.addcmul(x * weights.rest, 1 + x, exclusive(weights.pi * x))",
        "up=(1 + x) * exclusive(weights.pi * x)",
        "the class's own allowance moves its probability as well",
        _AGREE,
    ),
    _mutant(
        "down-without-own",
        "down=torch.addcmul(y * weights.rest, z, fallen)",
        "down=z * fallen",
        "the class's own allowance moves its probability as well",
        _AGREE,
    ),
    _mutant(
        "upper-is-pi",
        "upper = (weights.others * a / each.left).sum(dim=1)",
        "upper = (weights.others * a).sum(dim=1)",
        "the exact probabilities may be larger than the approximate ones",
        _AGREE,
    ),
    _mutant(
        "no-normaliser",
        "return (weights.pi * moved.x * distances).sum(dim=1) / (weights.pi * moved.z).sum(dim=1)",
        "return (weights.pi * moved.x * distances).sum(dim=1)",
        "the exact side is normalised by sum pi e^-e",
        _AGREE,
    ),
    _mutant(
        "away",
        "away = (size + mass) / (1 + size)",
        "away = mass / (1 + size)",
        "1 - P_y is larger than 1 - pi_y where the target falls",
        _AGREE,
    ),
    _mutant(
        "not-raised",
        "return head.outward(bound, allowances) * (1 + head.roundings)",
        "return bound",
        "bounds hold in exact arithmetic, of probabilities that are known to a factor",
        _AGREE,
    ),
    _mutant(
        "any-movement",
        "inside = (largest <= LARGEST_MOVEMENT) & (sizes <= _LARGEST) & head.known",
        "inside = (sizes <= _LARGEST) & head.known",
        "past the domain exponentials overflow, and what underflowed is magnified",
        _DOMAIN,
    ),
    _mutant(
        "any-size",
        "inside = (largest <= LARGEST_MOVEMENT) & (sizes <= _LARGEST) & head.known",
        "inside = (largest <= LARGEST_MOVEMENT) & head.known",
        "allowances and distances magnify what underflowed",
        _DOMAIN,
    ),
    _mutant(
        "any-bound",
        "torch.stack([size, tv, gradient / sizes]).amin(dim=0) >= _LEAST",
        "torch.stack([size, tv, gradient / sizes]).amin(dim=0) >= 0",
        "a sum of what underflowed is no bound",
        _DOMAIN,
    ),
    _mutant(
        "size-of-gradient",
        "torch.stack([size, tv, gradient / sizes]).amin(dim=0) >= _LEAST",
        "torch.stack([size, tv, gradient]).amin(dim=0) >= _LEAST",
        "an allowance of 1e60 magnifies what underflowed",
        _DOMAIN,
    ),
    _mutant(
        "unknown",
        "& (sizes <= _LARGEST) & head.known",
        "& (sizes <= _LARGEST)",
        "where nothing is known of the log-probabilities, no bound is for plain arithmetic to give",
        _DOMAIN,
    ),
    _mutant(
        "exclusive-by-difference",
        "return (total - others).add_(peak).scatter_(1, top, total)",
        "return values.sum(dim=1, keepdim=True) - values",
        "a sum without a class that has nearly all of it is not a difference",
        _SUMS,
    ),
    _mutant(
        "kept-by-difference",
        "kept = torch.where(small[:, None], kept, exclusive(weights.pi * z))",
        "kept = torch.where(small[:, None], kept, kept)",
        "past a movement of 1 the difference cancels",
        _AGREE,
    ),
    _series(
        "loss-remainder",
        "Enclosure(lower=cubic, upper=cubic + last * expm1_above(b * self.largest))",
        "Enclosure(lower=cubic, upper=cubic)",
        "the terms after the third",
    ),
    _series(
        "moved-remainder",
        "upper=(cubic + last * expm1_above(reach)) / least)",
        "upper=cubic / least)",
        "the terms after the third",
    ),
    _series(
        "normaliser-remainder",
        "least = most - b * b * b * self.largest * self.square / 6",
        "least = most",
        "e^-x is below its parabola",
    ),
    _series(
        "ratio-first",
        "middle = at_zero + b * (self.ratio_first + b * self.ratio_second)",
        "middle = at_zero + b * (b * self.ratio_second)",
        "upper ends grow with b",
    ),
    _series(
        "ratio-second",
        "middle = at_zero + b * (self.ratio_first + b * self.ratio_second)",
        "middle = at_zero + b * self.ratio_first",
        "to second order as well",
    ),
    _series(
        "ratio-remainder",
        "return Enclosure(lower=middle - at_zero * m * t, upper=middle + upper)",
        "return Enclosure(lower=middle - at_zero * m * t, upper=middle)",
        "and past it",
    ),
    _series(
        "ratio-remainder-below",
        "return Enclosure(lower=middle - at_zero * m * t, upper=middle + upper)",
        "return Enclosure(lower=middle, upper=middle + upper)",
        "and past it",
    ),
    _series(
        "curvature",
        "inner = torch.addcmul(pi, apart, apart - 0.5).mul_(v)",
        "inner = (pi * v)",
        "kappa has the square of pibar - pi",
    ),
    Mutant(
        name="series-tv-remainder",
        file="contracts/series.py",
        old="upper=torch.minimum(cap, middle + width)",
        new="upper=torch.minimum(cap, middle)",
        why="the fourth order of total variation",
        kills=_ENCLOSED,
    ),
    _series(
        "tv-twist",
        "(self.curvature + b * self.twist)",
        "self.curvature",
        "the third order of total variation",
    ),
    _series(
        "tv-rough",
        "upper=torch.minimum(cap, line + 3 * reach * line + width)",
        "upper=torch.minimum(cap, line + width)",
        "the second order of the paper's total variation is in its gradient bound",
    ),
    _series(
        "away",
        "upper=(size.upper + self.mass) / (1 + size.lower)",
        "upper=self.mass / (1 + size.lower)",
        "1 - P_y is larger than 1 - pi_y where the target falls",
    ),
    _series(
        "peaked",
        "inside = (self.peak <= MOST_MASS) & self.normalised",
        "inside = self.normalised",
        "the curvature loses digits where one class has nearly everything",
        _UNUSED,
    ),
    _series(
        "unnormalised",
        "inside = (self.peak <= MOST_MASS) & self.normalised",
        "inside = self.peak <= MOST_MASS",
        "remainders are for probabilities that add up to one",
        _UNUSED,
    ),
    _series(
        "vanished-distance",
        "inside &= self.farthest < 1 / LEAST",
        "inside &= self.mass <= 1",
        "a probability that vanishes loses its distance",
        ("tests/tolerances/test_series.py::test_a_distance_is_not_lost_with_its_probability",),
    ),
    Mutant(
        name="series-vanished-ratio",
        file="contracts/series.py",
        old="inside &= self.largest_ratio < 1 / LEAST",
        new="inside &= self.rest <= 1",
        why="a probability that vanishes loses its ratio allowance",
        kills=("tests/tolerances/test_series.py::test_a_ratio_allowance_is_not_lost_with_its_probability",),
    ),
    Mutant(
        name="series-largest-by-subtraction",
        file="contracts/conditioned_series.py",
        old="away = exclusive(w)",
        new="away = w.sum(dim=1, keepdim=True) - w",
        why="what the largest class leaves loses its digits",
        kills=("tests/contracts/test_conditioned_series.py::test_what_the_largest_class_leaves_keeps_its_digits",),
    ),
    Mutant(
        name="series-subnormal-budgets",
        file="tolerances/series.py",
        old="_LEAST_BUDGET = 2.0**-960",
        new="_LEAST_BUDGET = 0.0",
        why="a subnormal bound has no digits to compare",
        kills=("tests/tolerances/test_series.py::test_budgets_among_the_subnormal_numbers",),
    ),
    _mutant(
        "no-limits",
        "limits = base[rows] if never_above is None else never_above(head[rows], allowances[rows])",
        "limits = base[rows]",
        "the centred contract would be above the conditioned one where only that is plain",
        ("tests/contracts/test_plain.py::test_the_centred_contract_is_never_above_at_the_edge_of_the_domain",),
    ),
    _series(
        "far",
        "return b * self._largest() <= factor",
        "return b * self.paper.mean <= factor",
        "the remainders are derived for small movements of every class",
        _UNUSED,
    ),
)
