"""The public interface returns the numbers of the fixture: to the last bit, or outward, on the CPU that made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import torch

from tests.equality.__main__ import FIXTURE
from tests.equality.columns import Columns, kind_of
from tests.equality.compare import compare, strays
from tests.equality.states import ADVERSARIAL, BUILTIN_SAMPLE, Block, adversarial, builtin, from_arrays, to_arrays
from tests.equality.work import Results, compute, load, machine, tasks

# of every kind of state one bank at least
QUICK_BANKS = range(0, 50, 7)
QUICK_BUILTIN = range(0, 38, 8)
# radii near zero and ties; and a built-in block
QUICK_REST = (0, 49)


Stored = tuple[Results, dict[str, str], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def stored() -> Stored:
    return load(FIXTURE)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The fixture was made on one: a product of more may be added up otherwise."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _blocks(inputs: dict[str, np.ndarray], numbers: Iterable[int]) -> list[Block]:
    """The stored states: making them anew would round otherwise on another CPU."""
    names = ("directions", "concentrations", "biases", "features", "labels", "temperature")
    return [Block("adversarial", n, from_arrays({name: inputs[f"{n} {name}"] for name in names})) for n in numbers]


def _inward(part: str, before: Columns, now: Columns) -> list[str]:
    return [
        f"{each.name}: {each.differing} of {each.states} differ, by up to {each.largest:.3g}"
        for each in compare(before, now, part)
        if not each.fine
    ]


def _check(stored: Stored, now: Results) -> None:
    """On the CPU that made the fixture nothing differs but outward; elsewhere nothing is beyond other rounding."""
    results, made_on, _ = stored
    here = machine()
    wrong: list[str] = []
    for part, found in now.columns.items():
        before = results.of(part, now.rows[part])
        if made_on == here:
            lines = _inward(part, before, found)
        else:
            same = made_on["rungs"] == here["rungs"]
            lines = strays(before, found, adversarial=part.startswith("adversarial"), same_rungs=same)
        wrong += [f"{part}: {line}" for line in lines]
    assert not wrong, "\n".join(wrong)


def test_equal_at_some_states(stored: Stored) -> None:
    """The columns that are computed everywhere at every kind of adversarial state, and the rest at some of these."""
    some = [block for block in builtin(BUILTIN_SAMPLE) if block.number in QUICK_BUILTIN]
    todo = tasks(_blocks(stored[2], QUICK_BANKS), some)
    _check(stored, compute([task for task in todo if "," not in task.part or task.block.number in QUICK_REST]))


@pytest.mark.slow
def test_equal_everywhere(stored: Stored) -> None:
    """All columns at all states of the fixture."""
    blocks = _blocks(stored[2], range(50))
    assert sum(len(block.states) for block in blocks) == ADVERSARIAL
    _check(stored, compute(tasks(blocks, builtin(BUILTIN_SAMPLE))))


def test_generator_depends_on_the_seed_only(stored: Stored) -> None:
    """Twice the same states, and those of the fixture up to other rounding."""
    _, made_on, inputs = stored
    for first, second in zip(adversarial(), adversarial(), strict=True):
        arrays = to_arrays(first.states)
        for name, values in to_arrays(second.states).items():
            np.testing.assert_array_equal(arrays[name], values)
            if made_on == machine():
                np.testing.assert_array_equal(values, inputs[f"{first.number} {name}"])


def test_every_outcome_occurs(stored: Stored) -> None:
    """The fixture has all verdicts, statuses, tiers and kinds of execution: no branch is compared nowhere."""
    words: dict[str, set[bytes]] = {}
    for found in stored[0].columns.values():
        for name, values in found.items():
            if kind_of(name) == "word":
                words.setdefault(name.split(": ")[1], set()).update(values.tolist())
    assert words["verdict word"] >= {b"certified", b"inconclusive"}
    assert words["status word"] >= {b"bounded", b"unbounded", b"zero"}
    assert words["tier word"] >= {b"geometry", b"conditioned", b"closed form", b"centered", b"open"}
    assert words["binding word"] >= {b"loss", b"probability", b"gradient", b"prediction", b"none"}
    assert words["inside word"] >= {b"inside", b"temperature", b"scores"}
    assert words["rung word"] >= {b"none", b"debye2/float32", b"debye4/float32", b"debye2/float64", b"debye6/float64"}


@pytest.mark.parametrize(
    ("field", "factor", "fine"),
    [
        ("loss bound", 1 + 2e-16, True),
        ("loss bound", 1 - 2e-16, False),
        ("headroom", 1 - 2e-16, True),
        ("headroom", 1 + 3e-16, False),
        ("executed loss", 1 + 3e-16, False),
    ],
)
def test_a_moved_number_is_noticed(stored: Stored, field: str, factor: float, fine: bool) -> None:
    """One ulp at one state: outward it is counted and forgiven, inward it is an error."""
    name = f"certify float32 2 centered all: {field}"
    before = stored[0].columns["adversarial"]
    row = int(np.flatnonzero(np.isfinite(before[name]) & (before[name] > 1e-300))[0])
    moved = before[name].copy()
    moved[row] *= factor
    assert moved[row] != before[name][row]
    (found,) = [each for each in compare(before, before | {name: moved}) if each.differing]
    assert (found.name, found.differing, found.fine) == (name, 1, fine)


def test_what_is_explained_is_forgiven_where_it_may_be(stored: Stored) -> None:
    """A gradient bound a thousandth lower, at an adversarial state; at a built-in one, and a loss bound, never."""
    before = stored[0].columns["adversarial"]
    for field, fine in (("gradient bound", True), ("loss bound", False)):
        name = f"certify analytic 2 centered joint: {field}"
        moved = np.where(np.isfinite(before[name]), before[name] * (1 - 1e-3), before[name])
        for part, forgiven in (("adversarial", fine), ("built-in", False)):
            (found,) = [each for each in compare(before, before | {name: moved}, part) if each.differing]
            assert found.fine == forgiven


def test_a_changed_word_is_noticed(stored: Stored) -> None:
    """One verdict, one checksum, one column that is missing."""
    before = stored[0].columns["built-in"]
    for name in ("certify analytic 2 centered joint: verdict word", "inputs: states bits"):
        moved = before[name].copy()
        moved[0] = 0
        assert [each.name for each in compare(before, before | {name: moved}) if not each.fine] == [name]
    fewer = {name: values for name, values in before.items() if name != "evaluate 2: loss"}
    assert [each.name for each in compare(before, fewer) if not each.fine] == ["evaluate 2: loss"]


def test_what_is_equal() -> None:
    """NaN equals NaN and nothing else; the sign of a zero counts."""
    name = "evaluate 2: loss"
    before = {name: np.array([np.nan, np.nan, 0.0, np.inf, 1.0])}
    (found,) = compare(before, {name: np.array([np.nan, 1.0, -0.0, 1.0, 1.0])})
    assert (found.equal, found.differing, found.largest, found.fine) == (2, 3, np.inf, False)


def test_strays_are_noticed(stored: Stored) -> None:
    """On another CPU: what moves by a thousandth everywhere, and a column that is missing."""
    for part in ("built-in", "adversarial"):
        before, hard = stored[0].columns[part], part == "adversarial"
        assert not strays(before, before, adversarial=hard, same_rungs=True)
        name = "certify analytic 2 centered joint: loss bound"
        for moved, expected in ((before[name] * (1 + 1e-9), 0), (before[name] * (1 + 1e-3), 1)):
            assert len(strays(before, before | {name: moved}, adversarial=hard, same_rungs=True)) == expected
        fewer = {other: values for other, values in before.items() if other != name}
        assert len(strays(before, fewer, adversarial=hard, same_rungs=False)) == 1


def test_a_verdict_may_differ_at_its_budget_only(stored: Stored) -> None:
    """On another CPU: where the headroom is 1 to the tolerance it may, elsewhere not."""
    before = dict(stored[0].columns["built-in"])
    verdict, headroom = (f"certify analytic 2 centered joint: {field}" for field in ("verdict word", "headroom"))
    turned = before[verdict].copy()
    turned[0] = b"inconclusive" if turned[0] == b"certified" else b"certified"
    assert len(strays(before, before | {verdict: turned}, adversarial=False, same_rungs=True)) == 1
    before[headroom] = np.concatenate([[1.00001], before[headroom][1:]])
    assert not strays(before, before | {verdict: turned}, adversarial=False, same_rungs=True)


def test_a_bracket_may_close_but_not_move() -> None:
    """What was left wide may end anywhere inside of itself; past an end, or from a narrow one, it has moved."""
    call = "tolerance float64 2 centered joint"

    def columns(b: float, upper: float) -> Columns:
        return {f"{call}: b": np.full(4, b), f"{call}: upper": np.full(4, upper)}

    wide, narrow = columns(0.0004, 8.0), columns(0.5, 0.5 * (1 + 1e-9))
    inside, outside, below = columns(0.999, 0.9991), columns(7.99, 8.01), columns(0.0003, 0.0004)
    for now, fine in ((inside, True), (outside, False), (below, False)):
        assert (not strays(wide, now, adversarial=False, same_rungs=True)) == fine
    assert strays(narrow, inside, adversarial=False, same_rungs=True)
    assert all(each.fine for each in compare(wide, inside))
    assert not all(each.fine for each in compare(wide, outside))
    # unbounded on both sides: b* is where a search ended
    assert not strays(columns(1.0, np.inf), columns(3.0, np.inf), adversarial=False, same_rungs=True)
    assert strays(columns(1.0, np.inf), columns(3.0, 3.1), adversarial=False, same_rungs=True)
