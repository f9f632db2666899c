"""Bounds on KL hold for every error within the allowances, in both directions, and lose no digits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.contracts.centered import centered_in_logs
from suffice.contracts.conditioned import conditioned_in_logs
from suffice.contracts.divergence import curvature, log_divergence, uniform_divergence
from suffice.contracts.divergence import divergence as plain_divergence
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.registry import contract_named
from suffice.tolerances.invert import invert
from tests.reference.exact import exact_outputs
from tests.support.collections import make_states
from tests.support.heads import corner_errors, random_head

CONTRACTS = ("geometry", "conditioned", "centered")


def asked(head: sf.SoftmaxHead, log_after: Tensor | None = None) -> sf.SoftmaxHead:
    return replace(head, divergence=True, log_after=log_after)


def both_directions(log_pi: Tensor, errors: Tensor) -> tuple[arb, arb]:
    """KL(pi||P) and KL(P||pi) in Arb, P the softmax of scores that are lower by the errors."""
    with ctx.workprec(1200):
        pi = [arb(x) for x in log_pi.tolist()]
        p = [x - arb(e) for x, e in zip(pi, errors.tolist(), strict=True)]
        totals = [sum((x.exp() for x in side), arb(0)).log() for side in (pi, p)]
        pi, p = ([x - total for x in side] for side, total in zip((pi, p), totals, strict=True))
        return tuple(
            sum((a.exp() * (a - b) for a, b in zip(one, two, strict=True)), arb(0)) for one, two in ((pi, p), (p, pi))
        )  # type: ignore[return-value]


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_at_all_corners(contract: str, seed: int) -> None:
    made = random_head(seed, largest=(0.3, 3.0)[seed % 2])
    bound = contract_named(contract).bounds(asked(made.head), made.allowances).kl
    assert bound is not None
    closest = 0.0
    for errors in corner_errors(made.allowances.d):
        for found in both_directions(made.head.log_probabilities[0], errors):
            assert found <= bound.item()
            closest = max(closest, float(found) / bound.item())
    assert closest > (0.01 if contract == "geometry" else 0.1)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_bounds_hold_where_one_class_has_everything(contract: str) -> None:
    """1 - pi of 1e-100 and 1e-320: KL is of that size, and so is the conditioned bound."""
    for gap in (30.0, 230.0, 737.0, 5000.0):
        log_pi = torch.log_softmax(torch.tensor([[0.0, -gap, -gap - 1]], dtype=torch.float64), dim=1)
        log_pi[0, 0] = -torch.exp(torch.tensor(-gap, dtype=torch.float64)) * (1 + torch.exp(torch.tensor(-1.0)))
        head = asked(
            sf.SoftmaxHead(
                log_probabilities=log_pi,
                target=torch.tensor([1]),
                gradient_scale=torch.ones(1, dtype=torch.float64),
                distances=torch.ones(1, 3, dtype=torch.float64),
            )
        )
        for size in (1e-9, 0.3, 40.0):
            d = torch.tensor([[size, size / 2, size]], dtype=torch.float64)
            bound = contract_named(contract).bounds(head, sf.Allowances(d=d, a=0 * d)).kl
            assert bound is not None
            for errors in corner_errors(d):
                assert max(both_directions(log_pi[0], errors), key=float) <= bound.item()
            if contract != "geometry" and size < 1 and gap < 700:
                assert bound.item() < 5 * size * size * float(arb(-gap).exp())


@pytest.mark.parametrize("contract", CONTRACTS)
def test_zero_at_zero_and_nondecreasing(contract: str) -> None:
    made = random_head(5, classes=6)
    head, bounds = asked(made.head), contract_named(contract).bounds
    last = torch.zeros(1, dtype=torch.float64)
    for factor in [0.0, *torch.logspace(-200, 7, 400, dtype=torch.float64).tolist()]:
        kl = bounds(head, made.allowances.scaled(torch.tensor([factor], dtype=torch.float64))).kl
        assert kl is not None
        assert (kl >= last * (1 - 1e-11)).all()
        assert (kl == 0) == (factor == 0)
        last = kl
    assert last > 500


def test_tighter_contracts_are_never_above_looser_ones() -> None:
    for seed in range(20):
        made = random_head(seed, classes=7, largest=3.0)
        found = [contract_named(name).bounds(asked(made.head), made.allowances).kl for name in CONTRACTS]
        assert found[0] is not None
        assert found[1] is not None
        assert found[2] is not None
        assert found[2] <= found[1] <= found[0]


@pytest.mark.parametrize(("name", "in_logs"), [("conditioned", conditioned_in_logs), ("centered", centered_in_logs)])
def test_plain_and_logarithmic_bounds_agree(name: str, in_logs: object) -> None:
    """What plain arithmetic accepts, logarithms accept."""
    for seed in range(20):
        made = random_head(seed, classes=9, largest=3.0)
        plain = contract_named(name).bounds(asked(made.head), made.allowances).kl
        logs = in_logs(asked(made.head), made.allowances).kl  # type: ignore[operator]
        assert plain >= logs
        assert torch.allclose(plain, logs, rtol=1e-10)


def test_the_series_is_above_the_exponential() -> None:
    """v (2 expm1(v) + v)/6 >= e^v - 1 - v, and equal to it to third order."""
    for v in torch.logspace(-9, 2, 60, dtype=torch.float64).tolist():
        with ctx.workprec(400):
            x = arb(v)
            above = x * (2 * x.expm1() + x) / 6
            exact = x.expm1() - x
            assert above >= exact
            assert above <= exact * (1 + x * x / 12 * x.exp())


def test_returned_log_probabilities_count() -> None:
    """Errors of returned log-probabilities move the softmax that is made of them."""
    made = random_head(3, classes=4)
    g = torch.Generator().manual_seed(0)
    after = 0.1 * torch.rand(1, 4, generator=g, dtype=torch.float64)
    log_pi = made.head.log_probabilities
    for name in CONTRACTS:
        bound = contract_named(name).bounds(asked(made.head, after), made.allowances).kl
        nothing = (
            contract_named(name).bounds(asked(made.head, after), made.allowances.scaled(torch.zeros(1).double())).kl
        )
        assert bound is not None
        assert nothing is not None
        assert 0 < nothing < bound
        for errors in corner_errors(made.allowances.d):
            for moved in corner_errors(after):
                # returned scores are log pi + moved, exact ones log pi - errors
                for found in both_directions(log_pi[0] + moved, errors + moved):
                    assert found <= bound.item()
        for moved in corner_errors(after):
            for found in both_directions(log_pi[0] + moved, moved):
                assert found <= nothing.item()


def test_small_allowances_are_of_second_order() -> None:
    made = random_head(4, classes=5)
    c = curvature(asked(made.head), made.allowances)
    for b in (1e-3, 1e-5, 1e-7):
        kl = (
            contract_named("conditioned")
            .bounds(asked(made.head), made.allowances.scaled(torch.tensor([b]).double()))
            .kl
        )
        assert torch.allclose(kl, c * b * b, rtol=10 * b)


def test_the_uniform_bound_and_vectors() -> None:
    v = torch.tensor([0.0, 1e-3, 4.0, 100.0], dtype=torch.float64)
    assert uniform_divergence(v).tolist() == [0.0, 5e-7, 8.0, 200.0]
    made = random_head(1)
    upper, vector = made.head.log_probabilities.exp(), made.allowances.d
    one, two = plain_divergence(made.head, upper, vector), log_divergence(made.head, upper.log(), vector)
    assert torch.allclose(one, two, rtol=1e-12)
    # no exponential overflows on the way
    huge = log_divergence(made.head, upper.log(), 1e4 + vector)
    assert torch.allclose(huge, 2 * (1e4 + vector.amax(dim=1)))


def test_a_contract_without_a_bound_is_refused() -> None:
    bounds = sf.Bounds(**{name: torch.zeros(2) for name in ("loss", "probability", "gradient", "margin_use")})
    with pytest.raises(sf.BudgetError, match="Expected a contract with a bound on kl"):
        sf.Budgets(kl=1.0).shares(bounds)


def vmf_errors(states: sf.States, log_probabilities: Tensor) -> list[arb]:
    """The larger KL of the softmax of some log-probabilities and the exact objective."""
    found = []
    for n in range(len(states)):
        exact = exact_outputs(states[n : n + 1]).scores
        with ctx.workprec(900):
            errors = [arb(x) - q for x, q in zip(log_probabilities[n].tolist(), exact, strict=True)]
            given = [arb(x) for x in log_probabilities[n].tolist()]
            sides = [given, [x - e for x, e in zip(given, errors, strict=True)]]
            totals = [sum((x.exp() for x in side), arb(0)).log() for side in sides]
            one, two = ([x - total for x in side] for side, total in zip(sides, totals, strict=True))
            both = [
                sum((a.exp() * (a - b) for a, b in zip(*pair, strict=True)), arb(0))
                for pair in ((one, two), (two, one))
            ]
        found.append(both[0] if both[0] > both[1] else both[1])
    return found


@pytest.mark.parametrize("contract", CONTRACTS)
def test_executed_states_are_certified_against_arb(contract: str) -> None:
    """KL of the softmax of what float32 returns, rounding included; inverted and cascaded as well."""
    states, pair = make_states(5, classes=4), sf.DebyePair(order=2)
    budgets = sf.Budgets(kl=1e-3)
    for scope, dtype in (("analytic", torch.float64), ("execution", torch.float32), ("execution", torch.float64)):
        found = sf.certify(states, budgets, pair, contract, scope=scope, dtype=dtype)
        assert found.kl is not None
        if scope == "execution":
            returned = sf.Execution(pair, dtype).run(states).log_probabilities
        else:
            returned = sf.evaluate(states, pair).log_probabilities
        for error, bound in zip(vmf_errors(states, returned.double()), found.kl.tolist(), strict=True):
            assert error <= bound
        assert torch.equal(found.certified, found.headroom >= 1)
        assert (found.binding == "kl").all()
        b = sf.tolerance(states, budgets, pair, contract, scope=scope, dtype=dtype)
        assert (b.status == "bounded").all()
        assert (b.upper <= b.b * (1 + 1e-9)).all()
        if contract == "centered":
            tiers = sf.cascade(states, budgets, pair, scope=scope, dtype=dtype)
            assert (tiers.verdict == found.verdict).all()
            assert tiers.kl is not None
            assert "kl binds" in str(found.explain(0))
        # without a budget there is no bound
        assert sf.certify(states, sf.Budgets(loss=1.0), pair, contract, scope=scope, dtype=dtype).kl is None


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("budget", [1e-30, 1e-8, 1e-2, 5.0, 1e5])
def test_tolerances_reach_the_budget(contract: str, budget: float) -> None:
    """At b the bound is within the budget, just above it is not; at every size of budget."""
    states = make_states(6, classes=5)
    realized = sf.Analytic(sf.DebyePair(order=2)).at(states).asked(sf.Budgets(kl=budget))
    found = sf.tolerance(states, sf.Budgets(kl=budget), sf.DebyePair(order=2), contract)
    family = realized.unit_family(contract_named(contract))
    at, above = family.at(found.b).kl, family.at(found.upper).kl
    assert at is not None
    assert above is not None
    assert (found.status == "bounded").all()
    assert (at <= budget).all()
    assert (above > budget).all()
    if budget < 1e-7 and contract != "geometry":
        # a root, not a quotient; the centred contract may be far above the conditioned slope
        assert (found.b >= found.first_order * (1 - 1e-2)).all()


def test_rungs_and_adaptive_evaluation_take_it() -> None:
    states = make_states(4, classes=4)
    budgets = sf.Budgets(kl=1e-6)
    assert (sf.cheapest_rungs(states, budgets) != "none").all()
    assert sf.adaptive(states, budgets).certified.all()


def test_a_rounding_that_is_over_the_budget_leaves_nothing() -> None:
    """Where what is returned is off by more than the budget at b = 0 already, nothing is accepted."""
    states, pair = make_states(4, classes=4), sf.DebyePair(order=2)
    found = sf.tolerance(states, sf.Budgets(kl=1e-22), pair, scope="execution", dtype=torch.float32)
    assert (found.status == "zero").all()
    assert (found.b == 0).all()
    assert not sf.certify(states, sf.Budgets(kl=1e-22), pair, scope="execution", dtype=torch.float32).certified.any()


def test_what_left_the_model_has_no_bound() -> None:
    """float32 overflows at such features: no KL is certified there, whatever the budget."""
    states = make_states(3, classes=4)
    huge = sf.States(states.bank, states.features.double() * 1e30, states.labels, states.temperature)
    budgets = sf.Budgets(kl=1e300)
    found = sf.certify(huge, budgets, sf.DebyePair(order=2), scope="execution", dtype=torch.float32)
    assert found.kl is not None
    assert torch.isinf(found.kl).all()
    assert not found.certified.any()


def test_what_is_returned_counts_where_nothing_stands_beside_the_family() -> None:
    """At b = 0 the KL of returned log-probabilities is there already: over the budget, nothing is accepted."""
    made = random_head(3, classes=4)
    after = torch.full((1, 4), 0.1, dtype=torch.float64)
    after[0, 1] = 0.0
    for budget, zero in ((1e-4, True), (1.0, False)):
        family = SoftmaxFamily(
            contract=contract_named("conditioned"), head=asked(made.head, after), unit=made.allowances
        )
        found = invert(family, sf.Budgets(kl=budget))
        assert (found.rejected == 0).all() == zero
        assert (found.accepted > 0).all() != zero
