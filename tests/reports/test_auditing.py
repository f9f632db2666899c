"""`sf.audit`: results, page, frames, pictures, and what a notebook shows of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest

import suffice as sf
from tests.support.collections import make_states, write

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-4)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> sf.Audit:
    folder = tmp_path_factory.mktemp("audit")
    collection = write(folder / "c", make_states(12, 6, 16, 0), make_states(9, 5, 64, 1))
    return sf.audit(collection, BUDGETS, out=folder / "a")


def test_the_page_is_written(audit: sf.Audit, tmp_path: Path) -> None:
    assert audit.page == audit.path / "report.html"
    assert "How accurate is accurate enough?" in audit.page.read_text()
    bare = sf.audit(audit.path.parent / "c", BUDGETS, out=tmp_path / "a", page=False)
    assert not bare.page.exists()
    assert '<td style="text-align:left">none</td>' in bare._repr_html_()


def test_results_as_frames(audit: sf.Audit) -> None:
    table = audit.results()
    assert table.num_rows == 21
    pandas, polars = audit.to_pandas(), audit.to_polars()
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert pandas["b"].tolist() == polars["b"].to_list() == table.column("b").to_pylist()
    assert (pandas["verdict"] == "certified").sum() == audit.summary.certified


def test_what_is_not_installed_is_named(audit: sf.Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.audits.run.find_spec", lambda _: None)
    with pytest.raises(ImportError, match="pip install pandas"):
        audit.to_pandas()
    with pytest.raises(ImportError, match="pip install polars"):
        audit.to_polars()


def test_an_audit_without_states(tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "nothing"):
        pass
    empty = sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "a")
    assert empty.results().num_rows == 0
    assert "no states" in repr(empty)
    assert "no states" in empty._repr_html_()


def test_a_plot_has_every_state(audit: sf.Audit) -> None:
    with mpl.rc_context({"backend": "agg"}):
        left, right = audit.plot()
        assert sum(len(line.get_xdata()) for line in left.lines) == audit.summary.b.count
        assert sum(patch.get_height() for patch in right.patches) == audit.summary.headroom.count
        from matplotlib import pyplot

        pyplot.close(left.figure)


def test_short_reprs(audit: sf.Audit) -> None:
    """Counts and quantiles in a line, whatever the number of states."""
    states = make_states(500, 6, 16)
    certificate = sf.certify(states, BUDGETS, sf.DebyePair())
    tolerance = sf.tolerance(states, BUDGETS, sf.DebyePair())
    collection = sf.open_collection(audit.path.parent / "c")
    for shown in (audit, certificate, tolerance, collection):
        line = repr(shown)
        assert "\n" not in line
        assert "tensor" not in line
        assert len(line) < 400
    assert f"{int(certificate.certified.sum()):,} certified" in repr(certificate)
    assert f"median {np.median(tolerance.b):.3g}" in repr(tolerance)
    assert "21 states" in repr(collection)
    assert f"{audit.summary.certified} certified" in repr(audit)


def test_a_notebook_shows_tables_of_words(audit: sf.Audit, tmp_path: Path) -> None:
    states = make_states(20, 6, 16)
    with sf.CollectionWriter(tmp_path / "c", "<script>alert(1)</script>") as writer:
        writer.add(states, source="s", dataset="d", run="r", step=0)
    executed = sf.certify(states, BUDGETS, sf.DebyePair(), scope="execution")
    shown = {
        "Audit of 21 states": audit,
        "Certificate of 20 states": executed,
        "Tolerance of 20 states": sf.tolerance(states, BUDGETS, sf.DebyePair()),
        "Collection": sf.open_collection(tmp_path / "c"),
    }
    for title, each in shown.items():
        text = each._repr_html_()  # type: ignore[attr-defined]
        assert title in text
        assert "<script>" not in text
    assert "float64" in executed._repr_html_()


def test_a_bar_where_it_is_asked_for(audit: sf.Audit, capsys: pytest.CaptureFixture[str]) -> None:
    again = sf.audit(audit.path.parent / "c", BUDGETS, out=audit.path, progress=True)
    assert again.summary == audit.summary
    assert "21/21" in capsys.readouterr().err
    sf.audit(audit.path.parent / "c", BUDGETS, out=audit.path)
    assert capsys.readouterr().err == ""


def test_a_notebook_gets_the_bar() -> None:
    code = (
        "import builtins\n"
        "class ZMQInteractiveShell: pass\n"
        "ZMQInteractiveShell.__module__ = 'ipykernel.zmqshell'\n"
        "builtins.get_ipython = lambda: ZMQInteractiveShell()\n"
        "from suffice.reports.terminal import in_notebook\n"
        "print(in_notebook())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_one_budget_for_all(tmp_path: Path) -> None:
    import torch

    with pytest.raises(TypeError, match="one loss budget"):
        sf.audit(None, sf.Budgets(loss=torch.ones(3, dtype=torch.float64)), out=tmp_path / "a")
