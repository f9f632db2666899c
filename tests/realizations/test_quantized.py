"""Quantised heads: what screening returns is the exact head's, and allowances hold, against rational arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.registry import contract_named
from tests.reference.heads import exact_head
from tests.reference.rational_heads import rational_scores, rational_top
from tests.support.moved_heads import adversarial_states, errors_of, gaussian_states
from tests.support.screened_heads import KINDS, hard_head

SCHEMES: dict[str, dict[str, Any]] = {
    "int8": {"scheme": "int8"},
    "int8 by 8": {"scheme": "int8", "group": 8},
    "int4 by 8": {"scheme": "int4", "group": 8},
    "int4 deflated": {"scheme": "int4", "group": 4, "deflate": 1},
    "fp8": {"scheme": "fp8"},
}
ADVERSARIAL = adversarial_states()


def quantized(head: sf.LinearHead, hidden: Tensor, name: str) -> sf.Quantized:
    given = dict(SCHEMES[name])
    calibrated = given.get("deflate") or len(hidden) % 2
    return sf.Quantized(head, **given, calibration=hidden if calibrated else None)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_the_exact_heads(kind: str, name: str) -> None:
    for seed in range(3):
        head, hidden = hard_head(kind, 31 * seed + len(kind), states=3 + seed % 2)
        screen = quantized(head, hidden, name)
        free = int((~head.masked).sum())
        k = min(3, free)
        found, top = screen.argmax(hidden), screen.topk(hidden, k)
        g = torch.Generator().manual_seed(seed)
        noise = torch.rand(len(hidden), head.num_classes, generator=g, dtype=torch.float64).log().neg().log().neg()
        size = float(hidden.double().abs().max() * head.weight.double().abs().max())
        temperature = min(max(size, 1e-300), 1e300)
        drawn = screen.sample(hidden, noise, temperature)
        for n in range(len(hidden)):
            scores = rational_scores(head, hidden[n])
            first, tie = rational_top(scores)
            assert found.index[n].item() == first[0]
            assert found.ties[n].item() == tie
            assert (top.index[n].tolist(), top.ties[n].item()) == rational_top(scores, k)
            of_noise = rational_top(rational_scores(head, hidden[n], noise[n], temperature))
            assert ([drawn.index[n].item()], drawn.ties[n].item()) == of_noise
        for record in (found, top, drawn):
            assert record.certified.all()
            assert (record.exact_rows <= head.num_classes).all()


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("kind", ["gaussian", "outliers", "duplicated rows", "biases and masks", "bfloat16 rows"])
def test_losses_are_within_their_bounds(kind: str, name: str) -> None:
    head, hidden = hard_head(kind, 7)
    labels = torch.zeros(len(hidden), dtype=torch.int64)
    screen = quantized(head, hidden, name)
    for budget in (10.0, 1e-2, 1e-9):
        found = screen.loss(hidden, labels, budget=budget, temperature=0.7)
        assert found.certified.all()
        assert (found.bound <= budget).all()
        for n in range(len(hidden)):
            exact = exact_head(sf.HeadStates(head, hidden[n : n + 1], labels[:1], 0.7)).log_probabilities[0]
            assert exact is not None
            assert abs(found.value[n].item() + exact) <= found.bound[n].item()
    assert (found.exact_rows >= 1).all()


def test_a_budget_beyond_float64_raises() -> None:
    head, hidden = hard_head("gaussian", 7)
    with pytest.raises(ValueError, match="Expected a budget that float64 can decide, but got 1e-18 at row 0"):
        sf.Quantized(head, "int8").loss(hidden, [0, 0, 0, 0], budget=1e-18)


def test_fewer_exact_rows_for_a_larger_budget() -> None:
    g = torch.Generator().manual_seed(3)
    head = sf.LinearHead(torch.randn(2000, 32, generator=g))
    hidden = torch.randn(6, 32, generator=g)
    screen = sf.Quantized(head, "int8", group=16)
    loose, tight = (screen.loss(hidden, [5] * 6, budget=b) for b in (1.0, 1e-4))
    assert (loose.exact_rows == 1).all()
    assert (tight.exact_rows > 16).all()


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("state", ADVERSARIAL)
def test_bounds_hold_on_adversarial_states(state: str, name: str) -> None:
    states = ADVERSARIAL[state]
    realization = quantized(states.bank, states.hidden, name)
    made = realization.at(states)
    for contract in ("geometry", "centered"):
        bounds = made.bounds(contract_named(contract))
        for n in range(len(states)):
            if not torch.isfinite(bounds.loss[n]):
                continue
            found = errors_of(made, n, realization.rows.rows(slice(None)))
            assert found.loss <= bounds.loss[n].item()
            assert found.probability <= bounds.probability[n].item()
            assert found.gradient <= bounds.gradient[n].item()
            assert found.same or not bounds.prediction[n]


@pytest.mark.parametrize("name", SCHEMES)
def test_scores_are_within_their_allowances(name: str) -> None:
    closest = 0.0
    for seed in range(4):
        states = gaussian_states(seed, count=3, classes=9, dim=16)
        made = quantized(states.bank, states.hidden, name).at(states)
        for n in range(len(states)):
            for j, q in enumerate(exact_head(states[n : n + 1]).scores):
                if q is not None:
                    error = float(abs(q - made.scores[n, j].item()))
                    assert error <= made.d[n, j].item()
                    closest = max(closest, error / made.d[n, j].item())
    assert closest > 0.3


def test_certified_by_few_bits_and_less_by_fewer() -> None:
    states = gaussian_states(1, count=30, classes=20, dim=32)
    budgets = sf.Budgets(probability=0.2)
    shares = {
        name: sf.certify(states, budgets, quantized(states.bank, states.hidden, name)).certified.double().mean()
        for name in ("int8 by 8", "int4 by 8")
    }
    assert shares["int8 by 8"] > shares["int4 by 8"]


def test_rows_that_are_quantised_already() -> None:
    states = gaussian_states(2, count=5)
    screen = sf.Quantized(states.bank, states.bank.weight.bfloat16())
    assert screen.words == "given rows"
    found = screen.argmax(states.hidden)
    exact = [rational_top(rational_scores(states.bank, h))[0][0] for h in states.hidden]
    assert found.index.tolist() == exact
    assert torch.equal(screen.at(states).row_errors > 0, torch.ones(12, dtype=torch.bool))


def test_what_it_says_of_itself() -> None:
    head = sf.LinearHead(torch.eye(4))
    one, other = sf.Quantized(head, "int8"), sf.Quantized(head, "int4", group=2)
    assert one.words == "int8 by rows"
    assert other.words == "int4 by groups of 2"
    assert sf.Quantized(head, "fp8", deflate=2, calibration=torch.eye(4)).words.endswith("2 directions deflated")
    assert one.record() != other.record()
    assert one.record() == sf.Quantized(head, "int8").record()


def test_bad_input_in_our_words() -> None:
    head = sf.LinearHead(torch.eye(4), torch.tensor([0.0, 0.0, 0.0, -torch.inf]))
    good = torch.ones(2, 4)
    screen = sf.Quantized(head, "int8")
    with pytest.raises(ValueError, match=r"Expected scheme in \['int8', 'int4', 'fp8'\]"):
        sf.Quantized(head, "int3")
    with pytest.raises(ValueError, match="Expected a group for int4"):
        sf.Quantized(head, "int4")
    with pytest.raises(ValueError, match="Expected calibration vectors"):
        sf.Quantized(head, "int8", deflate=1)
    with pytest.raises(ValueError, match="Expected deflate between 0 and 4"):
        sf.Quantized(head, "int8", deflate=5, calibration=good)
    with pytest.raises(ValueError, match=r"Expected quantised rows \(4, 4\)"):
        sf.Quantized(head, torch.ones(4, 3))
    with pytest.raises(TypeError, match="Expected the head to be a LinearHead"):
        sf.Quantized(good, "int8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected hidden to be finite"):
        screen.argmax(torch.full((1, 4), torch.nan))
    with pytest.raises(ValueError, match="Expected at least one vector in hidden, but got none"):
        screen.argmax(torch.empty(0, 4))
    for k in (0, 4, True):
        with pytest.raises(ValueError, match="Expected k between 1 and 3"):
            screen.topk(good, k)
    with pytest.raises(ValueError, match=r"Expected noise as floats \(2, 4\)"):
        screen.sample(good, torch.ones(2, 3))
    with pytest.raises(ValueError, match="Expected noise to be finite"):
        screen.sample(good, torch.full((2, 4), torch.inf))
    with pytest.raises(ValueError, match="temperature"):
        screen.sample(good, torch.ones(2, 4), 0.0)
    with pytest.raises(ValueError, match="Expected temperature times noise to be finite"):
        screen.sample(good, torch.full((2, 4), 1e300, dtype=torch.float64), 1e300)
    with pytest.raises(ValueError, match=r"Expected labels in \[0, 4\), but got -100 at row 1"):
        screen.loss(good, [0, -100], budget=1.0)
    with pytest.raises(ValueError, match="Expected labels of classes that are not masked"):
        screen.loss(good, [0, 3], budget=1.0)
    with pytest.raises(ValueError, match="budget"):
        screen.loss(good, [0, 0], budget=0.0)
    with pytest.raises(ValueError, match="Expected states of the head that was quantised"):
        screen.at(sf.HeadStates(sf.LinearHead(2 * torch.eye(4)), good))
    with pytest.raises(TypeError, match="Expected HeadStates"):
        screen.at(good)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"block": 0}, "block to be a positive integer"),
        ({"block": -2}, "block to be a positive integer"),
        ({"block": 1.5}, "block to be a positive integer"),
        ({"deflate": 1.5, "calibration": torch.ones(1, 3)}, "deflate between 0 and 3"),
        ({"deflate": "a", "calibration": torch.ones(1, 3)}, "deflate between 0 and 3"),
        ({"scheme": None}, "tensor of floats, but got NoneType"),
        ({"scheme": torch.zeros(5, 3, dtype=torch.int8)}, "tensor of floats, but got torch.int8"),
    ],
)
def test_more_bad_input_in_our_words(given: dict[str, Any], words: str) -> None:
    head = sf.LinearHead(torch.eye(5)[:, :3].contiguous())
    with pytest.raises((TypeError, ValueError), match=words):
        sf.Quantized(head, **{"scheme": "int8", **given})


def test_a_loss_needs_labels() -> None:
    with pytest.raises(ValueError, match="one label for each hidden vector"):
        sf.Quantized(sf.LinearHead(torch.eye(3)), "int8").loss(torch.ones(2, 3), None, budget=0.1)
