"""Every number and word that the public interface says of some states, as named NumPy columns of one entry a state.

A name is "call: field". The field says what a change may do: a `bound` may only grow, a `room` (b* and its other end,
headroom) only shrink, everything else has to stay.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

import suffice as sf

__all__ = ["CORE", "GROUPS", "REST", "Columns", "columns", "kind_of"]

Columns = dict[str, np.ndarray]

JOINT = sf.Budgets(loss=1e-5, gradient=1e-5)
BUDGETS = {
    "joint": JOINT,
    "all": sf.Budgets(loss=1e-3, probability=1e-4, gradient=1e-2, prediction=True),
    # no error of probabilities is above 1: nothing breaks this one
    "wide": sf.Budgets(probability=1.5),
    # zero at a tie
    "prediction": sf.Budgets(prediction=True),
    "strict": sf.Budgets(loss=1e-11, probability=1e-12, gradient=1e-10),
}
CONTRACTS = ("geometry", "conditioned", "centered")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
ENVELOPES: dict[str, sf.Allowance] = {
    "best": sf.BestAllowance(2),
    "closed form 2": sf.ClosedForm(2),
    "closed form 6": sf.ClosedForm(6),
    "eleventh": sf.Uniform("eleventh"),
    "quarter": sf.Uniform("quarter"),
    "state": sf.StateEnvelope(),
}
ROOMS = ("b", "upper", "headroom")
_NOTHING = {"word": np.bytes_("refused").astype("S24"), "bits": np.uint32(0)}


def kind_of(name: str) -> str:
    """Whether a column is a bound, a room, a value, a word, or bits: a checksum of many values.

    >>> kind_of("certify analytic 2 centered joint: loss bound"), kind_of("tolerance 2: b"), kind_of("evaluate 2: loss")
    ('bound', 'room', 'value')
    """
    field = name.split(": ")[1]
    if field.split()[0] in ROOMS:
        return "room"
    for kind in ("bound", "word", "bits"):
        if field.endswith(kind):
            return kind
    return "value"


def _numbers(values: Tensor) -> np.ndarray:
    return values.detach().double().numpy(force=True)


def _words(values: Any) -> np.ndarray:
    return np.asarray(values).astype("S24")


def _bits(values: Tensor) -> np.ndarray:
    """A checksum of every row: it differs where any bit of the row does."""
    rows = np.ascontiguousarray(values.detach().numpy(force=True))
    return np.array([zlib.crc32(row.tobytes()) for row in rows], dtype=np.uint32)


def _norm(values: Tensor) -> np.ndarray:
    return np.abs(_numbers(values)).max(axis=1)


def _prefixed(call: str, fields: Columns) -> Columns:
    return {f"{call}: {field}": values for field, values in fields.items()}


def _or_refused(
    compute: Callable[[sf.States], Columns], states: sf.States, names: tuple[str, ...], by_row: bool = False
) -> Columns:
    """What is computed, or the name of the error as a word and NaN beside it; row by row if that is asked for.

    `names` are the fields.
    """
    try:
        return {**compute(states), "refusal word": _words(["none"] * len(states))}
    except ValueError as error:
        if by_row and len(states) > 1:
            parts = [_or_refused(compute, states[row : row + 1], names) for row in range(len(states))]
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        empty = {name: np.full(len(states), _NOTHING.get(kind_of(f": {name}"), np.nan)) for name in names}
        return {**empty, "refusal word": _words([type(error).__name__] * len(states))}


_CERTIFICATE = (
    *("loss bound", "probability bound", "gradient bound", "headroom"),
    *("prediction word", "binding word", "verdict word"),
)
_EXECUTED = ("executed loss", "executed gradient", "executed bits", "inside word")
_TOLERANCE = ("b", "upper", "first order", "binding word", "status word")


def _certificate(order: int, contract: str, budgets: str, **how: Any) -> Callable[[sf.States], Columns]:
    def compute(states: sf.States) -> Columns:
        found = sf.certify(states, BUDGETS[budgets], sf.DebyePair(order=order), contract, **how)
        out = {
            "loss bound": _numbers(found.loss),
            "probability bound": _numbers(found.probability),
            "gradient bound": _numbers(found.gradient),
            "headroom": _numbers(found.headroom),
            "prediction word": _words(found.prediction.numpy(force=True)),
            "binding word": _words(found.binding),
            "verdict word": _words(found.verdict),
        }
        if found.executed_loss is not None and found.executed_gradient is not None:
            out |= {
                "executed loss": _numbers(found.executed_loss),
                "executed gradient": _norm(found.executed_gradient),
                "executed bits": _bits(found.executed_gradient),
                "inside word": _words(found.status),
            }
        return out

    return lambda states: _or_refused(compute, states, _CERTIFICATE + (_EXECUTED if how else ()))


def _tolerance(order: int, contract: str, budgets: str, **how: Any) -> Callable[[sf.States], Columns]:
    def compute(states: sf.States) -> Columns:
        found = sf.tolerance(states, BUDGETS[budgets], sf.DebyePair(order=order), contract, **how)
        return {
            "b": _numbers(found.b),
            "upper": _numbers(found.upper),
            "first order": _numbers(found.first_order),
            "binding word": _words(found.binding),
            "status word": _words(found.status),
        }

    return lambda states: _or_refused(compute, states, _TOLERANCE)


def _cascade(budgets: str, order: int = 2, **how: Any) -> Callable[[sf.States], Columns]:
    bounds = ("loss bound", "probability bound", "gradient bound", "margin use bound")

    def compute(states: sf.States) -> Columns:
        found = sf.cascade(states, BUDGETS[budgets], sf.DebyePair(order=order), **how)
        numbers = (found.loss, found.probability, found.gradient, found.margin_use)
        out = {name: _numbers(values) for name, values in zip(bounds, numbers, strict=True)}
        return out | {"verdict word": _words(found.verdict), "tier word": _words(found.tier)}

    return lambda states: _or_refused(compute, states, (*bounds, "verdict word", "tier word"))


def _adaptive(budgets: str, model: str = "proved") -> Callable[[sf.States], Columns]:
    def compute(states: sf.States) -> Columns:
        found = sf.adaptive(states, BUDGETS[budgets], model=model)
        return {
            "loss": _numbers(found.loss),
            "gradient": _norm(found.gradient),
            "gradient bits": _bits(found.gradient),
            "loss bound": _numbers(found.loss_bound),
            "gradient bound": _numbers(found.gradient_bound),
            "certified word": _words(found.certified.numpy(force=True)),
            "rung word": _words(found.rung),
        }

    return compute


def _rungs(budgets: str, contract: str = "centered") -> Callable[[sf.States], Columns]:
    return lambda states: {"rung word": _words(sf.cheapest_rungs(states, BUDGETS[budgets], contract))}


def _cheapest(states: sf.States) -> Columns:
    found = sf.certify(states, BUDGETS["all"], sf.DebyePair(order=2), "conditioned").cheapest
    # it was a property once
    return {"rung word": _words(found() if callable(found) else found)}


def _sensitivity(states: sf.States) -> Columns:
    found = sf.sensitivity(states, sf.DebyePair(order=2))
    return {name: _numbers(getattr(found, name)) for name in ("loss", "probability", "gradient")}


def _evaluate(order: int) -> Callable[[sf.States], Columns]:
    names = ("loss", "margin", "gradient", "target", "prediction word", "scores bits", "gradient bits")

    def compute(states: sf.States) -> Columns:
        found = sf.evaluate(states, sf.DebyePair(order=order))
        return {
            "loss": _numbers(found.loss),
            "margin": _numbers(found.margin),
            "gradient": _norm(found.gradient),
            "target": _numbers(found.scores.gather(1, states.labels[:, None])[:, 0]),
            "prediction word": _words(found.prediction.numpy(force=True)),
            "scores bits": _bits(torch.cat([found.scores, found.log_probabilities], dim=1)),
            "gradient bits": _bits(found.gradient),
        }

    return lambda states: _or_refused(compute, states, names, by_row=True)


def _allowances(name: str) -> Callable[[sf.States], Columns]:
    """The largest over the classes, of one envelope."""
    envelope = ENVELOPES[name]

    def compute(states: sf.States) -> Columns:
        geometry = states.geometry()
        nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
        point = envelope.allowance(nu, r)
        over = envelope.allowance_over(nu, r / 2, r)
        scores = envelope.score_allowance(nu, k, r, geometry.squared_gaps)
        return {
            "point bound": _numbers(point.amax(dim=1)),
            "over bound": _numbers(over.amax(dim=1)),
            "score bound": _numbers(scores.amax(dim=1)),
            "all bits": _bits(torch.cat([point, over, scores], dim=1)),
        }

    names = ("point bound", "over bound", "score bound", "all bits")
    return lambda states: _or_refused(compute, states, names, by_row=True)


def _contract(contract: str, family: str) -> Callable[[sf.States], Columns]:
    """A contract on a head and allowances that a user made: the pair's own, or the uniform family at b = 1e-6."""
    call = {"geometry": sf.geometry_bounds, "conditioned": sf.conditioned_bounds, "centered": sf.centered_bounds}
    bounds = ("loss", "probability", "gradient", "margin_use")

    def compute(states: sf.States) -> Columns:
        pair, geometry = sf.DebyePair(order=2), states.geometry()
        found = sf.evaluate(states, pair)
        radii = geometry.radii
        if family == "own":
            d = pair.score_allowance(geometry.nu, geometry.concentrations, radii, geometry.squared_gaps)
            a = pair.allowance(geometry.nu, radii)
        else:
            d, a = 1e-6 * geometry.gaps, torch.full_like(radii, 1e-6)
        distances = torch.linspace(0, 2, radii.shape[1], dtype=torch.float64).expand_as(radii)
        head = sf.SoftmaxHead(
            log_probabilities=found.log_probabilities,
            target=states.labels,
            gradient_scale=1 / states.temperature,
            distances=distances,
        )
        result = call[contract](head, sf.Allowances(d=d, a=a))
        changed = _numbers(sf.loss_change(found.log_probabilities, d, states.labels))
        out = {f"{name} bound": _numbers(getattr(result, name)) for name in bounds}
        return out | ({"loss change": changed} if contract == "geometry" else {})

    names = (*(f"{name} bound" for name in bounds), *(("loss change",) if contract == "geometry" else ()))
    return lambda states: _or_refused(compute, states, names, by_row=True)


def _mechanism(states: sf.States) -> Columns:
    def compute(some: sf.States) -> Columns:
        found = sf.gradient_mechanism(some, sf.DebyePair(order=2), sf.DebyePair(order=6))
        return {"redistribution": _norm(found.redistribution), "primitive": _norm(found.primitive)}

    return _or_refused(compute, states, ("redistribution", "primitive"), by_row=True)


def _extrema(states: sf.States) -> Columns:
    """Couplings of the classes with errors of alternating sign."""
    p = sf.evaluate(_ordinary(states), sf.DebyePair(order=2)).log_probabilities.exp().clamp_min(1e-12)
    p = p / p.sum(dim=1, keepdim=True)
    errors = torch.linspace(-1, 1, p.shape[1] - 1, dtype=torch.float64) * 1e-3
    found = sf.coupling_extrema(p[:, 0], torch.zeros_like(p[:, 0]), p[:, 1:], errors.expand_as(p[:, 1:]))
    return {"minus": _numbers(found.minus), "plus": _numbers(found.plus)}


def _ordinary(states: sf.States) -> sf.States:
    """The same with moderate features and concentrations, where everything is finite."""
    bank = states.bank
    k = bank.concentrations.clamp(1e-3, 1e6)
    length = torch.linalg.vector_norm(states.features.clamp(-1e100, 1e100), dim=1).clamp_min(1e-200)
    return sf.States(
        sf.ClassBank(bank.directions, k, bank.biases.clamp(-20, 20)),
        states.features.clamp(-1e100, 1e100) / length[:, None],
        states.labels,
        states.temperature.clamp(0.01, 10),
    )


def _supervised(states: sf.States) -> Columns:
    some = _ordinary(states)
    generator = torch.Generator().manual_seed(len(some))
    mu, k = some.bank.directions[some.labels], some.bank.concentrations[some.labels]
    samples = sf.sample_vmf(mu, k.clamp(1.0, 1e4), 3, generator=generator)
    embeddings = some.features / some.temperature[:, None]
    found = sf.evaluate_supervised(some.bank, embeddings, some.labels, samples, 10.0, sf.DebyePair(order=2))
    return {
        "loss": _numbers(found.loss),
        "refined bound": _numbers(found.refined_bound),
        "uniform bound": _numbers(found.uniform_bound),
        "samples bits": _bits(samples.flatten(1)),
    }


def _special(states: sf.States) -> Columns:
    some = _ordinary(states)
    x, nu, dim = some.geometry().radii, some.bank.nu, some.bank.dim
    ratio = sf.special.bessel_i_ratio(nu, x)
    parts = {
        "log bessel": sf.special.log_bessel_i(nu, x),
        "ratio": ratio,
        "normalizer": sf.special.vmf_log_normalizer(dim, x),
        "fitted": sf.special.fit_concentration(dim, ratio.clamp(0, 0.999)),
    }
    out = {name: _numbers(values[:, 0]) for name, values in parts.items()}
    return out | {"all bits": _bits(torch.cat(list(parts.values()), dim=1))}


def _inputs(states: sf.States) -> Columns:
    """The states themselves: a difference here is one of reading or making them."""
    bank = states.bank
    of_bank = torch.cat([bank.directions.flatten(), bank.concentrations, bank.biases]).expand(len(states), -1)
    rows = torch.cat([states.features, states.temperature[:, None], states.labels[:, None].double(), of_bank], dim=1)
    return {"states bits": _bits(rows)}


def _audit(states: sf.States) -> Columns:
    """The Parquet columns of an audit: those of every order are found nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with sf.CollectionWriter(path / "states", "equality") as writer:
            writer.add(states, source="equality", dataset="equality", run="equality", step=0)
        sf.audit(path / "states", BUDGETS["joint"], out=path / "audit")
        files = sorted((path / "audit" / "results").glob("*.parquet"))
        table = pq.ParquetDataset([str(file) for file in files]).read(use_threads=False)
    found = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.schema.names}
    out: Columns = {"target probability": found["target_probability"].astype(float)}
    for order in range(1, 7):
        out[f"certified {order} word"] = _words(found[f"certified_{order}"])
        # NaN where the order is not proved
        out[f"headroom {order}"] = found[f"headroom_{order}"].astype(float)
    return out | {name.replace("_", " ") + " word": _words(found[name]) for name in ("tier", "cheapest_order")}


def _groups() -> dict[str, Callable[[sf.States], Columns]]:
    out: dict[str, Callable[[sf.States], Columns]] = {"inputs": _inputs}
    settings = [(2, contract) for contract in CONTRACTS] + [(4, "centered"), (6, "centered")]
    for order, contract in settings:
        out[f"certify analytic {order} {contract} joint"] = _certificate(order, contract, "joint")
        out[f"tolerance analytic {order} {contract} joint"] = _tolerance(order, contract, "joint")
    for name, dtype in DTYPES.items():
        how = {"scope": "execution", "dtype": dtype}
        for order, contract in settings:
            # float32 keeps a budget that is wider
            budgets = "all" if name == "float32" else "joint"
            out[f"certify {name} {order} {contract} {budgets}"] = _certificate(order, contract, budgets, **how)
            if order != 4 or name == "float64":
                out[f"tolerance {name} {order} {contract} {budgets}"] = _tolerance(order, contract, budgets, **how)
        out[f"cascade {name} all"] = _cascade("all", **how)
    likely = {"scope": "execution", "dtype": torch.float32, "model": "probabilistic"}
    out["certify float32 probabilistic 2 centered all"] = _certificate(2, "centered", "all", **likely)
    for budgets in ("all", "wide", "prediction", "strict"):
        if budgets != "wide":
            out[f"certify analytic 2 centered {budgets}"] = _certificate(2, "centered", budgets)
        out[f"tolerance analytic 2 centered {budgets}"] = _tolerance(2, "centered", budgets)
    out["tolerance float64 6 centered strict"] = _tolerance(6, "centered", "strict", scope="execution")
    for budgets in ("joint", "all", "strict"):
        out[f"cascade analytic {budgets}"] = _cascade(budgets)
    for budgets in ("joint", "all", "strict"):
        out[f"adaptive {budgets}"] = _adaptive(budgets)
    out["adaptive probabilistic joint"] = _adaptive("joint", "probabilistic")
    out["rungs joint"], out["rungs all"], out["cheapest all"] = _rungs("joint"), _rungs("all"), _cheapest
    out["sensitivity 2"] = _sensitivity
    for order in (2, 4, 6):
        out[f"evaluate {order}"] = _evaluate(order)
    for name in ENVELOPES:
        out[f"allowance {name}"] = _allowances(name)
    for contract in CONTRACTS:
        for family in ("own", "uniform"):
            out[f"{contract} bounds {family}"] = _contract(contract, family)
    out["mechanism"], out["extrema"] = _mechanism, _extrema
    out["supervised"], out["special"], out["audit"] = _supervised, _special, _audit
    return out


GROUPS = _groups()
# computed at every state; the rest at a part of them
CORE = (
    "inputs",
    *(f"{call} analytic 2 {contract} joint" for call in ("certify", "tolerance") for contract in CONTRACTS),
    "certify analytic 4 centered joint",
    "certify float32 2 centered all",
    "cascade analytic all",
    "adaptive joint",
    "evaluate 2",
)
REST = tuple(name for name in GROUPS if name not in CORE)


def columns(states: sf.States, groups: tuple[str, ...] = tuple(GROUPS)) -> Columns:
    """The columns of some groups."""
    out: Columns = {}
    for name in groups:
        with torch.no_grad():
            out |= _prefixed(name, GROUPS[name](states))
    return out
