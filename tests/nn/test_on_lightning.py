"""A real Lightning run with the callback."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import suffice as sf
from suffice.nn import ProCoLoss, ToleranceMonitor

with warnings.catch_warnings():
    # the libraries' own
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning.pytorch")
    from suffice.nn.on_lightning import ToleranceCallback

pytestmark = pytest.mark.filterwarnings("ignore")


class _Probe(lightning.LightningModule):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def training_step(self, batch: tuple[Tensor, Tensor], _index: int) -> Tensor:
        features, labels = batch
        return nn.functional.cross_entropy(self.head(self.body(features).relu()), labels)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def _trainer(folder: Path, **options: Any) -> Any:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


def _data(batches: int) -> DataLoader[tuple[Tensor, ...]]:
    g = torch.Generator().manual_seed(0)
    rows = TensorDataset(torch.randn(8 * batches, 4, generator=g), torch.randint(0, 3, (8 * batches,), generator=g))
    return DataLoader(rows, batch_size=8)


def test_a_run_reports_every_so_many_steps(tmp_path: Path) -> None:
    model = _Probe()
    monitor = ToleranceMonitor(model.head, sf.Budgets(gradient=1e-3), every=4)
    callback = ToleranceCallback(monitor)
    trainer = _trainer(tmp_path, max_epochs=1, callbacks=[callback])
    trainer.fit(model, _data(10))
    assert callback.last is not None
    # ten batches: reports at 0, 4 and 8
    assert callback.last["suffice/step"] == 8
    assert monitor.step == 9
    assert callback.last["suffice/states"] == 8
    assert float(trainer.callback_metrics["suffice/certified"]) == callback.last["suffice/certified"]
    again = ToleranceCallback(ToleranceMonitor(model.head, sf.Budgets(gradient=1e-3), every=4))
    again.load_state_dict(callback.state_dict())
    assert again.monitor.step == 9


def test_labels_by_name_and_by_function() -> None:
    head = nn.Linear(2, 3)
    for labels, batch in (
        (None, {"labels": torch.tensor([0, 1])}),
        (lambda batch: batch[2], (0, 1, torch.tensor([0, 1]))),
    ):
        callback = ToleranceCallback(ToleranceMonitor(head, sf.Budgets(gradient=1e-3)), labels)
        head(torch.randn(2, 2))
        callback.on_train_batch_end(None, _Logged(), None, batch, 0)  # type: ignore[arg-type]
        assert callback.last is not None
        assert callback.last["suffice/states"] == 2
        callback.monitor.remove()


class _Logged:
    def log_dict(self, numbers: dict[str, float], **_options: Any) -> None:
        assert all(isinstance(value, float) for value in numbers.values())


def test_a_loss_has_no_hook() -> None:
    with pytest.raises(ValueError, match=r"Expected a monitor of a torch.nn.Linear"):
        ToleranceCallback(ToleranceMonitor(ProCoLoss(3, 8), sf.Budgets(loss=1e-3)))
