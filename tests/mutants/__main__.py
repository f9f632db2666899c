"""`python -m tests.mutants`: change the source in every way of the list, and see the tests notice."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from fnmatch import fnmatch

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.runner import Outcome, baseline, judge

# of all that are not argued
_LEAST_KILLED = 0.95
_COLOURS = {"killed": "green", "argued": "cyan"}


def main() -> int:
    """0 if every mutant is killed or argued."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="GLOB", default="*", help="mutants whose name matches")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one mutant")
    options = parser.parse_args()
    console = Console()
    chosen = [mutant for mutant in MUTANTS if fnmatch(mutant.name, options.only)]
    if not chosen:
        console.print(f"Expected a mutant that matches {options.only!r}, but there is none", style="red")
        return 2
    if options.list:
        console.print(_table("file", ((mutant.name, mutant.file, mutant.why) for mutant in chosen)))
        return 0
    began = time.perf_counter()
    with ThreadPoolExecutor(options.workers) as pool:
        wrong = _unmutated(chosen, pool, options.workers, options.timeout, console)
        if wrong:
            console.print(f"The tests do not pass on the unchanged source:\n{wrong}", style="red", markup=False)
            return 1
        outcomes = _judged(chosen, pool, options.timeout, console)
    return _report(outcomes, time.perf_counter() - began, console)


def _unmutated(chosen: list[Mutant], pool: ThreadPoolExecutor, workers: int, timeout: float, console: Console) -> str:
    """What is wrong before anything is changed: every test once, those of a file together."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted({test for mutant in chosen for test in mutant.kills}):
        by_file[test.split("::")[0]].append(test)
    groups: list[list[str]] = [[] for _ in range(workers)]
    for tests in sorted(by_file.values(), key=len, reverse=True):
        min(groups, key=len).extend(tests)
    with console.status("the tests on the unchanged source"):
        found = pool.map(lambda tests: baseline(tests, 10 * timeout), filter(None, groups))
        return "\n".join(filter(None, found))


def _judged(chosen: list[Mutant], pool: ThreadPoolExecutor, timeout: float, console: Console) -> list[Outcome]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    outcomes = {}
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("mutants", total=len(chosen))
        for future in as_completed([pool.submit(judge, mutant, timeout) for mutant in chosen]):
            outcome = future.result()
            outcomes[outcome.name] = outcome
            progress.update(task, advance=1, description=f"mutants, last {outcome.name}: {outcome.verdict}")
    return [outcomes[mutant.name] for mutant in chosen]


def _report(outcomes: list[Outcome], seconds: float, console: Console) -> int:
    rows = ((each.name, f"[{_COLOURS.get(each.verdict, 'red')}]{each.verdict}", each.detail) for each in outcomes)
    console.print(_table("verdict", rows))
    counts = Counter(each.verdict for each in outcomes)
    judged = len(outcomes) - counts["argued"]
    share = counts["killed"] / judged if judged else 1.0
    console.print(f"{dict(counts)}: {share:.1%} of {judged} killed, in {seconds:.0f} s")
    path = ROOT / "build" / "mutants.json"
    path.parent.mkdir(exist_ok=True)
    record = {"seconds": seconds, "counts": counts, "mutants": [asdict(each) for each in outcomes]}
    path.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if share >= _LEAST_KILLED and all(each.fine for each in outcomes) else 1


def _table(second: str, rows: object) -> Table:
    table = Table("mutant", second, "why, or by which test")
    for row in rows:  # type: ignore[attr-defined]
        table.add_row(*row)
    return table


if __name__ == "__main__":
    sys.exit(main())
