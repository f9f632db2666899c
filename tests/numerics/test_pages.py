"""Pages that stay: counted by the system, in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys, torch
import suffice as sf
import suffice.states

if "keep" not in sys.argv:
    suffice.states.keep_pages = lambda: None
torch.manual_seed(0)
mu = torch.nn.functional.normalize(torch.randn(1000, 16).double(), dim=1)
bank = sf.ClassBank(mu, 50 * torch.rand(1000).double())
states = sf.States(bank, torch.randn(128, 16).double(), torch.arange(128), 0.3)
for round in range(6):
    if round == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    sf.certify(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair())
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(*words: str) -> int:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, check=True)
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_memory_that_was_freed_is_used_again() -> None:
    """A certificate's working tensors are a megabyte each, 256 pages."""
    kept, lost = _faults("keep"), _faults()
    assert lost > 2_560
    assert kept < lost / 4
