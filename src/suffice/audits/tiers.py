"""The tier that settles a state: a cascade's answer, from what an audit has found already where that is enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from suffice.audits.orders import Asked, meets
from suffice.audits.plan import Plan
from suffice.budgets import accepts
from suffice.certificates.cascade import cascade_realized
from suffice.certificates.certify import Certificate
from suffice.contracts.bounds import Allowances
from suffice.contracts.centered import CENTERED
from suffice.contracts.geometry import GEOMETRY
from suffice.numerics.outward import above
from suffice.pairs.constants import UNIFORM
from suffice.realizations.analytic import AnalyticRealized, simple_envelope
from suffice.realizations.base import Realized
from suffice.words import Tier

__all__ = ["tier_words"]


def tier_words(realized: Realized, plan: Plan, certificate: Certificate, asked: Asked | None) -> np.ndarray[Any, Any]:
    """The first tier of a cascade that certifies each state, "open" where none does.

    Where the plan's contract is the cascade's last tier, and its order the ladder's, the tiers in between are known:
    the conditioned contract accepts a pair's own allowances where their headroom is at least 1, and the simple ones,
    which are a multiple of the unit family, where b* is at least that multiple.
    """
    known = isinstance(realized, AnalyticRealized) and plan.chosen is CENTERED
    if not known or asked is None or asked.b_conditioned is None:
        return cascade_realized(realized, plan.budgets).tier
    assert isinstance(realized, AnalyticRealized)
    own = meets(plan, asked.rooms[plan.order])
    if simple_envelope(realized.pair) is None:
        conditioned, allowances = own, realized.own()
    else:
        # rounded up, and by more than what the simple envelope itself is raised by
        b = above(float(UNIFORM["quarter"].value) / realized.geometry.nu**3)
        conditioned, allowances = asked.b_conditioned >= b, _multiple(realized, b)
    geometry = conditioned & accepts(plan.budgets.shares(realized.asked(plan.budgets).bounds(GEOMETRY, allowances)))
    tier = np.full(len(realized), Tier.OPEN, dtype=f"<U{max(len(word) for word in Tier)}")
    # from tight to cheap: a later word takes the place of an earlier one
    for word, met in (
        (Tier.CENTERED, certificate.certified),
        (Tier.CLOSED_FORM, own),
        (Tier.CONDITIONED, conditioned),
        (Tier.GEOMETRY, geometry),
    ):
        tier[met.numpy(force=True)] = word
    return tier


def _multiple(realized: AnalyticRealized, b: float) -> Allowances:
    """b times the unit family, for a contract that needs nothing else."""
    unit = realized.unit()
    return Allowances(d=above(unit.d * b), a=torch.full_like(unit.d, b))
