"""The paper's counterexample to ranking by primitive error (app:ranking): the larger error does less harm.

Run it with `python examples/counterexample.py`.
"""

from __future__ import annotations

from suffice.experiments.ranking import rank_by_consequence


def main() -> None:
    """Two perturbed potentials at one state: A with ratio error eps, B with 2 eps."""
    print("p = 8, two classes, radii 2 and 3, loss budget 1e-5")
    for each in rank_by_consequence():
        print(
            f"{each.name}: ratio error {each.ratio_error:g}, score shifts {each.score_errors}, "
            f"loss error {each.loss_error:.5g}: {'meets' if each.kept else 'breaks'} the budget"
        )


if __name__ == "__main__":
    main()
