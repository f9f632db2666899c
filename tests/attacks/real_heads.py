"""States of real language models under attack, at full size: certificates and screening against float64 differences.

`python -m tests.attacks.real_heads [STATES.safetensors COUNT]`: the 1,024 states that ship, or captured ones (see
examples/audit_language_model.py). What a realization does to a logit is formed by itself, from what it does to the rows
or by the program as it runs; probabilities follow from that, not from differences of two large numbers. A result that
float64 leaves in doubt is looked at in integers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

import suffice as sf
from suffice.numerics.nearest import nearest
from suffice.numerics.rounding import gamma
from tests.reference.integer_heads import IntegerHead

__all__ = ["RealTally", "attack_real", "captured", "shipped"]

BUDGETS = sf.Budgets(loss=0.05, probability=0.05, kl=0.05, gradient=0.5, prediction=True)
_NAMES = ("loss", "probability", "kl", "gradient")
# float64 outputs are off by less than this, absolutely (of a gradient: in units of the longest row) and relatively
_OFF, _CLOSE = 1e-10, 1e-9
_TOP = 5


@dataclass
class RealTally:
    """What was compared, the least bound over its actual value, and what was wrong."""

    states: int = 0
    allowances: int = 0
    bounds: int = 0
    certified: int = 0
    screened: int = 0
    doubtful: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.states} states, {self.allowances} allowances, {self.bounds} bounds, {self.certified} certified, "
        told += f"{self.screened} screened results ({self.doubtful} by integers): {len(self.wrong)} wrong"
        return "\n".join([told, *self.wrong[:20]])


def shipped() -> list[sf.HeadStates]:
    """The 1,024 states of the built-in language model, as they are kept."""
    return [batch.states for batch in sf.builtin_collection("language")]


def captured(path: str, count: int) -> sf.HeadStates:
    """The first of some captured states."""
    kept = load_file(path)
    return sf.HeadStates(sf.LinearHead(kept["weight"]), kept["hidden"][:count], kept["labels"][:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A realization with the rows that it uses, and what it does to logits: errors [N, V] of one run."""

    name: str
    realization: Any
    rows: Tensor
    errors: Any


def _cases(states: sf.HeadStates) -> Iterator[_Case]:
    head, w = states.bank, states.bank.weight.double()
    for name, given in {
        "int8": {"scheme": "int8"},
        "int8 by 64": {"scheme": "int8", "group": 64},
        "int4 by 32, deflated": {"scheme": "int4", "group": 32, "deflate": 16, "calibration": states.hidden},
        "fp8": {"scheme": "fp8"},
    }.items():
        made = sf.Quantized(head, **given)
        rows = made.rows.rows(slice(None))
        yield _Case(name=name, realization=made, rows=rows, errors=_of_rows(made, rows - w))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        rows = nearest(w, dtype)
        steps = sf.compose(sf.ProductIn(dtype), sf.RoundedLogits(dtype))
        yield _Case(name=f"all in {dtype}", realization=steps, rows=rows, errors=_of_product(head, w, rows, dtype))


def _of_rows(made: sf.Quantized, moved: Tensor) -> Any:
    deflation = made.residuals.deflation

    def errors(h: Tensor) -> Tensor:
        found = h @ moved.T
        return found if deflation is None else found + (h @ deflation.directions) @ deflation.parts.T

    return errors


def _of_product(head: sf.LinearHead, w: Tensor, rows: Tensor, dtype: torch.dtype) -> Any:
    narrow = rows.float()

    def errors(h: Tensor) -> Tensor:
        made = nearest((nearest(h, dtype).float() @ narrow.T + head.bias.float()).double(), dtype)
        return made - (h @ w.T + head.bias)

    return errors


def attack_real(*batches: sf.HeadStates, told: bool = False) -> RealTally:
    """Every case at all of the states, then screening."""
    tally = RealTally()
    for states in batches:
        tally.states += len(states)
        for case in _cases(states):
            for part in torch.arange(len(states)).split(64):
                _one(tally, case, states[part])
            if told:
                sys.stdout.write(f"{case.name}: {tally}\n")
                sys.stdout.flush()
        _screened(tally, states)
    return tally


def _one(tally: RealTally, case: _Case, states: sf.HeadStates) -> None:
    head, w, tau = states.bank, states.bank.weight.double(), states.temperature[:, None]
    assert states.labels is not None
    exact, error = states.hidden @ w.T + head.bias, case.errors(states.hidden)
    made = case.realization.at(states)
    # of the two products here
    size = torch.linalg.vector_norm(states.hidden, dim=1)[:, None] * torch.linalg.vector_norm(w, dim=1)
    doubt = 4 * gamma(head.dim + 8, torch.float64) * (size + head.bias.abs()) / tau
    over = error.abs() / tau > made.d + doubt
    tally.allowances += over.numel()
    if bool(over.any()):
        tally.wrong.append(f"{case.name}: {int(over.sum())} errors above their allowances")
    actual = _actual(exact / tau, error / tau, states, case.rows)
    found = sf.certify(states, BUDGETS, case.realization)
    certified = torch.as_tensor(found.certified)
    tally.certified += int(certified.sum())
    for name in _NAMES:
        off = _OFF * (float(head.lengths.max()) if name == "gradient" else 1.0)
        value, limit = actual[name] * (1 - _CLOSE) - off, getattr(BUDGETS, name)
        tally.bounds += len(states)
        for words, bad in (("bound", value > getattr(found, name)), ("budget", certified & (value > limit))):
            if bool(bad.any()):
                tally.wrong.append(f"{case.name}, {name}: {int(bad.sum())} above the {words}")
    moved = (exact + error).argmax(dim=1) != exact.argmax(dim=1)
    if bool((moved & (found.prediction | certified)).any()):
        tally.wrong.append(f"{case.name}: another prediction")


def _actual(q: Tensor, e: Tensor, states: sf.HeadStates, rows: Tensor) -> dict[str, Tensor]:
    """Errors of the outputs where scores q are moved by e."""
    assert states.labels is not None
    p, label = torch.softmax(q, dim=1), states.labels[:, None]
    grown = torch.log1p((p * torch.expm1(e)).sum(dim=1))
    other = p * torch.exp(e - grown[:, None])
    one_hot = torch.zeros_like(p).scatter(1, label, 1.0)
    gradient = (other - p) @ states.bank.weight.double() + (other - one_hot) @ (rows - states.bank.weight.double())
    return {
        "loss": (grown - e.gather(1, label).squeeze(1)).abs(),
        "probability": (other - p).abs().sum(dim=1) / 2,
        "kl": torch.maximum(grown - (p * e).sum(dim=1), (other * e).sum(dim=1) - grown),
        "gradient": torch.linalg.vector_norm(gradient, dim=1) / states.temperature,
    }


def _screened(tally: RealTally, states: sf.HeadStates) -> None:
    """Argmax by every scheme, top k and samples by int8."""
    head, h = states.bank, states.hidden
    for name, given in {
        "int8 by integers": {"scheme": "int8", "calibration": h},
        "int8 by 64": {"scheme": "int8", "group": 64},
        "int4 by 32, deflated": {"scheme": "int4", "group": 32, "deflate": 16, "calibration": h},
        "fp8": {"scheme": "fp8", "block": 32},
    }.items():
        screen = sf.Quantized(head, **given)
        for part in torch.arange(len(h)).split(64):
            exact = h[part] @ head.weight.double().T + head.bias
            _compare(tally, f"{name}, argmax", screen.argmax(h[part]), exact, (head, h[part]), 1)
            if name == "int8 by integers":
                _compare(tally, f"{name}, top", screen.topk(h[part], _TOP), exact, (head, h[part]), _TOP)
                g = torch.Generator().manual_seed(int(part[0]))
                noise = torch.rand(exact.shape, generator=g, dtype=torch.float64).log().neg().log().neg()
                drawn = screen.sample(h[part], noise, 0.75)
                _compare(tally, f"{name}, sample", drawn, exact + 0.75 * noise, (head, h[part]), 1, noise)


def _compare(
    tally: RealTally,
    name: str,
    found: Any,
    exact: Tensor,
    given: tuple[sf.LinearHead, Tensor],
    k: int,
    noise: Tensor | None = None,
) -> None:
    best = exact.topk(k + 1, dim=1)
    tally.screened += len(exact)
    near = (best.values[:, :-1] - best.values[:, 1:]).amin(dim=1) <= 1e-9 * (1 + best.values.abs().amax(dim=1))
    index = found.index.view(len(exact), -1)
    right = (index == best.indices[:, :k]).all(dim=1)
    for n in near.nonzero()[:, 0].tolist():
        tally.doubtful += 1
        head, h = given
        top, _ = IntegerHead(head, h[n : n + 1]).top(0, k, None if noise is None else noise[n], 0.75)
        right[n] = index[n].tolist() == top
    if not bool(right.all() & found.certified.all()):
        tally.wrong.append(f"{name}: {int((~right).sum())} wrong")


if __name__ == "__main__":
    asked = [captured(sys.argv[1], int(sys.argv[2]))] if len(sys.argv) > 1 else shipped()
    sys.stdout.write(f"{attack_real(*asked, told=True)}\n")
