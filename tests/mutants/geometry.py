"""Mutants of the contracts' evaluation and of what they take from the exact geometry (docs/theory, 6.2 to 6.11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_BOUNDS = "contracts/bounds.py"
_CONDITIONED = "contracts/conditioned.py"
_CENTERED = "contracts/centered.py"
_INTERVALS = "contracts/intervals.py"
_EACH = "realizations/class_by_class.py"
_ENDPOINTS = "realizations/endpoints.py"
_DISTANCES = "realizations/distances.py"
_GEOMETRY = "realizations/geometry_error.py"
_EXACTLY = "tests/contracts/test_exactly.py::"
_NEVER_BELOW = f"{_EXACTLY}test_never_below_and_hardly_above"
_FACTOR = f"{_EXACTLY}test_probabilities_that_are_known_to_a_factor"
_UNDERFLOWS = f"{_EXACTLY}test_what_underflows_is_raised_before_it_is_scaled"
_HERE = "tests/realizations/test_geometry_error.py::"
_RADII = f"{_HERE}test_radii_lie_in_their_intervals"
_SCORES = f"{_HERE}test_scores_are_within_their_error"
_ALLOWANCES = f"{_HERE}test_allowances_hold_at_the_exact_geometry"
_GAPS = f"{_HERE}test_gaps_hold_at_the_exact_geometry"
_RHO = f"{_HERE}test_distances_hold_at_the_exact_geometry"
_REPRODUCERS = "tests/attacks/test_reproducers.py::"

MUTANTS = (
    Mutant(
        name="slack-roundings",
        file=_BOUNDS,
        old="return 8 * (self.classes + 500) * torch.finfo(self.gradient_scale.dtype).eps",
        new="return 0.0",
        why="a bound that is attained, as at two classes, rounds down half of the time",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="slack-log-error",
        file=_BOUNDS,
        old="return torch.expm1(3 * self.log_error) + self.roundings",
        new="return 0 * self.log_error + self.roundings",
        why="probabilities that are known to a factor move every bound by three of it",
        kills=(_FACTOR,),
    ),
    Mutant(
        name="slack-not-conditioned",
        file=_BOUNDS,
        old="raised = raised * (1 + (self.slack if conditioned else self.roundings))",
        new="raised = raised * (1 + self.roundings)",
        why="bounds that take probabilities need the slack for them",
        kills=(_FACTOR,),
    ),
    Mutant(
        name="outward-floor",
        file=_BOUNDS,
        old="raised = torch.maximum(bound, torch.where(moving, least, 0.0))",
        new="raised = bound",
        why="a bound that underflowed is not zero",
        kills=(_UNDERFLOWS,),
    ),
    Mutant(
        name="outward-unknown",
        file=_BOUNDS,
        old="return torch.where(self.known, raised, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)",
        new="return raised.nan_to_num(nan=0.0)",
        why="nothing is known of a state whose squares overflow",
        kills=(f"{_EXACTLY}test_nothing_is_finite_where_nothing_is_known",),
    ),
    Mutant(
        name="scaled-floor",
        file=_BOUNDS,
        old="0.0, (values * f).clamp_min(least))",
        new="0.0, values * f)",
        why="a multiple that underflows is not zero",
        kills=(f"{_EXACTLY}test_a_factor_that_underflows_is_raised",),
    ),
    Mutant(
        name="conditioned-loss-outward",
        file=_CONDITIONED,
        old="head.outward(torch.logaddexp(torch.zeros_like(log_size), log_size), allowances)",
        new="torch.logaddexp(torch.zeros_like(log_size), log_size)",
        why="rounds down",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="conditioned-tv-outward",
        file=_CONDITIONED,
        old="head.outward(log_tv.exp(), allowances)",
        new="log_tv.exp()",
        why="rounds down",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="conditioned-gradient-outward",
        file=_CONDITIONED,
        old="head.outward(head.scaled(log_gradient), allowances)",
        new="head.scaled(log_gradient)",
        why="rounds down",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="centered-tv-outward",
        file=_CENTERED,
        old="head.outward(log_tv.exp(), allowances)",
        new="log_tv.exp()",
        why="rounds down",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="centered-gradient-outward",
        file=_CENTERED,
        old="head.outward(head.scaled(log_gradient), allowances)",
        new="head.scaled(log_gradient)",
        why="rounds down",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="centered-loss-outward",
        file=_CENTERED,
        old="torch.minimum(paper.loss, head.outward(loss, allowances))",
        new="torch.minimum(paper.loss, loss)",
        why="rounds down",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="gradient-half-of-tv",
        file=_CONDITIONED,
        old="math.log(2 * head.h_bound) + log_tv",
        new="math.log(head.h_bound) + log_tv",
        why="sum |pi_j - P_j| is twice the total variation",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="loss-with-target",
        file=_CONDITIONED,
        old="return without(log_terms, head.target, -torch.inf).logsumexp(dim=1)",
        new="return (log_terms - 1e-9).logsumexp(dim=1)",
        why="the sum leaves the target out",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="ratio-plain",
        file=_CONDITIONED,
        old="return without(head.log_probabilities + torch.log(both), head.target, -torch.inf).logsumexp(dim=1)",
        new="return torch.log(without(head.log_probabilities.exp() * both, head.target, 0.0).sum(dim=1))",
        why="a probability of 1e-330 underflows before it is multiplied by 1e300",
        kills=(_UNDERFLOWS,),
    ),
    Mutant(
        name="ratio-without-target",
        file=_CONDITIONED,
        old="both = a + at_class(a, head.target)[:, None]",
        new="both = a",
        why="the target's own ratio error counts with all of the others' mass",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="intervals-down",
        file=_INTERVALS,
        old="torch.logaddexp(fall, log_x) - rise",
        new="fall - rise",
        why="a probability falls by the rise of the others too",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="intervals-up",
        file=_INTERVALS,
        old="torch.logaddexp(fall, log_y - d)",
        new="fall",
        why="a probability rises by the fall of the others too",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="intervals-deviation",
        file=_INTERVALS,
        old="log_deviation=torch.maximum(log_below, log_above)",
        new="log_deviation=log_below",
        why="the larger of the two sides counts",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="intervals-plain",
        file=_INTERVALS,
        old="log_upper = logsigmoid(odds + d + shrunk)",
        new="log_upper = torch.log(torch.sigmoid(odds + d + shrunk))",
        why="deviations of 1e-330 over a temperature of 1e-290",
        kills=(_UNDERFLOWS,),
    ),
    Mutant(
        name="centered-denominator",
        file=_CENTERED,
        old="return log_moved - (log_pi - d).logsumexp(dim=1)",
        new="return log_moved",
        why="the exact side is normalised by sum pi e^-e",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="centered-away",
        file=_CENTERED,
        old="log_away = torch.logaddexp(log_size, log_rest) - loss",
        new="log_away = log_rest - loss",
        why="1 - P_y is larger than 1 - pi_y where the target falls",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="centered-mixed",
        file=_CENTERED,
        old="vectors = [(d, own)]",
        new="mixed = torch.minimum(d, to_top)\n"
        "    vectors = [(d, own), (mixed, probability_intervals(head.log_probabilities, mixed))]",
        why="d_j and |e_j - e_w| may not be mixed class by class",
        kills=(_NEVER_BELOW,),
    ),
    Mutant(
        name="directions-are-units",
        file=_GEOMETRY,
        old="return (dim / 2 + 10) * unit_roundoff(torch.float64)",
        new="return 0.0",
        why="a row was divided by its length in float64, or left alone",
        kills=(f"{_HERE}test_directions_are_unit_vectors_to_the_proven_error",),
    ),
    Mutant(
        name="gap-without-direction",
        file=_GEOMETRY,
        old="return square * (1 + 2 * m) + m, square",
        new="return square / 8, square / 8",
        why="products over the dimension, and the directions, are rounded",
        kills=(_RADII,),
    ),
    Mutant(
        name="radius-roundings",
        file=_GEOMETRY,
        old="low, high = below(torch.sqrt(least), 6), above(torch.sqrt(square + of_gap), 6)",
        new="low, high = torch.sqrt(least), torch.sqrt(square + of_gap)",
        why="the computed radius is a rounded root",
        kills=(_RADII,),
    ),
    Mutant(
        name="prepare-at-computed",
        file=_EACH,
        old="return Endpoints(geometry=self.geometry, of_gap=self.off.of_gap, low=self.off.low, high=self.off.high)",
        new="return Endpoints.computed(self.geometry)",
        why="allowances at computed radii say nothing where k^2 + D cancels (the second of the attack's two bugs)",
        kills=(_ALLOWANCES, f"{_REPRODUCERS}test_a_radius_near_zero_has_no_digits"),
    ),
    Mutant(
        name="prepare-outside",
        file=_EACH,
        old="error = torch.where(self.outside[:, None], torch.inf, error)",
        new="error = 1 * error",
        why="rows that were set to zero would be certified as such",
        kills=("tests/realizations/test_analytic.py::test_rows_that_overflow_are_unknown",),
    ),
    Mutant(
        name="score-geometry",
        file=_EACH,
        old="moved = off.of_gap / (2 * (nu + off.s_r)) + self._moved",
        new="moved = self._moved",
        why="scores move with the radius",
        kills=(_SCORES,),
    ),
    Mutant(
        name="score-formula",
        file=_EACH,
        old="return above(moved + formula + bias, FEW)",
        new="return above(moved + bias, FEW)",
        why="the difference of potentials is rounded",
        kills=("tests/realizations/test_analytic.py::test_scores_that_are_all_formula",),
    ),
    Mutant(
        name="score-bias",
        file=_EACH,
        old="return above(moved + formula + bias, FEW)",
        new="return above(moved + formula, FEW)",
        why="the sum with a bias is rounded",
        kills=(_SCORES,),
    ),
    Mutant(
        name="log-error-softmax",
        file=_EACH,
        old="log_error=2 * score_error.amax(dim=1) + softmax_roundings(scores)",
        new="log_error=2 * score_error.amax(dim=1)",
        why="the softmax of exact scores is rounded",
        kills=("tests/realizations/test_analytic.py::test_log_probabilities_are_within_their_error",),
    ),
    Mutant(
        name="log-error-scores",
        file=_EACH,
        old="log_error=2 * score_error.amax(dim=1) + softmax_roundings(scores)",
        new="log_error=softmax_roundings(scores)",
        why="scores are not exact",
        kills=("tests/realizations/test_analytic.py::test_log_probabilities_are_within_their_error",),
    ),
    Mutant(
        name="own-moved",
        file=_ENDPOINTS,
        old="d = above(envelope.score_allowance(nu, k, r, geometry.squared_gaps) + self._moved, FEW)",
        new="d = above(envelope.score_allowance(nu, k, r, geometry.squared_gaps), FEW)",
        why="the exact radius is not the computed one",
        kills=(f"{_HERE}test_score_allowances_reach_the_exact_radius",),
    ),
    Mutant(
        name="own-ratio-at-computed",
        file=_ENDPOINTS,
        old="a=envelope.allowance_over(nu, self.ends.low, self.ends.high)",
        new="a=envelope.allowance(nu, r)",
        why="the exact radius is not the computed one",
        kills=(_ALLOWANCES,),
    ),
    Mutant(
        name="uniform-widening",
        file=_ENDPOINTS,
        old="d = above(_root_difference(geometry.squared_gaps.abs() + of_gap, low + k), FEW)",
        new="d = above(_root_difference(geometry.squared_gaps.abs(), r + k), FEW)",
        why="the exact gap is not the computed one",
        kills=(_GAPS,),
    ),
    Mutant(
        name="matched-widening",
        file=_ENDPOINTS,
        old="widened = above(apart(index) + moved + at_class(moved, index)[:, None], FEW)",
        new="widened = apart(index)",
        why="both radii are known to their intervals only",
        kills=(_GAPS,),
    ),
    Mutant(
        name="distances-gamma",
        file=_DISTANCES,
        old="    gamma = product_roundings(states)\n",
        new="    gamma = 0.0\n",
        why="products of vectors that cancel are all rounding",
        kills=("tests/realizations/test_distances.py::test_classes_that_are_nearly_the_same",),
    ),
    Mutant(
        name="distances-slopes",
        file=_DISTANCES,
        old="away = slope_error * off.high",
        new="away = 0 * off.high",
        why="slopes at the exact radii differ",
        kills=("tests/realizations/test_distances.py::test_distances_move_with_slopes_and_probabilities",),
    ),
    Mutant(
        name="distances-probabilities",
        file=_DISTANCES,
        old="+ torch.expm1(2 * error) * over_both(rho)",
        new="+ 0 * error",
        why="the mean moves with the probabilities",
        kills=("tests/realizations/test_distances.py::test_distances_move_with_slopes_and_probabilities",),
    ),
    Mutant(
        name="distances-plain-length",
        file="numerics/compensated.py",
        old="peak = vectors.abs().amax(dim=1).clamp_min(torch.finfo(vectors.dtype).tiny)",
        new="peak = torch.ones_like(vectors[:, 0])",
        why="squares below 1e-308 vanish (the first of the attack's two bugs)",
        kills=("tests/realizations/test_distances.py::test_lengths_of_vectors_whose_squares_underflow",),
    ),
)
