import re

import numpy as np
import pytest
import torch

from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.messages import ClientGradient, ClientWeights
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.divergence import TrainingDiverged, finite_outputs, finite_update, finite_weights
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.views import ModelSpec, TrainingSpec
from tests.preprocess.test_training import SPEC, federation

NOT_FINITE = [np.nan, np.inf, -np.inf]


def arrays(value: float) -> dict[str, np.ndarray]:
    return {"0.weight": np.ones((2, 2), np.float32), "0.bias": np.array([0, value], np.float32)}


@pytest.mark.parametrize("value", NOT_FINITE)
def test_what_is_not_finite_is_named(value: float) -> None:
    told = r"in round 3 is not finite \(0.bias\); lower learning_rate, now 5, or choose a scaler"
    for update, what in [(ClientGradient(1, arrays(value)), "gradient"), (ClientWeights(1, arrays(value)), "model")]:
        with pytest.raises(TrainingDiverged, match=f"training diverged: the {what} of P2 {told}"):
            finite_update(update, "P2", 3, 5.0)
    with pytest.raises(TrainingDiverged, match="the model of server after round 3 is not finite"):
        finite_weights(arrays(value), "server", 3, 5.0)
    with pytest.raises(TrainingDiverged, match="the model's outputs are not finite"):
        finite_outputs(torch.tensor([[1.0, value]]))


def test_what_is_finite_stays_as_it_is() -> None:
    update = ClientGradient(1, arrays(1e38))
    assert finite_update(update, "P2", 3, 5.0) is update
    assert finite_weights(update.gradient, "server", 3, 5.0) is update.gradient


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_training_with_too_large_steps_ends_with_client_round_and_step(algorithm: str) -> None:
    fed, _, located = federation((8, 8), spec=(spec := ModelSpec(5, 1, (8,), task="regression")))
    training = TrainingSpec(algorithm, rounds=50, learning_rate=1e6, batch_size=4)
    with pytest.raises(
        TrainingDiverged, match=r"of P1 in round \d+ is not finite|the model of server after round"
    ) as error:
        train(fed, ALGORITHMS[algorithm], spec, training, located)
    assert re.search(r"step train, round \d+", error.value.__notes__[0])
    assert fed.ledger.aborts[0].reason == "TrainingDiverged"


def test_a_step_that_is_too_large_for_its_numbers_is_the_servers() -> None:
    fed, _, located = federation((8, 8))
    with pytest.raises(TrainingDiverged, match="the model of server after round 0 is not finite"):
        train(fed, ALGORITHMS["fedsgd"], SPEC, TrainingSpec("fedsgd", 1, 3e38 * 100, 4), located)


def test_no_message_holds_what_is_not_finite() -> None:
    fed, _, located = federation((8, 8), spec=(spec := ModelSpec(5, 1, (8,), task="regression")))
    with pytest.raises(TrainingDiverged):
        train(fed, ALGORITHMS["fedavg"], spec, TrainingSpec("fedavg", 50, 1e6, 4), located)
    for m in fed.ledger:
        plain = m.payload.to_plain()
        for array in plain.values() if isinstance(plain, dict) else ():
            assert not isinstance(array, np.ndarray) or np.isfinite(array).all()


def test_a_model_whose_outputs_overflow_is_not_scored() -> None:
    fed, _, located = federation((8, 8))
    huge = {n: np.full(s, 1e30, np.float32) for n, s in [("0.weight", (8, 5)), ("0.bias", (8,))]}
    huge |= {n: np.full(s, 1e30, np.float32) for n, s in [("1.weight", (2, 8)), ("1.bias", (2,))]}
    with pytest.raises((TrainingDiverged, FederationError), match="the model's outputs are not finite"):
        evaluate(fed, SPEC, fed.at("server", huge), located)
