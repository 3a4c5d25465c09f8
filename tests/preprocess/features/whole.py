"""A run of FLFE as one protocol over plain inputs, and small inputs for it."""

import numpy as np

from leakledger.preprocess.features.devices import DeviceColumns, LabelColumn
from leakledger.preprocess.features.flfe import FLFE, PublicColumns
from leakledger.preprocess.features.judges import Perceptron, judges_from_plain, judges_to_plain
from leakledger.preprocess.features.transformations import BINARY, TRANSFORMATIONS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated

FEATURES = {"P1": ("height", "age"), "P2": ("weight",), "P3": ("dose",)}
CLIENTS = tuple(FEATURES)
BINS = 6


def columns(records=40, seed=0, classes=2):
    """Plain inputs of three devices, the labels among those of the first."""
    coins = np.random.default_rng(seed)
    ids = [f"record {i}" for i in range(records)]
    held = {
        d: {"ids": ids, "columns": {f: coins.normal(50, 10, records) for f in features}}
        for d, features in FEATURES.items()
    }
    return held, {"ids": ids, "labels": np.resize(np.arange(classes), records)}


def open_minded(bins=BINS):
    """Judges that give every transformation a score of one half, as plain weights."""
    return judges_to_plain({t: flat(4 * bins if t in BINARY else 2 * bins) for t in TRANSFORMATIONS})


def flat(inputs):
    zeros = (np.zeros(shape, np.float32) for shape in ((3, inputs), 3, (2, 3), 2))
    return Perceptron(*zeros)


def inputs_of(held, labels, holder, bins=BINS):
    """What each party is given."""
    parts = {d: {"device": own} for d, own in held.items()}
    parts["server"] = {"judges": open_minded(bins)}
    parts[holder] = {**parts[holder], "labels": labels}
    return parts


def whole_flfe(fed, inputs, params):
    """The server ends with the features that it keeps, each device with its own."""
    flfe = FLFE(**{k: tuple(v) if isinstance(v, list) else v for k, v in params["flfe"].items()})
    agreed = PublicColumns(params["features"], params["classes"], params["holder"])
    devices = {d: fed.local(d, _device, inputs[d]) for d in fed.clients}
    labels = fed.local(agreed.holder, _labels, inputs[agreed.holder])
    judges = fed.local(fed.server, _judges, inputs[fed.server])
    made = flfe.run(fed, agreed, devices, labels, judges)
    kept = {p: [m.column for m in made if m.column.party == p] for p in fed.everyone}
    return {p: fed.local(p, _listed, *own) for p, own in kept.items()}


def _device(given):
    return DeviceColumns.from_plain(given["device"])


def _labels(given):
    return LabelColumn.from_plain(given["labels"])


def _judges(given):
    return judges_from_plain(given["judges"])


def _listed(*columns):
    return list(columns)


def simulated(held, labels, holder="P1", classes=2, seed=0, bins=BINS, options=None, **more):
    """The run in this process: its federation and (task, party, column) of each feature that was made."""
    fed = Simulated(list(held), secret=pinned(seed))
    devices = {d: fed.at(d, DeviceColumns.from_plain(own)) for d, own in held.items()}
    agreed = PublicColumns({d: tuple(own["columns"]) for d, own in held.items()}, classes, holder)
    judges = fed.at(fed.server, judges_from_plain(open_minded(bins)))
    located = fed.at(holder, LabelColumn.from_plain(labels))
    made = FLFE(**{"bins": bins, "threshold": 0.5, **(options or {}), **more}).run(
        fed, agreed, devices, located, judges
    )
    return fed, [(m.task, m.column.party, fed.own(m.column)) for m in made]
