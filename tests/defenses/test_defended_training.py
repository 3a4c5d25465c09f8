"""What leaves a client under each defense, in FedSGD and in FedAvg."""

import numpy as np
import pytest

from leakledger.defenses import chain
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.pruning import Pruning
from leakledger.defenses.quantisation import Quantisation
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.views import TrainingSpec
from tests.defenses.kinds import OF_UPDATES, named
from tests.preprocess.test_training import SPEC, federation

SIZES = (12, 15)


def trained(algorithm, defense, rounds=2, **options):
    """The federation after training, the rows of its clients, and what they trained on."""
    fed, data, located = federation(SIZES)
    training = TrainingSpec(algorithm, rounds=rounds, batch_size=4, **options)
    protect = defense.protect if defense.mechanisms() else None
    done = train(fed, ALGORITHMS[algorithm], SPEC, training, located, protect, defense.row_clip_norm)
    return fed, data, {key: fed.own(b) for key, b in done.batches.items()}


def updates(fed):
    """(client, round) -> its update and the model that it was told."""
    models = {(m.recipient, m.round): m.payload for m in fed.ledger if m.topic == "train.model"}
    sent = [m for m in fed.ledger if m.topic in ("train.gradient", "train.weights")]
    return {(m.sender, m.round): (m.payload, models[m.sender, m.round]) for m in sent}


def arrays(update):
    return update.gradient if isinstance(update, ClientGradient) else update.weights


def added(update, model):
    """What an update tells: a gradient, or how far weights moved."""
    if isinstance(update, ClientGradient):
        return update.gradient
    return {name: w - model.weights[name] for name, w in update.weights.items()}


def norm(named_arrays):
    return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in named_arrays.values())))


@named()
def test_an_update_of_fedsgd_is_another_one_of_the_same_shapes_and_rows(defense):
    plain, guarded = (updates(trained("fedsgd", d)[0]) for d in (chain(), defense))
    for key in (("P1", 0), ("P2", 0)):
        (one, model), (other, same) = plain[key], guarded[key]
        assert one.rows == other.rows == 4
        for name, a in one.gradient.items():
            np.testing.assert_array_equal(model.weights[name], same.weights[name])
            assert (a.shape, a.dtype) == (other.gradient[name].shape, other.gradient[name].dtype)
        assert any((a != other.gradient[name]).any() for name, a in one.gradient.items())


@named(OF_UPDATES)
def test_what_fedavg_adds_to_the_model_is_another_of_the_same_shapes_and_rows(defense):
    plain, guarded = (updates(trained("fedavg", d)[0]) for d in (chain(), defense))
    for (client, round), (one, _) in plain.items():
        other, _ = guarded[client, round]
        assert one.rows == other.rows
        assert {n: (a.shape, a.dtype) for n, a in one.weights.items()} == {
            n: (a.shape, a.dtype) for n, a in other.weights.items()
        }
        if round == 0:
            assert any((a != other.weights[name]).any() for name, a in one.weights.items())


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_without_a_defense_updates_are_what_training_gives_to_the_last_bit(algorithm):
    fed, data, batches = trained(algorithm, chain())
    for key, (update, model) in updates(fed).items():
        training = TrainingSpec(algorithm, batch_size=4)
        expected = ALGORITHMS[algorithm].client(SPEC, training, model, data[key[0]], batches[key])
        for name, a in arrays(expected).items():
            np.testing.assert_array_equal(arrays(update)[name], a)


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_no_client_adds_more_than_the_norm(algorithm):
    clip_norm = 0.05
    for update, model in updates(trained(algorithm, ClientClipping(clip_norm))[0]).values():
        assert norm(added(update, model)) == pytest.approx(clip_norm, rel=1e-4)  # weights are rounded to float32


def test_no_row_moves_a_gradient_by_more_than_its_share_of_the_norm():
    """A row left out of the sum: the rest differs by the clipped gradient of that row."""
    clip_norm = 0.1
    fed, data, batches = trained("fedsgd", ExampleClipping(clip_norm))
    for (client, round), (update, model) in updates(fed).items():
        rows = batches[client, round][0]
        for i in range(len(rows)):
            rest = ALGORITHMS["fedsgd"].client(
                SPEC, TrainingSpec(batch_size=4), model, data[client], [np.delete(rows, i)], clip_norm
            )
            moved = {n: 4 * a - 3 * np.float64(rest.gradient[n]) for n, a in update.gradient.items()}
            assert norm(moved) <= clip_norm * (1 + 1e-5)


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_the_pruned_share_of_what_is_added_is_zero(algorithm):
    for update, model in updates(trained(algorithm, Pruning(0.5))[0]).values():
        for a in added(update, model).values():
            assert (a == 0).sum() >= a.size // 2
            assert (a != 0).any()


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_what_is_added_has_no_more_values_than_there_are_levels(algorithm, rounding):
    for update, model in updates(trained(algorithm, Quantisation(2, rounding))[0]).values():
        for name, a in added(update, model).items():
            largest = np.abs(a).max()
            off = np.min([np.abs(a - level * largest) for level in (-1, 0, 1)], axis=0)
            assert off.max() <= 1e-6, name  # of weights below 1 in float32


@named([d for d in OF_UPDATES if not d.random])
def test_weights_are_protected_by_how_far_they_moved_not_by_their_size(defense):
    """Against the same local training done again: what is sent is the model and the protected difference."""
    fed, data, batches = trained("fedavg", defense)
    for key, (update, model) in updates(fed).items():
        done = ALGORITHMS["fedavg"].client(SPEC, TrainingSpec("fedavg"), model, data[key[0]], batches[key])
        expected = defense.protect(added(done, model), np.random.default_rng(0))
        for name, a in expected.items():
            np.testing.assert_allclose(update.weights[name], model.weights[name] + a, atol=1e-7)


def test_rows_are_clipped_in_fedsgd_only_and_fedavg_says_so_before_the_first_message():
    fed, _, located = federation(SIZES)
    with pytest.raises(ValueError, match=r"clipped \(to 0.5\) where one gradient of them is sent, and fedavg"):
        train(fed, ALGORITHMS["fedavg"], SPEC, TrainingSpec("fedavg"), located, None, 0.5)
    assert len(fed.ledger) == 0
