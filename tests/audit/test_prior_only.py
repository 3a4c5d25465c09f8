"""An adversary who has the prior and nothing else has no advantage, whatever asset it claims: over many federations."""

from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from leakledger.attacks.base import MembershipClaim, StatisticClaim, VocabularyClaim
from leakledger.audit.federate import Federated
from leakledger.audit.scoring.membership import score_membership
from leakledger.audit.scoring.metrics import advantage
from leakledger.audit.scoring.sizes import score_sizes
from leakledger.audit.scoring.statistics import score_statistics
from leakledger.audit.scoring.vocabulary import score_vocabularies
from leakledger.audit.truth import Truth
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts

FEDERATIONS, PARTIES = 100, ("P1", "P2", "P3", "P4")
CATEGORICAL, NUMERIC = ("ward", "diet"), ("age", "pulse")
SCHEMA = Schema(target="ill", categorical=CATEGORICAL, numeric=NUMERIC, task="binary", classes=("no", "yes"))
CANDIDATES = tuple(f"v{i:02}" for i in range(20))
STATISTICS = ("mean", "std", "minimum", "maximum")
NEVER = MappingProxyType({})


def drawn(seed):
    """The truth of a federation whose parties' rows are drawn independently of each other."""
    coins = np.random.default_rng(seed)
    tables = {p: _table(coins) for p in PARTIES}
    fed = Simulated(list(PARTIES), secret=pinned(0))
    return Truth(Federated(fed.ledger, {}, PublicFacts(PARTIES, "server"), SCHEMA, tables, NEVER, NEVER, NEVER, {}, 0))


def _table(coins):
    rows = int(coins.integers(6, 60))
    columns = {f: coins.choice(CANDIDATES, rows, p=coins.dirichlet(np.ones(len(CANDIDATES)))) for f in CATEGORICAL}
    numbers = {n: coins.normal(coins.normal(), 1, rows) for n in NUMERIC}
    frame = pd.DataFrame({**columns, **numbers, "ill": (["no", "yes"] * rows)[:rows]})
    return Table(frame.astype({**dict.fromkeys(columns, "str"), "ill": "str"}), SCHEMA, "drawn")


def of_statistics(party, source, truth):
    """The claims about `party` with the values that `source` gives."""
    for s in STATISTICS:
        for f in NUMERIC:
            value = source(party, f, s)
            yield StatisticClaim(party, f, s, value, value, value)


def of_sizes(party, source, truth):
    for f in CATEGORICAL:
        yield StatisticClaim(party, f, "size", source(party, f, "size"), 0, 1000)
    yield StatisticClaim(party, "", "count", source(party, "", "count"), 0, 1000)


def of_vocabularies(party, source, truth):
    for f in CATEGORICAL:
        yield VocabularyClaim(party, f, tuple(sorted(source(party, f, "values"))))


def of_members(party, source, truth):
    for f in CATEGORICAL:
        candidates = truth.dictionaries[f]
        scores = source(party, f, "holders")
        yield MembershipClaim(party, f, candidates, tuple(float(scores.get(v, 0.0)) for v in candidates))


def pooled(truth):
    """What the federation as a whole would publish: the prior of every score."""

    def source(party, feature, what):
        if what == "values":
            return truth.dictionaries[feature]
        if what == "holders":
            others = [held[feature] for p, held in truth.vocabularies.items() if p != party]
            return {v: sum(v in held for held in others) for v in truth.dictionaries[feature]}
        return truth.pooled_statistic(feature, what)

    return source


def own(truth):
    """The truth itself, or that of another federation where it is used on one."""

    def source(party, feature, what):
        if what == "values":
            return truth.vocabularies[party][feature]
        if what == "holders":
            return dict.fromkeys(truth.vocabularies[party][feature], 1.0)
        return truth.statistic(party, feature, what)

    return source


def others_by_majority(truth):
    """The other parties' median statistic, the values that half of them hold, the rows that they have."""

    def source(party, feature, what):
        others = [p for p in PARTIES if p != party]
        if what == "values":
            held = [truth.vocabularies[p][feature] for p in others]
            return {v for v in truth.dictionaries[feature] if 2 * sum(v in h for h in held) >= len(held)}
        if what == "holders":
            rows = np.concatenate([truth.federated.tables[p].values(feature) for p in others])
            return dict(zip(*np.unique(np.asarray(rows, str), return_counts=True), strict=True))
        return float(np.median([truth.statistic(p, feature, what) for p in others]))

    return source


def sizes_of_others(truth):
    """The mean size of the other parties' dictionaries: what sizes and their errors are measured against."""

    def source(party, feature, what):
        if what == "count":
            return truth.pooled_statistic(feature, what)
        others = [p for p in PARTIES if p != party]
        return float(np.mean([truth.statistic(p, feature, what) for p in others]))

    return source


ASSETS = {
    "statistics": (of_statistics, score_statistics, STATISTICS),
    "sizes": (of_sizes, score_statistics, ("size", "count")),
    "errors of sizes": (of_sizes, score_sizes, ("size_error",)),
    "vocabulary": (of_vocabularies, score_vocabularies, ("f1",)),
    "membership": (of_members, score_membership, ("auc", "tpr_at_1%")),
}
TRUTHS = [drawn(seed) for seed in range(FEDERATIONS)]


def advantages(asset, source):
    """{metric: (federations,) mean over parties} where `source(i)` tells what is claimed of federation i; without
    parties of whom the prior knows all.
    """
    claims_of, score, metrics = ASSETS[asset]
    found = {m: [] for m in metrics}
    for i, truth in enumerate(TRUTHS):
        claims = [c for p in PARTIES for c in claims_of(p, source(i), truth)]
        gains = {m: [] for m in metrics}
        for measured in score(claims, truth):
            gain = advantage(measured.metric, measured.value, measured.baseline)
            if measured.metric in gains and gain is not None:
                gains[measured.metric].append(gain)
        for m, values in gains.items():
            found[m] += [float(np.mean(values))] if values else []
    return found


def interval(values):
    half = stats.t.ppf(0.9995, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values) - half, np.mean(values) + half


@pytest.mark.parametrize("asset", ASSETS)
def test_a_claim_equal_to_the_prior_has_no_advantage(asset):
    prior = sizes_of_others if "sizes" in asset else pooled
    for metric, values in advantages(asset, lambda i: prior(TRUTHS[i])).items():
        low, high = interval(values)
        assert low <= 0, metric
        assert high >= 0 or asset == "membership", metric  # its baseline is a coin where frequencies rank below one


@pytest.mark.parametrize("asset", ASSETS)
def test_a_claim_by_the_majority_of_the_others_has_none(asset):
    for metric, values in advantages(asset, lambda i: others_by_majority(TRUTHS[i])).items():
        assert interval(values)[0] <= 0, metric


@pytest.mark.parametrize("asset", ASSETS)
def test_a_claim_drawn_from_the_prior_has_none_either(asset):
    for metric, values in advantages(asset, lambda i: own(TRUTHS[(i + 1) % FEDERATIONS])).items():
        assert interval(values)[0] <= 0, metric


@pytest.mark.parametrize("asset", ASSETS)
def test_the_truth_has_all_of_it(asset):
    for metric, values in advantages(asset, lambda i: own(TRUTHS[i])).items():
        assert interval(values)[0] > 0.99, metric
