"""Rows with labels as atoms: vectors whose gradients are known, of which an update is the sum of a few.

The gradient of a known row is known in every layer, and so are its products with an update and with the gradient of any
other row, in closed form: <g, g'> = sum_l <d_l, d'_l> (<a_l, a'_l> + 1), d_l being the errors of layer l and a_l its
inputs. What makes up the update is then a matter of a few numbers per atom, nothing of the size of the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import encoded, prior_of
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients

OUTPUTS_AT_ONCE = 16  # of a layer, whose gradients are held in memory for all atoms


@dataclass(frozen=True, eq=False)
class Atoms:
    """M rows `index` (M, F) with `labels` (M,): their `log_prior` (M,), and per layer the `errors` (M, out), times what
    defenses leave of the row's gradient, and the `inputs` (M, in). Entries of the update count by `weights`.
    """

    index: Tensor
    labels: Tensor
    log_prior: Tensor
    errors: list[Tensor]
    inputs: list[Tensor]
    weights: list[Tensor] | None

    def __len__(self) -> int:
        return len(self.labels)

    def some(self, which: Tensor) -> "Atoms":
        """Those numbered `which`, or those for which it is true."""
        errors, inputs = ([part[which] for part in parts] for parts in (self.errors, self.inputs))
        return Atoms(self.index[which], self.labels[which], self.log_prior[which], errors, inputs, self.weights)

    def joined(self, other: "Atoms") -> "Atoms":
        """These and others of the same evidence."""
        pairs = zip(
            [self.index, self.labels, self.log_prior, *self.errors, *self.inputs],
            [other.index, other.labels, other.log_prior, *other.errors, *other.inputs],
            strict=True,
        )
        index, labels, log_prior, *layers = (torch.cat(pair) for pair in pairs)
        count = len(self.errors)
        return Atoms(index, labels, log_prior, layers[:count], layers[count:], self.weights)

    def gram(self, other: "Atoms | None" = None) -> Tensor:
        """(M, N) inner products, in double precision, with the gradients of other atoms or their own."""
        also = self if other is None else other
        total = torch.zeros(len(self), len(also), dtype=torch.float64, device=self.labels.device)
        for layer, (e, a, f, b) in enumerate(zip(self.errors, self.inputs, also.errors, also.inputs, strict=True)):
            if self.weights is None:
                total += (e.double() @ f.double().T) * (a.double() @ b.double().T + 1)
            else:
                total += _weighted(self.weights[layer], (e, a), (f, b))
        return total

    def towards(self, layers: Sequence[Tensor]) -> Tensor:
        """(M,) inner products with what has layers (out, in + 1)."""
        total = torch.zeros_like(self.log_prior, dtype=torch.float64)
        for number, (e, a, layer) in enumerate(zip(self.errors, self.inputs, layers, strict=True)):
            heard = layer if self.weights is None else layer * self.weights[number]
            total += (((e @ heard[:, :-1]) * a).sum(-1) + e @ heard[:, -1]).double()
        return total

    def added(self, counts: Tensor) -> list[Tensor]:
        """Per layer (out, in + 1) the sum of the gradients, each times its count (M,)."""
        scaled = [e * counts[:, None].to(e.dtype) for e in self.errors]
        return [torch.cat([e.T @ a, e.sum(0)[:, None]], 1) for e, a in zip(scaled, self.inputs, strict=True)]


def atoms_of(
    network: RowGradients, cells: Sequence[Cell], evidence: Evidence, index: Tensor, labels: Tensor, scale: float = 1.0
) -> Atoms:
    """Rows `index` (M, F) with `labels` (M,) as atoms of a sum that was shrunk by the factor `scale`."""
    columns = encoded(network, cells, index)
    before, after = network.errors(network.first(columns[None]), labels[None])
    errors, inputs = [e[0] for e in before], [columns, *(a[0] for a in after)]
    norm = torch.stack([(e**2).sum(-1) * ((a**2).sum(-1) + 1) for e, a in zip(errors, inputs, strict=True)]).sum(0)
    factor = scale * evidence.clipped(norm)
    log_prior = prior_of(cells, index, labels) + evidence.label_prior[labels]
    return Atoms(index, labels, log_prior, [e * factor[:, None] for e in errors], inputs, evidence.weights)


def with_labels(evidence: Evidence, rows: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """`rows` (n, F) with every class that the batch may have: (M, F) and (M,)."""
    every = torch.arange(classes, device=rows.device)
    possible = every if evidence.labels is None else torch.unique(evidence.labels)
    return rows.repeat(len(possible), 1), possible.repeat_interleave(len(rows))


def _weighted(weight: Tensor, one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """(M, N) inner products of gradients of one layer, with errors (M, out) and inputs (M, in), each entry times its
    `weight` (out, in + 1). They are built for this, some outputs at a time.
    """
    total = torch.zeros(len(one[0]), len(other[0]), dtype=torch.float64, device=weight.device)
    wholes = [functional.pad(inputs, (0, 1), value=1.0) for _, inputs in (one, other)]
    for start in range(0, len(weight), OUTPUTS_AT_ONCE):
        some = slice(start, start + OUTPUTS_AT_ONCE)
        built = [
            (errors[:, some, None] * whole[:, None] * weight[some].sqrt()).flatten(1)
            for (errors, _), whole in zip((one, other), wholes, strict=True)
        ]
        total += (built[0] @ built[1].T).double()
    return total
