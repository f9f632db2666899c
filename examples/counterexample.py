"""The paper's counterexample to ranking by primitive error (app:ranking): the larger error does less harm.

Run it with `python examples/counterexample.py`.
"""

from __future__ import annotations

import torch

import suffice as sf
from suffice.contracts import loss_change
from suffice.pairs.perturbed import PerturbedPair, rounded_hinge


def main() -> None:
    """Two perturbed potentials at one state: A with ratio error eps, B with 2 eps."""
    e1 = torch.eye(8, dtype=torch.float64)[:1]
    bank = sf.ClassBank(e1.repeat(2, 1), [1.0, 2.0])
    state = sf.States(bank, e1, [0], temperature=1.0)
    epsilon, budget = 1e-4, 1e-5
    # the highest order stands for the exact potential in the sum; the shifts are those of the bumps alone
    exact = sf.DebyePair(order=6)
    geometry = state.geometry()
    log_p = sf.reference(state).probabilities.mid.log()
    print(f"p = 8, radii {geometry.radii[0].tolist()}, loss budget {budget:g}")
    for name, knee, amount in (("A", 3.0, epsilon), ("B", 1.0, 2 * epsilon)):
        bump = rounded_hinge(knee)
        pair = PerturbedPair(base=exact, bump=bump, amount=amount)
        assert isinstance(pair, sf.Pair)
        shifts = amount * bump.difference(bank.nu, geometry.radii, geometry.concentrations, geometry.squared_gaps)
        change = loss_change(log_p, shifts, state.labels).abs().item()
        verdict = "meets" if change <= budget else "breaks"
        print(
            f"{name}: ratio error {amount:g}, score shifts {shifts[0].tolist()}, "
            f"loss error {change:.5g}: {verdict} the budget"
        )


if __name__ == "__main__":
    main()
