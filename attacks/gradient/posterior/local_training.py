"""Local training seen as one gradient: that in the middle of its way, with what it is off by worked out.

What a client of FedAvg returns is the sum of the gradients of its local steps, taken along a way through the weights of
which both ends are known. Where steps are small, each row is in each epoch once, and the batches of an epoch are of one
size, its share of the sum is, to first order, its gradient in the middle of the way times the epochs, whatever the
batches and their order: what steps before the middle have too little those after it have too much (the midpoint rule;
the middle of the weights before each of n steps lies (n - 1) / 2n of the way). So `as_gradient` is the gradient of one
batch of all rows, at known weights, with errors: the curvature of the way, neurons that change sides on it, and the
order of rows, which is not known. A last batch that is smaller counts its rows for more, and nobody knows which these
are: that is one error more, up to `UNEVEN`.

Most of these errors follow from the rows, once they are nearly known: `followed` trains on the rows of the best chain,
in orders drawn at random that agree with the labels, and takes off the sum what such trainings differ by from their
gradient in the middle. What is left are errors of second order in the learning rate, by the order of rows alone. They
are taken for noise, as much as the best rows leave; so nothing that is claimed is sure (`Samples.guessed`).

Of several clients whose sum is known, each has its own way, and counts by its rows and its steps; the middle is that of
their mean, and what the sum is off by is not worked out.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.posterior.chains import Chains, squared
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.search import cost, repaired
from leakledger.attacks.observed.update import ObservedUpdate, Schedule

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
# Of the root mean square of the entries: what the midpoint rule leaves. With five epochs of four batches at a learning
# rate of 0.01 it is 0.05 to 0.11 on Adult, bank_churn and framingham.
DRIFT = 0.05
UNEVEN = 0.5  # of the mean share of a row: where they scatter by more, the gradient of one batch is no account of them
PASSES = 2  # times that the error is worked out anew
SWEEPS, REPAIRS = 6, 6  # visits of all cells after each, and repairs before them
ORDERS = 8  # in which the rows of the best chain are trained on


def as_gradient(update: ObservedUpdate) -> ObservedUpdate | str:
    """The mean gradient over the rows of a local training, in the middle of its way, or why there is none; labels in
    the order in which the first epoch has the rows.
    """
    clients, counted, spread = _counted(update)
    if spread > UNEVEN:
        return f"rows of local batches of such different sizes count too unevenly (by {spread:.1f} of their mean)"
    half = _middle(update) * update.training.rate / clients
    gradient = {name: g / (clients * counted) for name, g in update.gradient.items()}
    entries = np.concatenate([g.ravel() for g in gradient.values()])
    drift = 0.0 if counted == 1 else float(np.hypot(DRIFT, spread) * np.sqrt((entries**2).mean()))
    return replace(
        update,
        labels=update.labels[: update.rows],
        weights={name: w - half * update.gradient[name] for name, w in update.weights.items()},
        gradient=gradient,
        schedule=None,
        noise=float(np.hypot(update.noise / (clients * counted), drift)),
        stretched=update.stretched / (clients * counted),
    )


def of_one_step(update: ObservedUpdate) -> bool:
    """Whether every client took a single step, so that the sum is that of gradients at the weights sent."""
    return bool(update.training.epochs * _sizes(update)[1].max() == 1)


def _sizes(update: ObservedUpdate) -> tuple[Ints, Ints]:
    """How many rows each client has, and how many steps it takes in an epoch."""
    sizes = np.array([m.rows for m in update.members] or [update.rows])
    return sizes, -(-sizes // update.training.batch)


def _counts(schedule: Schedule, number: int) -> Array:
    """(epochs, number) by how much each step counts in the sum: all by 1 but under a proximal term."""
    return np.asarray(schedule.kept ** np.arange(schedule.epochs * number)[::-1]).reshape(schedule.epochs, number)


def _middle(update: ObservedUpdate) -> float:
    """Where on the way the gradient is taken that is the mean of all steps: (n - 1) / 2n for n that count alike."""
    (sizes, steps), middles = _sizes(update), list[float]()
    for number in steps.tolist():
        counts = _counts(update.training, number).ravel()
        way = np.cumsum(counts[::-1])  # after each step, in gradients
        middles.append(float(counts[1:] @ way[:-1]) / float(way[-1]) ** 2)
    return float(np.average(middles, weights=sizes))


def _counted(update: ObservedUpdate) -> tuple[int, float, float]:
    """How many clients there are, how many steps a client takes, in the mean over rows, each by how much it counts, and
    by how much rows count unevenly: the standard deviation of their shares, the mean being 1.
    """
    schedule, (sizes, steps) = update.training, _sizes(update)
    counts = [_counts(schedule, n) for n in steps.tolist()]
    counted = float(np.average([c.sum() for c in counts], weights=sizes))
    squares = 0.0  # of the shares of all rows
    for size, count in zip(sizes.tolist(), counts, strict=True):
        whole = min(schedule.batch, size)
        parts = np.array([whole] * (count.shape[1] - 1) + [size - (count.shape[1] - 1) * whole])
        share = count.sum() / counted  # of the client's rows in the mean
        within = (size * count**2 / parts).sum(1) - count.sum(1) ** 2  # variance of each epoch: places are drawn
        squares += size * share**2 * (1 + within.sum() / count.sum() ** 2)
    return len(sizes), counted, float(np.sqrt(max(squares / sizes.sum() - 1, 0.0)))


def explained(found: Chains) -> bool:
    """Whether the best rows explain more of the sum than the best of as many guesses as there are would by chance: more
    nats of likelihood, its noise being unknown, than the prior has.
    """
    evidence = found.evidence
    left = 2 * found.energy().min() * evidence.noise**2
    guesses = found.index.shape[1] * sum(float(torch.special.entr(c.log_prior.exp()).sum()) for c in found.cells)
    return bool(evidence.entries / 2 * torch.log(evidence.square / left) > guesses)


def followed(found: Chains, update: ObservedUpdate, stated: float, pool: int, tell: Callable[[int], None]) -> Chains:
    """Chains for the sum without what training on their rows shows to be its error, under as much noise as the best
    rows leave, and at least the `stated` one of the sum; `pool` as in a search.
    """
    if len(update.members) > 1:
        return found
    given, limit = found.evidence.total, found.evidence.square
    for _ in range(PASSES):
        error = _error(found, update)
        if not float(squared([update.rows * part[None] for part in error])) < limit:
            return found  # a training that diverges, on these rows
        evidence = replace(found.evidence, total=[t - update.rows * e for t, e in zip(given, error, strict=True)])
        if not evidence.usable:
            return found
        found = _chains(found, evidence)
        left = float((2 * found.energy().min() / evidence.entries).sqrt()) * evidence.noise
        found = repaired(_chains(found, replace(evidence, noise=max(left, stated))), REPAIRS, tell, pool)
        for _ in range(SWEEPS):
            found.sweep(found.evidence.noise)
    return found


def _chains(like: Chains, evidence: Evidence) -> Chains:
    return Chains(like.network, like.cells, evidence, like.index, like.coins, like.labels, like.present)


def _error(found: Chains, update: ObservedUpdate) -> list[Tensor]:
    """Per layer (out, in + 1): what the mean gradient of a training differs by from that in the middle of its way, in
    the mean over orders of the rows of the best chain; as small as the sum, where that was shrunk.
    """
    best = int(cost(found).argmin())
    rows, labels = found.columns[best], found.labels[best]
    share = rows.new_full((1, update.rows), 1 / update.rows)
    error = [-part[0] for part in found.network.sums(rows[None], labels[None], share)]
    begun = RowGradients(update.model, update.weights, str(rows.device))
    coins = np.random.default_rng(int(torch.randint(2**31, (), generator=found.coins, device=found.device)))
    for _ in range(ORDERS):
        order = drawn_order(update, labels.cpu().numpy(), coins)
        for total, part in zip(error, trained_sum(update.training, begun, rows, labels, order), strict=True):
            total += part / (len(update.training.steps) * ORDERS)
    return [found.scale[best] * part for part in error]


def drawn_order(update: ObservedUpdate, labels: Ints, coins: np.random.Generator) -> Ints:
    """(epochs * rows,) which row each place of all local batches has, at random, each row once per epoch; where labels
    of these places are known, each has a row of its label.
    """
    order = np.stack([coins.permutation(update.rows) for _ in range(update.training.epochs)])
    if not len(update.labels):
        return order.ravel()
    for own, told in zip(order, update.labels.reshape(order.shape), strict=True):
        own[np.argsort(told, kind="stable")] = own[np.argsort(labels[own], kind="stable")]
    return order.ravel()


def trained_sum(schedule: Schedule, begun: RowGradients, rows: Tensor, labels: Tensor, order: Ints) -> list[Tensor]:
    """Per layer (out, in + 1) the sum of the gradients of local steps, as a proximal term leaves it, from the network
    that training has `begun` with, over `rows` (B, D) with `labels` (B,) in this order.
    """
    network, total = begun, [w.new_zeros(len(w), w.shape[1] + 1) for w in begun.weights]
    for first, end in schedule.steps:
        some = torch.from_numpy(order[first:end]).to(rows.device)
        share = rows.new_full((1, end - first), 1 / (end - first))
        step = network.sums(rows[some][None], labels[some][None], share)
        total = [schedule.kept * t + part[0] for t, part in zip(total, step, strict=True)]
        network = begun.moved([schedule.rate * t for t in total])
    return total
