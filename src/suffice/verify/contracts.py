"""The three contracts in Arb, in sums of positive terms only (docs/theory, 6): balls stay narrow at 1e-300."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

__all__ = ["Allowances", "Head", "contract_bounds", "others_of", "smallest", "top_class"]

Balls = list[arb]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Probabilities, the mass of the other classes of each, and how far each score is below the top one's."""

    pi: Balls
    others: Balls
    below: Balls
    target: int
    top: int
    tau: arb


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """d_j, a_j, bounds on |e_j - e_y| and |e_j - e_w|, and distances of class gradients from their mean."""

    d: Balls
    a: Balls
    to_target: Balls
    to_top: Balls
    distances: Balls


def top_class(values: Balls) -> int:
    """The class of the largest midpoint."""
    return max(range(len(values)), key=lambda j: values[j].mid())


def smallest(values: Balls) -> arb:
    """The minimum, as a ball."""
    best = values[0]
    for value in values[1:]:
        best = best.min(value)
    return best


def _largest(values: Balls) -> arb:
    best = values[0]
    for value in values[1:]:
        best = best.max(value)
    return best


def others_of(values: Balls) -> Balls:
    """Sums over the other classes, for every class: from the left and from the right, nothing is subtracted."""
    left, right = [arb(0)], [arb(0)]
    for value in values[:-1]:
        left.append(left[-1] + value)
    for value in values[:0:-1]:
        right.append(right[-1] + value)
    return [a + b for a, b in zip(left, reversed(right), strict=True)]


def contract_bounds(name: str, head: Head, given: Allowances, scale: arb, margin_error: arb) -> dict[str, arb]:
    """Loss, probability, gradient and the share of the margin at a multiple of some allowances."""
    y, w, pi = head.target, head.top, head.pi
    classes = range(len(pi))
    d, a = [x * scale for x in given.d], [x * scale for x in given.a]
    below = [x - 2 * margin_error for x in head.below]
    margin = smallest([below[j] for j in classes if j != w])
    largest = _largest(d)
    use = _share(2 * largest, margin)
    if name == "geometry":
        tv = (largest / 2).tanh()
        gradient = (2 * tv + _largest(a) + a[y]) / head.tau
        return {"loss": largest + d[y], "probability": tv, "gradient": gradient, "prediction": use}
    size = _size(pi, y, [x + d[y] for x in d])
    tv, upper = _total_variation(head, d)
    rest = head.others[y]
    ratio = sum((pi[j] * a[j] for j in classes if j != y), arb(0)) + rest * a[y]
    gradient = (2 * tv + ratio) / head.tau
    if name == "conditioned":
        return {"loss": size.log1p(), "probability": tv, "gradient": gradient, "prediction": use}
    to_target, to_top = [x * scale for x in given.to_target], [x * scale for x in given.to_top]
    size = size.min(_size(pi, y, to_target))
    # 1 - pi_y/(1 + S) = (1 - pi_y + S)/(1 + S)
    away = (rest + size) / (1 + size)
    together = away * _largest([a[j] for j in classes if j != y])
    probability = tv
    for vector in (d, to_top):
        if vector is to_top:
            tv, upper = _total_variation(head, vector)
        probability = probability.min(tv)
        moved = sum((p * x.expm1() * rho for p, x, rho in zip(pi, vector, given.distances, strict=True)), arb(0))
        moved = moved / sum((p * (-x).exp() for p, x in zip(pi, vector, strict=True)), arb(0))
        each = sum((upper[j] * a[j] for j in classes if j != y), arb(0))
        gradient = gradient.min((moved + each.min(together) + away * a[y]) / head.tau)
    shares = [_share(to_top[j], below[j]) for j in classes if j != w]
    return {
        "loss": size.log1p(),
        "probability": probability,
        "gradient": gradient,
        "prediction": use.min(_largest(shares)),
    }


def _share(movement: arb, margin: arb) -> arb:
    """movement/margin, infinite at a tie."""
    return movement / margin if margin > 0 else arb.pos_inf()


def _size(pi: Balls, y: int, movement: Balls) -> arb:
    return sum((pi[i] * movement[i].expm1() for i in range(len(pi)) if i != y), arb(0))


def _total_variation(head: Head, d: Balls) -> tuple[arb, Balls]:
    """B_P of eq:probability-interval-main, and the upper ends u_j."""
    pi, others = head.pi, head.others
    grown, shrunk = [x.expm1() for x in d], [(-x).expm1() for x in d]
    growing = others_of([p * e for p, e in zip(pi, grown, strict=True)])
    falling = others_of([-p * e for p, e in zip(pi, shrunk, strict=True)])
    staying = others_of([p * (1 + e) for p, e in zip(pi, shrunk, strict=True)])
    half, upper = arb(0), []
    for j, p in enumerate(pi):
        plus = (1 + grown[j]) * growing[j] + grown[j] * others[j]
        minus = (1 + shrunk[j]) * falling[j] - shrunk[j] * others[j]
        left = p + (1 + shrunk[j]) * staying[j]
        half += (p * plus / (1 + plus)).max(p * minus / left)
        upper.append(p / left)
    return (_largest(d) / 2).tanh().min(half / 2), upper
