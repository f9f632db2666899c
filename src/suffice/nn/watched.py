"""A linear head that is watched: its inputs on the steps that are asked for, as states."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from suffice.contracts.noise import outer_covariance_trace
from suffice.objectives.linear import Coordinate, HeadStates, LinearHead

__all__ = ["WatchedHead", "gradient_noise"]


class WatchedHead:
    """Keeps what a layer was last given, while it is told to: a reference to a tensor, and nothing else is done to it.

    With `causal`, row t is the state of label t + 1, as language models are trained. Labels of -100 are no states.
    """

    def __init__(self, head: nn.Linear, *, causal: bool = False, coordinate: Coordinate = "hidden") -> None:
        self.head, self.causal, self.coordinate = head, causal, coordinate
        self.wanted = True
        self._hidden: Tensor | None = None
        self._hook = head.register_forward_pre_hook(self._seen, with_kwargs=True)

    def _seen(self, head: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self.wanted and head.training:
            given = inputs[0] if inputs else named.get("input")
            self._hidden = given.detach() if isinstance(given, Tensor) else None

    def remove(self) -> None:
        """Watch no longer."""
        self._hook.remove()
        self._hidden = None

    def taken(self) -> Tensor | None:
        """What was seen since the last time, and forget it: it may be large."""
        hidden, self._hidden = self._hidden, None
        return hidden

    def states(self, hidden: Tensor, labels: Tensor, sample: int) -> tuple[HeadStates | None, int, int]:
        """Some rows that are states, how many rows are none, and how many are."""
        if hidden.shape[:-1] != labels.shape or hidden.ndim < 2:
            raise ValueError(
                f"Expected a label for each row of the head's inputs {tuple(hidden.shape)}, "
                f"but got labels {tuple(labels.shape)}"
            )
        if self.causal:
            hidden, labels = hidden[..., :-1, :], labels[..., 1:]
        rows, marks = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1).long()
        right = torch.isfinite(rows).all(dim=1) & (marks >= 0) & (marks < self.head.out_features)
        good = right.nonzero()[:, 0]
        skipped = len(rows) - len(good)
        if not len(good):
            return None, skipped, 0
        # evenly spaced rows: this repeats exactly
        some = good[torch.linspace(0, len(good) - 1, min(sample, len(good)), device=good.device).long()]
        try:
            head = LinearHead(self.head.weight, self.head.bias)
            made = HeadStates(head, rows[some], marks[some], coordinate=self.coordinate)
        except ValueError:
            # no head: a weight that is not finite, say
            return None, len(rows), 0
        return made, skipped, len(good)


def _residuals(states: HeadStates) -> Float[Tensor, "queries classes"]:
    """(pi_j - 1_y)/T in the head's own digits, float32 at least: of an estimate more would be none."""
    assert states.labels is not None
    bank, tau = states.bank, states.temperature[:, None]
    dtype = torch.promote_types(bank.weight.dtype, torch.float32)
    with torch.autocast(bank.weight.device.type, enabled=False):
        scores = states.hidden.to(dtype) @ bank.weight.to(dtype).T
    pi = ((scores + bank.bias.to(dtype)) / tau.to(dtype)).softmax(dim=1)
    pi[torch.arange(len(pi), device=pi.device), states.labels] -= 1
    return pi / tau.to(dtype)


def gradient_noise(states: HeadStates, *, bias: bool = True) -> float:
    """S of the gradients in (W, c), from residuals and rows of these states: an estimate, never negative.

    Without a `bias`, of those in W: one that is not trained has no noise.
    """
    if len(states) < 2 or states.labels is None:
        return 0.0
    parts = [_residuals(part) for part in states.chunks()]
    ones = torch.ones_like(states.hidden[:, :1])
    return outer_covariance_trace(torch.cat(parts), torch.cat([states.hidden, ones], dim=1) if bias else states.hidden)
