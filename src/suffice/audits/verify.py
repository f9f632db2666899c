"""An independent check of an audit: Arb, exact fractions and file readers, nothing of the code that certified.

Everything is recomputed from the collection: directions renormalised, radii, the surrogate F_n with its polynomials
from their recurrence, the Bessel functions, both softmaxes, the contracts. All numbers are balls; a comparison counts
only if it holds for the whole ball.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from flint import arb, ctx, fmpq

from suffice.audits.stored import State, read_state

__all__ = ["Checked", "bounds_in_arb", "check_state", "checked_states"]

_BITS = 256
_MOST_BITS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One state: its true errors (upper ends), bound over error, and what is wrong (nothing, one hopes)."""

    id: str
    verdict: str
    settled: str
    loss_error: float
    probability_error: float
    gradient_error: float
    conservative: dict[str, float]
    violations: tuple[str, ...]


@cache
def _polynomials(order: int) -> tuple[tuple[Fraction, ...], ...]:
    """rho_1..rho_n by powers of t, from the Riccati equation order by order.

    (2/t) rho_m = -2 rho_{m-1} + t(1-t^2) rho_{m-1}' - ((1-t^2)/t^2) sum_i rho_i rho_{m-i}, rho_1 = -t^2/2.
    """
    rho: list[dict[int, Fraction]] = [{}, {2: Fraction(-1, 2)}]
    for m in range(2, order + 1):
        terms: dict[int, Fraction] = {}

        def add(power: int, value: Fraction, terms: dict[int, Fraction] = terms) -> None:
            terms[power] = terms.get(power, Fraction(0)) + value

        for p, c in rho[m - 1].items():
            add(p + 1, -c)
            # t/2 of t(1-t^2) p c t^(p-1)
            add(p + 1, Fraction(p, 2) * c)
            add(p + 3, -Fraction(p, 2) * c)
        for i in range(1, m):
            for p, c in rho[i].items():
                for q, e in rho[m - i].items():
                    add(p + q - 1, -c * e / 2)
                    add(p + q + 1, c * e / 2)
        rho.append({p: c for p, c in terms.items() if c})
    return tuple(tuple(r.get(p, Fraction(0)) for p in range(max(r) + 1)) if r else () for r in rho)


def _exact(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def _surrogate(order: int, nu: arb, x: arb) -> tuple[arb, arb]:
    """F_n(x) and A_n(x)."""
    s = (nu * nu + x * x).sqrt()
    t, z = nu / s, x / nu
    potential = s - nu * (nu + s).log() - s.log() / 2
    ratio = x / (nu + s)
    for m, rho in enumerate(_polynomials(order)):
        if m == 0:
            continue
        ratio += z * sum((_exact(c) * t**p for p, c in enumerate(rho) if c), arb(0)) / nu**m
        if m >= 2:
            # -nu^(1-m) times the integral of rho_m/t^3
            inner = sum((_exact(c / (p - 2)) * t ** (p - 2) for p, c in enumerate(rho) if c), arb(0))
            potential -= inner * nu ** (1 - m)
    return potential, ratio


def _bessel(nu: arb, x: arb) -> tuple[arb, arb]:
    """Phi(x) = log I_nu(x) - nu log x and R(x) = I_{nu+1}(x)/I_nu(x)."""
    if x == 0:
        return -nu * arb(2).log() - (nu + 1).lgamma(), arb(0)
    here, above = x.bessel_i(nu, scaled=True), x.bessel_i(nu + 1, scaled=True)
    return here.log() + x - nu * x.log(), above / here


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """Both sides of the objective at one state."""

    nu: arb
    tau: arb
    y: int
    k: list[arb]
    r: list[arb]
    g: list[arb]
    approximate: list[arb]
    errors: list[arb]
    pi: list[arb]
    exact_pi: list[arb]
    slopes: list[arb]
    exact_slopes: list[arb]
    combined: Callable[[list[arb]], list[arb]]
    distances: Callable[[], list[arb]]


def _softmax(scores: list[arb]) -> list[arb]:
    peak = max(scores, key=lambda q: float(q.mid()))
    weights = [(q - peak).exp() for q in scores]
    total = sum(weights, arb(0))
    return [w / total for w in weights]


def _sides(state: State, order: int) -> _Sides:
    nu = arb(len(state.features)) / 2 - 1
    tau = arb(state.temperature)
    u = [arb(f) / tau for f in state.features]
    u_squared = sum((x * x for x in u), arb(0))
    mu = []
    for row in state.directions:
        length = sum((arb(m) ** 2 for m in row), arb(0)).sqrt()
        mu.append([arb(m) / length for m in row])
    k = [arb(x) for x in state.concentrations]
    along = [sum((m * x for m, x in zip(row, u, strict=True)), arb(0)) for row in mu]
    squares = [kj * kj + 2 * kj * a + u_squared for kj, a in zip(k, along, strict=True)]
    r = [s.sqrt() if s > 0 else arb(0) for s in squares]
    approximate, exact, slopes, exact_slopes = [], [], [], []
    for kj, rj, bias in zip(k, r, state.biases, strict=True):
        f_k, _ = _surrogate(order, nu, kj)
        f_r, a_r = _surrogate(order, nu, rj)
        p_k, _ = _bessel(nu, kj)
        p_r, ratio = _bessel(nu, rj)
        approximate.append(f_r - f_k + arb(bias))
        exact.append(p_r - p_k + arb(bias))
        slopes.append(a_r / rj if rj > 0 else arb(0))
        exact_slopes.append(ratio / rj if rj > 0 else arb(0))

    def combined(weights: list[arb]) -> list[arb]:
        """sum_j w_j v_j with v_j = k_j mu_j + u."""
        total = sum(weights, arb(0))
        columns = zip(*mu, strict=True)
        return [
            sum((w * kj * m for w, kj, m in zip(weights, k, column, strict=True)), arb(0)) + total * x
            for column, x in zip(columns, u, strict=True)
        ]

    approximate_pi = _softmax(approximate)

    def distances() -> list[arb]:
        """|hhat_j - c| with hhat_j = slope_j v_j and c their mean under pi: one vector a class."""
        vectors = [
            [s * (kj * m + x) for m, x in zip(row, u, strict=True)] for s, kj, row in zip(slopes, k, mu, strict=True)
        ]
        center = [
            sum((p * c for p, c in zip(approximate_pi, column, strict=True)), arb(0))
            for column in zip(*vectors, strict=True)
        ]
        return [sum(((a - c) ** 2 for a, c in zip(vector, center, strict=True)), arb(0)).sqrt() for vector in vectors]

    return _Sides(
        nu=nu,
        tau=tau,
        y=state.label,
        k=k,
        r=r,
        g=[abs(rj - kj) for rj, kj in zip(r, k, strict=True)],
        approximate=approximate,
        errors=[a - e for a, e in zip(approximate, exact, strict=True)],
        pi=approximate_pi,
        exact_pi=_softmax(exact),
        slopes=slopes,
        exact_slopes=exact_slopes,
        combined=combined,
        distances=distances,
    )


def _true_errors(sides: _Sides) -> tuple[arb, arb, arb]:
    """|loss|, total variation and |gradient| between the two sides."""
    y = sides.y
    loss = abs((sides.exact_pi[y] / sides.pi[y]).log())
    tv = sum((abs(a - b) for a, b in zip(sides.pi, sides.exact_pi, strict=True)), arb(0)) / 2
    weights = [
        (p - (j == y)) * s - (q - (j == y)) * t
        for j, (p, s, q, t) in enumerate(zip(sides.pi, sides.slopes, sides.exact_pi, sides.exact_slopes, strict=True))
    ]
    return loss, tv, _length(sides.combined(weights)) / sides.tau


def _length(vector: list[arb]) -> arb:
    return sum((c * c for c in vector), arb(0)).sqrt()


def _executed_errors(sides: _Sides, row: dict[str, Any]) -> dict[str, arb]:
    """|loss| and |gradient| between the numbers that the audit says were executed and the exact ones."""
    y = sides.y
    weights = [(q - (j == y)) * t for j, (q, t) in enumerate(zip(sides.exact_pi, sides.exact_slopes, strict=True))]
    exact = [c / sides.tau for c in sides.combined(weights)]
    executed = struct.unpack(f"<{len(exact)}d", row["gradient"])
    return {
        "loss": abs(arb(float(row["loss"])) + sides.exact_pi[y].log()),
        "gradient": _length([arb(a) - b for a, b in zip(executed, exact, strict=True)]),
    }


def _larger(values: list[arb]) -> arb:
    best = values[0]
    for value in values[1:]:
        best = best.max(value)
    return best


def _top(p: list[arb]) -> int:
    return max(range(len(p)), key=lambda j: float(p[j].mid()))


def _total_variation(pi: list[arb], d: list[arb]) -> tuple[arb, list[arb], list[arb]]:
    """B_P of eq:probability-interval-main, with the lower and upper ends l_j and u_j."""
    up, down = (sum((p * (sign * x).exp() for p, x in zip(pi, d, strict=True)), arb(0)) for sign in (1, -1))
    lower, upper = [], []
    for p, x in zip(pi, d, strict=True):
        # 1 + S_j = p + e^(+-d) times the sum of the others
        lower.append(p / (p + x.exp() * (up - p * x.exp())))
        upper.append(p / (p + (-x).exp() * (down - p * (-x).exp())))
    half = sum(((p - a).max(c - p) for p, a, c in zip(pi, lower, upper, strict=True)), arb(0)) / 2
    return (_larger(d) / 2).tanh().min(half), lower, upper


def _geometry(sides: _Sides, b: arb) -> dict[str, arb]:
    """The bounds of prop:contrastive-contract for the uniform family d = b g, a = b."""
    largest = b * _larger(sides.g)
    tv = (largest / 2).tanh()
    return {
        "loss": largest + b * sides.g[sides.y],
        "probability": tv,
        "gradient": (2 * tv + 2 * b) / sides.tau,
        "prediction": 2 * largest / _margin(sides),
    }


def _margin(sides: _Sides) -> arb:
    """The top score less the second; a ball around zero at a tie."""
    w = _top(sides.approximate)
    others = [sides.approximate[w] - q for j, q in enumerate(sides.approximate) if j != w]
    smallest = others[0]
    for gap in others[1:]:
        smallest = smallest.min(gap)
    return smallest


def _conditioned(sides: _Sides, b: arb) -> dict[str, arb]:
    """B_L, B_P and B_g of prop:objective-conditioned-contract for the uniform family d = b g, a = b."""
    pi, y = sides.pi, sides.y
    d = [b * g for g in sides.g]
    loss = (1 + sum((pi[i] * (d[i] + d[y]).expm1() for i in range(len(pi)) if i != y), arb(0))).log()
    tv, _, _ = _total_variation(pi, d)
    rest = sum((p for j, p in enumerate(pi) if j != y), arb(0))
    return {
        "loss": loss,
        "probability": tv,
        "gradient": (2 * tv + 2 * rest * b) / sides.tau,
        "prediction": 2 * _larger(d) / _margin(sides),
    }


def _centered(sides: _Sides, b: arb) -> dict[str, arb]:
    """The minima of complete bounds that the centred contract takes (docs/theory.md, 6.4 and 6.5)."""
    pi, y, w = sides.pi, sides.y, _top(sides.pi)
    classes = range(len(pi))

    def matched(i: int, j: int) -> arb:
        apart = abs(sides.r[i] - sides.r[j]) + abs(sides.k[i] - sides.k[j])
        return arb(0) if i == j else b * apart.min(sides.g[i] + sides.g[j])

    paper = _conditioned(sides, b)
    size = sum((pi[i] * matched(i, y).expm1() for i in classes if i != y), arb(0))
    # P_y >= pi_y/(1 + S)
    away = 1 - pi[y] / (1 + size)
    distances = sides.distances()
    probability, gradient = paper["probability"], paper["gradient"]
    for d in ([b * g for g in sides.g], [matched(j, w) for j in classes]):
        tv, _, upper = _total_variation(pi, d)
        probability = probability.min(tv)
        moved = sum((p * x.expm1() * rho for p, x, rho in zip(pi, d, distances, strict=True)), arb(0))
        moved = moved / sum((p * (-x).exp() for p, x in zip(pi, d, strict=True)), arb(0))
        others = b * sum((upper[j] for j in classes if j != y), arb(0))
        gradient = gradient.min((moved + others.min(away * b) + away * b) / sides.tau)
    q = sides.approximate
    use = _larger([matched(j, w) / (q[w] - q[j]) for j in classes if j != w])
    return {
        "loss": paper["loss"].min((1 + size).log()),
        "probability": probability,
        "gradient": gradient,
        "prediction": paper["prediction"].min(use),
    }


_CONTRACTS = {"geometry": _geometry, "conditioned": _conditioned, "centered": _centered}


def bounds_in_arb(state: State, order: int, contract: str, b: float) -> dict[str, arb]:
    """The bounds of a contract for the uniform family at b, as balls."""
    with ctx.workprec(_BITS):
        return _CONTRACTS[contract](_sides(state, order), arb(b))


def check_state(state: State, row: dict[str, Any], plan: dict[str, Any]) -> Checked:
    """Recompute one state and hold the audit's row against it; precision is raised until the balls are narrow."""
    bits = _BITS
    while True:
        with ctx.workprec(bits):
            sides = _sides(state, plan["order"])
            if _executed(plan):
                errors = _executed_errors(sides, row)
            else:
                errors = dict(zip(("loss", "probability", "gradient"), _true_errors(sides), strict=True))
            narrow = all(e.is_finite() and e.rad() < 1e-6 * (e.abs_upper() + arb(1e-300)) for e in errors.values())
            if narrow or bits >= _MOST_BITS:
                return _judge(sides, errors, row, plan)
        bits *= 2


def _executed(plan: dict[str, Any]) -> bool:
    """Whether the audit is about executed numbers; audits from before there was a choice are not."""
    return bool(plan.get("scope", "analytic") == "execution")


def _judge(sides: _Sides, errors: dict[str, arb], row: dict[str, Any], plan: dict[str, Any]) -> Checked:
    wrong = []
    conservative = {}
    for name, error in errors.items():
        bound = float(row[f"{name}_bound"])
        # an infinite bound promises nothing, also of what overflowed; that it is not certified is judged below
        if math.isinf(bound):
            continue
        if not error <= arb(bound):
            wrong.append(f"{name}: error {error} is not proved to be at most the bound {bound}")
        if error > 0:
            conservative[name] = bound / float(error.mid())
    top, exact_top = _top(sides.pi), _top(sides.exact_pi)
    if row["prediction_certified"] and top != exact_top:
        wrong.append(f"prediction: {top} was certified, but it is {exact_top}")
    budgets = {name: plan[name] for name in errors if plan[name]}
    met = [errors[name] <= arb(limit) for name, limit in budgets.items()]
    broken = [errors[name] > arb(limit) for name, limit in budgets.items()]
    if plan["prediction"]:
        met.append(top == exact_top)
        broken.append(top != exact_top)
    settled = "adequate" if all(met) else "violated" if any(broken) else "unsettled"
    if row["verdict"] == "certified" and settled != "adequate":
        wrong.append(f"verdict: certified, but it is {settled}")
    # beside rounding b* is about scores that only the program has: it is not checked here
    if row["status"] == "bounded" and not _executed(plan):
        at = _CONTRACTS[plan["contract"]](sides, arb(float(row["b"])))
        for name, limit in budgets.items():
            if not at[name] <= arb(limit):
                wrong.append(f"b*: {name} bound at {row['b']} is not proved to be at most {limit}")
        # the margin test is strict: all of the margin may not be used
        if plan["prediction"] and not at["prediction"] < 1:
            wrong.append(f"b*: the prediction is not proved to be kept at {row['b']}")
    return Checked(
        id=row["id"],
        verdict=row["verdict"],
        settled=settled,
        loss_error=float(errors["loss"].upper()),
        probability_error=float(errors["probability"].upper()) if "probability" in errors else math.nan,
        gradient_error=float(errors["gradient"].upper()),
        conservative=conservative,
        violations=tuple(wrong),
    )


def checked_states(
    audit: Path, collection: Path, chosen: Callable[[int], bool], tick: Callable[[], None] = lambda: None
) -> Iterator[Checked]:
    """Check the audit's rows whose number is chosen, in order."""
    plan = json.loads((audit / "audit.json").read_text())["plan"]
    number = -1
    for path in sorted((audit / "results").glob("*.parquet")):
        rows = pq.read_table(path).to_pylist()
        for row in rows:
            number += 1
            if chosen(number):
                yield check_state(read_state(collection, row), row, plan)
                tick()
