"""Mutants of quantised heads, screening and what several realizations of a head add up to."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_KERNELS = "numerics/integer_products.py"
_SIGNS = "numerics/exact_signs.py"
_UNITS = "realizations/screening/units.py"
_SEARCH = "realizations/screening/search.py"
_INTEGERS = "realizations/screening/integers.py"
_LOSSES = "realizations/screening/losses.py"
_RESIDUALS = "realizations/residuals.py"
_ROUNDED = "realizations/rounded.py"
_STAGES = "realizations/stages.py"
_FORMATS = "audits/formats.py"

_OF_INTEGERS = ("tests/realizations/screening/test_integers.py::test_scores_are_within_their_allowances",)
_OF_ROUNDED = "tests/realizations/test_rounded.py::"
_PEAKED = (f"{_OF_ROUNDED}test_a_loss_from_scores_is_off_however_peaked_the_state",)
_ANY_ORDER = (f"{_OF_ROUNDED}test_products_in_any_order",)
_WHATEVER = ("tests/realizations/screening/test_search.py::test_whatever_the_scores_within_their_allowances",)
_OF_RESIDUALS = ("tests/realizations/test_residuals.py::test_allowances_hold",)

MUTANTS = (
    Mutant(
        name="screening-kernel-unasked",
        file=_KERNELS,
        old="if kernel.available(dim) and extremes_are_exact(kernel, dim))",
        new="if kernel.available(dim))",
        why="a kernel that saturates would be used, and its scores are silently wrong",
        kills=("tests/numerics/test_integer_products.py::test_saturation_is_found_out",),
    ),
    Mutant(
        name="screening-underflowed-products",
        file=_SIGNS,
        old="return all(z != 0 or x == 0 or y == 0 for x, y, z in zip(a, b, products, strict=True))",
        new="return True",
        why="a product that underflows to zero would decide a tie",
        kills=("tests/numerics/test_exact_signs.py::test_where_rounding_or_range_would_lose_it",),
    ),
    Mutant(
        name="screening-exact-rows-without-rounding",
        file=_UNITS,
        old="error = above(gamma(dim + 6, torch.float64), 16) * terms +",
        new="error = 0 * terms +",
        why="rows in float64 are not exact, and a near tie would be decided by rounding",
        kills=("tests/realizations/screening/test_units.py::test_exact_rows_are_within_their_errors",),
    ),
    Mutant(
        name="screening-ties-to-the-last",
        file=_SEARCH,
        old="        if sign > 0:\n            best, tie",
        new="        if sign >= 0:\n            best, tie",
        why="a tie would go to the highest index, and would not be reported",
        kills=_WHATEVER,
    ),
    Mutant(
        name="screening-leader-without-its-allowance",
        file=_SEARCH,
        old="low = scores[every, lead] - d[every, lead]",
        new="low = scores[every, lead]",
        why="a class above the leader's exact score would be no candidate",
        kills=_WHATEVER,
    ),
    Mutant(
        name="screening-integers-residual",
        file=_INTEGERS,
        old="return (residual * reach).addcmul_(length, error)",
        new="return (0 * residual * reach).addcmul_(length, error)",
        why="what words leave of the rows moves scores",
        kills=_OF_INTEGERS,
    ),
    Mutant(
        name="screening-integers-hidden",
        file=_INTEGERS,
        old="return (residual * reach).addcmul_(length, error)",
        new="return (residual * reach).addcmul_(length, 0 * error)",
        why="what a word leaves of the hidden vector moves scores",
        kills=_OF_INTEGERS,
    ),
    Mutant(
        name="screening-integers-blocks",
        file=_INTEGERS,
        old="self._largest_residual = self._residual.amax(dim=1)",
        new="self._largest_residual = self._residual.amin(dim=1)",
        why="a block of which one row may be above the leader would be left out",
        kills=("tests/realizations/screening/test_integers.py::test_a_block_has_its_largest_residual",),
    ),
    Mutant(
        name="screening-integers-shared-memory",
        file=_INTEGERS,
        old="memory = self._spare.pop()",
        new="memory = self._spare[-1]",
        why="two threads would write their products to the same memory",
        kills=("tests/realizations/screening/test_integers.py::test_threads_share_no_memory",),
    ),
    Mutant(
        name="screening-integers-words-rounding",
        file=_INTEGERS,
        old="batch.length, alpha=2 * rounding)",
        new="batch.length, alpha=0.0)",
        why="scores are rounded numbers even where words leave nothing",
        kills=("tests/realizations/screening/test_integers.py::test_words_that_leave_nothing_have_room_for_rounding",),
    ),
    Mutant(
        name="screening-lengths-underflow",
        file=_UNITS,
        old="x.shape[1] + 12) + _LEAST_LENGTH",
        new="x.shape[1] + 12)",
        why="squares underflow where lengths do not",
        kills=("tests/realizations/screening/test_units.py::test_lengths_are_from_above",),
    ),
    Mutant(
        name="screening-alike-whatever-the-bias",
        file=_UNITS,
        old="terms = torch.cat([rows.double(), head.bias[classes][:, None]], dim=1)",
        new="terms = rows.double()",
        why="the same row with another bias is another score",
        kills=("tests/realizations/screening/test_units.py::test_classes_that_are_alike",),
    ),
    Mutant(
        name="screening-alike-whatever-the-noise",
        file=_UNITS,
        old="        if self.noise is not None:\n            return list(range(len(classes)))\n",
        new="",
        why="the same row with other noise is another score",
        kills=("tests/realizations/screening/test_units.py::test_classes_that_are_alike",),
    ),
    Mutant(
        name="screening-loss-half",
        file=_LOSSES,
        old="above((high - low) / 2 + 2 * rounding, 8)",
        new="above((high - low) / 4 + 2 * rounding, 8)",
        why="the loss may be at either end of its enclosure",
        kills=("tests/realizations/screening/test_losses.py::test_the_exact_loss_is_enclosed",),
    ),
    Mutant(
        name="deflation-leaks",
        file=_RESIDUALS,
        old="above(deflation.leaks * along[:, None], 8)",
        new="above(0 * deflation.leaks * along[:, None], 8)",
        why="directions that are not orthonormal leave a part of the residual along them",
        kills=("tests/realizations/test_residuals.py::test_directions_that_are_too_short",),
    ),
    Mutant(
        name="deflation-rest-of-the-vector",
        file=_RESIDUALS,
        old="d = self._least(rest, lost) +",
        new="d = 0 * self._least(rest, lost) +",
        why="what is across the directions moves scores as before",
        kills=_OF_RESIDUALS,
    ),
    Mutant(
        name="product-sums",
        file=_ROUNDED,
        old="sums = gamma(head.dim + 2, self.accumulate) * size +",
        new="sums = 0 * size +",
        why="sums round, each order in its own way",
        kills=_ANY_ORDER,
    ),
    Mutant(
        name="product-inputs",
        file=_ROUNDED,
        old="moved=above(stage.moved + known, 4),",
        new="moved=stage.moved,",
        why="rounded inputs move scores",
        kills=_ANY_ORDER,
    ),
    Mutant(
        name="product-hidden-error",
        file=_ROUNDED,
        old="unknown = above(error + off[:, None] * reach + sums, 8)",
        new="unknown = above(error + sums, 8)",
        why="an error of the hidden vector goes through the product",
        kills=("tests/realizations/test_composed.py::test_every_part_adds",),
    ),
    Mutant(
        name="logits-flushed",
        file=_ROUNDED,
        old="torch.where(flushed, unknown + smallest_normal(self.dtype), unknown)",
        new="unknown",
        why="a machine may flush subnormal logits to zero",
        kills=(f"{_OF_ROUNDED}test_what_is_subnormal_may_be_flushed",),
    ),
    Mutant(
        name="logits-overflow",
        file=_ROUNDED,
        old="torch.where(fits, above(unknown, 4), torch.inf)",
        new="torch.where(fits, above(unknown, 4), 0.0)",
        why="logits past the range are infinite",
        kills=(f"{_OF_ROUNDED}test_overflow_is_not_certified",),
    ),
    Mutant(
        name="exponential-loss-from-scores",
        file=_ROUNDED,
        old='if self.loss == "probabilities" or error == 0:',
        new="if error >= 0:",
        why="a log-sum-exp minus the exact score is off by the exponential's error at every state",
        kills=_PEAKED,
    ),
    Mutant(
        name="stages-unknown-is-no-allowance",
        file=_STAGES,
        old="d = above((stage.moved + stage.unknown) * per",
        new="d = above(stage.moved * per",
        why="what is not known of the logits in use is an error as well",
        kills=("tests/realizations/test_stages.py::test_known_and_unknown_add_up",),
    ),
    Mutant(
        name="formats-logits-keep-their-range",
        file=_FORMATS,
        old="ProductIn(torch.float16), RoundedLogits(torch.float16)",
        new="ProductIn(torch.float16)",
        why="a head in float16 returns logits in float16, which overflow",
        kills=("tests/audits/test_formats.py::test_range_and_underflow_count",),
    ),
    Mutant(
        name="formats-open-is-certified",
        file=_FORMATS,
        old="verdict[left[kept.numpy(force=True)]]",
        new="verdict[left[kept.numpy(force=True) | True]]",
        why="what neither an enclosure nor the contract settles is not certified",
        kills=("tests/audits/test_formats.py::test_range_and_underflow_count",),
    ),
)
