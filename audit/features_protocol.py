"""Feature engineering as a protocol over plain inputs: all parties in one process, or a process for each.

A device is given its columns, whoever holds the labels these, and judges are public, since they learnt from public
tables. The server ends with the list of what was made.
"""

from collections.abc import Mapping
from typing import Any

from leakledger.preprocess.features.devices import DeviceColumns, LabelColumn
from leakledger.preprocess.features.flfe import FLFE, PublicColumns
from leakledger.preprocess.features.judges import Judges, judges_from_plain
from leakledger.preprocess.federation import At, Federation

Made = tuple[str, tuple[str, ...]]
"""A transformation, and the features that it takes."""


def features_protocol(fed: Federation, inputs: Mapping[str, At[Any]], params: Mapping[str, Any]) -> dict[str, At[Any]]:
    """Runs it; what the server has afterwards, plain."""
    options: dict[str, Any] = {k: tuple(v) if isinstance(v, list | tuple) else v for k, v in params["flfe"].items()}
    agreed = PublicColumns(params["columns"], params["classes"], params["holder"])
    devices = {d: fed.local(d, _device, inputs[d]) for d in agreed.features}
    labels = fed.local(agreed.holder, _labels, inputs[agreed.holder])
    judges = fed.local(fed.server, _judges, params["judges"])
    made = FLFE(**options).run(fed, agreed, devices, labels, judges)
    tasks = [[g.task.transformation, list(g.task.features)] for g in made]
    return {fed.server: fed.local(fed.server, _made, tasks)}


def made_from_plain(plain: Mapping[str, Any]) -> tuple[Made, ...]:
    """What the server ended with."""
    return tuple((how, tuple(of)) for how, of in plain["made"])


def _device(given: Mapping[str, Any]) -> DeviceColumns:
    return DeviceColumns(tuple(given["ids"]), given["columns"])


def _labels(given: Mapping[str, Any]) -> LabelColumn:
    return LabelColumn(tuple(given["ids"]), given["labels"])


def _judges(plain: Mapping[str, Any]) -> Judges:
    return judges_from_plain(plain)


def _made(tasks: Any) -> dict[str, Any]:
    return {"made": tasks}
