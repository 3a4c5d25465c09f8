"""Strengths of defenses: from one configuration, the same one under many defenses, to draw a frontier of.

A sweep is an ordinary configuration whose `defense` is a list; its cases have the seeds of all others, so settings are
compared on the same partitions, first models and batches. It begins with no defense at all. DP-SGD is swept by its
noise multiplier, or by the epsilon for one row over all rounds that is to be reached: the least noise that the
accountant vouches for under every seed is taken, with the true rate of the smallest client where batches are Poisson
samples, and without amplification, for replaced rows, where batches have a fixed size. Where clients send weights
(FedAvg) the whole update is clipped in place of rows, and epsilon is a client's, whose data are replaced.
"""

from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.config_file import ConfigError, config_of
from leakledger.audit.limits import SMALLEST
from leakledger.audit.privacy_accounting import client_sizes, relation_of, training_mechanism
from leakledger.defenses.accounting.chain import NoGuarantee
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Unit

QUIETEST, LOUDEST = 1e-3, 1e5  # noise multipliers between which one is sought for an epsilon
EXACT = 1e-3  # relative: the multiplier that is found is at most so much larger than needed


@dataclass(frozen=True)
class Strengths:
    """How strong each defense is to be; nothing of one that is not swept.

    `multiplier`: noise multipliers of DP-SGD, `epsilon` (at `delta`): what it is to reach; both with clipping to
    `clip_norm`. `noise`: deviations of noise without clipping. `clip`: norms of clipping without noise. `pruned`:
    shares of entries. `bits`: of quantised entries. `delta` None: that of the configuration's accounts.
    """

    multiplier: tuple[float, ...] = ()
    epsilon: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()
    clip: tuple[float, ...] = ()
    pruned: tuple[float, ...] = ()
    bits: tuple[int, ...] = ()
    clip_norm: float = 1.0
    delta: float | None = None

    def __bool__(self) -> bool:
        return any((self.multiplier, self.epsilon, self.noise, self.clip, self.pruned, self.bits))

    def check(self) -> None:
        """Raises ValueError for a strength of DP-SGD that is none, and where a delta or a clip norm is stated and
        nothing is swept that has one.
        """
        for option, values in (
            ("multiplier", self.multiplier),
            ("epsilon", self.epsilon),
            ("clip-norm", (self.clip_norm,)),
        ):
            if wrong := [v for v in values if not 0 < v < float("inf")]:
                raise ValueError(f"--{option} {wrong[0]:g}: must be above 0 and finite")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ValueError(f"--delta {self.delta:g}: must be above 0 and below 1")
        if self.delta is not None and self.delta < SMALLEST:
            raise ValueError(f"--delta {self.delta:g}: must be at least {SMALLEST:g}")
        if self.delta is not None and not self.epsilon:
            raise ValueError(f"--delta {self.delta:g} changes nothing without --epsilon; give both")
        if self.clip_norm != Strengths.clip_norm and not (self.epsilon or self.multiplier):
            raise ValueError(
                f"--clip-norm {self.clip_norm:g} changes nothing without --multiplier or --epsilon; give one"
            )


DEFAULT = Strengths(multiplier=(0.1, 0.5, 2.0), noise=(0.01, 0.1), pruned=(0.5, 0.9), bits=(8, 3))


def swept(config: Config, strengths: Strengths) -> Config:
    """The configuration under each of these defenses, and under none; where an epsilon is asked for at a delta, the
    accounts are stated at that one. Raises ValueError for one that does not fit.
    """
    stated = config.in_force()
    if strengths.delta is not None:
        stated = config_of({**stated, "audit": {**stated["audit"], "delta": strengths.delta}}, ()).in_force()
    asked = _defenses(config, strengths)
    try:
        return config_of({**stated, "defense": [{"name": "none"}, *(defense for _, defense in asked)]}, ())
    except ConfigError as error:
        match error.location:
            case ("defense", int(place), *_):  # the first of which is none
                raise ConfigError(f"{asked[place - 1][0]}: {error.problem}") from None
        raise


def _defenses(config: Config, s: Strengths) -> list[tuple[str, dict[str, Any]]]:
    """Each with the option that asks for it."""
    clipping, norm = _clipping(config), s.clip_norm
    delta = config.audit.delta if s.delta is None else s.delta
    found = [(f"--multiplier {m:g}", _dp_sgd(clipping, norm, _sigma(config, m, norm))) for m in s.multiplier]
    for e in s.epsilon:
        try:
            multiplier = multiplier_for(config, e, delta)
        except NoGuarantee as error:
            raise ValueError(f"--epsilon {e:g}: {error}; give the noise by --multiplier, or change that") from None
        found.append((f"--epsilon {e:g}", _dp_sgd(clipping, norm, _sigma(config, multiplier, norm))))
    found += [(f"--noise {sigma:g}", {"name": "gaussian-noise", "sigma": sigma}) for sigma in s.noise]
    found += [(f"--clip {norm:g}", {"name": clipping, "clip_norm": norm}) for norm in s.clip]
    found += [(f"--pruned {share:g}", {"name": "pruning", "share": share}) for share in s.pruned]
    return found + [(f"--bits {bits}", {"name": "quantisation", "bits": bits}) for bits in s.bits]


def _sigma(config: Config, multiplier: float, clip_norm: float) -> float:
    """The deviation of noise in an update, in its own units."""
    return _significant(multiplier * clip_norm / _divisor(config))


def _dp_sgd(clipping: str, clip_norm: float, sigma: float) -> dict[str, Any]:
    return {"name": clipping, "clip_norm": clip_norm, "then": [{"name": "gaussian-noise", "sigma": sigma}]}


def _significant(sigma: float) -> float:
    """Six digits, rounded up: names of settings have them, and noise is not less than asked for."""
    text = float(f"{sigma:.6g}")
    return text if text >= sigma else float(f"{sigma * (1 + 1e-5):.6g}")


def _clipping(config: Config) -> str:
    algorithms = {t.algorithm for t in config.training}
    if len(algorithms) > 1:
        raise ValueError(
            f"the configuration trains by {' and '.join(sorted(algorithms))}, which are clipped each in its own way; "
            "ask for a frontier of one of them, with --set training.algorithm=fedsgd"
        )
    return "example-clipping" if algorithms == {"fedsgd"} else "client-clipping"


def _divisor(config: Config) -> float:
    """What the clip norm is divided by in an update: the batch size where rows are clipped."""
    if _clipping(config) == "client-clipping":
        return 1.0
    sizes = {t.options["batch_size"] for t in config.training}
    if len(sizes) > 1 or None in sizes:
        said = ", ".join("all rows" if size is None else str(size) for size in sizes)
        raise ValueError(
            f"training.batch_size is {said}; noise is told in multiples of what one row of a batch can move, so name "
            "one size, with --set training.batch_size=8"
        )
    return float(sizes.pop())


def multiplier_for(config: Config, epsilon: float, delta: float) -> float:
    """The noise multiplier with which every training of the configuration guarantees (`epsilon`, `delta`), the least up
    to `EXACT`, for a row (FedSGD) or a client (FedAvg), over all rounds. Raises ValueError where no noise is enough,
    NoGuarantee where one row moves more than its own gradient.
    """
    if not 0 < epsilon < float("inf"):
        raise ValueError(f"epsilon is {epsilon}; it must be above 0 and finite")
    defense = _dp_sgd(_clipping(config), 1.0, 1.0 / _divisor(config))
    once = config_of({**config.in_force(), "defense": [defense]}, ())
    todo = cases(once)
    sizes = client_sizes(once, todo)
    mechanisms = {mechanism_of_training(once, c, min(sizes[c.setting.partition])) for c in todo}
    return max(_multiplier(m, epsilon, delta) for m in mechanisms)


def mechanism_of_training(config: Config, case: Case, rows: int) -> GaussianMechanism:
    """What all rounds of a training under DP-SGD amount to, for a client with so many training `rows`. Raises
    NoGuarantee where nothing bounds what one of them moves.
    """
    unit: Unit = "record" if case.training.algorithm == "fedsgd" else "client"
    found = training_mechanism(config, case, unit, rows, relation_of(case, unit))
    return replace(found, sampling="none", sampling_rate=1.0) if found.sampling == "fixed-size" else found


def _multiplier(mechanism: GaussianMechanism, epsilon: float, delta: float) -> float:
    """By how much the noise of `mechanism` has to be multiplied."""

    def reached(multiplier: float) -> bool:
        louder = replace(mechanism, noise_multiplier=multiplier * mechanism.noise_multiplier)
        return guarantee(louder, delta).epsilon <= epsilon

    if not reached(LOUDEST):
        raise ValueError(
            f"no noise up to {LOUDEST:g} times the clip norm reaches epsilon {epsilon:g} at delta {delta:g}"
        )
    low, high = log(QUIETEST), log(LOUDEST)
    while high - low > EXACT:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(exp(middle)) else (middle, high)
    return exp(high)
