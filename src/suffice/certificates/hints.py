"""What may be wrong with a program whose outputs are violated: slips that would explain them. Hints, no proofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.objectives.contrastive import Evaluation, evaluate
from suffice.pairs.constants import valid_orders
from suffice.pairs.debye import DebyePair
from suffice.states import ClassBank, States
from suffice.truth.outputs import Limits, Outputs

__all__ = ["hints"]

# violated states that are looked at
_MOST = 64
# a slip explains a state if what is left of its error is within the budget or this part of the exact number
_NEAR = 1e-3
_SHARE = 0.9


def hints(states: object, outputs: Outputs, limits: Limits, violated: Bool[Tensor, " queries"]) -> list[str]:
    """The slips that explain nearly all of the violated states, each in a sentence."""
    if not isinstance(states, States) or not bool(violated.any()) or not valid_orders(states.bank.nu):
        return []
    rows = violated.nonzero()[:_MOST, 0]
    some, given = states[rows].detached(), outputs[rows]
    pair = DebyePair(order=valid_orders(states.bank.nu)[-1])
    right = evaluate(some, pair)
    found = []
    if given.loss is not None and "loss" in limits:
        loss, limit = given.loss, limits["loss"][rows]
        wrong = (loss - right.loss).abs() > limit
        for words, value in _losses(some, right, len(states), lambda other: evaluate(other, pair)):
            found += _if_explained(words, "loss", wrong, (loss - value).abs(), limit, value.abs())
    if given.gradient is not None and "gradient" in limits:
        gradient, limit = given.gradient, limits["gradient"][rows]
        wrong = torch.linalg.vector_norm(gradient - right.gradient, dim=1) > limit
        size = torch.linalg.vector_norm(right.gradient, dim=1)
        tau = some.temperature[:, None]
        for words, value in (
            ("its gradient times 1/tau is right: is the division by the temperature missing?", gradient / tau),
            ("its gradient times tau is right: is it divided by the temperature twice?", gradient * tau),
            ("minus its gradient is right: is the sign lost?", -gradient),
            (f"{len(states)} times its gradient is right: is it that of the mean?", gradient * len(states)),
        ):
            apart = torch.linalg.vector_norm(value - right.gradient, dim=1)
            found += _if_explained(words, "gradient", wrong, apart, limit, size)
    return found


def _losses(
    states: States, right: Evaluation, count: int, evaluated: Callable[[States], Evaluation]
) -> Iterator[tuple[str, Tensor]]:
    """What a loss would be after some slips."""
    bank, classes = states.bank, states.num_classes
    for step in (1, -1):
        labels = (states.labels + step) % classes
        other = -right.log_probabilities.gather(1, labels[:, None]).squeeze(1)
        yield f"its loss is that of the label {step:+d}: are labels counted from elsewhere?", other
    plain = States(ClassBank(bank.directions, bank.concentrations), states.features, states.labels, states.temperature)
    if bool((bank.biases != bank.biases[0]).any()):
        yield "its loss is that without the biases: are the log-priors missing?", evaluated(plain).loss
    if bool((states.temperature != 1).any()):
        warm = States(bank, states.features, states.labels, torch.ones_like(states.temperature))
        yield "its loss is that at temperature 1: is the temperature missing?", evaluated(warm).loss
    if count > 1:
        yield f"{count} times its loss is right: is it divided by the number of states?", right.loss / count


def _if_explained(words: str, name: str, wrong: Tensor, apart: Tensor, limit: Tensor, size: Tensor) -> list[str]:
    """The hint, if it explains nearly all of what is wrong."""
    count = int(wrong.sum())
    explained = int((wrong & (apart <= torch.maximum(limit, _NEAR * size))).sum())
    if not count or explained < _SHARE * count:
        return []
    return [f"hint ({name}, {explained} of {count} violated states): {words}"]
