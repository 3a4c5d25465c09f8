"""The advantage over guessing on planted batches, behind a defense and without it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from leakledger.attacks.base import Attack, AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.random_baseline import RandomBaseline
from leakledger.attacks.gradient.span import Span
from leakledger.audit.own_update import CLIENT, layout_of, view_of_update
from leakledger.audit.planted_batches import advantage_on_planted
from leakledger.audit.planted_controls import trial_like
from leakledger.audit.play import view_of
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.views import Mechanism
from tests.audit.example import truth

ROWS, BATCHES = 2, 8
LABELS = np.resize([0, 1], ROWS)
NOISE = Mechanism("gaussian-noise", {"sigma": 1e6})


@dataclass(frozen=True)
class SpanOrGuess(Attack):
    """Exact where nothing perturbs the update, else a guess: what a strong defense leaves of an attack."""

    most: int = ROWS  # rows that it tells

    technique = "span or guess"
    reads = Span.reads

    def run(self, view, knowledge):
        if not view.public.mechanisms:
            return Span().run(view, knowledge)
        return [first(c, self.most) for c in RandomBaseline().run(view, knowledge)]


def first(claim, rows):
    own = ("categories", "numbers", "category_entropy", "number_entropy")
    return replace(claim, verified=None, **{name: getattr(claim, name)[:rows] for name in own})


def measured(attack, *mechanisms, layout=None):
    columns = layout_of(layout or {"age": None, "ward": ["surgery", "heart", "other"]})
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(columns.width, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 2))
    sent = [1e6 * torch.randn_like(p) for p in net.parameters()]  # nothing but the noise
    view = view_of_update(net, sent, trained=False, layout=columns, rows=ROWS, mechanisms=mechanisms)
    known = AuxiliaryKnowledge(labels={(CLIENT, 0): LABELS})
    return advantage_on_planted(attack, view, known, BATCHES, np.random.default_rng(0))


def test_what_reads_undefended_rows_and_guesses_behind_noise_has_an_advantage_without_the_noise_alone():
    found = measured(SpanOrGuess(), NOISE)
    assert found.defended.low < 0.3
    assert found.undefended.advantage > 0.5
    assert (found.defended.partial, found.defended.proven, found.defended.batches) == (0, 0, BATCHES)
    assert found.undefended.proven > 0


def test_rows_that_are_not_claimed_are_counted_though_their_batch_ends_below_guessing():
    behind = measured(SpanOrGuess(most=1), NOISE).defended
    assert behind.high < 0
    assert behind.partial == BATCHES


def test_without_a_defense_there_is_nothing_to_take_off():
    assert measured(SpanOrGuess()).undefended is None


def test_no_advantage_is_stated_where_guessing_gets_everything():
    assert measured(SpanOrGuess(), NOISE, layout={"ward": ["surgery"]}) is None


@dataclass(frozen=True)
class AlwaysWrong(Attack):
    technique = "always wrong"
    reads = Span.reads

    def run(self, view, knowledge):
        shape = np.zeros((ROWS, 1))
        return [RecordsClaim(CLIENT, 0, np.zeros((ROWS, 0), np.int64), shape + 1e9, np.zeros((ROWS, 0)), shape)]


def test_the_interval_is_never_narrower_than_guesses_scatter():
    behind = measured(AlwaysWrong(), NOISE, layout={"age": None}).defended
    assert behind.value == 0
    assert behind.high - behind.low > 0.05


@pytest.mark.parametrize("said", ["planted rows behind such an update", "without the defense"])
def test_it_says_what_it_measured(said):
    assert said in str(measured(SpanOrGuess(), NOISE))


def test_trials_are_of_the_size_of_the_largest_update():
    """Of clients with batches of 10, 64 and 64 rows they were of 10, the first."""
    training = {"rounds": 1, "batch_size": 64}
    found = truth(partition={"kind": "dirichlet-quantity", "parties": 3, "beta": 0.5}, training=training)
    view = view_of(("server",), found)
    assert [m.payload.rows for m in view.received(ClientGradient)] == [10, 64, 64]
    trial = trial_like(Span(), view, AuxiliaryKnowledge(), np.random.default_rng(0))
    assert trial.update.payload.rows == 64
