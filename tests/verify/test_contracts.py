"""The contracts in Arb: no errors within the allowances break them, by trying every corner."""

from __future__ import annotations

from itertools import product

import pytest
from flint import arb, ctx

from suffice.verify.contracts import Allowances, Balls, Head, contract_bounds, others_of, smallest, top_class
from tests.support.heads import Vectors, random_head

CONTRACTS = ("geometry", "conditioned", "centered")
NAMES = ("loss", "probability", "gradient")


def _balls(values: object) -> Balls:
    return [arb(x) for x in values.tolist()]  # type: ignore[attr-defined]


def _head(scores: Balls, target: int, tau: arb) -> Head:
    weights = [q.exp() for q in scores]
    total = sum(weights, arb(0))
    top = top_class(scores)
    return Head(
        pi=[w / total for w in weights],
        others=[sum((v for i, v in enumerate(weights) if i != j), arb(0)) / total for j in range(len(weights))],
        below=[scores[top] - q for q in scores],
        target=target,
        top=top,
        tau=tau,
    )


def _given(made: Vectors, head: Head) -> Allowances:
    d, a = _balls(made.allowances.d[0]), _balls(made.allowances.a[0])
    vectors = [_balls(row) for row in made.vectors]
    mean = [sum((p * v[i] for p, v in zip(head.pi, vectors, strict=True)), arb(0)) for i in range(6)]

    def apart(index: int) -> Balls:
        return [arb(0) if j == index else x + d[index] for j, x in enumerate(d)]

    return Allowances(
        d=d,
        a=a,
        to_target=apart(head.target),
        to_top=apart(head.top),
        distances=[_length([x - m for x, m in zip(v, mean, strict=True)]) for v in vectors],
    )


def _length(vector: Balls) -> arb:
    return sum((x * x for x in vector), arb(0)).sqrt()


def _changes(head: Head, scores: Balls, vectors: list[Balls], e: Balls, moved: list[Balls]) -> dict[str, arb]:
    """What errors e of scores and `moved` of vectors do, straight from the definitions."""
    exact = _head([q - x for q, x in zip(scores, e, strict=True)], head.target, head.tau)

    def gradient(pi: Balls, rows: list[Balls]) -> Balls:
        weights = [p - (j == head.target) for j, p in enumerate(pi)]
        return [sum((w * row[i] for w, row in zip(weights, rows, strict=True)), arb(0)) / head.tau for i in range(6)]

    there = [[x - m for x, m in zip(row, move, strict=True)] for row, move in zip(vectors, moved, strict=True)]
    off = [x - y for x, y in zip(gradient(head.pi, vectors), gradient(exact.pi, there), strict=True)]
    return {
        "loss": abs((exact.pi[head.target] / head.pi[head.target]).log()),
        "probability": sum((abs(p - q) for p, q in zip(exact.pi, head.pi, strict=True)), arb(0)) / 2,
        "gradient": _length(off),
    }


@pytest.mark.parametrize("seed", range(6))
def test_no_corner_breaks_a_contract(seed: int) -> None:
    """Errors of scores at every corner of their box, vectors moved towards and away from the gradient's change."""
    with ctx.workprec(128):
        made = random_head(seed, 3)
        scores = _balls(made.head.log_probabilities[0])
        head = _head(scores, int(made.head.target), 1 / arb(made.head.gradient_scale.item()))
        given, vectors = _given(made, head), [_balls(row) for row in made.vectors]
        bounds = {name: contract_bounds(name, head, given, arb(1), arb(0)) for name in CONTRACTS}
        seen = dict.fromkeys(NAMES, arb(0))
        for signs in product((-1, 1), repeat=3):
            e = [s * x for s, x in zip(signs, given.d, strict=True)]
            for side in (-1, 1):
                moved = [[side * x / _length(v) * a for x in v] for v, a in zip(vectors, given.a, strict=True)]
                for name, change in _changes(head, scores, vectors, e, moved).items():
                    seen[name] = seen[name].max(change)
                    for contract in CONTRACTS:
                        assert not change > bounds[contract][name], (contract, name)
        # and they are not idle: the loss bound is reached up to what no corner can do at once
        assert seen["loss"] > bounds["centered"]["loss"] / 3
        for name in NAMES:
            assert not bounds["conditioned"][name] > bounds["geometry"][name]
            assert not bounds["centered"][name] > bounds["conditioned"][name]


def test_zero_at_zero_and_growing() -> None:
    made = random_head(1)
    scores = _balls(made.head.log_probabilities[0])
    head = _head(scores, 1, arb(1))
    given = _given(made, head)
    for contract in CONTRACTS:
        last = contract_bounds(contract, head, given, arb(0), arb(0))
        assert all(last[name] == 0 for name in (*NAMES, "prediction"))
        for scale in (1e-6, 1e-3, 1.0, 30.0):
            found = contract_bounds(contract, head, given, arb(scale), arb(0))
            assert all(found[name] > last[name] for name in NAMES)
            last = found


def test_a_tie_leaves_no_margin() -> None:
    """Also where the scores may be as far off as half of it."""
    made = random_head(0, 3)
    given = _given(made, _head([arb(0), arb(0), arb(-1)], 0, arb(1)))
    tied, apart = (_head([arb(0), arb(x), arb(-9)], 0, arb(1)) for x in (0, -1))
    for contract in CONTRACTS:
        assert contract_bounds(contract, tied, given, arb(1), arb(0))["prediction"] == arb.pos_inf()
        assert contract_bounds(contract, apart, given, arb(1), arb(0))["prediction"].is_finite()
        assert contract_bounds(contract, apart, given, arb(1), arb(0.5))["prediction"] == arb.pos_inf()


def test_sums_that_leave_one_out() -> None:
    values = [arb(x) for x in (1, 10, 100, 1000)]
    assert [float(x) for x in others_of(values)] == [1110, 1101, 1011, 111]
    assert float(smallest(values)) == 1
    assert top_class(values) == 3
    # nothing is subtracted: the mass beside a class that has all but 1e-300 of it keeps its digits
    tiny = others_of([arb(1), arb(1e-300)])[0]
    assert tiny == arb(1e-300)
