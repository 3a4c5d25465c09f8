"""Noised statistics are read with their noise: never as facts, and with intervals that hold what they say."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, FindingClaim, NotApplicable, StatisticClaim, claims_in
from leakledger.attacks.observed.noised import Counted, _rate, log_density, noise_on, noised_claims, spread
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.attacks.transcript.holdings.noised import given_shares, held_given, share_weights
from leakledger.attacks.transcript.membership import Membership
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.attacks.transcript.ring_size import RingSize
from leakledger.attacks.transcript.ring_size.noised_tables import size_law
from leakledger.attacks.transcript.ring_size.posterior import interval
from leakledger.attacks.transcript.statistics.statistics import Statistics
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.messages import ClientWeights, NoisedCounts, PredictionCounts, SummedUpdate
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import Method, PublicFacts, TrainingSpec
from tests.preprocess.example import located, simulated, table
from tests.preprocess.test_noised_protocols import DECLARED

NAMES = ("P1", "P2", "P3")
SCHEMA = {"categorical": ["ward", "diet"], "numeric": ["age", "dose"], "task": "binary", "target": "ill"}
KINDS = {
    "dictionary + zscore": ("server-dictionary", "federated-zscore"),
    "target + minmax": ("target", "federated-minmax"),
    "dictionary + quartiles": ("server-dictionary", "federated-minmax", {"quantile": 0.25}),
}


def played(encoder, scaler, *rest, seed=0, rows=300, delta=0.0):
    """(federation, public facts, tables) of one run."""
    *given, epsilon = rest
    shared = {"exchange": "shared"} if encoder == "target" else {}
    gaussian = {"scaler_delta": delta} if scaler == "federated-zscore" else dict(*given)
    methods = (
        ENCODERS[encoder](encoder_epsilon=epsilon, encoder_delta=delta, **shared),
        SCALERS[scaler](scaler_epsilon=epsilon, **gaussian),
    )
    tables = {n: replace(table(rows + 10 * i, seed=100 * seed + i), schema=DECLARED) for i, n in enumerate(NAMES)}
    fed, at = simulated(tables, seed)
    prepared = prepare(fed, DECLARED, at, located(fed, tables), *methods)
    statistics = tuple(m for method in methods for m in method.mechanisms(DECLARED))
    public = PublicFacts(
        NAMES,
        "server",
        Method(encoder),
        Method(scaler),
        statistics=statistics,
        schema=SCHEMA,
        layout=prepared.layout.value,
    )
    return fed, public, tables


def view_of(observers, *run, **options):
    fed, public, tables = played(*run, **options)
    inputs = {n: t.to_plain() for n, t in tables.items()}
    return fed.ledger.view(observers, public, inputs=inputs, coins=fed.party_secrets()), tables


def true(claim, tables):
    """The statistic that a claim is about."""
    frame = tables[claim.party].frame
    if claim.statistic == "count":
        return len(frame)
    if claim.statistic == "frequency":
        return float((frame[claim.feature] == claim.value).mean())
    if claim.statistic == "target_rate":
        return float((frame["ill"][frame[claim.feature] == claim.value] == "yes").mean())
    column = frame[claim.feature].to_numpy()
    if claim.statistic == "quantile":
        return float(np.quantile(column, float(claim.value)))
    name = {"mean": "mean", "std": "std", "minimum": "min", "maximum": "max"}[claim.statistic]
    return float(getattr(column, name)())


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0, 1e5])
@pytest.mark.parametrize("kind", KINDS)
def test_no_claim_from_noise_is_exact(kind, epsilon):
    view, _ = view_of(["server"], *KINDS[kind], epsilon)
    claims = claims_in(Statistics().run(view, AuxiliaryKnowledge()))
    told = [c for c in claims if isinstance(c, StatisticClaim)]
    assert {c.party for c in told} == set(NAMES)
    assert all(c.low < c.high for c in told), [c for c in told if c.low == c.high]


@pytest.mark.parametrize("kind", KINDS)
def test_plaintext_says_nothing_of_what_is_under_noise(kind):
    view, _ = view_of(["server"], *KINDS[kind], 1.0)
    restricted = view.restricted(Plaintext.accepts)
    claims = claims_in(Plaintext().run(restricted, AuxiliaryKnowledge()))
    assert not restricted.messages
    assert not [c for c in claims if isinstance(c, FindingClaim)]


@pytest.mark.parametrize("kind", ["discrete-laplace", "discrete-gaussian"])
def test_rates_hold_as_often_as_they_say_and_are_not_claimed_of_values_that_nobody_holds(kind):
    """Of 4,000 values like these a rate was claimed of 5 % that nobody holds (now 0.5), and of those that have up to
    eight rows 64 % and 75 % of the intervals held, since it was those with much noise on them."""
    coins, noise = np.random.default_rng(0), {"kind": kind, "scale": 4.0, "sensitivity": 1}
    rows = np.rint(np.exp(coins.uniform(0, np.log(40), 1000))) * (np.arange(1000) % 4 > 0)
    second = np.floor(coins.random(1000) * (rows + 1))
    laplace = np.subtract(*coins.geometric(1 - np.exp(-1 / 4), (2, 1000, 2)))
    off = laplace if kind == "discrete-laplace" else np.rint(coins.normal(0, 4, (1000, 2)))
    told = np.stack([rows - second, second], axis=1) + off
    ends = [_rate(own, noise, 80.0, 0.9) for own in told]
    assert sum(e is not None for e, n in zip(ends, rows, strict=True) if not n) <= 5
    held = [e[1] <= x / n <= e[2] for e, x, n in zip(ends, second, rows, strict=True) if e and n]
    assert len(held) > 100
    assert np.mean(held) >= 0.87


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (4.0, 0.0)])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon, delta):
    """Nominal 90 %; extremes, whose interval is a worst case, apart. Claims of one run depend on one count: 60 runs."""
    held = {}
    for seed in range(60):
        for kind in KINDS.values():
            view, tables = view_of(["server"], *kind, epsilon, seed=seed, delta=delta, rows=400)
            for c in noised_claims(view, 0.9):
                real = true(c, tables)
                if np.isfinite(real):
                    held.setdefault(c.statistic, []).append(c.low - 1e-9 <= real <= c.high + 1e-9)
    shares = {name: float(np.mean(hits)) for name, hits in held.items()}
    assert all(share >= 0.85 for share in shares.values()), shares
    assert min(shares["minimum"], shares["maximum"]) >= 0.9


@pytest.mark.parametrize("kind", [("server-dictionary", "federated-minmax"), ("target", "federated-minmax")])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_tables_of_values_add_up_to_the_number_of_rows(kind, epsilon):
    """No count is told beside them. Nominal 90 %, of 24 numbers: 17 or fewer hold with a chance of 1 in 100."""
    held, off = [], []
    for seed in range(8):
        view, tables = view_of(["server"], *kind, epsilon, seed=seed)
        counts = [c for c in noised_claims(view, 0.9) if c.statistic == "count"]
        assert [c.party for c in counts] == [*NAMES]
        held += [c.low <= len(tables[c.party]) <= c.high for c in counts]
        off += [abs(c.estimate - len(tables[c.party])) for c in counts]
        assert all(c.low < c.high for c in counts)
    assert sum(held) > 17
    assert np.median(off) < 25 / epsilon


def test_tables_make_the_count_that_is_told_beside_them_surer():
    both, _ = view_of(["server"], *KINDS["dictionary + zscore"], 1.0)
    alone = both.restricted(lambda kind: kind is not NoisedCounts)
    widths = [
        {c.party: c.high - c.low for c in noised_claims(view, 0.9) if c.statistic == "count"} for view in (both, alone)
    ]
    assert all(widths[0][n] < widths[1][n] for n in NAMES)


def shares_of(view, counted=()):
    """Claims of shares by party, feature and value."""
    return {(c.party, c.feature, c.value): c for c in noised_claims(view, 0.9, counted) if c.statistic == "frequency"}


def counts_within(tables, below, above):
    """Numbers of rows as other messages tell them."""
    rows = {n: len(t) for n, t in tables.items()}
    return [StatisticClaim(n, "", "count", r, r - below, r + above, (0,)) for n, r in rows.items()]


@pytest.mark.parametrize("kind", [("server-dictionary", "federated-minmax"), ("target", "federated-minmax")])
def test_a_number_of_rows_that_is_known_otherwise_makes_shares_of_values_surer(kind):
    """Exact of 40 rows: the cells of a table alone may be noise. Nominal 90 %, of 216 intervals."""
    held, widths = [], {"alone": [], "counted": []}
    for seed in range(8):
        view, tables = view_of(["server"], *kind, 0.5, seed=seed, rows=40)
        counted = shares_of(view, counts_within(tables, 0, 0))
        held += [c.low - 1e-9 <= true(c, tables) <= c.high + 1e-9 for c in counted.values()]
        for name, claims in (("counted", counted), ("alone", shares_of(view))):
            widths[name] += [c.high - c.low for c in claims.values()]
    assert np.mean(held) > 0.85
    assert np.mean(widths["counted"]) < 0.98 * np.mean(widths["alone"])


def test_shares_of_two_values_are_as_sure_as_their_noise_and_no_less():
    """With the rows known, the noise on one count is that on the other: its deviation counts by a root of two less."""
    view, tables = view_of(["server"], "server-dictionary", "federated-zscore", 20.0)
    noise = noise_on(view, NoisedCounts)["table", "diet"]
    values = len(noise["values"])
    for c in shares_of(view, counts_within(tables, 0, 0)).values():
        if c.feature == "diet" and c.low > 0 and c.high < 1:
            off = 1.6449 * spread(noise) * (1 - 1 / values) ** 0.5 / len(tables[c.party])
            assert c.high - c.low == pytest.approx(2 * off, rel=1e-3)
    for n in tables:
        parts = [
            c.estimate
            for c in shares_of(view, counts_within(tables, 0, 0)).values()
            if (c.party, c.feature) == (n, "diet")
        ]
        assert sum(parts) == pytest.approx(1, abs=1e-6)


def test_a_noised_count_is_claimed_within_what_is_stated_of_it_which_holds_where_noise_misses_it():
    view, tables = view_of(["server"], *KINDS["dictionary + zscore"], 20.0)

    def counts(*ends):
        return [c for c in noised_claims(view, 0.9, counts_within(tables, *ends)) if c.statistic == "count"]

    assert counts(0, 0) == counts_within(tables, 0, 0)
    assert counts(-50, 60) == counts_within(tables, -50, 60)
    alone = {c.party: c for c in noised_claims(view, 0.9) if c.statistic == "count"}
    for c in counts(0, 3):
        assert len(tables[c.party]) <= c.low <= c.estimate <= c.high
        assert c.high - c.low < alone[c.party].high - alone[c.party].low
        assert 0 in c.evidence


def test_rows_that_updates_tell_make_noised_statistics_surer():
    view, tables = view_of(["server"], *KINDS["dictionary + zscore"], 0.5, rows=60)
    told = [
        replace(view.messages[0], sequence=900 + i, step="train", sender=n).carrying(ClientWeights(len(t), {}))
        for i, (n, t) in enumerate(tables.items())
    ]
    claims = claims_in(Statistics().run(replace(view, messages=(*view.messages, *told)), AuxiliaryKnowledge()))
    shares = {(c.party, c.feature, c.value): c for c in claims if c.statistic == "frequency"}
    assert {c.estimate - len(tables[c.party]) for c in claims if c.statistic == "count"} == {0}
    expected = shares_of(view, counts_within(tables, 0, 0))
    assert all((shares[key].low, shares[key].high) == pytest.approx((c.low, c.high)) for key, c in expected.items())
    assert all(set(c.evidence) & {900, 901, 902} for c in shares.values())
    assert shares_of(view) != expected


def test_what_is_told_of_held_out_rows_goes_with_statistics_under_noise():
    """As many as a third are held out, which leaves five numbers of the others; noise says which are likelier."""
    view, tables = view_of(["server"], *KINDS["dictionary + zscore"], 1.0)
    told = [
        replace(view.messages[0], sequence=900 + i, step="evaluate", sender=n).carrying(
            PredictionCounts(np.array([[len(t) // 3 - 10, 0], [0, 10]]), np.zeros((2, 2, 4), np.int64))
        )
        for i, (n, t) in enumerate(tables.items())
    ]
    public = replace(view.public, held_out=0.25)
    both = replace(view, messages=(*view.messages, *told), public=public)
    alone, beside = (
        {c.party: c for c in claims_in(Statistics().run(v, AuxiliaryKnowledge())) if c.statistic == "count"}
        for v in (view, both)
    )
    for n, c in beside.items():
        assert c.low <= len(tables[n]) <= c.high
        assert c.high - c.low <= 4 < 8 < alone[n].high - alone[n].low
        assert set(c.evidence) & {900, 901, 902}


def test_a_count_under_little_noise_has_an_interval_with_a_whole_number_in_it():
    """Of 75 at an epsilon of 100, 11 intervals lay between two numbers, and the estimate of each outside of it."""
    for seed in range(8):
        view, tables = view_of(["server"], *KINDS["dictionary + zscore"], 100.0, seed=seed)
        claims = [c for c in noised_claims(view, 0.9) if c.statistic == "count"]
        assert len(claims) == len(tables)
        assert all(c.low <= c.estimate == true(c, tables) <= c.high for c in claims)


@pytest.mark.parametrize("kind", KINDS)
def test_all_but_one_learn_from_totals_what_the_server_is_told_by_the_last(kind):
    server, _ = view_of(["server"], *KINDS[kind], 5.0)
    others, _ = view_of(["P1", "P2"], *KINDS[kind], 5.0)
    told = {c[:]: v for c, v in _by_key(noised_claims(server, 0.9)).items() if c[0] == "P3"}
    found = _by_key(noised_claims(others, 0.9))
    assert found.keys() <= told.keys()
    assert all(found[key] == pytest.approx(told[key]) for key in found)
    assert {key[2] for key in found} & {"mean", "frequency"}


def _by_key(claims):
    return {(c.party, c.feature, c.statistic, c.value): (c.estimate, c.low, c.high) for c in claims}


def test_quartiles_are_estimated_at_their_levels_and_no_extreme_is_claimed():
    view, tables = view_of(["server"], *KINDS["dictionary + quartiles"], 1e4)
    claims = [c for c in noised_claims(view, 0.9) if c.feature in SCHEMA["numeric"]]
    assert {(c.party, c.feature, c.statistic, c.value) for c in claims} == {
        (n, f, "quantile", level) for n in NAMES for f in SCHEMA["numeric"] for level in ("0.25", "0.75")
    }
    for c in claims:
        assert c.estimate == pytest.approx(true(c, tables), abs=0.1 * tables[c.party].frame[c.feature].std())
        assert (c.low, c.high) == DECLARED.ranges[c.feature]  # what a rank is worth in value is not known


def test_one_of_several_learns_nothing_of_single_others():
    view, _ = view_of(["P1"], *KINDS["dictionary + zscore"], 5.0)
    assert list(noised_claims(view, 0.9)) == []


def test_the_more_noise_the_less_sure_is_anyone_that_a_value_is_held():
    faint, tables = view_of(["server"], *KINDS["dictionary + zscore"], 1e4)
    strong, _ = view_of(["server"], *KINDS["dictionary + zscore"], 0.02)
    knowledge = AuxiliaryKnowledge()
    for view, sure in ((faint, True), (strong, False)):
        claims = claims_in(Membership().run(view, knowledge))
        scores = {(c.party, c.feature, v): s for c in claims for v, s in zip(c.values, c.scores, strict=True)}
        held = [s for (p, f, v), s in scores.items() if v in set(tables[p].values(f))]
        absent = [s for (p, f, v), s in scores.items() if v not in set(tables[p].values(f))]
        assert (min(held) > 0.99) is sure
        assert (max(absent) < 0.01) is sure
        assert all(0 < s < 1 for s in scores.values())
    named = claims_in(Vocabulary().run(faint, knowledge))
    assert {(c.party, c.feature): set(c.values) for c in named} == {
        (n, f): set(t.values(f)) for n, t in tables.items() for f in ("ward", "diet")
    }


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_chances_are_right_as_often_as_they_say_whatever_share_of_the_values_is_held(share):
    """Either as likely beforehand, 0.95 of them held are given a mean chance of 0.5 under strong noise."""
    coins = np.random.default_rng(0)
    noise = {"kind": "discrete-laplace", "sensitivity": 1, "scale": 10.0}
    held = coins.random((30, 20)) < share
    rows = np.where(held, np.rint(np.exp(coins.uniform(0, 5, held.shape))), 0) + np.rint(
        coins.laplace(0, 10, held.shape)
    )
    values = [str(k) for k in range(20)]
    found = [
        Finding(f"P{i}", "ward", dict(zip(values, held_given(r, noise, 1), strict=True))) for i, r in enumerate(rows)
    ]
    even = np.array([list(f.scores.values()) for f in found])
    weights = share_weights(found)["ward"]
    chances = np.array([weights @ given_shares(e) for e in even])
    assert chances.mean() == pytest.approx(held.mean(), abs=0.1)
    log_loss = [-np.log(np.where(held, c, 1 - c)).mean() for c in (chances, even)]
    assert log_loss[0] < log_loss[1] + 0.01
    laws = [size_law(e, weights) for e in even]
    assert all(law.sum() == pytest.approx(1) for law in laws)
    inside = [(i := interval(law)).low <= h.sum() <= i.high for law, h in zip(laws, held, strict=True)]
    assert np.mean(inside) >= 0.8


def test_a_value_with_a_row_or_two_is_no_less_likely_beforehand_than_one_with_hundreds():
    """Every order of magnitude alike: of steps that are rounded to whole rows, most are rounded to few."""
    noise = {"kind": "discrete-laplace", "sensitivity": 1, "scale": 0.5}
    few, many, none = held_given(np.array([2.0, 500.0, 0.0]), noise, 1)
    assert few > 0.8
    assert many > 0.99
    assert none < 0.5


def test_a_number_of_rows_that_is_known_otherwise_makes_it_surer_which_values_are_held():
    """The counts of a table add up to it: of two values the noise on one is that on the other."""
    coins, noise = np.random.default_rng(0), {"kind": "discrete-laplace", "sensitivity": 1, "scale": 2.0}
    for values, gained in ((2, 0.8), (5, 0.95), (30, 1.0)):
        losses = {"alone": [], "counted": []}
        for _ in range(300):
            held = coins.permutation(values) < coins.integers(1, values + 1)
            rows = coins.multinomial(40, held / held.sum())
            noised = rows + np.rint(coins.laplace(0, 2, values))
            for name, told in (("alone", None), ("counted", Counted(40, 0, 0, ()))):
                chances = held_given(noised, noise, 1, told)
                losses[name].append(-np.log(np.where(rows > 0, chances, 1 - chances)).mean())
        assert np.mean(losses["counted"]) < gained * np.mean(losses["alone"]), values
    (only,) = held_given(np.zeros(1), noise, 1, Counted(40, 0, 0, ()))
    assert only > 0.99 > held_given(np.zeros(1), noise, 1)


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 20])
def test_the_density_of_a_sum_of_noises_is_that_of_their_convolution(cells):
    far = np.arange(-600, 601)
    one = np.exp(-np.abs(far) / 4)
    whole = one / one.sum()
    for _ in range(cells - 1):
        whole = np.convolve(whole, one / one.sum(), "same")
    true = np.log(whole[600:720])
    told = log_density(np.arange(120.0), {"kind": "discrete-laplace", "scale": 4.0, "sensitivity": 1}, cells)
    np.testing.assert_allclose(told - told[0], true - true[0], atol=0.1)


def test_of_values_that_are_all_but_surely_held_by_two_classes_none_in_a_thousand_is_not():
    """Of a sum of two Laplace noises that is taken for normal 3 in a thousand were not, where 6 in 100,000 were to be
    expected."""
    coins, noise = np.random.default_rng(0), {"kind": "discrete-laplace", "scale": 4.0, "sensitivity": 1}
    absent = []
    for _ in range(8000):
        held = coins.random(6) < coins.random()
        rows = np.where(held, np.rint(np.exp(coins.uniform(0, np.log(100), 6))), 0)
        noised = rows + np.subtract(*coins.geometric(1 - np.exp(-1 / 4), (2, 2, 6))).sum(axis=0)
        absent += (~held)[held_given(noised.astype(float), noise, 2) > 0.999].tolist()
    assert len(absent) > 2000
    assert np.mean(absent) < 1e-3


def test_updates_and_evaluations_count_rows_for_claims_of_values_under_noise():
    view, tables = view_of(["server"], "server-dictionary", "federated-minmax", 0.2, rows=40)
    first = view.messages[0]
    updates = [
        replace(first, sequence=900 + i, step="train", sender=n).carrying(ClientWeights(len(t), {}))
        for i, (n, t) in enumerate(tables.items())
    ]
    evaluations = [
        replace(first, sequence=900 + i, step="evaluate", sender=n).carrying(
            PredictionCounts(np.array([[len(t) // 3 - 5, 0], [0, 5]]), np.zeros((2, 2, 4), np.int64))
        )
        for i, (n, t) in enumerate(tables.items())
    ]
    for kind in (Membership, Vocabulary, RingSize):
        alone = {(c.party, c.feature): c for c in claims_in(kind().run(view, AuxiliaryKnowledge()))}
        for told, public in ((updates, view.public), (evaluations, replace(view.public, held_out=0.25))):
            more = replace(view, messages=(*view.messages, *told), public=public).restricted(kind.accepts)
            claims = {(c.party, c.feature): c for c in claims_in(kind().run(more, AuxiliaryKnowledge()))}
            assert all(set(c.evidence) & {900, 901, 902} for c in claims.values())
            assert kind is not Membership or all(c.scores != alone[key].scores for key, c in claims.items())
        only = replace(view, messages=tuple(evaluations)).restricted(kind.accepts)
        assert isinstance(kind().run(only, AuxiliaryKnowledge()), NotApplicable)


def test_claims_of_values_under_noise_rest_on_rows_within_what_a_sum_over_clients_leaves():
    """Held-out rows leave 40 to 44, 50 to 52 and 58 to 62, and the sum of a round fewer of the first and the last."""
    view, _ = view_of(["server"], "server-dictionary", "federated-minmax", 0.2, rows=40)
    first, training = view.messages[0], TrainingSpec("fedavg", learning_rate=0.1, batch_size=4, local_epochs=1)
    public = replace(view.public, held_out=0.25, training=training)
    held_out = [
        replace(first, sequence=900 + i, step="evaluate", sender=n).carrying(
            PredictionCounts(np.array([[kept - 5, 0], [0, 5]]), np.zeros((2, 2, 4), np.int64))
        )
        for i, (n, kept) in enumerate(zip(NAMES, (14, 17, 20), strict=True))  # of 40, 50 and 60 rows
    ]
    summed = replace(first, sequence=950, round=0).carrying(SummedUpdate([0, 1, 2], 150, {}))
    found = []
    for told in (held_out, [*held_out, summed]):
        seen = replace(view, messages=(*view.messages, *told), public=public).restricted(Membership.accepts)
        found.append({(c.party, c.feature): c for c in claims_in(Membership().run(seen, AuxiliaryKnowledge()))})
    for key, alone in found[0].items():
        narrowed = key[0] != "P2"
        assert {900, 901, 902, 950} & set(alone.evidence) == {900 + NAMES.index(key[0])}
        assert ({900, 901, 902, 950} <= set(found[1][key].evidence)) is narrowed
        assert found[1][key].scores != alone.scores  # of P2 by the share of values that the others hold


@pytest.mark.parametrize("encoder", ["server-dictionary", "target"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_sizes_are_told_by_noised_tables_with_intervals_that_hold(encoder, epsilon):
    """Values that noise left out of the dictionary have no column: the columns in use are no bound from above."""
    held = []
    for seed in range(4):
        view, tables = view_of(["server"], encoder, "federated-minmax", epsilon, seed=seed)
        claims = claims_in(RingSize().run(view, AuxiliaryKnowledge()))
        held += [c.low <= len(set(tables[c.party].values(c.feature))) <= c.high for c in claims if c.feature]
        assert len(claims) == len(NAMES) * len(SCHEMA["categorical"])
        assert all(c.low < c.high for c in claims)
    assert np.mean(held) >= 0.8
