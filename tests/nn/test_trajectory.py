"""Training against the same training in 50 digits: the bound holds at every step, whatever made the gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import suffice as sf
import suffice.nn.trajectory as module
from suffice.nn.regression import mean_gradient
from suffice.nn.trajectory import Errors, TrajectoryBound
from tests.attacks.trajectories import CASES, Case, attacked
from tests.support.twins import ExactRun


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.seed}-{case.program}-{case.errors}")
def test_the_distance_is_below_the_bound_at_every_step(case: Case) -> None:
    for at, taken in enumerate(attacked(replace(case, steps=min(case.steps, 25)))):
        assert taken.actual <= taken.bound, at


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.seed}-{case.program}-{case.errors}")
def test_the_same_over_thousands_of_steps(case: Case) -> None:
    for at, taken in enumerate(attacked(case)):
        assert taken.actual <= taken.bound, at


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_an_adversary_reaches_the_bound(decay: float) -> None:
    case = Case(program="adversarial", steps=150, decay=decay, bias_decay=decay, errors="derived")
    *_, last = attacked(case)
    assert 0.3 * last.bound <= last.actual <= last.bound


def test_the_first_step_and_the_twin_are_tight() -> None:
    first = next(attacked(Case(errors="enclosed")))
    assert first.actual <= first.bound <= 1.00001 * first.actual
    *_, last = attacked(Case(errors="twin", steps=100))
    assert last.actual <= last.bound <= 1.0001 * last.actual


def _trained(errors: Errors, steps: int = 30) -> tuple[TrajectoryBound, ExactRun, nn.Linear]:
    g = torch.Generator().manual_seed(0)
    head = nn.Linear(4, 3)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g))
    run = TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=0.1, weight_decay=0.01), errors=errors)
    twin = ExactRun(head.weight, head.bias)
    x, y = torch.randn(40, 4, generator=g), torch.randint(0, 3, (40,), generator=g)
    for start in range(0, 8 * steps, 8):
        rows = torch.arange(start, start + 8) % 40
        run.step(x[rows], y[rows])
        twin.step(x[rows], y[rows], 0.1, 0.01, 0.01)
    return run, twin, head


def test_certified_predictions_are_those_of_the_exact_run() -> None:
    run, twin, head = _trained("derived")
    g = torch.Generator().manual_seed(1)
    # states near ties, so that some are not certified
    x = torch.randn(300, 4, generator=g)
    w = head.weight.detach()
    normal = (w[0] - w[1]) / (w[0] - w[1]).norm()
    x = (
        x
        - (1 - 1e-5) * ((x @ normal) + (head.bias[0] - head.bias[1]).detach() / (w[0] - w[1]).norm())[:, None] * normal
    )
    made = run.report(x).states
    assert made is not None
    assert 0 < made.certified < 300
    exact = torch.tensor(twin.predictions(x))
    assert bool((exact == made.classes)[made.prediction].all())
    assert made.loss is None


def test_a_report_of_training() -> None:
    run, twin, head = _trained("twin")
    report = run.report(torch.randn(10, 4), torch.zeros(10, dtype=torch.int64))
    assert report.steps == 30
    assert report.distance == run.distance >= twin.distance(head.weight.detach(), head.bias.detach())
    assert report.without_decay == report.expanding == 0
    assert report.states is not None
    assert report.states.loss is not None
    assert run.loss > 0


def test_what_has_no_contraction_says_so() -> None:
    head = nn.Linear(2, 2)
    groups = [{"params": [head.weight], "weight_decay": 0.1}, {"params": [head.bias], "weight_decay": 0.0}]
    run = sf.nn.TrajectoryBound(head, torch.optim.SGD(groups, lr=0.1))
    run.step(torch.eye(2), torch.tensor([0, 1]))
    assert "1 steps without decay of every parameter: no contraction" in str(run.report())
    assert run.report().expanding == 0
    for group in run.optimizer.param_groups:
        group["lr"] = 50.0
    run.step(torch.eye(2), torch.tensor([0, 1]))
    assert run.report().expanding == 1


@pytest.mark.parametrize("errors", ["twin", "enclosed", "derived"])
def test_what_is_not_finite_is_not_known(errors: Errors) -> None:
    head = nn.Linear(2, 2)
    run = TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=0.1), errors=errors)
    assert run.step(torch.full((1, 2), float("nan")), torch.tensor([0])) == float("inf")
    assert run.report(torch.eye(2)).states is not None
    assert run.report(torch.eye(2)).states.certified == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("errors", ["twin", "enclosed", "derived"])
def test_a_run_that_broke_down_goes_on_and_certifies_nothing(errors: Errors) -> None:
    head = nn.Linear(2, 2)
    run = TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=0.1), errors=errors)
    x, y = torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1])
    nowhere = torch.full_like(head.weight, float("nan")), torch.zeros_like(head.bias)
    run.step(x, y, gradient=nowhere, allowance=1.0)
    assert [run.step(x, y), run.step(x, y)] == [float("inf")] * 2
    assert not bool(torch.isfinite(head.weight).all())
    assert run.report(x, y).states.certified == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("errors", ["twin", "enclosed", "derived"])
def test_whatever_the_optimizer_did_is_in_the_bound(errors: Errors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the gradient, as clipping would: what comes out is compared, and what was meant says nothing."""
    head = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    run = TrajectoryBound(head, optimizer, errors=errors)
    twin = ExactRun(head.weight.detach(), head.bias.detach())
    honest = optimizer.step

    def clipped() -> None:
        for parameter in head.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(0.5)
        honest()

    monkeypatch.setattr(optimizer, "step", clipped)
    x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    for _ in range(3):
        bound = run.step(x, y)
        twin.step(x, y, 0.1, 0.0, 0.0)
        actual = twin.distance(head.weight.detach(), head.bias.detach())
        assert 1e-3 < actual <= bound <= 1.5 * actual


@pytest.mark.parametrize("errors", ["twin", "enclosed", "derived"])
def test_features_may_share_memory_with_the_head(errors: Errors) -> None:
    """A step moves them, and the step is about the numbers that were given."""
    torch.manual_seed(0)
    head = nn.Linear(4, 4)
    run = TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=1.0), errors=errors)
    twin = ExactRun(head.weight.detach(), head.bias.detach())
    y = torch.tensor([1, 0, 3, 2])
    for _ in range(5):
        given = head.weight.detach().clone()
        bound = run.step(head.weight.detach(), y)
        twin.step(given, y, 1.0, 0.0, 0.0)
        assert twin.distance(head.weight.detach(), head.bias.detach()) <= bound < 1e-3


@pytest.mark.parametrize("errors", ["twin", "enclosed", "derived"])
@pytest.mark.parametrize("where", ["enclosed_error", "derived_error", "exact_step", "above"])
def test_a_step_that_was_stopped_is_not_known(errors: Errors, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever: as a notebook's interrupt would, between the step and its bound."""
    run, _, head = _trained(errors, 3)
    before = head.weight.detach().clone()

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, where, stopped)
        try:
            run.step(torch.ones(1, 4), torch.tensor([0]))
        except KeyboardInterrupt:
            assert not torch.equal(head.weight, before)
            assert run.distance == float("inf")
            assert run.report(torch.eye(4)).states.certified == 0  # type: ignore[union-attr]
    # and it stays so, however it goes on
    assert run.step(torch.ones(1, 4), torch.tensor([0])) == float("inf") or run.steps == 5


def test_a_report_is_about_the_head_that_was_trained() -> None:
    run, _, head = _trained("twin", 2)
    with torch.no_grad():
        head.weight.mul_(1.5)
    with pytest.raises(ValueError, match="Expected nobody else to change the head"):
        run.report(torch.eye(4))


def test_subnormal_numbers_that_are_read_as_zero_are_refused() -> None:
    """A run that has nothing else would end 1e-39 from the exact one, and say that it is within 1e-150."""
    head = nn.Linear(4, 3, bias=False)
    nn.init.constant_(head.weight, 1e-39)
    run = TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=0.1, weight_decay=0.01))
    assert torch.set_flush_denormal(True)
    try:
        with pytest.raises(ValueError, match="Expected subnormal numbers to be numbers"):
            run.step(torch.zeros(1, 4), torch.tensor([0]))
        with pytest.raises(ValueError, match="Expected subnormal numbers to be numbers"):
            run.report(torch.zeros(1, 4))
    finally:
        torch.set_flush_denormal(False)
    run.step(torch.zeros(1, 4), torch.tensor([0]))


@pytest.mark.parametrize("errors", ["twin", "enclosed", "derived"])
def test_a_rate_of_zero_is_a_step_as_well(errors: Errors) -> None:
    """Schedules that warm up begin with one."""
    run, _, head = _trained(errors, 3)
    before, weight = run.distance, head.weight.detach().clone()
    run.optimizer.param_groups[0]["lr"] = 0.0
    assert before <= run.step(torch.ones(1, 4), torch.tensor([0])) <= before * (1 + 1e-12) + 1e-14
    assert torch.equal(head.weight, weight)
    assert run.report().changed == 1


def test_decays_that_change_are_told() -> None:
    run, _, _ = _trained("twin", 2)
    run.optimizer.param_groups[0]["weight_decay"] = 0.5
    run.step(torch.ones(1, 4), torch.tensor([0]))
    assert run.report().changed == 1
    assert "step sizes or decays changed 1 times" in str(run.report())


def test_step_sizes_that_change_are_told() -> None:
    x, y = torch.ones(2, 4), torch.tensor([0, 1])
    for scheduled, count in ((False, 2), (True, 0)):
        head = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        run = TrajectoryBound(head, optimizer, scheduler=scheduler if scheduled else None)
        for _ in range(3):
            run.step(x, y)
            scheduler.step()
        assert run.report().changed == count
        assert ("assumed to be fixed in advance" in str(run.report())) is not scheduled


def test_gradients_that_are_handed_in() -> None:
    head = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.5)
    x, y = torch.eye(2), torch.tensor([0, 1])
    made = mean_gradient(head.weight.detach(), head.bias.detach(), x, y)
    run = TrajectoryBound(head, optimizer, errors="derived")
    with pytest.raises(ValueError, match="Expected an allowance for the gradient that is handed in"):
        run.step(x, y, gradient=(made.weight, made.bias))
    with pytest.raises(ValueError, match="Expected an allowance >= 0 and finite, but got -1"):
        run.step(x, y, gradient=(made.weight, made.bias), allowance=-1.0)
    with pytest.raises(ValueError, match="Expected an allowance with a gradient"):
        run.step(x, y, allowance=1.0)
    with pytest.raises(ValueError, match="Expected a gradient of the bias in its shape and dtype"):
        run.step(x, y, gradient=(made.weight, None), allowance=1.0)
    with pytest.raises(ValueError, match="Expected a gradient of the weight in its shape and dtype"):
        run.step(x, y, gradient=(made.weight.double(), made.bias), allowance=1.0)
    assert run.steps == 0
    given = made.weight.clone()
    assert run.step(x, y, gradient=(given, made.bias), allowance=1.0) >= 0.5
    assert torch.equal(given, made.weight)


def test_a_head_that_somebody_else_moved_is_refused() -> None:
    run, _, head = _trained("twin", 2)
    with torch.no_grad():
        head.weight[0, 0] += 1e-3
    with pytest.raises(ValueError, match="Expected nobody else to change the head"):
        run.step(torch.ones(1, 4), torch.tensor([0]))


def test_bad_batches() -> None:
    run, _, _ = _trained("twin", 1)
    with pytest.raises(ValueError, match=r"Expected labels in 0..2, but got -100 at 1"):
        run.step(torch.ones(2, 4), torch.tensor([0, -100]))
    with pytest.raises(ValueError, match=r"Expected features \[N, 4\] and labels \[N\]"):
        run.step(torch.ones(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="Expected at least one row"):
        run.step(torch.ones(0, 4), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(
        TypeError, match=r"Expected features that torch.float32 can hold exactly, but got torch.float64"
    ):
        run.step(torch.ones(2, 4).double(), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="Expected errors in"):
        TrajectoryBound(nn.Linear(2, 2), run.optimizer, errors="guessed")  # type: ignore[arg-type]
    # bfloat16 features are exact in float32
    assert run.step(torch.ones(2, 4, dtype=torch.bfloat16), torch.tensor([0, 1])) < 1


def test_a_resumed_run_goes_on_where_it_was() -> None:
    x, y = torch.ones(2, 4), torch.tensor([0, 1])
    first, _, head = _trained("twin", 5)
    second = nn.Linear(4, 3)
    second.load_state_dict(head.state_dict())
    optimizer = torch.optim.SGD(second.parameters(), lr=0.1, weight_decay=0.01)
    resumed = TrajectoryBound(second, optimizer)
    resumed.load_state_dict(first.state_dict())
    assert resumed.step(x, y) == first.step(x, y)
    assert resumed.steps == 6
    with pytest.raises(ValueError, match="Expected a state with"):
        resumed.load_state_dict({"distance": 0.0})
    with pytest.raises(ValueError, match="Expected the head to be loaded first"):
        _fresh("twin").load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="Expected a state of errors='derived', but got 'twin'"):
        _fresh("derived").load_state_dict(first.state_dict())


def _fresh(errors: Errors) -> TrajectoryBound:
    head = nn.Linear(4, 3)
    return TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=0.1), errors=errors)
