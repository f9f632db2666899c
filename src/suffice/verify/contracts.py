"""The three contracts in Arb, in sums of positive terms only (docs/theory, 6): balls stay narrow at 1e-300."""

from __future__ import annotations

from dataclasses import dataclass, field

from flint import arb

__all__ = ["Allowances", "Head", "contract_bounds", "curvature", "others_of", "smallest", "top_class"]

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
    # |h_j - m| <= H for the exact class gradients
    h: arb = field(default_factory=lambda: arb(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """d_j, a_j, bounds on |e_j - e_y| and |e_j - e_w|, and distances of class gradients from their mean.

    Where nothing is `matched` those bounds are sums of two d_j, and take the place of d in no sum.
    """

    d: Balls
    a: Balls
    to_target: Balls
    to_top: Balls
    distances: Balls
    matched: bool = True


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


def contract_bounds(
    name: str, head: Head, given: Allowances, scale: arb, margin_error: arb, *, divergence: bool = False
) -> dict[str, arb]:
    """Loss, probability, gradient, KL on request, and the share of the margin at a multiple of some allowances."""
    y, w, pi = head.target, head.top, head.pi
    classes = range(len(pi))
    d, a = [x * scale for x in given.d], [x * scale for x in given.a]
    below = [x - 2 * margin_error for x in head.below]
    margin = smallest([below[j] for j in classes if j != w])
    largest = _largest(d)
    use = _share(2 * largest, margin)
    if name == "geometry":
        tv = (largest / 2).tanh()
        gradient = (2 * head.h * tv + _largest(a) + a[y]) / head.tau
        found = {"loss": largest + d[y], "probability": tv, "gradient": gradient, "prediction": use}
        return {**found, "kl": _uniform_kl(d)} if divergence else found
    size = _size(pi, y, [x + d[y] for x in d])
    tv, upper = _total_variation(head, d)
    rest = head.others[y]
    ratio = sum((pi[j] * a[j] for j in classes if j != y), arb(0)) + rest * a[y]
    gradient = (2 * head.h * tv + ratio) / head.tau
    apart = [arb(0) if j == w else x + d[w] for j, x in enumerate(d)]
    kl = _uniform_kl(d).min(_kl(upper, d)).min(_kl(upper, apart)) if divergence else None
    if name == "conditioned":
        found = {"loss": size.log1p(), "probability": tv, "gradient": gradient, "prediction": use}
        return found if kl is None else {**found, "kl": kl}
    to_target, to_top = [x * scale for x in given.to_target], [x * scale for x in given.to_top]
    size = size.min(_size(pi, y, to_target))
    # 1 - pi_y/(1 + S) = (1 - pi_y + S)/(1 + S)
    away = (rest + size) / (1 + size)
    together = away * _largest([a[j] for j in classes if j != y])
    probability = tv
    for vector in (d, to_top) if given.matched else (d,):
        if vector is to_top:
            tv, upper = _total_variation(head, vector)
        probability = probability.min(tv)
        moved = sum((p * x.expm1() * rho for p, x, rho in zip(pi, vector, given.distances, strict=True)), arb(0))
        moved = moved / sum((p * (-x).exp() for p, x in zip(pi, vector, strict=True)), arb(0))
        each = sum((upper[j] * a[j] for j in classes if j != y), arb(0))
        gradient = gradient.min((moved + each.min(together) + away * a[y]) / head.tau)
        if kl is not None:
            kl = kl.min(_kl(upper, to_top))
    shares = [_share(to_top[j], below[j]) for j in classes if j != w]
    rest_of = {} if kl is None else {"kl": kl}
    return {
        **rest_of,
        "loss": size.log1p(),
        "probability": probability,
        "gradient": gradient,
        "prediction": use.min(_largest(shares)),
    }


def curvature(head: Head, g: Balls) -> arb:
    """c_K of B_K = c_K b^2 + O(b^3)."""
    w = head.top
    own = sum((p * x * x for p, x in zip(head.pi, g, strict=True)), arb(0)).min(_largest(g) ** 2)
    apart = sum(
        (p * (x + g[w]) * (x + g[w]) for j, (p, x) in enumerate(zip(head.pi, g, strict=True)) if j != w), arb(0)
    )
    return own.min(apart) / 2


def _uniform_kl(d: Balls) -> arb:
    """min(v^2/2, 2 v) for the largest v."""
    largest = _largest(d)
    return (largest * largest / 2).min(2 * largest)


def _kl(upper: Balls, vector: Balls) -> arb:
    """min of sum_j u_j v_j (2 expm1(v_j) + v_j)/6 and the uniform bound (docs/theory, 6.14)."""
    total = sum((u * v * (2 * v.expm1() + v) for u, v in zip(upper, vector, strict=True)), arb(0)) / 6
    return total.min(_uniform_kl(vector))


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
