"""TFP on JAX as a contender, in a process and an environment of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TfpProcess"]


class TfpProcess:
    """TFP on JAX in its own environment, kept alive in a second process that times its own runs on request."""

    def __init__(self, python: Path, nu: float, r: np.ndarray[Any, Any], k: np.ndarray[Any, Any], folder: Path) -> None:
        inputs = folder / "tfp_inputs.npz"
        np.savez(inputs, r=r, k=k, nu=nu)
        script = Path(__file__).with_name("tfp_peer.py")
        self._process = subprocess.Popen(
            [str(python), str(script), str(inputs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first = self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the TFP process ended with exit code {self._process.wait()}; its error is above")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def run(self) -> float:
        """The seconds of one run, as measured there."""
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return float(self._read()["seconds"])

    def close(self) -> None:
        """End the process."""
        self._process.communicate("", timeout=30)
