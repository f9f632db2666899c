"""Pieces against their peers, training steps, memory and large audits; writes build/components.json."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.audits import audit_overhead
from benchmarks.execution import execution_ratios, projection
from benchmarks.pairs import pair_ratios
from benchmarks.tolerances import tolerance_ratios
from benchmarks.training import head_monitor_overhead, monitor_overhead, step_memory, step_ratio


def main() -> None:
    """`python -m benchmarks.components`: each ratio at the top level, what was compared under "details"."""
    root = Path(__file__).resolve().parent.parent
    build = root / "build"
    build.mkdir(exist_ok=True)
    console = Console()
    with console.status("timing the pair against its peers; a minute or two"):
        ratios = pair_ratios(root / ".venv-peers" / "bin" / "python", build)
    with console.status("timing inversions; a minute"):
        ratios |= tolerance_ratios()
    with console.status("timing a training step against the published way; half a minute"):
        ratios["proco_step_vs_published"] = step_ratio()
        memory, step_peaks = step_memory(root)
        overhead, monitor_times = monitor_overhead()
        of_head, head_times = head_monitor_overhead()
    with console.status("timing what is executed; a minute"):
        ratios |= execution_ratios()
        projected = projection()
    with console.status("auditing 100,000 and 1,000,000 states; some minutes"):
        io_overhead, audits = audit_overhead(root)
    machine = {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    report = {
        **{key: None if ratio is None else ratio.value for key, ratio in ratios.items()},
        "proco_memory_vs_published": memory,
        "proco_memory_peaks_bytes": step_peaks,
        "monitor_overhead": overhead,
        "head_monitor_overhead": of_head,
        "monitor_seconds": monitor_times,
        "adaptive_projection_float32_32_times_faster": projected,
        "audit_io_overhead": io_overhead,
        "audit_io_seconds_and_bytes": audits,
        "details": {key: None if ratio is None else asdict(ratio) for key, ratio in ratios.items()},
        "machine": machine,
    }
    (build / "components.json").write_text(json.dumps(report, indent=2) + "\n")
    table = Table("ratio", "value", "first", "second", title="second time over first, median of interleaved repeats")
    for key, ratio in ratios.items():
        if ratio is None:
            table.add_row(key, "absent", "", "run `make bench-peers` first")
            continue
        table.add_row(key, f"{ratio.value:.2f}", *(_words(side) for side in (ratio.ours, ratio.peer)))
    console.print(table)
    console.print(f"proco_memory_vs_published {memory:.4f}: peak above the inputs, {step_peaks} bytes")
    console.print(f"monitor_overhead {overhead:.4f}: {monitor_times} seconds")
    console.print(f"head_monitor_overhead {of_head:.4f}: {head_times} seconds")
    console.print(f"a projection, if float32 were 32 times faster than float64: {projected}")
    console.print(f"audit_io_overhead {io_overhead:.3f}: {audits}")
    console.print(f"written to {(build / 'components.json').relative_to(root)}")


def _words(side: dict[str, object]) -> str:
    milliseconds = 1e3 * float(str(side["median_seconds"]))
    return f"{side['name']}: {milliseconds:.2f} ms, {side['mode']}, {side['dtype']}, {side['threads']} threads"


if __name__ == "__main__":
    main()
