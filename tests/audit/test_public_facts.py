"""Nothing is public without a message or a declaration: two worlds that differ in one party's rows."""

import numpy as np
import pandas as pd
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, StatisticClaim
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.audit.case import cases
from leakledger.audit.federate import federate, split_tables, whole_table
from leakledger.audit.provenance import run_facts
from leakledger.audit.truth import Truth
from leakledger.preprocess.data.impute import filling_of
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config

PARTIES = ("north", "south", "west")
EVERYTHING = (
    'target = "ill"\ncategorical = ["city", "pet"]\nnumeric = ["age", "dose"]\ninteger = []\nclasses = ["no", "yes"]\n'
)
OPEN = 'target = "ill"\n'


def rows(party):
    coins = np.random.default_rng(PARTIES.index(party))
    return pd.DataFrame(
        {
            "city": coins.choice(["Ulm", "Bonn", "Kiel"], 20),
            "pet": coins.choice(["1", "2", "3"], 20),
            "age": [f"{v}.0" for v in coins.integers(18, 90, 20)],
            "dose": [f"{v:.2f}" for v in coins.normal(3, 1, 20)],
            "ill": np.resize(["no", "yes"], 20),
        }
    )


def world(folder, schema, change=None, missing="error"):
    """The federation of three files; `change` is (party, row, column, value) of one cell."""
    folder.mkdir()
    for party in PARTIES:
        frame = rows(party)
        if change and change[0] == party:
            frame.loc[change[1], change[2]] = change[3]
        frame.to_csv(folder / f"{party}.csv", index=False)
    (folder / "declared.toml").write_text(schema)
    return config(
        data={
            "source": [str(folder / f"{p}.csv") for p in PARTIES],
            "schema": str(folder / "declared.toml"),
            "missing": missing,
            "rows": None,
        },
        partition={"kind": "files"},
        preprocessing=[{"encoder": "rolling-hash", "buckets": 20, "scaler": "local"}],
        training={"rounds": 1, "batch_size": 4},
    )


def run(settings):
    return federate(settings, cases(settings)[0], PUBLIC_MASTER)


def told(federated):
    """What each party told about its rows to agree on a schema, by party and topic."""
    return {(m.sender, m.topic): m.payload for m in federated.ledger if m.step == "schema"}


CHANGES = {
    "one fraction": (("south", 3, "age", "30.5"), "schema.local", "integer"),
    "one label": (("south", 3, "ill", "maybe"), "schema.local-classes", "classes"),
    "one code": (("south", 3, "pet", "03"), "schema.local", "categorical"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_cell_that_changes_what_is_public_changes_a_message_of_its_party(name, tmp_path):
    change, topic, fact = CHANGES[name]
    one, other = run(world(tmp_path / "a", OPEN)), run(world(tmp_path / "b", OPEN, change))
    assert one.public.schema[fact] != other.public.schema[fact]
    before, after = told(one), told(other)
    changed = {who for who in before if before[who] != after[who]}
    assert changed == {("south", topic), ("server", topic.replace("local", "agreed"))}


def test_where_everything_is_declared_a_cell_changes_nothing_public_and_nothing_is_told(tmp_path):
    one = run(world(tmp_path / "a", EVERYTHING))
    other = run(world(tmp_path / "b", EVERYTHING, ("south", 3, "age", "30.5")))
    assert one.public == other.public
    assert told(one) == told(other) == {}
    assert one.public.schema["negotiated"] == []


def test_a_row_that_no_party_was_given_changes_nothing_public(tmp_path):
    """What is read before rows are drawn and dealt decides nothing that anyone knows."""
    (tmp_path / "t.schema.toml").write_text(OPEN)
    frame, source = rows("north"), tmp_path / "t.csv"
    settings = config(
        data={"source": str(source), "rows": 15},
        partition={"kind": "iid", "parties": 2, "minimum": 2},
        preprocessing=[{"encoder": "rolling-hash", "buckets": 20, "scaler": "local"}],
        training={"rounds": 1, "batch_size": 4},
    )
    frame.to_csv(source, index=False)
    drawn = whole_table(settings).frame["dose"].tolist()
    left = next(i for i, dose in enumerate(frame["dose"]) if float(dose) not in drawn)
    one = run(settings)
    assert one.public.schema["integer"] == ["pet", "age"]
    for column, value in (("age", "30.5"), ("ill", "maybe"), ("pet", "03")):
        changed = frame.copy()
        changed.loc[left, column] = value
        changed.to_csv(source, index=False)
        assert run(settings).public == one.public


def test_what_messages_settled_is_named_in_the_public_facts_and_the_facts_of_the_run(tmp_path):
    settings = world(tmp_path / "a", OPEN)
    federated = run(settings)
    assert federated.public.schema["negotiated"] == ["kinds", "integer", "task", "classes"]
    facts = run_facts(settings, cases(settings), "name", "command")
    assert facts.data.negotiated == ("kinds", "integer", "task", "classes")


def test_an_embedded_table_declares_everything():
    federated = run(config())
    assert told(federated) == {}
    assert federated.public.schema["negotiated"] == []


def test_a_party_imputes_by_its_own_rows_whatever_others_hold(tmp_path):
    missing = ("south", slice(0, 9), "age", "")
    one, other = (world(tmp_path / name, EVERYTHING, missing, missing="impute") for name in "ab")
    rows("north").assign(age="80", pet="9").to_csv(tmp_path / "b" / "north.csv", index=False)
    south, again = run(one).tables["south"], run(other).tables["south"]
    assert south.fingerprint() == again.fingerprint()
    assert not south.partial


def table_of(folder):
    """One table of 60 rows, 20 ages missing, as a configuration that deals it to three parties."""
    folder.mkdir()
    frame = pd.concat([rows(p) for p in PARTIES], ignore_index=True)
    frame.loc[::3, "age"] = ""
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "t.schema.toml").write_text(EVERYTHING)
    return config(
        data={"source": str(folder / "t.csv"), "missing": "impute", "rows": None},
        partition={"kind": "iid", "parties": 3, "minimum": 5},
        preprocessing=[{"encoder": "rolling-hash", "buckets": 20, "scaler": "local"}],
        training={"rounds": 1, "batch_size": 4},
    )


def test_one_table_is_imputed_after_it_is_divided_by_the_training_rows_of_each_party(tmp_path):
    settings = table_of(tmp_path / "a")
    fillings = set()
    federated = run(settings)
    for party, (train, _) in split_tables(settings, cases(settings)[0]).items():
        missing = train.frame["age"].isna()
        expected = train.frame["age"].quantile(interpolation="lower")
        imputed = federated.tables[party].frame["age"]
        assert set(imputed[missing]) == {expected}
        assert imputed[~missing].tolist() == train.frame["age"][~missing].tolist()
        fillings.add(expected)
    assert len(fillings) == 3


def test_held_out_rows_are_filled_by_the_training_rows(tmp_path):
    settings = table_of(tmp_path / "a")
    federated, filled = run(settings), 0
    for party, (train, test) in split_tables(settings, cases(settings)[0]).items():
        imputed = federated.tables[party].frame["age"].to_numpy()
        code = federated.train[party].rows[imputed == filling_of(train)["age"], 0][0]
        missing = test.frame["age"].isna().to_numpy()
        assert set(federated.test[party].rows[missing, 0]) <= {code}
        filled += missing.sum()
    assert filled > 0


@pytest.mark.parametrize(("granted", "claimed"), [("known", {"count", "target_rate"}), ("none", set())])
def test_held_out_rows_tell_of_the_others_whoever_is_granted_their_share(granted, claimed):
    settings = config(
        preprocessing=[{"encoder": "target", "scaler": "local"}], attacks={"use": ["plaintext"], "held_out": granted}
    )
    federated = run(settings)
    claims = Plaintext().run(federated.ledger.view(["server"], federated.public), AuxiliaryKnowledge())
    own = [c for c in claims if isinstance(c, StatisticClaim) and not c.statistic.startswith("held_out")]
    assert {c.statistic for c in own} == claimed
    true = Truth(federated)
    for c in own:
        assert c.low <= true.statistic(c.party, "", c.statistic) <= c.high
