"""Mutants of what everything behind a seam shares: budgets, realizations, families, verdicts, an audit's orders."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_BUDGETS = "budgets.py"
_BASE = "realizations/base.py"
_ENDPOINTS = "realizations/endpoints.py"
_EXECUTED = "realizations/executed/realization.py"
_SUPERVISED = "realizations/supervised.py"
_DISTANCES = "realizations/distances.py"
_FAMILY = "contracts/family.py"
_INVERT = "tolerances/invert.py"
_TOLERANCE = "tolerances/tolerance.py"
_CERTIFY = "certificates/certify.py"
_CASCADE = "certificates/cascade.py"
_CLIMB = "certificates/climb.py"

_OWN_BUDGETS = ("tests/test_budgets.py::test_every_row_has_its_own",)
_IN_BASE = "tests/realizations/test_base.py::"
_TAKEN = (f"{_IN_BASE}test_rows_are_those_of_the_whole",)
_AFTER = (f"{_IN_BASE}test_what_comes_after_the_scores_is_added_outward",)
_LEFT = (f"{_IN_BASE}test_rows_that_left_have_no_bound_and_no_tolerance",)
_REST = (f"{_IN_BASE}test_what_is_left_of_a_budget_is_rounded_down",)
_USED_UP = (f"{_IN_BASE}test_a_budget_that_is_used_up_after_the_scores",)
_REFUSED = (f"{_IN_BASE}test_a_budget_without_a_bound_is_refused",)
_IN_ENDPOINTS = "tests/realizations/test_endpoints.py::"
_IN_SUPERVISED = "tests/realizations/test_supervised.py::"
_IN_EXECUTED = "tests/realizations/executed/test_realization.py::"
_IN_UNIT = "tests/realizations/executed/test_unit.py::"
_IN_FAMILY = "tests/contracts/test_family.py::"
_ITSELF = ("tests/contracts/test_bounds.py::test_a_budget_that_is_the_bound_itself",)
_CHUNKS = ("tests/tolerances/test_tolerance.py::test_each_chunk_has_its_own_budgets",)
_AGREE = ("tests/tolerances/test_tolerance.py::test_certified_and_headroom_agree",)
_OWN_TIER = ("tests/certificates/test_cascade.py::test_every_state_is_judged_by_its_own_budget_and_bounds",)
_ORDERS = ("tests/audits/test_orders.py::test_every_order_has_the_verdict_of_its_own_certificate",)
_NAMED = "tests/contracts/test_registry.py::"

MUTANTS = (
    # budgets
    Mutant(
        name="budgets-first-rows",
        file=_BUDGETS,
        old="value[rows] if one_a_state else value)",
        new="value[: len(value[rows])] if one_a_state else value)",
        why="some states would be judged by the budgets of the first ones",
        kills=_OWN_BUDGETS,
    ),
    Mutant(
        name="budgets-prediction-of-a-part",
        file=_BUDGETS,
        old="value[rows] if one_a_state else value)",
        new='value[rows] if one_a_state else value if name != "prediction" else False)',
        why="a part of the states would be certified without the prediction that was asked for",
        kills=_OWN_BUDGETS,
    ),
    Mutant(
        name="budgets-largest",
        file=_BUDGETS,
        old="value.expand(len(like))",
        new="value.max().expand(len(like))",
        why="every state would have the largest budget of all",
        kills=_OWN_BUDGETS,
    ),
    Mutant(
        name="budgets-one-for-all",
        file=_BUDGETS,
        old="if isinstance(value, Tensor) and value.ndim == 1 and len(value) != len(like):",
        new="if isinstance(value, Tensor) and value.ndim == 1 and len(value) not in (1, len(like)):",
        why="the budget of one state is not that of others",
        kills=_OWN_BUDGETS,
    ),
    Mutant(
        name="budgets-limits-left-out",
        file=_BUDGETS,
        old='            if name == "prediction":\n',
        new='            if name in ("prediction", "gradient"):\n',
        why="a budget that is not compared with is met by everything",
        kills=(*_OWN_BUDGETS, "tests/test_budgets.py::test_shares_are_those_of_all_budgets"),
    ),
    Mutant(
        name="budgets-share-of-the-margin",
        file=_BUDGETS,
        old='return {**out, "prediction": bounds.margin_use} if self.prediction else out',
        new='return {**out, "prediction": 0 * bounds.margin_use} if self.prediction else out',
        why="the prediction would always be kept",
        kills=("tests/test_budgets.py::test_shares_are_those_of_all_budgets",),
    ),
    # realizations at some rows
    Mutant(
        name="realized-shared-is-sliced",
        file=_BASE,
        old="value if value is None or name in self._shared else value[index]",
        new='value if value is None or name in ("pair", "model") else value[index]',
        why="what belongs to all rows is no row's",
        kills=_TAKEN,
    ),
    Mutant(
        name="realized-status-is-shared",
        file=_BASE,
        old="value if value is None or name in self._shared else value[index]",
        new='value if value is None or name in (*self._shared, "status") else value[index]',
        why="a row that left would be taken for one that stayed inside",
        kills=_TAKEN,
    ),
    Mutant(
        name="realized-after-is-shared",
        file=_BASE,
        old="value if value is None or name in self._shared else value[index]",
        new='value if value is None or name in (*self._shared, "after") else value[index]',
        why="a row would have what comes after another row's scores",
        kills=_TAKEN,
    ),
    Mutant(
        name="envelope-rows-are-shared",
        file=_ENDPOINTS,
        old="part.__dict__[name] = vars(self)[name][rows]",
        new="part.__dict__[name] = vars(self)[name][: len(rows)]",
        why="allowances that are formed already would be those of the first rows",
        kills=_TAKEN,
    ),
    # allowances where radii are known to an interval
    Mutant(
        name="matched-one-side",
        file=_ENDPOINTS,
        old="above(apart(index) + moved + at_class(moved, index)[:, None], FEW)",
        new="above(apart(index) + moved, FEW)",
        why="the other class's radius is known to its interval only, too",
        kills=(f"{_IN_ENDPOINTS}test_the_uniform_family_holds_at_every_radius",),
    ),
    Mutant(
        name="matched-uniform-at-computed",
        file=_ENDPOINTS,
        old="_root_difference(of_gap, low + r) + _ROUNDED * r)",
        new="_ROUNDED * r)",
        why="matched gaps at the computed radii say nothing of the exact ones",
        kills=(f"{_IN_ENDPOINTS}test_the_uniform_family_holds_at_every_radius",),
    ),
    Mutant(
        name="matched-own-at-computed",
        file=_ENDPOINTS,
        old="self._moved + _ROUNDED * self.ends.geometry.radii * self.plain.a",
        new="_ROUNDED * self.ends.geometry.radii * self.plain.a",
        why="matched gaps at the computed radii say nothing of the exact ones",
        kills=(f"{_IN_ENDPOINTS}test_an_envelope_of_its_own_holds_at_every_radius",),
    ),
    Mutant(
        name="moved-from-further-out",
        file=_ENDPOINTS,
        old="return pair.score_allowance(nu, low, torch.sqrt(low * low + of_gap), of_gap)",
        new="return pair.score_allowance(nu, 1.1 * low, torch.sqrt(1.21 * low * low + of_gap), of_gap)",
        why="an integral over squares is largest where they begin",
        kills=(f"{_IN_ENDPOINTS}test_what_a_radius_that_moves_adds",),
    ),
    Mutant(
        name="endpoints-rows-are-shared",
        file=_ENDPOINTS,
        old="of_gap=self.of_gap[rows], low=",
        new="of_gap=self.of_gap[: len(rows)], low=",
        why="a row would be widened by what another one needs",
        kills=(f"{_IN_ENDPOINTS}test_rows_are_those_of_the_whole",),
    ),
    # what comes after the scores
    Mutant(
        name="completed-nothing-after",
        file=_BASE,
        old="above(bound + getattr(after, name))",
        new="above(bound + 0 * getattr(after, name))",
        why="softmax and products over classes are executed too",
        kills=_AFTER,
    ),
    Mutant(
        name="completed-not-outward",
        file=_BASE,
        old="above(bound + getattr(after, name))",
        new="(bound + getattr(after, name))",
        why="a sum of bounds rounds down half of the time",
        kills=_AFTER,
    ),
    Mutant(
        name="completed-with-a-status-only",
        file=_BASE,
        old="        if after is None and inside is None:\n            return bounds\n",
        new="        if after is None or inside is None:\n            return bounds\n",
        why="what comes after the scores counts where no row can leave, and what left left with nothing after",
        kills=(*_AFTER, *_LEFT),
    ),
    Mutant(
        name="completed-nan",
        file=_BASE,
        old="return kept.nan_to_num(nan=torch.inf, posinf=torch.inf)",
        new="return kept.nan_to_num(nan=0.0, posinf=torch.inf)",
        why="what is no number is over every budget",
        kills=(f"{_IN_BASE}test_what_is_no_number_is_over_every_budget",),
    ),
    Mutant(
        name="left-rounded-up",
        file=_BASE,
        old="rest = below(below(limit)) - getattr(after, name)",
        new="rest = limit - getattr(after, name)",
        why="a b* whose scores use up the rest would be over the budget when all is added",
        kills=_REST,
    ),
    Mutant(
        name="left-rounded-once",
        file=_BASE,
        old="rest = below(below(limit)) - getattr(after, name)",
        new="rest = below(limit, 0) - getattr(after, name)",
        why="the sum in `completed` is raised by more than its rounding",
        kills=_REST,
    ),
    Mutant(
        name="left-of-nothing",
        file=_BASE,
        old="            some &= rest > 0\n",
        new="            some &= rest > -1e300\n",
        why="where nothing is left of a budget a stand-in of 1 would be inverted",
        kills=_USED_UP,
    ),
    Mutant(
        name="left-of-those-that-left",
        file=_BASE,
        old="            return budgets, inside\n",
        new="            return budgets, None\n",
        why="a row that left would have a tolerance",
        kills=_LEFT,
    ),
    Mutant(
        name="left-without-prediction",
        file=_BASE,
        old="return Budgets(**left, prediction=budgets.prediction, estimated=budgets.estimated), some",
        new="return Budgets(**left, estimated=budgets.estimated), some",
        why="the prediction that was asked for would not stop b*",
        kills=_REST,
    ),
    Mutant(
        name="refuse-nothing",
        file=_BASE,
        old="missing = [name for name in budgets.names if name not in self.covers]",
        new="missing = [name for name in budgets.names if not self.covers]",
        why="a budget that there is no bound for would be taken",
        kills=_REFUSED,
    ),
    Mutant(
        name="supervised-covers",
        file=_SUPERVISED,
        old='covers = frozenset({"loss"})',
        new='covers = frozenset({"loss", "gradient"})',
        why="there is no bound on the gradient of a supervised state",
        kills=_REFUSED,
    ),
    Mutant(
        name="supervised-no-bound-is-zero",
        file=_SUPERVISED,
        old="nothing = torch.full_like(self.like, torch.inf)",
        new="nothing = torch.zeros_like(self.like)",
        why="what there is no bound for is not without error",
        kills=_REFUSED,
    ),
    # the realizations' own
    Mutant(
        name="executed-own-without-rounding",
        file=_EXECUTED,
        old="return self._envelope.matched(towards).plus(self._matched_rounding)",
        new="return self._envelope.matched(towards)",
        why="executed scores are off by their rounding",
        kills=("tests/realizations/executed/test_scores.py::test_biases_are_rounded",),
    ),
    Mutant(
        name="executed-simple-without-rounding",
        file=_EXECUTED,
        old="simple).plain.plus(self.beside())",
        new="simple).plain",
        why="the first tiers of a cascade would certify the formula, not its execution",
        kills=(f"{_IN_EXECUTED}test_the_cascade_decides_as_its_last_tier",),
    ),
    Mutant(
        name="executed-beside-without-matched",
        file=_EXECUTED,
        old="return self._matched_rounding if Needs.MATCHED_GAPS in needs else self._rounding",
        new="return replace(self._rounding, to_target=0 * self._rounding.d, to_top=0 * self._rounding.d)",
        why="differences of score errors have the rounding of both",
        kills=(f"{_IN_UNIT}test_differences_of_executed_scores_have_the_rounding_of_both",),
    ),
    Mutant(
        name="executed-unit-ratio",
        file=_EXECUTED,
        old="a=torch.where(r > 0, self.off.high / r.clamp_min(1e-300), 1.0)",
        new="a=torch.ones_like(r)",
        why="b at the executed radius is b |v|/r of a vector that is longer than that",
        kills=(f"{_IN_UNIT}test_the_unit_family_reaches_the_exact_vectors",),
    ),
    Mutant(
        name="executed-unit-gaps",
        file=_EXECUTED,
        old="ends = Endpoints(geometry=exact, of_gap=self.off.of_gap, low=self.off.low, high=self.off.high)",
        new="ends = Endpoints.computed(exact)",
        why="the gap is that to the exact radius, not to the executed one",
        kills=(f"{_IN_UNIT}test_the_unit_family_reaches_the_exact_vectors",),
    ),
    Mutant(
        name="supervised-attraction",
        file=_SUPERVISED,
        old="return above(normaliser + attraction, self._roundings)",
        new="return above(normaliser, self._roundings)",
        why="the ratios of the attraction are off as well",
        kills=(f"{_IN_SUPERVISED}test_the_attraction_is_a_product_of_two_ratios_that_are_off",),
    ),
    Mutant(
        name="supervised-attraction-first-order",
        file=_SUPERVISED,
        old="self.ratio_at_length.abs() * a_k + (self.ratio_at_target.abs() + a_k) * a_a\n",
        new="self.ratio_at_length.abs() * a_k + self.ratio_at_target.abs() * a_a\n",
        why="both ratios may be off at once",
        kills=(f"{_IN_SUPERVISED}test_the_attraction_is_a_product_of_two_ratios_that_are_off",),
    ),
    Mutant(
        name="supervised-slack",
        file=_SUPERVISED,
        old="torch.logaddexp(torch.zeros_like(log_size), log_size) * (1 + self.slacks)",
        new="torch.logaddexp(torch.zeros_like(log_size), log_size)",
        why="every sample's probabilities are known to a factor only",
        kills=(f"{_IN_SUPERVISED}test_probabilities_that_are_known_to_a_factor",),
    ),
    Mutant(
        name="distances-shares",
        file=_DISTANCES,
        old="grown = torch.exp(2 * error)",
        new="grown = torch.ones_like(error)",
        why="the exact shares of the others may be larger than the computed ones",
        argued="to grow is more than enough: a share times the mass of the others is a probability, "
        "and how much larger that may be is counted with the mass below",
    ),
    # families and their inverse
    Mutant(
        name="family-beside-of-rows",
        file=_FAMILY,
        old="beside = None if self.beside is None else self.beside[rows]",
        new="beside = None",
        why="rows that are picked out of a family would be judged without rounding",
        kills=(f"{_IN_FAMILY}test_rows_of_a_family",),
    ),
    Mutant(
        name="family-at-without-beside",
        file=_FAMILY,
        old="grown if self.beside is None else grown.plus(self.beside)",
        new="grown",
        why="what stands beside a family is there at every b",
        kills=(f"{_IN_FAMILY}test_what_stands_beside_is_there_at_every_b",),
    ),
    Mutant(
        name="family-series-beside",
        file=_FAMILY,
        old="return None if series is None or self.beside is not None else series(self.head, self.unit)",
        new="return None if series is None else series(self.head, self.unit)",
        why="series know nothing of what stands beside",
        kills=(f"{_IN_FAMILY}test_what_stands_beside_is_there_at_every_b",),
    ),
    Mutant(
        name="family-reach",
        file=_FAMILY,
        old="reach = (2000 - 4 * torch.where(log_pi > -torch.inf, log_pi, 0.0).amin(dim=1)) / positive",
        new="reach = 2 / positive",
        why="a row that is accepted where exponentials still grow is not accepted for ever",
        kills=(f"{_IN_FAMILY}test_past_its_reach_nothing_but_the_ratio_term_grows",),
    ),
    Mutant(
        name="family-tail",
        file=_FAMILY,
        old="return log_ratio_term(self.head, self.unit.a) + torch.log(self.head.gradient_scale)",
        new="return log_ratio_term(self.head, 2 * self.unit.a) + torch.log(self.head.gradient_scale)",
        why="a slope that the gradient's bound does not have would call a row unbounded",
        kills=(f"{_IN_FAMILY}test_past_its_reach_nothing_but_the_ratio_term_grows",),
    ),
    Mutant(
        name="invert-cap-without-tail",
        file=_INVERT,
        old="cap = torch.maximum(cap, torch.where(tail <= _LARGEST, tail, 0.0))",
        new="cap = torch.maximum(cap, 0 * tail)",
        why="a gradient budget that only the ratio term reaches would be called out of reach",
        kills=("tests/tolerances/test_invert.py::test_a_gradient_budget_that_only_the_ratio_term_reaches",),
    ),
    Mutant(
        name="invert-cap-short",
        file=_INVERT,
        old="- family.log_tail())",
        new="- family.log_tail() - 4)",
        why="the ratio term is over the budget at budget over slope, and not before",
        kills=("tests/tolerances/test_invert.py::test_a_gradient_budget_that_only_the_ratio_term_reaches",),
    ),
    Mutant(
        name="invert-budgets-of-the-rest",
        file=_INVERT,
        old="each = {name: limit[rows] for name, limit in limits.items()}",
        new="each = {name: limit[: len(rows)] for name, limit in limits.items()}",
        why="rows that the series leave open would be judged by the budgets of the first ones",
        kills=("tests/tolerances/test_invert.py::test_what_the_series_leave_open_has_its_own_budgets",),
    ),
    Mutant(
        name="with-one-not-accepted",
        file=_INVERT,
        old="torch.where(at.accepted, inverse.accepted.clamp_min(1), inverse.accepted.clamp_max(below))",
        new="torch.where(at.accepted, inverse.accepted.clamp_min(1), inverse.accepted)",
        why="a headroom of 1 where the verdict is inconclusive",
        kills=("tests/tolerances/test_invert.py::test_what_was_found_at_one_has_the_last_word",),
    ),
    Mutant(
        name="with-one-of-the-rest",
        file=_TOLERANCE,
        old="with_one(inverse, at_one, budgets), some)",
        new="with_one(inverse, at_one, left), some)",
        why="bounds with what comes after the scores are held against all of a budget",
        kills=_ITSELF,
    ),
    Mutant(
        name="tolerance-of-all-of-a-budget",
        file=_TOLERANCE,
        old="inverse = _nowhere_else(_inverse(realized, family, left), some)",
        new="inverse = _nowhere_else(_inverse(realized, family, budgets), some)",
        why="what comes after the scores has its share of a budget",
        kills=_USED_UP,
    ),
    Mutant(
        name="headroom-of-all-of-a-budget",
        file=_TOLERANCE,
        old="        inverse = invert(family, left)\n",
        new="        inverse = invert(family, budgets)\n",
        why="what comes after the scores has its share of a budget",
        kills=_USED_UP,
    ),
    Mutant(
        name="nowhere-else-accepted",
        file=_TOLERANCE,
        old="accepted=torch.where(some, inverse.accepted, 0.0),",
        new="accepted=inverse.accepted,",
        why="where nothing is left of a budget no b is accepted",
        kills=(*_USED_UP, *_LEFT),
    ),
    Mutant(
        name="nowhere-else-rejected",
        file=_TOLERANCE,
        old="rejected=torch.where(some, inverse.rejected, 0.0),",
        new="rejected=inverse.rejected,",
        why="a b of zero would be called bounded, or even unbounded",
        kills=(*_USED_UP, *_LEFT),
    ),
    Mutant(
        name="tolerance-budgets-of-chunks",
        file=_TOLERANCE,
        old="budgets[start : start + len(part)]",
        new="budgets[: len(part)]",
        why="every chunk would be judged by the first chunk's budgets",
        kills=_CHUNKS,
    ),
    # verdicts
    Mutant(
        name="certify-by-one-budget",
        file=_CERTIFY,
        old="certified = accepts(shares).numpy(force=True)",
        new="certified = (torch.stack(list(shares.values())).amin(dim=0) <= 1).numpy(force=True)",
        why="every budget has to be met, and the margin strictly",
        kills=_AGREE,
    ),
    Mutant(
        name="certify-headroom-alone",
        file=_CERTIFY,
        old="headroom=headroom(realized, budgets, contract, at_one=bounds)",
        new="headroom=headroom(realized, budgets, contract)",
        why="verdict and headroom then disagree within the width of the bracket",
        kills=_ITSELF,
    ),
    Mutant(
        name="certify-budgets-of-chunks",
        file=_CERTIFY,
        old="budgets[start : start + len(part)]",
        new="budgets[: len(part)]",
        why="every chunk would be judged by the first chunk's budgets",
        kills=_CHUNKS,
    ),
    Mutant(
        name="cascade-budgets-of-chunks",
        file=_CASCADE,
        old="budgets[start : start + len(part)]",
        new="budgets[: len(part)]",
        why="every chunk would be judged by the first chunk's budgets",
        kills=_CHUNKS,
    ),
    Mutant(
        name="cascade-budgets-of-rows",
        file=_CASCADE,
        old="accepted = accepts(budgets[rows].shares(",
        new="accepted = accepts(budgets[: len(rows)].shares(",
        why="states that are still open would be judged by the budgets of the first ones",
        kills=_OWN_TIER,
    ),
    Mutant(
        name="cascade-other-rows",
        file=_CASCADE,
        old="            some = realized[rows]\n",
        new="            some = realized[torch.arange(len(rows), device=like.device)]\n",
        why="states that are still open would have the bounds of the first ones",
        kills=_OWN_TIER,
    ),
    Mutant(
        name="cascade-settled-by-being-tried",
        file=_CASCADE,
        old="tier[rows[accepted].numpy(force=True)] = step.name",
        new="tier[rows.numpy(force=True)] = step.name",
        why="a tier would settle what it was tried on",
        kills=_OWN_TIER,
    ),
    Mutant(
        name="cascade-last-of-the-bounds",
        file=_CASCADE,
        old="minima[key][rows] = torch.minimum(minima[key][rows], getattr(bounds, key))",
        new="minima[key][rows] = getattr(bounds, key)",
        why="a later tier that is looser would undo what an earlier one has proved",
        kills=("tests/certificates/test_cascade.py::test_a_later_tier_is_never_looser",),
    ),
    Mutant(
        name="climb-budgets-of-chunks",
        file=_CLIMB,
        old="limits = budgets[start : start + len(part)]\n        rows",
        new="limits = budgets[: len(part)]\n        rows",
        why="every chunk would be judged by the first chunk's budgets",
        kills=("tests/certificates/test_climb.py::test_each_state_is_judged_by_its_own_budget",),
    ),
    # an audit's orders, and what a contract says of others
    Mutant(
        name="audit-implied-by-no-one",
        file="audits/orders.py",
        old="below = chosen is CONDITIONED or CONDITIONED.name in chosen.never_above",
        new="below = True",
        why="a contract that is not implied by the conditioned one would certify what that one does",
        kills=_ORDERS,
    ),
    Mutant(
        name="audit-rows-of-other-states",
        file="audits/orders.py",
        old="picked(realized, rows, pair).asked",
        new="picked(realized, torch.arange(len(rows)), pair).asked",
        why="an order would be certified at one state for the sake of another",
        kills=_ORDERS,
    ),
    Mutant(
        name="audit-other-order",
        file="audits/orders.py",
        old="all_rooms[made.rows(order)] for order in orders",
        new="all_rooms[made.rows(plan.order)] for order in orders",
        why="every order would be certified by the plan's",
        kills=_ORDERS,
    ),
    Mutant(
        name="geometry-never-above",
        file="contracts/geometry.py",
        old="    bounds=geometry_bounds,\n",
        new='    bounds=geometry_bounds,\n    never_above=frozenset({"conditioned"}),\n',
        why="the geometry-only contract is looser than the conditioned one",
        kills=(f"{_NAMED}test_a_contract_is_never_above_those_that_it_names",),
    ),
    Mutant(
        name="conditioned-never-above",
        file="contracts/conditioned.py",
        old='never_above=frozenset({"geometry"})',
        new='never_above=frozenset({"geometry", "centered"})',
        why="the conditioned contract is looser than the centred one",
        kills=(f"{_NAMED}test_a_contract_is_never_above_those_that_it_names",),
    ),
    Mutant(
        name="conditioned-above-geometry",
        file="contracts/conditioned.py",
        old="probability=torch.minimum(base.probability, head.outward(log_tv.exp(), allowances)),",
        new="probability=head.outward(log_tv.exp(), allowances),",
        why="what the geometry-only contract certifies would be left open, though it is said to be implied",
        kills=(f"{_NAMED}test_a_contract_is_never_above_those_that_it_names",),
    ),
    Mutant(
        name="centered-above-conditioned",
        file="contracts/centered.py",
        old="    probability, gradient = paper.probability, paper.gradient\n",
        new="    probability = gradient = torch.full_like(paper.gradient, torch.inf)\n",
        why="an audit takes what the conditioned contract certifies for certified by this one",
        kills=(f"{_NAMED}test_a_contract_is_never_above_those_that_it_names",),
    ),
    Mutant(
        name="registry-names-twice",
        file="contracts/registry.py",
        old="if _CONTRACTS.setdefault(contract.name, contract) is not contract:",
        new="_CONTRACTS[contract.name] = contract\n    if not contract.name:",
        why="a name would mean another contract than the one that was checked",
        kills=(f"{_NAMED}test_a_name_is_never_taken_twice",),
    ),
)
