"""Whole audits, from federation to verdict, in which the only attack has seen nothing."""

import numpy as np
import pytest
from scipy import stats

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import RecordsClaim
from leakledger.audit import run
from leakledger.audit.benchmarks.know_nothing import LIBRARY, Target
from leakledger.audit.case import cases
from leakledger.audit.run import run_case
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.rulings import rulings
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config

AUDITS = 50
FAR = 1e12  # from every row
METHOD = {"encoder": "server-dictionary", "scaler": "federated-zscore"}


def guesses(case_truth, view, way, coins):
    """What an adversary without a view claims about every batch that this view has an update of."""
    for m in view.received(ClientGradient):
        if (m.sender, m.round) in case_truth.federated.batches:
            actual = case_truth.batch(m.sender, m.round)
            of = population_without(case_truth, m.sender, m.round)
            rows = LIBRARY[way](Target(case_truth, of, m.sender, m.round, len(actual), None), coins)
            unsure = np.ones(rows.categories.shape), np.ones(rows.numbers.shape)
            numbers = np.nan_to_num(rows.numbers, posinf=FAR)  # a claim about rows has a number in each of them
            yield RecordsClaim(m.sender, m.round, rows.categories, numbers, *unsure, (m.sequence,))


def verdicts(number, way, monkeypatch, folder):
    """The verdicts on records of one audit: two settings, two seeds of their own, three clients."""
    kept, real = {}, run.truth_of
    coins = np.random.default_rng(number)
    monkeypatch.setattr(run, "truth_of", lambda federated: kept.setdefault(id(federated), real(federated)))
    monkeypatch.setattr(
        ATTACKS["span"], "run", lambda self, view, knowledge: list(guesses([*kept.values()][-1], view, way, coins))
    )
    settings = config(
        data={"source": "fair", "rows": 300},
        preprocessing=[{"encoder": "local", "scaler": "local"}, METHOD],
        training={"rounds": 1, "batch_size": 8},
        attacks={"use": ["span"], "labels": "known"},
        audit={"seeds": [2 * number, 2 * number + 1], "observers": ["server"]},
    )
    records = [run_case(settings, case, folder, PUBLIC_MASTER) for case in cases(settings)]
    monkeypatch.undo()
    return {r.verdict for r in rulings(records, Policy()) if r.asset == "records"}


@pytest.mark.soak
def test_audits_of_attacks_that_saw_nothing_seldom_say_that_records_leak(monkeypatch, tmp_path):
    ways = sorted(LIBRARY)
    leaky = [k for k in range(AUDITS) if "leaks" in verdicts(k, ways[k % len(ways)], monkeypatch, tmp_path)]
    print(f"{len(leaky)} of {AUDITS} audits say that records leak: {[ways[k % len(ways)] for k in leaky]}")
    low = stats.binomtest(len(leaky), AUDITS).proportion_ci(0.9, method="exact").low  # 95 % one-sided
    assert low <= Policy().alpha


@pytest.mark.slow
def test_an_attack_that_saw_nothing_ends_inconclusive(monkeypatch, tmp_path):
    assert verdicts(0, "optimised", monkeypatch, tmp_path) == {"inconclusive"}
