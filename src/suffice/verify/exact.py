"""One state in Arb: both sides of the objective at the exact geometry of the stored numbers, and true errors."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb, arb_mat, ctx, fmpq

from suffice.verify.contracts import Balls, Head, others_of, top_class
from suffice.verify.ladder import ORDERS, potential_terms, ratio_terms
from suffice.verify.stored import Array, Bank

__all__ = ["ExactBank", "Sides", "bessel", "sides_of", "surrogates"]


def surrogates(nu: arb, x: arb, orders: int = ORDERS[-1]) -> list[tuple[arb, arb]]:
    """F_n(x) and A_n(x)/x for n = 1 and on."""
    s = (nu * nu + x * x).sqrt()
    t = nu / s
    powers = [arb(1)]
    for _ in range(3 * orders):
        powers.append(powers[-1] * t)
    potential, slope = s - nu * (nu + s).log() - s.log() / 2, 1 / (nu + s)
    found = []
    for m in range(1, orders + 1):
        scale = nu ** (1 - m)
        slope += (
            sum((_exact(c.numerator, c.denominator) * powers[p] for p, c in ratio_terms(m)), arb(0)) * scale / nu**2
        )
        if m >= 2:
            # -nu^(1-m) times the integral of V_m/t^3
            inner = (_exact(c.numerator, c.denominator) * powers[p] for p, c in potential_terms(m))
            potential += sum(inner, arb(0)) * scale
        found.append((potential, slope))
    return found


_coefficients: dict[tuple[int, int, int], arb] = {}


def _exact(numerator: int, denominator: int) -> arb:
    key = (numerator, denominator, ctx.prec)
    if key not in _coefficients:
        _coefficients[key] = arb(fmpq(numerator, denominator))
    return _coefficients[key]


def bessel(nu: arb, x: arb) -> tuple[arb, arb]:
    """Phi(x) = log I_nu(x) - nu log x and R(x)/x, R = I_{nu+1}/I_nu; the slope at 0 is that of no vector, 0."""
    if x == 0:
        return -nu * arb(2).log() - (nu + 1).lgamma(), arb(0)
    here, above = x.bessel_i(nu, scaled=True), x.bessel_i(nu + 1, scaled=True)
    return here.log() + x - nu * x.log(), above / here / x


class ExactBank:
    """A bank as balls, at one precision: what its states share is computed once."""

    def __init__(self, bank: Bank) -> None:
        self.bank, self.bits = bank, ctx.prec
        self.nu = arb(bank.dim) / 2 - 1
        self.raw = arb_mat(bank.directions.tolist())
        self.turned = self.raw.transpose()
        self.lengths = [sum((arb(x) ** 2 for x in row), arb(0)).sqrt() for row in bank.directions.tolist()]
        self.k = [arb(x) for x in bank.concentrations.tolist()]
        self.biases = [arb(x) for x in bank.biases.tolist()]
        self.at_k = [surrogates(self.nu, x) for x in self.k]
        self._phi: Balls | None = None

    @property
    def phi(self) -> Balls:
        """Phi at every concentration."""
        if self._phi is None:
            self._phi = [bessel(self.nu, x)[0] for x in self.k]
        return self._phi

    def along(self, vector: Balls) -> Balls:
        """mu_j.x for every class."""
        product = self.raw * arb_mat([[x] for x in vector])
        return [product[j, 0] / length for j, length in enumerate(self.lengths)]

    def combined(self, weights: Balls, u: Balls) -> Balls:
        """sum_j w_j v_j with v_j = k_j mu_j + u."""
        pulls = [[w * k / length] for w, k, length in zip(weights, self.k, self.lengths, strict=True)]
        product = self.turned * arb_mat(pulls)
        total = sum(weights, arb(0))
        return [product[i, 0] + total * x for i, x in enumerate(u)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A state: radii, surrogates of all orders at them, and the exact side on request."""

    bank: ExactBank
    label: int
    tau: arb
    u: Balls
    squares: Balls
    r: Balls
    at_r: list[list[tuple[arb, arb]]]

    def scores(self, order: int) -> Balls:
        """F_n(r_j) - F_n(k_j) + c_j."""
        bank = self.bank
        return [
            here[order - 1][0] - there[order - 1][0] + bias
            for here, there, bias in zip(self.at_r, bank.at_k, bank.biases, strict=True)
        ]

    def slopes(self, order: int) -> Balls:
        """A_n(r_j)/r_j."""
        return [each[order - 1][1] if r > 0 else arb(0) for each, r in zip(self.at_r, self.r, strict=True)]

    def head(self, scores: Balls) -> Head:
        """The softmax of some scores."""
        w = top_class(scores)
        below = [scores[w] - q for q in scores]
        weights = [(-x).exp() for x in below]
        total = sum(weights, arb(0))
        pi, others = [x / total for x in weights], [x / total for x in others_of(weights)]
        return Head(pi=pi, others=others, below=below, target=self.label, top=w, tau=self.tau)

    def exact(self) -> tuple[Balls, Balls]:
        """The exact scores and R(r_j)/r_j."""
        bank = self.bank
        both = [bessel(bank.nu, r) for r in self.r]
        scores = [phi - at_k + bias for (phi, _), at_k, bias in zip(both, bank.phi, bank.biases, strict=True)]
        return scores, [slope for _, slope in both]

    def true_errors(self, order: int, *, divergence: bool = False) -> tuple[dict[str, arb], tuple[int, int]]:
        """|loss|, total variation and |gradient| between an order and the exact side, and the top class of both."""
        y = self.label
        exact, exact_slopes = self.exact()
        scores, slopes = self.scores(order), self.slopes(order)
        head = self.head(scores)
        errors = [a - b for a, b in zip(scores, exact, strict=True)]
        classes = range(len(errors))
        change = sum((head.pi[i] * (errors[y] - errors[i]).expm1() for i in classes if i != y), arb(0)).log1p()
        # of the top class exactly zero: a ball around it would swallow all others
        moves = [arb(0) if j == head.top else (errors[head.top] - e).expm1() for j, e in enumerate(errors)]
        z = sum((p * m for p, m in zip(head.pi, moves, strict=True)), arb(0))
        # the exact probabilities less the order's
        moved = [p * (m - z) / (1 + z) for p, m in zip(head.pi, moves, strict=True)]
        weights = self._weights([p + m for p, m in zip(head.pi, moved, strict=True)])
        vector = self.bank.combined(
            [w * (t - s) + m * s for w, t, s, m in zip(weights, exact_slopes, slopes, moved, strict=True)],
            self.u,
        )
        found = {
            "loss": abs(change),
            "probability": sum((abs(m) for m in moved), arb(0)) / 2,
            "gradient": _length(vector) / self.tau,
        }
        if divergence:
            # log P_j - log pi_j
            logs = [errors[head.top] - e - z.log1p() for e in errors]
            one = sum((p * (t.expm1() - t) for p, t in zip(head.pi, logs, strict=True)), arb(0))
            two = sum((p * (t * t.exp() - t.expm1()) for p, t in zip(head.pi, logs, strict=True)), arb(0))
            found["kl"] = one.max(two)
        return found, (head.top, top_class(exact))

    def executed_errors(self, order: int, loss: float, gradient: Array) -> tuple[dict[str, arb], tuple[int, int]]:
        """|loss| and |gradient| between executed numbers and the exact ones."""
        exact, slopes = self.exact()
        head = self.head(exact)
        weights = [w * t for w, t in zip(self._weights(head.pi), slopes, strict=True)]
        vector = [c / self.tau for c in self.bank.combined(weights, self.u)]
        found = {
            "loss": abs(arb(loss) + head.pi[self.label].log()),
            "gradient": _length([arb(a) - b for a, b in zip(gradient.tolist(), vector, strict=True)]),
        }
        return found, (top_class(self.scores(order)), head.top)

    def _weights(self, probabilities: Balls) -> Balls:
        """P_j - 1_y; the target's is minus the sum of the others."""
        others = sum((p for j, p in enumerate(probabilities) if j != self.label), arb(0))
        return [-others if j == self.label else p for j, p in enumerate(probabilities)]


def _length(vector: Balls) -> arb:
    return sum((c * c for c in vector), arb(0)).sqrt()


def sides_of(bank: ExactBank, features: Array, label: int, tau: float) -> Sides:
    """A state at the precision of its bank."""
    temperature = arb(tau)
    u = [arb(x) / temperature for x in features.tolist()]
    length = sum((x * x for x in u), arb(0))
    squares = [k * k + 2 * k * a + length for k, a in zip(bank.k, bank.along(u), strict=True)]
    r = [square.sqrt() if square > 0 else arb(0) for square in squares]
    return Sides(
        bank=bank,
        label=label,
        tau=temperature,
        u=u,
        squares=squares,
        r=r,
        at_r=[surrogates(bank.nu, x) for x in r],
    )
