"""Rows judged in Arb and in float64: the same columns, and what the true errors say of verdicts and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.verify.columns import Said
from suffice.verify.digests import read_manifest
from suffice.verify.judging import Verdict, judge_exactly, judge_in_floats, readable_gradients
from suffice.verify.layout import Wanted, wanted_files
from suffice.verify.plan import Plan, read_header
from suffice.verify.report import Tally
from suffice.verify.rows import read_rows
from suffice.verify.stored import Array
from tests.reference.exact import actual_errors, exact_outputs
from tests.support.collections import make_states, write

COUNT = 6
Audited = tuple[Wanted, Plan, Said]


def _audited(folder: Path, **options: str) -> Audited:
    collection = write(folder / "c", make_states(COUNT, 5, 16, 0, single=False))
    sf.audit(collection, sf.Budgets(loss=1e-4, gradient=1e-3), out=folder / "a", **options)  # type: ignore[arg-type]
    plan = read_header(folder / "a").plan
    (wanted,) = wanted_files(collection, read_manifest(collection), [])
    return wanted, plan, read_rows(folder / "a", wanted, plan, Tally()).said


@pytest.fixture(scope="module")
def analytic(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return _audited(tmp_path_factory.mktemp("analytic"))


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return _audited(tmp_path_factory.mktemp("executed"), scope="execution", dtype="float32")


def _both(
    audited: Audited, column: str | None = None, change: Callable[[Array], Array] | None = None
) -> Iterator[Verdict]:
    """In float64 all at once, and row by row in Arb, put together."""
    wanted, plan, honest = audited
    said = dict(honest)
    if column is not None and change is not None:
        said[column] = change(said[column])
    yield judge_in_floats(wanted, np.arange(COUNT), plan, said)
    for row in range(COUNT):
        yield judge_exactly(wanted, row, plan, {name: values[row : row + 1] for name, values in said.items()})


def _wrong(verdicts: Iterator[Verdict]) -> list[set[str]]:
    """Wrong columns, in float64 and in Arb."""
    floats, *exact = [{each.column for each in verdict.judged if each.wrong.any()} for verdict in verdicts]
    return [floats, set().union(*exact)]


@pytest.mark.parametrize("scope", ["analytic", "executed"])
def test_both_arithmetics_agree(scope: str, request: pytest.FixtureRequest) -> None:
    audited: Audited = request.getfixturevalue(scope)
    floats, *exact = _both(audited)
    assert not floats.open.any()
    for row, verdict in enumerate(exact):
        assert [each.column for each in verdict.judged] == [each.column for each in floats.judged]
        assert not verdict.open.any()
        assert verdict.settled[0] == floats.settled[row]
        for name, ratios in verdict.ratios.items():
            assert ratios[0] == pytest.approx(floats.ratios[name][row], rel=1e-3, nan_ok=True)
            # an enclosure's end is the error itself, and no bound of a contract
            assert ratios[0] >= 1 or (np.isnan(ratios[0]) and "enclosure" in audited[2]["tier"][row])
    assert _wrong(_both(audited)) == [set(), set()]


def test_settled_is_what_the_true_errors_say(analytic: Audited) -> None:
    """Against the tests' own reference in Arb, which shares nothing with this."""
    wanted, _, _ = analytic
    states = make_states(COUNT, 5, 16, 0, single=False)
    assert np.array_equal(states.features.numpy(), wanted.features)
    floats = next(iter(_both(analytic)))
    for row in range(COUNT):
        state = states[row : row + 1]
        errors = actual_errors(state, sf.evaluate(state, sf.DebyePair()))
        kept = errors["loss"] <= 1e-4 and errors["gradient"] <= 1e-3
        assert floats.settled[row] == ("adequate" if kept else "violated")
    assert set(floats.settled.tolist()) == {"adequate", "violated"}


def test_a_certificate_of_what_is_violated_is_wrong(analytic: Audited) -> None:
    found = _wrong(_both(analytic, "verdict", lambda values: np.full_like(values, "certified")))
    assert all("verdict" in columns for columns in found)


@pytest.mark.parametrize("name", ["loss", "probability", "gradient"])
def test_a_bound_below_the_true_error_is_wrong(analytic: Audited, name: str) -> None:
    *_, floats = [each for each in next(iter(_both(analytic))).judged if each.column == f"{name}_bound"]
    assert floats.words == "against the exact objective"
    changed = list(_both(analytic, f"{name}_bound", lambda values: values * 1e-3))
    for verdict in changed:
        *_, judged = [each for each in verdict.judged if each.column == f"{name}_bound"]
        assert judged.wrong.any()


def test_executed_numbers_are_judged_by_their_bounds(executed: Audited) -> None:
    """A loss that is off by twice its bound, and a gradient of which one number was changed, or that is no number."""
    _, _, said = executed
    moved = said["loss"] + 2 * said["loss_bound"]
    assert all("loss" in columns for columns in _wrong(_both(executed, "loss", lambda _: moved)))

    def other(number: float) -> Callable[[Array], Array]:
        def change(values: Array) -> Array:
            rows = [np.frombuffer(raw, "<f8").copy() for raw in values.tolist()]
            for row in rows:
                row[3] += number
            return np.array([row.tobytes() for row in rows], dtype=object)

        return change

    for number in (1.0, np.nan):
        assert all("gradient" in columns for columns in _wrong(_both(executed, "gradient", other(number))))


def test_gradients_of_another_length(executed: Audited) -> None:
    _, _, said = executed
    assert readable_gradients(said, 16).all()
    assert not readable_gradients(said, 8).any()
    short = {**said, "gradient": np.array([b"1234"] * COUNT, dtype=object)}
    assert not readable_gradients(short, 16).any()


def test_a_prediction_that_the_exact_scores_do_not_make(tmp_path: Path) -> None:
    """Two classes whose order the formula swaps: nothing certifies it, and saying so is found."""
    mu, f = torch.eye(5, dtype=torch.float64)[[0, 1]], torch.tensor([[0.6, 0.8, 0.0, 0.0, 0.0]], dtype=torch.float64)
    plain = sf.States(sf.ClassBank(mu, [0.5, 40.0]), f, [0], 0.5)
    formula = sf.evaluate(plain, sf.DebyePair(order=1)).log_probabilities[0]
    exact = exact_outputs(plain).scores
    apart = (float(formula[0] - formula[1]), float(exact[0] - exact[1]))
    assert abs(apart[0] - apart[1]) > 1e-3
    # a bias between the two margins
    states = sf.States(sf.ClassBank(mu, [0.5, 40.0], [0.0, sum(apart) / 2]), f, [0], 0.5)
    collection = write(tmp_path / "c", states)
    sf.audit(collection, sf.Budgets(loss=1.0, prediction=True), out=tmp_path / "a", order=1)
    plan = read_header(tmp_path / "a").plan
    (wanted,) = wanted_files(collection, read_manifest(collection), [])
    said = read_rows(tmp_path / "a", wanted, plan, Tally()).said
    assert not said["prediction_certified"].any()
    claimed = {**said, "prediction_certified": np.array([True])}
    for verdict in (judge_exactly(wanted, 0, plan, claimed), judge_in_floats(wanted, np.arange(1), plan, claimed)):
        assert verdict.settled[0] == "violated"
        *_, judged = [each for each in verdict.judged if each.column == "prediction_certified"]
        assert judged.wrong[0]
