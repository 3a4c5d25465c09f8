"""Known rows in the terms in which a client sees its own: as each of the known clients would encode itself.

The `local` encoder numbers the values that a client holds, and the `local` scaler scales by figures of the client.
Whoever knows rows of the population can play such clients: encoded one by one, their rows are distributed as those of
any client are, up to what makes clients differ.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import KnownRows
from leakledger.attacks.observed.values import numbering
from leakledger.preprocess.views import CategoricalBlock, NumericBlock, View

Array = NDArray[np.float64]


def in_terms_of_clients(view: View, known: KnownRows) -> dict[str, Any]:
    """Feature -> column (n,) of the known rows: texts and numbers as they are; numbers of candidates where the clients
    number their values themselves (-1: none), and encoded numbers where each scales by its own figures. A column whose
    terms cannot be made up is left out; all, where they are not aligned.
    """
    columns = {f: _column(view, f, column, _of_each(known, len(column))) for f, column in known.columns.items()}
    found = {f: c for f, c in columns.items() if c is not None}
    return found if len({len(c) for c in found.values()}) == 1 else {}


def _of_each(known: KnownRows, rows: int) -> list[NDArray[np.int64]]:
    """The rows of each client; all rows are of one where nothing else is known."""
    clients = np.zeros(rows, np.int64) if known.clients is None else known.clients
    return [np.flatnonzero(clients == c) for c in np.unique(clients)]


def _column(
    view: View, feature: str, column: NDArray[Any], of_each: Sequence[NDArray[np.int64]]
) -> NDArray[Any] | None:
    public = view.public
    block = None if public.layout is None else next((b for b in public.layout.blocks if b.feature == feature), None)
    if isinstance(block, NumericBlock) and not block.scaled:
        by = str(public.scaler.options.get("by", "zscore"))
        if public.scaler.name != "local" or by not in SCALINGS or column.dtype.kind != "f":
            return None
        return _by_client(column, of_each, lambda numbers: _scaled(numbers, SCALINGS[by]))
    if isinstance(block, CategoricalBlock) and block.values is None and block.codes is None:
        if public.encoder.name != "local":
            return column  # texts that no candidate has
        return _by_client(column, of_each, lambda texts: numbered(texts, _numbering(view, feature, texts)))
    return column


def _by_client(
    column: NDArray[Any], of_each: Sequence[NDArray[np.int64]], restated: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    parts = [restated(column[rows]) for rows in of_each]
    made = np.empty(len(column), parts[0].dtype)
    for rows, part in zip(of_each, parts, strict=True):
        made[rows] = part
    return made


def _numbering(view: View, feature: str, texts: NDArray[np.str_]) -> list[str]:
    """The client's own dictionary."""
    return numbering(view, feature, {*texts.tolist()} - {""})


def numbered(texts: Iterable[Any], values: Sequence[str]) -> NDArray[np.int64]:
    """(n,) the place of each text among the values; -1 for one that is none of them."""
    places = {v: k for k, v in enumerate(values)}
    return np.array([places.get(str(text), -1) for text in texts], np.int64)


def _scaled(column: Array, of: Callable[[Array], tuple[float, float]]) -> Array:
    """The column in units of its own; as it is where it has no number."""
    if not np.isfinite(column).any():
        return column
    centre, scale = of(column)
    return np.asarray((column - centre) / (scale if scale > 0 else 1.0))


def _deviation(column: Array) -> tuple[float, float]:
    return float(np.nanmean(column)), float(np.nanstd(column))


def _range(column: Array) -> tuple[float, float]:
    low, high = float(np.nanmin(column)), float(np.nanmax(column))
    return low, high - low


def _quartiles(column: Array) -> tuple[float, float]:
    first, median, third = np.nanquantile(column, (0.25, 0.5, 0.75))
    return float(median), float(third - first)


# What a client subtracts from its column, and what it divides that by.
SCALINGS: Final[Mapping[str, Callable[[Array], tuple[float, float]]]] = MappingProxyType(
    {"zscore": _deviation, "minmax": _range, "robust": _quartiles}
)
