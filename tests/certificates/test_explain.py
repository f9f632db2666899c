"""An explanation ranks classes by all of the realization's own allowances, and says what the verdict hinges on."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.certificates.explain import Explanation, class_shares
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.realization import Execution
from tests.support.collections import make_states

PREDICTION = sf.Budgets(prediction=True)


def _apart() -> sf.States:
    """The formula is worst at class 0, whose radius and concentration are small; rounding at class 1, which is huge."""
    bank = sf.ClassBank(torch.eye(32, dtype=torch.float64)[:3], [1.0, 3000.0, 5.0])
    feature = torch.zeros(1, 32, dtype=torch.float64)
    feature[0, 0], feature[0, 3] = 1.0, 0.5
    return sf.States(bank, feature, [2], 0.3)


@pytest.mark.parametrize(("order", "first"), [(2, 0), (6, 1)])
@pytest.mark.parametrize("binding", ["prediction", "probability", "loss", "gradient"])
def test_classes_are_ranked_by_formula_and_rounding_together(order: int, first: int, binding: str) -> None:
    """In float32 the formula of order 2 is more than rounding, that of order 6 less: the ranking follows the sum."""
    realized = Execution(sf.DebyePair(order=order), torch.float32).at(_apart())
    formula, rounding = Analytic(sf.DebyePair(order=order)).at(_apart()).own().d, realized.beside().d
    assert (int(formula.argmax()), int(rounding.argmax())) == (0, 1)
    own = realized.own()
    assert int(own.d.argmax()) == first
    assert (own.d >= formula).all()
    assert (own.d >= rounding).all()
    pi, d, a = realized.head().log_probabilities[0].exp(), own.d[0], own.a[0]
    others = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    spread = pi * (1 - pi) * d
    weights = {
        "prediction": d,
        "probability": spread,
        "loss": others * pi * (d + d[2]),
        "gradient": 2 * spread + others * pi * (a + a[2]),
    }[binding]
    shares = class_shares(realized, binding)
    ranked = sorted(range(3), key=lambda j: -float(weights[j]))
    assert [each.index for each in shares] == ranked
    for each in shares:
        assert each.share == pytest.approx(float(weights[each.index] / weights.sum()), rel=1e-9)
        assert each.score_allowance == float(d[each.index])
        assert each.probability == pytest.approx(float(pi[each.index]))
    if binding in ("prediction", "loss"):
        assert ranked[0] == first


def test_the_certificate_explains_what_was_executed() -> None:
    """The classes are those of the execution, and the formula's part of the bound is named."""
    states, pair = _apart(), sf.DebyePair(order=6)
    executed = sf.certify(states, PREDICTION, pair, scope="execution", dtype=torch.float32).explain(0)
    analytic = sf.certify(states, PREDICTION, pair).explain(0)
    assert executed.classes[0].index == 1
    assert analytic.classes[0].index == 0
    assert executed.formula_bound is None
    loss = sf.certify(states, sf.Budgets(loss=1e-3), pair, scope="execution", dtype=torch.float32)
    found = loss.explain(0)
    assert found.formula_bound is not None
    assert 0 < found.formula_bound < 0.1 * found.bound
    assert found.bound == loss.loss.item()
    text = str(found)
    assert f"of that bound {found.formula_bound:.3g} is the formula's, the rest rounding's" in text
    assert "scope execution: float32, eager, model proved, rounding included" in text
    assert "not rounding" in str(analytic)


def test_five_classes_at_most_and_shares_of_all() -> None:
    realized = Analytic(sf.DebyePair()).at(make_states(1, 9, 16))
    shares = class_shares(realized, "probability")
    assert len(shares) == 5
    assert 0.5 < sum(each.share for each in shares) < 1
    assert [each.share for each in shares] == sorted((each.share for each in shares), reverse=True)
    few = class_shares(Analytic(sf.DebyePair()).at(make_states(1, 3, 16)), "gradient")
    assert sum(each.share for each in few) == pytest.approx(1)


def test_the_target_has_no_share_of_the_loss() -> None:
    states = make_states(1, 4, 16)
    shares = {each.index: each.share for each in class_shares(Analytic(sf.DebyePair()).at(states), "loss")}
    assert shares[int(states.labels)] == 0


def _words(**changes: object) -> str:
    usual: dict[str, object] = {
        "index": 0,
        "verdict": "inconclusive",
        "binding": "loss",
        "bound": 2e-3,
        "budget": 1e-3,
        "headroom": 0.5,
        "target": 0,
        "target_log_probability": -1.0,
        "prediction": 0,
        "temperature": 0.1,
        "feature_norm": 1.0,
        "largest_gap": 1.0,
        "classes": (),
        "contract": "centered",
        "scope": "analytic",
    }
    return Explanation(**{**usual, **changes}).what_would_change()  # type: ignore[arg-type]


def test_what_would_change() -> None:
    assert _words() == (
        "certification needs allowances 2 times smaller (a higher order), or a loss budget larger than 0.002"
    )
    assert _words(verdict="certified", headroom=3.0).endswith("grew more than 3 times")
    assert "tied" in _words(headroom=0.0, binding="prediction")
    assert _words(headroom=0.0, execution="float32").startswith("rounding alone is over the loss budget")
    assert _words(headroom=0.0, execution="float32", status="geometry").startswith("the geometry left the range")
