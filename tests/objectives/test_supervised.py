"""States of the supervised objective are validated once, cut and sliced without changing a number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf


def _states(count: int = 5, samples: int = 4, classes: int = 3) -> sf.SupervisedStates:
    generator = torch.Generator().manual_seed(2)
    mu = torch.nn.functional.normalize(torch.randn(classes, 6, generator=generator, dtype=torch.float64), dim=1)
    drawn = torch.randn(count, samples, 6, generator=generator, dtype=torch.float64)
    return sf.SupervisedStates(
        sf.ClassBank(mu, torch.ones(classes)),
        torch.randn(count, 6, generator=generator),
        torch.arange(count) % classes,
        drawn / drawn.norm(dim=2, keepdim=True),
        2.0,
    )


def _changed(**changes: object) -> sf.SupervisedStates:
    states = _states()
    fields = {name: getattr(states, name) for name in ("embeddings", "labels", "samples", "beta")}
    return sf.SupervisedStates(states.bank, **{**fields, **changes})


def test_everything_is_float64_and_one_beta_is_for_all() -> None:
    states = _states()
    assert (len(states), states.num_samples) == (5, 4)
    assert {states.embeddings.dtype, states.samples.dtype, states.beta.dtype} == {torch.float64}
    assert states.beta.tolist() == [2.0] * 5
    assert _changed(beta=np.arange(1.0, 6.0)).beta.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"embeddings": torch.ones(5, 7)}, "Expected embeddings of dimension 6, as the bank's, but got 7"),
        ({"embeddings": torch.full((5, 6), torch.nan)}, "Expected embeddings to be finite"),
        ({"embeddings": torch.ones(6)}, "Expected embeddings with 2 dimensions"),
        ({"labels": [0, 1, 2, 3, 0]}, r"Expected labels in \[0, 3\), but got 3 at row 3"),
        ({"labels": [0, 1]}, "Expected one label for each of 5 queries"),
        ({"samples": torch.ones(5, 6)}, "Expected samples with 3 dimensions"),
        ({"samples": torch.ones(4, 2, 6)}, r"Expected samples \[5, S, 6\] with S >= 1"),
        ({"samples": torch.ones(5, 0, 6)}, r"Expected samples \[5, S, 6\] with S >= 1"),
        ({"samples": torch.ones(5, 2, 7)}, r"but got shape \(5, 2, 7\)"),
        ({"samples": torch.full((5, 2, 6), torch.inf)}, "Expected samples to be finite"),
        (
            {"samples": torch.eye(6).expand(5, 6, 6) * (1 + 2e-6)},
            "Expected unit samples, but got norm 1.00000.* at row 0",
        ),
        ({"beta": 0.0}, "Expected beta > 0, but got 0 at row 0"),
        ({"beta": -1.0}, "Expected beta to be finite and >= 0, but got -1"),
        ({"beta": float("inf")}, "Expected beta to be finite"),
        ({"beta": torch.ones(4)}, r"Expected one beta, or one for each of 5 queries, but got \(4,\)"),
    ],
)
def test_what_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _changed(**change)


def test_what_is_of_another_type() -> None:
    with pytest.raises(TypeError, match="Expected samples in float32 or float64"):
        _changed(samples=torch.ones(5, 2, 6, dtype=torch.float16))
    with pytest.raises(TypeError, match="Expected labels to be integers"):
        _changed(labels=torch.zeros(5))
    with pytest.raises(TypeError, match=r"use states\[3:4\]"):
        _states()[3]  # type: ignore[index]


def test_samples_within_the_allowance_are_kept_as_they_are() -> None:
    samples = torch.eye(6, dtype=torch.float64).expand(5, 6, 6) * (1 + 5e-7)
    assert torch.equal(_changed(samples=samples).samples, samples)


@pytest.mark.parametrize("rows", [slice(1, 4), [3, 0], torch.tensor([2, 2])])
def test_some_of_the_states(rows: slice | list[int] | torch.Tensor) -> None:
    states = _states()
    some = states[rows]
    for name in ("embeddings", "labels", "samples", "beta"):
        assert torch.equal(getattr(some, name), getattr(states, name)[rows])
    assert some.bank is states.bank


def test_chunks_count_samples_as_well_as_classes() -> None:
    states = _states(count=300, samples=200, classes=20)
    sizes = [len(part) for part in states.chunks()]
    assert sum(sizes) == 300
    assert max(sizes) == 131_072 // (200 * 20)
    assert torch.equal(torch.cat([part.samples for part in states.chunks()]), states.samples)
    with pytest.raises(ValueError, match="at least one state"):
        list(states[:0].chunks())


def test_detached() -> None:
    states = _changed(embeddings=torch.ones(5, 6, requires_grad=True))
    assert states.embeddings.requires_grad
    assert not states.detached().embeddings.requires_grad
