"""Rounding included: what was executed is never further from the exact objective than the execution bound says."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import Tensor

import suffice as sf
from benchmarks.ulps import IN_NUMPY, WAYS, worst_ulps
from suffice.contracts.centered import CENTERED
from suffice.contracts.registry import contract_named
from suffice.numerics.formats import Ulps, format_of
from suffice.numerics.rounding import gamma
from suffice.pairs.constants import valid_orders
from suffice.realizations.executed.by_sums import bounds_ahead, class_table, summed_bounds
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.realization import ExecutedRealized, Execution
from tests.support.executed import Exact, adversarial, exact_of

BUDGETS = sf.Budgets(loss=1e-3, gradient=1e-3)
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None, reason="needs a C++ compiler"
)


def violations(
    states: sf.States, exact: Exact, order: int, dtype: torch.dtype, *, compiled: bool = False, model: str = "proved"
) -> tuple[int, dict[str, Tensor]]:
    """How many bounds the executed numbers break, by the centred contract or by sums, and bound over actual error."""
    executed = execute(states, order, dtype, compiled=compiled)
    certificate = sf.certify(
        states, BUDGETS, sf.DebyePair(order=order), scope="execution", dtype=dtype, compiled=compiled, model=model
    )
    bounds = {name: getattr(certificate, name) for name in ("loss", "probability", "gradient")}
    wrong, ratios = broken_bounds(executed, exact, bounds, by_sums(states, executed, model))
    agrees = executed.scores.argmax(dim=1) == exact.pi[0].argmax(dim=1)
    return wrong + int((certificate.prediction & ~agrees).sum()), ratios


def broken_bounds(
    executed: Executed, exact: Exact, bounds: dict[str, Tensor], summed: dict[str, Tensor]
) -> tuple[int, dict[str, Tensor]]:
    """How many of both kinds of bounds the executed numbers break, and bound over actual error."""

    def off(ours: Tensor, truth: tuple[Tensor, Tensor]) -> Tensor:
        return (ours.double() - truth[0]) - truth[1]

    actual = {
        "loss": off(executed.loss[:, None], exact.loss)[:, 0].abs(),
        "probability": off(executed.log_probabilities.exp(), exact.pi).abs().sum(dim=1) / 2,
        "gradient": torch.linalg.vector_norm(off(executed.gradient, exact.gradient), dim=1),
    }
    wrong = 0
    ratios = {}
    for name, error in actual.items():
        # NaN breaks a finite bound
        for bound in (bounds[name], summed[name]):
            wrong += int((torch.isfinite(bound) & ~(error * (1 + 1e-12) <= bound)).sum())
        ratios[name] = (bounds[name] / error)[error > 0]
        ratios[f"{name} by sums"] = (summed[name] / error)[error > 0]
    return wrong, ratios


def by_sums(states: sf.States, executed: Executed, model: str = "proved") -> dict[str, Tensor]:
    """The bounds of 8.7 with one table for all states and with one for each: the smaller, so that both are judged."""
    found = {name: torch.full_like(states.temperature, torch.inf) for name in ("loss", "probability", "gradient")}
    everywhere = torch.arange(len(states))
    for rows in (everywhere, *everywhere.split(1)):
        some = states[rows]
        table = class_table(some, executed.order, executed.dtype, model, executed.inputs)
        if table is not None:
            bounds, ahead = summed_bounds(some, executed[rows], table), bounds_ahead(some, table, executed.dtype)
            for name, best in found.items():
                ours, worst = getattr(bounds, name), getattr(ahead, name)
                # no state is worse than the worst that there could be, but for the rounding of its own sums
                assert (torch.isinf(ours) | (ours <= worst * 1.2)).all()
                best[rows] = torch.minimum(best[rows], torch.minimum(ours, worst))
    return found


SHAPES = [(2, 6), (3, 16), (5, 33), (7, 64), (12, 128), (2, 7), (30, 40), (4, 512), (150, 8)]
RUNGS = [(order, dtype) for order in (2, 4, 6) for dtype in (torch.float32, torch.float64)]


def _attack(
    banks: int,
    queries: int,
    *,
    compiled: tuple[bool, ...] = (False,),
    rungs: list[tuple[int, torch.dtype]] = RUNGS,
    first: int = 0,
) -> tuple[int, int, int]:
    """Violations, comparisons and states over adversarial and random states on every rung."""
    wrong = compared = states_seen = summed = 0
    for seed in range(first, first + banks):
        shape = SHAPES[(seed // 7) % len(SHAPES)]
        states = adversarial(seed, queries, *shape)
        exact = exact_of(states)
        states_seen += len(states)
        for order, dtype in rungs:
            for fused in compiled if order in valid_orders(states.bank.nu) else ():
                broken, ratios = violations(states, exact, order, dtype, compiled=fused)
                wrong += broken
                compared += 4 * len(states)
                summed += int(torch.isfinite(ratios["probability by sums"]).sum())
    # the certificate by sums is there for most of them
    assert summed > 0.2 * compared
    return wrong, compared, states_seen


def test_extreme_temperatures() -> None:
    """Temperatures and features that over- and underflow, or their squares do, at a ratio that does not."""
    judged = 0
    in_float32 = (1e-40, 1e-38, 1e-36, 1e-25, 1e-15, 1e15, 1e25, 1e36, 1e38, 1e39, 1e45)
    in_float64 = (1e-200, 1e-170, 1e-160, 1e-100, 1e100, 1e160)
    for seed in range(7):
        base = adversarial(seed, 6, 5, 16)
        for dtype, scales in ((torch.float32, in_float32), (torch.float64, in_float64)):
            for scale in scales:
                states = sf.States(base.bank, base.features * scale, base.labels, base.temperature * scale)
                wrong, ratios = violations(states, exact_of(states), 4, dtype)
                assert wrong == 0
                judged += int(torch.isfinite(ratios["loss"]).sum())
    assert judged > 400


@pytest.mark.parametrize("k", [1e8, 1e9, 3e9, 1e12])
def test_weights_that_underflow_before_they_are_multiplied(k: float) -> None:
    g = torch.Generator().manual_seed(0)
    mu, f = torch.nn.functional.normalize(torch.randn(3, 6, generator=g, dtype=torch.float64), dim=1).split([2, 1])
    for gap in (75.0, 80.0, 83.0, 86.0):
        states = sf.States(sf.ClassBank(mu, [k, k * (1 + 1e-3)], [0.0, gap]), f, torch.tensor([1]), 1.0)
        assert violations(states, exact_of(states), 4, torch.float32)[0] == 0


def test_products_of_bfloat16_inputs() -> None:
    """On every machine: where there are no instructions for it, torch has the same arithmetic by others."""
    wrong = judged = 0
    for seed in range(28):
        states = adversarial(seed, 4, *SHAPES[(seed // 7) % len(SHAPES)])
        if states.bank.nu < 2:
            continue
        executed = execute(states, 2, torch.float32, inputs=torch.bfloat16)
        found = ExecutedRealized(states, executed, sf.DebyePair(order=executed.order)).bounds(CENTERED)
        bounds = {name: getattr(found, name) for name in ("loss", "probability", "gradient")}
        broken, ratios = broken_bounds(executed, exact_of(states), bounds, by_sums(states, executed))
        wrong += broken
        judged += int((ratios["gradient"] < 1e6).sum())
        plain = execute(states, 2, torch.float32)
        assert not torch.equal(plain.scores, executed.scores)
    assert wrong == 0
    assert judged > 50
    with pytest.raises(ValueError, match="bfloat16 beside float32"):
        execute(states, 2, torch.float64, inputs=torch.bfloat16)


def test_no_execution_breaks_its_bound() -> None:
    wrong, compared, _ = _attack(56, 4)
    assert compared > 4000
    assert wrong == 0


@needs_compiler
def test_the_bound_holds_for_compiled_code() -> None:
    wrong, compared, _ = _attack(14, 4, compiled=(True,), rungs=[(4, torch.float32), (4, torch.float64)])
    assert compared > 300
    assert wrong == 0


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_no_execution_breaks_its_bound_at_many_states(quarter: int) -> None:
    wrong, _, seen = _attack(500, 10, compiled=(False, True), first=500 * quarter)
    assert seen == 5000
    assert wrong == 0


def test_real_states_and_how_conservative() -> None:
    """Hundreds of times above the actual error in the median never below it."""
    batch = next(iter(sf.builtin_collection()))
    states = batch.states[0:6]
    exact = exact_of(states)
    for dtype in (torch.float32, torch.float64):
        wrong, ratios = violations(states, exact, 6, dtype)
        assert wrong == 0
        # in float64 the formula's own error counts, and its allowance is close
        assert (10 if dtype == torch.float32 else 1) < ratios["loss"].median() < 1e3
        assert (ratios["gradient by sums"] < 3 * ratios["gradient"]).all()
        likely, narrower = violations(states, exact, 6, dtype, model="probabilistic")
        assert likely == 0
        assert narrower["gradient"].median() < ratios["gradient"].median()


def test_what_leaves_the_model_is_never_certified() -> None:
    states = adversarial(9, 3, 7, 64)
    huge = sf.States(states.bank, states.features * torch.tensor([1.0, 1e25, 1.0])[:, None], states.labels, 0.1)
    found = sf.certify(huge, sf.Budgets(loss=1e30), sf.DebyePair(order=2), scope="execution", dtype=torch.float32)
    assert found.verdict.tolist()[1] == "inconclusive"
    assert torch.isinf(found.loss[1])
    assert torch.isinf(found.gradient[1])
    assert not found.prediction[1]
    assert found.headroom[1] == 0
    assert torch.isfinite(found.loss[[0, 2]]).all()
    assert found.status is not None
    assert found.status.tolist() == ["inside", "geometry", "inside"]
    assert "the geometry left the range of the executed dtype" in str(found.explain(1))
    cold = sf.States(states.bank, states.features * 1e-39, states.labels, 1e-39)
    found = sf.certify(cold, sf.Budgets(loss=1e30), sf.DebyePair(order=2), scope="execution", dtype=torch.float32)
    assert found.status is not None
    assert found.status.tolist() == ["temperature"] * 3
    assert not found.certified.any()
    assert sf.certify(cold, sf.Budgets(loss=1.0), sf.DebyePair(order=2)).status is None
    # the wider dtype has room
    assert sf.certify(cold, sf.Budgets(loss=1e-3), sf.DebyePair(order=4), scope="execution").certified.all()
    assert set(sf.adaptive(cold, sf.Budgets(loss=1e-3)).rung) <= {"debye2/float64", "debye4/float64"}


def test_float16_features_at_their_limit() -> None:
    """Refused as they are; converted they are exact, and the verdict is about the executed dtype."""
    base = adversarial(9, 2, 7, 64)
    largest = torch.full((2, 64), 65504.0, dtype=torch.float16)
    smallest = torch.full((2, 64), 2**-24, dtype=torch.float16)
    for half, temperature in ((largest, 1e5), (smallest, 1e-6)):
        with pytest.raises(TypeError, match="convert it first"):
            sf.States(base.bank, half, base.labels, temperature)
        features = half.float()
        states = sf.States(base.bank, features, base.labels, temperature)
        assert violations(states, exact_of(states), 4, torch.float32)[0] == 0
        mixed = sf.States(base.bank, features, base.labels, torch.full((2,), temperature, dtype=torch.float64))
        assert torch.equal(execute(mixed, 4, torch.float32).loss, execute(states, 4, torch.float32).loss)


def test_headroom_and_verdict_agree() -> None:
    for seed in range(12):
        states = adversarial(seed, 8, 7, 64)
        for dtype in (torch.float32, torch.float64):
            for contract in ("geometry", "conditioned", "centered"):
                found = sf.certify(states, BUDGETS, sf.DebyePair(order=4), contract, scope="execution", dtype=dtype)
                assert ((found.headroom >= 1) == found.certified).all()
                assert found.scope == "execution"
                assert found.execution == f"{str(dtype).removeprefix('torch.')}, eager, model proved"


def test_execution_is_never_tighter_than_analytic() -> None:
    for seed in range(6):
        states = adversarial(seed, 8, 7, 64)
        analytic = sf.certify(states, BUDGETS, sf.DebyePair(order=2))
        executed = sf.certify(states, BUDGETS, sf.DebyePair(order=2), scope="execution")
        # at another geometry: the two differ by rounding
        assert (executed.loss >= analytic.loss * (1 - 1e-9)).all()
        assert (executed.gradient >= analytic.gradient * (1 - 1e-9)).all()


def test_wrong_arguments() -> None:
    states = adversarial(9, 3, 7, 64)
    pair = sf.DebyePair(order=2)
    with pytest.raises(ValueError, match="Expected scope in"):
        sf.certify(states, BUDGETS, pair, scope="everything")
    with pytest.raises(ValueError, match="Expected dtype in"):
        sf.certify(states, BUDGETS, pair, scope="execution", dtype=torch.float16)
    with pytest.raises(ValueError, match="Expected model in"):
        sf.certify(states, BUDGETS, pair, scope="execution", model="hopeful")
    small = adversarial(9, 3, 3, 5)
    with pytest.raises(ValueError, match="Expected nu >= 2"):
        sf.certify(small, BUDGETS, pair, scope="execution", dtype=torch.float32)
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(ValueError, match="set_float32_matmul_precision"):
            sf.certify(states, BUDGETS, pair, scope="execution", dtype=torch.float32)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this torch has one setting for all products")
@pytest.mark.parametrize(
    ("place", "value"),
    [(place, value) for place in ("", "mkldnn", "mkldnn.matmul") for value in ("bf16", "tf32")]
    + [("cuda.matmul", "tf32")],
)
def test_products_of_lower_precision_are_refused(place: str, value: str) -> None:
    """Every setting that may turn a float32 product into another one; this machine's products need not change by it."""
    states = adversarial(9, 3, 7, 64)
    owner = torch.backends
    for name in filter(None, place.split(".")):
        owner = getattr(owner, name)
    # what another test set at an operation would hide what is set above it
    changed = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul, owner)
    before = [each.fp32_precision for each in changed]
    try:
        for each in changed:
            each.fp32_precision = "none"
        owner.fp32_precision = value
        with pytest.raises(ValueError, match=f"fp32_precision to be 'none' or 'ieee', .* but got '{value}'"):
            execute(states, 4, torch.float32)
        # float64 has no such products
        execute(states, 4, torch.float64)
        owner.fp32_precision = "ieee"
        execute(states, 4, torch.float32)
        # what is set at the operation decides, whatever is set above it
        torch.backends.mkldnn.matmul.fp32_precision = torch.backends.cuda.matmul.fp32_precision = "ieee"
        torch.backends.fp32_precision = "tf32"
        execute(states, 4, torch.float32)
    finally:
        torch.backends.fp32_precision = "none"
        for each, setting in zip(changed, before, strict=True):
            each.fp32_precision = setting


@needs_compiler
@pytest.mark.slow
def test_programs_of_every_order_and_dimension_are_compiled() -> None:
    """More of them than torch allows one function."""
    with torch._dynamo.config.patch(recompile_limit=1):
        for dim, order, dtype in ((6, 2, torch.float64), (6, 3, torch.float64), (7, 2, torch.float32)):
            execute(adversarial(1, 3, 3, dim), order, dtype, compiled=True)


@needs_compiler
def test_eager_code_never_passes_for_compiled_code() -> None:
    states = adversarial(9, 5, 7, 64)
    pair = sf.DebyePair(order=3)
    with torch.compiler.set_stance("force_eager"), pytest.raises(RuntimeError, match="torch ran the eager one instead"):
        sf.certify(states, BUDGETS, pair, scope="execution", compiled=True)
    try:
        with torch._dynamo.config.patch(recompile_limit=1):
            sf.certify(states, BUDGETS, pair, scope="execution", compiled=True)
            # one row is another program
            with pytest.raises(RuntimeError, match="its limit of recompilations"):
                sf.certify(states[:1], BUDGETS, pair, scope="execution", compiled=True)
    finally:
        torch.compiler.reset()
    assert "compiled" in sf.certify(states[:1], BUDGETS, pair, scope="execution", compiled=True).execution


def test_without_a_compiler_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="use compiled=False"):
        execute(adversarial(9, 3, 7, 64), 4, compiled=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", Ulps._fields)
def test_functions_keep_their_allowance(name: str, dtype: torch.dtype) -> None:
    worst = worst_ulps(name, dtype, 20_000, ("eager", "numpy") if dtype == IN_NUMPY else ("eager",))
    assert max(worst) <= getattr(format_of(dtype).ulps, name) / 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", Ulps._fields)
def test_functions_keep_their_allowance_at_a_million_points(name: str, dtype: torch.dtype) -> None:
    ways = WAYS if dtype == IN_NUMPY else WAYS[:2]
    assert max(worst_ulps(name, dtype, 1_050_000, ways)) <= getattr(format_of(dtype).ulps, name) / 2


def test_gamma() -> None:
    assert gamma(1, torch.float64) == pytest.approx(2**-53, rel=1e-9)
    assert gamma(1000, torch.float32, "probabilistic") < gamma(1000, torch.float32) / 5
    assert gamma(4, torch.float32, "probabilistic") == gamma(4, torch.float32)
    with pytest.raises(ValueError, match="use a wider dtype"):
        gamma(1e7, torch.float32)


@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
@pytest.mark.parametrize("seed", range(4))
def test_tolerance_beside_rounding(seed: int, contract: str) -> None:
    """B(b*) plus rounding keeps the budgets, a little more does not; never above the analytic b*."""
    states = adversarial(6 * seed + 5, 10, 7, 64)
    pair = sf.DebyePair(order=4)
    budgets = sf.Budgets(loss=1e-3, gradient=1e-2)
    analytic = sf.tolerance(states, budgets, pair, contract)
    for dtype in (torch.float32, torch.float64):
        found = sf.tolerance(states, budgets, pair, contract, scope="execution", dtype=dtype)
        assert found.scope == "execution"
        assert (found.b <= analytic.upper * (1 + 1e-9)).all()
        made = Execution(pair, dtype).at(states)
        family = made.unit_family(contract_named(contract))
        after = made.after
        assert after is not None
        bounded = torch.as_tensor(found.status == "bounded")
        assert bounded.any() or dtype == torch.float32
        # what is left of a budget is rounded down, by 2e-12 of it
        for b, inner in ((found.b, 0.0), (found.upper, 4e-12)):
            at = family.at(torch.where(bounded, b, 0.0))
            met = at.loss + after.loss <= 1e-3 * (1 - inner)
            met &= at.gradient + after.gradient <= 1e-2 * (1 - inner)
            assert (met[bounded] == (inner == 0)).all()
        assert (found.upper[bounded] <= found.b[bounded] * (1 + 1.1e-9)).all()
        zero = torch.as_tensor(found.status == "zero")
        certified = sf.certify(states, budgets, pair, contract, scope="execution", dtype=dtype).certified
        assert not (zero & certified).any()


def test_the_cascade_decides_as_its_last_tier() -> None:
    for seed in range(6):
        states = adversarial(seed, 12, 7, 64)
        for dtype in (torch.float32, torch.float64):
            tiers = sf.cascade(states, BUDGETS, sf.DebyePair(order=2), scope="execution", dtype=dtype)
            last = sf.certify(states, BUDGETS, sf.DebyePair(order=2), scope="execution", dtype=dtype)
            assert (tiers.verdict == last.verdict).all()
            assert (tiers.loss >= last.loss * (1 - 1e-12)).all()
            assert tiers.scope == "execution"


def test_autocast_changes_nothing() -> None:
    states = adversarial(9, 6, 7, 64)
    plain = execute(states, 4, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = execute(states, 4, torch.float32)
        analytic = sf.certify(states, BUDGETS, sf.DebyePair(order=2))
    assert torch.equal(inside.scores, plain.scores)
    assert torch.equal(inside.gradient, plain.gradient)
    assert torch.equal(analytic.gradient, sf.certify(states, BUDGETS, sf.DebyePair(order=2)).gradient)
