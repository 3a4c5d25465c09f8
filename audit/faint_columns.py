"""Columns that a scaler will take for constant, or scale by chance, though rows differ, found before anything runs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from leakledger.audit.case import Case
from leakledger.audit.case_protocol import build_scaler
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.scalers.base import Scaler


def faint_columns(todo: Sequence[Case], read: Mapping[str, Mapping[str, Table]]) -> list[str]:
    """A line for each column that is lost to the network in some case; `read` has the parties' rows by partition. Of
    the rows it tells that their deviation, or the distance of their extremes, is below a share of the declared range,
    or their deviation, or the distance of their quartiles, below what a search tells apart.
    """
    settings = {case.setting.id: case for case in todo}.values()  # seeds change neither rows nor scaler
    return list(dict.fromkeys(line for case in settings for line in _of_case(case, read)))


def _of_case(case: Case, read: Mapping[str, Mapping[str, Table]]) -> Iterator[str]:
    if case.alignment is not None or case.features is not None:
        return
    scaler = build_scaler(case.preprocessing)
    parties = read[case.setting.partition]
    least, narrowest = scaler.faintest(len(parties)), scaler.narrowest(len(parties))
    if not (least or narrowest or scaler.searched_to):
        return
    schema = next(iter(parties.values())).schema
    rows = pd.concat([t.frame[list(schema.numeric)] for t in parties.values()])
    for feature in schema.numeric:
        numbers = rows[feature].to_numpy(np.float64)
        width = float(np.nanmax(numbers) - np.nanmin(numbers))
        deviation = float(np.nanstd(numbers)) if width else 0.0  # of equal decimals it is rounding, not 0
        low, high = schema.ranges.get(feature, (0.0, 0.0))
        if 0 < deviation < least * (high - low):
            yield (
                f"column {feature!r} will count as constant under {scaler.name}: its deviation is below "
                f"{least:.2g} of its declared range, which drowns in the noise of a decryption; declare a narrower "
                "range, or lower hiding_bits"
            )
        if 0 < width <= narrowest * (high - low):
            yield (
                f"column {feature!r} will count as constant under {scaler.name}: its extremes are within "
                f"{narrowest:.2g} of its declared range, which comparisons of ciphertexts cannot tell apart; declare a "
                "narrower range, or set extremes to 'counts'"
            )
        if 0 < deviation < scaler.searched_to:
            yield _coarse(feature, scaler, "its deviation is")
        elif scaler.by_quartiles and 0 < np.subtract(*np.nanquantile(numbers, (0.75, 0.25))) < scaler.searched_to:
            yield _coarse(feature, scaler, "the distance of its quartiles is")


def _coarse(feature: str, scaler: Scaler, what: str) -> str:
    return (
        f"column {feature!r} will be scaled by chance under {scaler.name}: {what} below search_precision, "
        f"{scaler.searched_to:g}, to which the search goes; set a smaller one, or take another unit"
    )
