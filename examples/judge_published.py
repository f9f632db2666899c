"""Judge the ways in which people compute this loss, and some broken ones: `python -m examples.judge_published`.

Every program is a function of features and labels, as in a training loop; its gradient is autograd's. The states are
built-in ones, and the same with concentrations as training may reach.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

import suffice as sf
from suffice.experiments.published import miller

__all__ = ["broken", "judged", "programs"]

Loss = Callable[[Tensor, Tensor], Tensor]
BUDGETS = sf.Budgets(loss=1e-5, gradient=1e-4)


class _Given(torch.autograd.Function):
    """Phi from a function that returns it and its derivative R, neither of which autograd sees."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, evaluate: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        value, ratio = evaluate(x.detach())
        ctx.save_for_backward(ratio)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (ratio,) = ctx.saved_tensors
        return grads[0] * ratio, None


def _given(evaluate: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Callable[[Tensor], Tensor]:
    def potential(x: Tensor) -> Tensor:
        found: Tensor = _Given.apply(x, evaluate)  # type: ignore[no-untyped-call]
        return found

    return potential


def _loss(states: sf.States, potential: Callable[[Tensor], Tensor], *, priors: bool = True) -> Loss:
    """Cross-entropy of Phi(|k mu + f/tau|) - Phi(k) + c, in the dtype of the features."""
    bank, tau = states.bank, states.temperature[0].item()

    def loss(features: Tensor, labels: Tensor) -> Tensor:
        mu, k = bank.directions.to(features.dtype), bank.concentrations.to(features.dtype)
        radii = torch.linalg.vector_norm(k[:, None] * mu + features[:, None] / tau, dim=2)
        scores = potential(radii) - potential(k) + (bank.biases.to(radii.dtype) if priors else 0.0)
        return torch.nn.functional.cross_entropy(scores, labels, reduction="none")

    return loss


def programs(states: sf.States) -> Iterator[tuple[str, Loss, torch.dtype]]:
    """Name, loss and the dtype that it is given."""
    bank = states.bank

    def special(x: Tensor) -> Tensor:
        return -sf.special.vmf_log_normalizer(bank.dim, x)

    def recurrence(x: Tensor) -> tuple[Tensor, Tensor]:
        log, _, ratio = miller(int(bank.nu), x)
        return log - bank.nu * torch.log(x), ratio

    def separate(x: Tensor) -> Tensor:
        return sf.special.log_bessel_i(bank.nu, x) - bank.nu * torch.log(x)

    yield "suffice.special, float64", _loss(states, special), torch.float64
    yield "published recurrence, float64", _loss(states, _given(recurrence)), torch.float64
    yield "separate log-Bessel values, float32", _loss(states, separate), torch.float32
    yield "suffice.special, float32", _loss(states, special), torch.float32
    exact = _loss(states, special)

    def autocast(features: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return exact(features.bfloat16().float(), labels)

    yield "bfloat16 autocast", autocast, torch.float32
    for library, ive, dtype in _libraries(bank.nu):
        yield library, _loss(states, _given(ive)), dtype


def _libraries(nu: float) -> Iterator[tuple[str, Callable[[Tensor], tuple[Tensor, Tensor]], torch.dtype]]:
    """log I_nu and the ratio from SciPy and from TensorFlow Probability on JAX, if these are installed."""

    def from_logs(first: Tensor, second: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return first + x - nu * torch.log(x), torch.exp(second - first)

    try:
        from scipy import special
    except ImportError:
        pass
    else:

        def ive(x: Tensor) -> tuple[Tensor, Tensor]:
            first, second = (torch.from_numpy(special.ive(order, x.numpy())).log() for order in (nu, nu + 1))
            return from_logs(first, second, x)

        yield "SciPy ive, float64", ive, torch.float64
    try:
        import tensorflow_probability.substrates.jax as tfp
    except ImportError:
        return

    def log_ive(x: Tensor) -> tuple[Tensor, Tensor]:
        logs = (np.array(tfp.math.log_bessel_ive(order, x.numpy())) for order in (nu, nu + 1))
        first, second = (torch.from_numpy(log) for log in logs)
        return from_logs(first, second, x)

    yield "TensorFlow Probability, float32", log_ive, torch.float32


def broken(states: sf.States) -> Iterator[tuple[str, Loss, torch.dtype]]:
    """Slips that a test should catch, each in an otherwise right loss."""
    name, right, dtype = next(programs(states))
    del name
    tau, classes = states.temperature[0].item(), states.num_classes

    def without_tau(features: Tensor, labels: Tensor) -> Tensor:
        found = right(features, labels)
        return tau * found + (1 - tau) * found.detach()

    yield "a gradient without 1/tau", without_tau, dtype
    yield "labels counted from 1", lambda f, y: right(f, (y + 1) % classes), dtype
    bare = _loss(states, lambda x: -sf.special.vmf_log_normalizer(states.dim, x), priors=False)
    yield "no log-priors", bare, dtype
    yield "the mean of the batch", lambda f, y: right(f, y) / len(y), dtype


def judged(loss: Loss, states: sf.States, dtype: torch.dtype) -> str:
    """What the assertion says: nothing but a count where all is well."""
    try:
        found = sf.testing.assert_adequate(loss, states, BUDGETS, dtype=dtype)
    except AssertionError as error:
        return str(error)
    return f"all {len(found)} states are certified"


def main(count: int = 64) -> None:
    """Every program at states as they were saved and with large concentrations; the broken ones once."""
    states = next(iter(sf.builtin_collection())).states[:count]
    bank = states.bank
    scale = 6368.0 / bank.concentrations.max().item()
    large = sf.ClassBank(bank.directions, bank.concentrations * scale, bank.biases)
    grown = sf.States(large, states.features, states.labels, states.temperature)
    for words, some in (("states of a training run", states), ("the same with concentrations up to 6368", grown)):
        print(f"# {words}\n")
        for name, loss, dtype in programs(some):
            print(f"## {name}\n{judged(loss, some, dtype)}\n")
    print("# broken on purpose\n")
    for name, loss, dtype in broken(states):
        print(f"## {name}\n{judged(loss, states, dtype)}\n")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
