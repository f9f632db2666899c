"""Time what a user calls against the bare product of the geometry, print the table and write build/bench.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.calls import CALLS
from benchmarks.rounds import Measured, measure
from benchmarks.workloads import WORKLOADS
from suffice.numerics.compiling import has_compiler


def main() -> None:
    """`python -m benchmarks`: some minutes on an otherwise idle machine; `--only` and `--rounds` for a look."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--on", default="", help="workloads whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--eager", action="store_true", help="leave out what is compiled")
    options = parser.parse_args()
    console = Console()
    calls = [
        call
        for call in CALLS
        if options.only in call.name and (call.mode == "eager" or (has_compiler() and not options.eager))
    ]
    found: list[Measured] = []
    # the compiler leaves threads behind, beside which an audit does not fork: what is eager comes first
    for mode in ("eager", "compiled"):
        some = [call for call in calls if call.mode == mode]
        for name, make in WORKLOADS.items():
            if options.on in name and any(name in call.on for call in some):
                with console.status(f"timing {name}, {mode}"):
                    found += measure(make(), some, options.rounds)
    console.print(_table(found))
    root = Path(__file__).resolve().parent.parent
    (root / "build").mkdir(exist_ok=True)
    path = root / "build" / "bench.json"
    path.write_text(json.dumps({"calls": [asdict(each) for each in found], "machine": _machine()}, indent=2) + "\n")
    console.print(f"written to {path.relative_to(root)}")


def _table(found: list[Measured]) -> Table:
    table = Table("call", "on", "products", "limit", "seconds", "mode", title="over the bare product, medians")
    for each in found:
        over = each.limit is not None and each.products > each.limit
        products = f"[red]{each.products:.1f}[/red]" if over else f"{each.products:.1f}"
        limit = "" if each.limit is None else f"{each.limit:g}"
        table.add_row(each.call, each.workload, products, limit, f"{each.seconds:.3f}", each.mode)
    return table


def _machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main()
