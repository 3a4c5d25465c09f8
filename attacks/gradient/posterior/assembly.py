"""Which rows of a pool make up the update together: a batch as a choice of B atoms with known gradients.

The gradient of a known row is known in every layer, so with t_m = <G, g_m> and the Gram matrix K = <g_m, g_n> of a
pool, both in closed form, the fit of any choice of B rows follows from numbers: one row of K per change, nothing of the
size of the weights. Gibbs sampling over the choices, with noise that falls to the true one, costs so little that pools
of thousands of rows are searched by several chains at once.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import encoded, prior_of
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients

OUTPUTS_AT_ONCE = 16  # of a layer, whose gradients are held in memory for all atoms


class Assembly:
    """Atoms: every row of `pool` (n, F) with every class that the batch may have; `index` (M, F), `labels` (M,).

    `scale`: the factor that the sum was shrunk by. Where it is not known how many rows there are, the last atom is that
    there is none, and the number of rows counts as if it were the expected one (`present` (M,): 0 of that atom).
    """

    def __init__(
        self, network: RowGradients, cells: Sequence[Cell], evidence: Evidence, pool: Tensor, scale: float = 1.0
    ) -> None:
        self.evidence = evidence
        classes = torch.arange(network.classes, device=pool.device)
        possible = classes if evidence.labels is None else torch.unique(evidence.labels)
        self.index = pool.repeat(len(possible), 1)
        self.labels = possible.repeat_interleave(len(pool))
        self.log_prior = prior_of(cells, self.index, self.labels) + evidence.label_prior[self.labels]
        columns = encoded(network, cells, self.index)
        errors, inputs = network.errors(network.first(columns[None]).before, self.labels[None])
        gram = columns.new_zeros(len(columns), len(columns))
        target = columns.new_zeros(len(columns))
        norm = torch.zeros_like(target)
        for layer, (error, given, total) in enumerate(
            zip((e[0] for e in errors), [columns, *(i[0] for i in inputs)], evidence.total, strict=True)
        ):
            norm += (error**2).sum(-1) * ((given**2).sum(-1) + 1)
            if evidence.weights is None:
                gram += (error @ error.T) * (given @ given.T + 1)
            else:
                gram += _weighted_gram(error, given, evidence.weights[layer])
                total = total * evidence.weights[layer]
            target += ((error @ total[:, :-1]) * given).sum(-1) + error @ total[:, -1]
        factor = scale * evidence.clipped(norm)
        self.gram, self.target = gram * factor[:, None] * factor, target * factor
        self.present = torch.ones_like(self.target)
        if evidence.choices is not None:
            self._with_none()

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

    def start(self, chains: int, coins: torch.Generator) -> Tensor:
        """(C, B) atoms at random, of the right labels."""
        fits = self._fitting()
        return torch.stack([f[torch.randint(len(f), (chains,), generator=coins, device=f.device)] for f in fits], 1)

    def _fitting(self) -> list[Tensor]:
        """The atoms that each row of the batch may be."""
        if self.evidence.labels is None:
            return [torch.arange(len(self.labels), device=self.labels.device)] * self.evidence.rows
        return [torch.nonzero(self.labels == y)[:, 0] for y in self.evidence.labels]

    def choose(self, chosen: Tensor, noises: Sequence[float], coins: torch.Generator) -> Tensor:
        """`chosen` (C, B) after a sweep over all rows at each of `noises`."""
        half = self.gram.diagonal() / 2
        labels = self.evidence.labels
        barred = None if labels is None else {int(y): torch.where(self.labels == y, 0.0, -torch.inf) for y in labels}
        for noise in noises:
            left = self.target - self.gram[chosen].sum(1)  # (C, M): <residual, g_m>
            for i in torch.randperm(self.evidence.rows, generator=coins, device=chosen.device).tolist():
                left += self.gram[chosen[:, i]]
                weights = (left - half) / noise**2 + self.log_prior
                if labels is not None and barred is not None:
                    weights = weights + barred[int(labels[i])]
                chosen[:, i] = torch.multinomial(torch.softmax(weights, -1), 1, generator=coins)[:, 0]
                left -= self.gram[chosen[:, i]]
        return chosen


def _weighted_gram(errors: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """(M, M) inner products of gradients of one layer, with errors (M, out) and inputs (M, in), each entry times its
    `weight` (out, in + 1). They are built for this, some outputs at a time.
    """
    whole, gram = functional.pad(inputs, (0, 1), value=1.0), errors.new_zeros(len(errors), len(errors))
    for start in range(0, len(weight), OUTPUTS_AT_ONCE):
        some = slice(start, start + OUTPUTS_AT_ONCE)
        built = (errors[:, some, None] * whole[:, None] * weight[some].sqrt()).flatten(1)
        gram += built @ built.T
    return gram
