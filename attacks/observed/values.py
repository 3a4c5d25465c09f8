"""Which values a party might hold, how common they are, and which code each of them has under a public method.

Candidates are the named values of the layout, those declared for noised tables, the granted dictionary and the
observers' own values. How common a value
is follows from granted marginals, else from the observers' own rows.

A method that computes a code from the text alone (`rolling-hash`, the byte casts) is public with its options
("Privacy-preserving tabular data transformation", sections 7.2 and 7.3); its formula is all that an adversary needs.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.own_rows import own_counts, together
from leakledger.preprocess.views import CategoricalBlock, View

Floats = NDArray[np.float64]
MEAN_ROUNDING = Fraction(1, 2**52)  # of a published mean of byte casts
ROWS = 100.0  # of a party, for an adversary without rows of its own


def categorical_features(view: View) -> tuple[str, ...]:
    """The categorical features that the public schema names, else those of the layout."""
    named = view.public.schema.get("categorical")
    blocks = view.public.layout.categorical if view.public.layout else ()
    return tuple(named) if named else tuple(b.feature for b in blocks)


def candidate_values(view: View, knowledge: AuxiliaryKnowledge) -> dict[str, tuple[str, ...]]:
    """Feature -> the sorted values that come into question; only features that have any."""
    found: dict[str, set[str]] = {f: set() for f in categorical_features(view)}
    for block in view.public.layout.categorical if view.public.layout else ():
        found.setdefault(block.feature, set()).update(block.values or ())
    for mechanism in view.public.statistics:
        if "values" in mechanism.parameters:
            found.setdefault(mechanism.parameters["feature"], set()).update(mechanism.parameters["values"])
    for counts in own_counts(view).values():
        for feature, held in counts.items():
            if feature in found:
                found[feature].update(held)
    for feature, listed in knowledge.dictionaries.items():
        if feature in found:
            found[feature].update(listed)
    for feature, (likely, _) in knowledge.marginals.items():
        if feature in found:
            found[feature].update(map(str, likely))
    return {f: tuple(sorted(v)) for f, v in found.items() if v}


def declared_values(view: View) -> dict[str, tuple[str, ...]]:
    """Feature -> all values that the public schema has for it, where it does: tables with others are refused. Not where
    observers hold others themselves.
    """
    schema, own = view.public.schema, together(own_counts(view))
    declared = {**schema.get("orders", {}), **schema.get("domains", {})}
    features = [f for f in categorical_features(view) if declared.get(f)]
    return {f: tuple(sorted(set(declared[f]))) for f in features if own.get(f, Counter()).keys() <= {*declared[f]}}


def possible_values(view: View, knowledge: AuxiliaryKnowledge) -> dict[str, tuple[str, ...]]:
    """The candidates, and the declared values beside them."""
    named, declared = candidate_values(view, knowledge), declared_values(view)
    return {f: tuple(sorted({*named.get(f, ()), *declared.get(f, ())})) for f in {**named, **declared}}


def numbering(view: View, feature: str, values: Iterable[str]) -> list[str]:
    """The values in the order in which a party numbers them: as publicly declared, the others sorted behind."""
    declared, held = view.public.schema.get("orders", {}).get(feature, ()), set(values)
    return [v for v in declared if v in held] + sorted(held.difference(declared))


def shares(view: View, knowledge: AuxiliaryKnowledge) -> dict[str, dict[str, float]]:
    """Feature -> value -> its share of the population's rows: as granted, else as in the observers' own rows, with half
    a row more for each candidate.
    """
    candidates = candidate_values(view, knowledge)
    found: dict[str, dict[str, float]] = {}
    for feature, held in together(own_counts(view)).items():
        values = candidates.get(feature, tuple(held))
        total = held.total() + len(values) / 2
        found[feature] = {v: (held[v] + 0.5) / total for v in values}
    for feature, (named, chances) in knowledge.marginals.items():
        found[feature] = {str(v): float(p) for v, p in zip(named, chances, strict=True)}
    return found


def held_chances(
    view: View, knowledge: AuxiliaryKnowledge, candidates: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, float]]:
    """Feature -> value -> the chance that a party with as many rows as the observers' holds it, from the values' shares
    of rows: 1 - (1 - share)^rows, kept off 0 and 1. Of a value that a list has not, which is granted or made of
    observers' rows, the share is less than a row.
    """
    common, named = shares(view, knowledge), candidate_values(view, knowledge)
    rows = [float(max((h.total() for h in counts.values()), default=0)) for counts in own_counts(view).values()]
    size = float(np.mean(rows)) if rows else ROWS
    found = {}
    for feature, values in candidates.items():
        listed = named.get(feature, values)
        known = common.get(feature, dict.fromkeys(listed, 0.5 / len(listed)))
        chances = [known.get(v, 0.25 / max(size, 1)) for v in values]
        held = 1 - (1 - np.clip(chances, 0, 1)) ** size
        found[feature] = dict(zip(values, np.clip(held, 0.001, 0.999).tolist(), strict=True))
    return found


def public_codes(
    view: View, block: CategoricalBlock, candidates: tuple[str, ...]
) -> tuple[tuple[str, ...], Floats] | None:
    """(values, codes (k, width)) of a block in the encoded columns before scaling; None where numbers have no names."""
    if block.values is not None:
        return block.values, block.plain_codes()
    if view.public.encoder.name == "rolling-hash" and candidates:
        codes = np.zeros((len(candidates), block.width))
        codes[
            np.arange(len(candidates)), [rolling_hash(v, block.width, view.public.encoder.options) for v in candidates]
        ] = 1
        return candidates, codes
    return None


def rolling_hash(value: str, buckets: int, options: Mapping[str, Any]) -> int:
    """H = sum over i from 1 of s_i P^i modulo `buckets` of a lower-cased value, with the public options."""
    text, others = in_form(value, options).lower(), options.get("others", "zero")
    places = [ord(c) - 96 if "a" <= c <= "z" else ord(c) * (others == "code-point") for c in text]
    if others == "drop":
        places = [p for p in places if p]
    prime, power, total = int(options.get("prime", 31)), 1, 0
    for place in places:
        power = power * prime % buckets
        total = (total + place * power) % buckets
    return total


def byte_number(value: str, options: Mapping[str, Any]) -> int:
    """int(bytes(value)), the first byte the most significant."""
    return int.from_bytes(in_form(value, options).encode("utf-8", "surrogatepass"), "big")


def byte_cast(value: str, options: Mapping[str, Any], mean: float, deviation: float) -> float:
    """The code of a value under `bytes-norm`: its number, standardised without rounding before the end; 0 of one that
    differs from the mean by no more than that is rounded.
    """
    away = Fraction(byte_number(value, options)) - Fraction(mean)
    return float(away / Fraction(deviation)) if abs(away) > MEAN_ROUNDING * abs(Fraction(mean)) else 0.0


def in_form(value: str, options: Mapping[str, Any]) -> str:
    """The value in the Unicode normal form that the public options name."""
    form = options.get("normal_form", "as-is")
    return value if form == "as-is" else unicodedata.normalize(form, value)
