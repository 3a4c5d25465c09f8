"""What each coalition gets of the columns behind exchanged features, and what it does not claim."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, ColumnClaim, FindingClaim, StatisticClaim, claims_in
from leakledger.attacks.transcript.feature_exchange.equations import Equation, Solved, solve_products, solve_sums
from leakledger.attacks.transcript.feature_exchange.exchanged import Loop
from leakledger.attacks.transcript.feature_exchange.ratios import from_quotients
from leakledger.attacks.transcript.feature_exchange.sketches import counts_of
from leakledger.audit.control_features import engineered
from leakledger.audit.control_parties import frozen
from leakledger.audit.scoring.columns import column_agreement
from leakledger.preprocess.features.devices import DeviceColumns, LabelColumn
from leakledger.preprocess.features.flfe import FLFE, PublicColumns
from leakledger.preprocess.features.sketch import scaled, sketch
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts, View
from tests.preprocess.features.whole import columns, judges_from_plain, open_minded

SUM, BOTH, PRODUCTS = ("sum",), ("sum", "difference"), ("product", "quotient")


def run(observers, seed=0, held=None, ill=None, classes=2, **options):
    """Claims of some observers on a run with three devices, of which the first has two features."""
    given_held, given_labels = columns(200, seed, classes)
    held, ill = held or given_held, ill or given_labels
    flfe = FLFE(**{"bins": 6, "threshold": 0.0, **options})
    fed = Simulated(list(held), secret=pinned("exchange", seed))
    devices = {d: fed.at(d, DeviceColumns.from_plain(own)) for d, own in held.items()}
    agreed = PublicColumns({d: tuple(own["columns"]) for d, own in held.items()}, classes, "P1")
    judges = fed.at(fed.server, judges_from_plain(open_minded(flfe.bins)))
    flfe.run(fed, agreed, devices, fed.at("P1", LabelColumn.from_plain(ill)), judges)
    schema = {"categorical": [], "numeric": ["height", "age", "weight", "dose"], "target": "ill"}
    public = PublicFacts(fed.clients, "server", schema=schema, features=flfe.method(agreed))
    view = fed.ledger.view(observers, public, inputs=held, coins=fed.party_secrets())
    return claims_in(ATTACKS["feature_exchange"]().run(view, AuxiliaryKnowledge())), held


def agreements(observers, **options):
    """(device, feature) -> relation and agreement with the true column, of what is claimed."""
    claims, held = run(observers, **options)
    return {
        (c.party, c.feature): (c.relation, column_agreement(c, held[c.party]["columns"][c.feature]))
        for c in claims
        if isinstance(c, ColumnClaim) and c.feature != "ill"
    }


EVERY = {("P1", "height"), ("P1", "age"), ("P2", "weight"), ("P3", "dose")}


@pytest.mark.parametrize("masks", ["fresh", "reused"])
@pytest.mark.parametrize(
    ("transformations", "relation"),
    [
        (BOTH, "exact"),
        (("sum", "quotient"), "exact"),
        (("difference", "quotient"), "exact"),
        (PRODUCTS, "magnitude"),
    ],
)
def test_two_results_of_one_pair_give_the_server_both_columns(transformations, relation, masks):
    found = agreements(["server"], transformations=transformations, masks=masks, mask_signs=True)
    assert found.keys() == EVERY
    assert all(r == relation and a.exact == 1 for r, a in found.values())


def pair_and_more(*features):
    """Columns of the first two devices, of the first as many as named, and the labels."""
    held, labels = columns(200)
    own = {"P1": {f: held["P1"]["columns"][f] for f in features}, "P2": held["P2"]["columns"]}
    return {d: {**held[d], "columns": of} for d, of in own.items()}, labels


@pytest.mark.parametrize("exchange", ["masked", "encrypted"])
@pytest.mark.parametrize("how", ["sum", "difference"])
def test_products_beside_sums_or_differences_give_the_server_a_column_of_two_pairs(how, exchange):
    """Neither sums nor products of two pairs determine anything alone: nothing was exact."""
    held, labels = pair_and_more("height", "age")
    for x in (x for own in held.values() for x in own["columns"].values()):
        x -= 45  # signs are told, too
    found = agreements(["server"], held=held, ill=labels, transformations=(how, "product"), exchange=exchange)
    assert found.keys() == EVERY - {("P3", "dose")}
    relation, exact, least = ("exact", 1.0, 1.0) if exchange == "masked" else ("estimate", 0.0, 0.95)  # under noise
    for r, a in found.values():
        assert r == relation
        assert a.exact >= exact
        assert a.correlation > least - 1e-9


def test_records_in_which_two_pairs_are_alike_are_left_open():
    held, labels = pair_and_more("height", "age")
    held["P1"]["columns"]["age"][:20] = held["P1"]["columns"]["height"][:20]
    claims, _ = run(["server"], held=held, ill=labels, transformations=("sum", "product"))
    told = {c.feature: c.values for c in claims if isinstance(c, ColumnClaim) and c.relation == "exact"}
    assert told.keys() == {"height", "age", "weight"}
    for feature, values in told.items():
        true = held["P2" if feature == "weight" else "P1"]["columns"][feature]
        assert np.isnan(values[:20]).all()
        assert values[20:] == pytest.approx(true[20:], rel=1e-6)


def test_records_that_two_pairs_leave_open_follow_from_a_column_that_is_told_whole_by_itself():
    """A column that was known in part stayed so, whatever was known of its partner then."""
    held, labels = pair_and_more("height", "age")
    held["P1"]["columns"]["age"][:] = np.linspace(-0.9, 0.9, 200)  # the only one of which no tanh is rounded to 1
    held["P1"]["columns"]["height"][:20] = held["P1"]["columns"]["age"][:20]
    claims, _ = run(["server"], held=held, ill=labels, transformations=("sum", "product", "tanh"))
    told = {c.feature: c.values for c in claims if isinstance(c, ColumnClaim) and c.relation == "exact"}
    for device in held.values():
        for feature, true in device["columns"].items():
            assert told[feature] == pytest.approx(true, rel=1e-6)


def test_records_in_which_two_pairs_are_zero_are_left_open_where_rounding_parts_them():
    """Products of 0 have no error, and large masks leave sums that differ by their last digits: it was 0 for exact."""
    held, labels = pair_and_more("height", "age")
    for f in ("height", "age"):
        held["P1"]["columns"][f][:20] = 0.0
    options = {"transformations": ("sum", "product"), "mask_size": 1e6}
    claims, _ = run(["server"], held=held, ill=labels, **options)
    told = {c.feature: c.values for c in claims if isinstance(c, ColumnClaim) and c.relation == "exact"}
    assert np.isnan(told["weight"][:20]).all()
    assert told["weight"][20:] == pytest.approx(held["P2"]["columns"]["weight"][20:], rel=1e-6)


@pytest.mark.parametrize("zeros", [0, 30])
@pytest.mark.parametrize("exchange", ["masked", "encrypted"])
def test_a_difference_and_a_product_give_the_server_two_columns_from_zero_on(zeros, exchange):
    """The estimates followed the columns with a correlation of 0.70 and 0.75."""
    held, labels = pair_and_more("height")
    held["P1"]["columns"]["height"][:zeros] = 0.0
    options = {"transformations": ("difference", "product"), "exchange": exchange}
    found = agreements(["server"], held=held, ill=labels, **options)
    assert found.keys() == {("P1", "height"), ("P2", "weight")}
    assert all((r, round(a.exact, 1)) == ("estimate", 1.0) and a.correlation > 0.9999 for r, a in found.values())


@pytest.mark.parametrize(("how", "middle"), [("sum", 0), ("difference", 50)])
def test_a_product_says_nothing_of_whose_are_two_numbers_behind_a_sum_or_of_signs_behind_a_difference(how, middle):
    held, labels = pair_and_more("height")
    held["P1"]["columns"]["height"] -= middle
    found = agreements(["server"], held=held, ill=labels, transformations=(how, "product"))
    assert {r for r, _ in found.values()} == {"scaled"}


def test_one_sum_of_each_pair_of_three_devices_gives_all_columns_but_one_pair_alone_does_not():
    assert all(a.exact == 1 for _, a in agreements(["server"], transformations=SUM).values())
    held, labels = columns(200)
    two = {d: {**held[d], "columns": dict([*held[d]["columns"].items()][:1])} for d in ("P1", "P2")}
    found = agreements(["server"], held=two, ill=labels, transformations=SUM)
    assert {r for r, _ in found.values()} == {"scaled"}
    assert max(a.exact for _, a in found.values()) == 0


def whole_numbers(devices=("P1", "P2", "P3"), low=20, records=300):
    """Columns of whole numbers, one for each device, and the labels."""
    coins, (held, labels) = np.random.default_rng(0), columns(records)
    first = {d: next(iter(held[d]["columns"])) for d in devices}
    return {
        d: {**held[d], "columns": {f: coins.integers(low, 200, records).astype(float)}} for d, f in first.items()
    }, labels


@pytest.mark.parametrize("exchange", ["masked", "encrypted"])
@pytest.mark.parametrize(("devices", "exact"), [(("P1", "P2"), 0.5), (("P1", "P2", "P3"), 0.75)])
def test_quotients_of_whole_numbers_give_the_server_those_without_a_common_divisor(devices, exact, exchange):
    held, labels = whole_numbers(devices)
    found = agreements(["server"], held=held, ill=labels, transformations=("quotient",), exchange=exchange)
    assert len(found) == len(devices)
    assert all(r == "estimate" and a.exact > exact and a.correlation > 0.5 for r, a in found.values())


def test_records_in_lowest_terms_are_brought_to_one_unit():
    """Beside decimals each record lost a factor of its own: columns known up to that had a correlation of 0.4."""
    held, labels = whole_numbers(low=100)
    first = next(iter(held["P1"]["columns"]))
    held["P1"]["columns"][first] /= 10
    found = agreements(["server"], held=held, ill=labels, transformations=("quotient",))
    assert all(r == "estimate" and a.correlation > 0.8 for r, a in found.values())


def test_quotients_of_columns_of_many_digits_give_the_server_no_values():
    found = agreements(["server"], transformations=("quotient",))
    assert {(r, a.exact) for r, a in found.values()} == {("scaled", 0.0)}


INDEPENDENT = {"height": 1.0, "weight": 1.0, "dose": 8.0}


@pytest.mark.parametrize("exchange", ["masked", "encrypted"])
@pytest.mark.parametrize(
    ("transformation", "devices", "least"),
    [
        ("sum", ("P1", "P2"), {"height": 0.6, "weight": 0.6}),
        ("difference", ("P1", "P2"), {"height": 0.6, "weight": 0.6}),
        ("difference", ("P1", "P3"), {"height": 0.0, "dose": 0.98}),
        ("difference", ("P1", "P2", "P3"), {"height": 0.6, "weight": 0.6, "dose": 0.98}),
        ("product", ("P1", "P2"), {"height": 0.6, "weight": 0.6}),
        ("quotient", ("P1", "P2", "P3"), {"height": 0.5, "weight": 0.5, "dose": 0.9}),
    ],
)
def test_a_result_follows_the_columns_that_it_is_made_of(transformation, devices, least, exchange):
    """The server claimed nothing of a difference or a quotient, or of one pair alone."""
    coins, (held, labels) = np.random.default_rng(4), columns(400)
    names = {d: next(iter(held[d]["columns"])) for d in devices}
    two = {d: {**held[d], "columns": {f: 40 + INDEPENDENT[f] * coins.normal(0, 1, 400)}} for d, f in names.items()}
    found = agreements(["server"], held=two, ill=labels, transformations=(transformation,), exchange=exchange)
    assert {feature for _, feature in found} == least.keys()
    for (_, feature), (relation, agreement) in found.items():
        assert relation == "scaled"
        assert agreement.correlation > least[feature]


def test_a_record_with_a_zero_leaves_the_other_column_of_a_quotient_open():
    held, labels = whole_numbers(("P1", "P2"))
    held["P1"]["columns"]["height"][:20] = 0
    claims, _ = run(["server"], held=held, ill=labels, transformations=("quotient",))
    told = {c.feature: c.values for c in claims if isinstance(c, ColumnClaim)}
    assert np.isnan(told["weight"][:20]).all()
    assert np.isfinite(told["weight"][20:]).all()


@pytest.mark.parametrize("exchange", ["masked", "encrypted"])
@pytest.mark.parametrize("digits", ["few", "many"])
@pytest.mark.parametrize("others", [("P2",), ("P2", "P3")])
def test_a_column_of_zeros_and_ones_that_others_divide_is_known(others, digits, exchange):
    """Records with a zero were left open, so that of the ones nothing told them apart: a correlation of 0."""
    held, labels = whole_numbers(("P1", *others))
    coins = np.random.default_rng(5)
    held["P1"]["columns"]["height"] = coins.integers(0, 2, 300).astype(float)
    if digits == "many":
        for d in others:
            held[d]["columns"] = {f: coins.normal(40, 3, 300) for f in held[d]["columns"]}
    found = agreements(["server"], held=held, ill=labels, transformations=("quotient",), exchange=exchange)
    assert found["P1", "height"][1].correlation > 0.9
    assert all(a.correlation > (0.6 if len(others) == 1 else 0.75) for _, a in found.values())


def test_whole_numbers_beside_a_zero_are_read_off_the_quotient_of_the_others():
    held, labels = whole_numbers()
    held["P1"]["columns"]["height"][:100] = 0
    claims, _ = run(["server"], held=held, ill=labels, transformations=("quotient",))
    told = {c.feature: c.values for c in claims if isinstance(c, ColumnClaim)}
    assert (told["height"][:100] == 0).all()
    assert (told["weight"] == held["P2"]["columns"]["weight"])[:100].mean() > 0.5
    assert (told["dose"] == held["P3"]["columns"]["dose"])[:100].mean() > 0.5


def test_quotients_too_large_for_their_digits_are_not_taken_for_whole_numbers():
    """A whole number is near enough to all of these, and the estimate of the divisor was 1 in every record."""
    held, labels = columns(300)
    coins, names = np.random.default_rng(6), {"P1": ("height", 1e17), "P2": ("weight", 1.0)}
    far = {d: {**held[d], "columns": {f: size * coins.lognormal(0, 1, 300)}} for d, (f, size) in names.items()}
    found = agreements(["server"], held=far, ill=labels, transformations=("quotient",))
    assert {r for r, _ in found.values()} == {"scaled"}
    assert all(a.correlation > 0.4 for _, a in found.values())


def test_records_whose_common_multiple_is_beyond_float64_are_left_open():
    """An OverflowError ended the attack on a table of a hundred columns."""
    coins = np.random.default_rng(7)
    told = [Solved(coins.integers(1, 300, 20) / coins.integers(10_000, 100_000, 20), (0,)) for _ in range(100)]
    pairs = [(("column", "P1", str(k)), ("column", "P2", "dose")) for k in range(100)]
    loops = [Loop("quotient", *p, ("mask",), None, None, None, (), s) for p, s in zip(pairs, told, strict=True)]
    view = View(frozenset({"server"}), (), PublicFacts(("P1", "P2"), "server"))
    assert all(np.isnan(c.values).all() for c in from_quotients(view, {}, loops))


@pytest.mark.parametrize("transformation", ["sum", "difference", "product", "quotient"])
def test_the_server_and_a_device_know_every_column_exchanged_with_it(transformation):
    one = agreements(["P2", "server"], transformations=(transformation,), mask_signs=True)
    assert one.keys() == EVERY - {("P2", "weight")}
    assert all(r == "exact" and a.exact == 1 for r, a in one.values())


def test_a_mask_used_twice_gives_the_column_to_the_device_it_is_to_be_hidden_from():
    reused = agreements(["P3"], transformations=BOTH, masks="reused")
    assert reused.keys() == EVERY - {("P3", "dose")}
    assert all(r == "exact" and a.exact == 1 for r, a in reused.values())
    fresh = agreements(["P3"], transformations=BOTH)
    assert {r for r, _ in fresh.values()} == {"estimate"}
    assert max(a.exact for _, a in fresh.values()) == 0


@pytest.mark.parametrize("transformations", [SUM, BOTH, ("sum", "quotient")])
def test_a_small_column_beside_a_large_one_that_rounding_takes_is_not_vouched_for(transformations):
    held, labels = columns(200)
    held["P1"]["columns"]["height"] *= 1e9
    held["P2"]["columns"]["weight"] *= 1e-8
    found = agreements(["server", "P3"], held=held, ill=labels, transformations=transformations)
    assert found["P1", "height"][0] == "exact"
    assert not [key for key, (relation, a) in found.items() if relation == "exact" and a.exact < 1]


@pytest.mark.parametrize("transformations", [BOTH, ("sum", "quotient")])
def test_one_number_far_out_excuses_no_error_in_all_others(transformations):
    held, labels = columns(200)
    held["P1"]["columns"]["height"] = np.where(np.arange(200) == 7, 1e9, np.linspace(0.1, 1, 200))
    for device, feature in (("P2", "weight"), ("P3", "dose")):
        held[device]["columns"][feature] = np.random.default_rng(0).uniform(1e15, 9e15, 200)
    claims, _ = run(["server"], held=held, ill=labels, transformations=transformations)
    (told,) = [c for c in claims if isinstance(c, ColumnClaim) and c.feature == "height"]
    assert told.relation == "estimate"
    assert column_agreement(told, held["P1"]["columns"]["height"]).exact < 0.1


@pytest.mark.parametrize("rare", [0.3, 0.02])
def test_a_column_of_zeros_and_few_ones_is_known_exactly(rare):
    held, labels = columns(200)
    held["P1"]["columns"]["height"] = (np.arange(200) < 200 * rare).astype(float)
    for device, feature in (("P2", "weight"), ("P3", "dose")):
        held[device]["columns"][feature] /= 100
    found = agreements(["server"], held=held, ill=labels, transformations=BOTH)["P1", "height"]
    assert (found[0], found[1].exact) == ("exact", 1)


@pytest.mark.parametrize("transformation", ["tanh", "sigmoid"])
def test_a_value_that_saturates_a_transformation_up_to_rounding_is_not_claimed(transformation):
    held, labels = columns(200)
    held["P2"]["columns"]["weight"] = np.linspace(-40, 40, 200)
    claims, _ = run(["server"], held=held, ill=labels, transformations=(transformation,))
    (told,) = [c.values for c in claims if isinstance(c, ColumnClaim) and c.feature == "weight"]
    known = np.isfinite(told)
    assert known.sum() > 30
    np.testing.assert_allclose(told[known], held["P2"]["columns"]["weight"][known], rtol=2e-6)


def test_encryption_leaves_the_server_what_it_is_meant_to_end_with():
    sums = agreements(["server"], transformations=BOTH, exchange="encrypted")
    assert sums.keys() == EVERY
    assert {r for r, _ in sums.values()} <= {"exact", "estimate"}  # flooded: not every digit of small numbers is told
    assert all(a.correlation > 1 - 1e-9 for _, a in sums.values())
    assert all(a.exact == 1 for r, a in sums.values() if r == "exact")
    held, labels = columns()
    large = {d: {**own, "columns": {f: 1e4 * x for f, x in own["columns"].items()}} for d, own in held.items()}
    found = agreements(["server"], held=large, ill=labels, transformations=BOTH, exchange="encrypted")
    assert all(r == "exact" and a.exact == 1 for r, a in found.values())
    products = agreements(["server"], transformations=PRODUCTS, exchange="encrypted")
    assert products.keys() == EVERY
    assert all(r == "magnitude" and a.exact == 1 for r, a in products.values())
    held, labels = columns(200)
    two = {d: {**held[d], "columns": dict([*held[d]["columns"].items()][:1])} for d in ("P1", "P2")}
    alone = agreements(["server"], held=two, ill=labels, transformations=SUM, exchange="encrypted")
    assert {(r, a.exact) for r, a in alone.values()} == {("scaled", 0.0)}


def test_encrypted_zeros_are_zeros_and_leave_other_columns_of_the_record_open():
    held, labels = columns(200)
    held["P1"]["columns"]["height"][:60] = 0.0
    claims, _ = run(["server"], held=held, ill=labels, transformations=PRODUCTS, exchange="encrypted")
    told = {c.feature: c.values for c in claims if isinstance(c, ColumnClaim)}
    assert (told["height"][:60] == 0).all()
    for device, feature in EVERY - {("P1", "height")}:
        truth, known = np.abs(held[device]["columns"][feature]), np.isfinite(told[feature])
        np.testing.assert_allclose(told[feature][known], truth[known], rtol=1e-6)
        assert known[60:].all()
    only = {"P1": {**held["P1"], "columns": {"height": held["P1"]["columns"]["height"]}}, "P2": held["P2"]}
    claims, _ = run(["server"], held=only, ill=labels, transformations=PRODUCTS, exchange="encrypted")
    (weight,) = [c.values for c in claims if isinstance(c, ColumnClaim) and c.feature == "weight"]
    assert np.isnan(weight[:60]).all()
    assert np.isfinite(weight[60:]).all()


def test_what_noise_of_ciphertexts_leaves_uncertain_is_not_vouched_for():
    held, labels = columns(200)
    small = {d: {**own, "columns": {f: x / 100 for f, x in own["columns"].items()}} for d, own in held.items()}
    found = agreements(["server"], held=small, ill=labels, transformations=PRODUCTS, exchange="encrypted")
    assert found.keys() == EVERY
    for relation, agreement in found.values():
        assert relation == "magnitude-estimate"
        assert agreement.correlation > 0.999
        assert agreement.exact < 1


def test_where_the_server_transforms_it_opens_every_column():
    held, labels = columns(200)
    two = {d: {**held[d], "columns": dict([*held[d]["columns"].items()][:1])} for d in ("P1", "P2")}
    options = {"transformations": SUM, "exchange": "encrypted-at-server"}
    found = agreements(["server"], held=two, ill=labels, **options)
    assert found.keys() == {("P1", "height"), ("P2", "weight")}
    assert all(r == "exact" and a.exact == 1 for r, a in found.values())


@pytest.mark.parametrize("exchange", ["encrypted", "encrypted-at-server"])
def test_no_device_opens_what_is_encrypted_but_with_the_server_all_that_met_its_own(exchange):
    for device in ("P1", "P3"):
        assert agreements([device], transformations=("sum", "product"), exchange=exchange) == {}
    both = agreements(["P2", "server"], transformations=("product",), exchange=exchange)
    assert both.keys() >= EVERY - {("P2", "weight")}
    assert all(r == "exact" and a.exact == 1 for r, a in both.values())


def test_keys_that_do_not_follow_from_the_servers_coins_open_nothing():
    played = engineered(frozen({"transformations": BOTH, "exchange": "encrypted"}), 0)
    view = played.view("server")
    other = replace(view, coins={"server": bytes(32)})
    found = [claims_in(ATTACKS["feature_exchange"]().run(v, AuxiliaryKnowledge())) for v in (view, other)]
    columns_told = [{c.feature for c in claims if isinstance(c, ColumnClaim)} for claims in found]
    assert columns_told[0] > columns_told[1] == set()


def test_fresh_masks_average_out_with_every_further_loop():
    held, labels = columns(200)
    coins = np.random.default_rng(1)
    many = {**held, "P3": {**held["P3"], "columns": {f"dose {i}": coins.normal(0, 1, 200) for i in range(30)}}}
    few = agreements(["P3"], transformations=SUM, mask_size=30.0)[("P1", "age")][1]
    often = agreements(["P3"], held=many, ill=labels, transformations=SUM, mask_size=30.0)[("P1", "age")][1]
    assert few.correlation < 0.7
    assert often.correlation > few.correlation + 0.2


FRESH = [
    (("product",), {}, 4),
    (("product", "quotient"), {"mask_signs": True}, 2),
    (("sum", "difference"), {}, 6),
    (("sum", "product"), {"mask_signs": True}, 2),
]


def ages_seen(transformations, options, others, ages):
    """What P3 claims of a column of P1 that it met with so many of its own, and the truth."""
    held, labels = columns(len(ages))
    coins = np.random.default_rng(2)
    held["P1"]["columns"]["age"] = ages
    held["P3"]["columns"] = {f"dose {i}": coins.uniform(1, 2, len(ages)) for i in range(others)}
    claims, _ = run(["P3"], held=held, ill=labels, transformations=transformations, **options)
    return next(c for c in claims if isinstance(c, ColumnClaim) and c.feature == "age")


@pytest.mark.parametrize(("transformations", "options", "others"), FRESH)
def test_last_digits_tell_whole_numbers_under_fresh_masks(transformations, options, others):
    ages = np.random.default_rng(3).integers(18, 91, 200).astype(float)
    claim = ages_seen(transformations, options, others, ages)
    agreement = column_agreement(claim, ages)
    assert claim.relation == ("magnitude-estimate" if transformations == ("product", "quotient") else "estimate")
    assert agreement.exact > 0.5
    assert agreement.correlation > 0.8


@pytest.mark.parametrize(("transformations", "options", "others"), FRESH)
def test_last_digits_are_no_reason_to_round_a_column_of_other_numbers(transformations, options, others):
    eighths = np.random.default_rng(3).integers(144, 728, 200) / 8
    claim = ages_seen(transformations, options, others, eighths)
    assert column_agreement(claim, eighths).exact == 0
    assert not np.array_equal(claim.values, np.round(claim.values, 2))


@pytest.mark.parametrize(("transformations", "options", "others"), [FRESH[0], FRESH[2]])
def test_last_digits_tell_whole_numbers_beside_a_few_means_in_place_of_missing_ones(transformations, options, others):
    """One record of more digits was reason to read none: eight left a correlation of 0.16 under four factors."""
    ages = np.random.default_rng(3).integers(18, 91, 200).astype(float)
    ages[:8] = ages[8:].mean()
    agreement = column_agreement(ages_seen(transformations, options, others, ages), ages)
    assert agreement.exact > 0.5
    assert agreement.correlation > 0.7


@pytest.mark.parametrize(("transformations", "size"), [(("sum", "difference"), 2), (("product", "quotient"), 100)])
def test_records_of_more_digits_have_what_masks_leave_on_average(transformations, size):
    ages = np.random.default_rng(3).integers(18, 91, 200).astype(float)
    ages[:8] = ages[8:].mean() + np.arange(8)
    seen = ages_seen(transformations, {"mask_size": size}, 8, ages).values
    assert np.isfinite(seen).all()
    assert (seen == np.round(seen)).any()
    assert np.abs(np.log(seen[:8] / ages[:8])).max() < (0.05 if size == 2 else 0.6)


def test_a_column_of_zeros_takes_no_other_record_away():
    held, labels = columns(300)
    names = {d: next(iter(held[d]["columns"])) for d in ("P1", "P2")}
    two = {d: {**held[d], "columns": {f: held[d]["columns"][f].copy()}} for d, f in names.items()}
    two["P2"]["columns"][names["P2"]][:120] = 0.0
    claims, _ = run(["server"], held=two, ill=labels, transformations=("product",))
    told = [c for c in claims if isinstance(c, ColumnClaim)]
    assert len(told) == 2
    assert all(np.isfinite(c.values).all() for c in told)


def test_last_digits_tell_whole_numbers_beside_one_that_is_far_away():
    """Cells of shares were numbered from the least number to the largest, which memory did not hold."""
    ages = np.random.default_rng(3).integers(18, 91, 200).astype(float)
    ages[0] = 2.0**45
    assert column_agreement(ages_seen(("sum", "difference"), {}, 6, ages), ages).exact > 0.5


@pytest.mark.parametrize("decimals", [1, 2])
def test_last_digits_tell_decimals_too(decimals):
    prices = np.round(np.random.default_rng(3).uniform(1, 9, 200), decimals)
    agreement = column_agreement(ages_seen(("product", "sum"), {"mask_size": 30.0}, 4, prices), prices)
    assert agreement.exact > 0.5
    assert agreement.correlation > 0.9


def test_bounded_masks_leave_mean_and_deviation():
    claims, held = run(["P2"], transformations=SUM, mask_size=5.0)
    for statistic in ("mean", "std"):
        claim = next(
            c for c in claims if isinstance(c, StatisticClaim) and (c.feature, c.statistic) == ("age", statistic)
        )
        truth = float(getattr(held["P1"]["columns"]["age"], statistic)())
        assert claim.estimate == pytest.approx(truth, abs=1.5)
        assert claim.low < claim.estimate < claim.high


def test_no_deviation_is_claimed_of_a_column_that_varies_less_than_its_mask_by_chance():
    held, labels = columns(200)
    still = {d: {**own, "columns": {f: x / 1e3 for f, x in own["columns"].items()}} for d, own in held.items()}
    every = [c for seed in range(30) for c in run(["P3"], seed, still, labels, transformations=SUM)[0]]
    told = [c for c in every if isinstance(c, StatisticClaim) and c.statistic == "std"]
    assert told
    assert all(c.low < c.high for c in told)


def test_factors_leave_zeros_and_signs():
    held, labels = columns(200)
    coins = np.random.default_rng(0)
    held["P1"]["columns"]["age"] = coins.integers(-2, 3, 200).astype(float)
    claims, _ = run(["P2"], held=held, ill=labels, transformations=("product",))
    claim = next(c for c in claims if isinstance(c, ColumnClaim) and c.feature == "age")
    assert np.array_equal(np.sign(claim.values), np.sign(held["P1"]["columns"]["age"]))
    signed, _ = run(["P2"], held=held, ill=labels, transformations=("product",), mask_signs=True)
    claim = next(c for c in signed if isinstance(c, ColumnClaim) and c.feature == "age")
    assert claim.relation == "magnitude-estimate"
    assert np.array_equal(claim.values == 0, held["P1"]["columns"]["age"] == 0)


def test_columns_under_one_mask_are_said_to_differ_by_what_is_known():
    claims, _ = run(["P2"], transformations=SUM, masks="reused")
    texts = [c.text for c in claims if isinstance(c, FindingClaim) and c.check == "one-mask"]
    assert texts == ["age, height were told under one mask: their differences are known for every record"]
    fresh, _ = run(["P2"], transformations=SUM)
    assert not [c for c in fresh if isinstance(c, FindingClaim) and c.check == "one-mask"]


@pytest.mark.parametrize(
    ("how", "relation"),
    [("tanh", "exact"), ("sigmoid", "exact"), ("square", "magnitude"), ("log", "magnitude"), ("zscore", "scaled")],
)
def test_a_transformed_column_at_the_server_is_undone(how, relation):
    held, labels = columns(200)
    held = {d: {**own, "columns": {f: x / 40 - 1.2 for f, x in own["columns"].items()}} for d, own in held.items()}
    found = agreements(["server"], held=held, ill=labels, transformations=(how,))
    assert found.keys() == EVERY
    for r, a in found.values():
        assert r == relation
        assert a.correlation > 0.999
        assert (a.exact == 1) == (relation != "scaled")


@pytest.mark.parametrize("transformations", [("tanh", "sum"), ("tanh", "difference"), ("sigmoid", "product")])
def test_a_column_that_is_told_by_itself_gives_the_server_those_that_it_is_exchanged_with(transformations):
    """A tanh is 1 of any weight, so of weights nothing was known: the server had one value in 200, vouched for, and a
    correlation of 0.
    """
    held, labels = pair_and_more("height")
    held["P1"]["columns"]["height"] = held["P1"]["columns"]["height"] / 50 - 1
    found = agreements(["server"], held=held, ill=labels, transformations=transformations)
    assert {(r, a.exact) for r, a in found.values()} == {("exact", 1.0)}
    assert found.keys() == {("P1", "height"), ("P2", "weight")}


def test_few_values_that_are_told_exactly_stand_before_no_estimate_of_all():
    held, labels = pair_and_more("height")  # a tanh tells one value in 200
    alone, beside = (
        agreements(["server"], held=held, ill=labels, transformations=tried) for tried in (SUM, ("tanh", *SUM))
    )
    assert {r for r, _ in beside.values()} == {"scaled"}
    assert beside == alone


def test_frequencies_and_isotonic_steps_are_not_claimed():
    assert agreements(["server"], transformations=("frequency", "isotonic")) == {}
    assert agreements(["server"], transformations=("square",), unary="device") == {}


def test_who_makes_the_sketches_knows_the_order_of_all_records():
    found = agreements(["P1"], transformations=SUM, labels="binned", ranges="feature", bins=50)
    assert found[("P3", "dose")][0] == "scaled"
    assert found[("P3", "dose")][1].correlation > 0.99


def test_labels_that_are_sent_are_known():
    claims, _ = run(["P3"], transformations=SUM)
    (told,) = [c for c in claims if isinstance(c, ColumnClaim) and c.feature == "ill"]
    assert np.array_equal(told.values, columns(200)[1]["labels"])


def test_scaled_sketches_tell_the_server_how_many_are_ill():
    played = engineered(frozen({"transformations": ("zscore",)}), 0)
    claims = claims_in(ATTACKS["feature_exchange"]().run(played.view("server"), AuxiliaryKnowledge()))
    (rate,) = [c for c in claims if isinstance(c, StatisticClaim) and c.statistic == "target_rate"]
    truth = played.inputs["P1"]["labels"].mean()
    assert rate.low <= truth <= rate.high
    assert rate.high - rate.low < 0.01


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("sketches", ["scaled", "counts"])
def test_records_alone_in_a_bin_of_their_class_are_found_whatever_the_number_of_classes(classes, sketches):
    claims, held = run(["server"], classes=classes, bins=40, sketches=sketches, transformations=("zscore",))
    found = {c.party: c.text for c in claims if isinstance(c, FindingClaim) and c.check == "lone-records"}
    labels = columns(200, 0, classes)[1]["labels"]
    weight = sketch("weight", held["P2"]["columns"]["weight"], labels, classes, 40)
    own = weight[0] if classes == 2 else weight[:, 0]
    assert f"has {int((own == 1).sum())} of 200 records alone" in found["P2"]
    assert found.keys() == held.keys()


@settings(max_examples=50)
@given(seed=st.integers(0, 999), records=st.integers(10, 90), k=st.sampled_from([1.0, 10.0]))
def test_counts_behind_scaled_sketches_are_right_or_not_claimed(seed, records, k):
    coins = np.random.default_rng(seed)
    sizes = coins.multinomial(records, [0.6, 0.4])
    counts = np.stack([coins.multinomial(n, coins.dirichlet(np.ones(40) / 4)) for n in sizes])
    arrays = scaled(counts.astype(np.float32), k)
    told = counts_of(arrays, {"sketches": "scaled", "scale": k}, records)
    assert told is None or np.array_equal(told, counts)


def test_equations_determine_only_what_they_determine():
    x, y = np.array([1.0, -2]), np.array([3.0, 4])
    assert solve_sums([Equation({("x",): 1, ("y",): 1}, x + y)]) == {}
    both = [Equation({("x",): 1, ("y",): 1}, x + y, (1,)), Equation({("x",): 1, ("y",): -1}, x - y, (2,))]
    found = solve_sums(both)
    assert np.allclose(found[("x",)].values, x)
    assert np.allclose(found[("y",)].values, y)
    known = [Equation({("x",): 1}, x, (3,)), Equation({("x",): 1, ("y",): 1}, x * y, (4,))]
    assert solve_products(known)[("y",)].signed
    assert np.allclose(solve_products(known)[("y",)].values, y)


def test_a_record_in_which_zeros_cancel_is_not_claimed():
    zero, y = np.zeros(2), np.array([3.0, 4])
    known = [Equation({("x",): 1}, zero), Equation({("x",): 1, ("y",): 1}, zero * y)]
    assert np.isnan(solve_products(known)[("y",)].values).all()


def test_a_record_that_zero_divides_is_beyond_all_numbers_and_says_nothing_of_the_others():
    known = [Equation({("x",): 1}, np.array([0.0, 2])), Equation({("x",): 1, ("y",): 1}, np.array([3.0, 4]))]
    np.testing.assert_allclose(solve_products(known)[("y",)].values, [np.inf, 2])
