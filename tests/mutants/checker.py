"""Mutants of the independent check of audits (verify/): each would make it miss something false."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_CHECK = "verify/check.py"
_COLUMNS = "verify/columns.py"
_CROSS = "verify/cross.py"
_DIGESTS = "verify/digests.py"
_EXECUTION = "verify/execution.py"
_JUDGING = "verify/judging.py"
_ROWS = "verify/rows.py"
_SUMMARY = "verify/summary.py"
_TAMPERED = "tests/verify/test_tampering.py::"
_ROW = f"{_TAMPERED}test_a_changed_row_is_named"
_PLACE = f"{_TAMPERED}test_rows_out_of_place_are_named"
_EXECUTED = f"{_TAMPERED}test_a_changed_row_of_executed_numbers_is_named"
_MISSES = "tests/verify/test_misses.py::"
_CODES = "tests/verify/test_malformed.py::test_one_line_and_an_exit_code"

MUTANTS = (
    # files
    Mutant(
        name="checker-digests-of-results",
        file=_DIGESTS,
        old="            compare(name, digest, path)\n",
        new="            pass\n",
        why="a result file that was altered would be read as the one that was written",
        kills=(f"{_ROW}[status unbounded]",),
    ),
    Mutant(
        name="checker-digests-unlisted",
        file=_DIGESTS,
        old="        if name not in listed:\n",
        new="        if name not in there:\n",
        why="a file without a digest would pass for one of the audit",
        kills=(f"{_CODES}[stale-a result file too many]",),
    ),
    Mutant(
        name="checker-digests-of-collection",
        file=_DIGESTS,
        old='            compare(name, entry["sha256"], path)\n',
        new="            pass\n",
        why="states that were altered would be taken for those that were audited",
        kills=(f"{_TAMPERED}test_another_byte_of_manifest_or_bank_is_found[bank]",),
    ),
    Mutant(
        name="checker-digest-of-manifest",
        file=_DIGESTS,
        old='    compare(MANIFEST, record.get("manifest"), path)\n',
        new="",
        why="a manifest that says other things of the same files would pass",
        kills=(f"{_TAMPERED}test_another_byte_of_manifest_or_bank_is_found[manifest.json]",),
    ),
    Mutant(
        name="checker-collection-of-header",
        file=_DIGESTS,
        old='(record.get("collection"), header.collection)',
        new='(record.get("collection"),)',
        why="an audit that names another collection would be about this one",
        kills=(f"{_MISSES}test_an_audit_of_another_collection[False]",),
    ),
    Mutant(
        name="checker-fingerprint",
        file="verify/plan.py",
        old='    if found != record["fingerprint"]:\n',
        new='    if not record["fingerprint"]:\n',
        why="a plan that was changed afterwards would have the fingerprint of the old one",
        kills=(f"{_TAMPERED}test_a_plan_without_its_fingerprint_is_altered",),
    ),
    Mutant(
        name="checker-files-too-many",
        file=_CHECK,
        old='            if f"results/{path.name}" not in names:\n',
        new="            if not names:\n",
        why="rows of no state would lie among the results",
        kills=(f"{_MISSES}test_a_row_in_a_file_too_many_is_found",),
    ),
    Mutant(
        name="checker-files-missing",
        file=_CHECK,
        old='            self._note(wanted.name, "row", "no file", f"{len(wanted)} rows", "missing")\n',
        new="",
        why="a whole file of states could be left out",
        kills=(f"{_PLACE}[a whole file]",),
    ),
    Mutant(
        name="checker-exit-code",
        file="verify/report.py",
        old="        if any(finding.unreadable for finding in self.findings):\n",
        new="        if all(finding.unreadable for finding in self.findings):\n",
        why="a file that cannot be read would count as a false statement, and an audit without findings as unreadable",
        kills=(f"{_CODES}[sealed-a result file cut off]", f"{_MISSES}test_the_code_of_nothing_wrong_is_zero"),
    ),
    # rows
    Mutant(
        name="checker-rows-order",
        file=_ROWS,
        old="        if order[key] < latest:\n",
        new="        if order[key] < 0:\n",
        why="rows in another order than the collection's would pass",
        kills=(f"{_PLACE}[swapped]",),
    ),
    Mutant(
        name="checker-rows-missing",
        file=_ROWS,
        old="        if not seen[key]:\n",
        new="        if seen[key] < 0:\n",
        why="states could be left out",
        kills=(f"{_PLACE}[last one dropped]",),
    ),
    Mutant(
        name="checker-rows-doubled",
        file=_ROWS,
        old='            tally.findings.append(noted(found="the same row again", words="doubled"))\n',
        new="",
        why="a state could be there twice, with two verdicts",
        kills=(f"{_PLACE}[doubled]",),
    ),
    Mutant(
        name="checker-rows-described",
        file=_ROWS,
        old="        for i in (said[column] != truth).nonzero()[0]:\n",
        new="        for i in (said[column] != said[column]).nonzero()[0]:\n",
        why="a row could be about another label or temperature",
        kills=(f"{_ROW}[label]",),
    ),
    Mutant(
        name="checker-rows-set-aside",
        file=_CHECK,
        old="sorted(said ^ right, key=str)",
        new="sorted(right - said, key=str)",
        why="a state could be listed as no state",
        kills=(f"{_MISSES}test_rows_set_aside_that_are_states_and_the_reverse[one too many]",),
    ),
    # which rows are recomputed, and how
    Mutant(
        name="checker-sample-skipped",
        file=_CHECK,
        old="        exactly = picked[rows.index]\n",
        new="        exactly = np.zeros(len(rows), dtype=bool)\n",
        why="nothing would be recomputed in Arb",
        kills=(f"{_ROW}[b_first_order]",),
    ),
    Mutant(
        name="checker-sample-foreseen",
        file=_CHECK,
        old="set(random.Random(seed).sample(range(total), min(sample, total)))",
        new="set(range(min(sample, total)))",
        why="the rows that are recomputed would be the first ones, whatever the seed",
        kills=(f"{_MISSES}test_rows_are_drawn_from_all_files_by_the_seed",),
    ),
    Mutant(
        name="checker-sample-of-each-file",
        file=_CHECK,
        old="[done + i in chosen for i in range(len(wanted))]",
        new="[i in chosen for i in range(len(wanted))]",
        why="of later files the same places would be recomputed as of the first, and no others",
        kills=(f"{_MISSES}test_rows_are_drawn_from_all_files_by_the_seed",),
    ),
    Mutant(
        name="checker-open-rows",
        file=_CHECK,
        old="        more = verdict.open | exactly\n",
        new="        more = exactly.copy()\n",
        why="what float64 cannot decide would count as right",
        kills=(f"{_ROW}[b_conditioned times 0.99]",),
    ),
    Mutant(
        name="checker-beyond-confirmed",
        file=_CHECK,
        old="        self._judged(rows, some, kept)\n",
        new="",
        why="rows that float64 finds wrong would be named only as far as Arb confirms them",
        kills=(f"{_MISSES}test_what_float64_finds_is_named_where_arb_does_not_confirm_it",),
    ),
    # columns against each other
    Mutant(
        name="checker-verdict",
        file=_CROSS,
        old='(said["verdict"] != right) & (clear | ~met)',
        new='(said["verdict"] != right) & clear & met',
        why="certified would not be held against bounds and budgets",
        kills=(f"{_MISSES}test_a_verdict_that_its_bounds_do_not_give",),
    ),
    Mutant(
        name="checker-tolerance-width",
        file=_CROSS,
        old="close = (b < upper) & (upper <= b * (1 + 1.01e-9))",
        new="close = b < upper",
        why="b_upper could be any number that is rejected, and the interval as wide as one likes",
        kills=(f"{_ROW}[b_upper times 1.01]",),
    ),
    Mutant(
        name="checker-status",
        file=_CROSS,
        old='yield _plain("status", status != right,',
        new='yield _plain("status", ~np.isin(status.astype(str), ("bounded", "zero", "unbounded")),',
        why="a bounded row could be called unbounded",
        kills=(f"{_ROW}[status unbounded]",),
    ),
    Mutant(
        name="checker-cheapest-order",
        file=_CROSS,
        old='said["cheapest_order"] != cheapest',
        new='said["cheapest_order"] > 6',
        why="the cheapest order could be one that is not certified",
        kills=(f"{_ROW}[cheapest order]",),
    ),
    # columns against the contract
    Mutant(
        name="checker-bound-of-true-error",
        file=_COLUMNS,
        old="wrong = (~(value >= at.low * (1 - slack)) & ~enclosed) | ~(value <= at.wide * (1 + _ABOVE))",
        new="wrong = ~(value <= at.wide * (1 + _ABOVE))",
        why="a bound below its contract would pass where it is above the true error: luck, and not proof",
        kills=(f"{_ROW}[loss bound times 0.99999999]", f"{_ROW}[probability bound times 0.5]"),
    ),
    Mutant(
        name="checker-bound-from-above",
        file=_COLUMNS,
        old="wrong = (~(value >= at.low * (1 - slack)) & ~enclosed) | ~(value <= at.wide * (1 + _ABOVE))",
        new="wrong = ~(value >= at.low * (1 - slack)) & ~enclosed",
        why="any larger number would pass for the contract's bound",
        kills=(f"{_ROW}[gradient bound times 1.00001]",),
    ),
    Mutant(
        name="checker-b-accepted",
        file=_COLUMNS,
        old="wrong = (~below.acceptable & ~zero & ~unknown) | ~numbers",
        new="wrong = ~numbers",
        why="b could be an allowance that breaks a budget",
        kills=(f"{_ROW}[b and b_upper times 1 + 1e-8]",),
    ),
    Mutant(
        name="checker-b-upper-rejected",
        file=_COLUMNS,
        old="wrong = (~above.rejected(e.slack) & ~endless & ~above.unknown) | ~numbers",
        new="wrong = ~numbers",
        why="b_upper could be an allowance that keeps every budget",
        kills=(f"{_ROW}[b and b_upper times 1 - 1e-8]",),
    ),
    Mutant(
        name="checker-any-budget",
        file="verify/enclosures.py",
        old="np.all([_met(name, e.low) for name, e in self.shares.items()], axis=0)",
        new="np.any([_met(name, e.low) for name, e in self.shares.items()], axis=0)",
        why="one budget that is met would do for all",
        kills=(f"{_ROW}[b and b_upper times 1 + 1e-8]",),
    ),
    Mutant(
        name="checker-headroom-from-below",
        file=_COLUMNS,
        old="        wrong |= ~above.rejected(e.slack) & ~endless\n",
        new="",
        why="a headroom that is too small would pass for the largest",
        kills=(f"{_ROW}[headroom_4 times 0.9999]",),
    ),
    Mutant(
        name="checker-headroom-from-above",
        file=_COLUMNS,
        old="    wrong, maybe = ~below.acceptable & ~zero, ~below.accepted & ~zero\n    if not ease:",
        new="    wrong, maybe = zero & ~zero, ~below.accepted & ~zero\n    if not ease:",
        why="a headroom that breaks a budget would pass",
        kills=(f"{_ROW}[headroom_2 times 1.0001]",),
    ),
    Mutant(
        name="checker-prediction",
        file=_COLUMNS,
        old="wrong = np.where(value, use.low >= 1, use.wide * (1 + slack) < 1)",
        new="wrong = np.where(value, use.low < 0, use.wide * (1 + slack) < 1)",
        why="a prediction would be certified without a margin, if only it is right",
        kills=(f"{_MISSES}test_a_prediction_that_is_not_certified",),
    ),
    Mutant(
        name="checker-tier-accepts",
        file=_COLUMNS,
        old="clear = shares[word].acceptable[i] and all(",
        new="clear = all(",
        why="a tier could be named that does not certify",
        kills=(f"{_ROW}[tier made geometry]",),
    ),
    Mutant(
        name="checker-tier-first",
        file=_COLUMNS,
        old="clear = shares[word].acceptable[i] and all(shares[name].rejected(e.slack)[i] for name in before)",
        new="clear = shares[word].acceptable[i]",
        why="a later tier than the first that certifies could be named",
        kills=(f"{_MISSES}test_a_tier_that_is_not_the_first[centered]",),
    ),
    Mutant(
        name="checker-orders-certified",
        file=_COLUMNS,
        old="wrong = np.where(value, ~at.acceptable, ~at.rejected(e.slack)) & ~at.unknown",
        new="wrong = ~value & ~at.rejected(e.slack) & ~at.unknown",
        why="an order could be called certified that breaks a budget",
        kills=(f"{_MISSES}test_an_order_that_is_called_certified_beside_a_prediction",),
    ),
    Mutant(
        name="checker-orders-true-errors",
        file=_COLUMNS,
        old="wrong = np.where(more, ~true.acceptable & ~true.unknown & ~at.accepted, wrong)",
        new="wrong = np.where(more, ~true.acceptable & true.unknown, wrong)",
        why="an order could be called certified whose true errors break a budget",
        kills=(f"{_ROW}[certified_1]",),
    ),
    Mutant(
        name="checker-orders-open",
        file=_COLUMNS,
        old="wrong = np.where(value, ~at.acceptable, ~at.rejected(e.slack)) & ~at.unknown",
        new="wrong = value & ~at.acceptable & ~at.unknown",
        why="an order that keeps every budget could be called open",
        kills=(f"{_MISSES}test_an_order_that_only_the_centered_contract_certifies",),
    ),
    Mutant(
        name="checker-first-order",
        file=_COLUMNS,
        old='yield _near("b_first_order", said["b_first_order"], low * (1 - 1e-9), high * (1 + 1e-9))',
        new='yield _near("b_first_order", said["b_first_order"], low * 0.5, high * 2)',
        why="the paper's first order could be another number of about that size",
        kills=(f"{_ROW}[b_first_order]",),
    ),
    # the summary
    Mutant(
        name="checker-summary-counts",
        file=_SUMMARY,
        old="        elif said != found or isinstance(said, bool) != isinstance(found, bool):\n",
        new="        elif type(said) is not type(found):\n",
        why="the summary could count other verdicts than the rows have",
        kills=(f"{_TAMPERED}test_another_summary_is_found[certified]",),
    ),
    Mutant(
        name="checker-summary-header",
        file=_SUMMARY,
        old="        if record.get(key) != value:\n",
        new="        if key not in record:\n",
        why="the summary could be of another question",
        kills=(f"{_MISSES}test_a_summary_of_another_question[plan]",),
    ),
    # executed numbers
    Mutant(
        name="checker-executed-against-exact",
        file=_JUDGING,
        old="wrong = (low > bound) | (np.isnan(low) & ~np.isinf(bound))",
        new="wrong = np.isnan(low) & ~np.isinf(bound)",
        why="an executed loss or gradient could be further from the exact one than its bound",
        kills=(f"{_EXECUTED}[another loss]",),
    ),
    Mutant(
        name="checker-executed-numbers",
        file=_JUDGING,
        old="wrong = (low > bound) | (np.isnan(low) & ~np.isinf(bound))",
        new="wrong = low > bound",
        why="a gradient that is no number would be within its bound",
        kills=(f"{_MISSES}test_a_gradient_that_is_no_number",),
    ),
    Mutant(
        name="checker-executed-bounds",
        file=_EXECUTION,
        old="    wrong = ~(value >= at.low * (1 - ease)) & ~unknown\n",
        new="    wrong = ~(value >= 0) & ~unknown\n",
        why="a bound on executed numbers could be less than the formula alone needs",
        kills=(f"{_EXECUTED}[a smaller loss bound]",),
    ),
)
