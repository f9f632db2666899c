"""Columns held against each other, for every row: cheap, and in any scope."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from suffice.verify.columns import TIERS, Judged, Said, is_enclosed, without_label
from suffice.verify.ladder import ORDERS, valid_orders
from suffice.verify.plan import Plan
from suffice.verify.report import shown
from suffice.verify.stored import Array

__all__ = ["FORMATS", "RUNGS", "cross_checked", "result_columns"]

# docs/format.md: orders and dtypes of the precision ladder
RUNGS = {
    "debye2/float32/bfloat16": 2,
    **{f"debye{order}/{dtype}": order for dtype in ("float32", "float64") for order in (2, 4, 6)},
}
# docs/format.md: formats in which a linear head may run
FORMATS = ("int4", "fp8", "int8", "bfloat16", "float16", "float32")
_VERDICTS = ("certified", "violated", "inconclusive")
_STATUS = ("inside", "temperature", "geometry", "scores", "probabilities", "gradient")


def result_columns(plan: Plan) -> dict[str, pa.DataType]:
    """The columns of a result file beside those that describe the state, with their types."""
    numbers = [f"{name}_{end}" for name in plan.closed for end in ("bound", "low")]
    numbers += ["headroom", "b", "b_upper", "b_conditioned", "b_first_order", "target_probability"]
    kinds = {name: pa.float64() for name in numbers}
    kinds |= {name: pa.string() for name in ("verdict", "status", "binding", "tier")}
    kinds |= {"prediction_certified": pa.bool_(), "prediction_violated": pa.bool_()}
    if not plan.head:
        for order in ORDERS:
            kinds |= {f"headroom_{order}": pa.float64(), f"certified_{order}": pa.bool_()}
        kinds["cheapest_order"] = pa.int64()
    else:
        kinds |= {f"verdict {name}": pa.string() for name in FORMATS}
    if plan.executed:
        kinds |= {"execution_status": pa.string(), "loss": pa.float64(), "gradient": pa.binary()}
        kinds |= {f"{kind}_bound {name}": pa.float64() for name in RUNGS for kind in ("loss", "gradient")}
    return kinds


def cross_checked(plan: Plan, nu: float, said: Said) -> Iterator[Judged]:
    """Every relation between columns that must hold in every row."""
    certified = said["verdict"] == "certified"
    yield _verdict(plan, said)
    for name in plan.closed:
        bound = said[f"{name}_bound"]
        most = 1 + 1e-6 if name == "probability" else np.inf
        # an infinite bound promises nothing; the verdict must say so
        yield _plain(f"{name}_bound", ~((bound >= 0) & ((bound <= most) | np.isinf(bound))), "a number >= 0")
    headroom, tier = said["headroom"], said["tier"]
    by_contract = np.isin(tier.astype(str), TIERS)
    strict = headroom > 1 if plan.prediction else headroom >= 1
    agrees = np.where(by_contract, headroom >= 1, ~strict & (headroom >= 0))
    yield _plain("headroom", ~agrees, lambda i: "at least 1" if by_contract[i] else "less than 1", "to fit the tier")
    yield from _tolerance(plan, said)
    yield from _enclosures(plan, said, by_contract)
    if not plan.head:
        yield from _orders(plan, nu, said, certified)
    first, paper, pi = said["b_first_order"], said["b_conditioned"], said["target_probability"]
    yield _plain("b_first_order", ~(first >= 0), "a number >= 0")
    yield _plain("b_conditioned", ~((paper >= 0) & np.isfinite(paper)), "a number >= 0")
    # of a head state without a label
    bare = without_label(plan, said)
    fits = np.where(bare, np.isnan(pi), (pi >= 0) & (pi <= 1))
    yield _plain("target_probability", ~fits, lambda i: "NaN" if bare[i] else "a number in [0, 1]")
    if plan.head:
        for name in ("loss", "gradient"):
            endless = np.isinf(said[f"{name}_bound"])
            yield _plain(f"{name}_bound", bare & ~endless, "inf", "there is no label")
        for name in FORMATS:
            word = said[f"verdict {name}"]
            yield _plain(f"verdict {name}", ~np.isin(word.astype(str), _VERDICTS), " or ".join(_VERDICTS))
    if plan.executed:
        yield from _executed(plan, said)


def _plain(column: str, wrong: Array, found: object, words: str = "") -> Judged:
    nowhere = np.zeros(len(wrong), dtype=bool)
    text = found if callable(found) else lambda _: str(found)
    return Judged(column=column, wrong=wrong, open=nowhere, found=text, words=words)


def _verdict(plan: Plan, said: Said) -> Judged:
    """Certified where every bound is at most its budget, and the prediction certified if that is asked.

    Violated where the lower end of an error is above its budget, or the prediction is violated if that is asked.
    """
    met, clear = np.ones(len(said["verdict"]), dtype=bool), np.ones(len(said["verdict"]), dtype=bool)
    over = said["prediction_violated"] if plan.prediction else np.zeros(len(met), dtype=bool)
    for name, limit in plan.budgets.items():
        bound = said[f"{name}_bound"]
        met &= bound <= limit
        over = over | (said[f"{name}_low"] > limit)
        # a quotient of two neighbouring numbers may round to one
        with np.errstate(over="ignore"):
            clear &= np.abs(bound / limit - 1) > 1e-15
    if plan.prediction:
        met &= said["prediction_certified"]
    right = np.where(met, "certified", np.where(over, "violated", "inconclusive"))
    known = np.isin(said["verdict"].astype(str), _VERDICTS)
    wrong = ((said["verdict"] != right) & (clear | ~met)) | ~known

    def found(i: int) -> str:
        parts = [f"{name} bound {shown(said[f'{name}_bound'][i])} of {limit!r}" for name, limit in plan.budgets.items()]
        parts += [f"prediction certified: {said['prediction_certified'][i]}"] if plan.prediction else []
        return f"{right[i]}: {', '.join(parts)}"

    return _plain("verdict", wrong, found)


def _enclosures(plan: Plan, said: Said, by_contract: Array) -> Iterator[Judged]:
    """The tier is a contract's where certified, an enclosure's where certified or violated; others have no low ends."""
    tier, verdict = said["tier"].astype(str), said["verdict"]
    enclosed = is_enclosed(plan, said)
    wrong = np.where(verdict == "inconclusive", tier != "none", ~enclosed & ~(by_contract & (verdict == "certified")))
    # the head as stored is its own truth
    wrong = wrong | (enclosed & plan.head)
    yield _plain("tier", wrong, "a tier where certified, an enclosure where violated, else none")
    for name in plan.closed:
        low, bound = said[f"{name}_low"], said[f"{name}_bound"]
        fits = np.where(enclosed, (low >= 0) & (low <= bound), low == 0)
        yield _plain(f"{name}_low", ~fits, "at most the bound where an enclosure decided, else 0")
    claim = said["prediction_violated"]
    fits = ~claim | (enclosed & plan.prediction & ~said["prediction_certified"])
    yield _plain("prediction_violated", ~fits, "False, unless an enclosure decided and the prediction is asked for")


def _tolerance(plan: Plan, said: Said) -> Iterator[Judged]:
    b, upper, status = said["b"], said["b_upper"], said["status"]
    yield _plain("b", ~((b >= 0) & np.isfinite(b)), "a number >= 0")
    with np.errstate(invalid="ignore"):
        close = (b < upper) & (upper <= b * (1 + 1.01e-9))
    right = np.where(np.isinf(upper), "unbounded", np.where(upper == 0, "zero", "bounded"))
    apart = np.where(right == "bounded", ~close, np.where(right == "zero", b != 0, ~(upper > 0)))
    yield _plain("b_upper", apart, lambda i: f"b = {shown(b[i])}", "just above b, by at most 1e-9 of it")
    yield _plain("status", status != right, lambda i: str(right[i]), "from b and b_upper")
    names = np.isin(said["binding"].astype(str), plan.names)
    yield _plain("binding", np.where(right == "unbounded", said["binding"] != "none", ~names), "a budget of the plan")


def _orders(plan: Plan, nu: float, said: Said, certified: Array) -> Iterator[Judged]:
    valid = valid_orders(nu)
    cheapest = np.zeros(len(certified), dtype=np.int64)
    for order in ORDERS:
        headroom, claim = said[f"headroom_{order}"], said[f"certified_{order}"]
        if order not in valid:
            yield _plain(f"headroom_{order}", ~np.isnan(headroom), "NaN", "the order is not valid there")
            yield _plain(f"certified_{order}", claim, "False", "the order is not valid there")
            continue
        yield _plain(f"headroom_{order}", ~(headroom >= 0), "a number >= 0")
        if order == plan.order:
            yield _plain(f"certified_{order}", claim != certified, lambda i: str(certified[i]), "as the verdict")
        elif plan.contract != "geometry":
            met = headroom > 1 if plan.prediction else headroom >= 1
            # what the conditioned contract certifies, the centred one does as well, and an enclosure even more
            wrong = (met & ~claim) | ((plan.contract == "conditioned") & plan.executed & (claim != met))
            yield _plain(f"certified_{order}", wrong, lambda i, met=met: str(met[i]), "as its headroom says")
        cheapest = np.where((cheapest == 0) & claim, order, cheapest)
    yield _plain("cheapest_order", said["cheapest_order"] != cheapest, lambda i: str(cheapest[i]), "of certified_n")


def _executed(plan: Plan, said: Said) -> Iterator[Judged]:
    status = said["execution_status"].astype(str)
    inside = status == "inside"
    yield _plain("execution_status", ~np.isin(status, _STATUS), "inside, or what left the model")
    for name in plan.closed:
        bound = said[f"{name}_bound"]
        left = ~inside & ~is_enclosed(plan, said)
        yield _plain(f"{name}_bound", left & ~np.isinf(bound), "inf", "the execution left its model")
    yield _plain("loss", inside & ~np.isfinite(said["loss"]), "a number")
    for name in RUNGS:
        for kind in ("loss", "gradient"):
            column = f"{kind}_bound {name}"
            wrong = ~(said[column] >= 0)
            if name == f"debye{plan.order}/{plan.dtype}":
                # a bound for every order of summation, where the row has one for this output
                wrong |= ~(said[column] <= said[f"{kind}_bound"]) & ~is_enclosed(plan, said)
            yield _plain(column, wrong, "a number >= 0, and at most the row's own bound on its own rung")
