"""The supervised vMF objective (app:objectives) as a trainable loss: classes and embeddings are both distributions."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from suffice.nn import primitives
from suffice.nn.statistics import IGNORED
from suffice.objectives.sampling import sample_vmf
from suffice.states import ClassBank, States

__all__ = ["SupervisedVMFLoss"]


def _draw(mu: Tensor, kappa: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """The sampler, which a trace leaves out."""
    if not torch.compiler.is_compiling():
        return sample_vmf(mu, kappa, count, generator=generator)
    from suffice.nn.eager import draw_eagerly

    found: Tensor = draw_eagerly(mu, kappa, count, generator)
    return found


class SupervisedVMFLoss(nn.Module):
    """E_s LSE_j(Phi(|w_j + beta s|) - Phi(k_j)) - beta R(a) R(k_y) cos(z, w_y) with k_j = |w_j| and a = |z|.

    The class vectors w_j are parameters and so is beta unless `learn_beta` is false. Embeddings z are not normalised:
    their length is their concentration. The expectation is over `samples` unit vectors s ~ vMF(z/a, a), drawn anew in
    every call; gradients pass through the direction of a sample, its angle to z is held fixed.

    >>> loss = SupervisedVMFLoss(num_classes=10, dim=16)
    >>> loss(torch.randn(4, 16, requires_grad=True), torch.tensor([0, 1, 2, 3])).backward()
    """

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        beta: float = 16.0,
        learn_beta: bool = True,
        samples: int = 4,
        initial_concentration: float | None = None,
        order: int | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2 or dim < 2 or samples < 1 or not beta > 0:
            raise ValueError(
                f"Expected num_classes >= 2, dim >= 2, samples >= 1 and beta > 0, "
                f"but got {num_classes}, {dim}, {samples} and {beta}"
            )
        self.num_classes, self.dim, self.samples, self.order = num_classes, dim, samples, order
        self.nu = dim / 2 - 1
        # at k = p the ratio is 0.62: neither flat nor saturated
        k = float(dim) if initial_concentration is None else initial_concentration
        self.weights = nn.Parameter(k * nn.functional.normalize(torch.randn(num_classes, dim), dim=1))
        self.log_beta = nn.Parameter(torch.tensor(math.log(beta)), requires_grad=learn_beta)

    @property
    def beta(self) -> float:
        """The inverse temperature in use."""
        return float(self.log_beta.detach().exp())

    def forward(
        self,
        embeddings: Float[Tensor, "queries dim"],
        labels: Int[Tensor, " queries"],
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The mean loss of a batch, with fresh samples.

        Rows of label -100 are left out, as torch's losses do. A batch without any other row has a loss of 0, whose
        gradients are zero.
        """
        with torch.autocast(embeddings.device.type, enabled=False):
            z, w, beta = self._wide(embeddings)
            if not len(z):
                return z.sum() + 0 * (w.sum() + beta)
            a, k = torch.linalg.vector_norm(z, dim=1), torch.linalg.vector_norm(w, dim=1)
            mu_z, mu = nn.functional.normalize(z, dim=1), nn.functional.normalize(w, dim=1)
            s = self._samples(mu_z, a.detach(), generator)
            q = primitives.scores(self.nu, beta * s, mu, k, self.order)
            normaliser = q.logsumexp(dim=1).view(len(z), -1).mean(dim=1)
            asked = labels.long() != IGNORED
            owner = torch.where(asked, labels.long(), 0)
            cosine = (mu_z * mu[owner]).sum(dim=1)
            strength = primitives.ratio(self.nu, a, self.order) * primitives.ratio(self.nu, k, self.order)[owner]
            losses = torch.where(asked, normaliser - beta * strength * cosine, 0.0)
            return losses.sum() / asked.sum().clamp_min(1)

    def logits(self, embeddings: Float[Tensor, "queries dim"]) -> Float[Tensor, "queries classes"]:
        """beta R(a) R(k_j) cos(z, w_j) - E_s(...), whose second term is common to all classes and left out."""
        with torch.autocast(embeddings.device.type, enabled=False):
            z, w, beta = self._wide(embeddings)
            a, k = torch.linalg.vector_norm(z, dim=1), torch.linalg.vector_norm(w, dim=1)
            cosines = nn.functional.normalize(z, dim=1) @ nn.functional.normalize(w, dim=1).T
            strengths = primitives.ratio(self.nu, a, self.order)[:, None] * primitives.ratio(self.nu, k, self.order)
            return beta * strengths * cosines

    @torch.no_grad()
    def states(self, embeddings: Float[Tensor, "queries dim"], labels: Int[Tensor, " queries"]) -> States:
        """Class vectors as a bank, embeddings as features with their length, and temperature 1/beta.

        `sf.evaluate_supervised` takes their bank, features and labels together with samples. They are states of the
        second objective: `certify` and `tolerance` are about the contrastive one.
        """
        z, w, beta = self._wide(embeddings)
        k = torch.linalg.vector_norm(w.double(), dim=1)
        return States(ClassBank(w.double() / k[:, None], k), z, labels, float(1 / beta))

    def _wide(self, embeddings: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dtype = torch.promote_types(embeddings.dtype, torch.float32)
        return embeddings.to(dtype), self.weights.to(dtype), self.log_beta.exp().to(dtype)

    def _samples(self, mu_z: Tensor, a: Tensor, generator: torch.Generator | None) -> Float[Tensor, "samples dim"]:
        s = _draw(mu_z.detach(), a, self.samples, generator)
        cosine = (s * mu_z.detach()[:, None]).sum(dim=2, keepdim=True)
        sideways = s - cosine * mu_z.detach()[:, None]
        # the same samples as functions of the direction: what is beside it stays orthogonal to first order
        moved = cosine * mu_z[:, None] + sideways - (sideways * mu_z[:, None]).sum(dim=2, keepdim=True) * mu_z[:, None]
        return nn.functional.normalize(moved, dim=2).flatten(0, 1)

    def extra_repr(self) -> str:
        return f"{self.num_classes}, {self.dim}, samples={self.samples}"
