"""`suffice prove`: every shipped constant, proved anew."""

from __future__ import annotations

import time

import typer

from suffice.cli.output import say

__all__ = ["prove"]


def prove() -> None:
    """Re-prove every shipped constant in exact arithmetic, one line a constant; exit 1 if any proof fails."""
    from suffice.proofs.barriers import prove_all

    start = time.perf_counter()
    count = failed = 0
    for proof in prove_all():
        count += 1
        failed += not proof.proved
        word = "proved" if proof.proved else "NOT PROVED"
        say(f"{word}  {proof.seconds:6.3f} s  {proof.name}: {proof.statement}")
    seconds = time.perf_counter() - start
    say(f"{count - failed} of {count} statements proved in {seconds:.1f} s, in exact rational arithmetic")
    if failed:
        raise typer.Exit(1)
