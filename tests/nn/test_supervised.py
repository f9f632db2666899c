"""SupervisedVMFLoss is the evaluated objective, with gradients that finite differences confirm."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch.nn.functional import normalize

import suffice as sf
from suffice.nn import SupervisedVMFLoss
from suffice.truth import bessel


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


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="samples >= 1 and beta > 0"):
        SupervisedVMFLoss(3, 8, beta=-1.0)


def test_logits_are_products_of_exact_ratios_and_cosines() -> None:
    loss = SupervisedVMFLoss(5, 32, beta=4.0).double()
    z = 20 * torch.randn(3, 32, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    found = loss.logits(z).detach()
    for i in range(3):
        for j in range(5):
            w, f = loss.weights[j].detach().double(), z[i]
            ratios = [float(bessel.ratio(15.0, float(x.norm()))) for x in (f, w)]
            cosine = float(f @ w / (f.norm() * w.norm()))
            assert found[i, j].item() == pytest.approx(loss.beta * ratios[0] * ratios[1] * cosine, rel=1e-9)


def test_an_empty_batch_has_a_loss_of_zero() -> None:
    loss = SupervisedVMFLoss(3, 8)
    embeddings = torch.zeros(0, 8, requires_grad=True)
    value = loss(embeddings, torch.zeros(0, dtype=torch.int64))
    value.backward()
    assert value == 0
    assert loss.weights.grad is not None
    assert not loss.weights.grad.any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_labels_of_any_integer_type(dtype: torch.dtype) -> None:
    loss = SupervisedVMFLoss(8, 16)
    embeddings, labels = torch.randn(6, 16, generator=torch.Generator().manual_seed(1)), torch.arange(6)
    one, other = (loss(embeddings, each, torch.Generator().manual_seed(0)) for each in (labels, labels.to(dtype)))
    assert one == other


def test_label_minus_100_is_left_out() -> None:
    loss = SupervisedVMFLoss(8, 16)
    embeddings = torch.randn(6, 16, generator=torch.Generator().manual_seed(1), requires_grad=True)
    labels, seed = torch.arange(6), 3
    each = [
        loss(embeddings, torch.where(torch.arange(6) == i, labels, -100), torch.Generator().manual_seed(seed))
        for i in (1, 4)
    ]
    both = loss(embeddings, torch.tensor([-100, 1, -100, -100, 4, -100]), torch.Generator().manual_seed(seed))
    torch.testing.assert_close(both, (each[0] + each[1]) / 2)
    (gradient,) = torch.autograd.grad(both, embeddings)
    assert not gradient[[0, 2, 3, 5]].any()
    assert gradient[[1, 4]].any(dim=1).all()
    nothing = loss(embeddings, torch.full((6,), -100))
    nothing.backward()
    assert nothing == 0
    assert loss.weights.grad is not None
    assert not loss.weights.grad.any()
