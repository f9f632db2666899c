"""Mutants of the bounds as short series (contracts/centered_series.py, series.py; docs/theory, 6.8 and 6.13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_CENTERED, _CONDITIONED, _FAMILY = "contracts/centered_series.py", "contracts/series.py", "contracts/family.py"
_HERE = "tests/contracts/test_centered_series.py::"
_ENCLOSED = (
    f"{_HERE}test_every_term_is_needed_somewhere",
    f"{_HERE}test_enclosures_contain_the_direct_bounds",
)
_SHORT = (f"{_HERE}test_the_second_order_encloses_at_any_movement",)
_UNUSED = (f"{_HERE}test_rows_that_are_not_for_series",)
_EACH_ROW = (f"{_HERE}test_rows_of_small_and_of_large_movements",)
_OF_CONDITIONED = ("tests/contracts/test_series.py::test_every_term_is_needed_somewhere",)
_NEARLY = ("tests/tolerances/test_series.py::test_budgets_that_are_nearly_subnormal_are_not_for_series",)
_AT_ONE = "tests/contracts/test_family.py::"
_EXACTLY = "tests/contracts/test_exactly.py::"


def _series(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _ENCLOSED) -> Mutant:
    return Mutant(name=f"series-{name}", file=_CENTERED, old=old, new=new, why=why, kills=kills)


def _summed(name: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(name=f"series-{name}", file="contracts/centered_sums.py", old=old, new=new, why=why, kills=_ENCLOSED)


def _conditioned(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _OF_CONDITIONED) -> Mutant:
    return Mutant(name=f"series-{name}", file=_CONDITIONED, old=old, new=new, why=why, kills=kills)


MUTANTS: tuple[Mutant, ...] = (
    _series(
        "loss-remainder",
        "return cubic, cubic + last * expm1_above(b * self.largest)",
        "return cubic, cubic",
        "the terms after the third",
    ),
    _conditioned(
        "conditioned-loss-remainder",
        "cubic + last * expm1_above(2 * b * self.largest) if upper else cubic",
        "cubic",
        "the terms after the third",
    ),
    _series(
        "moved-remainder",
        "return (cubic + cubed * self.third * expm1_above(reach)) / least",
        "return cubic / least",
        "the terms after the third",
    ),
    _series(
        "normaliser-remainder",
        "least = most - cubed * self.cube",
        "least = most",
        "e^-x is below its parabola",
    ),
    _series(
        "normaliser",
        "most = self.total - b * (self.mean - b * self.half_square)",
        "most = self.total - b * self.mean",
        "e^-x is above its line",
    ),
    _series(
        "ratio-first",
        "middle = self.at_zero + b * (self.ratio_first + b * self.ratio_second)",
        "middle = self.at_zero + b * (b * self.ratio_second)",
        "upper ends grow with b",
    ),
    _series(
        "ratio-second",
        "middle = self.at_zero + b * (self.ratio_first + b * self.ratio_second)",
        "middle = self.at_zero + b * self.ratio_first",
        "to second order as well",
    ),
    _series(
        "ratio-remainder",
        "return middle + self.at_zero * (m * reach / 3 + t * t * t * np.exp(4 * reach))",
        "return middle",
        "and past it",
    ),
    _series(
        "ratio-remainder-below",
        "return middle - self.at_zero * m * t",
        "return middle",
        "and past it",
    ),
    _summed(
        "curvature",
        "quadratic=(apart - 0.5).mul_(apart).add_(pi)",
        "quadratic=1 * pi",
        "kappa has the square of pibar - pi",
    ),
    _summed(
        "curvature-linear",
        "linear=(2 * apart).sub_(1)",
        "linear=2 * apart",
        "half of m_j has v_j V in it",
    ),
    _conditioned(
        "tv-remainder",
        "middle + width if upper else middle - width)",
        "middle if upper else middle - width)",
        "the fourth order of total variation",
        _ENCLOSED,
    ),
    _conditioned(
        "tv-remainder-below",
        "middle + width if upper else middle - width)",
        "middle + width if upper else middle)",
        "the fourth order of total variation",
        _ENCLOSED,
    ),
    _conditioned(
        "conditioned-tv-remainder",
        "middle + width if upper else middle - width)",
        "middle if upper else middle - width)",
        "the fourth order of total variation",
    ),
    _series(
        "tv-straight-remainder",
        "middle + width if upper else middle - width)",
        "middle if upper else middle - width)",
        "the third order of total variation",
        _SHORT,
    ),
    _series(
        "tv-straight-remainder-below",
        "middle + width if upper else middle - width)",
        "middle + width if upper else middle)",
        "the third order of total variation",
        _SHORT,
    ),
    _series(
        "tv-straight-far",
        "straight = reach <= _STRAIGHT",
        "straight = reach[:1] <= _STRAIGHT",
        "the second order is for rows of small movements",
        _EACH_ROW,
    ),
    _series(
        "tv-twist",
        "bent = deviation_end(middle + 0.5 * b * b * b * scalars(vector.twist), line",
        "bent = deviation_end(middle, line",
        "the third order of total variation",
    ),
    _conditioned(
        "conditioned-tv-twist",
        "(self.curvature + b * self.twist)",
        "self.curvature",
        "the third order of total variation",
    ),
    _series(
        "tv-rough",
        "share = 1 + 3 * reach + width if upper else 1 - width",
        "share = 1 + width if upper else 1 - width",
        "the second order of the paper's total variation is in its gradient bound",
    ),
    _series(
        "tv-rough-below",
        "share = 1 + 3 * reach + width if upper else 1 - width",
        "share = 1 + 3 * reach + width",
        "the paper's bound may be the smallest",
    ),
    _series(
        "away",
        "away = (sizes[int(upper)] + self.mass) / (1 + sizes[int(not upper)])",
        "away = self.mass / (1 + sizes[int(not upper)])",
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
        "inside &= (self.a_max + self.a_y < 1 / LEAST) & (self.farthest < 1 / LEAST)",
        "inside &= self.a_max + self.a_y < 1 / LEAST",
        "a probability that vanishes loses its distance",
        ("tests/tolerances/test_series.py::test_a_distance_is_not_lost_with_its_probability",),
    ),
    _series(
        "vanished-ratio-centered",
        "inside &= (self.a_max + self.a_y < 1 / LEAST) & (self.farthest < 1 / LEAST)",
        "inside &= self.farthest < 1 / LEAST",
        "a probability that vanishes loses its ratio allowance",
        ("tests/tolerances/test_series.py::test_a_ratio_allowance_is_not_lost_with_its_probability",),
    ),
    _conditioned(
        "vanished-ratio",
        "inside &= self.largest_ratio < 1 / LEAST",
        "inside &= self.rest <= 1",
        "a probability that vanishes loses its ratio allowance",
        ("tests/tolerances/test_series.py::test_a_ratio_allowance_is_not_lost_with_its_probability",),
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
        kills=_NEARLY,
    ),
    Mutant(
        name="series-subnormal-before-scale",
        file="tolerances/series.py",
        old='found.append(limits["gradient"] / series.magnified())',
        new='found.append(limits["gradient"])',
        why="a subnormal total variation has no digits to be magnified",
        kills=_NEARLY,
    ),
    _series(
        "subnormal-before-h",
        "return max(1.0, 2 * self.h_bound) * self.scale",
        "return 1 * self.scale",
        "class gradients may be long",
        (f"{_HERE}test_what_a_total_variation_is_magnified_by",),
    ),
    _series(
        "far",
        "found: Flags = b * self._largest <= factor",
        "found: Flags = b * self._stacked.mean[0] <= factor",
        "the remainders are derived for small movements of every class",
        _UNUSED,
    ),
    _series(
        "far-to-target",
        "self._largest = reduce(np.maximum, [largest, *self._reaches])",
        "self._largest = reduce(np.maximum, self._reaches)",
        "movements towards the target are movements",
        _UNUSED,
    ),
    _series(
        "one-lower-ends",
        "centered = self._centered(one, upper=True)",
        "centered = self._centered(one, upper=False)",
        "a certificate's bound is an upper end",
        (f"{_HERE}test_the_ends_at_one",),
    ),
    _series(
        "one-unusable",
        "narrow = self.usable() & self.near(one, _NARROW)",
        "narrow = self.near(one, _NARROW)",
        "rows where the sums lose their digits",
        (f"{_HERE}test_the_ends_at_one",),
    ),
    _series(
        "one-far",
        "narrow = self.usable() & self.near(one, _NARROW)",
        "narrow = self.usable() & self.near(one, 1e3)",
        "the remainders are derived up to 1/4",
        (f"{_HERE}test_the_ends_at_one",),
    ),
    Mutant(
        name="series-one-not-raised",
        file=_FAMILY,
        old="least, raised = torch.finfo(upper.gradient.dtype).tiny, 1 + 3 * row.slack",
        new="least, raised = torch.finfo(upper.gradient.dtype).tiny, 1 + 0 * row.slack",
        why="probabilities and sums are off by their slack",
        kills=(f"{_AT_ONE}test_bounds_at_one_have_their_slack",),
    ),
    _series(
        "one-uncertain",
        "& (centered <= paper) & (self.slack <= _CERTAIN)",
        "& (centered <= paper)",
        "three slacks put a bound past one that needs none",
        (f"{_EXACTLY}test_nothing_is_finite_where_nothing_is_known",),
    ),
    _series(
        "one-margin",
        "margin_use=self._sums.margin_use(),",
        "margin_use=0 * self._sums.margin_use(),",
        "movements use a share of the margin",
        (f"{_EXACTLY}test_never_below_and_hardly_above",),
    ),
    _series(
        "lower-denominator",
        "away = (sizes[int(upper)] + self.mass) / (1 + sizes[int(not upper)])",
        "away = (sizes[int(upper)] + self.mass) / (1 + 2 * sizes[int(upper)])",
        "an end of the size of the loss for each of both places",
    ),
    Mutant(
        name="series-unraised",
        file="tolerances/series.py",
        old="raised = {name: (1 + 3 * slack) / limit for name, limit in limits.items()}",
        new="raised = {name: 1 / limit for name, limit in limits.items()}",
        why="sums have roundings, and probabilities are known to a factor",
        kills=("tests/tolerances/test_series.py::test_direct_evaluation_agrees_on_both_ends",),
    ),
    Mutant(
        name="series-any-load",
        file="tolerances/series.py",
        old="settled = usable & (load(low) <= 1) & (ends",
        new="settled = usable & (ends",
        why="the secant proves nothing",
        kills=("tests/tolerances/test_series.py::test_an_end_that_is_not_accepted_is_not_settled",),
    ),
)
