"""The application: its version, its commands in order, and help that imports next to nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from typer.testing import CliRunner

import suffice
from suffice import cli

run = CliRunner().invoke


def test_version() -> None:
    result = run(cli.app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"suffice {suffice.__version__}\n"


def test_commands_in_order() -> None:
    shown = run(cli.app, ["--help"])
    assert shown.exit_code == 0
    listed = re.findall(r"^  (\w+)  ", shown.stdout.split("Commands:")[1], flags=re.MULTILINE)
    assert listed == ["ladder", "prove", "audit", "judge", "verify", "inspect", "compare", "reproduce", "states"]


def test_usage_errors_exit_with_two() -> None:
    wrong = run(cli.app, ["nonsense"])
    assert wrong.exit_code == 2
    assert "No such command" in wrong.output
    assert run(cli.app, []).exit_code == 2


def test_help_waits_for_nothing() -> None:
    code = (
        "import sys; from suffice.cli import main; sys.argv = ['suffice', '--help']\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert done.code == 0\n"
        "print([name for name in ('torch', 'numpy', 'flint', 'matplotlib', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_completion_is_on() -> None:
    shown = run(cli.app, ["--help"]).stdout
    assert "--install-completion" in shown
    code = "from suffice.cli import main; main()"
    asked = {"_SUFFICE_COMPLETE": "complete_bash", "COMP_WORDS": "suffice aud", "COMP_CWORD": "1"}
    program = f"import sys; sys.argv = ['suffice']; {code}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, **asked}
    )
    assert done.stdout.split() == ["audit"], done.stderr


def test_the_compiler_is_not_imported_before_it_is_used() -> None:
    """It takes longer than torch itself."""
    code = "import sys, suffice as sf; sf.certify, sf.tolerance, sf.audit; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
