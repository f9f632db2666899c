"""Several realizations together: programs that do all of it are within the bounds; senseless orders are refused."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.registry import contract_named
from suffice.numerics.nearest import nearest
from tests.reference.heads import exact_head, head_errors, head_of_scores
from tests.support.moved_heads import gaussian_states


@pytest.mark.parametrize("deflate", [0, 2])
@pytest.mark.parametrize("coordinate", ["hidden", "weights"])
def test_a_program_that_does_everything(deflate: int, coordinate: str) -> None:
    from flint import arb

    for seed in range(4):
        states = gaussian_states(seed, count=3, coordinate=coordinate)
        head = states.bank
        screen = sf.Quantized(head, "int8", group=8, deflate=deflate, calibration=states.hidden)
        off = 1e-3
        made = sf.compose(
            screen,
            sf.ProductIn(torch.bfloat16),
            sf.RoundedLogits(torch.bfloat16),
            sf.ApproximateExp(1e-3, loss="probabilities"),
            hidden_error=off,
        ).at(states)
        bounds = made.bounds(contract_named("centered"))
        g = torch.Generator().manual_seed(seed)
        error = torch.randn(states.hidden.shape, generator=g, dtype=torch.float64)
        used = states.hidden + 0.999 * off * error / error.norm(dim=1, keepdim=True)
        rows = nearest(screen.rows.rows(slice(None)), torch.bfloat16)
        product = (nearest(used, torch.bfloat16).float() @ rows.float().T).double() + head.bias
        moved = screen.residuals.moved(used)
        if moved.correction is not None:
            product = product + moved.correction
        logits = nearest(product, torch.bfloat16)
        delta = 1e-3 * (torch.randint(0, 2, logits.shape, generator=g) * 2 - 1)
        scores = logits / states.temperature[:, None] + torch.log1p(delta)
        for n in range(len(states)):
            state = states[n : n + 1]
            known = [None if c == -torch.inf else arb(q) for q, c in zip(scores[n].tolist(), head.bias, strict=True)]
            found = head_errors(state, exact_head(state), head_of_scores(state, known, rows))
            assert found.loss <= bounds.loss[n].item()
            assert found.probability <= bounds.probability[n].item()
            if coordinate == "hidden":
                assert found.gradient <= bounds.gradient[n].item()
            assert found.same or not bounds.prediction[n]


def test_alone_is_as_by_itself() -> None:
    states = gaussian_states(1, count=4)
    for each in (sf.ProductIn(torch.bfloat16), sf.RoundedLogits(torch.float16), sf.ApproximateExp(1e-3)):
        one, other = each.at(states), sf.compose(each).at(states)
        assert torch.equal(one.d, other.d)
        assert torch.equal(one.scores, other.scores)


def test_every_part_adds() -> None:
    states = gaussian_states(2, count=4)
    steps = [sf.Quantized(states.bank, "int8"), sf.ProductIn(torch.float32), sf.RoundedLogits(torch.bfloat16)]
    sizes = [sf.compose(*steps[:k]).at(states).d.mean().item() for k in range(4)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 1e-9 < sizes[1]
    more = sf.compose(*steps, hidden_error=0.1).at(states)
    length = states.bank.lengths * 0.1 / states.temperature[:, None]
    free = ~states.bank.masked
    assert (more.d > 0.99 * length)[:, free].all()


def test_one_error_of_the_hidden_vector_a_state() -> None:
    states = gaussian_states(1, count=3)
    off = torch.tensor([0.0, 1e-3, 1.0], dtype=torch.float64)
    made = sf.compose(hidden_error=off).at(states)
    sizes = made.d.amax(dim=1).tolist()
    assert sizes[0] < 1e-9 < sizes[1] < sizes[2]
    with pytest.raises(ValueError, match="Expected one hidden_error for each of 2 states, but got 3"):
        sf.compose(hidden_error=off).at(states[:2])


@pytest.mark.parametrize("deflate", [0, 4])
def test_a_hidden_error_moves_quantised_rows_and_their_correction(deflate: int) -> None:
    """Rows that are 0.9 of the exact ones, and hidden vectors that are off along each of them."""
    g = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 4, generator=g, dtype=torch.float64)
    head, hidden = sf.LinearHead(weight), 0.1 * torch.randn(3, 4, generator=g, dtype=torch.float64)
    screen = sf.Quantized(head, 0.9 * weight, deflate=deflate, calibration=torch.eye(4))
    d = sf.compose(screen, hidden_error=1.0).at(sf.HeadStates(head, hidden, [0, 1, 2], 1.0)).d
    for j, row in enumerate(weight):
        used = hidden + 0.999 * row / row.norm()
        scores = 0.9 * used @ row
        correction = screen.residuals.moved(used).correction
        if correction is not None:
            scores = scores + correction[:, j]
        assert ((scores - hidden @ row).abs() <= d[:, j]).all()


def test_orders_that_make_no_sense() -> None:
    states = gaussian_states(1)
    screen = sf.Quantized(states.bank, "int8")
    rounded, product = sf.RoundedLogits(torch.bfloat16), sf.ProductIn(torch.float32)
    with pytest.raises(ValueError, match="Expected one product, before anything that rounds logits"):
        sf.compose(rounded, product).at(states)
    with pytest.raises(ValueError, match="Expected one product"):
        sf.compose(product, product).at(states)
    for first in (rounded, product, screen):
        with pytest.raises(ValueError, match="Expected quantised rows before"):
            sf.compose(first, screen).at(states)
    with pytest.raises(TypeError, match="Expected realizations of a head that can follow others, but got ExactHead"):
        sf.compose(sf.ExactHead())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected hidden_error to be finite and >= 0"):
        sf.compose(product, hidden_error=-1.0)
    with pytest.raises(TypeError, match="Expected HeadStates"):
        sf.compose(product).at(torch.ones(2))


def test_its_record_names_every_part() -> None:
    made = sf.compose(sf.ProductIn(torch.float32), sf.ApproximateExp(0.5), hidden_error=0.25)
    record = made.record()
    assert [each["name"] for each in record["steps"]] == ["product", "approximate-exp"]
    assert record["hidden_error"] == 0.25
    assert made.scope == sf.Scope.ANALYTIC


def test_words_tell_what_hidden_vectors_are_off() -> None:
    assert sf.compose(hidden_error=0.25).words == "the head as stored, at hidden vectors that are off by at most 0.25"
    assert sf.compose(sf.ProductIn(torch.float32)).words == sf.ProductIn(torch.float32).words
