"""Mutants of the fast evaluators: plain arithmetic (contracts/plain.py, moved.py) and series (centered_series.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "contracts/plain.py"
_HERE = "tests/contracts/test_plain.py::"
_AGREE = (f"{_HERE}test_both_evaluators_agree_to_their_slacks",)
_DOMAIN = (f"{_HERE}test_rows_outside_of_the_domain_are_not_inside",)
_MOVED = "contracts/moved.py"
_PAIRS = ("tests/contracts/test_moved.py::test_sums_are_those_of_all_pairs",)
_SUMS = ("tests/contracts/test_moved.py::test_exclusive_sums_keep_their_digits",)

_SERIES = "contracts/centered_series.py"
_ENCLOSED = (
    "tests/contracts/test_centered_series.py::test_every_term_is_needed_somewhere",
    "tests/contracts/test_centered_series.py::test_enclosures_contain_the_direct_bounds",
)
_UNUSED = ("tests/contracts/test_centered_series.py::test_rows_that_are_not_for_series",)
_EXACTLY = "tests/contracts/test_exactly.py::"
_AT_ONE = (f"{_EXACTLY}test_never_below_and_hardly_above",)


def _series(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _ENCLOSED) -> Mutant:
    return Mutant(name=f"series-{name}", file=_SERIES, old=old, new=new, why=why, kills=kills)


def _mutant(name: str, old: str, new: str, why: str, kills: tuple[str, ...]) -> Mutant:
    return Mutant(name=f"plain-{name}", file=_FILE, old=old, new=new, why=why, kills=kills)


def _moved(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _PAIRS) -> Mutant:
    return Mutant(name=f"moved-{name}", file=_MOVED, old=old, new=new, why=why, kills=kills)


MUTANTS = (
    _moved(
        "up-without-own",
        "up = exclusive_of(weighted).mul_(more).add_(own)",
        "up = exclusive_of(weighted).mul_(more)",
        "the class's own allowance moves its probability as well",
    ),
    _moved(
        "down-without-own",
        "down = fallen.add_(own).mul_(z).div_(left)",
        "down = fallen.mul_(z).div_(left)",
        "the class's own allowance moves its probability as well",
    ),
    _moved(
        "upper-is-pi",
        "upper = torch.div(weights.ratios, left, out=scratch).sum(dim=1)",
        "upper = weights.ratios.sum(dim=1)",
        "the exact probabilities may be larger than the approximate ones",
    ),
    _moved(
        "no-normaliser",
        "redistributed = redistributed / torch.mul(pi, z, out=scratch).sum(dim=1)",
        "redistributed = redistributed / 1",
        "the exact side is normalised by sum pi e^-e",
    ),
    _moved(
        "shared-buffer",
        'weighted = torch.mul(pi, x, out=space("weighted", v))',
        'weighted = torch.mul(pi, x, out=space("ratios", v))',
        "a buffer that is still needed is overwritten",
    ),
    _mutant(
        "away",
        "away = (self.size + self.mass) / (1 + self.size)",
        "away = self.mass / (1 + self.size)",
        "1 - P_y is larger than 1 - pi_y where the target falls",
        _AGREE,
    ),
    _mutant(
        "not-raised",
        "loss, tv, gradient, paper, *kl = head.raised(found, self.moving) * (1 + head.roundings)",
        "loss, tv, gradient, paper, *kl = found",
        "bounds hold in exact arithmetic, of probabilities that are known to a factor",
        _AGREE,
    ),
    _mutant(
        "any-movement",
        "inside = (self.largest <= LARGEST_MOVEMENT) & (sizes <= _LARGEST) & self.head.known",
        "inside = (sizes <= _LARGEST) & self.head.known",
        "past the domain exponentials overflow, and what underflowed is magnified",
        _DOMAIN,
    ),
    _mutant(
        "any-size",
        "inside = (self.largest <= LARGEST_MOVEMENT) & (sizes <= _LARGEST) & self.head.known",
        "inside = (self.largest <= LARGEST_MOVEMENT) & self.head.known",
        "allowances and distances magnify what underflowed",
        _DOMAIN,
    ),
    _mutant(
        "any-bound",
        "torch.stack([self.size, self.tv, self.gradient / sizes]).amin(dim=0) >= least",
        "torch.stack([self.size, self.tv, self.gradient / sizes]).amin(dim=0) >= 0",
        "a sum of what underflowed is no bound",
        _DOMAIN,
    ),
    _mutant(
        "size-of-gradient",
        "torch.stack([self.size, self.tv, self.gradient / sizes]).amin(dim=0) >= least",
        "torch.stack([self.size, self.tv, self.gradient]).amin(dim=0) >= least",
        "an allowance of 1e60 magnifies what underflowed",
        _DOMAIN,
    ),
    _mutant(
        "unknown",
        "& (sizes <= _LARGEST) & self.head.known",
        "& (sizes <= _LARGEST)",
        "where nothing is known of the log-probabilities, no bound is for plain arithmetic to give",
        _DOMAIN,
    ),
    _mutant(
        "least-at-any-movement",
        "least = _LEAST * torch.exp(4 * (self.largest - _MIDDLE).clamp_min(0))",
        "least = _LEAST * torch.ones_like(self.largest)",
        "larger movements magnify what underflowed",
        _DOMAIN,
    ),
    _mutant(
        "any-factor",
        "inside &= self.factor <= _LARGEST_FACTOR",
        "inside &= self.factor >= 0",
        "a factor does not bring back what underflowed before it",
        (f"{_HERE}test_a_factor_does_not_bring_back_what_underflowed",),
    ),
    _mutant(
        "factor-left-out",
        "upper = self._times(each.upper)",
        "upper = each.upper",
        "ratio allowances grow with the factor",
        (f"{_HERE}test_multiples_are_those_of_scaled_allowances",),
    ),
    _mutant(
        "factor-without-difference",
        'to_target = self._each(towards(unit.d, unit.to_target, head.target, self.space("v", unit.d)))',
        'to_target = towards(unit.d, unit.to_target, head.target, self.space("v", unit.d))',
        "bounds on differences grow with the factor",
        (f"{_HERE}test_multiples_are_those_of_scaled_allowances",),
    ),
    _moved(
        "exclusive-by-difference",
        "return torch.sub(total, others, out=others).add_(peak).scatter_(1, top, total)",
        "return torch.sub(total, others, out=others).add_(peak)",
        "a sum without a class that has nearly all of it is not a difference",
        _SUMS,
    ),
    _moved(
        "kept-by-difference",
        "kept = torch.where(small[:, None], kept, whole) if bool(small.any()) else whole",
        "kept = torch.where(small[:, None], kept, kept)",
        "past a movement of 1 the difference cancels",
        _AGREE,
    ),
    _series(
        "loss-remainder",
        "return cubic, cubic + last * expm1_above(b * self.largest)",
        "return cubic, cubic",
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
    _series(
        "curvature",
        "quadratic=(apart - 0.5).mul_(apart).add_(pi),",
        "quadratic=pi.clone(),",
        "kappa has the square of pibar - pi",
    ),
    Mutant(
        name="series-tv-remainder",
        file="contracts/series.py",
        old="return np.minimum(np.tanh(reach / 2), middle + width if upper else middle - width)",
        new="return np.minimum(np.tanh(reach / 2), middle)",
        why="the fourth order of total variation",
        kills=_ENCLOSED,
    ),
    _series(
        "tv-twist",
        "bent = deviation_end(middle + 0.5 * b * b * b * self.twist, line, reach, upper=upper)",
        "bent = deviation_end(middle, line, reach, upper=upper)",
        "the third order of total variation",
    ),
    _series(
        "tv-rough",
        "share = 1 + 3 * reach + width if upper else 1 - width",
        "share = 1 + width if upper else 1 - width",
        "the second order of the paper's total variation is in its gradient bound",
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
        argued="below 2^-1024 has an infinite reciprocal, so that no load is below 1",
    ),
    _mutant(
        "no-limits",
        "limits = geometry_bounds(some, allowances) if never_above is None else never_above(some, allowances)",
        "limits = geometry_bounds(some, allowances)",
        "the centred contract would be above the conditioned one where only that is plain",
        ("tests/contracts/test_plain.py::test_the_centred_contract_is_never_above_at_the_edge_of_the_domain",),
    ),
    _series(
        "straight",
        "width = 8 * np.exp(6 * reach) * reach * reach * line",
        "width = 0 * reach",
        "the third order of total variation, at movements where that is enough",
        (f"{_EXACTLY}test_series_enclose_what_is_exact",),
    ),
    _series(
        "lower-denominator",
        "away = (sizes[int(upper)] + self.mass) / (1 + sizes[int(not upper)])",
        "away = (sizes[int(upper)] + self.mass) / (1 + 2 * sizes[int(upper)])",
        "an end of the size of the loss for each of both places",
    ),
    _series(
        "vanished-allowance",
        "inside &= (self.a_max + self.a_y < 1 / LEAST) & (self.farthest < 1 / LEAST)",
        "inside &= self.farthest < 1 / LEAST",
        "a probability that vanishes loses its ratio allowance",
        ("tests/tolerances/test_series.py::test_a_ratio_allowance_is_not_lost_with_its_probability",),
    ),
    _series(
        "at-one-far",
        "narrow = self.usable() & self.near(one, _NARROW) & (centered",
        "narrow = self.usable() & (centered",
        "the remainders are derived for small movements",
        _AT_ONE,
    ),
    _series(
        "at-one-any-row",
        "narrow = self.usable() & self.near(one, _NARROW) & (centered",
        "narrow = self.near(one, _NARROW) & (centered",
        "where one class has nearly everything the sums lose their digits",
        _UNUSED,
    ),
    _series(
        "at-one-uncertain",
        "& (centered <= paper) & (self.slack <= _CERTAIN)",
        "& (centered <= paper)",
        "three slacks put a bound past one that needs none",
        (f"{_EXACTLY}test_nothing_is_finite_where_nothing_is_known",),
    ),
    _series(
        "at-one-margin",
        "margin_use=self._margin_use(),",
        "margin_use=0 * self._margin_use(),",
        "movements use a share of the margin",
        _AT_ONE,
    ),
    Mutant(
        name="series-at-one-unraised",
        file="contracts/family.py",
        old="least, raised = torch.finfo(upper.gradient.dtype).tiny, 1 + 3 * self.head.slack",
        new="least, raised = torch.finfo(upper.gradient.dtype).tiny, 1 + 0 * self.head.slack",
        why="sums have roundings, and probabilities are known to a factor",
        kills=_AT_ONE,
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
    _series(
        "far",
        "found: Flags = b * self._largest <= factor",
        "found: Flags = b * self._stacked.mean[0] <= factor",
        "the remainders are derived for small movements of every class",
        _UNUSED,
    ),
)
