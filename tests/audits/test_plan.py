"""A plan names everything that results depend on, and is read back as it was written."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch

import suffice as sf
from suffice.audits import plan as plans
from suffice.audits.plan import Plan, PlanError, pair_order, register_realization
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.realization import Execution


def test_plan() -> None:
    assert pair_order("debye4") == 4
    with pytest.raises(ValueError, match="Expected a pair from debye1 to debye6"):
        pair_order("bessel")
    with pytest.raises(ValueError, match="Expected"):
        Plan()
    with pytest.raises(TypeError, match="one loss budget for the whole audit"):
        sf.audit(None, sf.Budgets(loss=torch.ones(3, dtype=torch.float64)), out="x")


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a test registers is gone after it."""
    kept = dict(plans._BUILDERS)
    monkeypatch.setattr(plans, "_BUILDERS", kept)
    return kept


PLANS = [
    Plan(loss=1e-3),
    Plan(loss=1e-4),
    Plan(gradient=1e-3),
    Plan(probability=1e-3),
    Plan(loss=1e-3, prediction=True),
    Plan(loss=1e-3, order=3),
    Plan(loss=1e-3, contract="conditioned"),
    Plan(loss=1e-3, scope="execution"),
    Plan(loss=1e-3, scope="execution", dtype="float32"),
    Plan(loss=1e-3, scope="execution", model="probabilistic"),
    Plan(loss=1e-3, given=Analytic(sf.DebyePair())),
    Plan(loss=1e-3, given=Execution(sf.DebyePair())),
    Plan(loss=1e-3, given=Execution(sf.DebyePair(), torch.float32)),
    Plan(loss=1e-3, given=Execution(sf.DebyePair(), torch.float32, inputs=torch.bfloat16)),
    Plan(loss=1e-3, given=Execution(sf.DebyePair(), torch.float32, compiled=True)),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-12)),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-11)),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-12, truncated=True)),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-12, sf.RoundedLogits(torch.bfloat16))),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-12, sf.compose(sf.ProductIn(torch.float32)))),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-12, Analytic(sf.DebyePair(order=3)))),
    Plan(gradient=1e-3, given=sf.Filtered(2.0**-12, Execution(sf.DebyePair(), torch.float32))),
]


def test_other_questions_have_other_fingerprints() -> None:
    """Whatever the results depend on: collection, release and bad rows too."""
    prints = [plan.fingerprint("c", "1", False) for plan in PLANS]
    prints += [PLANS[0].fingerprint(*more) for more in (("d", "1", False), ("c", "2", False), ("c", "1", True))]
    for one, two in combinations(prints, 2):
        assert one != two
    assert PLANS[0].fingerprint("c", "1", False) == Plan(loss=1e-3).fingerprint("c", "1", False)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.words())
def test_a_plan_is_read_back(plan: Plan) -> None:
    again = Plan.from_record(plan.record())
    assert again == plan
    assert again.fingerprint("c", "1", False) == plan.fingerprint("c", "1", False)
    assert again.budgets == plan.budgets
    assert again.chosen is plan.chosen


def test_a_realization_of_ones_own_is_read_back(builders: dict[str, Any]) -> None:
    """By how it was registered to be built, and not without."""

    class Mine(Analytic):
        def record(self) -> dict[str, Any]:
            return {"name": "mine", "order": self.pair.order}  # type: ignore[attr-defined]

    plan = Plan(loss=1.0, given=Mine(sf.DebyePair(order=5)))
    assert plan.record()["realization"] == {"name": "mine", "order": 5}
    with pytest.raises(ValueError, match=r"but the audit is of 'mine'; call suffice\.register_realization"):
        Plan.from_record(plan.record())

    def build(record: dict[str, Any]) -> Mine:
        return Mine(sf.DebyePair(order=record["order"]))

    register_realization("mine", build)
    register_realization("mine", build)
    assert builders["mine"] is build
    assert Plan.from_record(plan.record()).given == plan.given
    with pytest.raises(ValueError, match="'mine' is taken"):
        register_realization("mine", lambda _: plan.realization)


def test_what_is_covered_is_said() -> None:
    """Rounding where it is, not covered where it is not, and never "proved" where it is likely."""
    assert "Not covered: rounding" in PLANS[0].covered
    executed, likely = PLANS[8].covered, PLANS[9].covered
    assert "formula and rounding" in executed
    assert "float32" in executed
    assert "NOT PROVED" not in executed
    assert "likely, NOT PROVED" in likely
    assert PLANS[12].covered.startswith("Covered: debye2, executed in float32")
    assert Plan(loss=1e-3, probability=0.5, gradient=2, prediction=True, order=4, contract="geometry").words() == (
        "does debye4 keep loss error within 0.001 and total variation within 0.5 and gradient error within 2 and the "
        "prediction unchanged, by the geometry contract?"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": 7},
        {"contract": "tight"},
        {"scope": "both"},
        {"dtype": "float16"},
        {"model": "hopeful"},
        {"loss": 0.0},
        {"loss": float("nan")},
    ],
    ids=str,
)
def test_wrong_plans_are_refused_when_they_are_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Plan(**{"loss": 1e-3, **wrong})


@pytest.mark.parametrize("name", ["debye0", "debye7", "debye22", "Debye2", " debye2", "debye2\n"])
def test_no_pair(name: str) -> None:
    with pytest.raises(ValueError, match="Expected a pair from debye1 to debye6"):
        pair_order(name)


def test_a_dimension_without_a_proof_is_named() -> None:
    with pytest.raises(PlanError, match=r"p >= 5, where debye3 is proved, but got some of p = 4; .* `judge` takes"):
        Plan(loss=1e-3, order=3).check_dimension(4)
    Plan(loss=1e-3).check_dimension(5)
    Plan(loss=1e-3, given=Analytic(sf.DebyePair())).check_dimension(2)
