import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.audit.gate.levels import levels, mean_share
from leakledger.audit.gate.snapshot import Cell, Cluster, Measure

PRIORS = np.array([0.0, 1.0, 0.3, 0.0, 0.7, 1.0, 0.2, 0.5, 0.0, 0.4])  # by luck the prior knows two batches
LESS_LUCK = np.array([0.0, 0.0, 0.3, 0.0, 0.7, 0.0, 0.2, 0.5, 0.0, 0.4])
SHARE = st.floats(0, 1)


def series(values, priors, metric="accuracy"):
    clusters = (Cluster(k, "P1", 0, float(v), float(p)) for k, (v, p) in enumerate(zip(values, priors, strict=True)))
    return Measure(Cell("s", "server", "records"), "made", ("server",), metric, "value", tuple(clusters))


def both(now, before):
    return [np.array(list(of.values())) for of in levels(now, before)]


@pytest.mark.parametrize("metric", ["accuracy", "rmse"])
def test_an_attack_that_has_everything_is_at_1_in_every_cluster_whatever_the_prior_had(metric):
    perfect, left = (np.ones(10), lambda p: p) if metric == "accuracy" else (np.zeros(10), lambda p: 1 - p)
    for found in both(series(perfect, left(PRIORS), metric), series(perfect, left(LESS_LUCK), metric)):
        assert found == pytest.approx(np.ones(10))


def test_an_attack_that_has_what_the_prior_has_or_less_is_at_0_in_every_cluster():
    for found in both(series(PRIORS, PRIORS), series(LESS_LUCK - 5, LESS_LUCK)):
        assert found.tolist() == [0.0] * 10


@given(SHARE, SHARE)
def test_pairs_of_one_prior_differ_by_what_was_gained_more_from_either_end(more, less):
    now, before = (series(PRIORS + q * (1 - PRIORS), PRIORS) for q in (more, less))
    a, b = both(now, before)
    assert a - b == pytest.approx((more - less) * (1 - PRIORS) / (1 - PRIORS).mean())


@given(SHARE, SHARE)
def test_the_share_that_is_shown_is_between_nothing_and_everything(q, p):
    priors = np.full(10, p)
    assert -1e-9 <= mean_share(series(priors + q * (1 - priors), priors)) <= 1 + 1e-9


def test_where_every_prior_leaves_the_same_a_level_is_the_share_of_it():
    made = series(np.linspace(0.2, 1, 10), np.full(10, 0.2))
    for found in both(made, made):
        assert found == pytest.approx(np.linspace(0, 1, 10))


def test_what_the_prior_nearly_knows_counts_little_and_what_it_knows_nothing():
    for room, share in ((0.1, 1.0), (0.05, 0.5), (0.01, 0.1), (0.0, 0.0)):
        made = series(np.ones(10), np.full(10, 1 - room))
        assert both(made, made)[0] == pytest.approx(np.full(10, share))
        assert mean_share(made) == pytest.approx(share)


def test_a_side_without_a_claim_has_no_levels():
    made = series(np.ones(10), PRIORS)
    assert levels(None, made)[0] == levels(made, None)[1] == {}
    assert mean_share(None) == 0
