"""The compiler is imported where something is compiled, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

import torch

from suffice.nn.eager import draw_eagerly
from suffice.objectives.sampling import sample_vmf


def test_the_sampler_is_the_same_and_no_trace_enters_it() -> None:
    mu, kappa = torch.eye(3), torch.full((3,), 5.0)
    one = draw_eagerly(mu, kappa, 4, torch.Generator().manual_seed(0))
    other = sample_vmf(mu, kappa, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(one, other)
    assert draw_eagerly._torchdynamo_disable


def test_the_losses_are_imported_without_the_compiler() -> None:
    program = "import sys, suffice.nn; sys.exit(sum(name.startswith('torch._dynamo.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
