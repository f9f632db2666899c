"""One row a dtype: rows agree with torch, and float16 is added by a row alone and keeps its bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.audits.plan import Plan
from suffice.contracts.conditioned import CONDITIONED
from suffice.numerics.formats import (
    FORMATS,
    Format,
    Ulps,
    format_named,
    format_of,
    formats_of_rungs,
    name_of,
    register_format,
)
from suffice.numerics.rounding import gamma, ulps
from suffice.realizations.executed.by_sums import class_table, summed_bounds
from suffice.realizations.executed.program import Executed, executable, execute
from suffice.realizations.executed.realization import ExecutedRealized
from tests.reference.oracle import Numbers, states_of, verdict

HALF = Format(
    dtype=torch.float16,
    # 0.5001 at most, exhaustively: computed in float32 and rounded; the allowance is twice that
    ulps=Ulps(exp=1.1, log1p=1.1, hypot=1.1),
    most_blocks=16,
    smallest_nu=2.0,
    # of 2^16: k + |f|/tau + nu below 32
    largest_exponent=10,
)


@pytest.fixture
def half() -> Iterator[Format]:
    """The row of float16, while a test runs."""
    register_format(HALF)
    yield HALF
    del FORMATS[torch.float16]


@pytest.mark.parametrize("row", [*FORMATS.values(), HALF], ids=lambda row: row.name)
def test_rows_are_about_their_dtype(row: Format) -> None:
    """u, eta and the bits of the significand, by arithmetic in the dtype itself."""
    one = torch.ones((), dtype=row.dtype)
    following = torch.nextafter(one, 2 * one).double().item()
    assert following - 1 == 2 * row.unit_roundoff == 2.0 ** (1 - row.significand_bits)
    # of a normal number half is exact; below the smallest one digits are lost
    least, after = torch.tensor([row.smallest_normal, row.smallest_normal], dtype=row.dtype), row.unit_roundoff
    odd = least * (1 + 2 * after)
    assert (odd * 2 / 2 == odd).all()
    assert (odd / 2 * 2 != odd).all()
    assert row.name == str(row.dtype).removeprefix("torch.") == name_of(row.dtype)
    assert 2.0**row.largest_exponent < torch.finfo(row.dtype).max
    assert row.has_small_squares == (row.smallest_normal <= 1e-300)


def test_the_table() -> None:
    assert [row.name for row in FORMATS.values()] == ["float32", "float64"]
    assert {dtype: row.dtype for dtype, row in FORMATS.items()} == {dtype: dtype for dtype in FORMATS}
    assert format_of(torch.float32) is format_named("float32")
    assert [row.significand_bits for row in FORMATS.values()] == [24, 53]
    assert [row.dtype for row in formats_of_rungs()] == [torch.float32, torch.float64]
    for name in Ulps._fields:
        assert ulps(name, torch.float32) == 2 * getattr(format_of(torch.float32).ulps, name) * 2.0**-24


def test_what_has_no_row() -> None:
    with pytest.raises(ValueError, match=r"Expected dtype in \['float32', 'float64'\], but got float16"):
        format_of(torch.float16)
    with pytest.raises(ValueError, match=r"Expected dtype in \['float32', 'float64'\], but got 'bfloat16'"):
        format_named("bfloat16")
    with pytest.raises(ValueError, match="Expected dtype in"):
        execute(_states(0), 2, torch.float16)
    with pytest.raises(ValueError, match=r"Expected dtype in .* but got 'float16'"):
        Plan(loss=1.0, dtype="float16")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": torch.float32}, "float32 has one"),
        ({"dtype": torch.int32}, "Expected a floating dtype"),
        ({"ulps": Ulps(exp=0.4, log1p=1.0, hypot=1.0)}, "half an ulp"),
        ({"most_blocks": 0}, "one block"),
        ({"smallest_nu": -1.0}, "nu >= 0"),
        ({"largest_exponent": 16}, r"2\^16 within the range of float16"),
    ],
)
def test_rows_that_are_refused(changes: dict[str, object], message: str) -> None:
    before = dict(FORMATS)
    with pytest.raises(ValueError, match=message):
        register_format(dataclasses.replace(HALF, **changes))  # type: ignore[arg-type]
    assert before == FORMATS


def _all_halves() -> Tensor:
    """Every finite float16."""
    values = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    assert len(values) == 65_536
    return values[torch.isfinite(values)]


def _worst_ulps(found: Tensor, exact: np.ndarray) -> float:
    """|found - exact| in ulps of float16; float64's functions are exact beside these."""
    exponents = np.floor(np.log2(np.abs(exact), where=exact != 0, out=np.full_like(exact, -np.inf)))
    error = np.abs(found.double().numpy() - exact) / 2.0 ** (np.maximum(exponents, -14) - 10)
    return float(error[torch.isfinite(found).numpy()].max())


def test_functions_of_float16_keep_their_allowance_everywhere() -> None:
    """All 65,536 numbers; hypot with every nu = p/2 - 1 up to 128."""
    x = _all_halves()
    low = x[x <= 11]
    assert _worst_ulps(low.exp(), np.exp(low.double().numpy())) <= HALF.ulps.exp / 2
    above = x[x > -1]
    assert _worst_ulps(above.log1p(), np.log1p(above.double().numpy())) <= HALF.ulps.log1p / 2
    radii = x[x >= 0]
    wide = radii.double().numpy()
    worst = max(
        _worst_ulps(torch.hypot(radii, torch.full_like(radii, nu)), np.hypot(wide, nu))
        for nu in torch.arange(2.0, 128.0, 0.5).tolist()
    )
    # a function that is rounded once is off by half an ulp somewhere
    assert 0.49 < worst <= HALF.ulps.hypot / 2


def _states(seed: int, queries: int = 10) -> sf.States:
    """Random states at p = 16 whose numbers are in range of float16: four classes, some saturated, some nearly tied."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    mu = torch.nn.functional.normalize(torch.randn(4, 16, generator=g, dtype=torch.float64), dim=1)
    if seed % 3 == 1:
        mu[1] = torch.nn.functional.normalize(mu[0] + 1e-3 * mu[1], dim=0)
    k = 10 ** (2.2 * uniform(4) - 0.5)
    f = torch.nn.functional.normalize(torch.randn(queries, 16, generator=g, dtype=torch.float64), dim=1)
    labels = torch.randint(0, 4, (queries,), generator=g)
    if seed % 3 == 2:
        f = torch.nn.functional.normalize(f + 2 * mu[labels], dim=1)
    biases = torch.randn(4, generator=g, dtype=torch.float64) * (seed % 4)
    return sf.States(sf.ClassBank(mu, k, biases), f, labels, 10 ** (1.3 * uniform(queries) - 1))


def _verdicts(states: sf.States, executed: Executed, bounds: dict[str, Tensor]) -> list[tuple[str, float, float]]:
    """Of each bound that says something: where the executed number is, by Arb, the bound and the actual error."""
    found = []
    probabilities = executed.log_probabilities.double().exp()
    for i, state in enumerate(states_of(states)):
        numbers = Numbers(
            executed.loss[i].item(),
            probabilities[i].tolist(),
            executed.gradient[i].tolist(),
            int(executed.scores[i].argmax()),
        )
        errors = state.distances(numbers)
        for name, bound in bounds.items():
            error = getattr(errors, name)
            found.append((verdict(error, bound[i].item()), bound[i].item(), float(error.mid())))
    return found


def _bounds_in(states: sf.States, executed: Executed) -> dict[str, Tensor]:
    found = ExecutedRealized(states, executed, sf.DebyePair(order=executed.order))
    assert (found.status == "inside").all()
    bounds = found.bounds(CONDITIONED)
    return {name: getattr(bounds, name) for name in ("loss", "probability", "gradient")}


def _as(executed: Executed, dtype: torch.dtype) -> Executed:
    """The same numbers, said to have been executed in another dtype."""
    fields = {field.name: getattr(executed, field.name) for field in dataclasses.fields(executed)}
    tensors = {name: value.to(dtype) for name, value in fields.items() if isinstance(value, Tensor)}
    return dataclasses.replace(executed, inputs=dtype, **tensors)


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("order", [2, 4])
def test_float16_is_one_row_away(order: int) -> None:
    """Three hundred states: no executed number is over its bound, and the bounds of float32 would not hold for it."""
    judged, as_float32 = [], []
    for seed in range(30):
        states = _states(seed)
        executed = execute(states, order, torch.float16)
        assert executed.dtype == executed.gradient.dtype == torch.float16
        judged += _verdicts(states, executed, _bounds_in(states, executed))
        as_float32 += _verdicts(states, executed, _bounds_in(states, _as(executed, torch.float32)))
    assert len(judged) == 900
    assert all(where == "within" for where, _, _ in judged)
    # the bounds say something: finite, and of losses about eighty times the error in the median
    assert all(bound < float("inf") for _, bound, _ in judged)
    assert np.median([bound / error for _, bound, error in judged[::3]]) < 200
    assert sum(where == "above" for where, _, _ in as_float32) > 50


def test_float16_by_sums_says_nothing_or_the_truth(half: Format) -> None:
    """Underflow is absolute, and its smallest normal number is large: there is no table where its terms are."""
    g = torch.Generator().manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(2, 16, generator=g, dtype=torch.float64), dim=1)
    f = torch.nn.functional.normalize(torch.randn(4, 16, generator=g, dtype=torch.float64), dim=1)
    states = sf.States(sf.ClassBank(mu, [3.0, 4.0]), f, [0, 1, 0, 1], 1.0)
    executed = execute(states, 2, half.dtype)
    table = class_table(states, 2, half.dtype)
    if table is not None:
        bounds = summed_bounds(states, executed, table)
        found = _verdicts(states, executed, {"loss": bounds.loss, "gradient": bounds.gradient})
        assert all(where == "within" for where, _, _ in found)
    # past the row's range there never is one
    far = sf.States(sf.ClassBank(mu, [30.0, 40.0]), f, [0, 1, 0, 1], 1.0)
    assert class_table(far, 2, half.dtype) is None


def test_what_a_row_decides(half: Format) -> None:
    """Names, the smallest nu, inputs, and an honest refusal where 0.1/u roundings are not enough."""
    assert Plan(loss=1.0, scope="execution", dtype="float16").realization.dtype == torch.float16  # type: ignore[attr-defined]
    assert format_named("float16") is half
    assert not executable(2, torch.float16, 1.5)
    assert executable(2, torch.float16, 2.0)
    assert executable(2, torch.float64, 1.5)
    small = sf.States(sf.ClassBank(torch.eye(5)[:2], [1.0, 1.0]), torch.eye(5)[:1], [0], 1.0)
    with pytest.raises(ValueError, match=r"Expected nu >= 2.0 in float16, but got 1.5; use float64"):
        execute(small, 2, torch.float16)
    with pytest.raises(ValueError, match=r"Expected inputs of dtype torch.float16, or bfloat16 beside float32"):
        execute(_states(0), 2, torch.float16, inputs=torch.bfloat16)
    with pytest.raises(ValueError, match="use a wider dtype"):
        gamma(205, torch.float16)
    assert gamma(204, torch.float16) > 0.1
    assert half not in formats_of_rungs()
