"""Mutants of the fast evaluator in plain arithmetic (contracts/plain.py, moved.py)."""

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
    _mutant(
        "gaps-of-two-classes",
        "unit.to_target is unit.to_top and torch.equal(head.target, self.top)",
        "unit.to_target is unit.to_top",
        "the loss has a sum over all classes but the target",
        (f"{_HERE}test_gaps_that_are_one_and_the_same",),
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
    _mutant(
        "no-limits",
        "limits = geometry_bounds(some, allowances) if never_above is None else never_above(some, allowances)",
        "limits = geometry_bounds(some, allowances)",
        "the centred contract would be above the conditioned one where only that is plain",
        ("tests/contracts/test_plain.py::test_the_centred_contract_is_never_above_at_the_edge_of_the_domain",),
    ),
)
