"""Screening by integers: scores are within their allowances, doubled channels add up, blocks lose no candidate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
import torch

import suffice as sf
from suffice.realizations.screening import integers
from suffice.realizations.screening.floats import float_candidates
from suffice.realizations.screening.integers import IntegerScreen, doubled_channels
from suffice.realizations.screening.search import Pairs
from suffice.realizations.screening.units import Batch, ScaledHead
from tests.reference.rational_heads import rational_scores
from tests.support.screened_heads import KINDS, hard_head


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_within_their_allowances(kind: str, calibrated: bool) -> None:
    for seed in (1, 2):
        head, hidden = hard_head(kind, seed)
        scaled = ScaledHead(head)
        batch = Batch(scaled, hidden.double())
        screen = IntegerScreen(scaled, batch.h[1:] if calibrated else None, extra=5)
        made = screen.approximate(batch)
        for n in range(len(hidden)):
            unit = Fraction(2) ** int(batch.unit[n])
            for j, q in enumerate(rational_scores(head, hidden[n])):
                if q is None:
                    assert made.scores[n, j] == -torch.inf
                else:
                    error = abs(Fraction(made.scores[n, j].item()) * unit - q)
                    assert error <= Fraction(made.d[n, j].item()) * unit


def test_an_allowance_can_be_used_up() -> None:
    """A hidden vector of full words along one row's residual: |r_j| |h| is met, with nothing else beside it."""
    w = torch.zeros(64, 4)
    w[0] = 64.0
    w[1] = torch.tensor([10.4, -3.4, 7.4, -20.4])
    hidden = torch.tensor([[1.0, -1.0, 1.0, -1.0]])
    scaled = ScaledHead(sf.LinearHead(w))
    batch = Batch(scaled, hidden.double())
    screen = IntegerScreen(scaled)
    if screen.kernel.largest != 64:
        pytest.skip("words of eight bits here")
    made = screen.approximate(batch)
    unit = 2.0 ** int(batch.unit[0])
    error = abs(made.scores[0, 1].item() * unit - float(w[1].double() @ hidden[0].double()))
    assert 0.99999 < error / (made.d[0, 1].item() * unit) <= 1


def test_outliers_are_doubled() -> None:
    hidden = torch.ones(20, 6, dtype=torch.float64)
    hidden[:, 2] = 10.0
    more = doubled_channels(hidden, 7)
    assert more.sum() == 7
    assert more.argmax() == 2
    assert more[2] >= 6
    assert doubled_channels(hidden[:1], 3).tolist() == [0, 0, 3, 0, 0, 0]
    head = sf.LinearHead(torch.randn(80, 6, generator=torch.Generator().manual_seed(1)))
    scaled = ScaledHead(head)
    batch = Batch(scaled, hidden)
    plain, doubled = IntegerScreen(scaled).approximate(batch), IntegerScreen(scaled, hidden, 9).approximate(batch)
    assert (doubled.d < plain.d).all()


@pytest.mark.parametrize("classes", [2, 63, 64, 65, 200])
def test_blocks_and_floats_agree_with_rows(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argmax by block maxima, where none, some or all states go through the float product, against float64."""
    g = torch.Generator().manual_seed(classes)
    w = torch.randn(classes, 16, generator=g) * torch.rand(classes, 1, generator=g)
    hidden = torch.randn(50, 16, generator=g)
    scaled = ScaledHead(sf.LinearHead(w))
    exact = (hidden.double() @ w.double().T).argmax(dim=1)
    screen = IntegerScreen(scaled)
    through = []

    def counted(batch: Batch, states: torch.Tensor) -> Pairs:
        through.append(len(states))
        return float_candidates(batch, states)

    monkeypatch.setattr(integers, "float_candidates", counted)
    for fewest, together in ((1000, 0.0), (1, 0.0), (0, 0.0)):
        monkeypatch.setattr(integers, "_MANY", 0.0)
        monkeypatch.setattr(integers, "_MANY_TOGETHER", together)
        monkeypatch.setattr(integers, "_FEWEST", fewest)
        found = screen.argmax(Batch(scaled, hidden.double()))
        assert torch.equal(found.index, exact)
        assert (found.exact_rows >= 1).all()
        assert (found.exact_rows <= classes).all()
        assert not found.ties.any()
    assert through[-1] == 50
    assert all(0 < some < 50 for some in through[:-1])
    assert len(through) == (1 if classes == 2 else 2)


def flat_head(classes: int) -> tuple[sf.LinearHead, torch.Tensor]:
    """Rows with a large entry in common: words of eight bits tell them apart by channel 3 alone, which is not used."""
    g = torch.Generator().manual_seed(3)
    w, hidden = torch.randn(classes, 24, generator=g), torch.randn(9, 24, generator=g)
    w[:, 0] = 300.0
    w[::2, 3] += 250.0
    hidden[:, 3] = 0
    return sf.LinearHead(w), hidden


@pytest.mark.parametrize("flat", [9, 5, 4])
def test_flat_states_are_seen_by_a_sample(flat: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If most are flat then these take no product of integers, and the others one of their own."""
    head, hidden = flat_head(64 * 64)
    hidden[flat:, 3] = torch.tensor([10.0, -20.0, 15.0, 30.0, -10.0])[: 9 - flat]
    scaled = ScaledHead(head)
    screen = IntegerScreen(scaled)
    batch = Batch(scaled, hidden.double())
    asked = []
    kernel = screen.kernel

    class Counted:
        rounding, largest, writes = kernel.rounding, kernel.largest, False

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            asked.append(len(x))
            return kernel(x)

    monkeypatch.setattr(screen, "kernel", Counted())
    found = screen.argmax(batch)
    assert torch.equal(found.index, (hidden.double() @ head.weight.double().T).argmax(dim=1))
    assert asked == {9: [], 5: [4], 4: [9]}[flat]


def test_threads_share_no_memory() -> None:
    """One screen, several threads at once: what one has found another one does not overwrite."""
    g = torch.Generator().manual_seed(5)
    head = sf.LinearHead(torch.randn(5000, 32, generator=g))
    hidden = torch.randn(320, 32, generator=g)
    screen = sf.Quantized(head, "int8")
    exact = (hidden.double() @ head.weight.double().T).argmax(dim=1)
    parts = list(torch.arange(320).split(20)) * 6
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: screen.argmax(hidden[part]).index, parts))
    assert all(torch.equal(index, exact[part]) for index, part in zip(found, parts, strict=True))


def test_a_block_has_its_largest_residual() -> None:
    """The best row lies half a word above its words, all others of its block lie on theirs, and another block leads."""
    w = torch.zeros(128, 2)
    # two blocks by largest entry: scales of exactly 2 and 1, whatever the kernel's largest word is
    largest = IntegerScreen(ScaledHead(sf.LinearHead(torch.eye(2)))).kernel.largest
    w[:64, 0], w[:64, 1] = 2 * largest, 0.0
    w[64:, 0], w[64:, 1] = largest, 0.0
    w[5, 1] = 20.9
    w[70, 1] = 20.5
    scaled = ScaledHead(sf.LinearHead(w))
    found = IntegerScreen(scaled).argmax(Batch(scaled, torch.tensor([[0.0, 1.0]], dtype=torch.float64)))
    assert found.index.tolist() == [5]
    w[5, 1], w[70, 1] = 21.1, 21.4
    scaled = ScaledHead(sf.LinearHead(w))
    found = IntegerScreen(scaled).argmax(Batch(scaled, torch.tensor([[0.0, 1.0]], dtype=torch.float64)))
    assert found.index.tolist() == [70]


def test_words_that_leave_nothing_have_room_for_rounding() -> None:
    """Rows and vectors that are words times 24-bit scales: allowances are rounding alone, and still hold."""
    g = torch.Generator().manual_seed(8)
    scaled = ScaledHead(sf.LinearHead(torch.eye(2)))
    largest = IntegerScreen(scaled).kernel.largest
    k = torch.randint(-largest, largest + 1, (64, 5), generator=g)
    k[:, 0] = largest
    x = torch.randint(-127, 128, (40, 5), generator=g)
    x[:, 1] = 127
    s, t = torch.tensor(1 / 3).double(), torch.tensor(1 / 7).double()
    head = sf.LinearHead(k * s)
    batch = Batch(ScaledHead(head), x * t)
    screen = IntegerScreen(batch.scaled)
    words = screen._words(batch)
    scores = screen.kernel(words.x) * (screen._scale * words.t[:, None])
    d = screen._allowance(screen._residual[0], screen._length[0], words.reach[:, None], words.error[:, None])
    rounded = 0
    for n in range(len(x)):
        unit = Fraction(2) ** int(batch.unit[n])
        exact = rational_scores(head, batch.hidden[n])
        for j, c in enumerate(screen._classes.tolist()):
            error = abs(Fraction(scores[n, j].item()) * unit - (exact[c] or 0))
            rounded += error > 0
            # an end of the enclosure is rounded once more
            assert error + Fraction(abs(scores[n, j].item())) * unit / 2**53 <= Fraction(d[n, j].item()) * unit
    assert rounded > 100
    assert (d < 1e-12).all()


def test_memory_is_bounded() -> None:
    screen = IntegerScreen(ScaledHead(sf.LinearHead(torch.eye(5))))
    assert screen.rows_at_once() == (256 if screen.kernel.writes else 128)
    wide = IntegerScreen(ScaledHead(sf.LinearHead(torch.ones(300_000, 2))))
    assert wide.rows_at_once() * 300_000 <= 2**25
