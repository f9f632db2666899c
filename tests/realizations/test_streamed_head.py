"""Certificates by streams over the classes: sound against Arb, close to the head as a whole, and in order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.registry import contract_named
from suffice.realizations import quantized as module
from suffice.realizations.streamed_head import GroupedHead, StreamedHead
from tests.support.moved_heads import adversarial_states, errors_of, gaussian_states
from tests.support.streamed_heads import small_groups

SCHEMES: dict[str, dict[str, Any]] = {
    "int8": {"scheme": "int8"},
    "int8 by 8": {"scheme": "int8", "group": 8},
    "int4 by 4": {"scheme": "int4", "group": 4},
    "int4 deflated": {"scheme": "int4", "group": 4, "deflate": 2},
    "fp8": {"scheme": "fp8"},
}
ADVERSARIAL = adversarial_states()
BUDGETS = sf.Budgets(loss=0.1, probability=0.1, gradient=0.1, kl=0.1, prediction=True)
NAMES = ("loss", "probability", "gradient", "kl")


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch)


def quantized(head: sf.LinearHead, hidden: Tensor, name: str) -> sf.Quantized:
    given = dict(SCHEMES[name])
    return sf.Quantized(head, **given, calibration=hidden if given.get("deflate") else None)


def by_pieces(states: sf.HeadStates, realization: sf.Quantized) -> tuple[sf.Certificate, int]:
    """The certificate, and how many rows of it come from groups."""
    made = realization.at(states)
    assert isinstance(made, StreamedHead)
    pieces = made.pieces(BUDGETS, contract_named("centered"))
    return sf.certify(states, BUDGETS, realization), sum(len(r) for r, p in pieces if isinstance(p, GroupedHead))


@pytest.mark.parametrize("name", SCHEMES)
def test_certificates_hold_against_arb(name: str) -> None:
    grouped = 0
    for seed in range(6):
        states = gaussian_states(seed, count=4, classes=19 + seed, dim=16)
        realization = quantized(states.bank, states.hidden, name)
        found, some = by_pieces(states, realization)
        grouped += some
        _sound(states, realization, found)
    assert grouped >= 12


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("state", ADVERSARIAL)
def test_adversarial_certificates_hold(state: str, name: str) -> None:
    states = ADVERSARIAL[state]
    realization = quantized(states.bank, states.hidden, name)
    found, _ = by_pieces(states, realization)
    _sound(states, realization, found)


def _sound(states: sf.HeadStates, realization: sf.Quantized, found: sf.Certificate) -> None:
    whole, rows = realization._whole(states), realization.rows.rows(slice(None))
    assert found.kl is not None
    for n in range(len(states)):
        if not torch.isfinite(found.loss[n]):
            assert not found.certified[n]
            continue
        exact = errors_of(whole, n, rows)
        assert exact.loss <= found.loss[n].item()
        assert exact.probability <= found.probability[n].item()
        assert exact.gradient <= found.gradient[n].item()
        assert exact.kl <= found.kl[n].item()
        assert exact.same or not found.prediction[n]


@pytest.mark.parametrize("name", SCHEMES)
def test_never_below_the_whole_and_close(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states = gaussian_states(5, count=24, classes=301, dim=32)
    realization = quantized(states.bank, states.hidden, name)
    found, some = by_pieces(states, realization)
    assert some >= 12
    monkeypatch.setattr(module, "LEAST_CLASSES", 10**9)
    whole = sf.certify(states, BUDGETS, realization)
    for each in NAMES:
        ratio = getattr(found, each) / getattr(whole, each)
        assert (ratio >= 1 - 1e-9).all(), each
        assert ratio.median() <= 1.1, each
    assert (found.headroom <= whole.headroom * (1 + 1e-8)).all()
    assert (found.headroom >= whole.headroom / 1.3).all()
    assert (whole.certified | ~found.certified).all()


def test_certified_is_a_headroom_of_one() -> None:
    states = gaussian_states(7, count=40, classes=301, dim=32)
    found, _ = by_pieces(states, sf.Quantized(states.bank, "int8"))
    assert found.certified.any()
    assert not found.certified.all()
    closed = torch.from_numpy(found.binding != "prediction")
    assert ((found.headroom >= 1) == found.certified)[closed].all()


def test_states_stay_in_their_order() -> None:
    """Rows that are no ordinary ones are certified after the others, and go back to their places."""
    states = gaussian_states(2, count=6, classes=41, dim=12)
    hidden = states.hidden.clone()
    hidden[[1, 4]] *= 1e200
    mixed = sf.HeadStates(states.bank, hidden, states.labels, states.temperature)
    realization = sf.Quantized(states.bank, "int8")
    found, some = by_pieces(mixed, realization)
    assert 0 < some <= 4
    one_by_one = [sf.certify(mixed[n : n + 1], BUDGETS, realization) for n in range(6)]
    for each in (*NAMES, "headroom"):
        alone = torch.cat([getattr(part, each) for part in one_by_one])
        assert torch.allclose(getattr(found, each), alone, rtol=1e-6), each
    assert found.verdict.tolist() == [part.verdict[0] for part in one_by_one]


def test_a_budget_that_never_binds_is_left_to_the_whole() -> None:
    states = gaussian_states(2, count=6, classes=41, dim=12)
    wide = sf.Budgets(probability=1.0)
    pieces = sf.Quantized(states.bank, "int8").at(states).pieces(wide, contract_named("centered"))
    assert not any(isinstance(piece, GroupedHead) for _, piece in pieces)
    assert torch.isinf(sf.certify(states, wide, sf.Quantized(states.bank, "int8")).headroom).all()


def test_tiny_budgets_and_other_contracts_are_left_to_the_whole() -> None:
    states = gaussian_states(2, count=6, classes=41, dim=12)
    made = sf.Quantized(states.bank, "int8").at(states)
    for budgets, contract in ((sf.Budgets(loss=1e-200), "centered"), (BUDGETS, "conditioned")):
        pieces = list(made.pieces(budgets, contract_named(contract)))
        assert not any(isinstance(piece, GroupedHead) for _, piece in pieces)
        assert torch.cat([rows for rows, _ in pieces]).tolist() == list(range(6))


def test_without_labels() -> None:
    states = gaussian_states(3, count=6, classes=41, dim=12)
    bare = sf.HeadStates(states.bank, states.hidden)
    realization = sf.Quantized(states.bank, "int8")
    found = sf.certify(bare, sf.Budgets(probability=0.1, kl=0.1, prediction=True), realization)
    assert torch.isinf(found.loss).all()
    assert torch.isfinite(found.probability).any()
    with pytest.raises(sf.BudgetError, match="Expected labels"):
        sf.certify(bare, sf.Budgets(loss=0.1), realization)


def test_the_whole_is_there_for_those_who_ask() -> None:
    states = gaussian_states(3, count=6, classes=41, dim=12)
    realization = sf.Quantized(states.bank, "int8")
    made, whole = realization.at(states), realization._whole(states)
    assert torch.equal(made.scores, whole.scores)
    assert torch.equal(made[torch.tensor([2, 0])].d, whole.d[[2, 0]])
    assert torch.equal(made.bounds(contract_named("centered")).loss, whole.bounds(contract_named("centered")).loss)
    with pytest.raises(AttributeError):
        _ = made.nothing
    explained = sf.certify(states, BUDGETS, realization).explain(2)
    assert explained.binding in BUDGETS.names


def test_states_of_another_head_are_refused() -> None:
    states = gaussian_states(3, count=6, classes=41, dim=12)
    other = gaussian_states(4, count=6, classes=41, dim=12)
    with pytest.raises(ValueError, match="Expected states of the head that was quantised"):
        sf.certify(other, BUDGETS, sf.Quantized(states.bank, "int8"))


def test_gradients_in_the_weights_are_not_streamed() -> None:
    states = gaussian_states(3, count=6, classes=41, dim=12, coordinate="weights")
    assert not isinstance(sf.Quantized(states.bank, "int8").at(states), StreamedHead)
