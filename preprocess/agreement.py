"""Agreement on a schema: what is not declared of the columns, parties tell each other before anything else.

Everyone knows the `Basis`: declaration, header, column types. For what it leaves open, each client says what its own
rows hold and the server, which joins that, tells everyone the outcome:

1. `schema.local`, `schema.agreed`: per column that is asked for, whether it holds whole numbers, numbers or text (in a
   list of columns each). Text anywhere makes a column categorical, a fraction anywhere makes a numeric one not whole.
2. `schema.local-classes`, `schema.agreed-classes`: the distinct values of the target. Where its task is not declared
   either, a target of numbers with more than ten values is a quantity: None in place of the values.

Everything goes in the clear, so the server learns whose rows hold fractions, or text, or which classes. A schema that
declares `categorical`, `numeric`, `integer` and `classes` (or a regression) sends nothing. Rows are all that a party
has, held-out ones too. The outcome is the schema of all rows together (`data.inference`), however they are divided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.profile import KINDS, Kind, distinct_classes, join_classes, join_kinds, kind_of
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import AgreedClasses, AgreedKinds, LocalClasses, LocalKinds

Told = LocalKinds | AgreedKinds


@dataclass(frozen=True)
class Agreed:
    """The schema that everyone knows, and every party's tables under it."""

    schema: Public[Schema]
    train: dict[str, At[Table]]
    test: dict[str, At[Table]]


def agree(fed: Federation, basis: Basis, train: Mapping[str, At[Table]], test: Mapping[str, At[Table]]) -> Agreed:
    """Settles what `basis` leaves open by messages. Raises DataError where the parties' rows contradict it."""
    with fed.scope("schema"):
        kinds = agree_on_kinds(fed, basis, train, test)
        classes = agree_on_classes(fed, basis, kinds, train, test)
        schema = fed.public(settle, basis, kinds, classes)
        return Agreed(
            schema=schema,
            train={c: fed.local(c, Table.under, t, schema) for c, t in train.items()},
            test={c: fed.local(c, Table.under, t, schema) for c, t in test.items()},
        )


def agree_on_kinds(
    fed: Federation, basis: Basis, train: Mapping[str, At[Table]], test: Mapping[str, At[Table]]
) -> Public[AgreedKinds]:
    if not basis.asked:
        return fed.public(AgreedKinds, [], [], [])
    local = {c: fed.local(c, local_kinds, basis.asked, t, test[c]) for c, t in train.items()}
    told = fed.gather(local, fed.server)
    return fed.broadcast(fed.local(fed.server, joined_kinds, *told))


def agree_on_classes(
    fed: Federation,
    basis: Basis,
    kinds: Public[AgreedKinds],
    train: Mapping[str, At[Table]],
    test: Mapping[str, At[Table]],
) -> Public[AgreedClasses]:
    if not basis.classes_are_open:
        return fed.public(AgreedClasses, None)
    most = fed.public(lambda told: basis.most_classes(by_column(basis.asked, told)), kinds)
    local = {c: fed.local(c, local_classes, basis.target, most, t, test[c]) for c, t in train.items()}
    told = fed.gather(local, fed.server)
    return fed.broadcast(fed.local(fed.server, joined_classes, most, *told))


def settle(basis: Basis, kinds: AgreedKinds, classes: AgreedClasses) -> Schema:
    """The schema, by what the parties told."""
    return basis.schema(by_column(basis.asked, kinds), classes.classes)


def local_kinds(columns: Sequence[str], *tables: Table) -> LocalKinds:
    """One party's message: its columns by what they hold; those without a value are in no list."""
    return LocalKinds(**by_kind({c: join_kinds(kind_of(t.frame[c]) for t in tables) for c in columns}))


def joined_kinds(*told: LocalKinds) -> AgreedKinds:
    """The server's answer: the columns by what they hold in all rows together."""
    columns = sorted({c for one in told for c in (*one.whole, *one.number, *one.text)})
    each = [by_column(columns, one) for one in told]
    return AgreedKinds(**by_kind({c: join_kinds(kinds[c] for kinds in each) for c in columns}))


def local_classes(target: str, most: int | None, *tables: Table) -> LocalClasses:
    """One party's message: the distinct values of its target."""
    return LocalClasses(join_classes([distinct_classes(t.frame[target], most) for t in tables], most))


def joined_classes(most: int | None, *told: LocalClasses) -> AgreedClasses:
    """The server's answer: the distinct values of all parties."""
    return AgreedClasses(join_classes([one.classes for one in told], most))


def by_kind(kinds: Mapping[str, Kind]) -> dict[str, list[str]]:
    """{"whole": [...], "number": [...], "text": [...]}, columns in the order of `kinds`."""
    named: tuple[Kind, ...] = KINDS[1:]
    return {kind: [c for c, k in kinds.items() if k == kind] for kind in named}


def by_column(columns: Sequence[str], told: Told) -> dict[str, Kind]:
    """The kind of each of these columns."""
    told_kinds: dict[Kind, list[str]] = {"whole": told.whole, "number": told.number, "text": told.text}
    known = {c: kind for kind, names in told_kinds.items() for c in names}
    return {c: known.get(c, "empty") for c in columns}
