"""`sac`, secure average computation: every client learns the sum of all clients' numbers from exchanged parts.

Source: "Privacy-preserving tabular data transformation", section 6; after Wink and Nochta (2021). Each client splits
its numbers into n parts, keeps one and sends one to each other client; each adds up the parts it holds and sends this
partial sum to each other client; each adds up the partial sums. Assumes honest but curious parties.

Messages: 2 (n - 1) per client and sum, 2 n (n - 1) in all, whatever the number of features, because all numbers of a
step travel in one message. Table 5 of the paper states one client's count, not the federation's.

Routes: `relay`, the paper's ("the server acting as a passive message relay"), where the server passes on open messages,
reads all n parts but the one that each client keeps, and reads the partial sums; `sealed`, the same with messages
encrypted for the recipient (this adds one exchange of public keys); `direct` between clients. What a client reads is
the same on all routes: one part of everybody's numbers, everybody's partial sums, and the sum.

With two clients each could subtract its own number from the sum, so three are required. Any n - 1 clients together
always learn the last one's number: that is in the sum itself.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, get_args

from leakledger.preprocess.crypto.randomness import randomness
from leakledger.preprocess.crypto.refusal import accept
from leakledger.preprocess.crypto.sharing import Sharing
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import SecureSum, SumKinds

Route = Literal["relay", "sealed", "direct"]
FEWEST = 3


def secure_sum(
    fed: Federation, values: Mapping[str, At[Any]], sharing: Sharing, route: Route, kinds: SumKinds
) -> dict[str, At[Any]]:
    """At every client of `values` (k numbers each), the sums (k,) as exact fractions: the same at all of them.

    `kinds` are those of what is added up (`messages.sums`): `.part` and `.partial`, or `.share` and `.share-partial`.
    Raises ValueError for fewer than three clients or an unknown route.
    """
    check_clients(values)
    check_route(route)
    clients, n = tuple(values), len(values)
    parts = {c: fed.local(c, sharing.split, v, n, randomness(fed, c)) for c, v in values.items()}
    outgoing = {c: {r: fed.local(c, itemgetter(i), parts[c]) for i, r in enumerate(clients)} for c in clients}
    part, partial_sum = sharing.kinds(kinds)
    held = exchange(fed, outgoing, sharing, route, part)
    partial = {c: fed.local(c, sharing.add, *held[c]) for c in clients}
    sums = exchange(fed, {c: dict.fromkeys(clients, partial[c]) for c in clients}, sharing, route, partial_sum)
    return {c: fed.local(c, sharing.reveal, *sums[c]) for c in clients}


def exchange(
    fed: Federation,
    outgoing: Mapping[str, Mapping[str, At[Any]]],
    sharing: Sharing,
    route: Route,
    kind: type[SecureSum],
) -> dict[str, list[At[Any]]]:
    """Every client's parts to every other, in the order of the senders; its own stays with it.

    Raises FederationError for a part that is not of the recipient's own form.
    """
    via = None if route == "direct" else fed.server
    held: dict[str, list[At[Any]]] = {c: [] for c in outgoing}
    for sender, parts in outgoing.items():
        for recipient, part in parts.items():
            if recipient != sender:
                told = fed.local(sender, sharing.told, kind, part)
                arrived = fed.send(told, to=recipient, via=via, sealed=route == "sealed", kind=kind)
                part = accept(fed, recipient, sender, read_part, sharing, arrived, outgoing[recipient][recipient])
            held[recipient].append(part)
    return held


def read_part(sharing: Sharing, told: SecureSum, own: Any) -> Any:
    return sharing.check(told.numbers, own)


def check_clients(clients: Mapping[str, Any] | Sequence[Any]) -> None:
    if len(clients) < FEWEST:
        raise ValueError(
            f"secure average computation needs at least {FEWEST} clients, got {len(clients)}: of two, each learns the "
            "other's number by subtraction; add a client or choose another method"
        )


def check_route(route: str) -> None:
    if route not in get_args(Route):
        raise ValueError(f"route {route!r} is unknown; choose one of {', '.join(get_args(Route))}")
