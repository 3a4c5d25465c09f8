"""What an adversary knows about records that were written as text: the public encoder, and plausible names and values.

A record is one value for each feature of the party, under the party's name of it. The known schema of a party has one
name for each feature; under an unknown one several are plausible, and "" stands for a feature that it may lack.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cells = Sequence[tuple[str, str]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TextRecords:
    """`encode`: embeddings (n, width) of records, by the public encoder that the adversary runs by itself. `values`:
    plausible values of each feature, in the order of the text; `names`: plausible names.
    """

    encode: Callable[[Sequence[Cells]], NDArray[np.float64]] = field(repr=False)
    values: Mapping[str, tuple[str, ...]] = field(repr=False)
    names: Mapping[str, tuple[str, ...]] = field(repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> "TextRecords":
        return replace(self, values=dict(self.values), names=dict(self.names))  # with the same encoder, a whole model

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def schema_known(self) -> bool:
        return all(len(names) == 1 for names in self.names.values())

    def cells(self, picks: Ints) -> list[Cells]:
        """Records with the values number `picks` (n, features), under the first name of each feature."""
        named = [(self.names[f][0], self.values[f]) for f in self.features]
        return [[(name, own[v]) for (name, own), v in zip(named, row, strict=True) if name] for row in picks.tolist()]

    def embed(self, picks: Ints) -> NDArray[np.float64]:
        """(n, width + 1) [embedding | 1] of these records."""
        rows = np.asarray(self.encode(self.cells(picks)), np.float64)
        return np.column_stack([rows, np.ones(len(rows))])

    def under(self, names: Mapping[str, str]) -> "TextRecords":
        """The same with one name for each feature; features named "" are left out."""
        kept = {f: (n,) for f, n in names.items() if n}
        return replace(self, values={f: self.values[f] for f in kept}, names=kept)

    def under_any_names(self) -> tuple["TextRecords", Mapping[str, tuple[tuple[str, str], ...]]]:
        """The same where what is picked of a feature is a value together with a name of it; and by feature these pairs,
        of which ("", "") leaves the feature out.
        """
        pairs = {
            f: tuple((name, v) for name in self.names[f] for v in (own if name else ("",)))
            for f, own in self.values.items()
        }

        def encode(records: Sequence[Cells]) -> NDArray[np.float64]:
            picked = ([pairs[f][int(number)] for f, number in cells] for cells in records)
            return self.encode([[pair for pair in cells if pair[0]] for cells in picked])

        numbers = {f: tuple(map(str, range(len(own)))) for f, own in pairs.items()}
        return TextRecords(encode, numbers, {f: (f,) for f in pairs}), pairs

    def drawn(self, count: int, coins: np.random.Generator) -> Ints:
        """(count, features) values drawn evenly."""
        return np.column_stack([coins.integers(len(self.values[f]), size=count) for f in self.features])
