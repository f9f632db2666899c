"""The words that a result says, each as a user reads it. Arrays hold them as plain strings."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Departure", "Outcome", "Scope", "Tier", "Verdict"]


class Verdict(StrEnum):
    """What is known of a state against its budgets."""

    CERTIFIED = "certified"
    INCONCLUSIVE = "inconclusive"
    VIOLATED = "violated"


class Outcome(StrEnum):
    """How a tolerance came out: bounded, without any bound, or zero (not even no error at all is accepted)."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    ZERO = "zero"


class Tier(StrEnum):
    """The bounds of a cascade from cheap to tight, and what it says of a state that none of them settles.

    An audit's last tier is an enclosure of the true error, which settles both ways: that of a formula, or that of the
    numbers that one execution has returned, which says nothing of sums in another order.
    """

    GEOMETRY = "geometry"
    CONDITIONED = "conditioned"
    CLOSED_FORM = "closed form"
    CENTERED = "centered"
    ENCLOSURE = "enclosure"
    OUTPUT = "enclosure of this output"
    OPEN = "open"


class Scope(StrEnum):
    """What is covered: the formula in exact arithmetic, or the numbers as executed."""

    ANALYTIC = "analytic"
    EXECUTION = "execution"


class Departure(StrEnum):
    """Whether an execution stayed inside of the model of rounding, or the first number that left it."""

    INSIDE = "inside"
    TEMPERATURE = "temperature"
    GEOMETRY = "geometry"
    SCORES = "scores"
    PROBABILITIES = "probabilities"
    GRADIENT = "gradient"
