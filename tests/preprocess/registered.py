"""The registered encoders as parameters of tests; those that need a library that is not installed are skipped."""

from importlib.util import find_spec
from typing import Any

import pytest

from leakledger.preprocess.aggregation import AGGREGATIONS, Aggregation
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import ENCRYPTED, SCALERS

NEEDS = {"apsi": "tenseal"}
IN_THE_CLEAR = [
    name for name in SCALERS if name not in ENCRYPTED
]  # the others take seconds, and have tests of their own


def encoders(kind: type = object) -> list[object]:
    """A parameter for every registered encoder that is a `kind`."""
    return [_parameter(name) for name, encoder in ENCODERS.items() if issubclass(encoder, kind)]


def _parameter(name: str) -> object:
    library = NEEDS.get(name)
    absent = library is not None and find_spec(library) is None
    reason = f"{name} needs {library}; install leakledger[psi]"
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason=reason))


def aggregations() -> list[Any]:
    """A parameter for every registered aggregation."""
    absent = find_spec("tenseal") is None
    skipped = pytest.mark.skipif(absent, reason="he-aggregation needs tenseal; install leakledger[he]")
    return [pytest.param(n, marks=skipped if n == "he-aggregation" else ()) for n in AGGREGATIONS]


def made(name: str) -> Aggregation:
    """The aggregation of that name with its defaults."""
    return AGGREGATIONS[name]()
