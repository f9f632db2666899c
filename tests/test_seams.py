"""An objective, a realization, a contract and a dtype, each added here without touching the source.

The objective is a softmax head of three linear classes; the realization rounds its weights to a dtype; the contract
uses nothing but the largest allowances, to first order; the dtype is float16. All four certify, are inverted, go
through a cascade and are audited, and what is certified is held against Arb.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from flint import arb, ctx
from torch import Tensor
from typer.testing import CliRunner

import suffice as sf
from suffice.audits import plan
from suffice.audits.ledger import read_results
from suffice.certificates.cascade import Step
from suffice.cli import app
from suffice.contracts import registry
from suffice.contracts.bounds import margin_use
from suffice.contracts.centered import CENTERED
from suffice.contracts.geometry import GEOMETRY
from suffice.numerics.formats import FORMATS
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma
from suffice.reports.page import write_page
from suffice.store import kinds
from tests.reference.oracle import Numbers, states_of, verdict

# --- an objective: states that can be cut, described and stored -------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """Weight [3, p] and bias [3]: the stored numbers are exact."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class LinearStates:
    """Hidden vectors h against a head: scores (w_j.h + c_j)/T."""

    bank: Head
    hidden: Tensor
    labels: Tensor
    temperature: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", torch.as_tensor(self.temperature).double().expand(len(self.hidden)))

    @property
    def features(self) -> Tensor:
        return self.hidden

    @property
    def num_classes(self) -> int:
        return len(self.bank.weight)

    @property
    def dim(self) -> int:
        return int(self.hidden.shape[1])

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, rows: Any) -> LinearStates:
        return LinearStates(self.bank, self.hidden[rows], self.labels[rows], self.temperature[rows])

    def chunks(self) -> Iterator[LinearStates]:
        for start in range(0, len(self), 7):
            yield self[start : start + 7]


# --- a realization: weights as another dtype has them -----------------------------------------------------------------


@dataclass(frozen=True)
class RoundedWeights:
    """What the head gives in exact arithmetic with its weights rounded to a dtype."""

    dtype: torch.dtype

    @property
    def scope(self) -> sf.Scope:
        return sf.Scope.ANALYTIC

    @property
    def words(self) -> str:
        return f"weights in {self.dtype}"

    def record(self) -> dict[str, Any]:
        return {"name": "rounded-weights", "dtype": str(self.dtype)}

    def at(self, states: LinearStates) -> RoundedHead:
        return RoundedHead(states, self.dtype)


class RoundedHead(sf.Realized):
    """d_j = |w_j - what_j| |h|/T and a_j = |w_j - what_j|; the unit family moves every weight by its own length."""

    _shared = frozenset({"weight"})

    def __init__(self, states: LinearStates, dtype: torch.dtype) -> None:
        self.states = states
        self.weight = states.bank.weight.to(dtype).double()
        self.lengths = above(torch.linalg.vector_norm(states.hidden, dim=1), 2 * states.dim + 8)

    def _allowed(self, errors: Tensor) -> sf.Allowances:
        """Errors of the weights, by class, carried to the scores."""
        off = above(torch.linalg.vector_norm(errors, dim=1), 2 * self.states.dim + 8).expand(len(self.states), -1)
        return sf.Allowances(d=above(off * (self.lengths / self.states.temperature)[:, None], 8), a=off)

    def own(self, needs: sf.Needs = sf.Needs.NOTHING) -> sf.Allowances:
        del needs
        return self._allowed(self.states.bank.weight - self.weight)

    def unit(self, needs: sf.Needs = sf.Needs.NOTHING) -> sf.Allowances:
        del needs
        return self._allowed(self.weight)

    def head(self, needs: sf.Needs = sf.Needs.NOTHING) -> sf.SoftmaxHead:
        states, sizes = self.states, torch.linalg.vector_norm(self.weight, dim=1)
        scores = (states.hidden @ self.weight.T + states.bank.bias) / states.temperature[:, None]
        # of the product, of bias and quotient, and of the softmax itself
        product = (
            gamma(states.dim + 4, torch.float64) * (self.lengths * sizes.max()) + 1e-15 * states.bank.bias.abs().max()
        )
        rounding = 2 * product / states.temperature + 2.0**-53 * (4 * scores.abs().amax(dim=1) + 60)
        head = sf.SoftmaxHead(
            log_probabilities=torch.log_softmax(scores, dim=1),
            target=states.labels,
            gradient_scale=1 / states.temperature,
            h_bound=float(above(torch.linalg.vector_norm(states.bank.weight, dim=1).max(), 2 * states.dim + 8)),
            log_error=rounding,
        )
        if sf.Needs.DISTANCES not in needs:
            return head
        pi = head.log_probabilities.exp()
        apart = self.weight - (pi @ self.weight)[:, None]
        rho = torch.linalg.vector_norm(apart, dim=2) + (4 * rounding + 1e-13)[:, None] * sizes.max()
        return replace(head, distances=above(rho, 100, positive=True))


# --- a contract: the largest allowances alone, to first order ---------------------------------------------------------


def linear_bounds(head: sf.SoftmaxHead, allowances: sf.Allowances) -> sf.Bounds:
    """|dL| <= 2 d, TV <= d/2 since tanh(x) <= x, |dg| <= (H d + 2 a)/tau; margin > 2 d. d and a are the largest."""
    d, a = allowances.d.amax(dim=1), allowances.a.amax(dim=1)

    def outward(bound: Tensor) -> Tensor:
        return head.outward(bound, allowances, conditioned=False)

    return sf.Bounds(
        loss=outward(2 * d),
        probability=outward(d / 2),
        gradient=outward((head.h_bound * d + 2 * a) * head.gradient_scale),
        margin_use=margin_use(head.log_probabilities, outward(2 * d)[:, None].expand_as(allowances.d), head.log_error),
    )


LINEAR = sf.Contract(name="linear", bounds=linear_bounds)
TIERS = (
    Step(name="linear", contract=LINEAR, simple=True),
    Step(name="geometry", contract=GEOMETRY),
    Step(name="centered", contract=CENTERED),
)

# --- a dtype: one row -------------------------------------------------------------------------------------------------

HALF = sf.Format(
    dtype=torch.float16,
    ulps=sf.Ulps(exp=1.1, log1p=1.1, hypot=1.1),
    most_blocks=16,
    smallest_nu=2.0,
    largest_exponent=12,
)
KIND = sf.Kind(
    name="seam-linear",
    bank=Head,
    states=LinearStates,
    tensors={"weight": sf.BankTensor(shape=("classes", "dim")), "bias": sf.BankTensor(shape=("classes",))},
    columns={"labels": kinds.LABEL, "hidden": kinds.FEATURE, "temperature": kinds.TEMPERATURE},
    needed=("hidden", "labels", "temperature", "weight", "bias"),
)


@pytest.fixture(scope="module", autouse=True)
def added() -> Iterator[None]:
    """All four, while these tests run."""
    sf.register_kind(KIND)
    sf.register_contract(LINEAR)
    sf.register_format(HALF)
    sf.register_realization("rounded-weights", lambda kept: RoundedWeights(getattr(torch, kept["dtype"][6:])))
    yield
    del (
        kinds._KINDS[KIND.name],
        registry._CONTRACTS[LINEAR.name],
        FORMATS[HALF.dtype],
        plan._BUILDERS["rounded-weights"],
    )


def hidden_states(count: int = 24, dim: int = 12) -> LinearStates:
    """Hidden vectors near their class, some close to a tie."""
    g = torch.Generator().manual_seed(3407)
    weight = torch.randn(3, dim, generator=g, dtype=torch.float64)
    labels = torch.randint(0, 3, (count,), generator=g)
    hidden = 0.4 * weight[labels] + torch.randn(count, dim, generator=g, dtype=torch.float64)
    hidden[: count // 4] *= 1e-3
    return LinearStates(
        Head(weight, torch.tensor([0.1, 0.0, -0.2], dtype=torch.float64)), hidden, labels, torch.tensor(0.7)
    )


def true_errors(states: LinearStates, weight: Tensor) -> list[tuple[arb, arb, arb, bool]]:
    """|dL|, TV and |dg| of every state in Arb, and whether both heads predict the same class."""
    found = []
    with ctx.workprec(300):
        c = [arb(x) for x in states.bank.bias.tolist()]
        for n in range(len(states)):
            h, tau = [arb(x) for x in states.hidden[n].tolist()], arb(states.temperature[n].item())
            y = int(states.labels[n])
            sides = []
            for rows in (states.bank.weight, weight):
                w = [[arb(x) for x in row] for row in rows.tolist()]
                q = [
                    (sum((a * b for a, b in zip(r, h, strict=True)), arb(0)) + s) / tau
                    for r, s in zip(w, c, strict=True)
                ]
                total = sum((x.exp() for x in q), arb(0))
                p = [x.exp() / total for x in q]
                pull = [(x - (j == y)) / tau for j, x in enumerate(p)]
                gradient = [sum((u * r[i] for u, r in zip(pull, w, strict=True)), arb(0)) for i in range(states.dim)]
                sides.append((-p[y].log(), p, gradient, max(range(3), key=lambda j: float(q[j].mid()))))
            (loss, p, g, top), (loss_hat, pi, g_hat, top_hat) = sides
            tv = sum((abs(a - b) for a, b in zip(p, pi, strict=True)), arb(0)) / 2
            length = sum(((a - b) ** 2 for a, b in zip(g, g_hat, strict=True)), arb(0)).sqrt()
            found.append((abs(loss_hat - loss), tv, length, top == top_hat))
    return found


CONTRACTS = ("linear", "geometry", "conditioned", "centered")


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_new_objective_and_realization_are_certified(contract: str, dtype: torch.dtype) -> None:
    states, realization = hidden_states(), RoundedWeights(dtype)
    budgets = sf.Budgets(loss=2e-2, probability=1e-2, gradient=0.1, prediction=True)
    found = sf.certify(states, budgets, realization, contract)
    truth = true_errors(states, states.bank.weight.to(dtype).double())
    closest = 0.0
    for n, (loss, tv, gradient, same) in enumerate(truth):
        for name, error in (("loss", loss), ("probability", tv), ("gradient", gradient)):
            bound = getattr(found, name)[n].item()
            assert error <= bound
            closest = max(closest, float(error) / bound)
        assert same or not found.prediction[n]
    # the bounds are not idle, and both verdicts occur
    assert closest > 0.01
    assert set(found.verdict) <= {"certified", "inconclusive"}
    assert found.certified.any() or contract == "linear" or dtype == torch.bfloat16
    assert torch.equal(found.certified, found.headroom >= 1)
    assert f"state 3: {found.verdict[3]} (contract {contract}" in str(found.explain(3))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_they_are_inverted(contract: str) -> None:
    """Weights moved by b* of their length keep the budgets, whichever way they are moved."""
    states, budgets = hidden_states(), sf.Budgets(loss=1e-2, gradient=5e-2)
    exact = RoundedWeights(torch.float64)
    found = sf.tolerance(states, budgets, exact, contract)
    assert (found.status == "bounded").all()
    assert (found.upper <= found.b * (1 + 1e-9)).all()
    g = torch.Generator().manual_seed(1)
    weight = states.bank.weight
    for n in range(len(states)):
        for _ in range(3):
            step = torch.nn.functional.normalize(torch.randn(weight.shape, generator=g, dtype=torch.float64), dim=1)
            lengths = torch.linalg.vector_norm(weight, dim=1, keepdim=True)
            ((loss, _, gradient, _),) = true_errors(
                states[n : n + 1], weight + found.b[n] * (1 - 1e-9) * lengths * step
            )
            assert loss <= 1e-2
            assert gradient <= 5e-2


def test_they_go_through_a_cascade() -> None:
    states, budgets = hidden_states(), sf.Budgets(loss=1e-2, gradient=4e-2, prediction=True)
    found = sf.cascade(states, budgets, RoundedWeights(torch.float16), tiers=TIERS)
    last = sf.certify(states, budgets, RoundedWeights(torch.float16), "centered")
    assert (found.verdict == last.verdict).all()
    assert sum(found.settled.values()) == len(states)
    assert list(found.settled) == ["linear", "geometry", "centered", "open"]
    assert len({*found.tier}) >= 2


def test_they_are_audited(tmp_path: Path) -> None:
    states = hidden_states()
    with sf.CollectionWriter(tmp_path / "c", "made by a test") as writer:
        writer.add(states, source="test", dataset="linear", run="a", step=0)
    budgets = sf.Budgets(loss=2e-2, gradient=0.1)
    result = sf.audit(
        tmp_path / "c", budgets, out=tmp_path / "a", contract="linear", realization=RoundedWeights(torch.float16)
    )
    assert "weights in torch.float16" in result.plan.words()
    found = sf.certify(states, budgets, RoundedWeights(torch.float16), "linear")
    assert result.summary.states == len(states)
    assert result.summary.certified == int(found.certified.sum())
    (columns,) = read_results(tmp_path / "a")
    assert columns["loss_bound"].tolist() == found.loss.tolist()
    assert columns["b"].tolist() == sf.tolerance(states, budgets, RoundedWeights(torch.float16), "linear").b.tolist()
    assert not any(name.startswith(("headroom_", "certified_", "cheapest_order")) for name in columns)
    page = write_page(tmp_path / "a", sf.open_collection(tmp_path / "c")).read_text()
    assert "weights in torch.float16" in page
    # continued, and never mixed with another realization's
    again = sf.audit(
        tmp_path / "c", budgets, out=tmp_path / "a", contract="linear", realization=RoundedWeights(torch.float16)
    )
    assert again.summary == result.summary
    with pytest.raises(FileExistsError, match="another question"):
        sf.audit(tmp_path / "c", budgets, out=tmp_path / "a", realization=RoundedWeights(torch.bfloat16))
    checked = CliRunner().invoke(app, ["verify", str(tmp_path / "a")])
    assert checked.exit_code == 3
    assert "does not know the realization" in checked.output


def vmf_states() -> sf.States:
    g = torch.Generator().manual_seed(7)
    mu = torch.nn.functional.normalize(torch.randn(3, 16, generator=g, dtype=torch.float64), dim=1)
    f = torch.nn.functional.normalize(torch.randn(6, 16, generator=g, dtype=torch.float64), dim=1)
    return sf.States(sf.ClassBank(mu, [2.0, 3.0, 4.0]), f, torch.randint(0, 3, (6,), generator=g), 0.7)


def test_a_new_dtype_is_certified_inverted_and_audited(tmp_path: Path) -> None:
    """Executed in float16, with the new contract among others, against the exact objective."""
    states, pair = vmf_states(), sf.DebyePair(order=2)
    budgets = sf.Budgets(loss=0.2, probability=0.1)
    for contract in CONTRACTS:
        found = sf.certify(states, budgets, pair, contract, scope="execution", dtype=torch.float16)
        executed = sf.Execution(pair, torch.float16).run(states)
        assert executed.loss.dtype == torch.float16
        for i, state in enumerate(states_of(states)):
            ours = Numbers(
                float(executed.loss[i]),
                executed.log_probabilities[i].exp().tolist(),
                executed.gradient[i].tolist(),
                int(executed.scores[i].argmax()),
            )
            errors = state.distances(ours)
            for name in ("loss", "probability", "gradient"):
                assert verdict(getattr(errors, name), getattr(found, name)[i].item()) == "within"
        b = sf.tolerance(states, budgets, pair, contract, scope="execution", dtype=torch.float16)
        assert (b.b > 0).all()
        assert (b.b <= sf.tolerance(states, budgets, pair, contract).upper).all()
    tiers = sf.cascade(states, budgets, pair, tiers=TIERS, scope="execution", dtype=torch.float16)
    last = sf.certify(states, budgets, pair, scope="execution", dtype=torch.float16)
    assert (tiers.verdict == last.verdict).all()
    with sf.CollectionWriter(tmp_path / "c", "made by a test") as writer:
        writer.add(states, source="test", dataset="random", run="a", step=0)
    result = sf.audit(
        tmp_path / "c", budgets, out=tmp_path / "a", scope="execution", dtype="float16", contract="linear"
    )
    (columns,) = read_results(tmp_path / "a")
    assert result.summary.states == 6
    assert (columns["execution_status"] == "inside").all()
    linear = sf.certify(states, budgets, pair, "linear", scope="execution", dtype=torch.float16)
    assert columns["loss_bound"].tolist() == linear.loss.tolist()


def test_names_that_are_taken_are_refused() -> None:
    with pytest.raises(ValueError, match="'linear' is taken"):
        sf.register_contract(replace(LINEAR, bounds=sf.geometry_bounds))
    with pytest.raises(ValueError, match="'rounded-weights' is taken"):
        sf.register_realization("rounded-weights", lambda _: RoundedWeights(torch.float16))
    with pytest.raises(ValueError, match=r"Expected contract in \['centered', 'conditioned', 'geometry', 'linear'\]"):
        sf.certify(hidden_states(), sf.Budgets(loss=1.0), RoundedWeights(torch.float16), "none")
    with pytest.raises(TypeError, match="which a pair realizes, but got LinearStates"):
        sf.certify(hidden_states(), sf.Budgets(loss=1.0), sf.DebyePair())
    with pytest.raises(ValueError, match="which has a scope of its own"):
        sf.certify(hidden_states(), sf.Budgets(loss=1.0), RoundedWeights(torch.float16), scope="execution")
