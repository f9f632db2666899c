"""Mutants of quantised heads and their residuals, of the ladder's roundings, and of bounds that reach parameters."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_HEAD, _OF_HEAD = "realizations/quantized.py", "tests/realizations/test_quantized.py::"
_RESIDUALS, _OF_RESIDUALS = "realizations/residuals.py", "tests/realizations/test_residuals.py::"
_COMPOSED = "tests/realizations/test_composed.py::"
_ROUNDINGS, _OF_ROUNDINGS = "pairs/roundings.py", "tests/pairs/test_roundings.py::"
_PARAMETERS, _OF_PARAMETERS = "contracts/parameters.py", "tests/contracts/test_parameters.py::"


def _quantized(name: str, old: str, new: str, why: str, *kills: str) -> Mutant:
    return Mutant(name=f"quantized-{name}", file=_HEAD, old=old, new=new, why=why, kills=kills)


def _residuals(name: str, old: str, new: str, why: str, *kills: str) -> Mutant:
    return Mutant(name=f"residuals-{name}", file=_RESIDUALS, old=old, new=new, why=why, kills=kills)


def _roundings(name: str, old: str, new: str, why: str, *kills: str) -> Mutant:
    return Mutant(name=f"roundings-{name}", file=_ROUNDINGS, old=old, new=new, why=why, kills=kills)


def _parameters(name: str, old: str, new: str, why: str, *kills: str) -> Mutant:
    return Mutant(name=f"parameters-{name}", file=_PARAMETERS, old=old, new=new, why=why, kills=kills)


MUTANTS: tuple[Mutant, ...] = (
    _quantized(
        "residual",
        "moved=above(moved.d + error, 4)",
        "moved=above(error, 4)",
        "the quantised rows are other rows",
        f"{_OF_HEAD}test_scores_are_within_their_allowances",
    ),
    _quantized(
        "hidden-error",
        "unknown = above(error + stage.hidden_error[:, None] * reach, 4)",
        "unknown = above(error, 4)",
        "the hidden vector in use is another one",
        f"{_COMPOSED}test_a_hidden_error_moves_quantised_rows_and_their_correction",
    ),
    _quantized(
        "correction-reach",
        "reach = reach if more is None else reach + more",
        "reach = reach if more is None else 1 * reach",
        "the correction moves with the hidden vector",
        f"{_COMPOSED}test_a_hidden_error_moves_quantised_rows_and_their_correction",
    ),
    _quantized(
        "row-error",
        "row_error=self.residuals.whole",
        "row_error=0 * self.residuals.whole",
        "class gradients are the rows",
        f"{_OF_HEAD}test_bounds_hold_on_adversarial_states",
    ),
    _quantized(
        "other-head",
        "if states.bank is not self.head and not _same_head(states.bank, self.head):",
        "if states.bank.weight.shape != self.head.weight.shape:",
        "what was quantised is not the head of these states",
        f"{_OF_HEAD}test_bad_input_in_our_words",
    ),
    _quantized(
        "order-of-steps",
        "if stage.product or stage.rows is not states.bank:",
        "if stage.product is None:",
        "rows are replaced before their products are formed",
        f"{_COMPOSED}test_orders_that_make_no_sense",
    ),
    _quantized(
        "loss-beyond",
        "certified = bound <= limit",
        "certified = bound <= torch.inf",
        "a budget that float64 cannot decide",
        f"{_OF_HEAD}test_a_budget_beyond_float64_raises",
    ),
    _residuals(
        "by-row",
        "by_row=above(computed + lost, 2)",
        "by_row=above(computed, 2)",
        "what deflation leaves is rounded",
        f"{_OF_RESIDUALS}test_what_deflation_leaves_is_no_longer_than_it_says",
    ),
    _residuals(
        "by-block",
        "above(_block_lengths(rest, block) + lost[:, None], 2)",
        "_block_lengths(rest, block)",
        "what deflation leaves is rounded",
        f"{_OF_RESIDUALS}test_what_deflation_leaves_is_no_longer_than_it_says",
    ),
    _residuals(
        "blocks-mixed",
        "return torch.minimum(by_row, by_block)",
        "return torch.minimum(by_row, by_block) * 0.9",
        "a residual along the vector uses all of its allowance",
        f"{_OF_RESIDUALS}test_an_allowance_can_be_used_up",
    ),
    _roundings(
        "value",
        "value = quotient + (quotient + h + 4 + log) / 2 + (quotient + h + 2 + log) / 3 + 3.5 + 1",
        "value = 1.0",
        "every step of the formula is rounded",
        f"{_OF_ROUNDINGS}test_differences_are_within_their_count",
        f"{_OF_ROUNDINGS}test_the_counts_of_the_derivation",
    ),
    _roundings(
        "ratio",
        "first = 12 + 2 * h",
        "first = 1",
        "every step of the ratio is rounded",
        f"{_OF_ROUNDINGS}test_ratios_are_within_their_count",
        f"{_OF_ROUNDINGS}test_the_counts_of_the_derivation",
    ),
    _roundings(
        "slope-sizes",
        "size = sum(a * 0.75**i for i, a in enumerate(coefficients))\n    steep",
        "size = coefficients[0]\n    steep",
        "theta is up to 3/4",
        f"{_OF_ROUNDINGS}test_sizes_bound_the_correction_and_its_slope",
    ),
    _parameters(
        "norm",
        "length = safe_length(entries[None])[0] * (1 + (len(entries) + 8) * _EPS)",
        "length = safe_length(entries[None])[0]",
        "a norm is rounded",
        f"{_OF_PARAMETERS}test_a_norm_is_above_the_exact_one",
    ),
    _parameters(
        "product",
        "product = (bound * norm * (1 + 4 * _EPS)).clamp_min(_TINY)",
        "product = bound * norm",
        "a product is rounded, and underflows",
        f"{_OF_PARAMETERS}test_bounds_and_budgets_are_rounded_the_safe_way",
    ),
    _parameters(
        "unknown",
        "torch.where(unknown, torch.inf, product)",
        "torch.where(unknown, torch.inf * product, product)",
        "a bound that is not known times a norm of zero",
        f"{_OF_PARAMETERS}test_what_is_not_known_stays_unknown",
    ),
    _parameters(
        "budget-down",
        "* (1 - (gradient.shape[1] + 12) * _EPS)",
        "* 1",
        "a share of the gradient is rounded down",
        f"{_OF_PARAMETERS}test_bounds_and_budgets_are_rounded_the_safe_way",
    ),
    _parameters(
        "converted",
        "return torch.where(rounded.double() < values, above, rounded)",
        "return rounded",
        "a conversion to fewer digits rounds down half of the time",
        f"{_OF_PARAMETERS}test_bounds_and_budgets_are_rounded_the_safe_way",
    ),
)
