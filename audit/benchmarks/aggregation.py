"""What aggregation costs: processor time and bytes of a round, for one client and for the server.

Updates are made up, as long as a model has parameters; nothing is trained. What is measured is the work of one party in
one process and on one core (its computations, encodings and seals), by the parties' own clocks; of bytes, whole
transmissions with their headers, through the server in both directions. Before the first round, one of a single
parameter exchanges the keys of sealed messages; it is left out, as is the exchange of the key of encryption.
Figures are means over rounds with Student-t intervals; a client's are means over the clients too.

*Masks alone* is what the generator takes for the masks of one client, which secure aggregation cannot do without. Of
encryption, what a client and the server compute with ciphertexts is shown apart. No published figure stands beside
these: none has both the sizes and a machine to compare.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from leakledger.audit.benchmarks.base import Options, Row, table_line
from leakledger.audit.intervals import interval
from leakledger.preprocess.aggregation import AGGREGATIONS, Aggregation
from leakledger.preprocess.aggregation.secure_aggregation import SecureAggregation
from leakledger.preprocess.federation import At
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Message

R = TypeVar("R")
PARAMETERS, CLIENTS = (20_000, 500_000), (4, 10, 50)
ROUNDS, FEW_ROUNDS = 5, 2  # below and from `LARGE` on
LARGE = 5_000_000  # parameters of all clients together: a round of 10 clients at 500,000
ROWS = 8  # behind each update
CIPHERTEXT_WORK = {  # functions of `he_aggregation` -> what they are
    "encrypted_update": "client encrypts",
    "encrypted_sum": "server adds up",
    "decrypted_mean": "client decrypts",
}
COLUMNS = ("client time", "server time", "client sends", "client receives", "server sends", "server receives")


class Metered(Simulated):
    """A federation that notes what each party's work takes, in processor seconds."""

    def __init__(self, clients: Sequence[str], *, secret: bytes) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.of_function: dict[tuple[str, str], float] = defaultdict(float)
        super().__init__(clients, secret=secret)

    def local(self, party: str, fn: Callable[..., R], *values: Any) -> At[R]:
        began = time.process_time()
        result = super().local(party, fn, *values)
        self.of_function[party, getattr(fn, "__name__", "")] += time.process_time() - began
        self._charge(party, began)
        return result

    def _encode(self, payload: At[Any], to: str, topic: str) -> bytes:
        began = time.process_time()
        content = super()._encode(payload, to, topic)
        self._charge(payload.party, began)
        return content

    def _decode(self, header: Message, received: bytes) -> Any:
        began = time.process_time()
        payload = super()._decode(header, received)
        self._charge(header.recipient, began)
        return payload

    def _seal(self, header: Message, content: bytes) -> bytes:
        began = time.process_time()
        body = super()._seal(header, content)
        self._charge(header.sender, began)
        return body

    def _open(self, header: Message, body: bytes) -> bytes:
        began = time.process_time()
        content = super()._open(header, body)
        self._charge(header.recipient, began)
        return content

    def _charge(self, party: str, began: float) -> None:
        self.seconds[party] += time.process_time() - began

    def forget(self) -> None:
        """Begins to count anew."""
        self.seconds.clear()
        self.of_function.clear()


def run(options: Options) -> Iterator[Row]:
    """Rows of every aggregation at each size; and of secure aggregation where a tenth of the clients drop out."""
    for parameters in PARAMETERS[:1] if options.quick else PARAMETERS:
        for clients in CLIENTS[:2] if options.quick else CLIENTS:
            for name in AGGREGATIONS:
                yield from measure(name, parameters, clients, {}, options.quick)
            dropping = {"dropouts": max(1, clients // 10), "threshold": max(2, clients // 2 + 1)}
            yield from measure("secure-aggregation", parameters, clients, dropping, options.quick)


def measure(name: str, parameters: int, clients: int, chosen: Mapping[str, Any], quick: bool = False) -> Iterator[Row]:
    """Rows of one aggregation at one size."""
    rounds = 2 if quick else ROUNDS if parameters * clients < LARGE else FEW_ROUNDS
    found: dict[str, list[float]] = defaultdict(list)
    for figures in _rounds(name, parameters, clients, chosen, rounds):
        for metric, value in figures.items():
            found[metric].append(value)
    setting = {"aggregation": name, "parameters": parameters, "clients": clients, **chosen}
    for metric, values in found.items():
        low, high = interval(values) or (None, None)
        unit = "ms" if metric.endswith(("time", *CIPHERTEXT_WORK.values(), "alone")) else "MB"
        yield Row("aggregation", "made up", setting, metric, float(np.mean(values)), low, high, None, unit, rounds)


def _rounds(
    name: str, parameters: int, clients: int, chosen: Mapping[str, Any], rounds: int
) -> Iterator[dict[str, float]]:
    """The figures of each round."""
    fed = Metered([f"P{i + 1}" for i in range(clients)], secret=pinned("aggregation", name, parameters, clients))
    method = AGGREGATIONS[name](**chosen)
    kept = method.begin(fed)
    _aggregate(fed, method, kept, 1, 0)
    for round in range(1, rounds + 1):
        fed.forget()
        before = len(fed.ledger)
        _aggregate(fed, method, kept, parameters, round)
        yield {**_figures(fed, tuple(fed.ledger)[before:]), **_apart(fed, method, parameters)}


def _aggregate(fed: Metered, method: Aggregation, kept: Mapping[str, At[Any]], parameters: int, round: int) -> None:
    """One round on updates of so many numbers."""
    coins, zeros = np.random.default_rng(round), {"w": np.zeros(parameters, np.float32)}
    drawn = {c: {"w": coins.normal(size=parameters).astype(np.float32)} for c in fed.clients}
    model = {p: fed.at(p, zeros) for p in (fed.clients if method.at_clients else [fed.server])}
    with fed.scope("train", round):
        located = {c: fed.at(c, ClientGradient(ROWS, u)) for c, u in drawn.items()}
        offered = {c: method.offer(fed, c, u, ClientGradient) for c, u in located.items()}
        method.mean(fed, kept, offered, model)


def _figures(fed: Metered, messages: Sequence[Message]) -> dict[str, float]:
    """Milliseconds and megabytes of the server, and of a client in the mean."""
    sent, received = defaultdict[str, float](float), defaultdict[str, float](float)
    for m in messages:
        for one, other in m.hops:
            sent[one] += m.wire_size / 1e6
            received[other] += m.wire_size / 1e6
    spent = {p: 1e3 * s for p, s in fed.seconds.items()}

    def mean(figures: Mapping[str, float]) -> float:
        return float(np.mean([figures.get(c, 0.0) for c in fed.clients]))

    own = (spent.get(fed.server, 0.0), mean(sent), mean(received), sent[fed.server], received[fed.server])
    return dict(zip(COLUMNS, (mean(spent), *own), strict=True))


def _apart(fed: Metered, method: Aggregation, parameters: int) -> dict[str, float]:
    """What the generator of masks, or work with ciphertexts, takes of that."""
    if isinstance(method, SecureAggregation):
        began = time.process_time()
        for number in range(len(fed.clients)):
            method.ring.mask(number.to_bytes(32, "big"), parameters + 1)
        return {"masks alone": 1e3 * (time.process_time() - began)}
    parties: dict[str, list[float]] = defaultdict(list)
    for (_, function), seconds in fed.of_function.items():
        if function in CIPHERTEXT_WORK:
            parties[CIPHERTEXT_WORK[function]].append(1e3 * seconds)
    return {what: float(np.mean(times)) for what, times in parties.items()}


def markdown(rows: Sequence[Row]) -> str:
    """A line per aggregation and size, times in ms and bytes in MB, then what was measured apart."""
    cells: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for r in rows:
        dropping = f", {r.setting['dropouts']} drop" if r.setting.get("dropouts") else ""
        key = f"{r.setting['parameters']:,}", str(r.setting["clients"]), f"{r.setting['aggregation']}{dropping}"
        cells[key][r.metric] = f"{r.measured:,.1f}" if r.unit == "ms" else f"{r.measured:,.2f}"
    units = [f"{c}, {'ms' if c.endswith('time') else 'MB'}" for c in COLUMNS]
    head = ["parameters", "clients", "aggregation", *units, "of that, ms"]
    lines = [head, ["---"] * len(head)]
    for key, found in cells.items():
        apart = ", ".join(f"{what} {value}" for what, value in found.items() if what not in COLUMNS)
        lines.append([*key, *(found.get(c, "") for c in COLUMNS), apart])
    return "\n".join(table_line(line) for line in lines)
