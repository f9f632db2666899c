"""b*: accepted and rejected ends, monotone bounds, saturation against 300 digits, statuses, headroom, scaling laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic, realize_contrastive
from suffice.realizations.summed_realized import by_sums
from tests.reference.states import SHAPES, many_states, random_states

CONTRACTS = ("geometry", "conditioned", "centered")
PAIR = sf.DebyePair(order=2)


def _bounds(states: sf.States, contract: str, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    bounds = realize_contrastive(states, PAIR).unit_family(contract_named(contract)).at(b)
    return bounds.loss, bounds.probability, bounds.gradient, bounds.margin_use


def _inverted_bounds(
    budgets: sf.Budgets, states: sf.States, contract: str, b: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chosen = contract_named(contract)
    realized = by_sums(Analytic(PAIR), chosen, budgets).at(states)
    found = torch.empty(4, len(states), dtype=torch.float64)
    for rows, piece in realized.pieces(budgets, chosen):
        bounds = piece.unit_family(chosen).at(b[rows])
        found[:, rows] = torch.stack([bounds.loss, bounds.probability, bounds.gradient, bounds.margin_use])
    return tuple(found)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    "budgets",
    [
        sf.Budgets(loss=1e-5, gradient=1e-5),
        sf.Budgets(loss=1e-3),
        sf.Budgets(probability=1e-6),
        sf.Budgets(gradient=1e-2),
        sf.Budgets(probability=0.3, prediction=True),
        sf.Budgets(prediction=True),
    ],
    ids=str,
)
def test_the_accepted_end_is_accepted_and_the_rejected_one_rejected(contract: str, budgets: sf.Budgets) -> None:
    for states in many_states(210, queries=10, shapes=SHAPES[:8]):
        result = sf.tolerance(states, budgets, PAIR, contract)

        def meets(b: Tensor, states: sf.States = states, of: Callable[..., Any] = _bounds) -> Tensor:
            loss, probability, gradient, use = of(states, contract, b)
            ok = torch.ones_like(loss, dtype=torch.bool)
            for name, value in (("loss", loss), ("probability", probability), ("gradient", gradient)):
                if getattr(budgets, name) is not None:
                    ok &= value <= getattr(budgets, name)
            return ok & (use < 1) if budgets.prediction else ok

        bounded = torch.as_tensor(result.status == "bounded")
        assert meets(result.b)[torch.as_tensor(result.status != "zero")].all()
        upper = torch.where(bounded, result.upper, 1.0)
        # by the very numbers that were inverted: others may differ by a rounding, which saturation magnifies
        assert not meets(upper, of=partial(_inverted_bounds, budgets))[bounded].any()
        assert not meets(result.b * (1 + 1e-6))[bounded].any()
        assert ((result.upper / result.b)[bounded] <= 1 + 1e-9).all()
        assert torch.isinf(result.upper[torch.as_tensor(result.status == "unbounded")]).all()
        assert (result.b[torch.as_tensor(result.status == "zero")] == 0).all()


def test_tighter_contracts_allow_more() -> None:
    for states in many_states(140, queries=10):
        budgets = sf.Budgets(loss=1e-5, gradient=1e-5, prediction=True)
        b = [sf.tolerance(states, budgets, PAIR, name).b for name in CONTRACTS]
        assert (b[0] <= b[1] * (1 + 2e-9)).all()
        assert (b[1] <= b[2] * (1 + 2e-9)).all()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_bounds_vanish_at_zero_and_never_fall(contract: str) -> None:
    for states in many_states(140, queries=10):
        zero = _bounds(states, contract, torch.zeros(len(states), dtype=torch.float64))
        assert all((value == 0).all() for value in zero[:3])
        previous = zero
        for b in (1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.5, 1.0, 3.0):
            current = _bounds(states, contract, torch.full((len(states),), b, dtype=torch.float64))
            for now, before in zip(current, previous, strict=True):
                assert (now >= before * (1 - 1e-12)).all()
            previous = current


def _two_class_state(log_odds: float) -> sf.States:
    """Two classes whose target holds all but e^-log_odds of the mass (through its bias)."""
    directions = torch.eye(8, dtype=torch.float64)[:2]
    bank = sf.ClassBank(directions, [30.0, 50.0], [0.0, 0.0])
    f = 0.7 * directions[:1] + 0.2 * directions[1:2]
    plain = sf.evaluate(sf.States(bank, f, [0], 0.5), PAIR)
    shift = log_odds - (plain.scores[0, 0] - plain.scores[0, 1]).item()
    return sf.States(sf.ClassBank(directions, [30.0, 50.0], [shift, 0.0]), f, [0], 0.5)


@pytest.mark.parametrize("rest", [1e-16, 1e-100, 1e-200])
def test_saturated_states_against_300_digits(rest: float) -> None:
    state = _two_class_state(-math.log(rest))
    log_pi = sf.evaluate(state, PAIR).log_probabilities[0]
    g = [mpmath.mpf(x) for x in state.geometry().gaps[0].tolist()]
    with mpmath.workdps(300):
        pi_other = mpmath.exp(mpmath.mpf(log_pi[1].item()))
        pi_target = 1 - pi_other

        def loss(b: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log1p(pi_other * mpmath.expm1(b * (g[0] + g[1])))

        def tv(b: mpmath.mpf) -> mpmath.mpf:
            total = mpmath.mpf(0)
            for own, other in ((pi_target, pi_other), (pi_other, pi_target)):
                plus = other * mpmath.expm1(b * (g[0] + g[1]))
                minus = other * mpmath.expm1(-b * (g[0] + g[1]))
                total += max(own - own / (1 + plus), min(1, own / (1 + minus)) - own)
            return min(mpmath.tanh(b * max(g) / 2), total / 2)

        def gradient(b: mpmath.mpf) -> mpmath.mpf:
            return (2 * tv(b) + 2 * b * pi_other) / mpmath.mpf(0.5)

        for b in (1e-6, 1e-2, 1.0):
            bounds = _bounds(state, "conditioned", torch.tensor([b], dtype=torch.float64))
            for value, exact in zip(bounds[:3], (loss, tv, gradient), strict=True):
                assert abs(value.item() / exact(mpmath.mpf(b)) - 1) < 1e-6
        for budgets, exact in (
            (sf.Budgets(loss=1e-5), loss),
            (sf.Budgets(probability=1e-5), tv),
            (sf.Budgets(gradient=1e-5), gradient),
        ):
            b = sf.tolerance(state, budgets, PAIR, "conditioned").b.item()
            root = mpmath.findroot(lambda x, f=exact: mpmath.log(f(x)) - mpmath.log(mpmath.mpf("1e-5")), b, tol=1e-40)
            assert abs(b / root - 1) < 1e-6
            # certified: in exact arithmetic too
            assert exact(mpmath.mpf(b)) <= mpmath.mpf(1e-5)


def test_errors_and_bounds_vanish_as_the_targets_bias_grows() -> None:
    base = random_states(8, 6, [(20, 33)])
    previous = None
    # from where the target dominates
    for bias in (150.0, 200.0, 300.0, 500.0):
        bank = sf.ClassBank(
            base.bank.directions,
            base.bank.concentrations,
            base.bank.biases + bias * torch.nn.functional.one_hot(base.labels[0], base.bank.num_classes),
        )
        states = sf.States(bank, base.features[:1], base.labels[:1], base.temperature[:1])
        bounds = torch.stack(_bounds(states, "centered", torch.tensor([1e-4], dtype=torch.float64))[:3])
        fixed = torch.stack(_bounds(states, "geometry", torch.tensor([1e-4], dtype=torch.float64))[:3])
        if previous is not None:
            assert (bounds <= previous[0]).all()
            torch.testing.assert_close(fixed, previous[1], rtol=1e-9, atol=0)
        previous = bounds, fixed
    assert previous is not None
    assert (previous[0] < 1e-100).all()


def test_gradient_scales_as_one_over_tau_at_fixed_coordinates() -> None:
    base = random_states(9, 5, [(20, 33)])
    u = base.features / base.temperature[:, None]
    b = torch.full((5,), 1e-5, dtype=torch.float64)
    reference = None
    # powers of two, so that f = tau u is exact
    for tau in (0.25, 1.0, 4.0):
        loss, probability, gradient, _ = _bounds(sf.States(base.bank, tau * u, base.labels, tau), "centered", b)
        scaled = torch.stack([loss, probability, gradient * tau])
        if reference is not None:
            torch.testing.assert_close(scaled, reference, rtol=1e-12, atol=0)
        reference = scaled


def test_statuses() -> None:
    directions = torch.eye(5, dtype=torch.float64)[:2]
    bank = sf.ClassBank(directions, [3.0, 4.0])
    still = sf.States(bank, torch.zeros(1, 5), [0], 1.0)
    # no gap: no score error, whatever b is
    assert sf.tolerance(still, sf.Budgets(loss=1e-5), PAIR).status.tolist() == ["unbounded"]
    assert sf.tolerance(still, sf.Budgets(loss=1e-5), PAIR).binding.tolist() == ["none"]
    assert sf.tolerance(still, sf.Budgets(gradient=1e-5), PAIR).status.tolist() == ["bounded"]
    # a TV budget of 1 allows anything
    moving = sf.States(bank, torch.ones(1, 5), [0], 1.0)
    assert sf.tolerance(moving, sf.Budgets(probability=1.0), PAIR, "geometry").status.tolist() == ["unbounded"]
    # a tie: the strict margin test fails even at b = 0
    twins = sf.ClassBank(directions[[0, 0]], [3.0, 3.0])
    tied = sf.tolerance(sf.States(twins, torch.ones(1, 5), [0], 1.0), sf.Budgets(loss=1e-5, prediction=True), PAIR)
    assert tied.status.tolist() == ["zero"]
    assert (tied.b.item(), tied.upper.item(), tied.binding.tolist()) == (0.0, 0.0, ["prediction"])


def test_first_order_predicts_small_budgets() -> None:
    for states in many_states(70, queries=10):
        c = sf.sensitivity(states, PAIR)
        b = torch.full((len(states),), 1e-9, dtype=torch.float64) / states.geometry().gaps.amax(dim=1).clamp_min(1e-3)
        loss, probability, gradient, _ = _bounds(states, "conditioned", b)
        for value, slope in ((loss, c.loss), (probability, c.probability), (gradient, c.gradient)):
            # a state without gaps has the smallest normal number for 0
            torch.testing.assert_close(value, slope * b, rtol=1e-6, atol=1e-300)
        assert (sf.tolerance(states, sf.Budgets(loss=1e-5), PAIR, "conditioned").b <= 1e-5 / c.loss * (1 + 1e-9)).all()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_certified_and_headroom_agree(contract: str) -> None:
    verdicts = set()
    for states in many_states(210, queries=10):
        for budget in (1e-4, 1e-8):
            certificate = sf.certify(states, sf.Budgets(loss=budget, gradient=budget, prediction=True), PAIR, contract)
            certified = certificate.verdict == "certified"
            verdicts |= set(certificate.verdict)
            assert np.array_equal(certified, (certificate.headroom >= 1).numpy())
            assert np.array_equal(certified, certificate.certified.numpy())
            assert certificate.scope == "analytic"
    assert verdicts == {"certified", "inconclusive"}


def test_a_valid_envelope_below_b_star_certifies() -> None:
    for states in many_states(70, queries=10):
        budgets = sf.Budgets(loss=1e-5, gradient=1e-5)
        b = sf.tolerance(states, budgets, PAIR, "conditioned").b
        own = realize_contrastive(states, PAIR).own()
        uniform = sf.Uniform("quarter").allowance(states.bank.nu, 1.0)
        certified = sf.certify(states, budgets, sf.DebyePair(envelope=sf.Uniform("quarter")), "conditioned").certified
        assert certified[b >= uniform].all()
        assert not certified[b * (1 + 1e-6) < uniform].any()
        assert (own.d >= 0).all()


def _first_order_shares(state: sf.States, binding: str) -> torch.Tensor:
    """Each class' share of c_L or c_g (prop:sensitivity), written out for one state."""
    nu, k = state.bank.nu, state.bank.concentrations
    r = torch.linalg.vector_norm(k[:, None] * state.bank.directions + state.features / state.temperature, dim=1)
    d, a = PAIR.score_allowance(nu, k, r), PAIR.allowance(nu, r)
    pi, y = sf.evaluate(state, PAIR).log_probabilities[0].exp(), int(state.labels)
    others = torch.arange(len(k)) != y
    of_loss, of_gradient = pi * (d + d[y]) * others, 2 * pi * (1 - pi) * d + pi * (a + a[y]) * others
    parts = of_loss if binding == "loss" else of_gradient
    return parts / parts.sum()


def test_explanations_read() -> None:
    states = random_states(10, 4, [(20, 33)])
    certificate = sf.certify(states, sf.Budgets(loss=1e-9, gradient=1e-9), PAIR)
    for i in range(len(states)):
        explanation = certificate.explain(i)
        text = str(explanation)
        assert explanation.verdict == certificate.verdict[i]
        assert explanation.binding in ("loss", "gradient")
        assert "classes that contribute most" in text
        assert "not rounding" in text
        shares = _first_order_shares(states[i : i + 1], explanation.binding)
        assert shares.sum().item() == pytest.approx(1)
        shown = shares.topk(5)
        assert [c.index for c in explanation.classes] == shown.indices.tolist()
        assert [c.share for c in explanation.classes] == pytest.approx(shown.values.tolist(), rel=1e-6)
    # a tie has no margin, and no headroom
    twins = sf.ClassBank(torch.eye(5)[[0, 0]], [3.0, 3.0])
    tied = sf.certify(sf.States(twins, torch.ones(1, 5), [0], 1.0), sf.Budgets(prediction=True), PAIR).explain(0)
    assert (tied.verdict, tied.headroom, tied.bound) == ("inconclusive", 0.0, math.inf)
    assert "tied" in str(tied)
    with pytest.raises(IndexError, match=r"Expected a state in \[0, 4\), but got 4"):
        certificate.explain(4)


def test_an_unknown_contract_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"Expected contract in \['centered', 'conditioned', 'geometry'\], but got 'best'"
    ):
        sf.certify(random_states(0, 2), sf.Budgets(loss=1.0), PAIR, "best")


@pytest.mark.parametrize("length", [1, 3, 5])
def test_budgets_of_another_length_than_the_states_are_refused(length: int) -> None:
    states = random_states(0, 4)
    budgets = sf.Budgets(gradient=torch.full((length,), 1e-3))
    for call in (
        lambda: sf.certify(states, budgets, PAIR),
        lambda: sf.tolerance(states, budgets, PAIR),
        lambda: sf.cascade(states, budgets, PAIR),
        lambda: sf.adaptive(states, budgets),
        lambda: sf.cheapest_rungs(states, budgets),
    ):
        with pytest.raises(ValueError, match=f"one for each of 4 states, but got {length}; give as many"):
            call()


def test_no_state_is_refused_everywhere() -> None:
    states = random_states(0, 4)[0:0]
    budgets = sf.Budgets(gradient=1e-3)
    for call in (
        lambda: sf.certify(states, budgets, PAIR),
        lambda: sf.tolerance(states, budgets, PAIR),
        lambda: sf.cascade(states, budgets, PAIR),
        lambda: sf.adaptive(states, budgets),
        lambda: sf.cheapest_rungs(states, budgets),
    ):
        with pytest.raises(ValueError, match="Expected at least one state, but got none"):
            call()


def test_budgets_may_differ_by_state() -> None:
    states = random_states(6, 6)
    each = torch.logspace(-8, -3, 6, dtype=torch.float64)
    together = sf.tolerance(states, sf.Budgets(gradient=each), PAIR).b
    for i, budget in enumerate(each.tolist()):
        alone = sf.tolerance(states[i : i + 1], sf.Budgets(gradient=budget), PAIR).b
        torch.testing.assert_close(alone, together[i : i + 1], rtol=1e-8, atol=0)


@pytest.mark.parametrize("scope", ["analytic", "execution"])
def test_each_chunk_has_its_own_budgets(scope: str) -> None:
    """Chunks of four of ten states whose budgets rise: verdicts, tolerances and tiers as if all were one chunk."""
    states = random_states(6, 10, [(7, 64)])
    apart = states[:]
    object.__setattr__(apart, "chunk", 4)
    bound = sf.certify(states, sf.Budgets(gradient=1.0), PAIR, scope=scope).gradient
    # every other one is met, and by the next chunk's budgets it would be otherwise
    each = bound * torch.tensor([2.0, 0.5] * 5, dtype=torch.float64)
    budgets = sf.Budgets(gradient=each)
    whole, found = (sf.certify(some, budgets, PAIR, scope=scope) for some in (states, apart))
    assert whole.certified.tolist() == found.certified.tolist() == [True, False] * 5
    tiers = sf.cascade(apart, budgets, PAIR, scope=scope)
    assert (tiers.verdict == whole.verdict).all()
    assert (tiers.tier == sf.cascade(states, budgets, PAIR, scope=scope).tier).all()
    b, together = (sf.tolerance(some, budgets, PAIR, scope=scope).b for some in (apart, states))
    torch.testing.assert_close(b, together, rtol=1e-8, atol=0)
