"""The public surface is what `__all__` says, sorted, and importing it does nothing else."""

from __future__ import annotations

import subprocess
import sys
import types

import suffice as sf


def test_all_is_sorted_and_complete() -> None:
    assert list(sf.__all__) == sorted(sf.__all__)
    public = {
        name
        for name, value in vars(sf).items()
        if not name.startswith("_") and (not isinstance(value, types.ModuleType) or name in sf.__all__)
    }
    assert public | {"__version__"} == set(sf.__all__)


def test_importing_changes_no_global_setting() -> None:
    code = (
        "import torch; before = (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed());"
        "import flint; bits = flint.ctx.prec; import suffice;"
        "assert (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed()) == before;"
        "assert flint.ctx.prec == bits; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "ok", done.stderr
