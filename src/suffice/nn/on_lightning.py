"""A monitor as a callback for Lightning (`pip install 'suffice[lightning]'`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from suffice.nn.monitor import ToleranceMonitor
from suffice.nn.monitored import MonitorReport

__all__ = ["ToleranceCallback"]


class ToleranceCallback(Callback):
    """Calls a head's monitor after every training batch and logs its numbers; `last` is the whole last report.

    Labels are `labels(batch)`, or batch["labels"], or the second of a batch that is a tuple. The head's hook has seen
    its features; the weights are those after the step.
    """

    last: MonitorReport | None

    def __init__(self, monitor: ToleranceMonitor, labels: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        if monitor.watched is None:
            raise ValueError("Expected a monitor of a torch.nn.Linear, whose inputs a hook sees, but got one of a loss")
        self.monitor, self.labels = monitor, _labels if labels is None else labels
        self.last = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Report, on the steps that are due; between them no tensor is touched."""
        del trainer, outputs, batch_idx
        report = self.monitor(labels=self.labels(batch) if self.monitor.due_next else None)
        if report is None:
            return
        self.last = report
        pl_module.log_dict({name: float(value) for name, value in report.numbers.items()}, batch_size=1)

    def state_dict(self) -> dict[str, Any]:
        """The monitor's count, for a checkpoint."""
        return dict(self.monitor.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the checkpoint was."""
        self.monitor.load_state_dict(state_dict)


def _labels(batch: Any) -> Any:
    return batch["labels"] if isinstance(batch, Mapping) else batch[1]
