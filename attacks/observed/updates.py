"""The updates that a view holds: those that clients sent, and sums over the clients of whom none was seen by itself.

All are sums of gradients, which is what exact attacks work on, in FedSGD and in FedAvg alike.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed import gradients, trainings
from leakledger.attacks.observed.aggregates import MODELS
from leakledger.attacks.observed.gradients import chosen_messages
from leakledger.attacks.observed.sums import find_sums
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.messages import ClientGradient, ClientWeights, Participants, SummedUpdate, Survivors
from leakledger.preprocess.views import View

Found = list[ObservedUpdate] | NotApplicable | Abstained
TOLD = (*MODELS, Participants, Survivors, SummedUpdate)
"""What the server tells clients of a training, and what observers add up of it: models and sums follow from it."""


def find_updates(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
    any_loss: bool = False,
) -> Found:
    """The updates in `view`, of chosen rounds and victims, labels granted or not, or why there is none.

    All are gradients where there is one, else all are weights after local training. `any_loss`: of clients' models too
    that are `gradients.unmodelled`.
    """
    weights = chosen_messages(view, ClientWeights, rounds, victims)
    local = weights and not chosen_messages(view, ClientGradient, rounds, victims)
    read = trainings.find_trainings if local else gradients.find_gradients
    sent = read(view, knowledge, rounds=rounds, victims=victims, any_loss=any_loss)
    return _together(sent, find_sums(view, knowledge, rounds=rounds, victims=victims))


find_of_any_loss = partial(find_updates, any_loss=True)


def find_gradients(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
) -> Found:
    """The gradients among them."""
    return _of_kind("fedsgd", gradients.find_gradients, view, knowledge, rounds, victims)


def find_trainings(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
) -> Found:
    """The local trainings among them."""
    return _of_kind("fedavg", trainings.find_trainings, view, knowledge, rounds, victims)


ALGORITHM_OF: Mapping[Callable[..., Found], str] = {find_gradients: "fedsgd", find_trainings: "fedavg"}
"""Which training has what a reader of one kind of update reads."""


def _of_kind(
    algorithm: str,
    read: Callable[..., Found],
    view: View,
    knowledge: AuxiliaryKnowledge,
    rounds: Collection[int] | None,
    victims: Collection[str] | None,
) -> Found:
    """What `read` makes of the messages of clients, with the sums of a training by `algorithm`."""
    sent = read(view, knowledge, rounds=rounds, victims=victims)
    if view.public.training is None or view.public.training.algorithm != algorithm:
        return sent
    return _together(sent, find_sums(view, knowledge, rounds=rounds, victims=victims))


def _together(sent: Found, sums: Found) -> Found:
    """Both; where there is neither, why there is no sum if anything tells of one, else why nothing was sent."""
    if isinstance(sent, list):
        return [*sent, *(sums if isinstance(sums, list) else ())]
    return sums if sums else sent
