"""Defenses that are stated of an update of one's own: refused where the update shows that they were not applied."""

import re
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

from leakledger.audit.own_code import AttackResult
from leakledger.audit.planted_batches import Advantage, PlantedBatches
from leakledger.audit.records import Control
from leakledger.audit.stated_defenses import refuse_undefended, taken_on_trust
from leakledger.defenses import defense_of
from leakledger.preprocess.views import Mechanism, TrainingSpec

ROWS, TRAINING = 3, TrainingSpec("fedsgd", batch_size=None)
SHAPES = {"0.weight": (30, 9), "0.bias": (30,), "1.weight": (20, 30), "1.bias": (20,)}


def mechanism(kind, value):
    name = {"gaussian-noise": "sigma", "pruning": "share", "quantisation": "bits"}.get(kind, "clip_norm")
    return Mechanism(kind, {name: value})


def gradient(seed=0):
    """Over `ROWS` rows, so of that rank; of norm 1."""
    coins = np.random.default_rng(seed)
    inner = {n: [coins.normal(size=(k, ROWS)) for k in shape] for n, shape in SHAPES.items()}
    raw = {n: parts[0] @ parts[1].T if len(parts) == 2 else parts[0].sum(1) for n, parts in inner.items()}
    norm = np.sqrt(sum((a**2).sum() for a in raw.values()))
    return {n: (a / norm).astype(np.float32) for n, a in raw.items()}


def sent(done, seed=0, raw=gradient):
    """An update that has the defenses `done`, and the rounding of its entries."""
    update = defense_of(done).protect(raw(seed), np.random.default_rng(seed))
    return update, {n: float(np.finfo(np.float32).eps * np.abs(a).max()) for n, a in update.items()}


def refusal(stated, done, seed=0):
    """What is said of an update that has the defenses `done`; empty where it is taken."""
    try:
        refuse_undefended(stated, *sent(done, seed), ROWS, TRAINING)
    except ValueError as error:
        return str(error)
    return ""


CLIP, NOISE, LOUD = mechanism("client-clipping", 0.2), mechanism("gaussian-noise", 1e-3), mechanism("gaussian-noise", 1)
PRUNE, ROUND, FINE = mechanism("pruning", 0.9), mechanism("quantisation", 4), mechanism("quantisation", 16)
CHANCE = Mechanism("quantisation", {"bits": 4, "rounding": "stochastic"})
HALF_AND_NOISE = mechanism("pruning", 0.5), mechanism("gaussian-noise", 0.1)
ROWWISE = mechanism("example-clipping", 100)
ALL = (CLIP, NOISE, LOUD, PRUNE, ROUND, FINE, CHANCE)
CHAINS = [*product(ALL), *product(ALL, ALL), *product(ALL, ALL, ALL)]


def test_what_was_done_as_stated_is_taken_in_every_order():
    assert not [why for seed, chain in enumerate(CHAINS) if (why := refusal(chain, chain, seed))]


@pytest.mark.parametrize(
    ("stated", "done", "told"),
    [
        ([ROUND], [], "quantisation to 4 bits is stated, but .* entries of 0.weight are between its 15 levels"),
        ([ROUND], [FINE], "quantisation to 4 bits"),
        ([FINE], [], "quantisation to 16 bits"),
        ([CHANCE], [], "quantisation to 4 bits"),
        ([CLIP, ROUND], [CLIP], "quantisation to 4 bits"),
        ([CLIP, ROUND], [ROUND], r"clipping to a norm of 0\.2 is stated"),
        ([ROUND, PRUNE], [PRUNE], "quantisation to 4 bits"),
        ([ROUND, CLIP], [CLIP], "quantisation to 4 bits"),
        ([ROUND, FINE], [FINE], "quantisation to 4 bits"),
        ([PRUNE, CLIP], [CLIP], r"pruning of 0\.9"),
        ([PRUNE, FINE], [FINE], r"pruning of 0\.9"),
        (
            [NOISE],
            [],
            r"noise of deviation 0\.001 is stated, but what is new in the columns of 0.weight after the first 3",
        ),
        ([CLIP, NOISE], [CLIP], "what is new in the columns"),
        ([NOISE], [mechanism("gaussian-noise", 5e-4)], "what is new in the"),
        ([LOUD, PRUNE], [PRUNE], "noise of deviation 1 is stated, but the update's entries"),
        ([LOUD, FINE], [FINE], "noise of deviation 1 is stated"),
        (
            [mechanism("client-clipping", 0.3), mechanism("gaussian-noise", 0.05)],
            [mechanism("gaussian-noise", 0.05)],
            r"clipping to a norm of 0\.3 and noise",
        ),
        (
            HALF_AND_NOISE,
            HALF_AND_NOISE[::-1],
            r"noise of deviation 0\.1 is stated to come last, but 135 of 270 entries of 0.weight",
        ),
        ([mechanism("gaussian-noise", 0.1)], HALF_AND_NOISE[::-1], "state all that was done, in its order"),
        (
            [mechanism("quantisation", 6), LOUD],
            [LOUD, mechanism("quantisation", 6)],
            "the 270 entries of 0.weight have [3-6][0-9] values, which noise leaves nowhere",
        ),
    ],
)
def test_what_the_update_shows_to_be_missing_is_refused(stated, done, told):
    found = refusal(stated, done)
    assert re.search(told, found)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("stated", "hidden"),
    [
        ([CLIP, NOISE], []),
        ([CLIP, PRUNE], []),
        ([LOUD, FINE], []),
        ([CLIP, PRUNE, FINE], ["pruning (whether it came before quantisation or after does not show)"]),
        ([FINE, PRUNE], ["quantisation (whether it came before pruning or after does not show)"]),
        ([LOUD, CHANCE], ["quantisation (levels do not show whether rounding to them was stochastic)"]),
        ([FINE, CHANCE], ["quantisation (coarser levels", "quantisation (levels do not show whether"]),
        ([ROWWISE, NOISE], ["example-clipping (the mean over rows does not show how long each of them was)"]),
        ([NOISE, LOUD], []),
        ([CLIP, LOUD], ["client-clipping (noise after it hides updates as long as"]),
        ([PRUNE, NOISE], ["pruning (noise after it hides it)"]),
        ([ROUND, LOUD], ["quantisation (noise after it hides it)"]),
        ([FINE, ROUND], ["quantisation (coarser levels after it hide it)"]),
        ([NOISE, CLIP], ["gaussian-noise (clipping after it hides how much there is)"]),
        ([NOISE, PRUNE, NOISE], ["gaussian-noise (noise after it hides it)", "pruning (noise after it hides it)"]),
    ],
)
def test_what_an_update_cannot_show_to_be_missing_is_named(stated, hidden):
    found = taken_on_trust(stated, *sent(stated), ROWS, TRAINING)
    assert len(found) == len(hidden)
    assert all(one.startswith(other) for one, other in zip(found, hidden, strict=True))


def full_rank(seed):
    return {n: np.random.default_rng(seed).normal(size=s).astype(np.float32) for n, s in SHAPES.items()}


def test_noise_is_taken_on_trust_where_rows_fill_every_layer():
    told = taken_on_trust([NOISE], *sent([], raw=full_rank), ROWS, TRAINING)
    assert told == ("gaussian-noise (the update is larger in all of its parts)",)


def small(seed):
    shapes = {"0.weight": (60, 4), "0.bias": (60,), "1.weight": (2, 60), "1.bias": (2,)}
    return {n: (0.05 * np.random.default_rng(seed).normal(size=s)).astype(np.float32) for n, s in shapes.items()}


def test_no_part_of_few_entries_that_is_small_by_chance_passes_for_noise_that_is_missing():
    for seed in range(10):
        told = taken_on_trust([mechanism("gaussian-noise", 0.02)], *sent([], seed, small), 100, TRAINING)
        assert told == ("gaussian-noise (the update is larger in all of its parts)",)
    few = {"0.weight": np.full((4, 3), 0.05, np.float32), "0.bias": np.full(4, 0.05, np.float32)}
    told = taken_on_trust([mechanism("gaussian-noise", 0.05)], few, dict.fromkeys(few, 0.0), 100, TRAINING)
    assert told == ("gaussian-noise (the update has too few entries to tell)",)


def test_how_long_a_single_row_was_shows():
    assert taken_on_trust([ROWWISE], *sent([]), 1, TRAINING) == ()


@pytest.mark.parametrize("half", [np.float32, np.float16])
def test_noise_that_came_last_is_taken_whatever_precision_numbers_travelled_in(half):
    for seed, weights in product(range(20), (False, True)):
        coins = np.random.default_rng(seed)
        before = {n: coins.uniform(-0.5, 0.5, s).astype(half).astype(np.float32) for n, s in SHAPES.items()}
        before = before if weights else dict.fromkeys(SHAPES, np.float32(0))
        after = {
            n: (before[n] + 0.01 * coins.normal(size=s)).astype(half).astype(np.float32) for n, s in SHAPES.items()
        }
        rounding = {n: float(np.finfo(np.float32).eps * max(np.abs(a).max(), 0.5 * weights)) for n, a in after.items()}
        refuse_undefended(
            [mechanism("gaussian-noise", 0.01)], {n: after[n] - before[n] for n in after}, rounding, 3, TRAINING
        )


@pytest.mark.parametrize(("trust", "warned"), [((), 0), (("pruning (noise after it hides it)",), 1)])
def test_a_test_that_passes_on_trust_says_so(trust, warned):
    planted = PlantedBatches(*(Advantage(32, 0.5, 0.4, a, a - 0.05, a + 0.05, 0, 0) for a in (0.1, 0.9)))
    rows = pd.DataFrame({"age": [31.0], "verified": [False]})
    found = AttackResult(
        "portfolio", rows, "", (Control("portfolio", "null", 0.4, 0.4, 0.0, True, ""),), planted, trust
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found.assert_low_advantage(at_most=0.3)
    assert [w.filename for w in told] == [__file__] * warned
    assert all("protected as stated, which it does not show of pruning" in str(w.message) for w in told)
    assert ("only if the update was protected as stated" in found.summary) is bool(warned)


def test_levels_that_travelled_in_half_precision_are_levels():
    coarse = mechanism("quantisation", 8)
    for seed in range(200):
        update, rounding = sent([coarse], seed)
        halved = {n: a.astype(np.float16).astype(np.float32) for n, a in update.items()}
        refuse_undefended([coarse], halved, rounding, ROWS, TRAINING)


@pytest.mark.parametrize("first", [CLIP, NOISE, PRUNE, ROUND])
def test_a_defense_of_a_plugin_may_hide_what_was_before_it_and_is_taken_on_trust(first):
    stated = [first, Mechanism("of-a-plugin", {}), FINE]
    update, rounding = sent([FINE], raw=full_rank)
    refuse_undefended(stated, update, rounding, ROWS, TRAINING)
    told = taken_on_trust(stated, update, rounding, ROWS, TRAINING)
    assert told == (
        f"{first.kind} (what comes after it may hide it)",
        "of-a-plugin (what it leaves in an update is not known)",
    )
