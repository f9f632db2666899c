"""A real run of the Hugging Face Trainer with the callback, on a language model of a few thousand parameters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.nn import ProCoLoss, ToleranceMonitor

with warnings.catch_warnings():
    # the libraries' own
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from suffice.nn.on_trainer import ToleranceCallback

pytestmark = pytest.mark.filterwarnings("ignore")


class _Words(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        words = (torch.arange(6) * (index + 1)) % 11
        labels = words.clone()
        # a prompt, which is no state
        labels[:2] = -100
        return {"input_ids": words, "labels": labels}


def _model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16,
    )
    return transformers.LlamaForCausalLM(config)


def test_a_run_reports_every_so_many_steps(tmp_path: Path) -> None:
    model = _model()
    monitor = ToleranceMonitor(model.lm_head, sf.Budgets(gradient=1e-3), every=4, causal=True)
    logged: list[dict[str, float]] = []
    callback = ToleranceCallback(monitor, logged.append)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=2,
        num_train_epochs=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=_Words(), callbacks=[callback])
    trainer.train()
    # ten steps: reports at the first, fifth and ninth
    assert [entry["step"] for entry in trainer.state.log_history if "suffice/step" in entry] == [1, 5, 9]
    assert len(logged) == 3
    assert callback.last is not None
    # two rows of six words: five states each after the shift, of which the prompt takes one
    assert callback.last["suffice/states"] == 8
    assert callback.last["suffice/skipped"] == 2
    assert not model._forward_pre_hooks


def test_a_loss_has_no_hook() -> None:
    with pytest.raises(ValueError, match=r"Expected a monitor of a torch.nn.Linear"):
        ToleranceCallback(ToleranceMonitor(ProCoLoss(3, 8), sf.Budgets(loss=1e-3)))
