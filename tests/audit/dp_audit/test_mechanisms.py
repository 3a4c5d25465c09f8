"""Black-box audits of every mechanism on statistics and on updates: right ones are not refuted, weakened ones are."""

from itertools import pairwise

import numpy as np
import pytest

from leakledger.audit.dp_audit import updates
from leakledger.audit.dp_audit.audited import audit, audits
from leakledger.audit.dp_audit.mechanisms import mechanisms
from leakledger.audit.dp_audit.proportions import at_least
from leakledger.audit.dp_audit.two_worlds import audit_two_worlds
from leakledger.defenses import DEFENSES
from leakledger.defenses.accounting.chain import CLIPPING, NOISE
from leakledger.preprocess.noise.calibration import noise_for
from leakledger.preprocess.noise.columns import Ranges, released_moments
from leakledger.preprocess.noise.integers import from_generator

NAMES = [m.name for m in mechanisms()]
NOMINAL = 0.05


def named(name):
    return next(m for m in mechanisms() if m.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_over_a_thousand_audits_of_a_right_mechanism_rejections_stay_at_the_nominal_share(name):
    found = audits(named(name), 1000, 400, np.random.default_rng(11))
    assert at_least(sum(a.refuted for a in found), 1000, 0.05) <= NOMINAL


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_noise_at_half_the_claimed_scale_is_refuted_from_a_hundred_thousand_samples(name):
    found = [audit(named(name), 100_000, np.random.default_rng([12, i]), 0.5) for i in range(10)]
    assert sum(a.refuted for a in found) >= 9


PURE = [name for name in NAMES if "discrete Laplace" in name or "exponential" in name]


@pytest.mark.parametrize("name", PURE)
def test_worlds_are_nearly_as_far_apart_as_the_claim_allows(name):
    """An audit that cannot come near the claim would refute nothing: these show three quarters of it."""
    bound = audit(named(name), 60_000, np.random.default_rng(13)).bound
    assert 0.75 <= bound.epsilon <= 1.0
    assert audit(named(name), 60_000, np.random.default_rng(13), 0.5).refuted


def test_a_range_that_is_taken_from_the_rows_is_refuted():
    """Known bad: noise made for the rows' own range is narrow where the record that widens it is gone."""
    samples, noise = 20_000, noise_for(1.0, 0.0, 1)
    below = from_generator(np.random.default_rng(14))
    worlds = []
    for rows in ([20.0, 21.0], [20.0, 21.0, 90.0]):
        table = np.repeat(np.array(rows)[:, None], samples, axis=1)
        ranges = Ranges(tuple(map(str, range(samples))), ((min(rows), max(rows)),) * samples)
        sums = released_moments(table, ranges, noise, below)[1] / noise.sensitivity
        worlds.append(np.abs(sums * ranges.half))  # what is told, in raw units
    bound = audit_two_worlds(worlds[1], worlds[0], delta=0.0, coins=np.random.default_rng(15))
    assert bound.epsilon > 1.0


def test_audits_that_are_drawn_at_once_are_independent_and_as_many_as_asked_for():
    found = audits(named("table, discrete Laplace"), 5, 2000, np.random.default_rng(16))
    bounds = [a.bound.epsilon for a in found]
    assert len(bounds) == 5
    assert any(one != other for one, other in pairwise(bounds))


def test_every_kind_of_noise_and_everything_that_is_told_under_it_is_audited():
    told = {}
    for name in NAMES:
        told.setdefault(name.partition(", ")[2], set()).add(name.partition(", ")[0])
    numbers = {"count", "sum", "sum of squares", "table", "whole message"}
    ranks = {f"{end} {what}" for end in ("lowest", "highest") for what in ("extreme", "quartile")} | {"median"}
    assert told == {
        "discrete Laplace": numbers,
        "discrete Gaussian": numbers,
        "exponential": ranks,
        "Gaussian": {"DP-SGD", "client-level DP"},
    }
    assert {*CLIPPING, NOISE} <= DEFENSES.keys()  # what the last two are made of, and all that has an epsilon


def test_the_worlds_of_updates_are_as_far_apart_as_clipping_lets_them_be():
    with_it, without = updates._gradients()
    apart = np.sqrt(sum(((with_it[n] - without[n]) ** 2).sum() for n in with_it))
    assert apart == pytest.approx(updates.CLIP_NORM / updates.BATCH, rel=1e-6)
    for mechanism in updates.mechanisms():
        assert mechanism.epsilon == pytest.approx(4.3772, abs=1e-3)  # mu = 1
        bound = audit(mechanism, 40_000, np.random.default_rng(17)).bound
        assert 0.9 < bound.mu <= 1.0
        assert audit(mechanism, 40_000, np.random.default_rng(17), 0.5).bound.mu > 1.8
