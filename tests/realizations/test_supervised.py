"""The supervised objective: sampler moments, the sampled loss, and its two bounds against Arb."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from flint import arb, ctx
from typer.testing import CliRunner

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.cli import app
from suffice.objectives.sampling import sample_vmf
from suffice.pairs.perturbed import PerturbedPair, ramp
from suffice.realizations.supervised import (
    evaluate_supervised,
    supervised_uniform_bound,
)
from suffice.truth import bessel, surrogate
from suffice.truth.geometry import exact_geometry


@pytest.mark.parametrize(("dim", "kappa"), [(2, 3.0), (5, 0.0), (16, 10.0), (128, 500.0), (64, 1e4)])
def test_sampler_has_the_right_mean_length(dim: int, kappa: float) -> None:
    mu = torch.nn.functional.normalize(torch.ones(1, dim, dtype=torch.float64), dim=1)
    samples = sample_vmf(
        mu, torch.tensor([kappa], dtype=torch.float64), 20_000, generator=torch.Generator().manual_seed(0)
    )
    assert samples.shape == (1, 20_000, dim)
    assert (torch.linalg.vector_norm(samples, dim=2) - 1).abs().max() < 1e-9
    cosine = (samples[0] @ mu[0]).numpy()
    expected = sf.special.bessel_i_ratio(dim / 2 - 1, kappa).item()
    assert cosine.mean() == pytest.approx(expected, abs=5 * cosine.std() / 20_000**0.5 + 1e-12)


def _problem(seed: int, dim: int = 9) -> tuple[sf.ClassBank, torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    mu = torch.nn.functional.normalize(torch.randn(6, dim, generator=g, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, 10 ** (3 * torch.rand(6, generator=g, dtype=torch.float64)))
    z = 10 * torch.randn(3, dim, generator=g, dtype=torch.float64)
    labels = torch.randint(0, 6, (3,), generator=g)
    samples = sample_vmf(z, torch.linalg.vector_norm(z, dim=1), 4, generator=g)
    return bank, z, labels, samples


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_both_bounds_contain_the_actual_error(order: int, seed: int) -> None:
    bank, z, labels, samples = _problem(seed)
    beta, pair = 16.0, sf.DebyePair(order=order)
    result = evaluate_supervised(bank, z, labels, samples, beta, pair)
    for i in range(len(z)):
        with ctx.workprec(256):
            errors = arb(0)
            for s in range(samples.shape[1]):
                # |k mu + beta s| as a state at temperature 1/beta, a power of two; samples are taken as they are
                at = exact_geometry(sf.States(bank, samples[i : i + 1, s], [0], 1 / beta), 256)
                exact, ours = at.differences(), at.surrogate_differences(order)
                errors += sum((q.exp() for q in ours), arb(0)).log() - sum((q.exp() for q in exact), arb(0)).log()
            vector, row = ([arb(x) for x in values.tolist()] for values in (z[i], bank.directions[labels[i]]))
            length, other = (sum((x * x for x in values), arb(0)).sqrt() for values in (vector, row))
            cosine = sum((x * y for x, y in zip(vector, row, strict=True)), arb(0)) / (length * other)
            k_y = arb(bank.concentrations[labels[i]].item())
            nu = arb(bank.nu)
            hat, true = (
                length * at_length * k_y * at_k
                for at_length, at_k in (
                    [surrogate.slope_at(order, nu, x * x) for x in (length, k_y)],
                    [bessel.slope_at_square(nu, x * x) for x in (length, k_y)],
                )
            )
            actual = abs(errors / samples.shape[1] - beta * (hat - true) * cosine)
            assert actual.upper() <= arb(result.refined_bound[i].item())
    assert (result.refined_bound <= result.uniform_bound).all()
    b = sf.Uniform("quarter").allowance(bank.nu, 1.0)
    assert supervised_uniform_bound(beta, b).item() == pytest.approx(beta * (3 * b + b * b).item())


def test_probabilities_that_are_known_to_a_factor() -> None:
    """The bound at log-probabilities that are off is within the one that knows by how much."""
    g = torch.Generator().manual_seed(0)
    made = sf.Analytic(sf.DebyePair(order=2)).at(sf.SupervisedStates(*_problem(1), 16.0))
    plain, eps = made.refined(made.own()), 0.1
    log_pi, nothing = made.log_probabilities, torch.zeros_like(made.slacks)
    made.slacks = nothing + torch.expm1(torch.tensor(3 * eps, dtype=torch.float64))
    known, farthest = made.refined(made.own()), torch.zeros_like(plain)
    made.slacks = nothing
    for _ in range(100):
        moved = log_pi + eps / 2 * (2 * (torch.rand(log_pi.shape, generator=g) < 0.5).double() - 1)
        made.log_probabilities = moved - moved.logsumexp(dim=2, keepdim=True)
        found = made.refined(made.own())
        assert (found <= known).all()
        farthest = torch.maximum(farthest, found / plain)
    assert (farthest > 1.01).any()


def test_the_attraction_is_a_product_of_two_ratios_that_are_off() -> None:
    """Without score errors the bound is that of beta cos (A(a) A(k) - R(a) R(k)), which corners attain."""
    bank, z, labels, samples = _problem(2)
    made = sf.Analytic(sf.DebyePair(order=2)).at(sf.SupervisedStates(bank, z, labels, samples, 16.0))
    size = torch.full_like(made.like, 0.2)
    kind = type(made.own())
    found = made.refined(kind(d=torch.zeros_like(made.gaps), at_length=size, at_target=size))
    cosine = torch.nn.functional.cosine_similarity(z, bank.directions[labels]).abs()
    worst = torch.zeros_like(found)
    for one in (-0.2, 0.2):
        for other in (-0.2, 0.2):
            change = (made.ratio_at_length + one) * (made.ratio_at_target + other)
            worst = torch.maximum(worst, (change - made.ratio_at_length * made.ratio_at_target).abs())
    assert (found >= 16.0 * cosine * worst * (1 - 1e-13)).all()
    assert (found <= 16.0 * cosine * worst * (1 + 1e-9) + 1e-9).all()


def test_bad_input() -> None:
    bank, z, labels, samples = _problem(0)
    with pytest.raises(ValueError, match="Expected unit samples"):
        evaluate_supervised(bank, z, labels, 2 * samples, 1.0, sf.DebyePair())
    with pytest.raises(ValueError, match="Expected beta > 0"):
        evaluate_supervised(bank, z, labels, samples, 0.0, sf.DebyePair())
    with pytest.raises(ValueError, match="Expected directions"):
        sample_vmf(z, torch.ones(2, dtype=torch.float64), 3)


def _supervised(seed: int = 0, count: int = 9) -> sf.SupervisedStates:
    g = torch.Generator().manual_seed(seed)

    def unit(*size: int) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.randn(*size, generator=g, dtype=torch.float64), dim=-1)

    bank = sf.ClassBank(unit(6, 32), 5 + 60 * torch.rand(6, generator=g, dtype=torch.float64))
    embeddings = 40 * torch.rand(count, 1, generator=g, dtype=torch.float64) * unit(count, 32)
    labels = torch.randint(0, 6, (count,), generator=g)
    beta = 4 + 12 * torch.rand(count, generator=g, dtype=torch.float64)
    return sf.SupervisedStates(bank, embeddings, labels, unit(count, 5, 32), beta)


def test_supervised_states_are_certified_by_their_own_bound() -> None:
    states, pair = _supervised(), sf.DebyePair(order=2)
    object.__setattr__(states, "chunk", 4)
    budget = sf.certify(states, sf.Budgets(loss=1.0), pair).loss.median().item()
    found = sf.certify(states, sf.Budgets(loss=budget), pair)
    for n in range(len(states)):
        one = states[n : n + 1]
        alone = sf.evaluate_supervised(one.bank, one.embeddings, one.labels, one.samples, one.beta.item(), pair)
        torch.testing.assert_close(found.loss[n : n + 1], alone.refined_bound, rtol=1e-9, atol=0)
        assert alone.refined_bound <= alone.uniform_bound
    assert torch.equal(found.certified, found.loss <= budget)
    assert torch.equal(found.certified, found.headroom >= 1)
    assert {*found.verdict} == {"certified", "inconclusive"}
    tiers = sf.cascade(states, sf.Budgets(loss=budget), pair)
    assert (tiers.verdict == found.verdict).all()
    with pytest.raises(TypeError, match="not one softmax"):
        found.explain(0)


@pytest.mark.parametrize("budgets", [sf.Budgets(gradient=1.0), sf.Budgets(loss=1.0, prediction=True)], ids=str)
def test_budgets_without_a_bound_are_refused(budgets: sf.Budgets) -> None:
    for judged in (sf.certify, sf.tolerance, sf.cascade):
        with pytest.raises(
            ValueError, match=r"Expected budgets in \['loss'\], for which SupervisedStates have a bound"
        ):
            judged(_supervised(), budgets, sf.DebyePair())
    with pytest.raises(TypeError, match="Expected States for scope execution, but got SupervisedStates"):
        sf.certify(_supervised(), sf.Budgets(loss=1.0), sf.DebyePair(), scope="execution")


@pytest.mark.parametrize("seed", range(3))
def test_a_ratio_error_of_b_star_is_harmless(seed: int) -> None:
    """Ratios that are off by b* times a ramp of slope at most one: the loss stays within its budget."""
    states, pair, budget = _supervised(seed), sf.DebyePair(order=4), 1e-5
    found = sf.tolerance(states, sf.Budgets(loss=budget), pair)
    assert (found.status == "bounded").all()
    assert (found.upper <= found.b * (1 + 1e-9)).all()
    torch.testing.assert_close(found.b, found.first_order, rtol=1e-2, atol=0)
    for n, b in enumerate(found.b.tolist()):
        one = states[n : n + 1]
        arguments = (one.bank, one.embeddings, one.labels, one.samples, one.beta.item())
        plain = sf.evaluate_supervised(*arguments, pair).loss
        for sign in (-1, 1):
            moved = sf.evaluate_supervised(*arguments, PerturbedPair(base=pair, bump=ramp, amount=sign * b)).loss
            assert (moved - plain).abs() <= budget


def test_supervised_states_are_audited(tmp_path: Path) -> None:
    states = _supervised(count=12)
    with sf.CollectionWriter(tmp_path / "c", "made by a test") as writer:
        writer.add(states, source="supervised", dataset="random", run="a", step=0)
    budgets = sf.Budgets(loss=1e-4)
    result = sf.audit(tmp_path / "c", budgets, out=tmp_path / "a")
    (columns,) = read_results(tmp_path / "a")
    found, b = sf.certify(states, budgets, sf.DebyePair()), sf.tolerance(states, budgets, sf.DebyePair())
    # what the bound leaves open is decided by an enclosure of the error itself
    decided = columns["tier"] == "enclosure"
    assert decided.tolist() == (~found.certified).tolist()
    assert decided.any()
    np.testing.assert_array_equal(columns["loss_bound"][~decided], found.loss[~decided])
    assert (columns["loss_bound"][decided] <= found.loss.numpy()[decided]).all()
    assert columns["b"].tolist() == b.b.tolist()
    certified = columns["loss_bound"] <= 1e-4
    assert result.summary.certified == certified.sum() > found.certified.sum()
    for order in (1, 6):
        by_bound = sf.certify(states, budgets, sf.DebyePair(order=order)).certified.numpy()
        assert columns[f"certified_{order}"][by_bound].all()
    shown = CliRunner().invoke(app, ["audit", str(tmp_path / "c"), "--loss", "1e-4", "--out", str(tmp_path / "page")])
    assert shown.exit_code == int(not certified.all()), shown.output
    assert (tmp_path / "page" / "report.html").is_file()
    refused = CliRunner().invoke(app, ["audit", str(tmp_path / "c"), "--out", str(tmp_path / "b")])
    assert refused.exit_code == 2
    assert "for which SupervisedStates have a bound" in " ".join(refused.output.replace("│", " ").split())
