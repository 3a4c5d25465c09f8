"""Where there is one of a thing, texts say so in the singular."""

from types import SimpleNamespace

import numpy as np
import pytest

from leakledger.audit.gate.plan import gate_needs
from leakledger.audit.gate.policy import PolicyError, policy_of
from leakledger.audit.gate_records import GateOutcome
from leakledger.audit.verdicts.plan import needs
from leakledger.audit.verdicts.policy import Policy
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.partition import Iid
from leakledger.preprocess.nouns import plural
from tests.preprocess.example import table


def test_a_number_has_the_noun_that_goes_with_it():
    assert [plural(n, "seed") for n in (0, 1, 2, 1_000)] == ["0 seeds", "1 seed", "2 seeds", "1,000 seeds"]
    assert [plural(n, "party", "parties") for n in (1, 2)] == ["1 party", "2 parties"]


def test_one_cluster_is_one_cluster_to_plans_of_audits_and_gates():
    assert next(needs(Policy(), 1, 1)).startswith("1 cluster per setting cannot show")
    with pytest.raises(PolicyError, match=r"pass on 1 cluster per setting; from \d+ on it can"):
        list(gate_needs(policy_of({}), 1, 1))


def test_one_open_check_is_decided_and_false_alarms_are_shared_among_one_hypothesis():
    check = SimpleNamespace(status="inconclusive", needed=9, clusters=5)
    outcome = GateOutcome("r", "h", "p", (check,), 0.05, 0.8, 1)
    assert outcome.power_sentence.startswith("Power: 1 inconclusive check has too few clusters (5); 9 would decide it ")


def test_one_row_is_told_by_its_number_to_whoever_splits_a_table():
    few = table(8).rows(np.array([0], np.int64))
    with pytest.raises(DataError, match="1 row cannot give 2 parties 1 each"):
        Iid(parties=2, minimum=1).split(few, np.random.default_rng(0))
    with pytest.raises(DataError, match="1 row cannot be split into training and test rows"):
        few.split(0.5, np.random.default_rng(0))
