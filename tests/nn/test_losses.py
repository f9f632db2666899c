"""The losses against Arb, in every mode in which people run them, and the monitor."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch.nn.functional import normalize

import suffice as sf
from suffice.nn import ProCoLoss, SupervisedVMFLoss, ToleranceMonitor


def _trained(dim: int, classes: int = 8, dtype: torch.dtype = torch.float64, **options: float) -> ProCoLoss:
    """A loss whose statistics have seen classes from wide to one that is capped at 1e5."""
    generator = torch.Generator().manual_seed(dim)
    counts = torch.arange(1, classes + 1)
    loss = ProCoLoss(classes, dim, class_counts=counts, dtype=dtype, **options)
    centers = normalize(torch.randn(classes, dim, generator=generator, dtype=torch.float64), dim=1)
    for c in range(classes):
        noise = 0.0 if c == 0 else 3.0 * c / classes
        features = centers[c] + noise * torch.randn(30, dim, generator=generator, dtype=torch.float64) / dim**0.5
        loss.statistics.update(normalize(features, dim=1), torch.full((30,), c))
    loss.statistics.advance()
    return loss.eval()


def _batch(dim: int, classes: int = 8, count: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(99)
    return torch.randn(count, dim, generator=generator, dtype=torch.float64), torch.arange(count) % classes


@pytest.mark.parametrize("dim", [128, 512, 1024])
def test_loss_and_gradient_are_the_exact_objective(dim: int) -> None:
    loss = _trained(dim, temperature=0.1)
    features, labels = _batch(dim)
    assert loss.statistics.concentrations.max() == 1e5
    unit = normalize(features, dim=1).requires_grad_()
    value = loss(unit, labels)
    value.backward()
    exact = sf.reference(loss.states(unit, labels))
    assert abs(value.item() - exact.loss.mid.mean().item()) < 1e-6
    # the loss normalises its features: only what is orthogonal to them remains of the gradient
    wanted = exact.gradient.mid / len(labels)
    wanted = wanted - (wanted * unit.detach()).sum(dim=1, keepdim=True) * unit.detach()
    assert unit.grad is not None
    assert (unit.grad - wanted).abs().max() < 1e-6


def test_float32_stays_close() -> None:
    features, labels = _batch(512)
    double, single = _trained(512), _trained(512, dtype=torch.float32)
    torch.testing.assert_close(single(features.float(), labels).double(), double(features, labels), rtol=0, atol=3e-6)


def test_training_mode_updates_the_statistics_and_evaluation_does_not() -> None:
    loss = ProCoLoss(4, 16)
    features = torch.randn(8, 16, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3] * 2)
    loss(features, labels).backward()
    assert loss.statistics.seen.all()
    assert features.grad is not None
    before = loss.statistics.means.clone()
    loss.eval()(features, labels)
    assert torch.equal(before, loss.statistics.means)


def test_priors_are_in_the_loss_and_not_in_the_prediction() -> None:
    loss = _trained(64)
    features, labels = _batch(64)
    plain, adjusted = loss.logits(features), loss.logits(features, adjusted=True)
    torch.testing.assert_close(adjusted - plain, loss.biases.expand_as(plain))
    torch.testing.assert_close(loss(features, labels), torch.nn.functional.cross_entropy(adjusted, labels))


@pytest.mark.parametrize("make", [lambda: ProCoLoss(5, 24), lambda: SupervisedVMFLoss(5, 24)], ids=["proco", "vmf"])
def test_autocast_keeps_the_numerics_in_float32(make: type[ProCoLoss]) -> None:
    loss = make()
    layer = torch.nn.Linear(24, 24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = layer(torch.randn(6, 24, generator=torch.Generator().manual_seed(0)))
        assert features.dtype == torch.bfloat16
        value = loss(features, torch.tensor([0, 1, 2, 3, 4, 0]))
    assert value.dtype == torch.float32
    value.backward()
    assert layer.weight.grad is not None
    assert torch.isfinite(layer.weight.grad).all()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_loss_equals_the_eager_one() -> None:
    loss = _trained(128)
    features, labels = _batch(128)
    gradients, values = [], []
    for function in (loss, torch.compile(loss)):
        leaf = features.clone().requires_grad_()
        value = function(leaf, labels)
        value.backward()
        values.append(value.item())
        gradients.append(leaf.grad)
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_training_steps_update_the_same_statistics() -> None:
    plain, other = ProCoLoss(10, 64), ProCoLoss(10, 64)
    compiled = torch.compile(other)
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        features, labels = torch.randn(16, 64, generator=generator), torch.randint(0, 10, (16,), generator=generator)
        torch.testing.assert_close(plain(features, labels), compiled(features, labels), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(plain.statistics.means, other.statistics.means, rtol=1e-6, atol=1e-6)
        plain.statistics.advance(), other.statistics.advance()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
# raised inside torch.compile where the graph breaks for the sampler
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_supervised_loss_compiles_around_its_sampler() -> None:
    loss = SupervisedVMFLoss(10, 64)
    embeddings = 30 * torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(4)
    values = [
        function(embeddings, labels, torch.Generator().manual_seed(1)) for function in (loss, torch.compile(loss))
    ]
    torch.testing.assert_close(values[0], values[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_small_and_odd_dimensions_train(dim: int) -> None:
    loss = ProCoLoss(3, dim, temperature=0.5)
    features = torch.randn(9, dim, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = loss(features, torch.tensor([0, 1, 2] * 3))
    value.backward()
    assert torch.isfinite(value)
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_supervised_loss_is_the_evaluated_objective() -> None:
    loss = SupervisedVMFLoss(6, 64, beta=8.0, samples=3).double()
    embeddings = 40 * torch.randn(5, 64, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 4])
    value = loss(embeddings, labels, generator=torch.Generator().manual_seed(3))
    states = loss.states(embeddings, labels)
    directions = normalize(embeddings, dim=1)
    samples = sf.sample_vmf(directions, embeddings.norm(dim=1), 3, generator=torch.Generator().manual_seed(3))
    expected = sf.evaluate_supervised(states.bank, states.features, labels, samples, loss.beta, sf.DebyePair(order=6))
    torch.testing.assert_close(value, expected.loss.mean(), rtol=1e-9, atol=1e-9)
    value.backward()
    assert loss.weights.grad is not None
    assert loss.log_beta.grad is not None
    assert torch.isfinite(loss.weights.grad).all()


def test_supervised_gradient_with_fixed_angles() -> None:
    loss = SupervisedVMFLoss(4, 12, samples=2).double()
    z = 10 * torch.randn(3, 12, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2])

    def of_weights(weights: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(
            loss, {"weights": weights}, (z, labels), {"generator": torch.Generator().manual_seed(0)}
        )

    assert torch.autograd.gradcheck(of_weights, (loss.weights.detach().clone().requires_grad_(),))


def test_monitor_reports_plain_numbers_and_skips_without_touching_tensors() -> None:
    loss = _trained(128)
    monitor = ToleranceMonitor(loss, sf.Budgets(loss=1e-4, gradient=1e-4), every=3, sample=4)
    features, labels = _batch(128)
    report = monitor(features, labels)
    assert report is not None
    assert all(isinstance(value, float | int | str) for value in report.values())
    states = loss.states(features[[0, 1, 3, 5]], labels[[0, 1, 3, 5]])
    expected = sf.tolerance(states, sf.Budgets(loss=1e-4, gradient=1e-4), sf.DebyePair())
    assert report["suffice/b_q50"] == pytest.approx(float(expected.b.quantile(0.5)), rel=1e-9)
    assert report["suffice/states"] == 4
    # not even a shape is asked for on the steps between
    assert monitor(None, None) is None  # type: ignore[arg-type]
    assert monitor(None, None) is None  # type: ignore[arg-type]
    assert monitor(features, labels) is not None


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="Expected temperature > 0, but got 0"):
        ProCoLoss(3, 8, temperature=0)
    with pytest.raises(ValueError, match="Expected 3 class_counts > 0"):
        ProCoLoss(3, 8, class_counts=[1, 0, 2])
    with pytest.raises(ValueError, match="Expected every >= 1 and sample >= 1"):
        ToleranceMonitor(ProCoLoss(3, 8), sf.Budgets(loss=1e-5), every=0)
    with pytest.raises(ValueError, match="samples >= 1 and beta > 0"):
        SupervisedVMFLoss(3, 8, beta=-1.0)
