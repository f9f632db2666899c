"""Mutants of what training relies on: trajectories, noise, filters (docs/theory, 12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_SPECTRAL = "numerics/spectral.py"
_REGRESSION = "nn/regression.py"
_STEPS = "nn/steps.py"
_TRAJECTORY = "nn/trajectory.py"
_DRIFT = "nn/drift.py"
_TERMS = ("tests/nn/test_regression.py::test_terms_are_those_of_the_proposition",)
_ONE = "tests/nn/test_steps.py::"
_NORMS = "tests/numerics/test_spectral.py::"
_NOISE = "tests/contracts/test_noise.py::"
_RUNS = "tests/nn/test_trajectory.py::"

MUTANTS = (
    Mutant(
        name="spectral-below",
        file=_SPECTRAL,
        old="return min(frobenius, above(root / scale, 8))",
        new="return min(frobenius, above(root / scale, 8)) * 0.99",
        why="power iteration and its like are below the norm; a bound is above",
        kills=(f"{_NORMS}test_bounds_are_above_the_largest_eigenvalue_and_near_it",),
    ),
    Mutant(
        name="spectral-scale-forgotten",
        file=_SPECTRAL,
        old="above(bound / scale / scale, 8, positive=True)",
        new="above(bound / scale, 8, positive=True)",
        why="rows that were scaled have a Gram matrix that was scaled twice",
        kills=(f"{_NORMS}test_equal_eigenvalues_are_the_worst_and_still_close",),
    ),
    Mutant(
        name="regression-product",
        file=_REGRESSION,
        old=" + of_product * left + ",
        new=" + ",
        why="the product over the batch is rounded",
        kills=_TERMS,
    ),
    Mutant(
        name="regression-softmax",
        file=_REGRESSION,
        old="changed + of_softmax * torch.linalg.vector_norm(pi, dim=1) + ",
        new="changed + ",
        why="exponentials, their sum and the quotient are rounded",
        kills=_TERMS,
    ),
    Mutant(
        name="regression-scores",
        file=_REGRESSION,
        old="moved = 2 * (above",
        new="moved = (above",
        why="log-odds move by twice what a score is off",
        kills=_TERMS,
    ),
    Mutant(
        name="regression-spread",
        file=_REGRESSION,
        old="vector_norm(pi * ((1 - pi).clamp_min(0) + 2 * of_softmax), dim=1)",
        new="vector_norm(pi * pi * ((1 - pi).clamp_min(0) + 2 * of_softmax), dim=1)",
        why="a probability moves by its own size times the others'",
        kills=_TERMS,
    ),
    Mutant(
        name="regression-overflow",
        file=_REGRESSION,
        old="return total if math.isfinite(total) else math.inf",
        new="return total if math.isfinite(total) else 0.0",
        why="nothing is known of what overflowed",
        kills=("tests/nn/test_regression.py::test_nothing_is_known_of_what_overflows",),
    ),
    Mutant(
        name="step-result-rounding",
        file=_STEPS,
        old="unit_roundoff(dtype) * norm_above(*new) + gamma",
        new="gamma",
        why="the new parameters are rounded",
        kills=(f"{_ONE}test_the_rounding_of_the_sum_is_that_of_the_result",),
    ),
    Mutant(
        name="step-rate-rounding",
        file=_STEPS,
        old=" + gamma(7, dtype) * moved + lost",
        new=" + lost",
        why="step size, decay and their products are rounded",
        kills=(f"{_ONE}test_the_rounding_of_the_decay_and_of_the_rate",),
    ),
    Mutant(
        name="step-gradient-error",
        file=_STEPS,
        old="return above(way.rate * slopes.error + rounding, 16)",
        new="return above(rounding, 16)",
        why="the gradient was off",
        kills=(f"{_ONE}test_the_gradients_error_is_taken_along",),
    ),
    Mutant(
        name="enclosed-gradient-error",
        file=_STEPS,
        old="norm_above(*off) + rounding + way.rate * slopes.error, 16)",
        new="norm_above(*off) + rounding, 16)",
        why="the float64 gradient is off as well",
        kills=(f"{_ONE}test_the_gradients_error_is_taken_along",),
    ),
    Mutant(
        name="growth-half-again",
        file=_STEPS,
        old="Fraction(largest) / (2 * count)",
        new="Fraction(largest) / (4 * count)",
        why="the softmax's curvature is at most one half, and at two classes it is that",
        kills=(f"{_ONE}test_the_factor_is_reached_by_two_classes",),
    ),
    Mutant(
        name="growth-largest-decay",
        file=_STEPS,
        old="shrink = 1 - rate * Fraction(way.least)",
        new="shrink = 1 - rate * Fraction(way.most)",
        why="a parameter that does not decay forgets nothing",
        kills=(f"{_ONE}test_a_direction_that_only_decays_shrinks_by_the_smallest_decay",),
    ),
    Mutant(
        name="growth-without-decay",
        file=_STEPS,
        old=" + Fraction(way.most)) - 1",
        new=") - 1",
        why="the decay adds to the curvature",
        kills=(f"{_ONE}test_the_bias_is_a_feature_of_ones",),
    ),
    Mutant(
        name="growth-without-ones",
        file=_STEPS,
        old="rows if way.bias_decay is None else torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)",
        new="rows",
        why="the bias is a feature of ones",
        kills=(f"{_ONE}test_the_bias_is_a_feature_of_ones",),
    ),
    Mutant(
        name="growth-rounded-down",
        file=_STEPS,
        old="return nearest if nearest >= most else math.nextafter(nearest, math.inf)",
        new="return math.nextafter(nearest, 0.0)",
        why="a factor is rounded up",
        kills=(f"{_ONE}test_a_direction_that_only_decays_shrinks_by_the_smallest_decay",),
    ),
    Mutant(
        name="trajectory-forgets",
        file=_TRAJECTORY,
        old="self._off = _known(above(growth * self._off + off, 4))",
        new="self._off = _known(above(off, 4))",
        why="what earlier steps were off is still there",
        kills=(f"{_RUNS}test_an_adversary_reaches_the_bound",),
    ),
    Mutant(
        name="trajectory-apart",
        file=_TRAJECTORY,
        old='apart = _apart(self._last, self._twin) if self.errors == "twin" else 0.0',
        new="apart = 0.0",
        why="the twin is exact nearly, and the run is apart from it",
        kills=(f"{_RUNS}test_the_first_step_and_the_twin_are_tight",),
    ),
    Mutant(
        name="trajectory-nan",
        file=_TRAJECTORY,
        old="return distance if distance < math.inf else math.inf",
        new="return distance if distance < math.inf else 0.0",
        why="what is not a number is not known",
        kills=(f"{_RUNS}test_what_is_not_finite_is_not_known",),
    ),
    Mutant(
        name="drift-root-two",
        file=_DRIFT,
        old="half = above(distance * lengths / math.sqrt(2), 8)",
        new="half = above(distance * lengths / 2, 8)",
        why="two rows that move apart make a difference of scores the root of 2 larger",
        kills=("tests/nn/test_drift.py::test_the_worst_head_flips_a_prediction_just_past_the_bound",),
    ),
    Mutant(
        name="drift-unknown",
        file=_DRIFT,
        old="prediction=known & bounds.prediction,",
        new="prediction=~known | bounds.prediction,",
        why="what is not known certifies nothing",
        kills=("tests/nn/test_drift.py::test_what_is_not_known_certifies_nothing",),
    ),
    Mutant(
        name="noise-batch",
        file="contracts/noise.py",
        old="kappa * math.sqrt(trace / batch)",
        new="kappa * math.sqrt(trace)",
        why="a mean of n samples has an n-th of the variance",
        kills=(f"{_NOISE}test_the_budget_is_rounded_down",),
    ),
    Mutant(
        name="noise-of-one",
        file="contracts/noise.py",
        old="not isinstance(batch, int) or batch < 2:",
        new="not isinstance(batch, int) or batch < 1:",
        why="one sample says nothing about noise",
        kills=(f"{_NOISE}test_what_says_nothing_about_noise_is_refused",),
    ),
    Mutant(
        name="noise-not-estimated",
        file="budgets.py",
        old='"estimated": True}',
        new='"estimated": False}',
        why="a budget that is an estimate says so",
        kills=("tests/test_budgets.py::test_budgets_below_the_noise_are_estimated",),
    ),
)
