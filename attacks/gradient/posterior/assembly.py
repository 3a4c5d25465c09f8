"""Which atoms make up the update together: a batch as a choice of B rows with known gradients.

With t_m = <G, g_m> and the Gram matrix K = <g_m, g_n> of some atoms, the fit of any choice of B rows follows from
numbers: one row of K per change, nothing of the size of the weights. Gibbs sampling over the choices, with noise that
falls to the true one, costs so little that thousands of atoms are searched by several chains at once, or by a
population of them of which the better ones are copied on the way, as in `annealing`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from leakledger.attacks.gradient.posterior.atoms import Atoms
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.resampling import drawn_anew


class Assembly:
    """Choices of `atoms`: `index` (M, F), `labels` (M,).

    Where it is not known how many rows there are, the last atom is that there is none, and the number of rows counts as
    if it were the expected one (`present` (M,): 0 of that atom).
    """

    def __init__(self, evidence: Evidence, atoms: Atoms) -> None:
        self.evidence, self.index, self.labels, self.log_prior = evidence, atoms.index, atoms.labels, atoms.log_prior
        self.gram, self.target = atoms.gram().float(), atoms.towards(evidence.total).float()
        self.present = torch.ones_like(self.target)
        if evidence.choices is not None:
            self._with_none()
        known = [] if evidence.labels is None else torch.unique(evidence.labels).tolist()
        self.barred = {y: torch.where(self.labels == y, 0.0, -torch.inf) for y in known}

    def _with_none(self) -> None:
        """Adds the atom without a row."""
        choices, k = self.evidence.choices, self.evidence.size
        assert choices is not None
        self.index = torch.cat([self.index, self.index[:1]])
        self.labels = torch.cat([self.labels, self.labels[:1]])
        self.present = functional.pad(self.present, (0, 1))
        none = choices[k - 1 : k] - choices[k : k + 1] if k else choices.new_zeros(1)
        self.log_prior = torch.cat([self.log_prior, none])
        self.gram, self.target = functional.pad(self.gram, (0, 1, 0, 1)), functional.pad(self.target, (0, 1))

    def start(self, chains: int, coins: torch.Generator, weights: Tensor | None = None) -> Tensor:
        """(C, B) atoms at random, of the right labels, by `weights` (M,) if there are any."""
        fits = self._fitting()
        likely = torch.ones_like(self.target) if weights is None else weights
        if len(likely) < len(self.target):  # of the atom without a row, as many as are to be expected
            likely = functional.pad(likely, (0, 1), value=max(self.evidence.rows - self.evidence.size, 1))
        return torch.stack([f[torch.multinomial(likely[f], chains, True, generator=coins)] for f in fits], 1)

    def _fitting(self) -> list[Tensor]:
        """The atoms that each row of the batch may be."""
        if self.evidence.labels is None:
            return [torch.arange(len(self.labels), device=self.labels.device)] * self.evidence.rows
        return [torch.nonzero(self.labels == y)[:, 0] for y in self.evidence.labels]

    def choose(
        self, chosen: Tensor, noises: Sequence[float], coins: torch.Generator, population: bool = False
    ) -> Tensor:
        """`chosen` (C, B) after a sweep over all rows at each of `noises`. As a `population`, it is drawn anew between
        two of them, by how much likelier each choice becomes under the lower one.
        """
        for noise, following in zip(noises, [*noises[1:], noises[-1]], strict=True):
            self._sweep(chosen, noise, coins)
            if not population:
                continue
            followers = drawn_anew(self.squares(chosen) * (noise**-2 - following**-2) / 2, coins)
            if followers is not None:
                chosen = chosen[followers]
        return chosen

    def _sweep(self, chosen: Tensor, noise: float, coins: torch.Generator) -> None:
        """Draws each row's atom anew, in place."""
        half, labels = self.gram.diagonal() / 2, self.evidence.labels
        left = self.target - self.gram[chosen].sum(1)  # (C, M): <residual, g_m>
        for i in torch.randperm(self.evidence.rows, generator=coins, device=chosen.device).tolist():
            left += self.gram[chosen[:, i]]
            weights = (left - half) / noise**2 + self.log_prior
            if labels is not None:
                weights = weights + self.barred[int(labels[i])]
            chosen[:, i] = torch.multinomial(torch.softmax(weights, -1), 1, generator=coins)[:, 0]
            left -= self.gram[chosen[:, i]]

    def squares(self, chosen: Tensor) -> Tensor:
        """(C,) the squared residuals of choices (C, B)."""
        own = torch.stack([self.gram[each][:, each].double().sum() for each in chosen])
        return self.evidence.square - 2 * self.target[chosen].double().sum(1) + own

    def costs(self, chosen: Tensor) -> Tensor:
        """(C,) minus the log posteriors of choices (C, B), entries being known up to normal noise."""
        return self.squares(chosen) / (2 * self.evidence.noise**2) - self.log_prior[chosen].sum(1)
