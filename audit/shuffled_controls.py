"""The shuffled control of attacks on transcripts: what they read has nothing to do with what they are scored against.

A number of made-up federations of the same parties, features and protocol are drawn, each party's tables independently
of everything else. The attack gets the transcript of one and its claims are scored against the truth of another. Under
that exchange nothing that an attack may look at says anything of the truth, so its advantage is 0 up to chance; an
attack that reached the truth, or remembered it, would be as good as ever. Neither the known-leaky trial nor the null
trial of `transcript_controls` can tell: such an attack is right about the parties that it names.

No claims that are independent of the truth have an expected score above 0 (sizes: above 1 in `LARGEST`), since truths
are drawn evenly: a party holds 1 to `LARGEST` of the candidate values, all sets of one size with one chance. The mean
advantage over the draws has a Student-t interval, at a level (`LEVEL`) that leaves a sound attack one false alarm in a
thousand. The draws are the same in every run: an attack without randomness of its own always passes or never does.

For protocol checks the shares are exchanged for numbers of either sign: none may fire that speaks of shares.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attacks.base import (
    Attack,
    AuxiliaryKnowledge,
    Claim,
    FindingClaim,
    MembershipClaim,
    StatisticClaim,
    VocabularyClaim,
    claims_in,
)
from audit.made_up import LARGEST, PARTIES, column_names, encoded_by, held, secure_sums
from audit.scoring.membership import ranking_metrics
from preprocess.views import Message, View
from preprocess.wire import encode

DRAWS, LEVEL = 16, 0.998  # two-sided: half of the rest lies above
PAIRS = tuple((draw % DRAWS + 1, draw) for draw in range(1, DRAWS + 1))
"""(transcript, truth): numbers of draws."""

DICTIONARY_TOPIC = "dictionary.local"
VICTIMS = tuple(f"control {i}" for i in range(PARTIES - 1))


@dataclass(frozen=True)
class Shuffled:
    """Over the draws: the mean score, its expectation without the truth, and the advantage with its interval."""

    value: float
    baseline: float
    low: float
    high: float
    of: str

    @property
    def passed(self) -> bool:
        """Whether the attack is not better than chance. One that claims less than it could may be worse."""
        return self.low <= 0


@dataclass(frozen=True)
class Exchange:
    """How one asset is shuffled: the view of a draw, the score of claims against a draw, and what it is of."""

    view: Callable[[int], View]
    score: Callable[[Collection[Claim], int], float]
    of: str
    baseline: float = 0.0

    def play(self, attack: Attack) -> Shuffled:
        values = np.array([self.score(claims_of(attack, self.view(shown)), truth) for shown, truth in PAIRS])
        low, high = _interval((values - self.baseline) / (1 - self.baseline))
        return Shuffled(float(values.mean()), self.baseline, low, high, self.of)


def shuffled(attack: Attack) -> Shuffled | None:
    """The control of an attack on transcripts; None for an attack on something else."""
    for asset, exchange in EXCHANGES.items():
        if asset in attack.asset:
            return exchange.play(attack)
    return None


def shuffled_dictionaries(attack: Attack, view: View) -> Shuffled:
    """The control of an attack that reads dictionaries in the clear: `view` with one made-up message instead of all."""
    observer = next(iter(view.observers))

    def shown(draw: int) -> View:
        body = encode({f: sorted(v) for f, v in held(draw)[VICTIMS[0]].items()})
        sent = Message(0, "encode", 0, DICTIONARY_TOPIC, VICTIMS[0], observer, None, False, body, body)
        return replace(view, messages=(sent,))

    def score(claims: Collection[Claim], truth: int) -> float:
        return _agreement(claims, {VICTIMS[0]: held(truth)[VICTIMS[0]]})

    return Exchange(shown, score, "values in a dictionary").play(attack)


def claims_of(attack: Attack, view: View) -> list[Claim]:
    """The claims of an attack without auxiliary knowledge; none where it says why."""
    return claims_in(attack.run(view, AuxiliaryKnowledge()))


def _interval(advantages: NDArray[np.float64]) -> tuple[float, float]:
    error = advantages.std(ddof=1) / np.sqrt(len(advantages))
    half = stats.t.ppf((1 + LEVEL) / 2, len(advantages) - 1) * error
    return float(advantages.mean() - half), float(advantages.mean() + half)


def _sizes(claims: Collection[Claim], truth: int) -> float:
    """The share of the victims' dictionary sizes that are claimed."""
    told = {(c.party, c.feature): c.estimate for c in claims if isinstance(c, StatisticClaim) and c.statistic == "size"}
    actual = {(p, f): len(values) for p in VICTIMS for f, values in held(truth)[p].items()}
    return float(np.mean([told.get(key) == size for key, size in actual.items()]))


def _means(claims: Collection[Claim], truth: int) -> float:
    """Pearson's correlation of claimed and true means over parties and columns; a mean without claim is taken as 0."""
    told = {(c.party, c.feature): c.estimate for c in claims if isinstance(c, StatisticClaim) and c.statistic == "mean"}
    _, tables = secure_sums(False, truth)
    names = column_names(tables)
    actual = {(f"control {i}", name): x for i, t in enumerate(tables) for name, x in zip(names, t.mean(0), strict=True)}
    pairs = np.array([[told.get(key, 0.0), mean] for key, mean in actual.items()]).T
    return float(np.corrcoef(pairs)[0, 1]) if np.ptp(pairs[0]) > 0 else 0.0


def _vocabularies(claims: Collection[Claim], truth: int) -> float:
    return _agreement(claims, {p: held(truth)[p] for p in VICTIMS})


def _agreement(claims: Collection[Claim], actual: Mapping[str, Mapping[str, Collection[str]]]) -> float:
    """The share claimed of what is held, less the share claimed of what is not; mean over parties and features."""
    told = {(c.party, c.feature): set(c.values) for c in claims if isinstance(c, VocabularyClaim)}
    everything = held(1)[f"control {PARTIES - 1}"]  # the candidates: the same in every draw
    shares = []
    for party, own in actual.items():
        for feature, values in own.items():
            claimed = told.get((party, feature), set())
            others = everything[feature] - set(values)
            shares.append(len(claimed & set(values)) / len(values) - len(claimed & others) / len(others))
    return float(np.mean(shares))


def _members(claims: Collection[Claim], truth: int) -> float:
    """2 AUC - 1 of the ranking of each victim's and feature's candidates; mean, 0 where there is none."""
    actual, areas = held(truth), dict.fromkeys(((p, f) for p in VICTIMS for f in held(truth)[p]), 0.0)
    for c in claims:
        if isinstance(c, MembershipClaim) and (c.party, c.feature) in areas:
            member = np.array([v in actual[c.party][c.feature] for v in c.values], bool)
            if member.any() and not member.all():
                areas[c.party, c.feature] = 2 * ranking_metrics(np.array(c.scores), member)["auc"] - 1
    return float(np.mean([*areas.values()]))


def _noise(draw: int) -> View:
    """Secure sums whose parts are numbers of either sign."""
    view, _ = secure_sums(False, draw)
    coins = np.random.default_rng(draw)
    messages = []
    for m in view.messages:
        if m.topic.endswith(".part"):
            body = encode(coins.normal(size=np.shape(m.payload)))
            m = replace(m, body=body, content=body)
        messages.append(m)
    return replace(view, messages=tuple(messages))


def _fired(claims: Collection[Claim], truth: int) -> float:
    """The share of the parties whose parts are said not to hide."""
    named = {c.party for c in claims if isinstance(c, FindingClaim) and c.check in ("parts-not-hiding", "masks-reused")}
    return len(named) / len(secure_sums(False, truth)[1])


EXCHANGES: dict[str, Exchange] = {
    "findings": Exchange(_noise, _fired, "parties whose shares do not hide"),
    "statistics": Exchange(lambda draw: secure_sums(False, draw)[0], _means, "means behind secure sums (correlation)"),
    "sizes": Exchange(
        lambda draw: encoded_by("uhe", 0, relay=True, draw=draw), _sizes, "dictionary sizes", 1 / LARGEST
    ),
    "vocabulary": Exchange(lambda draw: encoded_by("dh-psi", PARTIES - 1, draw=draw), _vocabularies, "who holds what"),
    "membership": Exchange(
        lambda draw: encoded_by("dh-psi", PARTIES - 1, draw=draw), _members, "who holds what (2 AUC - 1)"
    ),
}
