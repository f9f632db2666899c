"""Words and scales: their products are exact, nearest, and within range whatever the rows are."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import suffice as sf
from suffice.realizations.quantized_rows import StoredRows, quantize
from tests.support.moved_heads import gaussian_states


@pytest.mark.parametrize(("scheme", "group", "largest"), [("int8", None, 127), ("int8", 5, 127), ("int4", 5, 7)])
def test_integers_are_nearest_and_exact(scheme: str, group: int | None, largest: int) -> None:
    head = gaussian_states(1, dim=13).bank
    made = quantize(head, scheme, group)
    assert int(made.words.abs().max()) == largest
    rows, size = made.rows(slice(None)), group or 13
    scales = made.scales.repeat_interleave(size, dim=1)[:, :13]
    assert ((rows - head.weight).abs() <= 0.5000001 * scales).all()
    for word, scale, value in zip(made.words[3].tolist(), scales[3].tolist(), rows[3].tolist(), strict=True):
        assert Fraction(word) * Fraction(scale) == Fraction(value)
    assert torch.equal(made.rows(torch.tensor([4, 2])), rows[[4, 2]])
    assert (made.num_classes, made.dim) == (12, 13)


def test_fp8_is_within_its_roundoff() -> None:
    head = gaussian_states(2, dim=64).bank
    made = quantize(head, "fp8")
    rows = made.rows(slice(None))
    assert made.words.dtype == torch.float8_e4m3fn
    normal = rows.abs() > 2.0**-6 * made.scales
    assert ((rows - head.weight).abs() <= 2.0**-4 * 1.0000001 * head.weight.abs())[normal].all()
    assert torch.isfinite(rows).all()


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-310, 1e-300, 1e-38, 1e38, 1e300])
@pytest.mark.parametrize("scheme", ["int8", "fp8"])
def test_rows_of_any_size_are_finite(size: float, scheme: str) -> None:
    head = sf.LinearHead(torch.tensor([[1.0, -0.5], [0.25, 1.0]], dtype=torch.float64) * size)
    rows = quantize(head, scheme).rows(slice(None))
    assert torch.isfinite(rows).all()
    assert ((rows - head.weight).abs() <= 0.02 * size + 3e-308).all()


def test_stored_rows_are_what_they_are() -> None:
    values = torch.randn(5, 3, dtype=torch.bfloat16)
    made = StoredRows(values)
    assert torch.equal(made.rows(slice(1, 3)), values[1:3].double())
    assert (made.num_classes, made.dim) == (5, 3)


@pytest.mark.parametrize("group", [0, -4, 2.5, True])
def test_a_bad_group(group: object) -> None:
    with pytest.raises(ValueError, match="Expected group to be a positive integer or None"):
        quantize(gaussian_states(1).bank, "int8", group)  # type: ignore[arg-type]
