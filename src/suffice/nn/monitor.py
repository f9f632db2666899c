"""Certified tolerance during training, as plain numbers for any logger."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.budgets import Budgets, check_budgets
from suffice.certificates.certify import certify
from suffice.certificates.judge import judge
from suffice.nn.proco import ProCoLoss
from suffice.pairs.base import Pair
from suffice.pairs.constants import valid_orders
from suffice.pairs.debye import DebyePair
from suffice.states import States
from suffice.tolerances.tolerance import tolerance
from suffice.words import Verdict

__all__ = ["MonitorReport", "ToleranceMonitor"]

_QUANTILES = (0.05, 0.5, 0.95)
# Bessel functions that a report may ask Arb for: about a second
_MOST_IN_ARB = 16_384


class MonitorReport(dict[str, float | int | str]):
    """What a monitor reports, as a plain dict; `numbers` and `words` are its two halves, for loggers that take one.

    >>> MonitorReport({"suffice/states": 4, "suffice/binding": "loss"}).numbers
    {'suffice/states': 4}
    """

    @property
    def numbers(self) -> dict[str, float | int]:
        """What can be drawn over steps."""
        return {name: value for name, value in self.items() if not isinstance(value, str)}

    @property
    def words(self) -> dict[str, str]:
        """What cannot: the budget that binds most often, the scope."""
        return {name: value for name, value in self.items() if isinstance(value, str)}


class ToleranceMonitor:
    """Every `every`-th call, the tolerance and the verdicts of `sample` states of the batch, else None.

    A call between only counts: it touches no tensor, so that it forces no synchronisation with a device. Scope
    `analytic`, as everything that `certify` says.

    What a batch contains never raises: rows that are no states (features that are not finite, labels of no class) are
    left out, "suffice/skipped" counts them, and a batch without a state, or with class statistics that are no bank, is
    reported with 0 "suffice/states".

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
        loss: ProCoLoss,
        budgets: Budgets,
        *,
        every: int = 50,
        sample: int = 64,
        pair: Pair | None = None,
        contract: str = "centered",
    ) -> None:
        if every < 1 or sample < 1:
            raise ValueError(f"Expected every >= 1 and sample >= 1, but got {every} and {sample}")
        check_budgets(budgets)
        self.loss, self.budgets, self.every, self.sample = loss, budgets, every, sample
        self.pair: Pair = DebyePair() if pair is None else pair
        self.contract = contract
        self.step = -1

    @torch.no_grad()
    def __call__(self, features: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"]) -> MonitorReport | None:
        """Report on this step, or None if it is not one to report on."""
        self.step += 1
        if self.step % self.every:
            return None
        states, skipped = self._states(features, labels)
        if states is None:
            return MonitorReport({"suffice/step": self.step, "suffice/states": 0, "suffice/skipped": skipped})
        if not self._proved(states):
            return self._judged(states, skipped, torch.promote_types(features.dtype, torch.float32))
        certificate = certify(states, self.budgets, self.pair, self.contract)
        result = tolerance(states, self.budgets, self.pair, self.contract)
        bounded = result.b[torch.as_tensor(result.status == "bounded", device=result.b.device)]
        names, numbers = _counted(result.binding)
        report = MonitorReport()
        report |= {
            "suffice/step": self.step,
            "suffice/states": len(states),
            "suffice/skipped": skipped,
            "suffice/certified": float((certificate.verdict == "certified").mean()),
            "suffice/headroom_min": float(certificate.headroom.min()),
            "suffice/headroom_median": float(certificate.headroom.median()),
            "suffice/binding": names[0],
            "suffice/bounded": len(bounded),
            "suffice/scope": certificate.scope,
        }
        report |= {f"suffice/binding_{name}": n / len(states) for name, n in zip(names, numbers, strict=True)}
        if len(bounded):
            values = torch.quantile(bounded, torch.tensor(_QUANTILES, dtype=bounded.dtype, device=bounded.device))
            report |= {f"suffice/b_q{100 * q:02.0f}": v for q, v in zip(_QUANTILES, values.tolist(), strict=True)}
        return report

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

    def state_dict(self) -> dict[str, int]:
        """What a resumed run needs to report on the same steps."""
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where another monitor was."""
        if set(state) != {"step"}:
            raise ValueError(f"Expected a state with 'step', but got {sorted(state)}")
        self.step = int(state["step"])

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


def _counted(binding: object) -> tuple[list[str], list[int]]:
    """The binding budgets, the most frequent first."""
    counts: dict[str, int] = {}
    for name in map(str, binding):  # type: ignore[call-overload]
        counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts, key=lambda name: -counts[name])
    return ordered, [counts[name] for name in ordered]
