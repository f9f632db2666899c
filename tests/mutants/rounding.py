"""Mutants of the model of rounding and of the execution bound (numerics, realizations/executed; theory, 8.1 to 8.6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_TO_SCORES = "realizations/executed/scores.py"
_AFTER = "realizations/executed/outputs.py"
_OUTWARD = "numerics/outward.py"
_PRODUCTS = "numerics/products.py"
_BASE = "realizations/base.py"
_EXECUTION = "realizations/executed/realization.py"
_GEOMETRY = "realizations/geometry_error.py"
_SCORES = "tests/realizations/executed/test_scores.py::"
_OUTPUTS = "tests/realizations/executed/test_outputs.py::"
_RADII = "tests/realizations/test_geometry_error.py::"
_ATTACKS = "tests/realizations/executed/test_realization.py::"

MUTANTS = (
    Mutant(
        name="rounding-slope-of-nothing",
        file=_AFTER,
        old="off = torch.where((executed.slopes == 0) & (r > 0), size, off)",
        new="off = 1 * off",
        why="a squared radius of 1e-46 is 0 in float32, and so is the slope",
        kills=(f"{_OUTPUTS}test_a_squared_radius_that_underflows_in_float32",),
    ),
    Mutant(
        name="rounding-loss-after-scores",
        file=_AFTER,
        old="loss=above(at_class(softmax.of_log_pi, states.labels))",
        new="loss=above(at_class(0 * softmax.of_log_pi, states.labels))",
        why="softmax and logarithm round: 5.3e-8 of log 7 in float32, beside scores without any error",
        kills=(f"{_OUTPUTS}test_softmax_and_its_logarithm_are_rounded",),
    ),
    Mutant(
        name="rounding-tv",
        file=_AFTER,
        old="probability=above(softmax.of_probability)",
        new="probability=0 * softmax.of_probability",
        why="executed probabilities are rounded also where the scores are exact",
        kills=(f"{_OUTPUTS}test_softmax_and_its_logarithm_are_rounded",),
    ),
    Mutant(
        name="rounding-bias",
        file=_TO_SCORES,
        old="return above(moved + formula + bias +",
        new="return above(moved + formula +",
        why="a bias of 1e4 is off by 2e-4 in float32",
        kills=(f"{_SCORES}test_biases_are_rounded",),
    ),
    Mutant(
        name="rounding-formula",
        file=_TO_SCORES,
        old="return above(moved + formula + bias +",
        new="return above(moved + bias +",
        why="the difference of potentials is executed too",
        kills=(f"{_SCORES}test_roundings_of_the_formula",),
    ),
    Mutant(
        name="rounding-longer",
        file=_TO_SCORES,
        old="return above(torch.where(r > 0, changed + longer,",
        new="return above(torch.where(r > 0, changed,",
        why="the formula's error is that of the slope times the exact length, which may be many executed radii",
        kills=(f"{_SCORES}test_vectors_that_are_longer_than_the_executed_radius",),
    ),
    Mutant(
        name="rounding-all-of-R-at-zero",
        file=_TO_SCORES,
        old="changed + longer, off.high / (nu + off.s_r)))",
        new="changed + longer, 0.0))",
        why="where the executed radius is 0 the program has no slope, and all of R(r) is missing",
        kills=(f"{_SCORES}test_a_radius_that_is_executed_as_zero",),
    ),
    Mutant(
        name="rounding-change-of-slope",
        file=_TO_SCORES,
        old="changed = off.of_gap / (nu + off.s_r) ** 3 * off.high",
        new="changed = 0 * off.high",
        why="R(x)/x changes between the executed and the exact radius",
        kills=(f"{_SCORES}test_concentrations_are_rounded",),
    ),
    Mutant(
        name="geometry-of-k",
        file=_GEOMETRY,
        old="of_k = (k_hat - k).abs() * (k_hat + k)",
        new="of_k = 0 * k",
        why="a concentration in float32 is another concentration",
        kills=(f"{_SCORES}test_concentrations_are_rounded",),
    ),
    Mutant(
        name="geometry-product",
        file=_GEOMETRY,
        old="error = length * (of_product * 2 * k + of_square * length) + u * gaps.abs()",
        new="error = u * gaps.abs()",
        why="the products with the directions are rounded",
        kills=(f"{_SCORES}test_products_that_cancel",),
    ),
    Mutant(
        name="geometry-underflow",
        file=_GEOMETRY,
        old="lost = tiny * (bank.dim + 4) *",
        new="lost = 0 * (bank.dim + 4) *",
        why="features that are subnormal in float32 lose their digits before they are divided by tau",
        kills=(f"{_SCORES}test_features_that_become_zero",),
    ),
    Mutant(
        name="geometry-norm-underflow",
        file=_GEOMETRY,
        old="usual = np.minimum.reduce(lengths) > 1e-140 and",
        new="usual = np.minimum.reduce(lengths) >= 0 and",
        why="a square that underflows is not zero",
        kills=(f"{_RADII}test_lengths_of_features_whose_squares_are_out_of_range[1e-170-1e-100]",),
    ),
    Mutant(
        name="geometry-norm",
        file=_GEOMETRY,
        old="return above(lengths, states.bank.dim + 18) + 1e-150",
        new="return lengths",
        why="a length that is computed in float64 may be below the exact one",
        kills=(f"{_RADII}test_lengths_of_features_are_from_above",),
    ),
    Mutant(
        name="execution-widened",
        file="realizations/distances.py",
        old="torch.sqrt(squares.clamp_min(0) + slope**2 * off.of_gap + gamma)",
        new="torch.sqrt(squares.clamp_min(0) + gamma)",
        why="class gradients are as far apart as the exact vectors, not as the executed radii",
        kills=(f"{_SCORES}test_distances_between_vectors_that_are_longer_than_their_radii",),
    ),
    Mutant(
        name="geometry-clamp",
        file=_GEOMETRY,
        old="torch.where(clamped, 4 * u * k * k, 0.0)",
        new="0.0",
        why="the clamp puts -fl(k^2) in the place of a number that may be u k^2 below it",
        argued="the clamp acts only where |u| > k/2, and there the roundings of the two products are at least "
        "13 u k^2, beside the u k^2 by which the exact value may lie below the rounded square",
    ),
    Mutant(
        name="rounding-weights",
        file=_AFTER,
        old="off = others * relative * (softmax.grown * torch.exp(softmax.of_total)[:, None]) + 2 * tiny",
        new="off = 0 * others",
        why="the weights pi_j - 1_y are executed exponentials",
        kills=(f"{_OUTPUTS}test_errors_of_weights_reach_the_gradient",),
    ),
    Mutant(
        name="rounding-slopes",
        file=_AFTER,
        old="off = u * (first / (nu + s) + second / (s * s)) + 4 * tiny / r.clamp_min(tiny)",
        new="off = 4 * tiny / r.clamp_min(tiny)",
        why="the executed ratio is not A_n",
        kills=(f"{_OUTPUTS}test_errors_of_slopes_reach_the_gradient",),
    ),
    Mutant(
        name="rounding-pulls",
        file=_AFTER,
        old="pulls = (of_pulls + direction_error(bank.dim)) * bank.concentrations",
        new="pulls = direction_error(bank.dim) * bank.concentrations",
        why="a product over classes may lose every small term",
        kills=(f"{_OUTPUTS}test_a_product_over_classes_that_loses_every_small_term",),
    ),
    Mutant(
        name="rounding-along",
        file=_AFTER,
        old="along = (of_sum + gamma(12, dtype)) * (1 + of_sum) * length",
        new="along = 0 * length",
        why="the sum of weights times slopes, which multiplies f/tau, is rounded",
        kills=(f"{_OUTPUTS}test_errors_along_the_feature_reach_the_gradient",),
    ),
    Mutant(
        name="rounding-gradient-underflow",
        file=_AFTER,
        old="gradient = gradient + underflow(bank, farthest, states.temperature, dtype) / states.temperature",
        new="gradient = gradient + 0 * farthest",
        why="a weight of 1e-36 is lost before it is multiplied by k = 1e9",
        kills=(
            f"{_ATTACKS}test_weights_that_underflow_before_they_are_multiplied",
            f"{_ATTACKS}test_extreme_temperatures",
        ),
    ),
    Mutant(
        name="execution-rows-outside",
        file=_BASE,
        old="kept = found if inside is None else torch.where(inside, found, torch.inf)",
        new="kept = found",
        why="rows that left the model of rounding were computed on as zeros",
        kills=(f"{_OUTPUTS}test_rows_that_left_the_model_have_no_bound",),
    ),
    Mutant(
        name="execution-subnormal-temperature",
        file=_EXECUTION,
        old="torch.isfinite(temperature) & (temperature >= smallest_normal(executed.dtype))",
        new="torch.isfinite(temperature)",
        why="a subnormal temperature leaves finite numbers behind, and wrong ones",
        kills=(f"{_ATTACKS}test_what_leaves_the_model_is_never_certified",),
    ),
    Mutant(
        name="execution-budget-left",
        file=_BASE,
        old="rest = below(below(limit)) - getattr(after, name)",
        new="rest = below(below(limit))",
        why="what comes after the scores has its share of a budget",
        kills=(f"{_ATTACKS}test_tolerance_beside_rounding",),
    ),
    Mutant(
        name="softmax-growth",
        file=_AFTER,
        old="beside = max(1e-3, 2 * e + u * (3 + 2 * math.log(classes)))",
        new="beside = 1e-3",
        why="in a dtype of eleven bits an exponential is off by more than a thousandth",
        kills=(f"{_OUTPUTS}test_exponents_grow_by_what_a_dtype_rounds",),
    ),
    Mutant(
        name="above-own-rounding",
        file=_OUTWARD,
        old="u, count = unit_roundoff(dtype), roundings + 1",
        new="u, count = unit_roundoff(dtype), roundings - 1",
        why="raising a number is itself rounded",
        kills=("tests/numerics/test_outward.py::test_every_rounding_goes_the_same_way",),
    ),
    Mutant(
        name="above-first-order",
        file=_OUTWARD,
        old="math.ceil((count + count * count * u) / 2)",
        new="math.ceil(count / 2)",
        why="many roundings multiply",
        kills=("tests/numerics/test_outward.py::test_more_roundings_go_further",),
    ),
    Mutant(
        name="above-underflow",
        file=_OUTWARD,
        old="return torch.maximum(raised, floor if positive is True else torch.where(positive, floor, 0.0))",
        new="return raised",
        why="what underflowed is not zero",
        kills=("tests/numerics/test_outward.py::test_what_underflowed_is_not_zero",),
    ),
    Mutant(
        name="above-conversion",
        file=_OUTWARD,
        old="+ 2 * unit_roundoff(dtype)) + smallest_normal(dtype)",
        new=") + smallest_normal(dtype)",
        why="a conversion to fewer digits rounds down half of the time",
        kills=("tests/numerics/test_outward.py::test_conversion_to_fewer_digits_is_outward",),
    ),
    Mutant(
        name="product-sum-of-blocks",
        file=_PRODUCTS,
        old="return terms // blocks + blocks - 1 + (terms % blocks > 0)",
        new="return terms // blocks",
        why="the blocks' sums are added up too",
        kills=("tests/numerics/test_products.py::test_counts_of_the_theory",),
    ),
    Mutant(
        name="product-rest",
        file=_PRODUCTS,
        old="return total if whole == len(b) else total.add_(a[:, whole:] @ b[whole:])",
        new="return total",
        why="terms past the last whole block count",
        kills=("tests/numerics/test_products.py::test_products_are_within_their_roundings",),
    ),
    Mutant(
        name="compiled-unproved",
        file="numerics/compiling.py",
        old="    if not was_compiled:",
        new="    if was_compiled is None:",
        why="torch may run the eager program in place of the compiled one",
        kills=("tests/numerics/test_compiling.py::test_a_compiler_that_is_switched_off",),
    ),
    Mutant(
        name="splitter-of-float32",
        file="numerics/compensated.py",
        old="float(2 ** (format_of(dtype).significand_bits // 2 + 1) + 1)",
        new="float(2**13 + 1)",
        why="halves of a float64 have 26 bits",
        kills=("tests/numerics/test_compensated.py::test_sum_and_product_are_exact",),
    ),
)
