"""Updates whose features have columns of their own, restated by the codes of their candidates.

Where rows can have no other code than the candidates', each feature becomes a block of these codes in few columns
(`dense`). Else it keeps the columns that it has, and a recovered code is read afterwards: where candidates are only
what observers hold themselves, codes that are none of theirs stay without a name; where a row's code differs a little
from the public one of its value (`target`, out of fold), the nearest codes share the adversary's confidence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial.distance import cdist

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.candidates.codes import Array, Codes, source
from leakledger.attacks.candidates.columns import RestatedColumns, RestatedUpdate
from leakledger.attacks.candidates.dense import Reduced, distinct_codes, reduced, values_near
from leakledger.attacks.candidates.meaning import Assignments, Meaning
from leakledger.attacks.observed.tabular import encoded_numbers
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.attacks.observed.values import shares
from leakledger.preprocess.views import Block, CategoricalBlock, FeatureLayout, NumericBlock, View

Reader = Callable[[RecordsClaim], Iterable[Assignments]]
"""From a claim about codes to the values that one feature may have in each of its rows."""
# Of out-of-fold codes about the public ones, in encoded units: keeps confidences finite where all codes are met
# exactly.
LEAST_SPREAD = 1e-6
# A value with a smaller share of the confidence is none that the code may stand for. Too small: far values make every
# cell uncertain; too large: a value that is possible is left out.
UNLIKELY = 1e-6


def in_codes(
    view: View, knowledge: AuxiliaryKnowledge, update: ObservedUpdate, codes: dict[str, Codes]
) -> RestatedUpdate | NotApplicable:
    """The update with the features of `codes` restated and all others as they are; not where no column is left."""
    layout, gradient = update.layout, update.gradient["0.weight"]
    features: dict[str, list[Block]] = {}
    for block in layout.blocks:
        features.setdefault(source(block.feature, codes), []).append(block)
    restated = Restatement()
    for feature, own in features.items():
        known = codes.get(feature)
        if known is None:
            restated.keep(own)
        elif known.exact and known.complete and (small := reduced(known, gradient[:, known.columns])) is not None:
            restated.by_codes(known, small)
        else:
            restated.read_after(known, own)
    if not restated.columns.width:
        return NotApplicable("no code but 0 shows in the update: nothing in it tells rows apart")
    meaning = Meaning(
        FeatureLayout(tuple(restated.spoken)),
        lambda claim: zip(*(read(claim) for read in restated.readers), strict=True),
        restated.behind,
        restated.numbers,
        shares(view, knowledge),
    )
    return RestatedUpdate(restated.columns.of(update), meaning.of)


class Restatement:
    """The restated columns, feature by feature, and how a claim about them is told: as `Meaning` needs it."""

    def __init__(self) -> None:
        self.columns = RestatedColumns()
        self.spoken: list[Block] = []
        self.readers: list[Reader] = []
        self.behind: list[list[int]] = []
        self.numbers: list[int] = []
        self.categorical = self.numeric = 0  # blocks so far

    def keep(self, own: Sequence[Block]) -> None:
        """A feature without candidates: its columns stay what they are, in the claim too."""
        for block in own:
            if isinstance(block, CategoricalBlock):
                self._tell(_as_claimed(len(self.readers), self.categorical), [self.categorical])
            else:
                self.numbers.append(self.numeric)
            self.spoken.append(block)
            self._add(block)

    def by_codes(self, known: Codes, small: Reduced) -> None:
        """A feature whose code is one of the `known` ones: a block of those that may occur."""
        names = tuple(known.values[m[0]] for m in small.own) if all(len(m) == 1 for m in small.own) else None
        self._tell(_of_members(len(self.readers), self.categorical, small), [self.categorical])
        self.spoken.append(CategoricalBlock(known.feature, 0, len(known.values), known.values))
        self._add(CategoricalBlock(known.feature, 0, len(small.codes), names, small.codes), known.columns, small.basis)

    def read_after(self, known: Codes, own: Sequence[Block]) -> None:
        """A feature whose columns stay, as numbers where codes differ, and whose recovered codes are read as values."""
        place, first = len(self.readers), own[0]
        if isinstance(first, CategoricalBlock) and known.exact:
            public = once_each(first)
            self._tell(_of_code(place, self.categorical, public, known), [self.categorical])
            own = [public]
        else:
            own = [n for b in own for n in as_numbers(b)]
            read = _of_numbers if known.exact else _of_nearest
            self._tell(read(place, slice(self.numeric, self.numeric + len(own)), own, known), [])
        self.spoken.append(CategoricalBlock(known.feature, 0, len(known.values), known.values))
        for block in own:
            self._add(block)

    def _tell(self, read: Reader, behind: list[int]) -> None:
        self.readers.append(read)
        self.behind.append(behind)

    def _add(self, block: Block, old: slice | None = None, basis: Array | None = None) -> None:
        self.columns.add(block, old or slice(block.start, block.start + block.width), basis)
        self.categorical += isinstance(block, CategoricalBlock)
        self.numeric += isinstance(block, NumericBlock)


def once_each(block: CategoricalBlock) -> CategoricalBlock:
    """`block` with every code once: candidates with equal codes are one, and have no name."""
    if block.codes is None:  # one-hot codes are all different
        return block
    _, kept = np.unique(distinct_codes(block.codebook()), return_index=True)
    if len(kept) == block.size:
        return block
    return replace(block, size=len(kept), values=None, codes=block.plain_codes()[kept])


def as_numbers(block: Block) -> list[NumericBlock]:
    """The columns of a block of rates as numbers between 0 and 1."""
    if isinstance(block, NumericBlock):
        return [block]
    shift, scale = block.shift or (0.0,) * block.width, block.scale or (1.0,) * block.width
    return [
        NumericBlock(f"{block.feature}[{k}]", block.start + k, shift[k], scale[k], low=0.0, high=1.0)
        for k in range(block.width)
    ]


def _may_be(feature: int, values: Sequence[int], weights: Array | None = None) -> Assignments:
    return Assignments((feature,), np.array(values, np.int64)[:, None], weights)


def _as_claimed(feature: int, block: int) -> Reader:
    return lambda claim: (_may_be(feature, [c]) for c in claim.categories[:, block].tolist())


def _of_members(feature: int, block: int, small: Reduced) -> Reader:
    return lambda claim: (_may_be(feature, small.members[c]) for c in claim.categories[:, block])


def _of_code(feature: int, block: int, public: CategoricalBlock, known: Codes) -> Reader:
    codes = public.codebook()
    return lambda claim: (values_like(feature, known, code) for code in codes[claim.categories[:, block]])


def _of_numbers(feature: int, place: slice, own: Sequence[Block], known: Codes) -> Reader:
    return lambda claim: (values_like(feature, known, code) for code in encoded(claim, place, own))


def values_like(feature: int, known: Codes, code: Array) -> Assignments:
    """The values with that code, or none; no proof where a value that is no candidate may have it too."""
    values = values_near(known, code)
    return _may_be(feature, values, None if known.complete else np.ones(len(values)))


def _of_nearest(feature: int, place: slice, own: Sequence[Block], known: Codes) -> Reader:
    """The values by the distance of their codes, in units of how far the codes of the claim are from the nearest."""

    def read(claim: RecordsClaim) -> Iterator[Assignments]:
        distance = cdist(encoded(claim, place, own), known.codes)  # (n, k)
        spread = max(float(np.median(distance.min(1))), LEAST_SPREAD)
        for row in distance:
            weights = np.exp(-((row / spread) ** 2 - (row.min() / spread) ** 2) / 2)
            likely = np.flatnonzero(weights > UNLIKELY)
            yield _may_be(feature, likely.tolist(), weights[likely])

    return read


def encoded(claim: RecordsClaim, place: slice, own: Sequence[Block]) -> Array:
    """(n, w) the claimed numbers of a feature as its columns have them."""
    return encoded_numbers([b for b in own if isinstance(b, NumericBlock)], claim.numbers[:, place])
