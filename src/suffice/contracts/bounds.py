"""What goes into a contract and what comes out: a softmax head, allowances on its errors, bounds on its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.numerics.softmax import at_class, exclusive, without

__all__ = [
    "Allowances",
    "Bounds",
    "HeadRow",
    "SoftmaxHead",
    "grown",
    "least_margin",
    "margin_use",
    "margin_used",
    "smaller_use",
]


# no slots: the slack is formed once
@dataclass(frozen=True, kw_only=True)
class HeadRow:
    """What of a softmax head is one number a row, and how far it is to be trusted."""

    gradient_scale: Float[Tensor, " queries"]
    log_error: Float[Tensor, " queries"] | None
    classes: int
    h_bound: float = 1.0

    @cached_property
    def known(self) -> Bool[Tensor, " queries"]:
        """Where anything is known of the log-probabilities."""
        like = self.gradient_scale
        return torch.ones_like(like, dtype=torch.bool) if self.log_error is None else torch.isfinite(self.log_error)

    @property
    def roundings(self) -> float:
        """A relative margin above all rounding in the evaluation of a bound (docs/theory, 6.6)."""
        return 8 * (self.classes + 500) * torch.finfo(self.gradient_scale.dtype).eps

    @cached_property
    def slack(self) -> Float[Tensor, " queries"]:
        """The same for a bound of probabilities: a factor e^{3 omega} at most if their logarithms move by omega."""
        if self.log_error is None:
            return torch.full_like(self.gradient_scale, self.roundings)
        return torch.expm1(3 * self.log_error) + self.roundings


# no slots: what follows from the log-probabilities alone is formed once, and kept
@dataclass(frozen=True, kw_only=True)
class SoftmaxHead:
    """A softmax cross-entropy at fixed approximate outputs. Nothing here is particular to vMF.

    `gradient_scale` is the factor between class-gradient vectors h_j and the gradient (1/tau here), `h_bound` bounds
    every exact |h_j| (1 here), `distances` are rho_j = |hhat_j - sum_i pi_i hhat_i|, which only the centred contract
    uses, and `log_error` bounds how far each log-probability may be from the one that it stands for. Where `divergence`
    is set, contracts bound KL as well: that of the softmax of these log-probabilities, or of returned ones, each of
    which is within `log_after` of its own. `probabilities` are the exponentials of the first, if they are at hand, to
    some roundings and in one order of operations or another.
    """

    log_probabilities: Float[Tensor, "queries classes"]
    target: Int[Tensor, " queries"]
    gradient_scale: Float[Tensor, " queries"]
    h_bound: float = 1.0
    distances: Float[Tensor, "queries classes"] | None = None
    log_error: Float[Tensor, " queries"] | None = None
    divergence: bool = False
    log_after: Float[Tensor, "queries classes"] | None = None
    probabilities: Float[Tensor, "queries classes"] | None = None

    def __post_init__(self) -> None:
        """A slack of 1e-12 is nothing in float32: what is less precise than the rest would leave bounds unraised."""
        dtype = self.log_probabilities.dtype
        for name in ("gradient_scale", "distances", "log_error", "log_after", "probabilities"):
            other = getattr(self, name)
            if other is not None and other.dtype != dtype:
                raise TypeError(
                    f"Expected one dtype for a head, but got {name} in {other.dtype} beside {dtype}; convert one"
                )

    def __getitem__(self, rows: Int[Tensor, " rows"] | slice) -> SoftmaxHead:
        """The head of some rows."""
        return replace(
            self,
            log_probabilities=self.log_probabilities[rows],
            target=self.target[rows],
            gradient_scale=self.gradient_scale[rows],
            distances=None if self.distances is None else self.distances[rows],
            log_error=None if self.log_error is None else self.log_error[rows],
            log_after=None if self.log_after is None else self.log_after[rows],
            probabilities=None if self.probabilities is None else self.probabilities[rows],
        )

    def measured(self, distances: Float[Tensor, "queries classes"]) -> SoftmaxHead:
        """The same with distances; what has been formed of it is kept, and what they are used with is formed once."""
        other = replace(self, distances=distances)
        vars(other).update(pi=self.pi, rest=self.rest, top=self.top)
        return other

    @cached_property
    def pi(self) -> Float[Tensor, "queries classes"]:
        """The probabilities."""
        return self.log_probabilities.exp() if self.probabilities is None else self.probabilities

    @cached_property
    def rest(self) -> Float[Tensor, "queries classes"]:
        """The probability of all other classes, for each."""
        return exclusive(self.pi)

    @cached_property
    def top(self) -> Int[Tensor, " queries"]:
        """The most probable class."""
        return self.log_probabilities.argmax(dim=1)

    @cached_property
    def row(self) -> HeadRow:
        """What of it is one number a row."""
        return HeadRow(
            gradient_scale=self.gradient_scale,
            log_error=self.log_error,
            classes=self.log_probabilities.shape[1],
            h_bound=self.h_bound,
        )

    @property
    def known(self) -> Bool[Tensor, " queries"]:
        """Where anything is known of the log-probabilities: elsewhere no bound is finite."""
        return self.row.known

    @property
    def roundings(self) -> float:
        """A relative margin above all rounding in the evaluation of a bound (docs/theory, 6.6)."""
        return self.row.roundings

    @property
    def slack(self) -> Float[Tensor, " queries"]:
        """The same for a bound of probabilities: a factor e^{3 omega} at most if their logarithms move by omega."""
        return self.row.slack

    def scaled(self, log_bound: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """e^x times the gradient's scale: the product underflows or overflows only if the bound itself does."""
        return torch.exp(log_bound + torch.log(self.gradient_scale))

    def outward(
        self, bound: Float[Tensor, " queries"], allowances: Allowances, *, conditioned: bool = True
    ) -> Float[Tensor, " queries"]:
        """The bound raised by the slack, or by the roundings alone if it is not `conditioned` on probabilities.

        Outward, so that it also holds in exact arithmetic. A bound that underflowed is raised to the smallest normal
        number, unless there are no errors at all. Where nothing is known of the log-probabilities it is infinite, also
        without errors: nothing is certified there.
        """
        return self.raised(bound, allowances.moving(), conditioned=conditioned)

    def raised(
        self, bound: Float[Tensor, " queries"], moving: Bool[Tensor, " queries"], *, conditioned: bool = True
    ) -> Float[Tensor, " queries"]:
        """`outward` where it is known already which rows have any error."""
        least = torch.full_like(bound, torch.finfo(bound.dtype).tiny)
        raised = torch.maximum(bound, torch.where(moving, least, 0.0))
        raised = raised * (1 + (self.slack if conditioned else self.roundings))
        return torch.where(self.known, raised, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """Score allowances d_j >= |e_j| and ratio allowances a_j (both unscaled), and bounds on differences of errors.

    `to_target` bounds |e_j - e_y| and `to_top` bounds |e_j - e_w|, w the most probable class. Where all errors come
    from one pair they can be much smaller than d_j + d_y (docs/theory, 6.4); with other arrays they are None. Where
    they are `within` these sums, and 0 for the class itself, nobody has to see to that. (Gaps are bounds by themselves:
    to say so of others would make a bound larger, never smaller.)
    """

    d: Float[Tensor, "queries classes"]
    a: Float[Tensor, "queries classes"]
    to_target: Float[Tensor, "queries classes"] | None = None
    to_top: Float[Tensor, "queries classes"] | None = None
    within: bool = False

    def __post_init__(self) -> None:
        """Sums of these are right to a rounding of the least precise of them."""
        if any(each is not None and each.dtype != self.d.dtype for each in (self.a, self.to_target, self.to_top)):
            raise TypeError(f"Expected one dtype for all allowances, but got others than that of d, {self.d.dtype}")

    def of(self, head: SoftmaxHead) -> Allowances:
        """The same, or an error if they are in another dtype than the head: its slack is for roundings of its own."""
        if self.d.dtype != head.log_probabilities.dtype:
            raise TypeError(
                f"Expected allowances in {head.log_probabilities.dtype}, as the head is, but got {self.d.dtype}"
            )
        return self

    def __getitem__(self, rows: Int[Tensor, " rows"] | slice) -> Allowances:
        """The allowances of some rows; gaps that are one and the same stay so."""
        to_top = to_target = None if self.to_top is None else self.to_top[rows]
        if self.to_target is not self.to_top:
            to_target = None if self.to_target is None else self.to_target[rows]
        return Allowances(
            d=self.d[rows],
            a=self.a[rows],
            to_target=to_target,
            to_top=to_top,
            within=self.within,
        )

    def put(self, rows: Int[Tensor, " rows"], others: Allowances) -> Allowances:
        """The same with others in some rows."""

        def placed(ours: Tensor | None, theirs: Tensor | None) -> Tensor | None:
            return None if ours is None or theirs is None else ours.index_put((rows,), theirs)

        return Allowances(
            d=self.d.index_put((rows,), others.d),
            a=self.a.index_put((rows,), others.a),
            to_target=placed(self.to_target, others.to_target),
            to_top=placed(self.to_top, others.to_top),
            within=self.within and others.within,
        )

    def moving(self) -> Bool[Tensor, " queries"]:
        """Where there is any error at all."""
        return (self.d.amax(dim=1) > 0) | (self.a.amax(dim=1) > 0)

    def plus(self, other: Allowances) -> Allowances:
        """The allowances of a sum of two errors."""

        def total(ours: Tensor | None, theirs: Tensor | None) -> Tensor | None:
            return None if ours is None or theirs is None else ours + theirs

        return Allowances(
            d=self.d + other.d,
            a=self.a + other.a,
            to_target=total(self.to_target, other.to_target),
            to_top=total(self.to_top, other.to_top),
        )

    def scaled(self, factor: Float[Tensor, " queries"]) -> Allowances:
        """All allowances times a factor a row: the families of eq:uniform-allowance-family are such multiples."""
        # what underflows is raised, in sums twice: no longer within them
        return replace(
            self,
            within=False,
            d=grown(self.d, factor),
            a=grown(self.a, factor),
            to_target=None if self.to_target is None else grown(self.to_target, factor),
            to_top=None if self.to_top is None else grown(self.to_top, factor),
        )


def grown(values: Tensor, factor: Float[Tensor, " queries"]) -> Tensor:
    """Nonnegative values times a factor a row, outward: what underflows is the smallest normal number, unless zero."""
    f = factor.view(-1, *(1 for _ in values.shape[1:]))
    least = torch.finfo(values.dtype).tiny
    # zero alone is zero: what is no number stays none, and certifies nothing
    return torch.where((values == 0) | (f == 0), 0.0, (values * f).clamp_min(least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds on loss error, probability TV and gradient error, and how much of the margin the errors could use up.

    `kl` bounds the larger of KL(pi||P) and KL(P||pi), where that was asked for. `slow` is not above any of those of
    the gradient's bounds that may grow more slowly than the allowances do (docs/theory, 6.15a); None if none is known.
    """

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]
    margin_use: Float[Tensor, " queries"]
    kl: Float[Tensor, " queries"] | None = None
    slow: Float[Tensor, " queries"] | None = None

    def __getitem__(self, rows: Tensor) -> Bounds:
        """Those of some rows."""
        return Bounds(
            loss=self.loss[rows],
            probability=self.probability[rows],
            gradient=self.gradient[rows],
            margin_use=self.margin_use[rows],
            kl=None if self.kl is None else self.kl[rows],
            slow=None if self.slow is None else self.slow[rows],
        )

    def put(self, rows: Tensor, others: Bounds) -> Bounds:
        """The same with others in some rows."""
        kl = None if self.kl is None or others.kl is None else self.kl.index_put((rows,), others.kl)
        slow = None if self.slow is None or others.slow is None else self.slow.index_put((rows,), others.slow)
        return Bounds(
            loss=self.loss.index_put((rows,), others.loss),
            probability=self.probability.index_put((rows,), others.probability),
            gradient=self.gradient.index_put((rows,), others.gradient),
            margin_use=self.margin_use.index_put((rows,), others.margin_use),
            kl=kl,
            slow=slow,
        )

    @property
    def prediction(self) -> Bool[Tensor, " queries"]:
        """Whether exact and approximate prediction are certified to agree: strictly less than all of the margin."""
        return self.margin_use < 1


def least_margin(
    scores: Float[Tensor, "queries classes"], error: Float[Tensor, " queries"] | None = None
) -> Float[Tensor, " queries"]:
    """The score of the top class minus the second largest, and minus 2 `error`, the rounding of both; at least 0."""
    top_score, top = scores.max(dim=1)
    gap = top_score - without(scores, top, -torch.inf).amax(dim=1)
    return (gap if error is None else gap - 2 * error).clamp_min(0)


def margin_use(
    scores: Float[Tensor, "queries classes"],
    movement: Float[Tensor, "queries classes"],
    error: Float[Tensor, " queries"] | None = None,
) -> Float[Tensor, " queries"]:
    """max over j != w of movement_j/(score_w - score_j), w the top class; below 1 the winner is certified.

    `movement` bounds |e_j - e_w|. The scores may be the approximate ones or, the reference-side form of
    prop:contrastive-contract, the exact ones. `error` bounds the rounding of each score. A tie gives inf.
    """
    top_score, top = scores.max(dim=1)
    gaps = top_score[:, None] - scores
    if error is not None:
        gaps = gaps - 2 * error[:, None]
    use = torch.where(gaps > 0, movement / gaps, torch.inf)
    return without(use, top, 0.0).amax(dim=1)


def margin_used(
    head: SoftmaxHead, d: Float[Tensor, "queries classes"], to_top: Float[Tensor, "queries classes"]
) -> Float[Tensor, " queries"]:
    """The smaller of `margin_use` for movements `to_top` and of 2 max d over the least gap, raised past roundings.

    `to_top` is 0 for the top class. A tie, and a row of which nothing is known, is inf.
    """
    log_pi = head.log_probabilities
    # the difference first: that of two close numbers is exact, and what is taken off may be a rounding of either
    gaps = at_class(log_pi, head.top)[:, None] - log_pi
    if head.log_error is not None:
        gaps = gaps - 2 * head.log_error[:, None]
    gaps = gaps.scatter_(1, head.top[:, None], torch.inf).clamp_min_(0)
    return smaller_use(head, d.amax(dim=1), (to_top / gaps).amax(dim=1), gaps.amin(dim=1))


def smaller_use(head: HeadRow | SoftmaxHead, largest: Tensor, each: Tensor, gap: Tensor) -> Float[Tensor, " queries"]:
    """The same from max d, the largest movement over its gap, and the least gap of each row."""
    raised = 1 + head.roundings
    every = (2 * largest).clamp_min(torch.finfo(largest.dtype).tiny) * raised / gap
    each = each * raised
    # 0/0 at a tie without any movement
    used = torch.where(each < every, each, every)
    return torch.where(head.known & (used < torch.inf), used, torch.inf)
