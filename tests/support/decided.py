"""Verdicts by true errors, from the oracle in Arb: what an audit's last tier must come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flint import arb

import suffice as sf
from tests.reference.oracle import NARROWER, states_of

__all__ = ["true_verdicts"]


def true_verdicts(states: sf.States, budgets: sf.Budgets, realization: Any) -> np.ndarray[Any, Any]:
    """Where every true error is within its budget "certified", else "violated"; executed numbers by `judge`."""
    if realization.scope == "execution":
        made = realization.run(states)
        given: dict[str, torch.Tensor] = {"loss": made.loss, "gradient": made.gradient}
        if budgets.prediction:
            given["prediction"] = made.scores.argmax(dim=1)
        return sf.judge(states, budgets, **given).verdict
    limits = budgets.limits(states.temperature)
    words = []
    for i, state in enumerate(states_of(states)):
        errors = state.errors(realization.pair.order, width=NARROWER)
        kept = all(getattr(errors, name) <= arb(limit[i].item()) for name, limit in limits.items())
        words.append("certified" if kept and (errors.agrees or not budgets.prediction) else "violated")
    return np.array(words)
