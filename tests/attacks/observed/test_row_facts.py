"""What is known of a client's rows before it trains: statements of its own, granted rows, rows of observers."""

from collections import Counter

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.row_facts import BEFORE, row_facts
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import view_of
from leakledger.preprocess import views
from leakledger.preprocess.messages import PooledCategories, PooledColumns
from tests.audit.example import config, truth

SHORT = {"data": {"source": "fair", "rows": 120}, "training": {"rounds": 1, "batch_size": 4}}
NONE = AuxiliaryKnowledge()


def trained(encoder, scaler, **options):
    return truth(**SHORT, preprocessing=[{"encoder": encoder, "scaler": scaler, **options}])


def test_moments_and_values_are_those_of_the_client():
    found = trained("server-dictionary", "server-zscore")
    facts, table = row_facts(view_of(("server",), found), NONE, ["P2"]), found.federated.tables["P2"]
    for k, feature in enumerate(table.schema.numeric):
        column = table.numbers()[:, k]
        assert facts.moments[feature] == pytest.approx((column.mean(), column.std()))
    assert {f: set(v) for f, v in facts.held.items()} == {f: set(table.values(f)) for f in table.schema.categorical}
    assert not facts.rows


def test_of_several_clients_the_facts_are_those_of_their_rows_together():
    found = trained("server-dictionary", "server-zscore")
    facts = row_facts(view_of(("server",), found), NONE, ["P1", "P3"])
    both = np.concatenate([found.federated.tables[p].numbers() for p in ("P1", "P3")])
    for k, feature in enumerate(found.federated.schema.numeric):
        assert facts.moments[feature] == pytest.approx((both[:, k].mean(), both[:, k].std()))
    assert not row_facts(view_of(("server",), found), NONE, ["P1", "nobody"]).moments


@pytest.mark.parametrize("clients", [["P2"], ["P1", "P3"]])
def test_means_of_one_hot_columns_tell_how_often_clients_hold_each_value(clients):
    found = trained("server-dictionary", "federated-zscore", columns="all")
    facts, layout = row_facts(view_of(("server",), found), NONE, clients), found.federated.public.layout
    assert layout.categorical
    for block in layout.categorical:
        held = np.concatenate([found.federated.tables[c].values(block.feature) for c in clients])
        assert facts.shares[block.feature] == pytest.approx([np.mean(held == v) for v in block.values])
        assert facts.shares[block.feature].sum() == pytest.approx(1)


def test_no_shares_are_told_where_other_columns_or_codes_are_scaled_or_a_client_is_silent():
    numeric = trained("server-dictionary", "federated-zscore", columns="numeric")
    codes = trained("bytes-norm", "federated-zscore", columns="all")
    for found in (numeric, codes):
        assert not row_facts(view_of(("server",), found), NONE, ["P2"]).shares
    every = trained("server-dictionary", "federated-zscore", columns="all")
    assert not row_facts(view_of(("server",), every), NONE, ["P1", "nobody"]).shares
    assert not row_facts(view_of(("P1",), every), NONE, ["P2"]).shares


def test_extremes_are_those_of_the_client():
    found = trained("server-dictionary", "server-minmax")
    facts, table = row_facts(view_of(("server",), found), NONE, ["P2"]), found.federated.tables["P2"]
    for k, feature in enumerate(table.schema.numeric):
        assert facts.extremes[feature] == pytest.approx((table.numbers()[:, k].min(), table.numbers()[:, k].max()))


def test_rows_that_a_client_handed_over_are_its_rows():
    found = trained("pooled", "pooled")
    facts, table = row_facts(view_of(("server",), found), NONE, ["P2"]), found.federated.tables["P2"]
    assert facts.rows_of == "client"
    assert set(facts.rows) == {*table.schema.categorical, *table.schema.numeric}
    for k, feature in enumerate(table.schema.numeric):
        assert facts.rows[feature] == pytest.approx(table.numbers()[:, k])
    assert all((facts.rows[f] == table.values(f)).all() for f in table.schema.categorical)


def test_messages_of_other_clients_are_not_opened_and_own_ones_not_once_for_each_column(monkeypatch):
    """Else reading the rows of every client takes time with the square of how many there are."""
    view = view_of(("server",), trained("pooled", "pooled"))
    opened, decode = [], views.decode_payload
    monkeypatch.setattr(views, "decode_payload", lambda topic, content: opened.append(topic) or decode(topic, content))
    row_facts(view, NONE, ["P2"])
    assert {PooledColumns.topic, PooledCategories.topic} <= {*opened}
    assert max(Counter(opened).values()) <= 3


def test_columns_scaled_by_their_own_figures_have_known_moments_and_dictionaries_a_size():
    found = trained("local", "local")
    facts, table = row_facts(view_of(("server",), found), NONE, ["P2"]), found.federated.tables["P2"]
    assert facts.moments == dict.fromkeys(table.schema.numeric, (0.0, 1.0))
    assert facts.sizes == {f: len(set(table.values(f))) for f in table.schema.categorical}


def test_observers_know_their_own_rows_and_granted_ones_go_before():
    found = trained("server-dictionary", "server-zscore")
    facts, own = row_facts(view_of(("P1",), found), NONE, ["P2"]), found.federated.tables["P1"]
    assert facts.rows_of == "observers"
    assert len(next(iter(facts.rows.values()))) == len(own)
    settings = config(**SHORT, preprocessing=[{"encoder": "server-dictionary", "scaler": "server-zscore"}])
    granting = settings.model_copy(update={"attacks": settings.attacks.model_copy(update={"rows": "known"})})
    knowledge = granted_knowledge(granting, found)
    attacked = sum(len(found.batch(*key)) for key in found.federated.batches if key[1] == 0)
    facts = row_facts(view_of(("P1",), found), knowledge, ["P2"])
    assert facts.rows_of == "population"
    assert len(next(iter(facts.rows.values()))) == len(found.population) - attacked
    kept = [found.held(p).categories for p in found.parties]
    assert np.bincount(knowledge.rows.clients).sum() == sum(map(len, kept)) - attacked
    none = settings.model_copy(update={"attacks": settings.attacks.model_copy(update={"rows": "none"})})
    assert not granted_knowledge(none, found).rows


def test_numbers_in_units_that_cannot_be_made_up_are_left_out():
    found = truth(**SHORT, preprocessing=[{"encoder": "local", "scaler": "local", "by": "yeo-johnson"}])
    assert not set(row_facts(view_of(("P1",), found), NONE, ["P2"]).rows) & set(found.federated.schema.numeric)


def test_without_messages_nothing_is_stated():
    found = trained("server-dictionary", "server-zscore")
    silent = view_of(("server",), found).restricted(lambda kind: not issubclass(kind, BEFORE))
    facts = row_facts(silent, NONE, ["P2"])
    assert not any((facts.moments, facts.extremes, facts.shares, facts.held, facts.sizes, facts.rows))
