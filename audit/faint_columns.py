"""Columns that a scaler will take for constant though their rows differ, found before anything runs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from leakledger.audit.case import Case
from leakledger.audit.case_protocol import build_scaler
from leakledger.preprocess.data.table import Table


def faint_columns(todo: Sequence[Case], read: Mapping[str, Mapping[str, Table]]) -> list[str]:
    """A line for each column that is lost to the network in some case; `read` has the parties' rows by partition. Of
    the rows it tells that their deviation is below a share of the declared range.
    """
    settings = {case.setting.id: case for case in todo}.values()  # seeds change neither rows nor scaler
    return list(dict.fromkeys(line for case in settings for line in _of_case(case, read)))


def _of_case(case: Case, read: Mapping[str, Mapping[str, Table]]) -> Iterator[str]:
    if case.alignment is not None or case.features is not None:
        return
    scaler = build_scaler(case.preprocessing)
    parties = read[case.setting.partition]
    if not (least := scaler.faintest(len(parties))):
        return
    schema = next(iter(parties.values())).schema
    rows = pd.concat([t.frame[list(schema.numeric)] for t in parties.values()])
    for feature in (f for f in schema.numeric if f in schema.ranges):
        low, high = schema.ranges[feature]
        deviation = float(np.nanstd(rows[feature].to_numpy(np.float64)))
        if 0 < deviation < least * (high - low):
            yield (
                f"column {feature!r} will count as constant under {scaler.name}: its deviation is below "
                f"{least:.2g} of its declared range, which drowns in the noise of a decryption; declare a narrower "
                "range, or lower hiding_bits"
            )
