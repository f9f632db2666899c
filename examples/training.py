"""The training loop of the examples: settings, epochs, checkpoints, resume and the states of a run."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.nn import functional

import suffice as sf
from examples.datasets import Data
from examples.networks import MLP, Model, ResNet, augment

__all__ = ["Setting", "batches", "build", "objective", "save", "train"]

# PATT: 0.5 x cross-entropy of logits divided by 0.9
_PATT_WEIGHT, _PATT_TEMPERATURE = 0.5, 0.9
_SUPERVISED_SCALE = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table of runs. `method` is "proco", "patt", "contrastive" (no auxiliary term) or "supervised"."""

    dataset: str
    method: str
    dim: int
    temperature: float
    epochs: int
    capture: tuple[int, ...] = ()
    seed: int = 3407
    learning_rate: float = 0.2
    warmup: int = 3
    batch: int = 256
    # a ResNet of depth 6 blocks + 2 with SGD; 0 is a perceptron with two hidden layers, with Adam
    blocks: int = 3


def train(setting: Setting, data: Data, out: Path, *, resume: bool, bfloat16: bool = False) -> None:
    """Train one setting; writes `out/log.jsonl`, a checkpoint after each epoch and one for each captured epoch."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(setting.seed)
    model, loss, optimizer = build(setting, data)
    start = 0
    latest = out / "latest.pt"
    if latest.exists() and not resume:
        raise SystemExit(f"{out} has a run already; go on with --resume, or choose another --out")
    if resume and latest.exists():
        saved = torch.load(latest, weights_only=True)
        if saved["setting"] != _record(setting):
            raise SystemExit(f"{latest} is of another setting: {saved['setting']}")
        model.load_state_dict(saved["model"])
        loss.load_state_dict(saved["loss"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"]
        console.print(f"resuming after epoch {start}")
    (out / "setting.json").write_text(json.dumps({**_record(setting), "data": data.name}, indent=2) + "\n")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    steps = math.ceil(len(data.train_labels) / setting.batch)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{data.name} {setting.method} p={setting.dim}", total=setting.epochs * steps)
        progress.update(task, completed=start * steps)
        for epoch in range(start, setting.epochs):
            began = time.perf_counter()
            generator = torch.Generator().manual_seed(10_000 * setting.seed + epoch)
            mean = _epoch(
                setting, data, model, loss, optimizer, generator, epoch, bfloat16, lambda: progress.advance(task)
            )
            if isinstance(loss, sf.nn.ProCoLoss):
                loss.statistics.advance()
            record: dict[str, Any] = {"epoch": epoch + 1, "loss": mean, "seconds": time.perf_counter() - began}
            last = epoch + 1 == setting.epochs
            if last or (epoch + 1) % 5 == 0 or (epoch + 1) in setting.capture:
                record |= _accuracy(setting, data, model, loss)
            with (out / "log.jsonl").open("a") as log:
                log.write(json.dumps(record) + "\n")
            console.print(record)
            checkpoint = {
                "setting": _record(setting),
                "epoch": epoch + 1,
                "model": model.state_dict(),
                "loss": loss.state_dict(),
            }
            if (epoch + 1) in setting.capture:
                save(checkpoint, out / f"epoch-{epoch + 1:03d}.pt")
            save({**checkpoint, "optimizer": optimizer.state_dict()}, latest)


def build(setting: Setting, data: Data) -> tuple[Model, nn.Module, torch.optim.Optimizer]:
    """The model, the vMF loss and the optimiser of a setting."""
    shape = data.train_images.shape[1:]
    encoder = ResNet(shape[0], setting.blocks) if setting.blocks else MLP(shape.numel())
    # the supervised loss reads concentration off an embedding's length: near p at the start, so that R is near 0.6
    scale = _SUPERVISED_SCALE if setting.method == "supervised" else 1.0
    model = Model(encoder, data.num_classes, setting.dim, scale).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    loss: nn.Module
    if setting.method == "supervised":
        loss = sf.nn.SupervisedVMFLoss(data.num_classes, setting.dim, beta=1 / setting.temperature)
    else:
        loss = sf.nn.ProCoLoss(
            data.num_classes,
            setting.dim,
            temperature=setting.temperature,
            class_counts=data.class_counts,
            seed=setting.seed,
        )
    if not setting.blocks:
        return model, loss, torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=setting.learning_rate)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": [*plain, *loss.parameters()], "weight_decay": 0.0}]
    return model, loss, torch.optim.SGD(groups, lr=setting.learning_rate, momentum=0.9, nesterov=True)


def _record(setting: Setting) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(setting).items()}


def _rate(setting: Setting, epoch: float) -> float:
    """Linear warm-up, then a cosine to zero."""
    if epoch < setting.warmup:
        return setting.learning_rate * (epoch + 0.05) / setting.warmup
    done = (epoch - setting.warmup) / (setting.epochs - setting.warmup)
    return setting.learning_rate * 0.5 * (1 + math.cos(math.pi * min(done, 1)))


def _epoch(
    setting: Setting,
    data: Data,
    model: Model,
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    epoch: int,
    bfloat16: bool,
    tick: Any,
) -> float:
    model.train(), loss.train()
    priors = torch.log(data.class_counts / data.class_counts.sum())
    order = torch.randperm(len(data.train_labels), generator=generator)
    total, batches = 0.0, list(order.split(setting.batch))
    for step, rows in enumerate(batches):
        if len(rows) < 2:
            continue
        for group in optimizer.param_groups:
            group["lr"] = _rate(setting, epoch + step / len(batches))
        images, labels = data.train_images[rows], data.train_labels[rows]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
            value = objective(setting, data, model, loss, images, labels, priors, generator)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_([*model.parameters(), *loss.parameters()], 5.0)
        optimizer.step()
        total += float(value.detach())
        if not math.isfinite(total):
            raise SystemExit(f"the loss is {total} at epoch {epoch + 1}, step {step}")
        tick()
    return total / len(batches)


def objective(
    setting: Setting,
    data: Data,
    model: Model,
    loss: nn.Module,
    images: Tensor,
    labels: Tensor,
    priors: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """The contrastive term on one view, and for ProCo and PATT the classifier's prior-adjusted term on another."""
    view = augment(images, generator, **data.views["contrastive"]).contiguous(memory_format=torch.channels_last)
    total: Tensor = loss(model.features(view), labels)
    if setting.method in ("proco", "patt"):
        plain = augment(images, generator, **data.views["classifier"]).contiguous(memory_format=torch.channels_last)
        logits = model.classify(plain).float()
        if setting.method == "proco":
            total = total + functional.cross_entropy(logits + priors, labels)
        else:
            total = total + _PATT_WEIGHT * functional.cross_entropy(logits / _PATT_TEMPERATURE + priors, labels)
    return total


def batches(images: Tensor, labels: Tensor, size: int = 500) -> Iterator[tuple[Tensor, Tensor]]:
    """Consecutive batches, in the layout of the model."""
    for start in range(0, len(labels), size):
        part = images[start : start + size].contiguous(memory_format=torch.channels_last)
        yield part, labels[start : start + size]


@torch.no_grad()
def _accuracy(setting: Setting, data: Data, model: Model, loss: nn.Module) -> dict[str, Any]:
    """Balanced test accuracy of the classifier and of the vMF head: all classes, and thirds by training size."""
    model.eval(), loss.eval()
    heads: dict[str, list[Tensor]] = {"vmf": []}
    if setting.method in ("proco", "patt"):
        heads["classifier"] = []
    for images, _ in batches(data.test_images, data.test_labels):
        hidden = model.encoder(images)
        if "classifier" in heads:
            heads["classifier"].append(model.classifier(hidden).argmax(dim=1))
        heads["vmf"].append(loss.logits(model.project(hidden)).argmax(dim=1))  # type: ignore[operator]
    ranks = data.class_counts.argsort(descending=True, stable=True).argsort()[data.test_labels]
    thirds = (3 * ranks) // data.num_classes
    out: dict[str, Any] = {}
    for name, parts in heads.items():
        right = (torch.cat(parts) == data.test_labels).double()
        out[f"{name}_accuracy"] = float(right.mean())
        if len(data.class_counts.unique()) > 1:
            for third, word in enumerate(("head", "middle", "tail")):
                out[f"{name}_{word}"] = float(right[thirds == third].mean())
    return out


def save(value: dict[str, Any], path: Path) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    torch.save(value, partial)
    os.replace(partial, path)
