"""States at which a certificate once was wrong, judged by the oracle."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.audits.rows import audit_states
from suffice.realizations.executed.program import execute
from tests.reference.oracle import Numbers, states_of, verdict

CONTRACTS = ("geometry", "conditioned", "centered")


def saturated() -> sf.States:
    """The target holds 1e-175 less than all of the mass, and its score is off by more than a digit of that."""
    bank = sf.ClassBank(torch.eye(5, dtype=torch.float64)[:2], [0.0, 850.0])
    return sf.States(bank, torch.tensor([[20.0, 8.0, 0.0, 0.0, 0.0]], dtype=torch.float64), [0], 0.01)


def near_zero() -> sf.States:
    """A radius of 8e-3 beside k = 2e6: the float64 geometry has no digit of it."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:3], [3.0, 1.0, 2e6])
    features = torch.tensor([[0.0, 0.0, -2e5 * (1 + 4e-9), 0.0, 0.0, 0.0]], dtype=torch.float64)
    return sf.States(bank, features, [2], 0.1)


def _judge(states: sf.States, order: int, contract: str, budgets: sf.Budgets) -> None:
    certificate = sf.certify(states, budgets, sf.DebyePair(order=order), contract)
    truth = states_of(states)[0].errors(order)
    for name in ("loss", "probability", "gradient"):
        assert verdict(getattr(truth, name), getattr(certificate, name).item()) == "within", name
        budget = getattr(budgets, name)
        if certificate.certified[0] and budget is not None:
            assert verdict(getattr(truth, name), budget) == "within", name


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_gradient_of_1e_175_is_not_certified_at_1e_178(contract: str) -> None:
    states = saturated()
    truth = states_of(states)[0].errors(2)
    assert 1.82e-175 < truth.gradient < 1.83e-175
    _judge(states, 2, contract, sf.Budgets(gradient=1e-178))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_radius_near_zero_has_no_digits(contract: str) -> None:
    states = near_zero()
    truth = states_of(states)[0].errors(2)
    assert 1.66e-3 < truth.gradient < 1.67e-3
    _judge(states, 2, contract, sf.Budgets(gradient=1e-6))


def test_a_radius_near_zero_costs_no_more_than_it_must() -> None:
    """The default bound grows until it is true, and stays within 50 times the truth."""
    certificate = sf.certify(near_zero(), sf.Budgets(gradient=1e-5), sf.DebyePair(order=2))
    assert certificate.verdict.tolist() == ["inconclusive"]
    assert 1.66e-3 < certificate.gradient.item() < 50 * 1.66e-3


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(("k", "x"), [(1e3, 1e-9), (1e6, 0.0), (1e6, 1e-12), (1e8, 1e-9)])
def test_a_radius_of_the_size_of_its_rounding(k: float, x: float, contract: str) -> None:
    """f/tau is -k (1 + x) mu: the computed radius is zero, or has no digit."""
    rows = torch.tensor([[1.0, 2, 3, 4, 5, 6], [6.0, -5, 4, -3, 2, 1]], dtype=torch.float64)
    rows = rows / rows.norm(dim=1, keepdim=True)
    states = sf.States(sf.ClassBank(rows, [k, 3.0]), -0.1 * k * (1 + x) * rows[:1], [0], 0.1)
    _judge(states, 2, contract, sf.Budgets(gradient=1e-6))
    # however little is known of the probabilities, they sum to one
    assert sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=2), contract).gradient.item() < 30


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_underflows_before_it_is_divided_by_the_temperature(contract: str) -> None:
    """The other class holds 1e-326, and 1/tau is 1e100: a gradient error of 4e-229."""
    bank = sf.ClassBank(torch.eye(5, dtype=torch.float64)[:2], [3.0, 5.0], [750.0, 0.0])
    features = torch.tensor([[1e-100, 1e-100, 0.0, 0.0, 0.0]], dtype=torch.float64)
    states = sf.States(bank, features, [0], torch.tensor(1e-100, dtype=torch.float64))
    _judge(states, 2, contract, sf.Budgets(gradient=1e-300))


def test_no_rung_is_credited_with_the_bounds_of_another_order() -> None:
    """An audit of order 6, given as a realization, once wrote its bounds down as those of order 2: 1e-9 for 3e-5."""
    g = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(7, 32, generator=g, dtype=torch.float64), dim=1)
    mu, features = rows[:3], rows[3:]
    states = sf.States(sf.ClassBank(mu, [10.0, 20.0, 30.0]), features, [0, 1, 2, 0], 0.1)
    truth = sf.reference(states).loss
    for given in (None, sf.Execution(sf.DebyePair(order=6)), sf.Execution(sf.DebyePair(order=6), torch.float32)):
        columns = audit_states(states, sf.Plan(loss=1e-2, scope="execution", given=given))
        for rung in sf.rungs():
            said = columns.get(f"loss_bound {rung.name}")
            if said is not None:
                error = (rung.execute(states).loss - truth.mid).abs()
                assert (error <= torch.from_numpy(said) + truth.rad).all(), rung.name
        assert (columns["loss_bound"] < 1e-2).all()


@pytest.mark.parametrize("bias", [-428.0, -478.0])
def test_an_executed_gradient_whose_squares_underflow(bias: float) -> None:
    """1 - pi_y is 1e-195 and less: the target's distance was once 0, and the gradient bound a 77th of the error."""
    eye = torch.eye(6, dtype=torch.float64)
    states = sf.States(sf.ClassBank(eye[:2], [0.1, 100.0], [0.0, bias]), 30 * eye[2:3], [0], 1.0)
    found = sf.certify(states, sf.Budgets(gradient=1e-180), sf.DebyePair(order=1), "centered", scope="execution")
    ran = execute(states, 1)
    numbers = Numbers(ran.loss.item(), ran.log_probabilities[0].exp().tolist(), ran.gradient[0].tolist(), 0)
    truth = states_of(states)[0].distances(numbers)
    assert truth.gradient > 1e-220
    assert verdict(truth.gradient, found.gradient.item()) == "within"
