"""The sums and the single updates that the observers of a view can work out, whatever protocol aggregated them."""

from collections.abc import Iterator

from leakledger.attacks.observed.aggregation import encrypted, secure
from leakledger.attacks.observed.aggregation.vectors import Aggregate, Arrays, Vector, as_aggregate, first_model
from leakledger.preprocess.messages import EncryptedSum, EncryptedUpdate, MaskedUpdate
from leakledger.preprocess.views import View


def aggregates(view: View) -> dict[int, Aggregate]:
    """Round -> the sum that the observers have of it, as clients, rows and mean; empty where they have none.

    Under secure aggregation the server has every sum; under encryption every client has it.
    """
    return {a.round: a for a in _named(view, alone=False)}


def updates(view: View) -> list[Aggregate]:
    """The single updates of clients outside that the observers can take out of what hides them."""
    return list(_named(view, alone=True))


def _named(view: View, *, alone: bool) -> Iterator[Aggregate]:
    model = first_model(view)
    if model is None:
        return
    for vector in _vectors(view, alone, model.weights):
        if (found := as_aggregate(vector, model.weights)) is not None:
            yield found


def _vectors(view: View, alone: bool, like: Arrays) -> Iterator[Vector]:
    if view.has(MaskedUpdate):
        yield from secure.single(view) if alone else secure.sums(view)
    if view.has(EncryptedUpdate, EncryptedSum):
        yield from encrypted.single(view, like) if alone else encrypted.sums(view, like)
