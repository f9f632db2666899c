"""`suffice ladder` as a person and as a program use it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from suffice import cli

run = CliRunner().invoke


def test_ladder_for_a_program() -> None:
    result = run(cli.app, ["ladder", "--dim", "128", "--kappa", "0,10,1e5", "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["nu"] == 63
    assert [row["order"] for row in report["rows"]] == [1, 2, 3, 4, 5, 6] * 3
    for row in report["rows"]:
        assert row["formula_error"] <= row["best"] <= row["closed_form"]
        assert row["nanoseconds"] > 0
        assert (row["paper_uniform"] is None) == (row["order"] != 2)
        if row["order"] == 2:
            assert row["formula_error"] <= row["paper_envelope"] <= row["paper_uniform"]


def test_ladder_for_a_person() -> None:
    result = run(cli.app, ["ladder", "--dim", "5", "--kappa", "3"])
    assert result.exit_code == 0
    for word in ("dimension 5", "closed form", "formula error", "ns/value", "Rounding is not"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ladder", "--dim", "4"], "Expected a finite dim >= 38/9"),
        (["ladder", "--dim", "nan"], "Expected a finite dim >= 38/9"),
        (["ladder", "--dim", "1e400"], "Expected a finite dim >= 38/9"),
        (["ladder", "--kappa", "1,two"], "but got 'two'"),
        (["ladder", "--kappa", "-1"], "but got '-1'"),
        (["ladder", "--kappa", "nan"], "but got 'nan'"),
    ],
)
def test_usage_errors_exit_with_two(arguments: list[str], message: str) -> None:
    result = run(cli.app, arguments)
    assert result.exit_code == 2
    assert message in result.output
