"""Mutants of the sums for rows in which the target has nearly everything (contracts/dominated*.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_BOUNDS, _SUMS = "contracts/dominated.py", "contracts/dominated_sums.py"
_HERE = "tests/contracts/test_dominated.py::"
_SAME = (f"{_HERE}test_bounds_are_those_of_the_log_domain", f"{_HERE}test_no_other_bound_of_the_contract_is_smaller")
_DOMAIN = (f"{_HERE}test_the_domain",)


def _mutant(name: str, file: str, old: str, new: str, why: str, kills: tuple[str, ...] = _SAME) -> Mutant:
    return Mutant(name=f"dominated-{name}", file=file, old=old, new=new, why=why, kills=kills)


MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "mean-distance",
        _BOUNDS,
        "made.rho_top / raised - made.rho_mean * raised",
        "made.rho_top / raised",
        "with d a class moves by e^d_j - 1 and not by e^(d_j + d_w) - 1: that bound may be the smaller one",
    ),
    _mutant(
        "mean-denominator",
        _BOUNDS,
        "grown * apart >= made.mass * (1 + grown) * gradient * raised**2",
        "grown * apart >= 0 * gradient",
        "the denominator of the bound with d is above e^-d_w pi_w",
    ),
    _mutant(
        "top-distance",
        _BOUNDS,
        "apart = (1 + grown) * made.peak",
        "apart = (1 + grown) ** 2 * made.peak",
        "the top class moves by e^d_w - 1",
    ),
    _mutant(
        "own-smaller",
        _BOUNDS,
        "gradient[rows] = np.minimum(gradient[rows], own)",
        "gradient[rows] = np.maximum(gradient[rows], own)",
        "the contract takes the smaller bound",
    ),
    _mutant(
        "paper-smaller",
        _BOUNDS,
        "    inside &= paper >= gradient * (1 + head.roundings)\n",
        "",
        "the paper's bound may be the smaller one",
    ),
    _mutant(
        "paper-total-variation",
        _BOUNDS,
        "2 * h_bound * made.peak * sums.size / (1 + sums.size)",
        "2 * h_bound * made.peak * sums.size",
        "a total variation saturates: what is above the paper's bound says nothing of it",
    ),
    _mutant(
        "paper-ratio",
        _BOUNDS,
        "found + factor * (made.a_mean + made.mass * made.a_top)",
        "found + 2 * factor * (made.a_mean + made.mass * made.a_top)",
        "the paper's ratio term has the approximate probabilities",
    ),
    _mutant(
        "slow",
        _BOUNDS,
        "slow=torch.minimum(most, found[2])",
        "slow=torch.minimum(most, found[2] * torch.inf)",
        "what grows slowly would be thought to be over every budget",
    ),
    _mutant(
        "any-target",
        _BOUNDS,
        "(head.target == head.top) & (at_class",
        "(at_class",
        "the sums leave out the top class, which another target does not",
        _DOMAIN,
    ),
    _mutant(
        "any-mass",
        _BOUNDS,
        "_MOST = 0.999",
        "_MOST = 0.0",
        "the proof has a target of nearly everything",
        _DOMAIN,
    ),
    _mutant(
        "unknown",
        _BOUNDS,
        "torch.from_numpy(inside).to(b.device) & head.known",
        "torch.from_numpy(inside).to(b.device)",
        "where nothing is known of the log-probabilities no bound is for these sums to give",
        _DOMAIN,
    ),
    _mutant(
        "largest-movement",
        _BOUNDS,
        "largest = factor * (made.d_max + made.d_top)",
        "largest = factor * made.d_max",
        "a movement is up to d_j + d_w",
        _DOMAIN,
    ),
    _mutant(
        "sizes",
        _BOUNDS,
        "& (sizes <= _LARGEST) ",
        "",
        "what underflows may be magnified by allowances and distances",
        _DOMAIN,
    ),
    _mutant(
        "factor",
        _BOUNDS,
        " & (factor <= _LARGEST_FACTOR)",
        "",
        "sums are formed before they are multiplied by the factor",
        _DOMAIN,
    ),
    _mutant(
        "underflow",
        _BOUNDS,
        "found &= np.minimum(sums.size, gradient / sizes) >= least",
        "found &= np.minimum(sums.size, gradient / sizes) >= 0 * least",
        "results among the smallest numbers have lost digits",
        _DOMAIN,
    ),
    _mutant(
        "raised-twice",
        _BOUNDS,
        "found = head.raised(found, moving) * (1 + head.roundings)",
        "found = head.raised(found, moving)",
        "both evaluators have roundings: what this one accepts the other may reject",
    ),
    _mutant(
        "other-budgets",
        _BOUNDS,
        'names <= {"loss", "gradient"}',
        'bool(names & {"loss", "gradient"})',
        "a total variation that is asked for is not among the sums",
        (f"{_HERE}test_other_rows_are_for_the_contract",),
    ),
    _mutant(
        "kept-for-others",
        _SUMS,
        "if kept is None or kept.unit is not unit:",
        "if kept is None:",
        "sums of other allowances",
        (f"{_HERE}test_what_is_kept_is_that_of_its_allowances",),
    ),
    _mutant(
        "gaps-not-within",
        _SUMS,
        "self.t = unit.to_top if unit.within else towards(unit.d, unit.to_top, top)",
        "self.t = unit.to_top",
        "gaps that are above d_j + d_w are cut",
        (f"{_HERE}test_gaps_that_are_within_their_sums_are_not_copied",),
    ),
    _mutant(
        "denominator",
        _SUMS,
        "whole = self.peak + arrays.dot(p, z)",
        "whole = self.peak + self.mass",
        "the redistribution's denominator falls with the movements",
    ),
    _mutant(
        "numerator",
        _SUMS,
        "size, redistributed = arrays.total(moved), arrays.dot(moved, self.rho)",
        "size, redistributed = arrays.total(moved), arrays.total(moved)",
        "distances may be above 1",
    ),
    _mutant(
        "own-top-moves",
        _SUMS,
        "redistributed = arrays.dot(moved, rho) + self.peak[rows] * grown * self.rho_top[rows]",
        "redistributed = arrays.dot(moved, rho)",
        "with d the top class moves as well",
    ),
    _mutant(
        "own-top-falls",
        _SUMS,
        "whole = self.peak[rows] / (1 + grown) + arrays.dot(p, z)",
        "whole = self.peak[rows] + arrays.dot(p, z)",
        "with d the top class's part of the denominator is e^-d_w pi_w",
    ),
    _mutant(
        "upper-left",
        _SUMS,
        "left = torch.sub(grown, fallen, out=fallen).add_(self._arrays.column(whole))",
        "left = torch.add(grown, 0 * fallen, out=fallen).add_(self._arrays.column(whole))",
        "the sum in the denominator of u_j is over all others",
    ),
    _mutant(
        "ratio-target",
        _SUMS,
        "away * self.a_max[rows]) + away * self.a_top[rows]",
        "away * self.a_max[rows])",
        "the target's own vector is off by a_y",
    ),
    _mutant(
        "largest-ratio",
        _SUMS,
        "largest = (size + self.mass) * self.a_max",
        "largest = (size + self.mass) * self.a_mean / self.mass",
        "(1 - l_w) max a is above the sum of u_j a_j unless all a_j are the same",
        (f"{_HERE}test_ratio_terms_of_a_class_that_moves_most",),
    ),
    _mutant(
        "largest-in-some",
        _SUMS,
        "(1 + self._roundings)).all()):",
        "(1 + self._roundings)).any()):",
        "in the other rows the sum of u_j a_j is the smaller one",
    ),
)
