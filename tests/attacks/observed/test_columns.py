"""Which columns an update moves says which values its rows have, also of one that was taken out of what hid it."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.columns import columns_behind_errors, more_than_errors, observed_columns
from leakledger.audit.play import view_of
from leakledger.preprocess.messages import ClientGradient
from tests.audit.example import truth


def federation(algorithm, **more):
    return truth(
        data={"source": "fair", "rows": 60},
        partition={"kind": "dirichlet-labels", "parties": 3, "minimum": 5, "beta": 2.0},
        preprocessing=[{"encoder": "dh-psi", "scaler": "local"}],
        model={"hidden": [4]},
        training={
            "algorithm": algorithm,
            "rounds": more.pop("rounds", 2),
            "batch_size": None,
            "aggregation": more.pop("aggregation", "plain"),
        },
        **more,
    )


def moved_and_held(found, view):
    """The numbers of columns that P3's updates move, of each feature, and of the values that it has; None where no
    update tells of columns.
    """
    blocks = view.public.layout.categorical
    held = [found.statistic("P3", b.feature, "size") for b in blocks]
    for columns in (c for c in observed_columns(view) if c.party == "P3"):
        return [columns.active[b.start : b.start + b.size].sum() for b in blocks], held
    return None, held


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
@pytest.mark.parametrize("aggregation", ["plain", "secure-aggregation", "he-aggregation"])
def test_columns_that_an_update_moves_are_those_of_its_rows_and_sizes_from_them_are_true(aggregation, algorithm):
    found = federation(algorithm, aggregation=aggregation)
    view = view_of(["server", "P1", "P2"], found)
    moved, held = moved_and_held(found, view)
    assert all(m <= h for m, h in zip(moved, held, strict=True))
    assert sum(moved) >= sum(held) - 1  # a batch may not have all values
    ring_size = ATTACKS["ring_size"]()
    claims = ring_size.run(view.restricted(ring_size.accepts), AuxiliaryKnowledge())
    exact = {c.feature: c.estimate for c in claims if c.low == c.high}
    assert exact == {"": sum(held)} | {b.feature: h for b, h in zip(view.public.layout.categorical, held, strict=True)}


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
@pytest.mark.parametrize("sigma", [1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-3])
def test_noise_moves_no_column_that_no_row_has_not_even_where_rounding_swallows_most_of_it(sigma, algorithm):
    found = federation(algorithm, defense=[{"name": "gaussian-noise", "sigma": sigma}])
    moved, held = moved_and_held(found, view_of(["server"], found))
    assert all(m <= h for m, h in zip(moved or held, held, strict=True))
    assert (moved is None) == (sigma > 1e-8 and (algorithm == "fedavg" or sigma > 1e-7))


def test_a_gradient_that_says_it_is_over_no_rows_tells_of_no_columns():
    view = view_of(["server"], federation("fedsgd"))
    empty = [
        m.carrying(replace(m.payload, rows=0)) if m.kind is ClientGradient and m.sender == "P3" else m
        for m in view.messages
    ]
    assert {c.party for c in observed_columns(replace(view, messages=tuple(empty)))} == {"P1", "P2"}


def test_columns_of_updates_that_were_rounded_after_noise_are_not_read():
    noise = {"name": "gaussian-noise", "sigma": 1e-9, "then": [{"name": "quantisation", "bits": 8}]}
    found = federation("fedavg", defense=[noise])
    assert moved_and_held(found, view_of(["server"], found))[0] is None


@pytest.mark.parametrize(("algorithm", "sigma"), [("fedsgd", 1e-3), ("fedsgd", 1e-2), ("fedavg", 1e-4)])
def test_noise_that_hides_every_zero_leaves_columns_of_held_values_their_energy(algorithm, sigma):
    found = federation(algorithm, defense=[{"name": "gaussian-noise", "sigma": sigma}], rounds=20)
    view = view_of(["server"], found)
    assert not list(observed_columns(view))
    chances = {c.party: c.chances for c in columns_behind_errors(view)}
    assert sorted(chances) == ["P1", "P2", "P3"]
    held, others = [], []
    for party, chance in chances.items():
        encoded = np.asarray(found.input_of(party)["encoded"])
        for b in view.public.layout.categorical:
            own = slice(b.start, b.start + b.size)
            uses = (encoded[:, own] != 0).any(0)
            held += chance[own][uses].tolist()
            others += chance[own][~uses].tolist()
    assert len(others) > 10
    assert np.mean(np.array(held) > 0.9) > 0.8
    assert np.mean(np.array(others) > 0.9) < 0.1
    assert min(others) > 0


def test_columns_of_noise_alone_are_taken_for_held_ones_no_more_often_than_their_chances_say():
    rng, entries = np.random.default_rng(0), 60
    chances = more_than_errors(rng.chisquare(entries, 100_000), entries)
    for wrong in (0.5, 0.1, 0.01):
        assert np.mean(chances > 1 - wrong) <= wrong
    assert more_than_errors(np.array([1e12]), entries) == 1
    assert more_than_errors(np.array([entries * 1.0]), entries) < 0.5


def test_columns_whose_noise_has_no_known_deviation_have_no_chances():
    noise = {"name": "gaussian-noise", "sigma": 1e-3, "then": [{"name": "quantisation", "bits": 8}]}
    view = view_of(["server"], federation("fedsgd", defense=[noise]))
    assert not list(columns_behind_errors(view))
    assert not list(columns_behind_errors(view_of(["server"], federation("fedsgd"))))


def test_values_behind_public_codes_are_ranked_by_what_noised_updates_move():
    found = truth(
        data={"source": "fair", "rows": 60},
        partition={"kind": "dirichlet-labels", "parties": 3, "minimum": 5, "beta": 2.0},
        preprocessing=[{"encoder": "rolling-hash", "scaler": "local", "buckets": 200}],
        model={"hidden": [20]},
        training={"rounds": 20, "batch_size": None},
        defense=[{"name": "gaussian-noise", "sigma": 1e-3}],
    )
    knowledge = AuxiliaryKnowledge(dictionaries=found.dictionaries)
    membership = ATTACKS["membership"]()
    held, others = [], []
    for c in membership.run(view_of(["server"], found).restricted(membership.accepts), knowledge):
        assert not c.proven
        if c.feature.startswith("occupation"):  # two features of the same values, whose columns they share
            continue
        for value, score in zip(c.values, c.scores, strict=True):
            (held if value in found.vocabularies[c.party][c.feature] else others).append(score)
    assert len(others) == 12  # nine of them are declared, and nobody has them
    assert np.mean(np.less.outer(others, held)) > 0.9
    assert min(others + held) > 0
    assert max(others + held) < 1


def of_two(algorithm, hidden, **more):
    return truth(
        data={"source": "fair", "rows": 50},
        partition={"kind": "dirichlet-labels", "parties": 2, "minimum": 5, "beta": 2.0},
        preprocessing=[{"encoder": "server-dictionary", "scaler": "local"}],
        model={"hidden": hidden},
        training={"algorithm": algorithm, "rounds": 1, "batch_size": None, **more},
    )


@pytest.mark.parametrize("more", [{}, {"aggregation": "secure-aggregation", "threshold": 2}, {"weighting": "clients"}])
@pytest.mark.parametrize("hidden", [[20], [1], []])
@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_of_two_clients_each_reads_in_two_models_which_columns_the_other_moved(algorithm, hidden, more):
    found = of_two(algorithm, hidden, **more)
    view = view_of(["P1"], found)
    seen = {c.party: c.active for c in observed_columns(view)}
    encoded = np.asarray(found.input_of("P2")["encoded"])
    places = [i for b in view.public.layout.categorical for i in range(b.start, b.start + b.size)]
    held = (encoded[:, places] != 0).any(0)
    if hidden == [20]:
        assert 0 < held.sum() < len(held)
        assert (seen["P2"][places] == held).all()
        vocabulary = ATTACKS["vocabulary"]()
        claims = vocabulary.run(view.restricted(vocabulary.accepts), AuxiliaryKnowledge())
        assert {c.feature: set(c.values) for c in claims} == found.vocabularies["P2"]
    for active in seen.values():
        assert not (active[places] & ~held).any()


@pytest.mark.parametrize("hidden", [[20], []])
def test_beside_an_own_batch_of_one_row_a_column_that_is_no_multiple_of_it_is_the_others_and_others_say_nothing(hidden):
    found = of_two("fedsgd", hidden, rounds=12, batch_size=1)
    view = view_of(["P1"], found)
    places = [i for b in view.public.layout.categorical for i in range(b.start, b.start + b.size)]
    held = (np.asarray(found.input_of("P2")["encoded"])[:, places] != 0).any(0)
    told_nothing = 0
    for round in range(1, 12):
        one = replace(view, messages=tuple(m for m in view.messages if m.round in (round, round + 1) or m.round == 0))
        for columns in observed_columns(one):
            assert not (columns.active[places] & ~held).any()
            assert not (columns.active & columns.untold).any()
            told_nothing += columns.untold[places].sum()
    assert told_nothing
    vocabulary = ATTACKS["vocabulary"]()
    claims = vocabulary.run(view.restricted(vocabulary.accepts), AuxiliaryKnowledge())
    told = {c.feature: set(c.values) for c in claims}
    assert sum(map(len, told.values())) >= 5
    assert all(values <= found.vocabularies["P2"][feature] for feature, values in told.items())
