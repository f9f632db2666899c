"""Mutants of the plain evaluator (contracts/plain.py): its terms, its slack and its domain."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "contracts/plain.py"
_HERE = "tests/contracts/test_plain.py::"
_AGREE = (f"{_HERE}test_both_evaluators_agree_to_their_slacks",)
_DOMAIN = (f"{_HERE}test_rows_outside_of_the_domain_are_not_inside",)
_SUMS = (f"{_HERE}test_exclusive_sums_keep_their_digits",)


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
)
