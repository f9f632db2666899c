"""A monitor as a callback for the Hugging Face Trainer (`pip install 'suffice[lm]'`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from suffice.nn.monitor import ToleranceMonitor
from suffice.nn.monitored import MonitorReport

__all__ = ["ToleranceCallback"]


class ToleranceCallback(TrainerCallback):
    """Calls a head's monitor at the end of every step; reports go to the trainer's history, and to `log` if given.

    Labels are those that the model is called with: a hook keeps them on the steps that report. `last` is the whole last
    report. With accumulated gradients it is about the last of the step's batches.
    """

    last: MonitorReport | None

    def __init__(self, monitor: ToleranceMonitor, log: Callable[[dict[str, float]], Any] | None = None) -> None:
        if monitor.watched is None:
            raise ValueError("Expected a monitor of a torch.nn.Linear, whose inputs a hook sees, but got one of a loss")
        self.monitor, self.log = monitor, log
        self.last = None
        self._labels: Tensor | None = None
        self._hook: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Put the hook on the model."""
        del args, state, control
        self._remove()
        model: nn.Module = given["model"]
        self._hook = model.register_forward_pre_hook(self._seen, with_kwargs=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Report, on the steps that are due; between them no tensor is touched."""
        del args, control, given
        labels, self._labels = self._labels, None
        report = self.monitor(labels=labels)
        if report is None:
            return
        self.last = report
        numbers = {name: float(value) for name, value in report.numbers.items()}
        state.log_history.append({**numbers, "step": state.global_step})
        if self.log is not None:
            self.log(numbers)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Take the hook off again."""
        del args, state, control, given
        self._remove()

    def _seen(self, model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        del inputs
        if model.training and self.monitor.due_next:
            labels = named.get("labels")
            self._labels = labels if isinstance(labels, Tensor) else None

    def _remove(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
