"""The truth about a state from its stored numbers alone, in Arb: nothing here is taken from src.

mu_j is a stored row over its exact length, v_j = k_j mu_j + f/tau and r_j = |v_j|: no computed geometry enters. The
exact side is the Bessel function's, the surrogate is A_n/F_n of docs/theory, section 1, in exact arithmetic at the
same geometry. Every error is a ball, at a precision that is raised until the ball says something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Protocol, TypeVar

import torch
from flint import arb, arb_mat, arb_poly, ctx
from torch import Tensor

# no float64 bound but 0 is below 2^-1074: a ball that ends below this needs no digits
_NOTHING = -1200
WIDTH = 2.0**-24
# for what the usual width leaves open
NARROWER = 2.0**-200
_MOST_BITS = 40_000
# Arb's exponential has no digits below about this: it is then between 0 and that of this
_LOWEST = -(2**100)

# of a bound: an actual error as far below it as this needs no digits
_BELOW = 1e-6

T = TypeVar("T")
Floors = tuple[float, float, float]


class Bank(Protocol):
    """What is read off a bank of classes."""

    directions: Tensor
    concentrations: Tensor
    biases: Tensor


class States(Protocol):
    """What is read off states."""

    bank: Any
    features: Tensor
    labels: Tensor
    temperature: Tensor


@dataclass(frozen=True)
class Numbers:
    """What some program returned for a state."""

    loss: float
    probabilities: Sequence[float]
    gradient: Sequence[float]
    winner: int


@dataclass(frozen=True)
class Errors:
    """|loss error|, total variation and |gradient error| as balls; `agrees` is None where a tie leaves it open."""

    loss: arb
    probability: arb
    gradient: arb
    agrees: bool | None

    def is_narrow(self, floors: Sequence[arb | None], width: float) -> bool:
        """Whether each ball is, beside its floor."""
        balls = (self.loss, self.probability, self.gradient)
        return all(is_narrow(ball, width, floor) for ball, floor in zip(balls, floors, strict=True))


def verdict(error: arb, bound: float) -> str:
    """ "above" only if every point of the ball is over the bound, "within" if none is; else "open"."""
    if math.isnan(bound):
        return "above"
    if math.isinf(bound) or error <= arb(bound):
        return "within"
    return "above" if error > arb(bound) else "open"


def is_narrow(ball: arb, width: float = WIDTH, floor: arb | None = None) -> bool:
    """Narrow beside its value, or below the floor: everything that float64 has unless it is given."""
    if not ball.is_finite():
        return False
    return bool(ball.rad() <= abs(ball.mid()) * width or abs(ball) < (arb(2) ** _NOTHING if floor is None else floor))


@cache
def rho(m: int) -> tuple[Fraction, ...]:
    """Coefficients of rho_m(t) by the recurrence (2)."""
    if m == 1:
        return (Fraction(0), Fraction(0), Fraction(-1, 2))
    last = rho(m - 1)
    total: dict[int, Fraction] = {}

    def add(power: int, value: Fraction) -> None:
        total[power] = total.get(power, Fraction(0)) + value

    for i, a in enumerate(last):
        add(i, -2 * a)
        # t (1 - t^2) rho'
        add(i, i * a)
        add(i + 2, -i * a)
    for j in range(1, m):
        for i, a in enumerate(rho(j)):
            for other, b in enumerate(rho(m - j)):
                # -(1 - t^2)/t^2
                add(i + other - 2, -a * b)
                add(i + other, a * b)
    # times t/2
    size = max(power for power, a in total.items() if a) + 2
    return tuple(total.get(i - 1, Fraction(0)) / 2 for i in range(size))


@cache
def potential_coefficients(m: int) -> tuple[Fraction, ...]:
    """U_m with U_m' = -rho_m/t^3 and U_m(0) = 0."""
    found = [Fraction(0)] * max(2, len(rho(m)) - 2)
    for i, a in enumerate(rho(m)):
        if a:
            found[i - 2] = -a / (i - 2)
    return tuple(found)


def _arb(x: Fraction) -> arb:
    return arb(x.numerator) / x.denominator


class OracleBank:
    """Directions, concentrations and biases as they are stored, with what depends on them alone."""

    def __init__(self, bank: Bank) -> None:
        self.rows: list[list[float]] = bank.directions.tolist()
        self.k: list[float] = bank.concentrations.tolist()
        self.c: list[float] = bank.biases.tolist()
        self.nu2 = len(self.rows[0]) - 2
        self._cache: dict[tuple[Any, ...], Any] = {}

    def kept(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Made once for each precision."""
        key = (ctx.prec, *key)
        if key not in self._cache:
            self._cache[key] = make()
        found: T = self._cache[key]
        return found

    @property
    def nu(self) -> arb:
        return arb(self.nu2) / 2

    def unit_rows(self) -> arb_mat:
        """mu_j: the stored row over its exact length."""

        def make() -> arb_mat:
            rows = [[arb(x) for x in row] for row in self.rows]
            lengths = [sum((x * x for x in row), arb(0)).sqrt() for row in rows]
            return arb_mat([[x / length for x in row] for row, length in zip(rows, lengths, strict=True)])

        return self.kept(("mu",), make)

    def potential(self, x: arb) -> arb:
        """Phi(x) = log I_nu(x) - nu log x."""
        nu = self.nu
        if x == 0:
            return -nu * arb(2).log() - (nu + 1).lgamma()
        return x.bessel_i(nu, scaled=True).log() + x - nu * x.log()

    def ends(self) -> list[arb]:
        """Phi(k_j)."""
        return self.kept(("phi",), lambda: [self.potential(arb(k)) for k in self.k])

    def surrogate(self, order: int, x: arb) -> tuple[arb, arb]:
        """F_n(x) and A_n(x)/x."""
        nu = self.nu

        def make() -> tuple[arb_poly, arb_poly]:
            flat = [arb(0)] * (3 * order + 2)
            steep = [arb(0)] * (3 * order + 2)
            for m in range(1, order + 1):
                for i, a in enumerate(rho(m)):
                    steep[i] += _arb(a) / nu ** (m + 1)
                for i, a in enumerate(potential_coefficients(m) if m > 1 else ()):
                    flat[i] += _arb(a) / nu ** (m - 1)
            return arb_poly(flat), arb_poly(steep)

        flat, steep = self.kept(("poly", order), make)
        s = (nu * nu + x * x).sqrt()
        t = nu / s
        return s - nu * (nu + s).log() - s.log() / 2 + flat(t), 1 / (nu + s) + steep(t)

    def surrogate_ends(self, order: int) -> list[arb]:
        """F_n(k_j)."""
        return self.kept(("ends", order), lambda: [self.surrogate(order, arb(k))[0] for k in self.k])


class OracleState:
    """One state. Balls are formed at `bits`, and again at more where they are wide."""

    def __init__(self, bank: OracleBank, feature: Sequence[float], label: int, temperature: float) -> None:
        self.bank, self.feature, self.label, self.tau = bank, list(feature), label, temperature
        self._geometry: dict[int, Geometry] = {}
        length = math.hypot(*(_quotient(x, temperature) for x in self.feature))
        self._size = math.log2(max(length, *bank.k, bank.nu2, 2.0)) if length < math.inf else 2100.0

    def _bits(self, order: int) -> int:
        # an error of order n is of the size s^-n beside scores of the size s
        bits = 110 + (order + 2) * self._size + 4 * order
        return 64 * math.ceil(bits / 64)

    def at(self, bits: int) -> Geometry:
        """The exact side at a precision."""
        if bits not in self._geometry:
            self._geometry[bits] = Geometry(self)
        return self._geometry[bits]

    def _narrow(
        self, order: int, floors: Floors, width: float, make: Callable[[Geometry], list[Errors]]
    ) -> list[Errors]:
        bits = self._bits(order)
        least = [arb(x) * _BELOW if x > 0 else None for x in floors]
        while True:
            with ctx.workprec(bits):
                geometry = self.at(bits)
                if geometry.decided:
                    found = make(geometry)
                    if 2 * bits > _MOST_BITS or all(each.is_narrow(least, width) for each in found):
                        return found
            bits = 64 * math.ceil(bits * 1.7 / 64)
            if bits > _MOST_BITS:
                raise ArithmeticError(f"No decision with {_MOST_BITS} bits")

    def errors(self, order: int, floors: Floors = (0.0, 0.0, 0.0), width: float = WIDTH) -> Errors:
        """What the formula of an order is off, in exact arithmetic.

        Balls need no digits where they end a million times below the floors: the bounds that they are compared with.
        """
        return self._narrow(order, floors, width, lambda g: [g.errors(order)])[0]

    def distances(self, numbers: Numbers, floors: Floors = (0.0, 0.0, 0.0), width: float = WIDTH) -> Errors:
        """How far given numbers are from the exact ones; whether the given winner is the exact one."""
        return self._narrow(1, floors, width, lambda g: [g.distances(numbers)])[0]

    def responses(
        self,
        order: int,
        b: float,
        seed: int,
        *,
        count: int = 4,
        floors: Floors = (0.0, 0.0, 0.0),
        width: float = WIDTH,
        numbers: Numbers | None = None,
    ) -> list[Errors]:
        """Errors when the exact side is F_n - E, A_n - E' for functions |E'| <= b of either sign between endpoints.

        Of the formula in exact arithmetic, or of given numbers.
        """

        def make(geometry: Geometry) -> list[Errors]:
            return geometry.responses(order, b, torch.Generator().manual_seed(seed), count, numbers)

        return self._narrow(order, floors, width, make)


def _quotient(x: float, tau: float) -> float:
    try:
        return x / tau
    except OverflowError:
        return math.inf


class Geometry:
    """Radii, exact scores and slopes at the present precision; `decided` unless a radius may be zero or not."""

    def __init__(self, state: OracleState) -> None:
        bank = self.bank = state.bank
        self.label, self.classes = state.label, range(len(bank.k))
        self.tau = arb(state.tau)
        self.u = [arb(x) / self.tau for x in state.feature]
        mu = bank.unit_rows()
        products = (mu * arb_mat([[x] for x in self.u])).entries()
        square = sum((x * x for x in self.u), arb(0))
        self.k = [arb(k) for k in bank.k]
        self.r: list[arb] = []
        self.decided = True
        for j, (k, product) in enumerate(zip(self.k, products, strict=True)):
            r2 = k * k + 2 * k * product + square
            if not (r2 > 0 and is_narrow(r2, 2.0**-60)):
                # with all digits of the coordinates, and exactly where even those are zero
                r2 = sum(((k * mu[j, i] + x) ** 2 for i, x in enumerate(self.u)), arb(0))
                if _vanishes(bank.rows[j], bank.k[j], state.feature, state.tau):
                    r2 = arb(0)
                elif not (r2 > 0 and is_narrow(r2, 2.0**-60)):
                    self.decided = False
                    return
            self.r.append(r2.sqrt())

    @cached_property
    def potentials(self) -> list[arb]:
        return [self.bank.potential(r) for r in self.r]

    @cached_property
    def scores(self) -> list[arb]:
        """q_j = Phi(r_j) - Phi(k_j) + c_j."""
        return [a - b + c for a, b, c in zip(self.potentials, self.bank.ends(), self.bank.c, strict=True)]

    @cached_property
    def slopes(self) -> list[arb]:
        """R(r_j)/r_j; what stands beside it is zero where r_j is."""
        nu = self.bank.nu
        return [
            r.bessel_i(nu + 1, scaled=True) / r.bessel_i(nu, scaled=True) / r if r > 0 else 1 / (2 * (nu + 1))
            for r in self.r
        ]

    def softmax(self, scores: list[arb]) -> tuple[list[arb], int]:
        """Probabilities and the class of the largest score."""
        top = max(self.classes, key=lambda j: scores[j].mid())
        weights = [_exp(q - scores[top]) if j != top else arb(1) for j, q in enumerate(scores)]
        total = sum(weights, arb(0))
        return [w / total for w in weights], top

    def vector(self, coefficients: list[arb]) -> list[arb]:
        """sum_j a_j v_j/tau."""
        pulled = (
            arb_mat([[a * k for a, k in zip(coefficients, self.k, strict=True)]]) * self.bank.unit_rows()
        ).entries()
        along = sum(coefficients, arb(0))
        return [(x + along * u) / self.tau for x, u in zip(pulled, self.u, strict=True)]

    def outputs(self, scores: list[arb], slopes: list[arb]) -> tuple[arb, list[arb], list[arb]]:
        """Loss, probabilities and gradient of an exact side: Bessel's, or one that an error function makes."""
        p, _ = self.softmax(scores)
        weights = _weights(p, self.label)
        return self.loss(scores), p, self.vector([w * s for w, s in zip(weights, slopes, strict=True)])

    def loss(self, scores: list[arb]) -> arb:
        """-log P_y, small where the target holds nearly all."""
        top = max(self.classes, key=lambda j: scores[j].mid())
        others = sum((_exp(q - scores[top]) for j, q in enumerate(scores) if j != top), arb(0)).log1p()
        return others if self.label == top else scores[top] - scores[self.label] + others

    def distances(self, numbers: Numbers, scores: list[arb] | None = None, slopes: list[arb] | None = None) -> Errors:
        scores = self.scores if scores is None else scores
        loss, p, gradient = self.outputs(scores, self.slopes if slopes is None else slopes)
        return Errors(
            loss=abs(loss - numbers.loss),
            probability=sum((abs(a - arb(b)) for a, b in zip(p, numbers.probabilities, strict=True)), arb(0)) / 2,
            gradient=_length([a - arb(b) for a, b in zip(gradient, numbers.gradient, strict=True)]),
            agrees=self._agrees(scores, numbers.winner),
        )

    def errors(self, order: int) -> Errors:
        bank = self.bank
        hats = [bank.surrogate(order, r) for r in self.r]
        # e_j = qhat_j - q_j, from the difference of the two functions at either end
        e = [
            (hat - phi) - (end_hat - end)
            for (hat, _), phi, end_hat, end in zip(
                hats, self.potentials, bank.surrogate_ends(order), bank.ends(), strict=True
            )
        ]
        hat_slopes = [slope for _, slope in hats]
        differences = [a - b for a, b in zip(hat_slopes, self.slopes, strict=True)]
        approximate = [q + x for q, x in zip(self.scores, e, strict=True)]
        return self._errors(self.scores, e, hat_slopes, differences, approximate)

    def _errors(
        self, exact: list[arb], e: list[arb], hat_slopes: list[arb], differences: list[arb], approximate: list[arb]
    ) -> Errors:
        """From exact scores, approximate ones that are e above them, approximate slopes and what those are off."""
        y = self.label
        p, top = self.softmax(exact)
        if all(abs(x - e[top]) < 1 for x in e):
            # from the errors alone, so that nothing cancels
            loss = sum((p[j] * (e[j] - e[y]).expm1() for j in self.classes if j != y), arb(0)).log1p()
            moves = [(x - e[top]).expm1() if j != top else arb(0) for j, x in enumerate(e)]
            z = sum((a * m for a, m in zip(p, moves, strict=True)), arb(0))
            change = [a * (m - z) / (1 + z) for a, m in zip(p, moves, strict=True)]
        else:
            # exponentials of large errors have no digits, but then the two sides differ in their first ones
            loss = self.loss(approximate) - self.loss(exact)
            change = [a - b for a, b in zip(self.softmax(approximate)[0], p, strict=True)]
        weights = _weights(p, y)
        coefficients = [
            c * hat + w * off for c, hat, w, off in zip(change, hat_slopes, weights, differences, strict=True)
        ]
        return Errors(
            loss=abs(loss),
            probability=sum((abs(c) for c in change), arb(0)) / 2,
            gradient=_length(self.vector(coefficients)),
            agrees=self._agrees(exact, max(self.classes, key=lambda j: approximate[j].mid())),
        )

    def _agrees(self, scores: list[arb], winner: int) -> bool | None:
        margins = [scores[winner] - q for j, q in enumerate(scores) if j != winner]
        if any(margin < 0 for margin in margins):
            return False
        return True if all(margin > 0 for margin in margins) else None

    def responses(
        self, order: int, b: float, generator: torch.Generator, count: int, numbers: Numbers | None
    ) -> list[Errors]:
        bank = self.bank
        hats = [bank.surrogate(order, r) for r in self.r]
        slopes = [slope for _, slope in hats]
        approximate = [hat - end + c for (hat, _), end, c in zip(hats, bank.surrogate_ends(order), bank.c, strict=True)]
        ends = sorted(
            [(x, j, side) for side, xs in enumerate((self.k, self.r)) for j, x in enumerate(xs)],
            key=lambda end: end[0].mid(),
        )
        found = []
        for signs, at_radii in self._sign_functions(ends, approximate, slopes, generator, count):
            primitive: list[list[arb]] = [[arb(0)] * len(self.k) for _ in range(2)]
            value, last = arb(0), arb(0)
            for (x, j, side), sign in zip(ends, signs, strict=True):
                value, last = value + sign * (x - last), x
                primitive[side][j] = value
            e = [b * (at_r - at_k) for at_k, at_r in zip(*primitive, strict=True)]
            exact = [q - x for q, x in zip(approximate, e, strict=True)]
            differences = [
                _ratio_error(sign * arb(b), slope * r) / r if r > 0 else arb(0)
                for sign, slope, r in zip(at_radii, slopes, self.r, strict=True)
            ]
            if numbers is None:
                found.append(self._errors(exact, e, slopes, differences, approximate))
            else:
                moved = [slope - off for slope, off in zip(slopes, differences, strict=True)]
                found.append(self.distances(numbers, exact, moved))
        return found

    def _sign_functions(
        self,
        ends: list[tuple[arb, int, int]],
        approximate: list[arb],
        slopes: list[arb],
        generator: torch.Generator,
        count: int,
    ) -> list[tuple[list[int], list[int]]]:
        """Signs between neighbouring endpoints and at radii: random ones, and the worst to first order for the loss
        and for the gradient along some direction. Any choice is a fair attack, so these are made in float64."""
        pi, _ = self.softmax(approximate)
        weights = torch.tensor([float(w) for w in _weights(pi, self.label)], dtype=torch.float64)
        mu = torch.tensor(self.bank.rows, dtype=torch.float64)
        u = torch.tensor([float(x) for x in self.u], dtype=torch.float64)
        v = torch.tensor(self.bank.k, dtype=torch.float64)[:, None] * mu + u
        units = torch.nn.functional.normalize(v, dim=1)
        lengths = torch.tensor([float(s * r) for s, r in zip(slopes, self.r, strict=True)], dtype=torch.float64)
        probabilities = torch.tensor([float(x) for x in pi], dtype=torch.float64)
        h = lengths[:, None] * units
        centred = h - probabilities @ h
        widths = torch.tensor([float(b[0] - a[0]) for a, b in zip([(arb(0),), *ends], ends, strict=False)]).double()

        def along(path_weights: Tensor) -> list[int]:
            # the sum of +-w_j over the paths that pass an interval: +w_j from k_j on, -w_j from r_j on
            steps = torch.tensor([(1.0 if side == 0 else -1.0) * float(path_weights[j]) for _, j, side in ends])
            running = torch.cat([torch.zeros(1), steps.cumsum(dim=0)[:-1].float()]) if len(ends) else steps
            return [1 if x >= 0 else -1 for x in running.tolist()]

        def signs_of(values: Tensor) -> list[int]:
            return [1 if x >= 0 else -1 for x in values.tolist()]

        found = [(along(weights), signs_of(weights)), (along(-weights), signs_of(-weights))]
        direction = torch.nn.functional.normalize(torch.randn(mu.shape[1], generator=generator).double(), dim=0)
        for _ in range(3):
            path = probabilities * (centred @ direction)
            at_radii = weights * (units @ direction)
            signs, at = along(path), signs_of(at_radii)
            primitive = (widths * torch.tensor(signs).double()).cumsum(dim=0)
            moved = torch.zeros(2, len(self.k), dtype=torch.float64)
            for (_, j, side), value in zip(ends, primitive.tolist(), strict=True):
                moved[side, j] = value
            s = moved[1] - moved[0]
            response = (probabilities * (s - probabilities @ s)) @ h + (weights * torch.tensor(at).double()) @ units
            if not bool(torch.isfinite(response).all()) or not bool(response.any()):
                break
            direction = torch.nn.functional.normalize(response, dim=0)
        found += [(signs, at), ([-x for x in signs], [-x for x in at])]
        for _ in range(count):
            share = torch.rand(1, generator=generator)
            coins = torch.rand(len(ends) + len(self.k), generator=generator)
            random = torch.where(coins < share, 1, -1).tolist()
            found.append((random[: len(ends)], random[len(ends) :]))
        return found


def _ratio_error(error: arb, ratio: arb) -> arb:
    """The part of the error that leaves the exact ratio in [-1, 1], as every ratio of Bessel functions is."""
    if ratio - error > 1:
        return ratio - 1
    return ratio + 1 if ratio - error < -1 else error


def _weights(p: list[arb], y: int) -> list[arb]:
    """P_j - 1_y, the target's as minus the sum of the others."""
    return [-sum((q for i, q in enumerate(p) if i != y), arb(0)) if j == y else q for j, q in enumerate(p)]


def _exp(x: arb) -> arb:
    if x < _LOWEST:
        half = arb(_LOWEST).exp() / 2
        return half + arb(0, half.upper())
    return x.exp()


def _length(vector: list[arb]) -> arb:
    square = sum((x * x for x in vector), arb(0))
    # a ball that reaches below zero is one around zero
    return square.sqrt() if square >= 0 else arb(0, square.abs_upper().sqrt().upper())


def _vanishes(row: list[float], k: float, feature: Sequence[float], tau: float) -> bool:
    """Whether k mu + f/tau is zero: |row| f_i = -k tau row_i, squared to be rational, with the signs compared."""
    if any(x * y > 0 or (x == 0) != (k * y == 0) for x, y in zip(feature, row, strict=True)):
        return False
    square = sum((Fraction(y) ** 2 for y in row), Fraction(0))
    scale = (Fraction(k) * Fraction(tau)) ** 2
    return all(Fraction(x) ** 2 * square == scale * Fraction(y) ** 2 for x, y in zip(feature, row, strict=True))


def states_of(states: States) -> list[OracleState]:
    """Every state, with one bank between them."""
    bank = OracleBank(states.bank)
    return [
        OracleState(bank, feature, label, tau)
        for feature, label, tau in zip(
            states.features.tolist(), states.labels.tolist(), states.temperature.tolist(), strict=True
        )
    ]
