"""What a view gives of aggregated updates: the server its sums, a coalition single updates, everyone else nothing."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.aggregates import round_means as of_rounds
from leakledger.attacks.observed.aggregation import aggregates, with_recovered
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.sums import find_sums, known_updates
from leakledger.attacks.observed.trainings import find_trainings
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    GlobalModel,
    MaskKey,
    MaskKeys,
    SummedUpdate,
)
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import FeatureLayout, Method, ModelSpec, NumericBlock, PublicFacts, TrainingSpec
from leakledger.preprocess.wire import decode, encode
from tests.preprocess.registered import aggregations

SPEC = ModelSpec(3, 2, (4,))
LAYOUT = FeatureLayout(tuple(NumericBlock(f"x{k}", k) for k in range(3)))
CLIENTS = ("P1", "P2", "P3", "P4")
HIDING = [a for a in aggregations() if "plain" not in a.values]
NOTHING = AuxiliaryKnowledge()


def trained(name, algorithm="fedsgd", clients=CLIENTS, rounds=2, **options):
    """The federation after a training, and its public facts."""
    fed = Simulated(clients, secret=pinned("attacked"))
    training = TrainingSpec(algorithm, rounds=rounds, batch_size=None, learning_rate=0.2)
    coins = np.random.default_rng(5)
    data = {
        c: fed.at(c, Encoded(coins.normal(size=(4 + i, 3)).astype(np.float32), coins.integers(0, 2, 4 + i)))
        for i, c in enumerate(clients)
    }
    method = AGGREGATIONS[name](**options)
    train(fed, ALGORITHMS[algorithm], SPEC, training, data, aggregation=method)
    facts = {o: getattr(method, o) for o in type(method).__dataclass_fields__}
    return fed, PublicFacts(
        fed.clients, "server", layout=LAYOUT, model=SPEC, training=training, aggregation=Method(name, facts)
    )


def view(observers, name, *args, **options):
    fed, public = trained(name, *args, **options)
    return fed.ledger.view(observers, public, coins=fed.party_secrets())


def true_updates(algorithm, clients=CLIENTS, rounds=2):
    """(client, round) -> what the client sends where nothing hides it: batches are all rows, whatever the coins."""
    fed, _ = trained("plain", algorithm, clients, rounds)
    kinds = (ClientGradient, ClientWeights)
    return {(m.sender, m.round): m.payload for m in fed.ledger if issubclass(m.kind, kinds)}


def arrays(update):
    return update.gradient if isinstance(update, ClientGradient) else update.weights


def assert_close(found, expected, atol=2e-6):
    assert found.keys() == expected.keys()
    for name, a in expected.items():
        np.testing.assert_allclose(found[name], a, atol=atol)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("name", "observers", "options"),
    [
        ("secure-aggregation", ["server"], {}),
        ("secure-aggregation", ["server"], {"ring_bits": 32, "fraction_bits": 20}),
        ("secure-aggregation", ["server"], {"threshold": 2, "dropouts": 1, "dropout_step": "masked-input"}),
        ("secure-aggregation", ["server"], {"threshold": 2, "dropouts": 1, "dropout_step": "share-keys"}),
        ("secure-aggregation", ["server"], {"threshold": 2, "dropouts": 1, "dropout_step": "unmasking"}),
        ("he-aggregation", ["P3"], {}),
        ("he-aggregation", ["server", "P1"], {}),
    ],
)
def test_whoever_is_to_have_the_sum_reads_it_from_the_transcript(name, observers, options, algorithm):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    found = aggregates(view(observers, name, algorithm, **options))
    true = true_updates(algorithm)
    gone = options.get("dropouts") and options["dropout_step"] != "unmasking"
    clients = CLIENTS[:-1] if gone else CLIENTS
    one = found[0]
    assert (one.clients, one.rows) == (clients, sum(true[c, 0].rows for c in clients))
    for key in one.mean:
        total = sum(true[c, 0].rows * np.asarray(arrays(true[c, 0])[key], np.float64) for c in clients)
        np.testing.assert_allclose(one.mean[key], total / one.rows, atol=1e-5)
    assert set(found) == {0, 1}


@pytest.mark.parametrize(
    ("name", "observers"),
    [
        ("secure-aggregation", ["P1"]),
        ("secure-aggregation", ["P1", "P2", "P3"]),
        ("he-aggregation", ["server"]),
    ],
)
def test_whoever_is_not_to_have_the_sum_has_none(name, observers):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    assert aggregates(view(observers, name)) == {}


COALITIONS = [
    ("secure-aggregation", ["server", "P1", "P2"], {"threshold": 2}, True),
    ("secure-aggregation", ["server", "P1", "P2", "P3"], {}, True),
    ("secure-aggregation", ["server", "P1", "P2"], {"threshold": 3}, False),
    ("secure-aggregation", ["server", "P1", "P2", "P3"], {"threshold": 4}, True),  # all others: no shares are needed
    ("secure-aggregation", ["server", "P1", "P2"], {"threshold": 4}, False),
    ("secure-aggregation", ["server", "P1"], {"threshold": 2}, False),
    ("secure-aggregation", ["server"], {"threshold": 2}, False),
    ("secure-aggregation", ["P1", "P2", "P3"], {}, False),  # without the server nobody has the masked vectors
    ("secure-aggregation", ["server", "P1", "P2"], {"threshold": 2, "dropouts": 1}, True),
    ("he-aggregation", ["server", "P4"], {}, True),
    ("he-aggregation", ["server", "P1"], {}, True),
    ("he-aggregation", ["server"], {}, False),
    ("he-aggregation", ["P1", "P2", "P3"], {}, False),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("name", "observers", "options", "broken"), COALITIONS)
def test_a_coalition_as_large_as_stated_has_single_updates_and_a_smaller_one_has_none(
    name, observers, options, broken, algorithm
):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    whole = with_recovered(view(observers, name, algorithm, **options))
    kind = ALGORITHMS[algorithm].update
    found = {(m.sender, m.round): m.payload for m in whole.received(kind)}
    gone = {"P4"} if options.get("dropouts") else set()
    outside = [c for c in CLIENTS if c not in {*observers, *gone}]
    assert found.keys() == ({(c, r) for c in outside for r in (0, 1)} if broken else set())
    true = true_updates(algorithm)
    for (client, round), update in found.items():
        assert update.rows == true[client, round].rows
        if round == 0 or not gone:  # with a client less, the model of the second round is another one
            assert_close(arrays(update), arrays(true[client, round]), 2e-6 if not round else 1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", HIDING)
def test_attacks_on_updates_find_what_a_coalition_recovers_and_nothing_in_the_servers_view(name, algorithm):
    find = find_gradients if algorithm == "fedsgd" else find_trainings
    assert isinstance(find(with_recovered(view(["server"], name, algorithm)), NOTHING), NotApplicable)
    updates = find(with_recovered(view(["server", "P1", "P2", "P3"], name, algorithm)), NOTHING)
    assert [(u.victim, u.round) for u in updates] == [("P4", 0), ("P4", 1)]
    known = find(view(["server"], "plain", algorithm), NOTHING)
    for found, true in zip(updates, [u for u in known if u.victim == "P4"], strict=True):
        assert found.rows == true.rows
        assert_close(found.gradient, true.gradient, 2e-4)


@pytest.mark.parametrize("name", HIDING)
def test_a_sum_of_updates_that_stay_hidden_is_in_the_view_of_whoever_has_it(name):
    def summed(observers):
        return [m.payload for m in with_recovered(view(observers, name)).received(SummedUpdate)]

    has = ["server"] if name == "secure-aggregation" else ["P2"]
    one, other = summed(has)
    assert (one.clients, one.rows) == (
        [0, 1, 2, 3],
        sum(u.rows for (_, r), u in true_updates("fedsgd").items() if not r),
    )
    assert one.mean.keys() == other.mean.keys()
    assert summed(["P2"] if name == "secure-aggregation" else ["server"]) == []
    assert summed(["server", "P1", "P2", "P3"]) == []  # known one by one


def test_a_client_follows_the_model_that_the_server_never_has():
    pytest.importorskip("tenseal")
    seen = with_recovered(view(["P2"], "he-aggregation", rounds=3))
    models = {m.round: m.payload.weights for m in seen.readable(GlobalModel)}
    plain = view(["P2"], "plain", rounds=3)
    for m in plain.readable(GlobalModel):
        assert_close(models[m.round], m.payload.weights, 1e-5)
    held = view(["server"], "he-aggregation", rounds=3)
    assert {m.round for m in with_recovered(held).readable(GlobalModel)} == {0}


@pytest.mark.parametrize("key", [bytes(range(31)), bytes(32)])
def test_a_key_for_masks_that_is_none_is_an_error_and_no_sum(key):
    fed, public = trained("secure-aggregation", threshold=2, dropouts=1, dropout_step="masked-input")

    def changed(m):
        if m.kind is MaskKey and m.sender == "P1":
            body = encode({**decode(m.content), "key": key})
        elif m.kind is MaskKeys:
            plain = decode(m.content)
            body = encode({**plain, "keys": [key, *plain["keys"][1:]]})
        else:
            return m
        return replace(m, content=body, body=body)

    told = Ledger(map(changed, fed.ledger)).view(["server"], public)
    with pytest.raises(ValueError, match="a public key for masks is no point of X25519"):
        list(aggregates(told))


def test_a_plain_view_stays_as_it_is():
    one = view(["server"], "plain")
    assert with_recovered(one) is one


def expected_mean(updates, clients, round, weights=None):
    """The mean over the rows of these clients, in units of gradients."""
    own = [updates[c, round] for c in clients]
    total = sum(u.rows for u in own)
    mean = {n: sum(u.rows / total * arrays(u)[n].astype(np.float64) for u in own) for n in arrays(own[0])}
    return mean if weights is None else {n: (weights[n] - mean[n]) / 0.2 for n in mean}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("name", "observers", "options"),
    [
        ("secure-aggregation", ["server"], {}),
        ("secure-aggregation", ["server"], {"threshold": 2, "dropouts": 1, "dropout_step": "masked-input"}),
        ("secure-aggregation", ["P1"], {"threshold": 2, "dropouts": 1, "dropout_step": "masked-input"}),
        ("secure-aggregation", ["P4"], {"threshold": 2, "dropouts": 1, "dropout_step": "masked-input"}),
        ("secure-aggregation", ["P4"], {"threshold": 2, "dropouts": 1, "dropout_step": "share-keys"}),
        ("he-aggregation", ["P3"], {}),
    ],
)
def test_a_sum_is_read_as_the_mean_over_those_whose_updates_are_in_it(name, observers, options, algorithm):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    found = list(of_rounds(with_recovered(view(observers, name, algorithm, rounds=2, **options))))
    clients = CLIENTS[:3] if "dropouts" in options else CLIENTS
    first = found[0]
    assert (first.round, first.clients) == (0, clients)
    weights = None if algorithm == "fedsgd" else first.weights
    assert_close(first.mean, expected_mean(true_updates(algorithm), clients, 0, weights), atol=1e-5)


@pytest.mark.parametrize("name", ["secure-aggregation", "he-aggregation"])
def test_a_client_takes_its_own_update_off_the_sum(name):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    seen = with_recovered(view(["P1"], name, clients=("P1", "P2", "P3")))
    true = true_updates("fedsgd", ("P1", "P2", "P3"))
    for whole in of_rounds(seen):
        own = known_updates(seen, whole)
        assert set(own) == {"P1"}
        assert_close(own["P1"].payload.gradient, true["P1", whole.round].gradient)


@pytest.mark.parametrize(("clients", "observers"), [(("P1", "P2"), ["P1"]), (CLIENTS, ["P1", "P2", "P4"])])
def test_the_rows_of_a_sum_say_how_many_the_only_client_outside_has_where_nothing_else_does(clients, observers):
    pytest.importorskip("tenseal")
    seen = with_recovered(view(observers, "he-aggregation", clients=clients))
    (other,) = {*clients} - {*observers}
    found = find_sums(seen, NOTHING)  # neither labels nor a size of batches
    assert [(u.victim, u.round) for u in found] == [(other, 0), (other, 1)]
    true = true_updates("fedsgd", clients)
    for update in found:
        assert update.rows == true[other, update.round].rows
        assert_close(update.gradient, true[other, update.round].gradient, atol=1e-5)
