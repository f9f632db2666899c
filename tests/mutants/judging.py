"""Mutants of judging (certificates/judge.py and the truths by need): a verdict that the enclosures do not bear out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_JUDGE = "certificates/judge.py"
_OUTPUTS = "truth/outputs.py"
_EXECUTED = "truth/executed.py"
_ARB = "truth/in_arb.py"
_TIES = "truth/ties.py"
_VERDICTS = ("tests/certificates/test_judge.py::test_verdicts_agree_with_arb",)
_ENCLOSURES = ("tests/truth/test_executed.py::test_enclosures_contain_what_arb_finds",)
_AROUND = ("tests/truth/test_outputs.py::test_a_distance_and_a_radius_make_an_interval_that_is_outward",)
_CERTAIN = ("tests/truth/test_outputs.py::test_a_verdict_needs_every_error_below_or_one_above",)
_SHORTFALLS = ("tests/truth/test_executed.py::test_shortfalls_are_outward",)
_ENDS = ("tests/truth/test_in_arb.py::test_ends_are_the_neighbouring_numbers",)
_HAIR = ("tests/truth/test_ties.py::test_a_hair_is_no_tie",)

MUTANTS = (
    Mutant(
        name="judge-low-without-radius",
        file=_OUTPUTS,
        old="low = below(below(distance.clamp_max(largest), roundings) - radius).clamp_min(0)",
        new="low = below(below(distance.clamp_max(largest), roundings)).clamp_min(0)",
        why="the distance from a number that is itself off would be the error: violated where it is not",
        kills=_ENCLOSURES,
    ),
    Mutant(
        name="judge-high-without-radius",
        file=_OUTPUTS,
        old="high = above(above(distance, roundings) + radius)",
        new="high = above(above(distance, roundings))",
        why="the distance from a number that is itself off would be the error: certified where it is not",
        kills=_ENCLOSURES,
    ),
    Mutant(
        name="judge-rounding-of-distance",
        file=_OUTPUTS,
        old="low = below(below(distance.clamp_max(largest), roundings) - radius).clamp_min(0)",
        new="low = above(distance.clamp_max(largest) - radius).clamp_min(0)",
        why="the lower end would be moved inward",
        kills=_AROUND,
    ),
    Mutant(
        name="judge-unknown-radius-is-none",
        file=_OUTPUTS,
        old="radius = radius.nan_to_num(nan=torch.inf, posinf=torch.inf)",
        new="radius = radius.nan_to_num(nan=0.0, posinf=torch.inf)",
        why="an enclosure that is not a number would be one without width",
        kills=("tests/truth/test_outputs.py::test_what_is_not_known_is_wide",),
    ),
    Mutant(
        name="judge-certified-by-the-lower-end",
        file=_OUTPUTS,
        old="errors[name].high <= limit",
        new="errors[name].low <= limit",
        why="certified would mean not proved violated",
        kills=_CERTAIN,
    ),
    Mutant(
        name="judge-certified-by-one-budget",
        file=_OUTPUTS,
        old="for name, limit in limits.items()]).all(dim=0)",
        new="for name, limit in limits.items()]).any(dim=0)",
        why="one budget that is kept would be all of them",
        kills=_CERTAIN,
    ),
    Mutant(
        name="judge-violated-by-the-upper-end",
        file=_OUTPUTS,
        old="errors[name].low > limit",
        new="errors[name].high > limit",
        why="violated would mean not proved adequate",
        kills=_CERTAIN,
    ),
    Mutant(
        name="judge-narrowed-outward",
        file=_OUTPUTS,
        old="self.high[rows] = torch.minimum(self.high[rows], found.high)",
        new="self.high[rows] = torch.minimum(self.high[rows], found.low)",
        why="the upper end would be another enclosure's lower end",
        kills=("tests/truth/test_outputs.py::test_narrowing_keeps_what_both_contain",),
    ),
    Mutant(
        name="judge-nan-is-a-number",
        file=_OUTPUTS,
        old='found["loss"] = ~torch.isfinite(outputs.loss)',
        new='found["loss"] = torch.zeros_like(outputs.loss, dtype=torch.bool)',
        why="NaN would be left open instead of violated",
        kills=("tests/certificates/test_judge.py::test_what_is_no_number_is_violated",),
    ),
    Mutant(
        name="judge-missing-output",
        file=_JUDGE,
        old="    if missing:\n",
        new="    if missing and not outputs.names:\n",
        why="a budget without its output would be passed over",
        kills=("tests/certificates/test_judge.py::test_usage",),
    ),
    Mutant(
        name="judge-rows-mixed-up",
        file=_JUDGE,
        old="errors[name].narrow(rows[known], found[known])",
        new="errors[name].narrow(torch.arange(len(found.low))[known], found[known])",
        why="the errors of states that are still open would be given to the first ones",
        kills=_VERDICTS,
    ),
    Mutant(
        name="judge-prediction-within-reach",
        file=_EXECUTED,
        old="width = above(allowances + at_class(allowances, predicted)[:, None] + 4 * rounding, MANY)",
        new="width = above(allowances + 4 * rounding, MANY)",
        why="the predicted class's own score is off as well",
        kills=_SHORTFALLS,
    ),
    Mutant(
        name="judge-prediction-inward",
        file=_EXECUTED,
        old="high = without(ahead + width, predicted, 0.0)",
        new="high = without(ahead - width, predicted, 0.0)",
        why="a prediction would be certified where another class may be best",
        kills=_SHORTFALLS,
    ),
    Mutant(
        name="judge-outside-is-inside",
        file=_EXECUTED,
        old="allowances = torch.where(inside[:, None], made.own().d, torch.inf)",
        new="allowances = made.own().d",
        why="scores of a program that left the model of rounding would be taken for right",
        kills=("tests/truth/test_executed.py::test_what_left_the_model_is_not_known",),
    ),
    Mutant(
        name="judge-arb-upper-end-down",
        file=_ARB,
        old="    while high < math.inf and not upper <= arb(high):\n        high = math.nextafter(high, math.inf)\n",
        new="",
        why="the upper end would be rounded to nearest",
        kills=_ENDS,
    ),
    Mutant(
        name="judge-arb-lower-end-up",
        file=_ARB,
        old="    while low > 0 and not arb(low) <= lower:\n        low = math.nextafter(low, 0.0)\n",
        new="",
        why="the lower end would be rounded to nearest",
        kills=("tests/truth/test_in_arb.py::test_lower_ends_are_rounded_down",),
    ),
    Mutant(
        name="judge-arb-one-budget-is-enough",
        file=_ARB,
        old="if all(found[name][1] <= budget or _narrow(found[name]) for name, budget in budgets.items()):",
        new="if any(found[name][1] <= budget or _narrow(found[name]) for name, budget in budgets.items()):",
        why="nothing unsound, but states would stay open for want of bits",
        kills=("tests/truth/test_in_arb.py::test_bits_grow_for_every_budget",),
    ),
    Mutant(
        name="judge-arb-target-weight",
        file=_ARB,
        old="factors[y] = -others / exponents[y] * factors[y]",
        new="factors[y] = others / exponents[y] * factors[y]",
        why="the target would push instead of pull",
        kills=("tests/truth/test_in_arb.py::test_all_errors_against_the_oracle",),
    ),
    Mutant(
        name="judge-arb-half-of-the-sum",
        file=_ARB,
        old='found["probability"] = interval(apart / 2)',
        new='found["probability"] = interval(apart / 4)',
        why="half of a total variation",
        kills=("tests/truth/test_in_arb.py::test_all_errors_against_the_oracle",),
    ),
    Mutant(
        name="judge-likely-winner",
        file=_ARB,
        old="if j == prediction or score < scores[prediction]:",
        new="if j == prediction or score.mid() < scores[prediction].mid():",
        why="a class would be behind because the middle of its ball is",
        kills=("tests/truth/test_in_arb.py::test_balls_that_overlap_leave_the_winner_open",),
    ),
    Mutant(
        name="judge-tie-of-other-biases",
        file=_TIES,
        old="if k[i] != k[j] or c[i] != c[j]:",
        new="if k[i] != k[j]:",
        why="classes of different priors would be equal",
        kills=_HAIR,
    ),
    Mutant(
        name="judge-tie-of-other-concentrations",
        file=_TIES,
        old="if k[i] != k[j] or c[i] != c[j]:",
        new="if c[i] != c[j]:",
        why="classes of different concentrations would be equal",
        kills=_HAIR,
    ),
    Mutant(
        name="judge-tie-of-opposites",
        file=_TIES,
        old="    if (dot_i > 0) != (dot_j > 0) or (dot_i < 0) != (dot_j < 0):\n        return False\n",
        new="",
        why="opposite directions have equal squares",
        kills=("tests/truth/test_ties.py::test_classes_at_one_angle_are_tied",),
    ),
    Mutant(
        name="judge-supervised-without-priors",
        file="truth/supervised.py",
        old="scores = [q + c for q, c in zip(plain, biases, strict=True)]",
        new="scores = [q for q, _ in zip(plain, biases, strict=True)]",
        why="the truth would be another objective's",
        kills=("tests/truth/test_supervised.py::test_the_loss_is_its_formula",),
    ),
    Mutant(
        name="enclosure-certifies-what-it-violates",
        file="certificates/enclosure.py",
        old="np.where(over, Verdict.VIOLATED, Verdict.INCONCLUSIVE)",
        new="np.where(over, Verdict.CERTIFIED, Verdict.INCONCLUSIVE)",
        why="what is proved to be over a budget would be certified",
        kills=("tests/certificates/test_enclosure.py::test_formulas_are_decided_as_the_oracle_does",),
    ),
    Mutant(
        name="enclosure-of-zeros",
        file="truth/formula.py",
        old="radius = torch.where(outside, torch.inf, above(each.radius, MANY))",
        new="radius = above(each.radius, MANY)",
        why="rows that were replaced by zeros would be certified by the errors of zeros",
        kills=("tests/truth/test_formula.py::test_nothing_is_known_of_rows_that_are_too_large",),
    ),
    Mutant(
        name="enclosure-next-terms-anywhere",
        file="truth/formula.py",
        old="if realized.geometry.nu < SMALLEST_NU:",
        new="if realized.geometry.nu < 3:",
        why="the slope of ratio errors is proved from nu = 15 on",
        kills=("tests/certificates/test_enclosure.py::test_other_orders_by_their_next_terms",),
    ),
    Mutant(
        name="enclosure-likely-prediction",
        file="truth/formula.py",
        old="possible = [j for j, hat in enumerate(hats) if not hat < hats[best]]",
        new="possible = [best]",
        why="the class that the formula predicts would be the one whose ball is highest",
        kills=("tests/truth/test_formula.py::test_a_formula_that_may_predict_either",),
    ),
    Mutant(
        name="enclosure-of-one-output-for-all",
        file="audits/rows.py",
        old='columns[name] = np.where(columns["tier"] == Tier.OUTPUT, columns[name], smaller)',
        new="columns[name] = smaller",
        why="the error of this output would be a bound for every order of summation",
        kills=("tests/audits/test_rows.py::test_executed_rows_are_what_the_library_says",),
    ),
    Mutant(
        name="enclosure-rows-mixed-up",
        file="audits/rows.py",
        old='columns["verdict"][rows] = decided.verdict[settled]',
        new='columns["verdict"][rows] = decided.verdict[settled][::-1]',
        why="the verdicts of some states would be given to others",
        kills=("tests/audits/test_rows.py::test_rows_are_what_the_library_says",),
    ),
    Mutant(
        name="checker-lower-ends-believed",
        file="verify/judging.py",
        old="    wrong = said > high\n",
        new="    wrong = said > np.inf\n",
        why="a lower end above the error would go unseen, and violated with it",
        kills=("tests/verify/test_tampering.py::test_a_changed_row_is_named",),
    ),
    Mutant(
        name="checker-lower-ends-anywhere",
        file="verify/cross.py",
        old="fits = np.where(enclosed, (low >= 0) & (low <= bound), low == 0)",
        new="fits = (low >= 0) & (low <= bound)",
        why="a lower end where no enclosure decided",
        kills=("tests/verify/test_tampering.py::test_a_changed_row_is_named",),
    ),
)
