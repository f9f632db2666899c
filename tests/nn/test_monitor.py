"""The monitor reports plain numbers on its steps, and touches nothing on the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import suffice as sf
from suffice.nn import ProCoLoss, ToleranceMonitor
from suffice.nn.watched import gradient_noise
from tests.support.batches import random_batch, trained_proco


def test_monitor_reports_plain_numbers_and_skips_without_touching_tensors() -> None:
    loss = trained_proco(128)
    monitor = ToleranceMonitor(loss, sf.Budgets(loss=1e-4, gradient=1e-4), every=3, sample=4)
    features, labels = random_batch(128)
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
    with pytest.raises(ValueError, match="Expected every >= 1 and sample >= 1"):
        ToleranceMonitor(ProCoLoss(3, 8), sf.Budgets(loss=1e-5), every=0)


def test_shares_add_up_and_small_batches_are_taken_whole() -> None:
    loss = trained_proco(128)
    features, labels = random_batch(128)
    budgets = sf.Budgets(loss=1e-9, gradient=1e-9)
    report = ToleranceMonitor(loss, budgets, sample=100, contract="conditioned")(features, labels)
    assert report is not None
    assert report["suffice/states"] == len(labels)
    shares = {name: value for name, value in report.items() if name.startswith("suffice/binding_")}
    assert sum(shares.values()) == pytest.approx(1)
    certificate = sf.certify(loss.states(features, labels), budgets, sf.DebyePair(), "conditioned")
    assert report["suffice/certified"] == pytest.approx((certificate.verdict == "certified").mean())
    assert report["suffice/headroom_min"] == pytest.approx(float(certificate.headroom.min()))
    # something is not certified, or the share would show nothing
    assert report["suffice/certified"] < 1
    assert report["suffice/scope"] == "analytic"


def test_what_a_batch_contains_never_raises() -> None:
    loss = trained_proco(128)
    features, labels = random_batch(128)
    budgets = sf.Budgets(loss=1e-4, gradient=1e-4)
    wrong = features.clone()
    wrong[1, 3], wrong[4, 0] = float("inf"), float("nan")
    unlabelled = labels.clone()
    unlabelled[2] = -100
    report = ToleranceMonitor(loss, budgets)(wrong, unlabelled)
    assert report is not None
    assert (report["suffice/states"], report["suffice/skipped"]) == (3, 3)
    rest = ToleranceMonitor(loss, budgets)(features[[0, 3, 5]], labels[[0, 3, 5]])
    assert rest is not None
    assert rest["suffice/skipped"] == 0
    assert {name: report[name] for name in report if name != "suffice/skipped"} == {
        name: rest[name] for name in rest if name != "suffice/skipped"
    }
    for some, words in ((wrong * float("nan"), labels), (features[:0], labels[:0]), (features, labels + 99)):
        empty = ToleranceMonitor(loss, budgets)(some, words)
        assert empty == {"suffice/step": 0, "suffice/states": 0, "suffice/skipped": len(some)}


def test_statistics_that_are_no_bank_are_reported() -> None:
    loss = ProCoLoss(3, 8)
    loss.statistics.means.fill_(float("nan"))
    report = ToleranceMonitor(loss, sf.Budgets(loss=1e-5))(*random_batch(8, 3))
    assert report == {"suffice/step": 0, "suffice/states": 0, "suffice/skipped": 6}


def test_a_resumed_monitor_reports_on_the_same_steps() -> None:
    loss, budgets = trained_proco(128), sf.Budgets(loss=1e-4)
    batch = random_batch(128)
    whole = ToleranceMonitor(loss, budgets, every=3)
    steps = [whole(*batch) is not None for _ in range(8)]
    first = ToleranceMonitor(loss, budgets, every=3)
    before = [first(*batch) is not None for _ in range(5)]
    second = ToleranceMonitor(loss, budgets, every=3)
    second.load_state_dict(first.state_dict())
    assert before + [second(*batch) is not None for _ in range(3)] == steps
    with pytest.raises(ValueError, match="Expected a state with 'step'"):
        second.load_state_dict({"epoch": 1})


def test_numbers_apart_from_words() -> None:
    report = ToleranceMonitor(trained_proco(128), sf.Budgets(loss=1e-4))(*random_batch(128))
    assert report is not None
    assert set(report.words) == {"suffice/binding", "suffice/scope"}
    assert all(isinstance(value, float | int) for value in report.numbers.values())
    assert {**report.numbers, **report.words} == report


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_without_a_proof_the_outputs_are_judged(dim: int) -> None:
    loss = ProCoLoss(6, dim, class_counts=[6, 5, 4, 3, 2, 1])
    generator = torch.Generator().manual_seed(dim)
    features, labels = torch.randn(12, dim, generator=generator), torch.arange(12) % 6
    loss(features, labels)
    report = ToleranceMonitor(loss, sf.Budgets(loss=1e-4, gradient=1e-3), every=1)(features, labels)
    assert report is not None
    assert report.words == {"suffice/scope": f"no proof at p = {dim}"}
    assert report["suffice/judged"] == 12
    assert report["suffice/judged_certified"] == 1.0
    assert report["suffice/judged_violated"] == 0.0
    assert "suffice/certified" not in report
    # float32 keeps no such budget, and the report says so
    report = ToleranceMonitor(loss, sf.Budgets(loss=1e-12), every=1)(features, labels)
    assert report is not None
    assert report["suffice/judged_violated"] > 0.5


def test_many_classes_are_judged_at_few_states() -> None:
    loss = ProCoLoss(9_000, 3)
    features = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    report = ToleranceMonitor(loss, sf.Budgets(loss=1e-3), every=1)(features, torch.arange(4))
    assert report is not None
    assert (report["suffice/states"], report["suffice/judged"]) == (4, 1)


def _watched(**options: Any) -> tuple[ToleranceMonitor, nn.Linear]:
    torch.manual_seed(0)
    head = nn.Linear(5, 7)
    return ToleranceMonitor(head, options.pop("budgets", sf.Budgets(gradient=1e-3)), **options), head


def test_any_linear_head_is_monitored_by_a_hook() -> None:
    monitor, head = _watched(every=3, sample=4)
    hidden, labels = torch.randn(10, 5), torch.randint(0, 7, (10,))
    seen = []
    for _ in range(7):
        head(hidden)
        seen.append(monitor(labels=labels))
        # nothing is kept that no report is waiting for
        assert monitor.watched is not None
        assert monitor.watched._hidden is None
    assert [report is not None for report in seen] == [True, False, False, True, False, False, True]
    assert seen[0] is not None
    assert seen[0]["suffice/states"] == 4
    assert seen[0]["suffice/skipped"] == 0
    rows = [0, 3, 6, 9]
    states = sf.HeadStates(sf.LinearHead(head.weight, head.bias), hidden[rows], labels[rows])
    expected = sf.tolerance(states, sf.Budgets(gradient=1e-3))
    assert seen[0]["suffice/b_q50"] == pytest.approx(float(expected.b.quantile(0.5)), rel=1e-6)
    monitor.remove()
    head(hidden)
    assert monitor.watched is not None
    assert monitor.watched.taken() is None


class _NoOperations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"an operation between reports: {func}")


def test_between_reports_no_operation_is_asked_of_a_device() -> None:
    """Nothing that could wait for one: not a copy, not a comparison, not a size."""
    loss = trained_proco(128)
    of_loss = ToleranceMonitor(loss, sf.Budgets(loss=1e-4), every=5)
    of_head, head = _watched(every=5, noise=0.1)
    features, labels = random_batch(128)
    hidden, marks = torch.randn(4, 5), torch.randint(0, 7, (4,))
    of_loss(features, labels)
    head(hidden)
    of_head(labels=marks)
    assert of_head.watched is not None
    for _ in range(4):
        with _NoOperations():
            # what the hook does, without the head's own product
            of_head.watched._seen(head, (hidden,), {}) if not of_head.due_next else None
            assert of_loss(features, labels) is None
            assert of_head(labels=marks) is None
    head(hidden)
    assert of_loss(features, labels) is not None
    assert of_head(labels=marks) is not None


def test_the_realization_that_is_asked_for_is_certified() -> None:
    shares = []
    for threshold in (1e-9, 0.9):
        monitor, head = _watched(realization=sf.Filtered(threshold), sample=10)
        head(torch.randn(10, 5))
        report = monitor(labels=torch.zeros(10, dtype=torch.int64))
        assert report is not None
        shares.append(report["suffice/certified"])
    assert shares == [1.0, 0.0]


def test_budgets_from_the_noise_of_the_batch() -> None:
    monitor, head = _watched(budgets=None, noise=0.1, realization=sf.Filtered(1e-4), sample=64)
    hidden, labels = torch.randn(40, 5), torch.randint(0, 7, (40,))
    head(hidden)
    report = monitor(labels=labels)
    assert report is not None
    states = sf.HeadStates(sf.LinearHead(head.weight, head.bias), hidden, labels, coordinate="weights")
    noise = (gradient_noise(states) / 40) ** 0.5
    assert report["suffice/noise"] == pytest.approx(noise)
    assert report["suffice/budget_gradient"] == pytest.approx(0.1 * noise)
    assert report["suffice/basis"] == "the gradient budget is estimated from noise"
    assert report["suffice/certified"] == 1.0
    with_loss, other = _watched(
        budgets=sf.Budgets(loss=1e-12), noise=0.1, realization=sf.Filtered(1e-4, truncated=True)
    )
    other(hidden)
    strict = with_loss(labels=labels)
    assert strict is not None
    assert strict["suffice/binding"] == "loss"
    # a bias that is not there has no noise
    plain = nn.Linear(5, 7, bias=False)
    of_weight = ToleranceMonitor(plain, noise=0.1)
    plain(hidden)
    found = of_weight(labels=labels)
    states = sf.HeadStates(sf.LinearHead(plain.weight), hidden, labels, coordinate="weights")
    assert found is not None
    assert found["suffice/noise"] == pytest.approx((gradient_noise(states, bias=False) / 40) ** 0.5)
    assert found["suffice/noise"] < (gradient_noise(states) / 40) ** 0.5
    # a batch of one says nothing, and does not raise
    alone, third = _watched(budgets=None, noise=0.1)
    third(hidden[:1])
    assert alone(labels=labels[:1]) == {
        "suffice/step": 0,
        "suffice/skipped": 0,
        "suffice/states": 0,
        "suffice/basis": "these samples say nothing about noise",
    }


def test_a_head_without_labels_or_inputs_is_reported_empty() -> None:
    monitor, head = _watched(every=1)
    assert monitor(labels=torch.tensor([0])) == {"suffice/step": 0, "suffice/skipped": 0, "suffice/states": 0}
    head(torch.randn(2, 5))
    assert monitor() == {"suffice/step": 1, "suffice/skipped": 0, "suffice/states": 0}
    # features that are given are taken
    report = monitor(torch.randn(2, 5), torch.tensor([0, 1]))
    assert report is not None
    assert report["suffice/states"] == 2


def test_options_belong_to_a_head_or_to_a_loss() -> None:
    head = nn.Linear(5, 7)
    with pytest.raises(ValueError, match=r"with a torch.nn.Linear only"):
        ToleranceMonitor(ProCoLoss(3, 8), sf.Budgets(loss=1e-5), noise=0.1)
    with pytest.raises(ValueError, match=r"Expected a realization for a torch.nn.Linear"):
        ToleranceMonitor(head, sf.Budgets(loss=1e-5), pair=sf.DebyePair())
    with pytest.raises(ValueError, match="Expected budgets, or noise"):
        ToleranceMonitor(head)
    with pytest.raises(ValueError, match="Expected noise, the share of it"):
        ToleranceMonitor(head, noise=0.0)
    with pytest.raises(TypeError, match="Expected features and labels"):
        ToleranceMonitor(ProCoLoss(3, 8), sf.Budgets(loss=1e-5))()


def test_a_resumed_monitor_of_a_head_keeps_inputs_for_the_same_steps() -> None:
    monitor, head = _watched(every=3)
    monitor.load_state_dict({"step": 0})
    head(torch.randn(2, 5))
    assert monitor.watched is not None
    assert monitor.watched.taken() is None
    monitor.load_state_dict({"step": 2})
    head(torch.randn(2, 5))
    assert monitor.watched.taken() is not None


def test_of_many_classes_fewer_states_are_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.nn.monitor._MOST_SCORES", 21)
    monitor, head = _watched(noise=0.1, sample=8)
    hidden, labels = torch.randn(8, 5), torch.randint(0, 7, (8,))
    head(hidden)
    report = monitor(labels=labels)
    assert report is not None
    assert report["suffice/states"] == 3
    # the noise is still that of all
    states = sf.HeadStates(sf.LinearHead(head.weight, head.bias), hidden, labels, coordinate="weights")
    assert report["suffice/noise"] == pytest.approx((gradient_noise(states) / 8) ** 0.5)


def test_a_head_that_is_no_product_is_refused() -> None:
    class Capped(nn.Linear):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return 30 * torch.tanh(super().forward(hidden) / 30)

    with pytest.raises(TypeError, match=r"Expected a head that is called as torch.nn.Linear is, but got Capped"):
        ToleranceMonitor(Capped(4, 3), sf.Budgets(loss=1e-2))

    class Named(nn.Linear):
        pass

    assert ToleranceMonitor(Named(4, 3), sf.Budgets(loss=1e-2)).watched is not None
