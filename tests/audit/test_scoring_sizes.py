import pytest

from leakledger.attacks.base import StatisticClaim
from leakledger.audit.scoring.sizes import NOMINAL, score_sizes, true_size
from tests.audit.example import truth

T = truth()
PARTY = T.parties[0]
FEATURES = T.federated.schema.categorical


def claim(feature, estimate, low=None, high=None, statistic="size"):
    low, high = (estimate if bound is None else bound for bound in (low, high))
    return StatisticClaim(PARTY, feature, statistic, estimate, low, high, (5,))


def measured(*claims):
    return {m.metric: m for m in score_sizes(claims, T)}


def test_exact_sizes_have_no_error_and_none_is_falsely_exact():
    found = measured(*(claim(f, true_size(T, PARTY, f)) for f in FEATURES))
    assert found["size_error"].value == found["false_exact"].value == 0
    assert "size_coverage" not in found
    assert found["size_error"].evidence == (5,)


def test_a_wrong_size_that_calls_itself_exact_is_counted():
    feature, other = FEATURES[:2]
    found = measured(claim(feature, true_size(T, PARTY, feature) + 1), claim(other, true_size(T, PARTY, other)))
    assert found["false_exact"].value == 0.5


def test_coverage_is_the_share_of_intervals_that_hold_the_size():
    sizes = [true_size(T, PARTY, f) for f in FEATURES[:2]]
    inside = claim(FEATURES[0], sizes[0], sizes[0], sizes[0] + 1)
    outside = claim(FEATURES[1], sizes[1] + 2, sizes[1] + 1, sizes[1] + 3)
    found = measured(inside, outside)
    assert (found["size_coverage"].value, found["size_coverage"].baseline) == (0.5, NOMINAL)
    assert "false_exact" not in found


def test_the_error_is_in_units_of_the_joint_dictionary():
    feature = FEATURES[0]
    joint = T.pooled_statistic(feature, "size")
    found = measured(claim(feature, true_size(T, PARTY, feature) + 3))
    assert found["size_error"].value == pytest.approx(3 / joint)


def test_the_baseline_of_the_error_guesses_the_mean_size_of_the_other_parties():
    errors = []
    for feature in FEATURES:
        others = [true_size(T, p, feature) for p in T.parties if p != PARTY]
        own, joint = true_size(T, PARTY, feature), T.pooled_statistic(feature, "size")
        errors.append(abs(sum(others) / len(others) - own) / joint)
    assert max(errors) > 0
    found = measured(*(claim(f, 0) for f in FEATURES))
    assert found["size_error"].baseline == pytest.approx(sum(errors) / len(errors))


def test_the_size_of_all_features_together_is_claimed_under_no_name():
    total = sum(true_size(T, PARTY, f) for f in FEATURES)
    assert measured(claim("", total)).keys() == {"false_exact"}
    assert measured(claim("", total))["false_exact"].value == 0
    assert measured(claim("", total + 1))["false_exact"].value == 1


def test_other_statistics_are_left_to_their_own_scores():
    assert measured(claim(FEATURES[0], 3, statistic="count")) == {}
