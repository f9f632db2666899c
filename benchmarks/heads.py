"""Heads: how fast screening is, and what it takes on a real model. `python -m benchmarks.heads --help`.

`speed` compares the screened argmax with torch's float32 and bfloat16 products and argmax, everything included, as
ratios of interleaved repeats in one process. `screening STATES` counts exact rows and changed tokens on captured states
(examples/audit_language_model.py writes such a file), `losses STATES` what the loss's bound is. `certify` is
head_certify_vs_product, `memory` what certificates and audits hold at V = 262,144, `bounds STATES` how far bounds on
loss and KL are from the truth and where, `tolerances STATES` the quantiles of b* beside those of the built-in states.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from safetensors.torch import load_file
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import margin_use
from suffice.contracts.registry import contract_named
from suffice.realizations.linear import RealizedHead
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


ALL_BUDGETS = sf.Budgets(loss=1e-2, probability=1e-2, kl=1e-2, gradient=1e-2, prediction=True)


@app.command()
def certify(
    threads: Annotated[int, typer.Option(help="As many as the machine has to spare.")] = 2,
    repeats: int = 5,
    states: Annotated[Path | None, typer.Option(help="Captured states, in place of made ones.")] = None,
    process: Annotated[
        bool, typer.Option(help="Processor time in place of time: for one thread on a busy machine.")
    ] = False,
) -> None:
    """head_certify_vs_product: certify with every budget, over the float32 product; N = 256, V = 49,152, p = 576."""
    torch.set_num_threads(threads)
    clock = time.process_time if process else time.perf_counter
    classes, dim = SIZES[0]
    if states is None:
        weight, hidden = _synthetic(classes, dim)
        labels = torch.arange(len(hidden))
    else:
        kept = load_file(states)
        weight, hidden, labels = kept["weight"], kept["hidden"], kept["labels"]
    h, y, head = hidden[:256].contiguous(), labels[:256], sf.LinearHead(weight)
    here = sf.HeadStates(head, h, y)
    for name, (group, deflate) in {"by rows": (None, 0), "by 64": (64, 0), "by 64, deflated": (64, 16)}.items():
        quantized = sf.Quantized(head, "int8", group=group, deflate=deflate, calibration=hidden[256:512])
        best = interleaved(
            {
                "float32": lambda: h @ weight.T,
                "ours": lambda q=quantized: sf.certify(here, ALL_BUDGETS, q),  # type: ignore[misc]
            },
            repeats,
            clock,
        )
        ratio = best["ours"] / best["float32"]
        print(
            f"head_certify_vs_product, int8 {name}: {ratio:.2f} ({best['ours']:.2f} s, {best['float32']:.2f} s)",
            flush=True,
        )


@app.command()
def memory(classes: int = 262_144, dim: int = 1_024, count: int = 256) -> None:
    """Peak memory of a certificate and of an audit, each in a process of its own, above what the inputs take."""
    # an audit goes by chunks of 16 states there: its peak is that of two of them
    for what, some in (("certify", count), ("audit", min(count, 32))):
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.heads", "held", what, str(classes), str(dim), str(some)],
            check=True,
            capture_output=True,
            text=True,
        )
        print(f"V {classes} p {dim} N {some}, {ran.stdout.strip()}", flush=True)


@app.command(hidden=True)
def held(what: str, classes: int, dim: int, count: int) -> None:
    """One of the measurements of `memory`."""
    g = torch.Generator().manual_seed(0)
    weight = torch.empty(classes, dim, dtype=torch.bfloat16)
    for rows in weight.split(8192):
        rows.copy_(torch.randn(rows.shape, generator=g) / dim**0.5)
    hidden = torch.randn(count, dim, generator=g)
    head = sf.LinearHead(weight)
    states = sf.HeadStates(head, hidden, torch.arange(count))
    before, start = _peak(), time.perf_counter()
    if what == "certify":
        sf.certify(states, ALL_BUDGETS, sf.Quantized(head, "int8"))
    if what == "audit":
        with tempfile.TemporaryDirectory() as folder:
            with sf.CollectionWriter(Path(folder) / "states", "made for a measurement") as writer:
                writer.add(states, source="made", dataset="made", run="a", step=0)
            sf.audit(Path(folder) / "states", ALL_BUDGETS, out=Path(folder) / "audit", page=False, progress=False)
    print(f"{what}: {before:.2f} GB with the inputs, {_peak():.2f} at the peak, {time.perf_counter() - start:.0f} s")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


@app.command()
def bounds(states: Path, count: int = 512) -> None:
    """Loss and KL of int8 by 64 with deflation: bounds with some rows exact, and what each step of a bound costs."""
    kept = load_file(states)
    head = sf.LinearHead(kept["weight"])
    screen = sf.Quantized(head, "int8", group=64, deflate=16, calibration=kept["hidden"][::8])
    found: dict[str, list[Tensor]] = {}
    for part in torch.arange(count).split(32):
        here = sf.HeadStates(head, kept["hidden"][part], kept["labels"][part])
        for name, values in _steps(here, screen).items():
            found.setdefault(name, []).append(values)
    for name, parts in found.items():
        values = torch.cat(parts)
        said = f"median {values.median():.3g}"
        if name.startswith("bound"):
            shares = (f"{(values <= limit).double().mean():.3f} within {limit:g}" for limit in (1e-1, 1e-2, 1e-3))
            said += ", " + ", ".join(shares)
        print(f"{name}: {said}", flush=True)


def _steps(states: sf.HeadStates, screen: sf.Quantized) -> dict[str, Tensor]:
    """Bounds and true errors of one chunk, and ratios of the steps between them."""
    contract, budgets = contract_named("centered"), sf.Budgets(loss=1.0, kl=1.0)
    exact, made = sf.ExactHead().at(states), screen.at(states)
    pi, d = made.head().log_probabilities.exp(), made.d
    errors = (made.scores - exact.scores).abs()
    assert states.labels is not None
    label = states.labels[:, None]
    loss, kl = _actual(made, exact, label)
    found: dict[str, Tensor] = {}
    for rows in (0, 16, 256):
        some = (pi * d).scatter(1, label, torch.inf).topk(rows + 1, dim=1).indices[:, : rows and rows + 1]
        mixed = sf_realized(made, made.scores.scatter(1, some, exact.scores.gather(1, some)), d.scatter(1, some, 1e-12))
        at = mixed.asked(budgets).bounds(contract)
        assert at.kl is not None
        found[f"bound on the loss, {rows} exact rows"], found[f"bound on KL, {rows} exact rows"] = at.loss, at.kl
    signs = sf_realized(made, made.scores, errors).asked(budgets).bounds(contract)
    whole = made.asked(budgets).bounds(contract)
    assert whole.kl is not None
    assert signs.kl is not None
    found["loss: bound over actual"] = whole.loss / loss
    found["loss: for norms in place of errors"] = whole.loss / signs.loss
    found["loss: for the worst signs"] = signs.loss / loss
    found["loss: label's allowance over its error"] = (d.gather(1, label) / errors.gather(1, label)).squeeze(1)
    found["loss: mean allowance over mean error"] = (pi * d).sum(dim=1) / (pi * errors).sum(dim=1)
    found["KL: bound over actual"] = whole.kl / kl
    found["KL: for norms in place of errors"] = whole.kl / signs.kl
    found["KL: for the worst signs"] = signs.kl / kl
    return found


def _actual(made: RealizedHead, exact: RealizedHead, label: Tensor) -> tuple[Tensor, Tensor]:
    """|L - L'| and the larger KL, in float64."""
    log_pi, log_p = made.head().log_probabilities, exact.head().log_probabilities
    apart = log_pi - log_p
    kl = torch.maximum((log_pi.exp() * apart).sum(dim=1), -(log_p.exp() * apart).sum(dim=1))
    return apart.gather(1, label).squeeze(1).abs(), kl


def sf_realized(like: RealizedHead, scores: Tensor, d: Tensor) -> RealizedHead:
    """A realization of the same rows with other scores and allowances."""
    return RealizedHead(like.states, scores, d, vectors=like.vectors, a=like.row_errors)


@app.command()
def tolerances(states: Path, count: int = 2048) -> None:
    """Quantiles of b* in three families, of captured states, of the built-in ones and of the vMF collection."""
    kept = load_file(states)
    captured = sf.HeadStates(sf.LinearHead(kept["weight"]), kept["hidden"][:count], kept["labels"][:count])
    heads = {"captured": [captured], "language": [batch.states for batch in sf.builtin_collection("language")]}
    vmf = [batch.states for batch in sf.builtin_collection()]
    loss, token = sf.Budgets(loss=1e-2), sf.Budgets(prediction=True)
    for family in ("logits", "relative", "weights"):
        for name, some in heads.items():
            # bounds on the loss are those of the centred contract, which takes distances as well
            found = [sf.tolerance(each, loss, contract="conditioned", family=family) for each in some]
            _tell("loss within 0.01", f"{name}, {family}", [(each.b, each.status == "bounded") for each in found])
            _tell(
                "the same token",
                f"{name}, {family}",
                [_same_token(part, family) for each in some for part in each.chunks()],
            )
    for words, budgets in (("loss within 0.01", loss), ("the same token", token)):
        found = [sf.tolerance(each, budgets, sf.DebyePair(order=2)) for each in vmf]
        _tell(words, "vMF, uniform", [(each.b, each.status == "bounded") for each in found])


def _same_token(states: sf.HeadStates, family: str) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """b* of a budget on the prediction by the centred contract, whose share of the margin is linear in b."""
    made = sf.ExactHead().at(states).of_family(family)
    head, d = made.head(), made.unit().d
    top = head.log_probabilities.argmax(dim=1, keepdim=True)
    use = margin_use(head.log_probabilities, d + d.gather(1, top), head.log_error)
    return 1 / use, torch.isfinite(use).numpy()


def _tell(budget: str, name: str, found: list[tuple[Tensor, np.ndarray[Any, Any]]]) -> None:
    """A line of quantiles, and how many orders of magnitude lie between the first and the last percent."""
    b, bounded = torch.cat([each for each, _ in found]), np.concatenate([each for _, each in found])
    few, low, middle, high, most = np.quantile(b.numpy()[bounded], [0.01, 0.05, 0.5, 0.95, 0.99])
    print(
        f"| {budget} | {name} | {few:.2g} | {low:.2g} | {middle:.2g} | {high:.2g} | {most:.2g} "
        f"| {np.log10(most / few):.1f} | {bounded.sum()} of {len(b)}",
        flush=True,
    )


if __name__ == "__main__":
    app()
