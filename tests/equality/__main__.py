"""Prove that a change of the source moves no number that its public interface returns.

    python -m tests.equality --before COMMIT [--sample N] [--all]

makes a worktree of COMMIT in a temporary directory, computes the columns of `tests/equality/columns.py` there and with
the present tree, each in a process of its own on one thread, and prints one line a column: how many states, how many
of them are equal to the last bit, how many differ, the largest relative difference, and whether every difference is
outward (a bound larger, b* or headroom smaller). Columns without any difference are counted only, unless `--all`.

The states are 2,000 adversarial ones and all built-in ones, or N of these. Both sides are computed by the same copy of
this package. Exit code 0: nothing differs but outward. 1: something does, or a verdict, tier, rung, status or other
word differs. `python -m tests.equality --fixture` makes `before.npz` anew from the present tree.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).parents[2]
FIXTURE = Path(__file__).with_name("before.npz")
_COPIED = ("__init__.py", "equality", "attacks/__init__.py", "attacks/extremes.py")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality", description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="COMMIT", help="the version to compare with")
    parser.add_argument("--sample", type=int, metavar="N", help="so many built-in states, evenly spaced, and not all")
    parser.add_argument("--all", action="store_true", help="print the columns without differences as well")
    parser.add_argument("--fixture", action="store_true", help="make before.npz from the present tree")
    parser.add_argument("--columns", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.columns:
        return _child(given.columns, given.sample)
    if given.fixture:
        return _fixture()
    if not given.before:
        parser.error("one of --before and --fixture is needed")
    return _compare(given.before, given.sample, given.all)


def _child(out: Path, sample: int | None) -> int:
    """Compute with the suffice that is first on the path, and say after each task how far it is."""
    import suffice as sf
    from tests.equality.work import all_tasks, compute, save

    expected = os.environ["EQUALITY_SOURCE"]
    if not Path(sf.__file__).is_relative_to(expected):
        sys.stderr.write(f"Expected suffice from {expected}, but got {sf.__file__}\n")
        return 2
    todo = all_tasks(sample)
    sys.stdout.write(f"{len(todo)}\n")

    def done() -> None:
        sys.stdout.write("done\n")
        sys.stdout.flush()

    save(out, compute(todo, done))
    return 0


def _run(name: str, source: Path, package: Path, out: Path, sample: int | None, progress: Progress) -> None:
    command = [sys.executable, "-m", "tests.equality", "--columns", str(out)]
    if sample is not None:
        command += ["--sample", str(sample)]
    environment = os.environ | {
        "PYTHONPATH": f"{source}{os.pathsep}{package}",
        "EQUALITY_SOURCE": str(source),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    task = progress.add_task(name, total=None)
    process = subprocess.Popen(command, cwd=package, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "done":
            progress.advance(task)
        else:
            progress.update(task, total=int(line))
    if process.wait():
        raise SystemExit(f"The columns {name} could not be computed: exit code {process.returncode}")


def _compare(commit: str, sample: int | None, every: bool) -> int:
    from tests.equality.compare import compare
    from tests.equality.work import load

    console = Console(width=None if sys.stdout.isatty() else 140)
    began = time.monotonic()
    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory() as folder:
        tree, package = Path(folder) / "before", Path(folder) / "package"
        for name in _COPIED:
            start, end = ROOT / "tests" / name, package / "tests" / name
            end.parent.mkdir(parents=True, exist_ok=True)
            if start.is_dir():
                shutil.copytree(start, end, ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
            else:
                shutil.copy(start, end)
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            files = {"before": Path(folder) / "before.npz", "now": Path(folder) / "now.npz"}
            with Progress(*shown, console=console) as progress:
                _run("before", tree / "src", package, files["before"], sample, progress)
                _run("now", ROOT / "src", package, files["now"], sample, progress)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        before, now = load(files["before"])[0], load(files["now"])[0]
    table = Table("column", "states", "equal", "differ", "largest", "outward")
    wrong = compared = differing = 0
    for part in dict.fromkeys([*before.columns, *now.columns]):
        for each in compare(before.columns.get(part, {}), now.columns.get(part, {}), part):
            compared, differing, wrong = compared + 1, differing + bool(each.differing), wrong + (not each.fine)
            if each.differing or every:
                largest = f"{each.largest:.2g}" if each.largest == each.largest else ""
                outward = (
                    ""
                    if not each.differing
                    else "yes"
                    if each.outward
                    else "explained"
                    if each.fine
                    else "[red]no[/red]"
                )
                counts = [f"{count:,}" for count in (each.states, each.equal, each.differing)]
                table.add_row(f"{part}: {each.name}", *counts, largest, outward)
    if table.row_count:
        console.print(table)
    states = sum(sum(rows.values()) for part, rows in now.rows.items() if "," not in part)
    console.print(
        f"{compared:,} columns, {states:,} states: {compared - differing:,} columns equal to the last bit, "
        f"{differing:,} differ, {wrong:,} of them neither outward nor explained. {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong else 0


def _fixture() -> int:
    from tests.equality.states import BUILTIN_SAMPLE, adversarial, to_arrays
    from tests.equality.work import all_tasks, compute, save

    inputs = {
        f"{block.number} {name}": values for block in adversarial() for name, values in to_arrays(block.states).items()
    }
    todo = all_tasks(BUILTIN_SAMPLE)
    console = Console()
    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*shown, console=console) as progress:
        task = progress.add_task("fixture", total=len(todo))
        save(FIXTURE, compute(todo, lambda: progress.advance(task)), inputs)
    console.print(f"{FIXTURE}: {FIXTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
