"""Runs of training against the same in 50 digits, step by step: `python -m tests.attacks.trajectories` prints them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from suffice.nn.regression import mean_gradient
from suffice.nn.steps import Parameters
from suffice.nn.trajectory import Errors, TrajectoryBound
from tests.support.twins import ExactRun

__all__ = ["CASES", "Case", "Taken", "attacked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: sizes, steps, decays, what makes the gradient, and how its errors are bounded."""

    classes: int = 3
    dim: int = 4
    batch: int = 8
    steps: int = 60
    rate: float = 0.1
    decay: float = 0.0
    bias_decay: float | None = 0.0
    program: str = "float32"
    errors: Errors = "twin"
    scale: float = 1.0
    seed: int = 0


# steps to 3,000; several numbers of classes, dimensions, batch sizes; with decay, without, with an undecayed bias
CASES = (
    Case(steps=3000, errors="enclosed"),
    Case(steps=3000, decay=0.01, bias_decay=0.01, errors="enclosed", seed=1),
    Case(steps=3000, decay=0.01, bias_decay=0.01, errors="derived", seed=2),
    Case(steps=1000, decay=0.01, errors="twin", seed=3),
    Case(classes=2, dim=1, batch=1, steps=1000, rate=0.5, decay=0.1, bias_decay=0.1, errors="enclosed", seed=4),
    Case(classes=10, dim=20, batch=16, steps=100, decay=0.001, bias_decay=0.001, errors="derived", seed=5),
    Case(classes=10, dim=20, batch=1, steps=300, rate=0.05, errors="enclosed", seed=6),
    Case(classes=30, dim=12, batch=32, steps=40, decay=0.01, bias_decay=None, errors="twin", seed=7),
    Case(classes=5, dim=40, batch=64, steps=60, rate=0.02, bias_decay=None, errors="enclosed", seed=8),
    Case(classes=4, dim=6, batch=8, steps=300, rate=2.0, scale=3.0, decay=0.01, bias_decay=0.01, seed=9),
    Case(classes=4, dim=6, batch=8, steps=200, rate=0.01, scale=30.0, errors="derived", seed=10),
    Case(program="injected", steps=1000, decay=0.01, bias_decay=0.01, errors="enclosed", seed=11),
    Case(program="injected", classes=8, dim=16, steps=150, errors="derived", seed=12),
    Case(program="injected", steps=500, decay=0.1, bias_decay=0.1, errors="twin", seed=13),
    Case(
        program="int8", classes=6, dim=16, batch=16, steps=150, decay=0.01, bias_decay=0.01, errors="enclosed", seed=14
    ),
    Case(program="int8", steps=500, errors="twin", seed=15),
    Case(program="filtered", classes=20, dim=8, batch=16, steps=150, decay=0.01, errors="enclosed", seed=16),
    Case(program="filtered", steps=500, decay=0.01, bias_decay=0.01, errors="twin", seed=17),
    Case(program="adversarial", steps=3000, errors="derived", seed=18),
    Case(program="adversarial", steps=3000, decay=0.01, bias_decay=0.01, errors="derived", seed=19),
)

_ERROR = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a step said and what was true."""

    bound: float
    actual: float


def attacked(case: Case) -> Iterator[Taken]:
    """The bound and the true distance after every step."""
    g = torch.Generator().manual_seed(case.seed)
    head = nn.Linear(case.dim, case.classes, bias=case.bias_decay is not None)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=g))
    groups = [{"params": [head.weight], "weight_decay": case.decay}]
    if case.bias_decay is not None:
        groups.append({"params": [head.bias], "weight_decay": case.bias_decay})
    run = TrajectoryBound(head, torch.optim.SGD(groups, lr=case.rate), errors=case.errors)
    features = case.scale * torch.randn(128, case.dim, generator=g)
    labels = torch.randint(0, case.classes, (128,), generator=g)
    twin = ExactRun(head.weight.detach(), None if head.bias is None else head.bias.detach())
    for _ in range(case.steps):
        rows = torch.randint(0, 128, (case.batch,), generator=g)
        x, y = features[rows], labels[rows]
        gradient = _gradient(case, head, x, y, g)
        allowance = None if gradient is None or case.errors != "derived" else _allowance(head, x, y, gradient)
        bound = run.step(x, y, gradient=gradient, allowance=allowance)
        twin.step(x, y, case.rate, case.decay, case.bias_decay or 0.0)
        yield Taken(bound=bound, actual=twin.distance(*_parameters(head)))


def _parameters(head: nn.Linear) -> Parameters:
    return head.weight.detach(), None if head.bias is None else head.bias.detach()


def _gradient(case: Case, head: nn.Linear, x: Tensor, y: Tensor, g: torch.Generator) -> Parameters | None:
    """A gradient by another program than the run's own; None for that."""
    weight, bias = _parameters(head)
    if case.program == "float32":
        return None
    if case.program == "int8":
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        weight = (weight / scale).round() * scale
    made = mean_gradient(weight, bias, x, y)
    if case.program == "int8":
        return made.weight, made.bias
    if case.program == "filtered":
        residuals = (torch.softmax(x @ weight.T + (0 if bias is None else bias), dim=1)).clone()
        residuals[torch.arange(len(y)), y] -= 1
        residuals[residuals.abs() < 2**-4] = 0
        return residuals.T @ x / len(y), None if bias is None else residuals.mean(dim=0)
    if case.program == "injected":
        # as a formula's error: systematic, relative to what there is, and a little of noise
        of_weight = made.weight * (1 + _ERROR) + 0.1 * _ERROR * torch.randn(weight.shape, generator=g)
        return of_weight, made.bias
    # along all classes alike: no softmax sees it, so that no step takes it back
    away = torch.ones_like(weight)
    return made.weight + _ERROR * away / away.norm(), made.bias


def _allowance(head: nn.Linear, x: Tensor, y: Tensor, gradient: Parameters) -> float:
    """A proven bound on what the given gradient is off: measured in float64, with that one's own bound."""
    weight, bias = _parameters(head)
    exact = mean_gradient(weight.double(), None if bias is None else bias.double(), x.double(), y)
    squares = (gradient[0].double() - exact.weight).square().sum()
    if gradient[1] is not None and exact.bias is not None:
        squares = squares + (gradient[1].double() - exact.bias).square().sum()
    return float(squares.sqrt()) * (1 + 1e-9) + exact.error


def main() -> None:
    """A line a case: the last bound, over the actual distance, and the smallest and median quotient of all steps."""
    everything: list[float] = []
    shares: list[float] = []
    for case in CASES:
        taken = list(attacked(case))
        assert all(each.actual <= each.bound for each in taken), case
        quotients = [each.bound / each.actual for each in taken if each.actual > 0]
        everything += quotients
        if case.program == "adversarial":
            shares.append(taken[-1].actual / taken[-1].bound)
        sizes = f"C {case.classes:3} p {case.dim:3} n {case.batch:3} steps {case.steps:5}"
        last = f"E {taken[-1].bound:.2e} actual {taken[-1].actual:.2e}"
        found = f"last {quotients[-1]:.4g} median {statistics.median(quotients):.4g} least {min(quotients):.9g}"
        decays = f"decay {case.decay:6} / {case.bias_decay!s:6}"
        print(f"{case.program:12} {case.errors:9} {sizes} {decays} {last} over actual: {found}")  # noqa: T201
    print(f"all {len(everything)} steps: median {statistics.median(everything):.4g}, least {min(everything):.9g}")  # noqa: T201
    reached = [f"{share:.4f}" for share in shares]
    print(f"an adversary reaches, of the last bound: {', '.join(reached)}")  # noqa: T201


if __name__ == "__main__":
    main()
