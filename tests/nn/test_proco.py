"""ProCoLoss against Arb, in every mode in which people run it."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch.nn.functional import normalize

import suffice as sf
from suffice.nn import ProCoLoss, SupervisedVMFLoss
from tests.support.batches import random_batch, trained_proco


@pytest.mark.parametrize("dim", [128, 512, 1024])
def test_loss_and_gradient_are_the_exact_objective(dim: int) -> None:
    loss = trained_proco(dim, temperature=0.1)
    features, labels = random_batch(dim)
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
    features, labels = random_batch(512)
    double, single = trained_proco(512), trained_proco(512, dtype=torch.float32)
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
    loss = trained_proco(64)
    features, labels = random_batch(64)
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
    loss = trained_proco(128)
    features, labels = random_batch(128)
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


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_small_and_odd_dimensions_train(dim: int) -> None:
    loss = ProCoLoss(3, dim, temperature=0.5)
    features = torch.randn(9, dim, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = loss(features, torch.tensor([0, 1, 2] * 3))
    value.backward()
    assert torch.isfinite(value)
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="Expected temperature > 0, but got 0"):
        ProCoLoss(3, 8, temperature=0)
    with pytest.raises(ValueError, match="Expected 3 class_counts > 0"):
        ProCoLoss(3, 8, class_counts=[1, 0, 2])


@pytest.mark.parametrize("options", [{}, {"adaptive": sf.Budgets(loss=1e-3, gradient=1e-3)}], ids=["plain", "adaptive"])
def test_an_empty_batch_has_a_loss_of_zero(options: dict[str, sf.Budgets]) -> None:
    loss = ProCoLoss(3, 8, **options)
    features = torch.zeros(0, 8, requires_grad=True)
    value = loss(features, torch.zeros(0, dtype=torch.int64))
    value.backward()
    assert value == 0
    assert features.grad is not None
    assert features.grad.shape == (0, 8)
    assert not loss.statistics.counts.any()


def test_an_overflow_does_not_outlive_its_batch() -> None:
    """The loss of a batch with an inf is no number, which a gradient scaler skips; the next epoch is not touched."""
    loss, other = ProCoLoss(4, 16), ProCoLoss(4, 16)
    good, labels = torch.randn(8, 16, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4
    bad = good.clone()
    bad[2, 3] = float("inf")
    with pytest.warns(RuntimeWarning, match="1 rows"):
        assert torch.isnan(loss(bad, labels))
    other(good[[0, 1, 3, 4, 5, 6, 7]], labels[[0, 1, 3, 4, 5, 6, 7]])
    for each in (loss, other):
        each.statistics.advance()
    torch.testing.assert_close(loss(good, labels), other(good, labels), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("options", [{}, {"adaptive": sf.Budgets(loss=1e-3, gradient=1e-3)}], ids=["plain", "adaptive"])
def test_labels_of_any_integer_type(dtype: torch.dtype, options: dict[str, sf.Budgets]) -> None:
    one, other = ProCoLoss(8, 16, **options), ProCoLoss(8, 16, **options)
    features, labels = random_batch(16)
    assert one(features, labels) == other(features, labels.to(dtype))
    assert torch.equal(one.statistics.counts, other.statistics.counts)
    assert torch.equal(one.states(features, labels).labels, one.states(features, labels.to(dtype)).labels)


@pytest.mark.parametrize("options", [{}, {"adaptive": sf.Budgets(loss=1e-3, gradient=1e-3)}], ids=["plain", "adaptive"])
def test_label_minus_100_is_left_out(options: dict[str, sf.Budgets]) -> None:
    one, other = ProCoLoss(8, 16, **options), ProCoLoss(8, 16, **options)
    features, labels = random_batch(16)
    features.requires_grad_()
    kept = torch.tensor([0, 1, 3, 5])
    ignoring = torch.full_like(labels, -100)
    ignoring[kept] = labels[kept]
    value = one(features, ignoring)
    torch.testing.assert_close(value, other(features[kept], labels[kept]), rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(value, features)
    assert not gradient[[2, 4]].any()
    assert gradient[kept].any(dim=1).all()
    assert torch.equal(one.statistics.counts, other.statistics.counts)
    assert int(one.statistics.skipped) == 0
    nothing = one(features, torch.full_like(labels, -100))
    (gradient,) = torch.autograd.grad(nothing, features)
    assert nothing == 0
    assert not gradient.any()
    with pytest.raises(ValueError, match=r"but got -100 at row 2; leave out the rows that a loss ignores"):
        one.states(features, ignoring)


def test_a_class_without_a_count_is_named() -> None:
    for wrong, words in (
        ([1, 0, 2], "class 1 has 0"),
        ([1, 2, -3.5], "class 2 has -3.5"),
        ([float("nan"), 1, 1], "class 0 has nan"),
    ):
        with pytest.raises(ValueError, match=f"Expected 3 class_counts > 0, but {words}"):
            ProCoLoss(3, 8, class_counts=wrong)


@pytest.mark.parametrize("options", [{}, {"adaptive": sf.Budgets(loss=1e-3, gradient=1e-3)}], ids=["plain", "adaptive"])
def test_logits_come_with_the_loss_and_the_batch_is_seen_once(options: dict[str, sf.Budgets]) -> None:
    one, other = ProCoLoss(8, 16, **options), ProCoLoss(8, 16, **options)
    features, labels = random_batch(16)
    value, logits = one(features, labels, return_logits=True)
    assert value == other(features, labels)
    assert torch.equal(one.statistics.counts, other.statistics.counts)
    torch.testing.assert_close(logits, other.eval().logits(features))
    torch.testing.assert_close(one.adjusted_loss(logits, labels), value, rtol=1e-3, atol=1e-3)


def test_logits_with_labels_see_the_batch_as_published() -> None:
    one, other = ProCoLoss(8, 16), ProCoLoss(8, 16)
    features, labels = random_batch(16)
    logits = one.logits(features, labels)
    _, wanted = other(features, labels, return_logits=True)
    assert torch.equal(logits, wanted)
    assert torch.equal(one.statistics.means, other.statistics.means)
    before = one.statistics.means.clone()
    one.logits(features)
    one.eval().logits(features, labels)
    assert torch.equal(before, one.statistics.means)


@pytest.mark.parametrize("options", [{}, {"adaptive": sf.Budgets(loss=1e-3, gradient=1e-3)}], ids=["plain", "adaptive"])
def test_reductions(options: dict[str, sf.Budgets]) -> None:
    features, labels = random_batch(16)
    labels[2] = -100
    found = {name: ProCoLoss(8, 16, reduction=name, **options)(features, labels) for name in ("none", "sum", "mean")}
    assert found["none"].shape == labels.shape
    assert found["none"][2] == 0
    torch.testing.assert_close(found["none"].sum(), found["sum"])
    torch.testing.assert_close(found["sum"] / 5, found["mean"])
    with pytest.raises(ValueError, match=r"Expected reduction in \['mean', 'sum', 'none'\], but got 'median'"):
        ProCoLoss(8, 16, reduction="median")


def test_counts_can_come_later_and_are_kept() -> None:
    loss, other = ProCoLoss(3, 8, class_counts=[3, 2, 1]), ProCoLoss(3, 8)
    other.set_class_counts([3, 2, 1])
    assert torch.equal(loss.biases, other.biases)
    last = ProCoLoss(3, 8)
    last.load_state_dict(other.state_dict())
    assert torch.equal(loss.biases, last.biases)
    with pytest.raises(ValueError, match="class 1 has 0"):
        other.set_class_counts([3, 0, 1])
    assert torch.equal(loss.biases, other.biases)


def test_a_classifier_is_adjusted_and_combined() -> None:
    loss = ProCoLoss(4, 8, class_counts=[40, 30, 20, 10])
    generator = torch.Generator().manual_seed(0)
    classifier, first, second = (torch.randn(6, 4, generator=generator) for _ in range(3))
    labels = torch.tensor([0, 1, 2, 3, -100, 1])
    priors = torch.tensor([0.4, 0.3, 0.2, 0.1])
    wanted = torch.nn.functional.cross_entropy(classifier + priors.log(), labels)
    torch.testing.assert_close(loss.adjusted_loss(classifier, labels.int()), wanted)
    torch.testing.assert_close(loss.adjusted_loss(classifier.bfloat16(), labels), wanted, rtol=2e-2, atol=2e-2)
    assert loss.adjusted_loss(classifier.bfloat16(), labels).dtype == torch.float32
    torch.testing.assert_close(loss.combine(classifier, first, second, weight=2.0), classifier + first + second)
    assert torch.equal(loss.combine(classifier), classifier)


def test_epochs_end_once_under_either_name() -> None:
    features, labels = random_batch(16)
    before, after, both, plain = (ProCoLoss(8, 16) for _ in range(4))
    for _ in range(2):
        before.start_epoch(), both.start_epoch()
        for loss in (before, after, both, plain):
            loss(features, labels)
        after.end_epoch(), both.end_epoch(), plain.statistics.advance()
    before.start_epoch(), both.start_epoch()
    for loss in (before, after, both):
        assert int(loss.statistics.epoch) == 2
        assert torch.equal(loss.statistics.means, plain.statistics.means)


def test_features_as_they_are() -> None:
    loss = ProCoLoss(8, 16, normalize=False)
    features, labels = random_batch(16)
    loss(features, labels)
    torch.testing.assert_close(loss.statistics.means[1, 3], features[3].float())
    states = loss.states(features, labels)
    assert torch.equal(states.features, features)
    wanted = sf.reference(states).loss.mid.mean().item()
    assert loss.eval().double()(features, labels).item() == pytest.approx(wanted, abs=1e-6)
