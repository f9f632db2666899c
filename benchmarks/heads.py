"""Heads: how fast screening is, and what it takes on a real model. `python -m benchmarks.heads --help`.

`speed` compares the screened argmax with torch's float32 and bfloat16 products and argmax, everything included, as
ratios of interleaved repeats in one process. `screening STATES` counts exact rows and changed tokens on captured states
(examples/audit_language_model.py writes such a file), `losses STATES` what the loss's bound is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from safetensors.torch import load_file
from torch import Tensor

import suffice as sf
from suffice.realizations.screening.losses import loss_within
from suffice.realizations.screening.search import argmax_of
from suffice.realizations.screening.units import Batch

app = typer.Typer(add_completion=False)
SIZES = ((49_152, 576), (128_000, 1_024))
# by how many states there are: at least so many times as fast as float32; than bfloat16, faster
LEAST = {1: 1.8, 32: 2.5, 256: 3.0}
# degenerate states: no more than this many times the float32 product's time
MOST = 1.3


def interleaved(
    contenders: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The least time of each, all of them in turn."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(repeats + 1):
        for name, run in contenders.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def _synthetic(classes: int, dim: int) -> tuple[Tensor, Tensor]:
    """Rows and hidden vectors with a few outlier channels, as language models have."""
    g = torch.Generator().manual_seed(classes)
    weight = torch.randn(classes, dim, generator=g) * (0.5 + torch.rand(classes, 1, generator=g))
    hidden = torch.randn(512, dim, generator=g)
    hidden[:, :4] *= 8
    # a vector points to some token's row
    return weight, hidden + 0.4 * weight[torch.randint(0, classes, (512,), generator=g)]


@app.command()
def speed(
    threads: Annotated[int, typer.Option(help="As many as the machine has to spare.")] = 2,
    repeats: int = 5,
    states: Annotated[Path | None, typer.Option(help="Captured states, in place of made ones where they fit.")] = None,
    process: Annotated[
        bool, typer.Option(help="Processor time in place of time: for one thread on a busy machine.")
    ] = False,
) -> None:
    """screened_argmax_vs_float32 and _vs_bfloat16: above 1 the screened one is faster. Part of `make bench`."""
    torch.set_num_threads(threads)
    clock = time.process_time if process else time.perf_counter
    for classes, dim in SIZES:
        if states is not None and classes == SIZES[0][0]:
            kept = load_file(states)
            weight, hidden = kept["weight"], kept["hidden"]
        else:
            weight, hidden = _synthetic(classes, dim)
        narrow = weight.bfloat16()
        screen = sf.Quantized(sf.LinearHead(weight), "int8", calibration=hidden[256:512])
        for count in (1, 32, 256):
            h = hidden[:count].contiguous()
            best = interleaved(_contenders(screen, weight, h, narrow), repeats, clock)
            found = screen.argmax(h)
            ratios = {f"screened_argmax_vs_{name}": t / best["ours"] for name, t in best.items() if name != "ours"}
            rows = found.exact_rows.double().mean().item()
            print(f"V {classes} p {dim} N {count}: {best['ours'] * 1e3:.1f} ms, {rows:.1f} exact rows", end="")
            print("".join(f", {name} {value:.2f}" for name, value in ratios.items()), end="")
            missed = best["float32"] < LEAST[count] * best["ours"] or best["bfloat16"] < best["ours"]
            print(f" (limits {LEAST[count]} and 1{': missed' if missed else ''})", flush=True)
        giant = hidden[:32].clone()
        giant[:, 3] = 1e6
        common, flat = _flat(weight)
        degenerate = {
            "zero": (screen, weight, torch.zeros_like(giant)),
            "one giant channel": (screen, weight, giant),
            "every row a candidate": (flat, common, hidden[:32].contiguous()),
            "every row a candidate, N 1": (flat, common, hidden[:1].contiguous()),
        }
        for name, (screen, weight, h) in degenerate.items():
            best = interleaved(_contenders(screen, weight, h), repeats, clock)
            share = best["ours"] / best["float32"]
            print(f"V {classes} p {dim}, {name}: {share:.2f} of the float32 product's time", end="")
            print(f" (limit {MOST}{': missed' if share > MOST else ''})", flush=True)


def _contenders(
    screen: sf.Quantized, weight: Tensor, h: Tensor, narrow: Tensor | None = None
) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {
        "float32": lambda: (h @ weight.T).argmax(dim=1),
        "ours": lambda: screen.argmax(h),
    }
    if narrow is not None:
        few = h.bfloat16()
        found["bfloat16"] = lambda: (few @ narrow.T).argmax(dim=1)
    return found


def _flat(weight: Tensor) -> tuple[Tensor, sf.Quantized]:
    """A head whose rows have a large entry in common: int8 words leave every one of them a candidate, float32 a few."""
    common = weight / weight.abs().mean()
    common[:, 0] = 300.0
    screen = sf.Quantized(sf.LinearHead(common), "int8")
    return common, screen


@app.command()
def screening(states: Path, count: int = 2048) -> None:
    """Exact rows that the schemes need, and tokens that plain quantisation changes."""
    kept = load_file(states)
    weight, hidden = kept["weight"], kept["hidden"][:count]
    calibration = kept["hidden"][::8]
    head = sf.LinearHead(weight)
    schemes = {
        "int8 by integers": sf.Quantized(head, "int8", calibration=calibration),
        "int8 by rows": sf.Quantized(head, "int8"),
        "int8 by 64": sf.Quantized(head, "int8", group=64),
        "int4 by 32": sf.Quantized(head, "int4", group=32),
        "int4 by 32, deflated": sf.Quantized(head, "int4", group=32, deflate=16, calibration=calibration),
        "fp8 by rows": sf.Quantized(head, "fp8", block=64),
    }
    exact = schemes["int8 by integers"].argmax(hidden).index
    for name, screen in schemes.items():
        rows, changed, wrong = [], 0, 0
        start = time.perf_counter()
        for part in torch.arange(len(hidden)).split(64):
            if name == "int8 by integers":
                found = screen.argmax(hidden[part])
                rows.append(found.exact_rows)
                index = found.index
            else:
                batch = Batch(screen._scaled, hidden[part].double())
                dense = sf_dense(screen)
                made = dense.approximate(batch)
                found_here = argmax_of(batch, made)
                rows.append(found_here.exact_rows)
                index = found_here.index
                changed += int((made.scores.argmax(dim=1) != exact[part]).sum())
            wrong += int((index != exact[part]).sum())
        all_rows = torch.cat(rows).double()
        print(
            f"{name}: no exact row {(all_rows == 0).double().mean():.3f}, mean {all_rows.mean():.2f}, "
            f"95% {all_rows.quantile(0.95):.0f}, most {all_rows.max():.0f}; plain changes {changed / len(hidden):.4f}, "
            f"screened changes {wrong}; {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    narrow = weight.bfloat16()
    changed = sum(
        int(((hidden[part].bfloat16() @ narrow.T).argmax(dim=1) != exact[part]).sum())
        for part in torch.arange(len(hidden)).split(64)
    )
    print(f"weights, hidden vectors and logits in torch.bfloat16: changes {changed / len(hidden):.4f}", flush=True)
    for dtype in (torch.bfloat16, torch.float16):
        changed = sum(
            int(((hidden[part] @ weight.T).to(dtype).argmax(dim=1) != exact[part]).sum())
            for part in torch.arange(len(hidden)).split(64)
        )
        print(f"logits in {dtype}: changes {changed / len(hidden):.4f}", flush=True)


def sf_dense(screen: sf.Quantized):  # type: ignore[no-untyped-def]
    """The dense screen of a scheme, also of int8 by rows, whose own screen is the integers'."""
    from suffice.realizations.screening.dense import DenseScreen

    return DenseScreen(screen._scaled, screen.rows, screen.residuals)


@app.command()
def losses(states: Path, count: int = 512) -> None:
    """The loss's bound with no, 16 and 256 exact rows beside the label's: int8 by 64 with deflation."""
    kept = load_file(states)
    hidden, labels = kept["hidden"][:count].double(), kept["labels"][:count]
    head = sf.LinearHead(kept["weight"])
    screen = sf.Quantized(head, "int8", group=64, deflate=16, calibration=kept["hidden"][::8])
    bounds: dict[int, list[Tensor]] = {1: [], 17: [], 257: []}
    for part in torch.arange(len(hidden)).split(64):
        batch = Batch(screen._scaled, hidden[part])
        made = screen._screen.approximate(batch)
        here = sf.HeadStates(head, hidden[part], labels[part])
        for most, found in bounds.items():
            none = torch.zeros(len(part), dtype=torch.float64)
            found.append(loss_within(batch, made, here, none, most).bound)
    for most, parts in bounds.items():
        bound = torch.cat(parts)
        shares = ", ".join(f"{(bound <= limit).double().mean():.3f} within {limit:g}" for limit in (1e-1, 1e-2, 1e-3))
        print(f"{most - 1} exact rows: median {bound.median():.2e} nats, {shares}", flush=True)


if __name__ == "__main__":
    app()
