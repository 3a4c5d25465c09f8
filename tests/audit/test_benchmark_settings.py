"""What the attacker of gradient benchmarks knows of rows before the gradients: the population's, none of the client."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.gradient.inversion import informed
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.observed.row_facts import row_facts
from leakledger.attacks.observed.updates import find_updates
from leakledger.audit.benchmarks import defended_other, dp_sgd, exact, tableak
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.defended import in_public
from leakledger.audit.benchmarks.fedavg import train_on_few
from leakledger.audit.benchmarks.without_update import without_update
from leakledger.audit.case import cases
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.truth import Truth
from leakledger.preprocess.messages import PooledCategories, PooledColumns

TABLEAK = tableak.settings(Options(), "fair", "published", "known", 4, 1)
ALL = {
    "tableak": TABLEAK,
    "0/1": tableak.settings(Options(), "fair", "0/1", "known", 4, 1),
    "dp_sgd": dp_sgd.dp_sgd(TABLEAK, 0.1, 8),
    "exact, minmax": exact.with_network(TABLEAK, "federated-minmax", activation="tanh"),
    "other defenses": defended_other.under(TABLEAK, defended_other.OTHER["half pruned"]),
}


@pytest.mark.parametrize("name", ALL)
def test_the_server_has_no_row_of_a_client_and_rows_of_the_population_with_their_labels(name):
    config = ALL[name]
    truth = Truth(in_public(config, cases(config)[0]))
    public = truth.federated.public
    view, knowledge = truth.federated.ledger.view([public.server], public), granted_knowledge(config, truth)
    assert not list(view.received(PooledColumns))
    assert not list(view.received(PooledCategories))
    updates = find_updates(view, knowledge, rounds=[0])
    assert isinstance(updates, list)
    assert updates
    for update in informed(view, knowledge, updates):
        assert update.facts.rows_of == "population"
        assert update.facts.labels is not None
        assert len(update.facts.labels) == len(next(iter(update.facts.rows.values())))


@pytest.mark.parametrize(("epochs", "said"), [(0, True), (1, False)])
def test_the_server_knows_what_clients_said_for_encoder_and_scaler_and_of_fedavg_nothing(epochs, said):
    """As the docstrings of `defended` and `defended_other` have it: *prior only* knows none of this."""
    config = defended_other.under(TABLEAK, defended_other.Other(defended_other.noise(0.01), epochs=epochs))
    truth = Truth((train_on_few if epochs else in_public)(config, cases(config)[0]))
    public = truth.federated.public
    facts = row_facts(truth.federated.ledger.view([public.server], public), granted_knowledge(config, truth), ["P1"])
    assert [bool(f) for f in (facts.moments, facts.shares, facts.held)] == 3 * [said]
    assert facts.rows_of == "population"


def test_what_is_claimed_without_the_update_is_the_same_behind_any_update():
    config = tableak.settings(Options(), "fair", "published", "known", 4, 1, 0.01)
    truth = Truth(in_public(config, cases(config)[0]))
    public = truth.federated.public
    view, knowledge = truth.federated.ledger.view([public.server], public), granted_knowledge(config, truth)
    seen = informed(view, knowledge, find_updates(view, knowledge, rounds=[0], victims=["P1"]))
    other = [replace(u, gradient={name: -g for name, g in u.gradient.items()}) for u in seen]
    shut = without_update(Posterior(seed=1))
    [one], [same] = (shut.inverted(view, knowledge, updates) for updates in (seen, other))
    assert one.categories.shape[0] == 4
    np.testing.assert_array_equal(one.categories, same.categories)
    np.testing.assert_array_equal(one.numbers, same.numbers)
