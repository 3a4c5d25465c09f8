"""Whether an encoding says of each cell which candidate it is, as its public blocks and the table have it.

That is the truth which claims about rows are scored against. An encoding that is off by one would make every right
claim wrong, and what leaks would pass for noise: so it is checked wherever it is used, for every row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import positions
from leakledger.preprocess.method_errors import MethodError
from leakledger.preprocess.views import Block, CategoricalBlock


def check_candidates(table: Table, blocks: Sequence[Block], candidates: Sequence[Any], codes: NDArray[Any]) -> None:
    """Raises MethodError unless `candidates`, (rows,) for each categorical block, are those that the table holds, where
    the block names its values, and those that `codes` (rows, columns) show, where the block has its columns to itself.
    Codes of named values may differ from the public ones, as those of `target` do, which leave a row's own target out.
    """
    used = np.bincount([c for b in blocks for c in range(b.start, b.start + b.width)], minlength=codes.shape[1])
    for block, own in zip((b for b in blocks if isinstance(b, CategoricalBlock)), candidates, strict=True):
        columns = slice(block.start, block.start + block.width)
        if not _are_numbers(own, len(table), block.size):
            raise MethodError(f"its candidates of {block.feature} are not a number from -1 to {block.size - 1} per row")
        if block.values is not None and (own != positions(table, block.feature, block.values)).any():
            raise MethodError(f"its candidates of {block.feature} are not the values of the rows")
        if (used[columns] == 1).all() and not _are_shown(block, own, codes[:, columns]):
            raise MethodError(f"its columns of {block.feature} are not the codes of the candidates that it names")


def _are_numbers(candidates: Any, rows: int, size: int) -> bool:
    numbers = isinstance(candidates, np.ndarray) and candidates.shape == (rows,) and candidates.dtype.kind in "iu"
    return bool(numbers and ((candidates >= -1) & (candidates < size)).all())


def _are_shown(block: CategoricalBlock, candidates: NDArray[np.int64], codes: NDArray[Any]) -> bool:
    """Whether each row has the code of its candidate; one-hot columns are none but zeros where it has none."""
    named = np.flatnonzero(candidates >= 0)
    if block.codes is not None:
        public = block.plain_codes()[candidates[named]]
        return block.values is not None or np.allclose(codes[named], public, rtol=1e-6, atol=1e-9)
    hot = (codes[named, candidates[named]] == 1).all()  # not against an identity, which is what does not fit
    return bool(hot and (np.count_nonzero(codes, axis=1) == (candidates >= 0)).all())
