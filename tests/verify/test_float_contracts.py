"""The contracts in float64 are those in Arb to nearly all digits, and NaN where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from suffice.verify import contracts, float_contracts
from suffice.verify.float_contracts import Allowances, Head, contract_bounds, others_of

CONTRACTS = ("geometry", "conditioned", "centered")
NAMES = ("loss", "probability", "gradient", "prediction")


def _made(seed: int, size: float, spread: float) -> tuple[Head, Allowances]:
    """Five rows of four classes."""
    g = np.random.default_rng(seed)
    scores = spread * g.normal(size=(5, 4))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    total = weights.sum(axis=1, keepdims=True)
    target, top = g.integers(0, 4, 5), scores.argmax(axis=1)
    head = Head(
        pi=weights / total,
        others=others_of(weights) / total,
        below=scores.max(axis=1, keepdims=True) - scores,
        target=target,
        top=top,
        tau=g.uniform(0.1, 1, 5),
    )
    d, a = size * g.uniform(size=(5, 4)), size * g.uniform(size=(5, 4))
    rows = np.arange(5)

    def apart(index: Any) -> Any:
        found = g.uniform(0.2, 1, (5, 4)) * (d + d[rows, index][:, None])
        found[rows, index] = 0
        return found

    given = Allowances(d=d, a=a, to_target=apart(target), to_top=apart(top), distances=g.uniform(size=(5, 4)))
    return head, given


def _in_arb(name: str, head: Head, given: Allowances, row: int) -> dict[str, arb]:
    def balls(values: Any) -> list[arb]:
        return [arb(x) for x in values[row].tolist()]

    exact = contracts.Head(
        pi=balls(head.pi),
        others=balls(head.others),
        below=balls(head.below),
        target=int(head.target[row]),
        top=int(head.top[row]),
        tau=arb(float(head.tau[row])),
    )
    fields = {field: balls(getattr(given, field)) for field in ("d", "a", "to_target", "to_top", "distances")}
    return contracts.contract_bounds(name, exact, contracts.Allowances(**fields), arb(1), arb(0))


@pytest.mark.parametrize("size", [1e-9, 1e-3, 2.0])
@pytest.mark.parametrize("name", CONTRACTS)
def test_as_in_arb(name: str, size: float) -> None:
    for seed, spread in enumerate((0.1, 2.0, 15.0)):
        head, given = _made(seed, size, spread)
        found = contract_bounds(name, head, given, np.ones(5), np.zeros(5))
        for row in range(5):
            with ctx.workprec(128):
                exact = _in_arb(name, head, given, row)
            for key in NAMES:
                assert found[key][row] == pytest.approx(float(exact[key]), rel=1e-12), key


def test_what_has_no_digits_is_nan() -> None:
    """Bounds that underflow, or overflow; a multiple of zero has all of its digits."""
    head, given = _made(0, 1e-3, 1.0)
    for name in CONTRACTS:
        small = contract_bounds(name, head, given, np.full(5, 1e-295), np.zeros(5))
        assert np.isnan(small["loss"]).all()
        large = contract_bounds(name, head, given, np.full(5, 1e8), np.zeros(5))
        assert np.isnan(large["loss"]).all() == (name != "geometry")
        none = contract_bounds(name, head, given, np.zeros(5), np.zeros(5))
        assert all((none[key] == 0).all() for key in NAMES)


def test_errors_of_scores_take_from_the_margin() -> None:
    head, given = _made(1, 1e-3, 1.0)
    margin = np.sort(head.below, axis=1)[:, 1]
    for name in CONTRACTS:
        use = contract_bounds(name, head, given, np.ones(5), np.zeros(5))["prediction"]
        less = contract_bounds(name, head, given, np.ones(5), margin / 4)["prediction"]
        assert (less > use).all()
        assert np.isinf(contract_bounds(name, head, given, np.ones(5), margin / 2)["prediction"]).all()


def test_sums_that_leave_one_out() -> None:
    values = np.array([[1.0, 10.0, 100.0, 1000.0], [1.0, 1e-300, 0.0, 0.0]])
    assert others_of(values).tolist() == [[1110.0, 1101.0, 1011.0, 111.0], [1e-300, 1.0, 1.0, 1.0]]
    assert float_contracts.others_of(np.ones((1, 2))).tolist() == [[1.0, 1.0]]
