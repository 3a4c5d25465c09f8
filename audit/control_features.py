"""Made-up parties that engineer features: each holds one column of the same records, the first the labels too.

Columns are drawn independently of each other and from draw to draw, around means that differ. Every transformation is
judged useful, so that everything that can be exchanged is. The twin of draw 0 has as many records and other values.
"""

from functools import cache
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.control_parties import NAMES, TWIN, ControlFederation, Options
from leakledger.preprocess.features.devices import DeviceColumns, LabelColumn
from leakledger.preprocess.features.flfe import FLFE, PublicColumns
from leakledger.preprocess.features.judges import open_judges
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts

HELD = dict(zip(NAMES, ("height", "weight", "visits", "days"), strict=True))
LABEL = "label"
RECORDS, FEWEST = 400, 200  # of draw 0 and its twin; of any other at least
SPREAD, BINS = 3.0, 128


def made_up_columns(draw: int) -> dict[tuple[str, str], NDArray[np.float64]]:
    """(party, feature) -> its column; with the labels of the first party."""
    coins = np.random.default_rng([abs(draw), 7, *([TWIN % 2**32] if draw == TWIN else [])])
    records = RECORDS if draw in (0, TWIN) else int(coins.integers(FEWEST, RECORDS))
    columns = {(p, f): coins.normal(coins.normal(0, 3), SPREAD, records) for p, f in HELD.items()}
    return {**columns, (NAMES[0], LABEL): coins.permutation(np.resize([0.0, 1, 1], records))}


@cache
def engineered(options: Options, draw: int, coins: int = 0) -> ControlFederation:
    """Runs FLFE under these options on one draw, with the coins of that number."""
    columns = made_up_columns(draw)
    labels = columns.pop((NAMES[0], LABEL)).astype(np.int64)
    ids = tuple(f"record {i}" for i in range(len(labels)))
    held = {p: DeviceColumns(ids, {f: columns[p, f]}) for p, f in HELD.items()}
    flfe = FLFE(**{"bins": BINS, "threshold": 0.0, **dict(options)})
    fed = Simulated(
        NAMES, secret=pinned("controls", "features", repr(options), draw, *([coins] if coins else [])), clock=monotonic
    )
    holder = NAMES[-1] if flfe.labels == "binned" else NAMES[0]
    agreed = PublicColumns({p: (f,) for p, f in HELD.items()}, 2, holder)
    located = {p: fed.at(p, d) for p, d in held.items()}
    judges = fed.at(fed.server, open_judges(flfe.tried, flfe.bins))
    flfe.run(fed, agreed, located, fed.at(holder, LabelColumn(ids, labels)), judges)
    public = PublicFacts(
        fed.clients,
        fed.server,
        schema={"categorical": [], "numeric": [*HELD.values()], "target": LABEL, "classes": ["no", "yes"]},
        features=flfe.method(agreed),
    )
    inputs = {p: d.to_plain() for p, d in held.items()}
    inputs[holder] = {**inputs[holder], "labels": labels}
    return ControlFederation(fed, public, {}, inputs)
