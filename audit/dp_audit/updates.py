"""The mechanisms on updates in two worlds: a round of DP-SGD with and without one row, and a client's clipped update
that points one way or the other.

Gradients and clipping are those of the client's own code (`training.fedsgd`, `defenses`), computed once for each world;
the noise is drawn anew for every sample, by the defense. What is observed is the update along the line between the two
worlds, the best test there is under Gaussian noise (Neyman and Pearson 1933). The claim beside it is the accountant's,
for a round in which everyone takes part: luck in the draw of a batch is not audited here.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.dp_audit.audited import Audited, Draw, Worlds
from leakledger.defenses import chain
from leakledger.defenses.accounting.chain import mechanism_of
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import Relation, Unit
from leakledger.defenses.base import Defense, Update
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.fedsgd import FedSGD
from leakledger.preprocess.views import ModelSpec, TrainingSpec

DELTA, CLIP_NORM, BATCH = 1e-5, 0.7, 4
SPEC = ModelSpec(2, 1, hidden=(), task="regression")
TRAINING = TrainingSpec(sampling="poisson", batch_size=BATCH)


def mechanisms() -> Iterator[Audited]:
    """Both, with noise that makes mu = 1 by the accountant."""
    sigma = CLIP_NORM / BATCH
    yield _audited("DP-SGD", "record", ExampleClipping(CLIP_NORM), sigma, _gradients())
    far = {"0.weight": np.array([[3.0, -4.0]], np.float32)}
    clip = ClientClipping(CLIP_NORM)
    ends = [clip.protect({n: s * a for n, a in far.items()}, np.random.default_rng(0)) for s in (1, -1)]
    yield _audited("client-level DP", "client", clip, 2 * CLIP_NORM, (ends[0], ends[1]))


def _gradients() -> tuple[Update, Update]:
    """The clipped gradient of a batch with the row that moves it most, and without that row."""
    rows = np.array([[0.5, -0.5], [100.0, 100.0]], np.float32)
    data = Encoded(rows, np.array([0.0, -1e4]))
    model = GlobalModel(initial_weights(SPEC, np.random.default_rng(0)))
    batches = [np.array([0, 1])], [np.array([0])]
    with_it, without = (FedSGD().client(SPEC, TRAINING, model, data, b, CLIP_NORM).gradient for b in batches)
    return with_it, without


def _audited(name: str, unit: Unit, clipping: Defense, sigma: float, worlds: tuple[Update, Update]) -> Audited:
    stated = chain(clipping, GaussianNoise(sigma)).mechanisms()
    relation: Relation = "add-remove" if unit == "record" else "replace"
    mechanism = mechanism_of(stated, unit=unit, rounds=1, batch_size=BATCH, relation=relation)
    return Audited(f"{name}, Gaussian", guarantee(mechanism, DELTA).epsilon, DELTA, _along(sigma, *map(_flat, worlds)))


def _flat(update: Update) -> NDArray[np.float64]:
    return np.concatenate([a.ravel() for a in update.values()]).astype(np.float64)


def _along(sigma: float, one: NDArray[np.float64], other: NDArray[np.float64]) -> Draw:
    def draw(samples: int, coins: np.random.Generator, strength: float) -> Worlds:
        noise, line = GaussianNoise(sigma * strength), one - other
        copies = [{"update": np.tile(world, (samples, 1)).astype(np.float32)} for world in (one, other)]
        first, second = (noise.protect(copy, coins)["update"] @ line for copy in copies)
        return first, second

    return draw
