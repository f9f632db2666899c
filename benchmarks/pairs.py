"""The pair against its peers: difference and ratio together, 128 x 1000 pairs at p = 1024, float64."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

import suffice as sf
from benchmarks.tfp import TfpProcess
from benchmarks.timing import Contender, Ratio, seconds, versus
from suffice.experiments.published import miller_difference_and_ratio, scipy_difference_and_ratio

__all__ = ["pair_ratios"]

QUERIES, CLASSES, DIM = 128, 1000, 1024


def _geometry() -> tuple[Tensor, Tensor, Tensor]:
    """r, k and the squared gap of unit features at temperature 0.1 against a bank, by the matrix product."""
    generator = torch.Generator().manual_seed(3407)
    directions = torch.nn.functional.normalize(
        torch.randn(CLASSES, DIM, generator=generator, dtype=torch.float64), dim=1
    )
    features = torch.nn.functional.normalize(torch.randn(QUERIES, DIM, generator=generator, dtype=torch.float64), dim=1)
    k = 10 ** (1 + 2 * torch.rand(CLASSES, generator=generator, dtype=torch.float64))
    gap = 2 * k * (features @ directions.T) / 0.1 + 100
    return torch.sqrt(k * k + gap), k, gap


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def pair_ratios(peers_python: Path, folder: Path) -> dict[str, Ratio | None]:
    """The ratios of part 1, by name; the TFP ones are None where its environment is absent."""
    r, k, gap = _geometry()
    nu, pair = DIM / 2 - 1, sf.DebyePair(order=2)

    def ours() -> tuple[Tensor, Tensor]:
        return pair.difference(nu, r, k, gap), pair.ratio(nu, r)

    compiled = torch.compile(ours)
    all_threads = torch.get_num_threads()

    def eager(threads: int) -> Contender:
        return Contender(name="DebyePair(order=2)", run=seconds(ours), threads=threads)

    def fast(threads: int) -> Contender:
        return Contender(name="DebyePair(order=2)", run=seconds(compiled), threads=threads, mode="compiled")

    miller = Contender(
        name="Miller recurrence from 2 nu (torch)",
        run=seconds(lambda: miller_difference_and_ratio(int(nu), r, k)),
        threads=all_threads,
    )
    arrays = r.numpy(), k.numpy()
    scipy = Contender(name="scipy.special.ive", run=seconds(lambda: scipy_difference_and_ratio(nu, *arrays)), threads=1)
    ratios: dict[str, Ratio | None] = {
        "pair_vs_miller": versus(eager(all_threads), miller),
        "pair_compiled_vs_miller": versus(fast(all_threads), miller),
    }
    # SciPy's ufuncs use one thread, so ours is held to one as well
    with _threads(1):
        ratios["pair_vs_scipy"] = versus(eager(1), scipy)
        ratios["pair_compiled_vs_scipy"] = versus(fast(1), scipy)
    ratios["pair_vs_tfp"] = ratios["pair_compiled_vs_tfp"] = None
    if peers_python.exists():
        process = TfpProcess(peers_python, nu, *arrays, folder)
        try:
            _check_agreement(process, ours())
            tfp = Contender(
                name=f"TFP log_bessel_ive + bessel_iv_ratio (JAX {process.first['jax']})",
                run=process.run,
                threads=int(process.first["threads"]),
                dtype=str(process.first["dtype"]),
                mode="compiled",
            )
            ratios["pair_vs_tfp"] = versus(eager(all_threads), tfp)
            ratios["pair_compiled_vs_tfp"] = versus(fast(all_threads), tfp)
        finally:
            process.close()
    return ratios


def _check_agreement(process: TfpProcess, ours: tuple[Tensor, Tensor]) -> None:
    """Both must have computed the same thing, or the ratio means nothing."""
    for name, tensor in zip(("difference", "ratio"), ours, strict=True):
        theirs = torch.tensor(process.first[name], dtype=torch.float64)
        torch.testing.assert_close(tensor[0, :5], theirs, rtol=1e-6, atol=1e-6)
