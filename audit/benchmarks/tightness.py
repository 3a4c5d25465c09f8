"""How tight the bound on reconstruction is: the best adversary there is, beside what none can exceed.

The game of the bound: one row of k, all alike likely, is the batch (B = 1). Its gradient, clipped to norm C, is told
with Gaussian noise of `noise_multiplier` times C. The adversary knows all k gradients and names the likeliest row:
nothing can beat that. The prior alone is right with kappa = 1/k, so no adversary is with more than
Phi(Phi^-1(1/k) + 1 / noise_multiplier) (Balle, Cherubin and Hayes 2022; Hayes, Mahloujifar and Balle 2023).

* *farthest*: k gradients of norm C, all as far from each other as k points of that norm can be (Rankin 1955): antipodes
  for two, the corners of a regular simplex for more. What is left of a gap is the bound's: it holds for any event, and
  meets one that a single threshold decides.
* rows of a table: gradients of rows drawn at random, at a fresh 100-100 network. They lie much closer together than the
  sensitivity allows, so that the bound is far above any adversary. That is no slack that an audit could claim: nothing
  but the clip norm was promised.

*identified* is the measured share of trials, with its exact 95 % interval; *expected* the same by quadrature, for the
farthest candidates. Only inner products of gradients are needed, so trials cost next to nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, pi, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from leakledger.audit.benchmarks.base import Options, Row, by_setting, dataset_name, plain_table, with_interval
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import cases
from leakledger.audit.dp_audit.proportions import at_least, at_most
from leakledger.audit.federate import federate
from leakledger.audit.records import digits
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.accounting.reconstruction import most_success
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.training.row_gradients import row_products

CANDIDATES, MULTIPLIERS = (2, 10, 100), (0.25, 0.5, 1.0, 2.0)
TRIALS, QUICK_TRIALS = 10_000, 1_000
POOL = 300  # rows of a table that candidates are drawn from
ERROR = 0.025  # of each end of an interval
FARTHEST = "farthest"

Floats = NDArray[np.float64]


def run(options: Options) -> Iterator[Row]:
    """Rows of the farthest candidates, then of the rows of each table."""
    trials = QUICK_TRIALS if options.quick else TRIALS
    pools: dict[str, Floats | None] = {FARTHEST: None}
    pools |= {dataset_name(s): products_of_rows(options, s) for s in options.data or ("fair",)}
    for name, pool in pools.items():
        for k in CANDIDATES:
            for multiplier in MULTIPLIERS:
                coins = np.random.default_rng([k, round(1000 * multiplier)])
                yield from measured(name, simplex(k) if pool is None else pool, k, multiplier, trials, coins)


def measured(
    name: str, products: Floats, k: int, multiplier: float, trials: int, coins: np.random.Generator
) -> Iterator[Row]:
    """Rows of one kind of candidates; `products` (n, n) are of n >= k of them, in units of C²."""
    hits = identified(products, k, multiplier, trials, coins)
    low, high = float(at_least(hits, trials, ERROR)), float(at_most(hits, trials, ERROR))
    most = most_success(GaussianMechanism(multiplier), 1 / k)
    setting = {"candidates": name, "k": k, "noise multiplier": multiplier, "C": 1.0, "B": 1}

    def row(metric: str, value: float, ends: tuple[float | None, float | None], unit: str) -> Row:
        return Row("tightness", name, setting, metric, value, *ends, None, unit, trials)

    yield row("identified", 100 * hits / trials, (100 * low, 100 * high), "%")
    yield row("bound", 100 * most, (None, None), "%")
    if hits:
        yield row("bound over measured", most * trials / hits, (most / high, most / low), "")
    if name == FARTHEST:
        yield row("expected", 100 * expected_of_simplex(k, multiplier), (None, None), "%")


def identified(products: Floats, k: int, multiplier: float, trials: int, coins: np.random.Generator) -> int:
    """In how many trials the likeliest of k candidates is the right one.

    Candidates are k of n gradients, `products` (n, n) their inner products in units of C². With y = g_j + noise, the
    likelihood of candidate i rises with <y, g_i> - |g_i|²/2, and the noise in it is normal with these covariances.
    """
    chosen = np.stack([coins.permutation(len(products))[:k] for _ in range(trials)])  # (trials, k); the first is true
    noise = (coins.standard_normal((trials, len(products))) @ root(products).T) * multiplier  # (trials, n)
    signal = products[chosen[:, :1], chosen] - products[chosen, chosen] / 2
    scores = signal + np.take_along_axis(noise, chosen, axis=1)
    ties = coins.random(scores.shape)  # rows with one gradient cannot be told apart
    best = np.lexsort((ties, scores), axis=1)[:, -1]
    return int((best == 0).sum())


def root(products: Floats) -> Floats:
    """(n, n) R with R R^T = `products`, which may be singular."""
    values, vectors = np.linalg.eigh(products)
    square_root: Floats = vectors * np.sqrt(values.clip(min=0))
    return square_root


def simplex(k: int) -> Floats:
    """(k, k) the inner products of the corners of a regular simplex with norm 1."""
    products: Floats = (k * np.eye(k) - 1) / (k - 1)
    return products


def expected_of_simplex(k: int, multiplier: float) -> float:
    """The success of the best adversary against the corners of a simplex: the likelihood of the right one is the
    largest of k independent ones, of which it alone is raised, by sqrt(k / (k - 1)) / `multiplier`.
    """
    raised = sqrt(k / (k - 1)) / multiplier
    found, _ = quad(lambda z: exp(-z * z / 2) / sqrt(2 * pi) * ndtr(z + raised) ** (k - 1), -12, 12, limit=400)
    return float(found)


def products_of_rows(options: Options, source: str) -> Floats:
    """(n, n) the inner products of the clipped gradients (C = 1) of rows of a table, drawn at random."""
    config = settings(options, source, "published", "known", 1, 1)
    federated = federate(config, cases(config)[0], PUBLIC_MASTER)
    rows, labels = (np.concatenate([getattr(d, name) for d in federated.train.values()]) for name in ("rows", "labels"))
    chosen = np.random.default_rng(0).permutation(len(rows))[:POOL]
    spec = federated.public.model
    assert spec is not None
    weights = initial_weights(spec, np.random.default_rng(0))
    return row_products(spec, weights, torch.tensor(rows[chosen]), torch.tensor(labels[chosen]), 1.0).numpy()


def markdown(rows: Sequence[Row]) -> str:
    """One line for each kind of candidates, k and noise."""
    cells = by_setting(rows, "k", "noise multiplier")
    return plain_table([_line(name, n, noise, found) for (name, n, noise), found in cells.items()])


def _line(name: str, k: int, multiplier: float, found: Mapping[str, Row]) -> dict[str, str]:
    own, ratio = found["identified"], found.get("bound over measured")
    expected = found.get("expected")
    return {
        "candidates": name,
        "k": str(k),
        "noise multiplier": f"{multiplier:g}",
        "identified, %": with_interval(own, 1),
        "expected, %": f"{expected.measured:.1f}" if expected else "",
        "bound, %": digits.at_most(found["bound"].measured, 1),
        "bound over measured": with_interval(ratio, 2) if ratio else "",
    }
