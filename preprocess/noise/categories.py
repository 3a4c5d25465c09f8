"""What a party releases of categorical features: a table of noised counts over declared values.

One record that is there or not changes one count of each feature's table by 1, so a table costs what one number does,
however many values it has: its F tables share the budget (`calibration`). Every declared value has a noised count, held
or not, and values that are not declared are not counted: which values a party holds is never sent. Unit: one record of
one party; relation: add-remove.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.noise.calibration import Noise, noise_for
from leakledger.preprocess.noise.integers import Below, Whole
from leakledger.preprocess.views import Mechanism

ABSENT = 2.326  # deviations of the noise that a value which nobody holds exceeds with 1 %


def declared_domains(schema: Schema, who: str) -> dict[str, tuple[str, ...]]:
    """Feature -> its possible values, declared as its domain or its order. Raises ValueError, one line, for none."""
    found = {f: tuple(schema.domains.get(f) or schema.orders.get(f, ())) for f in schema.categorical}
    for f, values in found.items():
        if not values:
            raise ValueError(
                f"{who}: noise needs the possible values of {f!r}, and they are never taken from rows; declare them: "
                f'domains = {{ {f} = ["...", "..."] }} under [data], or in the schema'
            )
    return found


def table_noise(domains: Mapping[str, Sequence[str]], epsilon: float, delta: float) -> Noise:
    """The noise on each count of the tables of all features, for a budget over all of them."""
    return noise_for(epsilon, delta, max(len(domains), 1))


def noised_table(cells: Whole, size: int, noise: Noise, below: Below) -> Whole:
    """(size,) noised counts, in steps of 1/`noise.sensitivity`, of rows that are each in one of the cells, or in none:
    `cells` (n,) has its number, or -1.
    """
    counts = np.bincount(cells[cells >= 0], minlength=size).astype(np.int64)
    told: Whole = counts * noise.sensitivity + noise.draw(size, below)
    return told


def rows_of_absent(noise: Noise, parties: int) -> float:
    """The rows that noise alone makes of a value which nobody of so many parties holds, with a chance of about 1 %."""
    return ABSENT * noise.deviation * sqrt(parties) / noise.sensitivity


def kept(values: Sequence[str], totals: Whole, noise: Noise, least: float) -> list[str]:
    """The values whose noised count is `least` rows or more, and the most frequent one in any case."""
    rows = np.asarray(totals) / noise.sensitivity
    return [v for k, v in enumerate(values) if rows[k] >= least or k == int(np.argmax(rows))]


def describe_tables(domains: Mapping[str, Sequence[str]], noise: Noise, topic: str) -> tuple[Mechanism, ...]:
    """What everyone knows of the tables: one mechanism for each."""
    known = {"topic": topic, "statistic": "table", "sensitivity": noise.sensitivity, "scale": noise.scale}
    return tuple(Mechanism(noise.kind, {**known, "feature": f, "values": list(v)}) for f, v in domains.items())
