"""Products, logits and exponentials in few digits: what programs really return is within the bounds."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb
from torch import Tensor

import suffice as sf
from suffice.contracts.registry import contract_named
from suffice.numerics.nearest import nearest
from suffice.realizations.rounded import RoundedRows
from tests.reference.heads import exact_head, head_errors, head_of_scores
from tests.support.moved_heads import adversarial_states, gaussian_states

ADVERSARIAL = adversarial_states()


def in_some_order(rows: Tensor, h: Tensor, bias: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """sum_i w_i h_i + c in float32 or float64, its terms shuffled and cut into runs of random length."""
    g = torch.Generator().manual_seed(seed)
    order = torch.randperm(rows.shape[1], generator=g)
    terms = rows[:, order].to(dtype) * h[order].to(dtype)
    parts = [torch.zeros(len(rows), dtype=dtype)]
    for i in range(terms.shape[1]):
        if int(torch.randint(0, 3, (1,), generator=g)) == 0:
            parts.append(torch.zeros(len(rows), dtype=dtype))
        parts[-1] = parts[-1] + terms[:, i]
    total = parts[0]
    for part in parts[1:]:
        total = part + total
    return (total + bias.to(dtype)).double()


def check(states: sf.HeadStates, realization: sf.Realization, logits: Tensor, rows: Tensor, after: float = 0.0) -> int:
    """Outputs of a program with these logits are within the bounds of the realization; how many are finite."""
    made = realization.at(states)
    scores = logits / states.temperature[:, None]
    finite = 0
    for contract in ("geometry", "conditioned", "centered"):
        bounds = made.bounds(contract_named(contract))
        for n in range(len(states)):
            if not math.isfinite(bounds.loss[n].item()):
                assert not bounds.prediction[n]
                continue
            finite += 1
            state = states[n : n + 1]
            known = [
                None if c == -torch.inf else arb(q) for q, c in zip(scores[n].tolist(), states.bank.bias, strict=True)
            ]
            found = head_errors(state, exact_head(state), head_of_scores(state, known, rows))
            assert found.loss + after <= bounds.loss[n].item()
            assert found.probability <= bounds.probability[n].item()
            assert found.gradient <= bounds.gradient[n].item()
            assert found.same or not bounds.prediction[n]
    return finite


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_products_in_any_order(dtype: torch.dtype) -> None:
    realization = sf.ProductIn(dtype)
    for seed in range(4):
        states = gaussian_states(seed, count=3, dim=40)
        rows = nearest(states.bank.weight.double(), dtype)
        for order in range(3):
            logits = torch.stack(
                [in_some_order(rows, h, states.bank.bias, torch.float32, order) for h in nearest(states.hidden, dtype)]
            )
            assert check(states, realization, logits, rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_states(name: str, dtype: torch.dtype) -> None:
    states = ADVERSARIAL[name]
    rows = nearest(states.bank.weight.double(), dtype)
    h = nearest(states.hidden, dtype)
    logits = torch.stack([in_some_order(rows, x, states.bank.bias, torch.float32, 1) for x in h])
    check(states, sf.ProductIn(dtype), logits, torch.where(torch.isfinite(rows), rows, 0.0))
    exact = states.hidden @ states.bank.weight.double().T + states.bank.bias
    check(states, sf.RoundedLogits(dtype), nearest(exact, dtype), states.bank.weight)


def test_overflow_is_not_certified() -> None:
    states = gaussian_states(1, count=3)
    budgets = sf.Budgets(probability=1.0)
    huge = sf.HeadStates(states.bank, 1e6 * states.hidden, states.labels)
    assert not sf.certify(huge, budgets, sf.RoundedLogits(torch.float16)).certified.any()
    assert not sf.certify(huge, budgets, sf.ProductIn(torch.float16)).certified.any()
    assert sf.certify(huge, budgets, sf.RoundedLogits(torch.bfloat16)).certified.all()
    sums = sf.HeadStates(sf.LinearHead(torch.full((2, 4), 1e30)), torch.full((1, 4), 1e10))
    assert not sf.certify(sums, budgets, sf.ProductIn(torch.float32)).certified.any()


def test_rounded_logits_are_known_numbers() -> None:
    """Not by a unit roundoff: by what rounding did to these very logits."""
    states = sf.HeadStates(sf.LinearHead(torch.tensor([[256.0], [3.0], [1.0]])), torch.tensor([[1.0]]), [0])
    assert (sf.RoundedLogits(torch.bfloat16).at(states).d < 1e-9).all()
    other = sf.HeadStates(sf.LinearHead(torch.tensor([[257.0], [3.0], [1.0]])), torch.tensor([[1.0]]), [0])
    assert sf.RoundedLogits(torch.bfloat16).at(other).d[0, 0] >= 1.0


def test_what_is_subnormal_may_be_flushed() -> None:
    states = sf.HeadStates(sf.LinearHead(torch.tensor([[2.0**-16], [0.5]])), torch.tensor([[1.0]]), [0])
    made = sf.RoundedLogits(torch.float16).at(states)
    assert made.d[0, 0] >= 2.0**-16
    assert made.d[0, 1] < 2.0**-40


@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 0.9])
def test_approximate_exponentials(size: float) -> None:
    """Probabilities from e^x (1 + delta) with the worst signs, and both kinds of losses."""
    for seed in range(3):
        states = gaussian_states(seed, count=3)
        exact = sf.ExactHead().at(states).scores
        g = torch.Generator().manual_seed(seed)
        for sign in (torch.randint(0, 2, exact.shape, generator=g) * 2 - 1, -torch.ones_like(exact)):
            moved = exact + torch.log1p(sign * size)
            logits = moved * states.temperature[:, None]
            assert check(states, sf.ApproximateExp(size, loss="probabilities"), logits, states.bank.weight)
            made = sf.ApproximateExp(size).at(states)
            bounds = made.bounds(contract_named("centered"))
            for n in range(len(states)):
                log_p = exact_head(states[n : n + 1]).log_probabilities[int(states.labels[n])]
                assert log_p is not None
                loss = moved[n].logsumexp(dim=0).item() - exact[n, states.labels[n]].item()
                assert abs(loss + log_p) <= bounds.loss[n].item()


def test_a_loss_from_scores_is_off_however_peaked_the_state() -> None:
    """q = (25, 0, 0): probabilities hardly move, a log-sum-exp minus the exact score moves by -log(1 - D)."""
    states = sf.HeadStates(sf.LinearHead(torch.tensor([[25.0], [0.0], [0.0]])), torch.tensor([[1.0]]), [0])
    budgets = sf.Budgets(loss=1e-3)
    assert sf.certify(states, budgets, sf.ApproximateExp(0.01, loss="probabilities")).certified.all()
    found = sf.certify(states, budgets, sf.ApproximateExp(0.01))
    assert not found.certified.any()
    assert found.loss.item() >= -math.log1p(-0.01)
    assert (sf.cascade(states, budgets, sf.ApproximateExp(0.01)).verdict != "certified").all()


def test_an_unknown_order_is_never_settled_by_one_that_was_tried() -> None:
    """The last tier of a cascade encloses what the realization may return, not the float64 product."""
    w = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 2.0**-20]])
    states = sf.HeadStates(sf.LinearHead(w), torch.tensor([[1.0, 1.0]]), [1])
    found = sf.cascade(states, sf.Budgets(prediction=True), sf.ProductIn(torch.float32))
    exact = sf.cascade(states, sf.Budgets(prediction=True))
    assert (exact.verdict == "certified").all()
    found_wide = sf.cascade(
        sf.HeadStates(sf.LinearHead(w.repeat(1, 50)), torch.ones(1, 100), [1]),
        sf.Budgets(prediction=True),
        sf.compose(sf.ProductIn(torch.float32), hidden_error=1.0),
    )
    assert (found_wide.verdict != "certified").all()
    assert len(found.verdict) == 1


def test_rounded_rows() -> None:
    head = gaussian_states(1).bank
    rows = RoundedRows(head, torch.bfloat16)
    assert torch.equal(rows.rows(slice(2, 5)), head.weight[2:5].to(torch.float32).bfloat16().double())
    assert (rows.num_classes, rows.dim) == (head.num_classes, head.dim)


def test_rows_are_rounded_once_a_head_and_dtype() -> None:
    """And what is kept of one head's errors is never another's."""
    states = gaussian_states(1)
    one, again, other = (sf.ProductIn(dtype).at(states) for dtype in (torch.bfloat16, torch.bfloat16, torch.float16))
    assert one.vectors is again.vectors
    assert one.vectors is not other.vectors
    assert bool((other.row_errors < one.row_errors).all())
    rows = RoundedRows(states.bank, torch.bfloat16)
    moved = sf.LinearHead(states.bank.weight.double() + 1.0)
    assert torch.equal(rows.errors(states.bank), one.row_errors)
    assert bool((rows.errors(moved) > 1.0).all())
    assert torch.equal(rows.errors(states.bank), one.row_errors)


def test_what_they_say_of_themselves() -> None:
    made = (sf.ProductIn(torch.bfloat16), sf.RoundedLogits(torch.float16), sf.ApproximateExp(0.5))
    assert len({str(each.record()) for each in made}) == 3
    assert all(each.scope == sf.Scope.ANALYTIC and each.words for each in made)


def test_bad_input_in_our_words() -> None:
    with pytest.raises(ValueError, match="Expected dtype in"):
        sf.RoundedLogits(torch.int8)
    with pytest.raises(ValueError, match="Expected accumulate in"):
        sf.ProductIn(torch.bfloat16, accumulate=torch.bfloat16)
    with pytest.raises(ValueError, match="Expected accumulate with at least the digits of float64"):
        sf.ProductIn(torch.float64)
    for wrong in (-0.1, 1.0, float("nan"), True):
        with pytest.raises(ValueError, match="Expected relative_error at least 0 and below 1"):
            sf.ApproximateExp(wrong)
    with pytest.raises(ValueError, match="Expected loss in"):
        sf.ApproximateExp(0.1, loss="logits")  # type: ignore[arg-type]
    for each in (sf.ProductIn(torch.float32), sf.RoundedLogits(torch.float32), sf.ApproximateExp(0.1)):
        with pytest.raises(TypeError, match="Expected HeadStates"):
            each.at(torch.ones(2))
