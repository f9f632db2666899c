"""Sums over classes by their definitions, in long doubles, class by class."""

from __future__ import annotations

import numpy as np
import torch

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.centered_sums import centered_sums


def _case(seed: int) -> tuple[SoftmaxHead, Allowances]:
    g = torch.Generator().manual_seed(seed)

    def uniform() -> torch.Tensor:
        return torch.rand(5, 7, generator=g, dtype=torch.float64)

    log_pi = torch.log_softmax(4 * uniform(), dim=1)
    target = torch.randint(0, 7, (5,), generator=g)
    head = SoftmaxHead(
        log_probabilities=log_pi, target=target, gradient_scale=torch.ones(5).double(), distances=uniform()
    )
    d = uniform() * 1e-3
    matched = []
    for index in (target, head.top):
        movement = torch.minimum(uniform() * 2e-3, d + d.gather(1, index[:, None]))
        matched.append(movement.scatter(1, index[:, None], 0.0))
    return head, Allowances(d=d, a=uniform(), to_target=matched[0], to_top=matched[1], within=True)


def test_sums_are_their_definitions() -> None:
    for seed in range(10):
        head, unit = _case(seed)
        sums = centered_sums(head, unit)
        pi = head.pi.numpy().astype(np.longdouble)
        rho, d, a = (x.numpy().astype(np.longdouble) for x in (head.distances, unit.d, unit.a))
        for i, y in enumerate(head.target.tolist()):
            others = [j for j in range(7) if j != y]
            to_y = unit.to_target[i].numpy().astype(np.longdouble)

            def close(found: torch.Tensor, wanted: np.longdouble, i: int = i) -> None:
                assert abs(found[i].item() - float(wanted)) <= 1e-13 * abs(float(wanted)), (found[i], wanted)

            close(sums.total, pi[i].sum())
            close(sums.peak, pi[i].max())
            close(sums.mass, pi[i, others].sum())
            close(sums.a_y, a[i, y])
            close(sums.a_max, a[i, others].max())
            close(sums.ratio, (pi * a)[i, others].sum())
            close(sums.farthest, rho[i].max())
            for power in (1, 2, 3):
                close(sums.losses[power - 1], (pi[i] * to_y**power)[others].sum())
            close(sums.losses[3], to_y.max())
            close(sums.loss_slope(), (pi[i] * (d[i] + d[i, y]))[others].sum())
            for vector, v in zip(sums.vectors, (d[i], unit.to_top[i].numpy().astype(np.longdouble)), strict=True):
                rest = np.array([pi[i].sum() - pi[i, j] for j in range(7)])
                t = np.array([(pi[i] * (v + v[j])).sum() - pi[i, j] * 2 * v[j] for j in range(7)])
                m = np.array([(pi[i] * (v + v[j]) ** 2).sum() - pi[i, j] * 4 * v[j] ** 2 for j in range(7)])
                q = np.array([(pi[i] * (v + v[j]) ** 3).sum() - pi[i, j] * 8 * v[j] ** 3 for j in range(7)])
                kappa = t**2 - m / 2
                close(vector.largest, v.max())
                close(vector.mean, (pi[i] * v).sum())
                close(vector.square, (pi[i] * v**2).sum())
                close(vector.spread, (pi[i] * rest * v).sum())
                for power, name in enumerate(("first", "second", "third"), start=1):
                    close(getattr(vector, name), (pi[i] * rho[i] * v**power).sum())
                close(vector.ratio_first, (pi[i] * a[i] * t)[others].sum())
                size = float(v.max()) ** 2
                second = (pi[i] * a[i] * kappa)[others].sum()
                assert abs(vector.ratio_second[i].item() - float(second)) <= 1e-12 * size
                assert abs(vector.curvature[i].item() - float((pi[i] * abs(kappa)).sum())) <= 1e-12 * size
                twist = (pi[i] * (q / 6 - t * m + t**3)).sum()
                assert abs(vector.twist[i].item() - float(twist)) <= 1e-12 * size * float(v.max())
