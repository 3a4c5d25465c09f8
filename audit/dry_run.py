"""What a run would refuse, found before it: every division of the rows, and every preprocessing once, without training.

The protocols of preprocessing run in this process on the real tables, and what they send is thrown away: a value that
is too long for an encoding, a column in which a party has nothing to impute from, a ring that names another client are
found where `run` would find them. Encoders that compute on ciphertexts see a few rows of each party only; scalers that
do so check declared ranges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leakledger.audit.case import Case
from leakledger.audit.case_protocol import build_scaler, model_spec
from leakledger.audit.config import Config
from leakledger.audit.federate import SERVER, make_encoder, split_tables
from leakledger.audit.federate_alignment import check_dealt, deal
from leakledger.audit.federate_features import check_engineered, divide
from leakledger.audit.installed import check_extras
from leakledger.preprocess.agreement import agree
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.ring_psi import PsiEncoder
from leakledger.preprocess.imputation import impute
from leakledger.preprocess.method_errors import place_of
from leakledger.preprocess.models import layer_shapes
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import Scaler
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts

FEW_ROWS = 20  # of each party, where every value takes public-key operations
Pair = tuple[Table, Table]


def rehearse(config: Config, todo: Sequence[Case]) -> list[tuple[Case, PublicFacts]]:
    """What attacks will know of each case that trains on a table, as far as preprocessing decides it. Raises
    ValueError, with the case, for what would end one of the cases before its training.
    """
    check_extras(config)
    split: dict[tuple[str, int], Mapping[str, Pair]] = {}
    known: dict[tuple[str, str, int], PublicFacts] = {}
    for case in _different(todo):
        key = (case.partition.model_dump_json(), case.seed)
        try:
            if case.features is not None:
                check_engineered(divide(config, case), case.features)
                continue
            if case.alignment is not None:
                check_dealt(deal(config, case), case.alignment.alignment)
                continue
            if key not in split:
                split[key] = split_tables(config, case)
            known[_key(case)] = _prepare(config, case, split[key])
        except ValueError as error:
            raise ValueError(f"{case.id}: {error}{place_of(error)}") from None
    return [(c, _of_training(c, known[_key(c)])) for c in todo if _key(c) in known]


def _of_training(case: Case, known: PublicFacts) -> PublicFacts:
    return replace(known, training=case.training.spec, mechanisms=case.defense.defense.mechanisms())


def _different(todo: Sequence[Case]) -> Iterator[Case]:
    """One case of each division and preprocessing: defenses and training do not matter."""
    seen = set()
    for case in todo:
        if (key := _key(case)) not in seen:
            seen.add(key)
            yield case


def _key(case: Case) -> tuple[str, str, int]:
    own = case.features or case.alignment or case.preprocessing
    return case.partition.model_dump_json(), own.model_dump_json(), case.seed


def _prepare(config: Config, case: Case, split: Mapping[str, Pair]) -> PublicFacts:
    basis = next(iter(split.values()))[0].basis
    assert basis is not None  # tables that were read have one
    fed = Simulated(list(split), server=SERVER, secret=pinned("dry run"))
    train, test = ({c: fed.at(c, pair[k]) for c, pair in split.items()} for k in (0, 1))
    with fed.running():
        agreed = agree(fed, basis, train, test)
        own, held_out = agreed.train, agreed.test
        if config.data.missing == "impute":
            own, held_out = impute(fed, own, held_out)
        if issubclass(ENCODERS[case.preprocessing.encoder], PsiEncoder):
            own = held_out = {c: fed.local(c, first_rows, t) for c, t in own.items()}
        encoder = make_encoder(case, [t for pair in split.values() for t in pair])
        schema = agreed.schema.value
        prepared = prepare(fed, schema, own, held_out, encoder, _rehearsal(build_scaler(case.preprocessing)))
    layout = prepared.layout.value
    model = model_spec(config.model, schema, layout.width)
    layer_shapes(model)  # refuses what does not fit the task
    return PublicFacts(tuple(split), SERVER, layout=layout, model=model)


def _rehearsal(scaler: Scaler) -> Scaler:
    """What stands in for a scaler. Raises ValueError where that is none: a plugin may return anything."""
    rehearsed: Any = scaler.rehearsal()
    if not isinstance(rehearsed, Scaler):
        raise ValueError(
            f"the scaler {scaler.name} rehearses with a value of type {type(rehearsed).__name__}, which is no scaler; "
            "mend the plugin, or choose another scaler"
        )
    return rehearsed


def first_rows(table: Table) -> Table:
    return table.rows(np.arange(min(FEW_ROWS, len(table))))
