"""Known rows as the known clients would encode themselves: the numbers and codes that clients really have."""

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, KnownRows
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.dependence import known_rows
from leakledger.attacks.observed.own_terms import in_terms_of_clients
from leakledger.attacks.observed.row_facts import row_facts
from leakledger.audit.play import view_of
from tests.audit.example import truth

SHORT = {"data": {"source": "fair", "rows": 120}, "training": {"rounds": 1, "batch_size": 4}}


def restated(**preprocessing):
    """All rows of a federation, as they are granted, in terms of clients; and what their clients made of them."""
    found = truth(**SHORT, preprocessing=[{"encoder": "local", "scaler": "local", **preprocessing}])
    rows = found.rows_but(())
    return in_terms_of_clients(view_of(("server",), found), rows), rows, found


@pytest.mark.parametrize("by", ["zscore", "minmax", "robust"])
def test_clients_that_scale_by_their_own_figures_are_played(by):
    columns, _, found = restated(by=by)
    encoded = np.vstack([d.rows for d in found.federated.train.values()])
    for block in found.layout.numeric:
        assert columns[block.feature] == pytest.approx(encoded[:, block.start], abs=1e-5)


def test_clients_that_number_their_own_values_are_played_in_declared_order():
    columns, _, found = restated()
    assert found.federated.public.schema["orders"]  # some are not sorted by name
    for k, block in enumerate(found.layout.categorical):
        true = np.concatenate([found.held(p).categories[:, k] for p in found.parties])
        assert columns[block.feature].tolist() == true.tolist()


def test_labels_are_those_of_the_rows():
    _, rows, found = restated()
    assert rows.labels.tolist() == np.concatenate([d.labels for d in found.federated.train.values()]).tolist()
    own = row_facts(view_of(("P2",), found), AuxiliaryKnowledge(), ["P1"])
    assert own.labels.tolist() == found.federated.train["P2"].labels.tolist()
    granted = AuxiliaryKnowledge(rows=KnownRows(rows.columns, None, rows.clients))
    assert row_facts(view_of(("P2",), found), granted, ["P1"]).labels is None


def test_rows_without_clients_are_scaled_as_one_client_and_empty_columns_stay():
    view = view_of(("server",), restated()[2])
    feature = view.public.layout.numeric[0].feature
    column = in_terms_of_clients(view, KnownRows({feature: np.array([1.0, 3.0, 5.0])}))[feature]
    assert column == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert np.isnan(in_terms_of_clients(view, KnownRows({feature: np.full(2, np.nan)}))[feature]).all()
    assert (in_terms_of_clients(view, KnownRows({feature: np.full(2, 7.0)}))[feature] == 0).all()


def test_played_rows_are_numbered_as_cells_are():
    columns, _, found = restated()
    facts = row_facts(view_of(("server",), found), AuxiliaryKnowledge(rows=found.rows_but(())), ["P1"])
    cells = [c for kind in cells_of(found.layout, AuxiliaryKnowledge(), "cpu", facts) for c in kind]
    rows = known_rows(found.layout, cells, facts)
    assert rows[:, 0].tolist() == columns[found.layout.categorical[0].feature].tolist()
    assert (rows >= 0).mean() > 0.99
