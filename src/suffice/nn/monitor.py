"""Certified tolerance during training, as plain numbers for any logger."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from suffice.budgets import Budgets, check_budgets
from suffice.certificates.judge import judge
from suffice.nn.monitored import MonitorReport, certified_report
from suffice.nn.proco import ProCoLoss
from suffice.nn.watched import WatchedHead, gradient_noise
from suffice.pairs.base import Pair
from suffice.pairs.constants import valid_orders
from suffice.pairs.debye import DebyePair
from suffice.realizations.base import Realization
from suffice.states import States
from suffice.words import Verdict

__all__ = ["MonitorReport", "ToleranceMonitor"]

# Bessel functions that a report may ask Arb for: about a second
_MOST_IN_ARB = 16_384
# scores of a head that a report certifies: less than a second
_MOST_SCORES = 262_144


class ToleranceMonitor:
    """Every `every`-th call, the tolerance and the verdicts of `sample` states of the batch, else None.

    A call between only counts: it touches no tensor, so that it forces no synchronisation with a device. Scope
    `analytic`, as everything that `certify` says.

    What a batch contains never raises: rows that are no states (features that are not finite, labels of no class) are
    left out, "suffice/skipped" counts them, and a batch without a state, or with class statistics that are no bank, is
    reported with 0 "suffice/states".

    `loss` may be any `torch.nn.Linear` that ends in a softmax cross-entropy: a hook keeps what it is given on the steps
    that report, and `monitor(labels=labels)` is all that is to be called (`causal` shifts them, -100 is left out).
    `realization` is what is certified there, the head as it is stored unless told otherwise. With `noise=0.1` the
    gradient's budget is a tenth of the noise of the batch's gradient in the head's parameters, estimated from the
    sample: is the error of this precision below it? Of heads with many classes fewer states are certified.

    Where the pair has no proof at the loss's dimension (none has below p = 5) there is no tolerance: "suffice/scope" is
    then "no proof at p = 3", say, and instead the loss's own outputs are judged against Arb, which takes a moment: the
    shares "suffice/judged_certified" and "suffice/judged_violated" of "suffice/judged" states, fewer for many classes.

    `state_dict` keeps the count of calls for a checkpoint. A report is a dict; `report.numbers` leaves out its words.

    >>> loss = ProCoLoss(num_classes=10, dim=128)
    >>> monitor = ToleranceMonitor(loss, Budgets(loss=1e-5, gradient=1e-5), every=50, sample=64)
    >>> report = monitor(torch.randn(8, 128), torch.arange(8))
    >>> report["suffice/certified"], report["suffice/step"]
    (1.0, 0)
    >>> monitor(torch.randn(8, 128), torch.arange(8)) is None
    True
    """

    def __init__(
        self,
        loss: ProCoLoss | nn.Linear,
        budgets: Budgets | None = None,
        *,
        every: int = 50,
        sample: int = 64,
        pair: Pair | None = None,
        contract: str = "centered",
        realization: Realization | None = None,
        noise: float | None = None,
        causal: bool = False,
    ) -> None:
        if every < 1 or sample < 1:
            raise ValueError(f"Expected every >= 1 and sample >= 1, but got {every} and {sample}")
        watching = isinstance(loss, nn.Linear)
        if not watching and (realization is not None or noise is not None or causal):
            raise ValueError("Expected realization, noise and causal with a torch.nn.Linear only; a loss has a pair")
        if watching and pair is not None:
            raise ValueError("Expected a realization for a torch.nn.Linear, but got a pair")
        if noise is not None and not 0 < noise < math.inf:
            raise ValueError(f"Expected noise, the share of it, > 0 and finite, but got {noise}")
        if budgets is None and noise is None:
            raise ValueError("Expected budgets, or noise to take the gradient's from, but got neither")
        self.given = budgets is not None
        # without budgets, that of the noise takes this one's place
        self.budgets = Budgets(gradient=1.0) if budgets is None else budgets
        check_budgets(self.budgets)
        self.every, self.sample, self.contract = every, sample, contract
        self.loss: Any = loss
        self.pair: Pair = DebyePair() if pair is None else pair
        self.realization, self.noise = realization, noise
        self.step = -1
        self.watched = None
        if isinstance(loss, nn.Linear):
            if type(loss).forward is not nn.Linear.forward:
                raise TypeError(
                    f"Expected a head that is called as torch.nn.Linear is, but got {type(loss).__name__}, whose "
                    "forward pass is its own: what it computes is not the product that would be certified"
                )
            # noise is that of the parameters which samples share
            self.watched = WatchedHead(loss, causal=causal, coordinate="hidden" if noise is None else "weights")

    @torch.no_grad()
    def __call__(
        self, features: Float[Tensor, "*queries dim"] | None = None, labels: Int[Tensor, " *queries"] | None = None
    ) -> MonitorReport | None:
        """Report on this step, or None if it is not one to report on. A head has seen its features itself."""
        self.step += 1
        due = self.step % self.every == 0
        if self.watched is not None:
            # what the head is given before the next call is of use if that one is to report
            self.watched.wanted = self.due_next
        if not due:
            return None
        if self.watched is not None:
            return self._of_head(self.watched, features, labels)
        if features is None or labels is None:
            raise TypeError("Expected features and labels, but got None")
        states, skipped = self._states(features, labels)
        if states is None:
            return MonitorReport({"suffice/step": self.step, "suffice/states": 0, "suffice/skipped": skipped})
        if not self._proved(states):
            return self._judged(states, skipped, torch.promote_types(features.dtype, torch.float32))
        return self._told(skipped, certified_report(states, self.budgets, self.pair, self.contract))

    def _told(self, skipped: int, report: MonitorReport) -> MonitorReport:
        """With the step and the rows that were no states, first."""
        return MonitorReport({"suffice/step": self.step, "suffice/skipped": skipped, **report})

    def _of_head(self, watched: WatchedHead, features: Tensor | None, labels: Tensor | None) -> MonitorReport:
        """The same for a linear head, from what it was given last."""
        hidden = watched.taken()
        hidden = hidden if features is None else features.detach()
        if hidden is None or labels is None:
            return self._told(0, MonitorReport({"suffice/states": 0}))
        states, skipped, count = watched.states(hidden, labels, self.sample)
        if states is None:
            return self._told(skipped, MonitorReport({"suffice/states": 0}))
        # many classes: the noise is that of all samples, what is certified are some of them
        some = states[_spread(len(states), max(1, _MOST_SCORES // states.num_classes))]
        if self.noise is None:
            return self._told(skipped, certified_report(some, self.budgets, self.realization, self.contract))
        trace = gradient_noise(states, bias=watched.head.bias is not None)
        if not 0 < trace < math.inf:
            words = "these samples say nothing about noise"
            return self._told(skipped, MonitorReport({"suffice/states": 0, "suffice/basis": words}))
        others = {name: getattr(self.budgets, name) for name in self.budgets.names} if self.given else {}
        budgets = Budgets.below_noise((trace, count), self.noise, **{**others, "gradient": None})
        report = certified_report(some, budgets, self.realization, self.contract)
        report |= {"suffice/noise": math.sqrt(trace / count), "suffice/budget_gradient": float(budgets.gradient or 0)}
        return self._told(skipped, report)

    def _proved(self, states: States) -> bool:
        """Whether the pair is proved at this dimension; one of another kind than the ladder says so itself."""
        return not isinstance(self.pair, DebyePair) or self.pair.order in valid_orders(states.bank.nu)

    def _judged(self, states: States, skipped: int, dtype: torch.dtype) -> MonitorReport:
        """What can be said without a proof about the formula: whether the numbers in use keep the budgets."""
        rows = max(1, min(len(states), _MOST_IN_ARB // states.num_classes))
        some = states[:rows]
        found = judge(some, self.budgets, **self._outputs(some, dtype))
        return MonitorReport(
            {
                "suffice/step": self.step,
                "suffice/states": len(states),
                "suffice/skipped": skipped,
                "suffice/scope": f"no proof at p = {states.dim}",
                "suffice/judged": rows,
                "suffice/judged_certified": found.counts[Verdict.CERTIFIED] / rows,
                "suffice/judged_violated": found.counts[Verdict.VIOLATED] / rows,
            }
        )

    def _outputs(self, states: States, dtype: torch.dtype) -> dict[str, Tensor]:
        """What the loss computes at these states, in the dtype in which it does so."""
        with torch.enable_grad():
            unit = states.features.to(dtype, copy=True).requires_grad_()
            logits = self.loss.adjust(self.loss.unit_logits(unit))
            losses = torch.nn.functional.cross_entropy(logits, states.labels, reduction="none")
            (gradient,) = torch.autograd.grad(losses.sum(), unit)
        logits = logits.detach()
        return {
            "loss": losses.detach(),
            "gradient": gradient,
            "log_probabilities": logits.log_softmax(dim=1),
            "prediction": logits.argmax(dim=1),
        }

    @property
    def due_next(self) -> bool:
        """Whether the next call reports."""
        return (self.step + 1) % self.every == 0

    def remove(self) -> None:
        """Take the hook off the head."""
        if self.watched is not None:
            self.watched.remove()

    def state_dict(self) -> dict[str, int]:
        """What a resumed run needs to report on the same steps."""
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where another monitor was."""
        if set(state) != {"step"}:
            raise ValueError(f"Expected a state with 'step', but got {sorted(state)}")
        self.step = int(state["step"])
        if self.watched is not None:
            self.watched.wanted = self.due_next

    def _states(self, features: Tensor, labels: Tensor) -> tuple[States | None, int]:
        """Some of the rows that are states, and how many rows of the batch are none."""
        # as int64: a number of classes may be past the labels' own type
        labels, classes = labels.long(), self.loss.statistics.num_classes
        right = torch.isfinite(features).all(dim=1) & (labels >= 0) & (labels < classes)
        good = right.nonzero()[:, 0]
        skipped = len(features) - len(good)
        if not len(good):
            return None, skipped
        # evenly spaced rows: a batch is shuffled already, and this repeats exactly
        rows = good[torch.linspace(0, len(good) - 1, min(self.sample, len(good)), device=good.device).long()]
        try:
            return self.loss.states(features[rows], labels[rows]), skipped
        except ValueError:
            # no bank: a mean direction that is not finite, say, or a class of one sample without a cap
            return None, len(features)


def _spread(count: int, most: int) -> list[int]:
    """Evenly spaced rows, `most` at most."""
    kept = min(count, most)
    return [index * count // kept for index in range(kept)]
