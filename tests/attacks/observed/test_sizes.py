"""What messages settle of sizes: bounds that hold for every federation, and exact where sums leave one number."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.observed.ring import Contradiction
from leakledger.attacks.observed.sizes import Bounds, Sum, narrowed, size_bounds
from leakledger.preprocess.scalers import SCALERS
from tests.attacks.ring_example import EVERYTHING, FEATURES, SETS, run

MOST = {f: len(v) for f, v in EVERYTHING.items()}
ENCODERS = (("local", {}), ("uhe", {}), ("uhe", {"pad_to": 3}), ("mod-norm", {}), ("dh-psi", {}), ("otmp-psi", {}))
ALL_COLUMNS = SCALERS["federated-zscore"](columns="all")


def exact(view, most=None):
    return {key: b.low for key, b in size_bounds(view, most).items() if b.exact and key[0] not in view.observers}


@pytest.mark.parametrize(("encoder", "options"), ENCODERS)
@pytest.mark.parametrize("scaler", [None, ALL_COLUMNS])
def test_every_size_lies_within_its_bounds(encoder, options, scaler):
    found = run(encoder, scaler=scaler, **options)
    for observers in (("server",), ("P1",), ("P4",), ("P1", "P3"), ("P2", "P3", "P4"), ("server", "P2")):
        for most in (None, MOST):
            for (party, feature), b in size_bounds(found.view(*observers), most).items():
                assert b.low <= found.size(party, feature) <= b.high, (observers, party, feature)


def test_sizes_that_are_told_stand_between_boundaries_or_are_the_rest_of_a_sum_are_exact():
    everyone = {(p, f): len(SETS[p][f]) for p in SETS for f in FEATURES}
    assert exact(run("local").view("server")) == everyone
    assert exact(run("uhe").view("P2")).keys() == {("P1", f) for f in FEATURES}
    last = {("P4", f): len(SETS["P4"][f]) for f in FEATURES}
    for encoder in ("mod-norm", "uhe"):
        assert exact(run(encoder).view("P1", "P2", "P3")) == last
    assert exact(run("uhe", scaler=ALL_COLUMNS).view("server")) == everyone
    assert exact(run("local").view("P1", "P3", "P4")) == {}  # the largest is an observer's
    assert exact(run("local").view("P1", "P2", "P4")) == {("P3", "ward"): 5}


def test_the_length_of_a_request_that_has_all_values_there_are_is_every_size():
    sets = {**SETS, "P1": EVERYTHING}
    view = run("dh-psi", sets).view("P4")
    assert not {("P1", f) for f in FEATURES} & exact(view).keys()
    assert {k: n for k, n in exact(view, MOST).items() if k[0] == "P1"} == {("P1", f): MOST[f] for f in FEATURES}


def test_a_range_with_unused_numbers_is_no_size():
    assert exact(run("uhe", pad_to=2).view("P2")) == {}
    assert exact(run("uhe", noise=1).view("P2")) == {}
    for name in ("pad_to", "noise"):  # nor is one of which nobody says that it has none
        found = run("uhe")
        stated = {option: value for option, value in found.public.encoder.options.items() if option != name}
        found.public = replace(found.public, encoder=replace(found.public.encoder, options=stated))
        assert exact(found.view("P2")) == {}


def test_more_values_than_there_may_be_are_a_contradiction():
    view = run("local").view("server")
    with pytest.raises(Contradiction, match="at least 5"):
        size_bounds(view, {"ward": 4})


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_sums_leave_every_size_within_its_bounds_and_the_last_one_of_a_sum_exact(data):
    parties, features = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    true = np.array(data.draw(st.lists(st.integers(1, 6), min_size=parties * features, max_size=parties * features)))
    true = true.reshape(parties, features)
    keys = [[(f"P{p}", f"f{k}") for k in range(features)] for p in range(parties)]
    sums = [Sum(tuple(row), int(n), frozenset([1])) for row, n in zip(keys, true.sum(1), strict=True)]
    sums += [
        Sum(tuple(col), int(n), frozenset([2])) for col, n in zip(zip(*keys, strict=True), true.sum(0), strict=True)
    ]
    told = {key: Bounds() for row in keys for key in row}
    for key, n in zip([k for row in keys for k in row], true.ravel().tolist(), strict=True):
        if data.draw(st.booleans()):
            told[key] = Bounds(n, n, frozenset([3]))
    found = narrowed(told, sums)
    for p, row in enumerate(keys):
        for k, key in enumerate(row):
            assert found[key].low <= true[p, k] <= found[key].high
        open_ = [key for key in row if not told[key].exact]
        assert len(open_) != 1 or found[open_[0]].exact


def test_a_view_of_nothing_leaves_all_sizes_open():
    view = replace(run("local").view("server"), messages=())
    assert {(b.low, b.high) for b in size_bounds(view).values()} == {(1, np.inf)}
