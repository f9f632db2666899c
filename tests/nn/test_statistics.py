"""Class statistics: what is kept, what is used, what survives a restart, and two processes as one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import suffice as sf
from suffice.nn import ClassStatistics
from tests.support.batches import class_batch


def test_means_are_the_means_of_the_epoch_so_far() -> None:
    statistics = ClassStatistics(5, 16, dtype=torch.float64)
    batches = [class_batch(seed, 40, 16, 5) for seed in range(3)]
    for features, labels in batches:
        statistics.update(features, labels)
    everything = torch.cat([f for f, _ in batches]).double()
    labels = torch.cat([y for _, y in batches])
    for c in range(5):
        torch.testing.assert_close(statistics.means[0, c], everything[labels == c].mean(dim=0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(statistics.means[0], statistics.means[1])


def test_the_previous_epoch_is_used_and_still_updated() -> None:
    statistics = ClassStatistics(3, 8, dtype=torch.float64)
    first, second = class_batch(0, 60, 8, 3), class_batch(1, 30, 8, 3)
    statistics.update(*first)
    statistics.advance()
    statistics.update(*second)
    both = torch.cat([first[0], second[0]]).double()
    labels = torch.cat([first[1], second[1]])
    for c in range(3):
        expected = both[labels == c].mean(dim=0)
        torch.testing.assert_close(statistics.means[1, c], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(statistics.directions[c], expected / expected.norm(), rtol=1e-12, atol=1e-12)
        only = second[0][second[1] == c].double().mean(dim=0)
        torch.testing.assert_close(statistics.means[0, c], only, rtol=1e-12, atol=1e-12)


def test_concentrations_by_both_estimates_and_the_cap() -> None:
    features, labels = class_batch(0, 200, 32, 4)
    published, exact = (ClassStatistics(4, 32, estimate=word, dtype=torch.float64) for word in ("published", "exact"))
    for statistics in (published, exact):
        statistics.update(features, labels)
    length = published.means[1].norm(dim=1)
    torch.testing.assert_close(published.concentrations, 32 * length / (1 - length**2))
    torch.testing.assert_close(sf.special.bessel_i_ratio(15.0, exact.concentrations), length, rtol=1e-10, atol=0)
    one = ClassStatistics(2, 8, cap=1e5)
    one.update(torch.eye(8)[:1], torch.tensor([0]))
    assert one.concentrations[0] == 1e5
    with pytest.raises(ValueError, match="class 0 has 1; give a cap"):
        _ = _uncapped().concentrations


def _uncapped() -> ClassStatistics:
    statistics = ClassStatistics(2, 8, cap=None)
    statistics.update(torch.eye(8)[:1], torch.tensor([0]))
    return statistics


def test_classes_that_were_not_seen() -> None:
    statistics = ClassStatistics(3, 10)
    torch.testing.assert_close(statistics.means[1].norm(dim=1), torch.full((3,), 0.9))
    torch.testing.assert_close(statistics.concentrations, torch.full((3,), 90 * 10 / 19))
    features, _ = class_batch(0, 6, 10, 2)
    statistics.update(features, torch.tensor([0, 0, 0, 1, 1, 1]))
    statistics.advance()
    kept = statistics.directions[1].clone()
    statistics.update(features[:3], torch.tensor([0, 0, 0]))
    statistics.advance()
    assert statistics.seen.tolist() == [True, True, False]
    assert torch.equal(statistics.directions[1], kept)
    assert torch.isfinite(statistics.concentrations).all()


def test_state_dict_round_trip_goes_on_as_if_nothing_had_happened() -> None:
    one, other = ClassStatistics(4, 12, seed=7), ClassStatistics(4, 12, seed=7)
    one.update(*class_batch(0, 30, 12, 4))
    one.advance()
    other.load_state_dict(one.state_dict())
    for statistics in (one, other):
        statistics.update(*class_batch(1, 20, 12, 4))
        statistics.advance()
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_rows_that_are_not_finite_enter_nothing(value: float) -> None:
    """The statistics are, bit by bit, those of the other rows; one warning, and a count."""
    clean, poisoned = ClassStatistics(6, 24), ClassStatistics(6, 24)
    for step in range(4):
        features, labels = class_batch(step, 40, 24, 6)
        bad = torch.zeros(40, dtype=torch.bool)
        bad[[3, 17]] = step > 0
        wrong = features.clone()
        wrong[bad, 5] = value
        clean.update(features[~bad], labels[~bad])
        if step == 1:
            with pytest.warns(RuntimeWarning, match="2 rows with features that are not finite were left out"):
                poisoned.update(wrong, labels)
        else:
            poisoned.update(wrong, labels)
        if step == 2:
            clean.advance()
            poisoned.advance()
    for name, expected in clean.state_dict().items():
        if name != "skipped":
            torch.testing.assert_close(poisoned.state_dict()[name], expected, rtol=0, atol=1e-7)
    assert torch.equal(poisoned.counts, clean.counts)
    assert (int(poisoned.skipped), int(clean.skipped)) == (6, 0)
    assert torch.isfinite(poisoned.concentrations).all()


def test_a_batch_of_nothing_but_bad_rows_changes_nothing() -> None:
    statistics = ClassStatistics(3, 8)
    before = {name: value.clone() for name, value in statistics.state_dict().items()}
    with pytest.warns(RuntimeWarning, match="4 rows"):
        statistics.update(torch.full((4, 8), float("nan")), torch.tensor([0, 1, 2, 2]))
    after = statistics.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in ("means", "counts", "epoch"))


def test_no_update_waits_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device: there nothing of an update is looked at, the warning comes at the end of the epoch."""
    statistics = ClassStatistics(3, 8)
    # the meta device has no numbers at all: whatever looks at one raises
    shapes = ClassStatistics(3, 8).to("meta")
    shapes.update(torch.empty(4, 8, device="meta"), torch.empty(4, dtype=torch.int64, device="meta"))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    statistics.update(torch.full((4, 8), float("inf")), torch.tensor([0, 1, 2, 2]))
    monkeypatch.undo()
    with pytest.warns(RuntimeWarning, match="4 rows"):
        statistics.advance()
    statistics.advance()


def test_checkpoints_without_a_count_are_read() -> None:
    old = {name: value for name, value in ClassStatistics(3, 8, seed=4).state_dict().items() if name != "skipped"}
    statistics = ClassStatistics(3, 8)
    statistics.load_state_dict(old)
    assert torch.equal(statistics.means, old["means"])
    assert int(statistics.skipped) == 0


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"Expected estimate in \['exact', 'published'\]"):
        ClassStatistics(3, 8, estimate="guess")
    with pytest.raises(ValueError, match="Expected cap > 0 or None, but got 0"):
        ClassStatistics(3, 8, cap=0)
    with pytest.raises(ValueError, match=r"Expected features \[N, 8\]"):
        ClassStatistics(3, 8).update(torch.ones(2, 7), torch.tensor([0, 1]))


_WORKER = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, {root!r})
from tests.support.batches import class_batch
from suffice.nn import ClassStatistics
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
statistics = ClassStatistics(6, 24, dtype=torch.float64)
for epoch in range(2):
    for step in range(3):
        features, labels = class_batch(10 * epoch + step, 40, 24, 6)
        half = slice(0, 17) if rank == 0 else slice(17, 40)
        statistics.update(features[half], labels[half])
    statistics.advance()
torch.save(statistics.state_dict(), sys.argv[3])
dist.destroy_process_group()
"""


def test_two_processes_have_the_statistics_of_one(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    script = _WORKER.format(root=root)
    outputs = [tmp_path / f"rank{rank}.pt" for rank in range(2)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(tmp_path / "meet"), str(outputs[rank])], env=environment
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    single = ClassStatistics(6, 24, dtype=torch.float64)
    for epoch in range(2):
        for step in range(3):
            single.update(*class_batch(10 * epoch + step, 40, 24, 6))
        single.advance()
    first, second = (torch.load(path, weights_only=True) for path in outputs)
    for name, value in single.state_dict().items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], value, rtol=1e-12, atol=1e-12)
