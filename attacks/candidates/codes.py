"""Which code each candidate value of a feature has, for encoders whose code follows from the text.

"Privacy-preserving tabular data transformation", sections 7.2 and 7.3, has these encoders share nothing. Their options
are public all the same, so whoever can list values can compute codes: `bytes-norm` and `mod-norm` by their formula and
the announced mean and deviation, `fasttext` by the public model, which the adversary brings along as the codes of its
candidates. A shared `target` encoding publishes its codes; out of fold, those of training rows differ a little.
(`rolling-hash`, whose features share their columns, is in `hashed`.) Candidates are those of
`vocabulary.candidates`: public values, granted dictionaries and marginals, and the observers' own rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.tabular import encoded_numbers
from leakledger.attacks.observed.values import byte_cast, byte_number, candidate_values
from leakledger.preprocess.views import Block, CategoricalBlock, NumericBlock, View

Array = NDArray[np.float64]
CASTS = ("bytes-norm", "mod-norm")


@dataclass(frozen=True, eq=False)
class Codes:
    """One feature in the encoded columns from `start` on: `values` and what each looks like there, `codes` (k, w).

    `complete`: public or granted, so that rows are taken to have no other value; not what observers hold themselves.
    `exact`: rows have these codes, not ones near them.
    """

    feature: str
    start: int
    values: tuple[str, ...]
    codes: Array = field(repr=False)
    complete: bool = True
    exact: bool = True

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.codes.shape[1])


def named_codes(view: View, knowledge: AuxiliaryKnowledge) -> dict[str, Codes]:
    """Feature -> its candidates with their codes; only features whose codes follow from public facts and candidates.

    Raises ValueError for granted codes that are not one finite row per value of the dictionary.
    """
    layout, encoder = view.public.layout, view.public.encoder.name
    if layout is None or encoder not in (*CASTS, "fasttext", "target"):
        return {}
    columns: dict[str, list[Block]] = {}
    for block in layout.blocks:
        columns.setdefault(source(block.feature, knowledge.codes), []).append(block)
    candidates = candidate_values(view, knowledge)
    named = [_named(view, f, blocks, candidates.get(f, ()), knowledge) for f, blocks in columns.items()]
    return {c.feature: c for c in named if c is not None}


def granted(feature: str, knowledge: AuxiliaryKnowledge) -> bool:
    """Whether the adversary was told which values exist, and did not see some of them at its own party only."""
    return feature in knowledge.dictionaries or feature in knowledge.marginals


def source(name: str, features: Mapping[str, object]) -> str:
    """The feature that a numeric block "feature[k]" is one column of, where it is one of `features`."""
    feature, bracket, _ = name.rpartition("[")
    return feature if bracket and feature in features else name


def _named(
    view: View, feature: str, blocks: list[Block], candidates: tuple[str, ...], knowledge: AuxiliaryKnowledge
) -> Codes | None:
    first = blocks[0]
    if isinstance(first, CategoricalBlock) and first.values is not None:
        exact = view.public.encoder.name != "target" or view.public.encoder.options.get("folds") == 1
        return Codes(feature, first.start, first.values, first.codebook(), exact=exact)
    if feature in knowledge.codes:
        return _granted(feature, blocks, knowledge)
    if not candidates or view.public.encoder.name not in CASTS:
        return None
    complete, options = granted(feature, knowledge), view.public.encoder.options
    if isinstance(first, CategoricalBlock):
        codes = first.codebook()[[byte_number(v, options) % first.size for v in candidates]]
    elif first.shift is None or first.scale is None:
        return None
    else:
        codes = np.array([[byte_cast(v, options, first.shift, first.scale)] for v in candidates])
    return Codes(feature, first.start, candidates, codes, complete)


def _granted(feature: str, blocks: list[Block], knowledge: AuxiliaryKnowledge) -> Codes | None:
    """The codes that the adversary brings along, scaled as the columns are; None where that scaling is not public."""
    numeric = [b for b in blocks if isinstance(b, NumericBlock)]
    values, codes = knowledge.dictionaries.get(feature, ()), np.asarray(knowledge.codes[feature], np.float64)
    if codes.shape != (len(values), len(numeric)) or not len(values) or not np.isfinite(codes).all():
        raise ValueError(
            f"{feature}: granted codes of shape {codes.shape} for {len(values)} values in {len(numeric)} columns; "
            "grant one row of finite numbers per value of its dictionary"
        )
    if not all(b.scaled for b in numeric):
        return None
    return Codes(feature, numeric[0].start, values, encoded_numbers(numeric, codes))
