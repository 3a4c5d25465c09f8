"""The registered encoders as parameters of tests; those that need a library that is not installed are skipped."""

from importlib.util import find_spec

import pytest

from leakledger.preprocess.encoders import ENCODERS

NEEDS = {"apsi": "tenseal"}


def encoders(kind: type = object) -> list[object]:
    """A parameter for every registered encoder that is a `kind`."""
    return [_parameter(name) for name, encoder in ENCODERS.items() if issubclass(encoder, kind)]


def _parameter(name: str) -> object:
    library = NEEDS.get(name)
    absent = library is not None and find_spec(library) is None
    reason = f"{name} needs {library}; install leakledger[psi]"
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason=reason))
