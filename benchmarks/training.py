"""A ProCo training step against the published way of computing it, in time and in memory; the monitor's overhead.

`python -m benchmarks.training` prints the three overheads of a monitor, one thread; all else is called by others.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize

import suffice as sf
from benchmarks.published import PublishedProCo
from benchmarks.timing import Contender, Ratio, seconds, versus
from examples.datasets import Data
from examples.networks import augment
from examples.runs import RUNS
from examples.training import build, objective

__all__ = [
    "head_monitor_overhead",
    "language_head_overhead",
    "main",
    "monitor_overhead",
    "step_memory",
    "step_ratio",
]

QUERIES, CLASSES, DIM, TEMPERATURE = 128, 1000, 1024, 0.07


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3407)
    features = torch.randn(QUERIES, DIM, generator=generator)
    return features, torch.randint(0, CLASSES, (QUERIES,), generator=generator)


def ours() -> Any:
    """Forward, backward and statistics update of `ProCoLoss`, eager, float32."""
    features, labels = _batch()
    loss = sf.nn.ProCoLoss(CLASSES, DIM, temperature=TEMPERATURE)
    leaf = features.requires_grad_()

    def step() -> None:
        leaf.grad = None
        loss(leaf, labels).backward()

    return step


def published() -> Any:
    """The same as published code does it."""
    features, labels = _batch()
    torch.manual_seed(0)
    peer = PublishedProCo(CLASSES, DIM, TEMPERATURE, torch.full((CLASSES,), 1 / CLASSES).log())
    leaf = features.requires_grad_()

    def step() -> None:
        leaf.grad = None
        unit = normalize(leaf, dim=1)
        peer.update(unit.detach(), labels)
        peer.loss(unit, labels).backward()

    return step


def step_ratio() -> Ratio:
    """Theirs over ours."""
    threads = torch.get_num_threads()
    first = Contender(name="ProCoLoss", run=seconds(ours()), threads=threads, dtype="float32")
    second = Contender(
        name="published step", run=seconds(published()), threads=threads, dtype="float32, Bessel float64"
    )
    return versus(first, second, repeats=3)


_MEMORY = """
import sys
from benchmarks import training
from benchmarks.memory import peak_of

print(peak_of(getattr(training, sys.argv[1])())[1])
"""


def step_memory(root: Path) -> tuple[float, dict[str, int]]:
    """Peak memory above the inputs of one step: ours over theirs."""
    peaks = {}
    for name in ("ours", "published"):
        done = subprocess.run(
            [sys.executable, "-c", _MEMORY, name], cwd=root, capture_output=True, text=True, check=True
        )
        peaks[name] = int(json.loads(done.stdout.strip()))
    return peaks["ours"] / peaks["published"], peaks


def _training(monitored: bool) -> Callable[[], None]:
    """50 steps of a small convolutional network with 100 classes, one of which reports if it is monitored."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.Flatten()
    )
    head = nn.Linear(64 * 7 * 7, 100)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    images, labels = torch.randn(128, 3, 32, 32), torch.randint(0, 100, (128,))
    monitor = sf.nn.ToleranceMonitor(head, noise=0.1, realization=sf.RoundedLogits(torch.bfloat16), every=50)
    if not monitored:
        monitor.remove()

    def steps() -> None:
        for _ in range(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(body(images)), labels).backward()
            optimizer.step()
            if monitored:
                monitor(labels=labels)

    return steps


def head_monitor_overhead(repeats: int = 15) -> tuple[float, dict[str, float]]:
    """Whole training over whole training: 50 steps with one report by the monitor of a linear head, and without."""
    runs = {"monitored": _training(True), "plain": _training(False)}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    best = {name: min(each[1:]) for name, each in times.items()}
    return best["monitored"] / best["plain"], best


def language_head_overhead(repeats: int = 5) -> tuple[float, dict[str, float]]:
    """1 + (one report)/(50 steps) of the head of a language model by itself: 1,024 rows, 49,152 classes."""
    torch.manual_seed(0)
    head, hidden = nn.Linear(576, 49_152, bias=False), torch.randn(1024, 576)
    labels = torch.randint(0, 49_152, (1024,))
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    monitor = sf.nn.ToleranceMonitor(head, noise=0.1, realization=sf.RoundedLogits(torch.bfloat16), every=1)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(hidden), labels).backward()
        optimizer.step()

    runs: dict[str, Callable[[], object]] = {"step": step, "monitor": lambda: monitor(labels=labels)}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    best = {name: min(each[1:]) for name, each in times.items()}
    return 1 + best["monitor"] / (50 * best["step"]), best


def monitor_overhead() -> tuple[float, dict[str, float]]:
    """1 + (one monitor call with sample=64)/(50 training steps of the run cifar100-lt/proco-128)."""
    setting = RUNS["cifar100-lt/proco-128"]
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(256, 3, 32, 32, generator=generator)
    labels = torch.arange(256) % 100
    data = Data(
        name="random images of the same size",
        train_images=images,
        train_labels=labels,
        test_images=images,
        test_labels=labels,
        num_classes=100,
        views={"classifier": {"flip": True, "erase": 5}, "contrastive": {"flip": True, "jitter": 0.3, "erase": 4}},
    )
    model, loss, optimizer = build(setting, data)
    priors = torch.log(data.class_counts / data.class_counts.sum())

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = objective(setting, data, model, loss, images, labels, priors, generator)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()

    assert isinstance(loss, sf.nn.ProCoLoss)
    monitor = sf.nn.ToleranceMonitor(loss, sf.Budgets(loss=1e-5, gradient=1e-5), every=1, sample=64)
    view = augment(images, generator, **data.views["contrastive"])
    with torch.no_grad():
        features = model.features(view)
    runs = {"step": seconds(step), "monitor": seconds(lambda: monitor(features, labels))}
    for run in runs.values():
        run()
    turns = [{name: run() for name, run in runs.items()} for _ in range(7)]
    times = {name: statistics.median(turn[name] for turn in turns) for name in runs}
    return 1 + times["monitor"] / (50 * times["step"]), times


def main() -> None:
    """The overheads of monitors at every = 50, each with the times that it is made of."""
    torch.set_num_threads(1)
    found = {
        "a network of 100 classes": head_monitor_overhead,
        "a language model's head": language_head_overhead,
        "cifar100-lt/proco-128": monitor_overhead,
    }
    for name, measured in found.items():
        overhead, times = measured()
        seconds_of = ", ".join(f"{part} {value:.4f} s" for part, value in times.items())
        print(f"monitor_overhead of {name}: {overhead:.4f} ({seconds_of})", flush=True)


if __name__ == "__main__":
    main()
