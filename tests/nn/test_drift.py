"""What a distance of parameters means: no head within it has a loss, a probability or a prediction past the bounds."""

from __future__ import annotations

import math

import pytest
import torch

from suffice.nn.drift import TrajectoryReport, drifted


def _heads(distance: float, classes: int, dim: int, g: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    step = torch.randn(classes, dim + 1, generator=g, dtype=torch.float64)
    step = distance * step / step.norm()
    return step[:, :-1], step[:, -1]


@pytest.mark.parametrize("distance", [1e-3, 0.3, 3.0])
def test_every_head_within_the_distance_is_within_the_bounds(distance: float) -> None:
    g = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(4, 3, generator=g).double(), torch.randn(4, generator=g).double()
    features, labels = torch.randn(50, 3, generator=g).double(), torch.randint(0, 4, (50,), generator=g)
    made = drifted(weight, bias, features, labels, distance)
    here = torch.log_softmax(features @ weight.T + bias, dim=1)
    rows = torch.arange(50)
    assert made.loss is not None
    for _ in range(100):
        w, c = _heads(distance, 4, 3, g)
        there = torch.log_softmax(features @ (weight + w).T + bias + c, dim=1)
        assert bool(((here - there)[rows, labels].abs() <= made.loss).all())
        assert bool(((here.exp() - there.exp()).abs().sum(dim=1) / 2 <= made.probability + 1e-15).all())
        assert bool((there.argmax(dim=1) == made.classes)[made.prediction].all())
    # neither all nor none, at the sizes between
    if distance == 0.3:
        assert 0 < made.certified < 50


def test_the_worst_head_flips_a_prediction_just_past_the_bound() -> None:
    # two classes, moved towards each other along x: the margin shrinks by sqrt(2) E |x|
    weight, bias = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double(), torch.zeros(2).double()
    x = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    edge = 3.0 / (math.sqrt(2) * math.sqrt(10))
    assert drifted(weight, bias, x, None, edge * (1 - 1e-9)).certified == 1
    assert drifted(weight, bias, x, None, edge * (1 + 1e-9)).certified == 0
    # at the edge itself there is a head with a tie
    way = torch.tensor([3.0, 0.0, 1.0]).double()
    step = edge / math.sqrt(2) * way / way.norm()
    scores = torch.stack([torch.tensor(3.0).double() - step @ way, step @ way])
    assert float(scores[0] - scores[1]) == pytest.approx(0, abs=1e-12)


def test_the_loss_of_the_worst_head_is_nearly_the_bound() -> None:
    weight, x = torch.zeros(2, 1).double(), torch.tensor([[2.0]]).double()
    made = drifted(weight, None, x, torch.tensor([0]), 0.1)
    # scores move apart by sqrt(2) E |x|: the loss by log((1 + e^R)/2)
    worst = math.log((1 + math.exp(math.sqrt(2) * 0.1 * 2)) / 2)
    assert made.loss is not None
    assert worst <= float(made.loss) <= worst * 1.001
    total = 0.5 * math.tanh(math.sqrt(2) * 0.1 * 2 / 2)
    assert total <= float(made.probability) * (1 + 1e-9)


def test_what_is_not_known_certifies_nothing() -> None:
    weight = torch.eye(2)
    for distance, x in ((math.inf, torch.ones(1, 2)), (0.1, torch.tensor([[math.inf, 0.0]]))):
        made = drifted(weight, None, x, torch.tensor([0]), distance)
        assert made.certified == 0
        assert float(made.probability) == math.inf
    with pytest.raises(ValueError, match="Expected features"):
        drifted(weight, None, torch.ones(1, 3), None, 0.1)
    with pytest.raises(ValueError, match=r"Expected labels in 0..1, but got -100 at 1"):
        drifted(weight, None, torch.ones(2, 2), torch.tensor([0, -100]), 0.1)
    with pytest.raises(ValueError, match="Expected a label for each of 2 states"):
        drifted(weight, None, torch.ones(2, 2), torch.tensor([0]), 0.1)


def test_a_distance_that_underflows_is_not_zero() -> None:
    # scores that are off by 1e-350 at most: probabilities move, if only by that
    made = drifted(torch.tensor([[1.0], [0.0]]).double(), None, torch.tensor([[1e-150]]).double(), None, 1e-200)
    assert float(made.probability) > 0


def test_many_rows_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    g = torch.Generator().manual_seed(0)
    weight, x = torch.randn(3, 4, generator=g), torch.randn(11, 4, generator=g)
    labels = torch.randint(0, 3, (11,), generator=g)
    whole = drifted(weight, None, x, labels, 0.01)
    monkeypatch.setattr("suffice.nn.drift._ENTRIES", 6)
    parts = drifted(weight, None, x, labels, 0.01)
    assert whole.loss is not None
    assert parts.loss is not None
    torch.testing.assert_close(parts.loss, whole.loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(parts.probability, whole.probability, rtol=1e-9, atol=0)
    assert torch.equal(parts.prediction, whole.prediction)


def test_a_report_says_what_there_is_and_what_there_is_not() -> None:
    report = TrajectoryReport(
        distance=1e-6, length=2.0, steps=7, expanding=0, without_decay=0, changed=0, errors="twin", states=None
    )
    assert str(report).startswith("after 7 steps within 1e-06 of the run in exact arithmetic")
    assert "no contraction" not in str(report)
    more = TrajectoryReport(
        distance=1e-6,
        length=2.0,
        steps=7,
        expanding=2,
        without_decay=7,
        changed=3,
        errors="enclosed",
        states=drifted(torch.eye(2), None, torch.eye(2), torch.tensor([0, 1]), 1e-6),
    )
    words = str(more)
    assert "7 steps without decay of every parameter: no contraction" in words
    assert "2 steps longer than 2/smoothness" in words
    assert "step sizes or decays changed 3 times without a schedule of torch's that counts steps" in words
    assert "scheduler" not in str(report)
    assert "2 of 2 predictions are those of the exact run" in words
    assert "losses within" in words
