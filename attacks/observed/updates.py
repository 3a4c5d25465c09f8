"""The updates that a view holds, as sums of gradients: what exact attacks work on, in FedSGD and in FedAvg alike."""

from collections.abc import Collection

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.gradients import chosen_messages, find_gradients
from leakledger.attacks.observed.trainings import find_trainings
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.messages import ClientGradient, ClientWeights
from leakledger.preprocess.views import View


def find_updates(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
) -> list[ObservedUpdate] | NotApplicable | Abstained:
    """The updates in `view`, of chosen rounds and victims, labels granted or not, or why there is none.

    All are gradients where there is one, else all are weights after local training.
    """
    weights = chosen_messages(view, ClientWeights, rounds, victims)
    sums = weights and not chosen_messages(view, ClientGradient, rounds, victims)
    return (find_trainings if sums else find_gradients)(view, knowledge, rounds=rounds, victims=victims)
