"""Mutants of adaptive evaluation (certificates/adaptive.py, climb.py): certified before judged, rows mixed up."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_CLIMB = "certificates/climb.py"
_ADAPTIVE = "certificates/adaptive.py"
_STEP = ("tests/certificates/test_climb.py::test_a_step_is_certified_where_its_own_bounds_keep_the_budgets",)
_CHUNKS = ("tests/certificates/test_climb.py::test_chunks_change_nothing",)

MUTANTS = (
    Mutant(
        name="rungs-certified-before-judged",
        file=_CLIMB,
        old="run=run, rung=rung, executed=executed, bounds=bounds, certified=met)",
        new="run=run, rung=rung, executed=executed, bounds=bounds, certified=torch.ones_like(met))",
        why="a rung would be certified because it was tried",
        kills=_STEP,
    ),
    Mutant(
        name="rungs-contract-before-judged",
        file=_CLIMB,
        old="executed=executed, bounds=found, certified=met)",
        new="executed=executed, bounds=found, certified=torch.ones_like(met))",
        why="a rung would be certified because it was tried",
        kills=_STEP,
    ),
    Mutant(
        name="rungs-judged-by-a-part",
        file=_CLIMB,
        old="            if not bool(met.all()):\n                bounds = summed",
        new="            if not bool(met.any()):\n                bounds = summed",
        why="nothing unsound, but states that need their own sums would climb in vain",
        kills=("tests/certificates/test_climb.py::test_sums_are_looked_at_where_one_state_needs_them",),
    ),
    Mutant(
        name="rungs-sums-judge-predictions",
        file=_CLIMB,
        old="beyond = budgets.prediction or budgets.kl is not None",
        new="beyond = budgets.kl is not None",
        why="sums know nothing of margins; their use of it is infinite, so that nothing is certified by them",
        argued="its use would be infinite, and certify nothing",
    ),
    Mutant(
        name="rungs-names-of-all",
        file=_CLIMB,
        old="names[landing.rows[landing.certified].numpy(force=True)] = landing.rung.name",
        new="names[landing.rows.numpy(force=True)] = landing.rung.name",
        why="the cheapest certified rung would be the last one tried",
        kills=("tests/certificates/test_climb.py::test_what_no_rung_settles_has_no_name",),
    ),
    Mutant(
        name="rungs-rows-of-chunks",
        file=_CLIMB,
        old="yield Landing(rows=start + rows, rung=rung,",
        new="yield Landing(rows=rows, rung=rung,",
        why="the second chunk's bounds would be given to the first chunk's states",
        kills=_CHUNKS,
    ),
    Mutant(
        name="rungs-budgets-of-chunks",
        file=_CLIMB,
        old="limits = budgets[start : start + len(part)]\n        hopeless",
        new="limits = budgets[: len(part)]\n        hopeless",
        why="every chunk would be judged by the first chunk's budgets",
        kills=("tests/certificates/test_climb.py::test_each_state_is_judged_by_its_own_budget",),
    ),
    Mutant(
        name="adaptive-all-certified",
        file=_ADAPTIVE,
        old="(certified, step.certified),",
        new="(certified, torch.ones_like(step.certified)),",
        why="certified would mean evaluated",
        kills=("tests/certificates/test_climb.py::test_what_no_rung_settles_has_no_name",),
    ),
    Mutant(
        name="adaptive-bounds-not-taken",
        file=_ADAPTIVE,
        old="            (loss_bound, bounds.loss),\n",
        new="            (loss_bound, 0 * bounds.loss),\n",
        why="a bound of zero",
        kills=("tests/certificates/test_adaptive.py::test_what_is_returned_is_within_its_bound",),
    ),
    Mutant(
        name="adaptive-settled-again",
        file=_ADAPTIVE,
        old="climb(plain, budgets, contract_named(contract), model, ~certified)",
        new="climb(plain, budgets, contract_named(contract), model, certified)",
        why="states that the sums leave open would stay open, and settled ones lose their verdict",
        kills=("tests/certificates/test_climb.py::test_what_the_sums_leave_open_is_for_the_contract",),
    ),
)
