"""What mean and deviation that were computed on ciphertexts tell all parties but one about the last one."""

from dataclasses import replace
from math import log2, sqrt

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.attacks.transcript.statistics.decrypted import smudged
from leakledger.preprocess.messages import GlobalDeviations, GlobalMeans
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import FeatureLayout, Method
from tests.attacks.statistics_example import names, real, view_of
from tests.every import every

OPTIONS = {"log_degree": 14, "inverse_range": 20, "hiding_bits": 40}


def whole_numbers(sizes, features, seed, top=100.0):
    """One table per party."""
    coins = np.random.default_rng(seed)
    return [coins.normal(top / 2, top / 6, (n, features)).round().clip(0, top) for n in sizes]


def under_encryption(view, top=100.0, **options):
    """The view as one of `ppf-zscore`, with its public facts."""
    blocks = tuple(replace(b, low=0.0, high=top) for b in view.public.layout.blocks)
    scaler = Method("ppf-zscore", {**OPTIONS, **options})
    return replace(view, public=replace(view.public, layout=FeatureLayout(blocks), scaler=scaler))


def smudged_view(parts, observers, seed, top=100.0, **options):
    """The same of means and deviations in the clear, with the noise that decryptions have."""
    coins, noise = np.random.default_rng([seed, 7]), smudged(len(parts), *{**OPTIONS, **options}.values())
    whole = np.vstack(parts)
    mean = whole.mean(0) + top / 2 * noise * coins.normal(size=whole.shape[1])
    variance = ((whole - mean) ** 2).mean(0) + top**2 * noise * coins.normal(size=whole.shape[1])
    std = np.where(variance > 6 * top**2 * noise, np.sqrt(np.maximum(variance, 0)), 0.0)
    view = view_of(parts, observers, SCALERS["federated-zscore"](), integer=True)
    told = {GlobalMeans: GlobalMeans(mean), GlobalDeviations: GlobalDeviations(std)}
    messages = tuple(m.carrying(told[m.kind]) if m.kind in told else m for m in view.messages)
    return under_encryption(replace(view, messages=messages), top, **options)


def moments(view):
    found = Statistics().run(view, AuxiliaryKnowledge())
    assert isinstance(found, list), found
    return [c for c in found if c.statistic != "quantile"]


def assert_all_hold(parts, found):
    """Every interval holds the truth, and only counts have none."""
    for c in found:
        assert c.low <= real(parts, c) <= c.high, c
        assert c.low < c.high or c.statistic == "count", c


@pytest.mark.parametrize("seed", range(5))
def test_whole_numbers_betray_the_last_partys_count_through_the_noise_of_decryption(seed):
    parts = whole_numbers((40, 57), 12, seed)
    found = moments(smudged_view(parts, ["P1"], seed))
    assert len(found) == 1 + 2 * 12
    assert_all_hold(parts, found)
    assert (found[0].statistic, found[0].estimate) == ("count", 57)
    assert all(c.high - c.low < 1e-3 for c in found)


def test_fewer_whole_numbers_leave_multiples_and_the_count_is_not_called_exact():
    parts = whole_numbers((40, 57), 3, 0)
    found = moments(smudged_view(parts, ["P1"], 0))
    assert_all_hold(parts, found)
    assert found[0].estimate == 57
    assert found[0].low < found[0].high


def test_a_column_that_is_told_as_constant_may_vary_by_what_decryption_hides():
    parts = whole_numbers((40, 57), 12, 1)
    for x in parts:
        x[:, 0] = 7
    parts[1][0, 0] = 8
    found = moments(smudged_view(parts, ["P1"], 1, top=1e4))
    assert_all_hold(parts, found)


@every("hiding_bits", [1, 40, 64])
@every("seed", range(3))
def test_no_claim_is_narrower_than_the_noise(hiding_bits, seed):
    parts = whole_numbers((30, 20, 40), 4, seed)
    view = smudged_view(parts, ["P1", "P2"], seed, hiding_bits=hiding_bits)
    found = Statistics().run(view, AuxiliaryKnowledge())
    assert_all_hold(parts, [c for c in found if c.statistic != "quantile"] if isinstance(found, list) else [])


def test_a_range_that_nobody_knows_leaves_no_claim():
    parts = whole_numbers((40, 57), 3, 0)
    view = smudged_view(parts, ["P1"], 0)
    blocks = tuple(replace(b, low=None, high=None) for b in view.public.layout.blocks)
    view = replace(view, public=replace(view.public, layout=FeatureLayout(blocks)))
    assert not isinstance(Statistics().run(view, AuxiliaryKnowledge()), list)


def test_the_real_protocol_betrays_it_too():
    pytest.importorskip("tenseal.sealapi")
    parts = whole_numbers((40, 57), 12, 2)
    ranges = Ranges(tuple(names(parts)), ((0.0, 100.0),) * 12)
    view = view_of(parts, ["P1"], replace(SCALERS["ppf-zscore"](), ranges=ranges), integer=True)
    found = moments(under_encryption(view))
    assert_all_hold(parts, found)
    assert (found[0].statistic, found[0].estimate, found[0].low) == ("count", 57, 57)


@every("high_bits", [20, 30])
@every("log_degree", [14, 15])
def test_the_adversary_knows_how_far_off_a_decrypted_quotient_may_be(log_degree, high_bits):
    pytest.importorskip("tenseal.sealapi")
    from leakledger.preprocess.crypto.threshold_ckks import wide
    from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters

    of = parameters(log_degree)
    for parties in range(2, 101):
        for scale in (3 * of.prime_bits, 3 * of.prime_bits + 1e-6):
            bits = wide.quotient_smudging(of, parties, high_bits, scale, 40)
            noise = 2.0 ** (bits - scale) * sqrt(parties * of.degree / 6)
            assert 0 <= log2(smudged(parties, log_degree, high_bits, 40) / noise) < 5


@pytest.mark.parametrize("features", [1, 3, 14])
def test_a_count_that_is_claimed_exactly_from_means_in_the_clear_is_right(features):
    """Several numbers of rows leave whole sums of few columns; of many columns hardly ever does more than one."""
    exact, wrong = 0, 0
    for seed in range(150):
        coins = np.random.default_rng(seed)
        sizes = np.exp(coins.normal(np.log(40), 1, 2)).astype(int) + 4
        parts = whole_numbers(sizes, features, seed, float(coins.integers(2, 200)))
        view = view_of(parts, ["P1"], SCALERS["federated-zscore"](), integer=True)
        for c in moments(view):
            if c.statistic == "count" and c.low == c.high:
                exact += 1
                wrong += c.low != real(parts, c)
    assert wrong == 0
    assert exact > 100 or features < 14


IN_COMMON = {
    "constant columns": lambda x: np.column_stack([x[:, 0], np.full((len(x), 12), 5.0)]),
    "constant columns beside three": lambda x: np.column_stack([x[:, :3], np.full((len(x), 12), 5.0)]),
    "one column twelve times": lambda x: np.repeat(x[:, :1], 12, axis=1),
    "two columns six times": lambda x: np.tile(x[:, :2], 6),
    "thousands": lambda x: 1000 * x,
}


@every("what", IN_COMMON)
def test_columns_that_have_something_in_common_are_not_counted_as_so_many_witnesses_of_the_rows(what):
    """Twelve copies of a column are whole multiples of 1/N as often as one is; thousands of 1/2, 1/4 and 1/5."""
    for seed in range(110):
        sizes = np.exp(np.random.default_rng(seed).normal(np.log(40), 0.6, 2)).astype(int) + 4
        parts = [IN_COMMON[what](x) for x in whole_numbers(sizes, 12, seed)]
        counts = [
            c for c in moments(view_of(parts, ["P1"], SCALERS["federated-zscore"](), integer=True)) if not c.feature
        ]
        assert all(c.low <= real(parts, c) <= c.high for c in counts if c.low == c.high), seed
