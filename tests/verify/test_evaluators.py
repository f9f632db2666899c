"""The two evaluations of a contract agree with each other and with the library, and share nothing with it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

import suffice as sf
import suffice.verify
from suffice.pairs.constants import CLOSED_FORM, valid_orders
from suffice.tolerances.tolerance import sensitivity
from suffice.truth import surrogate
from suffice.verify import exact, ladder
from suffice.verify.exact_states import ExactState
from suffice.verify.floats import FloatStates
from suffice.verify.objective import executed_errors, true_errors
from suffice.verify.stored import Bank
from tests.support.collections import make_states


def _bank(states: sf.States) -> Bank:
    arrays = (states.bank.directions, states.bank.concentrations, states.bank.biases)
    return Bank.of(*(array.numpy() for array in arrays))


def _floats(states: sf.States) -> FloatStates:
    return FloatStates(_bank(states), states.features.numpy(), states.labels.numpy(), states.temperature.numpy())


def _exact(states: sf.States, row: int) -> ExactState:
    features = states.features[row].numpy()
    return ExactState(_bank(states), features, int(states.labels[row]), float(states.temperature[row]))


SHAPES = [(5, 16), (9, 64), (4, 8), (3, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
def test_float64_arb_and_the_library_agree(shape: tuple[int, int], contract: str) -> None:
    states = make_states(4, *shape, 5, single=False)
    floats = _floats(states)
    for order in valid_orders(states.bank.nu):
        pair = sf.DebyePair(order=order)
        told = sf.certify(states, sf.Budgets(loss=1e-3), pair, contract)
        for family in ("own", "uniform", "quarter"):
            scale = np.full(4, 1.0 if family == "own" else 1e-3)
            found = floats.bounds(order, contract, family, scale)
            for row in range(4):
                with ctx.workprec(192):
                    balls = _exact(states, row).bounds(order, contract, family, scale[:1])
                for name in ("loss", "probability", "gradient", "prediction"):
                    ball, near = balls[name], found[name]
                    assert ball.high[0] <= ball.low[0] * (1 + 1e-15)
                    assert (near.low[row] + near.high[row]) / 2 == pytest.approx(ball.low[0], rel=1e-11)
                    assert near.low[row] <= ball.high[0] * (1 + 1e-15)
                    assert near.high[row] >= ball.low[0] * (1 - 1e-15)
                    assert near.wide[row] == pytest.approx(ball.wide[0], rel=1e-9)
                    assert ball.high[0] <= ball.wide[0]
                    if family == "own" and name != "prediction":
                        bound = getattr(told, name)[row].item()
                        assert ball.low[0] <= bound <= ball.wide[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_sensitivities_and_probabilities(shape: tuple[int, int]) -> None:
    states = make_states(4, *shape, 6)
    told = sensitivity(states, sf.DebyePair())
    floats = _floats(states)
    probability = sf.evaluate(states, sf.DebyePair()).log_probabilities.exp()
    for row in range(4):
        with ctx.workprec(128):
            state = _exact(states, row)
            slopes, pi = state.sensitivities(2), state.target_probability(2)
        for name in ("loss", "probability", "gradient"):
            assert slopes[name].low[0] == pytest.approx(getattr(told, name)[row].item(), rel=1e-11)
            assert floats.sensitivities(2)[name].low[row] == pytest.approx(slopes[name].low[0], rel=1e-11)
        assert pi.low[0] == pytest.approx(probability[row, states.labels[row]].item(), rel=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [1, 2, 6])
def test_errors_in_long_doubles_are_those_of_arb(shape: tuple[int, int], order: int) -> None:
    states = make_states(5, *shape, 8, single=False)
    if order not in valid_orders(states.bank.nu):
        return
    arrays = (_bank(states), states.features.numpy(), states.labels.numpy(), states.temperature.numpy())
    gradient = np.zeros((5, shape[1]))
    found = true_errors(*arrays, order), executed_errors(*arrays, order, np.zeros(5), gradient)
    for row in range(5):
        with ctx.workprec(256):
            sides = _exact(states, row).sides
            for errors, (balls, tops) in zip(
                found, (sides.true_errors(order), sides.executed_errors(order, 0.0, gradient[row])), strict=True
            ):
                for name, ball in balls.items():
                    off = abs(errors.values[name][row] - float(ball))
                    assert off <= errors.off[name][row] + 1e-15 * float(ball)
                    assert errors.off[name][row] < 1e-9
                assert (errors.top[row], errors.exact_top[row]) == tops


@pytest.mark.parametrize("order", range(1, 7))
def test_its_surrogate_is_the_librarys(order: int) -> None:
    """Two implementations of F_n and A_n that share nothing."""
    for nu, x in ((1.5, 0.75), (63.0, 500.0), (511.0, 90.0)):
        with ctx.workprec(200):
            here, slope = exact.surrogates(arb(nu), arb(x))[order - 1]
            there, _ = exact.surrogates(arb(nu), arb(2 * x))[order - 1]
            assert abs(slope * x - surrogate.ratio(order, nu, x, bits=200)) < 1e-40
            other = surrogate.potential_difference(order, nu, 2 * x, x, 3 * x * x, bits=200)
            assert abs(there - here - other) < 1e-40


def test_its_constants_are_the_proven_ones() -> None:
    """Restated from docs/theory; the test compares with the rows that `suffice prove` proves."""
    for nu in (1.2, 1.5, 2.0, 3.0, 3.5, 5.5, 7.0, 15.0, 31.0, 63.0, 511.0):
        assert ladder.valid_orders(nu) == valid_orders(nu)
        for order in valid_orders(nu):
            row = next(row for row in CLOSED_FORM if row.order == order and nu >= row.nu_min)
            expected = nu / (2 * (nu + 1)) if row.value is None else float(row.value)
            assert float(ladder.constant(order, nu) or 0) == pytest.approx(expected, rel=1e-15)


def test_saturated_states_keep_their_digits() -> None:
    """Where one class has all but 1e-20 of the mass, and where float64 has nothing left and says so."""
    states = make_states(6, 5, 16, 3, single=False)
    smallest = {}
    for tau in (0.05, 0.002):
        bank = sf.ClassBank(states.bank.directions, 400 * states.bank.concentrations + 100, states.bank.biases)
        cold = sf.States(bank, states.features, states.labels, tau)
        cold = sf.States(bank, states.features, sf.evaluate(cold, sf.DebyePair()).prediction, tau)
        found = _floats(cold).bounds(2, "centered", "own", np.ones(6))["loss"]
        for row in range(6):
            with ctx.workprec(128):
                ball = _exact(cold, row).bounds(2, "centered", "own", np.ones(1))["loss"]
            assert ball.high[0] <= ball.low[0] * (1 + 1e-12) or ball.high[0] < 1e-307
            assert np.isnan(found.low[row]) or found.low[row] == pytest.approx(ball.low[0], rel=1e-9)
            smallest[tau] = min(smallest.get(tau, 1.0), ball.high[0])
        assert np.isnan(found.low).any() == (smallest[tau] < 1e-290)
    assert 0 < smallest[0.05] < 1e-20
    assert smallest[0.002] < 1e-290


def test_it_imports_nothing_of_the_certifying_code() -> None:
    """Only the standard library, NumPy, pyarrow and python-flint."""
    folder = Path(str(suffice.verify.__file__)).parent
    files = sorted(folder.glob("*.py"))
    assert len(files) > 10
    outside = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                if name.split(".")[0] == "suffice":
                    assert name.startswith("suffice.verify."), (path.name, name)
                outside.add(name.split(".")[0])
        assert "import_module" not in path.read_text()
        assert "__import__" not in path.read_text()
    libraries = outside - {"suffice", "__future__"}
    assert libraries & {"numpy", "pyarrow", "flint"} == {"numpy", "pyarrow", "flint"}
    standard = {"collections", "dataclasses", "fractions", "functools", "hashlib", "itertools", "json", "math"}
    standard |= {"pathlib", "random", "re", "statistics", "struct", "sys", "typing"}
    assert libraries - standard == {"numpy", "pyarrow", "flint"}
