"""Mutants of what a backward pass may leave out (docs/theory, 11.6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILTERED = "realizations/filtered.py"
_STREAMING = "nn/streaming.py"
_FILTERS = "tests/realizations/test_filtered.py::"
_STREAMS = "tests/nn/test_streaming.py::"

MUTANTS = (
    Mutant(
        name="filter-certain-only",
        file=_FILTERED,
        old="out = torch.where(self.low < threshold[:, None], self.high, 0.0)\n        nothing",
        new="out = torch.where(self.high < threshold[:, None], self.high, 0.0)\n        nothing",
        why="a class that could be left out counts as left out",
        kills=(f"{_FILTERS}test_a_class_that_could_be_left_out_counts",),
    ),
    Mutant(
        name="filter-executed",
        file=_FILTERED,
        old="    return torch.minimum(low, made.executed.weights.abs().double())",
        new="    return low",
        why="a filter sees the executed weights, which may be below a threshold where exact ones are not",
        kills=(f"{_FILTERS}test_a_filter_sees_what_was_executed",),
    ),
    Mutant(
        name="filter-hidden-error",
        file=_FILTERED,
        old="return above(scale * (1 + made.own().a.amax(dim=1)), 4)",
        new="return scale",
        why="a hidden vector that is off may be longer than the exact one",
        kills=(f"{_FILTERS}test_a_hidden_vector_that_is_off_may_be_longer",),
    ),
    Mutant(
        name="filter-vmf-lengths",
        file=_FILTERED,
        old="ratio = above(r / (nu + torch.sqrt(r * r + nu * nu)), 16, positive=r > 0)",
        new="ratio = above(r / (2 * nu + torch.sqrt(r * r + nu * nu)), 16, positive=r > 0)",
        why="the ratio is r/(nu + s) nearly",
        kills=(f"{_FILTERS}test_class_vectors_of_vmf_states_have_lengths_of_their_own",),
    ),
    Mutant(
        name="filter-label-by-difference",
        file=_FILTERED,
        old="rest = without(log_pi, y, -torch.inf).logsumexp(dim=1)",
        new="rest = torch.log(1 - log_pi.gather(1, y[:, None])[:, 0].exp())",
        why="a sum that leaves out a class is formed without it",
        kills=(f"{_FILTERS}test_the_residual_of_a_label_keeps_its_digits",),
    ),
    Mutant(
        name="filter-no-label",
        file=_FILTERED,
        old="log_g, label = log_pi, torch.zeros_like(label)",
        new="log_g = log_pi",
        why="what stands in for a label is cut off like any other class",
        kills=(f"{_FILTERS}test_without_labels_the_top_class_may_be_cut_off",),
    ),
    Mutant(
        name="filter-subnormal",
        file=_FILTERED,
        old="torch.where(low < smallest_normal(low.dtype), 0.0, low)",
        new="low",
        why="a subnormal number is no lower end of anything",
        kills=(f"{_FILTERS}test_ends_of_residuals_enclose_them_to_the_smallest",),
    ),
    Mutant(
        name="filter-nan",
        file=_FILTERED,
        old="some = ~(entries.amax(dim=1) <= 0)",
        new="some = entries.amax(dim=1) > 0",
        why="what is not a number is not zero",
        kills=(f"{_FILTERS}test_what_is_not_a_number_is_not_zero",),
    ),
    Mutant(
        name="truncation-others",
        file=_FILTERED,
        old="out + torch.where(stay > 0, stay * grown[:, None], 0.0), 0.0)",
        new="out, 0.0)",
        why="what stays grows when the rest is cut off",
        kills=(f"{_FILTERS}test_a_truncated_softmax",),
    ),
    Mutant(
        name="truncation-top",
        file=_FILTERED,
        old="return after, ~(self.top < threshold)",
        new="return after, torch.ones_like(self.top, dtype=torch.bool)",
        why="a top class that is cut off is not predicted",
        kills=(f"{_FILTERS}test_a_truncated_softmax",),
    ),
    Mutant(
        name="threshold-not-accepted",
        file="tolerances/filtering.py",
        old="best = torch.where(good, torch.maximum(best, tried), best)",
        new="best = torch.maximum(best, tried)",
        why="only a threshold that was accepted is returned",
        kills=("tests/tolerances/test_filtering.py::test_the_threshold_is_the_largest_that_is_certified",),
    ),
    Mutant(
        name="streaming-lengths",
        file=_STREAMING,
        old="torch.stack([head.lengths, torch.ones_like(head.lengths)], dim=1)",
        new="torch.stack([torch.ones_like(head.lengths), torch.ones_like(head.lengths)], dim=1)",
        why="rows are longer than 1",
        kills=(f"{_STREAMS}test_bounds_are_of_all_that_is_left_out",),
    ),
    Mutant(
        name="streaming-first-part",
        file=_STREAMING,
        old="sums += above(found, part.shape[1] + 8).double()",
        new="sums = above(found, part.shape[1] + 8).double()",
        why="all parts of the sum count",
        kills=(f"{_STREAMS}test_bounds_are_of_all_that_is_left_out",),
    ),
    Mutant(
        name="streaming-budget",
        file=_STREAMING,
        old="over = ~((left.hidden <= aims.budget) & (left.weights <= aims.budget))",
        new="over = ~((left.hidden <= aims.budget) | (left.weights <= aims.budget))",
        why="both gradients have to be within the budget",
        kills=(f"{_STREAMS}test_errors_are_within_the_bounds_and_the_bounds_within_the_budget",),
    ),
    Mutant(
        name="streaming-narrowed",
        file=_STREAMING,
        old="dim=1) if narrowed else part @ of",
        new="dim=1) if False else part @ of",
        why="products may be taken in fewer digits than the bound allows for",
        kills=(f"{_STREAMS}test_bounds_are_no_products_where_these_are_narrowed",),
    ),
    Mutant(
        name="streaming-underflow",
        file=_STREAMING,
        old="in_weights = sums[:, 1].sqrt() * threshold.double().sqrt() * joint",
        new="in_weights = (sums[:, 1] * threshold.double()).sqrt() * joint",
        why="a product of two small numbers underflows, and their roots do not",
        kills=(f"{_STREAMS}test_what_is_left_out_of_the_weights_does_not_underflow",),
    ),
    Mutant(
        name="streaming-not-finite",
        file=_STREAMING,
        old="known = torch.isfinite(loss) & torch.isfinite(made.hidden).all(dim=1)",
        new="known = torch.ones_like(loss, dtype=torch.bool)",
        why="nothing is known of a row that is not finite",
        kills=("tests/nn/test_filtered.py::test_rows_that_are_not_finite_are_not_certified",),
    ),
    Mutant(
        name="streaming-label",
        file=_STREAMING,
        old="        some[labels] = True\n",
        new="",
        why="a label is never left out",
        kills=(f"{_STREAMS}test_errors_are_within_the_bounds_and_the_bounds_within_the_budget",),
    ),
    Mutant(
        name="truncation-left",
        file=_FILTERED,
        old="return rest, self.stays if some is None else some & self.stays",
        new="return rest, some",
        why="b* would be found where the top class may be cut off",
        kills=(f"{_FILTERS}test_where_the_top_class_may_be_cut_off_no_prediction_is_left",),
    ),
)
