"""Everything that a configuration can name, with a line about each."""

import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any

from leakledger.attacks import ATTACKS
from leakledger.audit.config import Training
from leakledger.audit.config_alignment import ALIGNMENTS
from leakledger.audit.config_features import FEATURE_METHODS
from leakledger.audit.options import Methods
from leakledger.audit.plugins import failure
from leakledger.audit.reference import options_text
from leakledger.defenses import DEFENSES
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.partition import PARTITIONS
from leakledger.preprocess.data.readers import READERS
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import SCALERS, canonical
from leakledger.preprocess.training import ALGORITHMS

Rows = list[dict[str, Any]]

TABLES: dict[str, Mapping[str, Any]] = {
    "data": EMBEDDED,
    "partition": PARTITIONS,
    "encoder": ENCODERS,
    "scaler": SCALERS,
    "algorithm": ALGORITHMS,
    "aggregation": AGGREGATIONS,
    "features": FEATURE_METHODS,
    "alignment": ALIGNMENTS,
    "defense": DEFENSES,
    "attack": ATTACKS,
    "reader": READERS,
}
OPTIONS: dict[str, Methods] = {  # whose options a configuration sets
    "encoder": ENCODERS,
    "scaler": SCALERS,
    "algorithm": Training.tables["algorithm"],
    "aggregation": AGGREGATIONS,
    "features": FEATURE_METHODS,
    "alignment": ALIGNMENTS,
    "defense": DEFENSES,
    "attack": ATTACKS,
}
FILE_EACH = (
    "encoder",
    "scaler",
    "algorithm",
    "aggregation",
    "features",
    "alignment",
    "defense",
    "attack",
)  # each of these has a file, which describes it

SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z`])")  # not the stop of "eq. 1" or of "i.e. so"


def known(kind: str) -> Rows:
    """A row about everything of one kind."""
    return [{"kind": kind, "name": n, "about": first_sentence(kind, thing)} for n, thing in TABLES[kind].items()]


def describe(name: str) -> str:
    """All that is known about `name`, of every kind that has it. Raises ValueError, with a suggestion, for none."""
    name = canonical(name)[0]
    found = [_described(kind, name) for kind, table in TABLES.items() if name in table]
    if not found:
        names = sorted({n for table in TABLES.values() for n in table})
        near = failure(name) or closest(name, names)
        raise ValueError(f"{name}: nothing is called that{near}; `leakledger list` shows the names")
    return "\n\n".join(found)


def _described(kind: str, name: str) -> str:
    options = options_text(OPTIONS[kind], name) if kind in OPTIONS else ""
    return "\n\n".join(filter(None, [f"{kind} {name}", documentation(kind, TABLES[kind][name]), options]))


def first_sentence(kind: str, thing: Any) -> str:
    """What it is, in one sentence."""
    paragraph = " ".join(documentation(kind, thing).split("\n\n")[0].split())
    return SENTENCE_END.split(paragraph, maxsplit=1)[0]


def documentation(kind: str, thing: Any) -> str:
    """The text of its file, or its own where several share a file; and the reference."""
    own = sys.modules[thing.__module__].__doc__ if kind in FILE_EACH else thing.__doc__
    said = {"Reference": getattr(thing, "reference", ""), "Said to share": getattr(thing, "said_to_share", "")}
    return inspect.cleandoc(own or "") + "".join(f"\n\n{what}: {text}" for what, text in said.items() if text)
