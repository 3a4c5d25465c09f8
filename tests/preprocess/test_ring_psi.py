"""The three set intersections against each other, and on a real table."""

import numpy as np
import pytest

from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.ring_psi import PsiEncoder, check_unused
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.messages import UnusedIds
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.preprocess import psi
from tests.preprocess.example import SCHEMA
from tests.preprocess.registered import encoders

PSI = encoders(PsiEncoder)


@pytest.mark.parametrize("name", PSI)
def test_parties_without_rows_and_tables_without_values_give_empty_blocks(name):
    _, fit, rows = psi.encoded_by(name, {p: psi.text_table([], []) for p in ("P1", "P2")})
    assert [b.size for b in fit.blocks.value] == [0, 0]
    assert rows.shape == (0, 0)


@pytest.mark.parametrize("name", PSI)
def test_dropping_unused_numbers_undoes_padding(name):
    tables = {"P1": psi.text_table(["a", "b"], ["x", "x"]), "P2": psi.text_table(["b", "c"], ["x", "x"])}
    kept, dropped = (psi.encoded_by(name, tables, unused=u, pad_to=5)[1].blocks.value for u in ("keep", "drop"))
    assert [b.size for b in kept] == [10, 10]
    assert [b.size for b in dropped] == [3, 1]


@pytest.mark.parametrize("name", PSI)
def test_a_third_party_ends_alike_whether_others_share_a_value_or_not_so_it_cannot_drop_their_numbers(name):
    def tables(last):
        return {p: psi.text_table([w], [d]) for p, (w, d) in {"P1": "ax", "P2": "by", "P3": last}.items()}

    def first_and_width(last, unused):
        fed, fit, _ = psi.encoded_by(name, tables(last), unused=unused)
        return fed.own(fit.encodings["P1"]).ids_, [b.size for b in fit.blocks.value]

    shared, apart = (first_and_width(last, "keep") for last in ("by", "cz"))
    assert shared == apart
    assert [first_and_width(last, "drop")[1] for last in ("by", "cz")] == [[2, 2], [3, 3]]


@pytest.mark.parametrize(
    "bad", [{}, {"diet": np.array([1])}, {"ward": np.array([5])}, {"ward": np.array([-1])}, {"ward": np.eye(2)}]
)
def test_unused_numbers_that_were_never_allotted_are_refused(bad):
    assert check_unused(UnusedIds({"ward": np.array([4])}), {"ward": 5})["ward"].tolist() == [4]
    with pytest.raises(MessageError):
        check_unused(UnusedIds(bad), {"ward": 5})


def test_unused_numbers_that_the_server_changed_are_refused_by_all():
    tables = {"P1": psi.text_table(["a"], ["x"]), "P2": psi.text_table(["a"], ["x"])}
    fed = psi.Tampering(tables, "ids.unused-all", lambda payload: {"ward": np.array([99])})
    located = {p: fed.at(p, t) for p, t in tables.items()}
    with pytest.raises(FederationError, match="all refuse a message of server: it does not name the categorical"):
        ENCODERS["dh-psi"](unused="drop").fit(fed, SCHEMA, located)


@pytest.mark.slow
@pytest.mark.parametrize("name", PSI)
def test_on_adult_all_give_the_columns_of_the_server_dictionary(name, datasets):
    whole = read_table(str(datasets / "adult.csv.gz"), missing="drop")
    tables = partition(whole, "iid", 4, np.random.default_rng(0), minimum=10)

    def columns(name, **options):
        fed = Simulated(list(tables), secret=pinned(0))
        fit = ENCODERS[name](**options).fit(fed, whole.schema, {p: fed.at(p, t) for p, t in tables.items()})
        rows = np.vstack([fed.own(fit.encodings[p]).transform(t).astype(np.int8) for p, t in tables.items()])
        return [rows[:, b.start : b.start + b.size].T for b in fit.blocks.value]

    for found, reference in zip(columns(name, unused="drop"), columns("server-dictionary"), strict=True):
        psi.assert_same_columns(found, reference)
