"""`suffice reproduce`: every figure and table of the paper on a collection, beside the paper's own numbers."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from suffice.experiments.concept import reproduce_concept
from suffice.experiments.conditioning import reproduce_conditioning
from suffice.experiments.distribution import reproduce_distribution
from suffice.experiments.document import Section, write_document
from suffice.experiments.evaluators import reproduce_evaluators
from suffice.experiments.ranking import reproduce_ranking
from suffice.experiments.rearrangement import reproduce_rearrangement
from suffice.experiments.responses import reproduce_response
from suffice.experiments.saved import Saved, Tick
from suffice.experiments.second_objective import reproduce_second_objective
from suffice.store.builtin import builtin_collection
from suffice.store.manifest import write_whole
from suffice.store.reader import Collection

__all__ = ["EXPERIMENTS", "Reproduction", "reproduce"]

Experiment = Callable[[Saved, Tick], Section]
# in the paper's order; each by the label that --only knows it by
EXPERIMENTS: dict[str, Experiment] = {
    "fig:concept": reproduce_concept,
    "fig:conditioning": reproduce_conditioning,
    "fig:tolerance-distribution": reproduce_distribution,
    "fig:first-order-prediction": reproduce_rearrangement,
    "app:actual-response": reproduce_response,
    "app:ranking": reproduce_ranking,
    "app:objectives": reproduce_second_objective,
    "evaluators": reproduce_evaluators,
}
# steps of those that do not go over all states
_STEPS = {"fig:conditioning": 3, "app:ranking": 1}
_ALIASES = {
    "tab:tolerance": "fig:tolerance-distribution",
    "tab:permutation-spread": "fig:first-order-prediction",
    "tab:permutation-budgets": "fig:first-order-prediction",
    "app:fixed-target-permutation": "fig:first-order-prediction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """Where the document is, how many bounds were found broken (none, one hopes), and the seconds of each part."""

    path: Path
    violations: int
    seconds: dict[str, float]


def chosen_experiments(only: list[str]) -> list[str]:
    """The experiments to run: all, or those named."""
    names = [_ALIASES.get(name, name) for name in only] or list(EXPERIMENTS)
    for name in names:
        if name not in EXPERIMENTS:
            raise ValueError(f"Expected --only to be one of {', '.join([*EXPERIMENTS, *_ALIASES])}, but got {name!r}")
    return [name for name in EXPERIMENTS if name in names]


def reproduce(
    collection: Collection,
    out: Path,
    *,
    sample: int | None = None,
    only: list[str] | None = None,
    watch: Callable[[str, int], Tick] = lambda _name, _total: lambda _: None,
) -> Reproduction:
    """Run the experiments and write figures, tables and reproduction.md; what was computed before is read from disk."""
    if not len(collection):
        raise ValueError("Expected a collection with states, but it has none")
    names = chosen_experiments(only or [])
    saved = Saved(collection=collection, sample=sample, folder=out / "cache")
    second = Saved(collection=builtin_collection("supervised"), sample=sample, folder=out / "cache")
    written, seconds, violations = [], {}, 0
    for name in names:
        states = second if name == "app:objectives" else saved
        began = time.perf_counter()
        section = EXPERIMENTS[name](states, watch(name, _STEPS.get(name, len(states))))
        written.append(section.write(out))
        violations += section.violations
        seconds[name] = time.perf_counter() - began
    path = write_document(out, _heading(saved, violations, names), written)
    record = {
        "states": len(saved),
        "collection": collection.digest,
        "suffice": version("suffice"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "violations": violations,
        "seconds": seconds,
    }
    write_whole(out / "cache" / "run.json", (json.dumps(record, indent=1) + "\n").encode())
    return Reproduction(path=path, violations=violations, seconds=seconds)


def _heading(saved: Saved, violations: int, names: list[str]) -> str:
    collection = saved.collection
    which = "the built-in collection" if collection.builtin else "a collection"
    some = "" if saved.sample is None else f" --sample {saved.sample}"
    some += "" if len(names) == len(EXPERIMENTS) else "".join(f" --only {name}" for name in names)
    where = "" if collection.builtin else " COLLECTION"
    return "\n".join(
        [
            "# The paper's experiments, on these states",
            "",
            f"`suffice reproduce{where} --out DIR{some}` wrote this page from {len(saved):,} states of {which} "
            f"(content {collection.digest[:16]}). Numbers in brackets are the paper's, of its own 5,120 states, "
            "which are not "
            "public. Certificates are of scope analytic: the mathematical error of the pair at the exact geometry, "
            "not "
            "rounding. States of one training run are not independent of each other.",
            "",
            f"Bounds found broken, over everything below: **{violations}**.",
            "",
        ]
    )
