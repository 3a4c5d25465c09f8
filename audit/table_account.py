"""The configured table as its files have it, beside what becomes of it: columns, rows left out, likely slips."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from leakledger.audit.config import Config
from leakledger.preprocess.data.read import raw_rows
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared
from leakledger.preprocess.data.survey import ColumnSurvey, rows_with_missing, survey

SHOWN = 3  # groups of near-duplicate levels in one line
SLIPS = {
    "identifier": "looks like an identifier of rows",
    "date": "holds dates, each a value of its own",
    "thousands": "holds numbers with separators of thousands, which are read as texts",
}
WORDS = {
    "identifier": "identifier?",
    "date": "dates?",
    "thousands": "separators of thousands?",
    "grouped": "thousands, or decimals?",
    "code": "a code?",
    "constant": "one value",
    "many levels": "many levels",
    "": "",
}


@dataclass(frozen=True)
class TableAccount:
    """`rows` of the files, of which `kept` take part; `incomplete` rows miss a value that is used."""

    rows: int
    kept: int
    incomplete: int
    missing: str
    roles: Mapping[str, str]
    columns: tuple[ColumnSurvey, ...]
    not_interpreted: tuple[str, ...]

    def rows_to_print(self) -> list[dict[str, Any]]:
        return [
            {
                "column": c.name,
                "role": self.roles[c.name].partition(" ")[0],
                "type": self.roles[c.name].partition(" ")[2],
                "levels": c.levels,
                "missing": c.missing,
                "example": c.example,
                "remark": remark_of(c),
            }
            for c in self.columns
        ]

    def warnings(self) -> Iterator[str]:
        """One line for each likely slip. Of the cells, only levels that are alike are quoted."""
        for c in self.columns:
            role = self.roles[c.name].partition(" ")[0]
            if c.remark in SLIPS and role == "feature":
                yield f"column {c.name!r} {SLIPS[c.remark]}, and is a feature: list it under drop in the schema"
            elif c.remark in SLIPS and role == "target" and c.kind == "text":
                yield f"column {c.name!r} {SLIPS[c.remark]}, and is the target: each value is a class, known to all"
        for c in self.columns:
            if c.alike and not self.roles[c.name].startswith("dropped"):
                groups = "; ".join(" / ".join(map(repr, group)) for group in c.alike[:SHOWN])
                more = f" and {len(c.alike) - SHOWN} more" if len(c.alike) > SHOWN else ""
                yield f"column {c.name!r} has levels that differ in spaces or capitals alone: {groups}{more}"
        if self.missing == "drop" and self.incomplete:
            used = [c for c in self.columns if c.missing and not self.roles[c.name].startswith(("dropped", "party"))]
            most = ", ".join(f"{c.name} {c.missing}" for c in sorted(used, key=lambda c: -c.missing)[:SHOWN])
            unlabelled = any(self.roles[c.name].startswith("target") for c in used)
            yield (
                f'data.missing = "drop" leaves out {self.incomplete} of {self.rows} rows (missing most: {most}); '
                + ("nothing fills in a target" if unlabelled else '"impute" keeps them')
            )
        if self.not_interpreted:
            yield f"nothing reads these keys of the schema: {', '.join(self.not_interpreted)}"

    def to_plain(self) -> dict[str, Any]:
        columns = [asdict(c) | {"role": self.roles[c.name]} for c in self.columns]
        counts = {"rows": self.rows, "kept": self.kept, "incomplete": self.incomplete}
        return counts | {"columns": columns, "not_interpreted": list(self.not_interpreted)}


def table_account(config: Config, schema: Schema, kept: int) -> TableAccount:
    """The account of the configured table, which is read with `schema` and keeps so many rows."""
    data = config.data
    form = {n: getattr(data, n) for n in ("separator", "encoding", "decimal", "na_values")}
    raw, declared = raw_rows(data.source, data.schema_given, **form)
    used = [c for c in (*schema.features, schema.target) if c in raw]
    return TableAccount(
        rows=len(raw),
        kept=kept,
        incomplete=rows_with_missing(raw, used),
        missing=data.missing,
        roles={c: role_of(c, schema, [p.column for p in config.partition]) for c in raw.columns},
        columns=tuple(survey(raw)),
        not_interpreted=declared.not_interpreted if isinstance(declared, Declared) else (),
    )


def remark_of(c: ColumnSurvey) -> str:
    """What is noticed of a column, in a few words."""
    noticed = ["empty" if c.kind == "empty" else WORDS[c.remark], "levels alike" if c.alike else ""]
    return ", ".join(filter(None, noticed))


def role_of(column: str, schema: Schema, partition: list[str | None]) -> str:
    """The role of a column and its type, in words."""
    if column == schema.target:
        return f"target {schema.task}"
    if column in schema.categorical:
        return "feature categorical"
    if column in schema.numeric:
        return "feature whole numbers" if column in schema.integer else "feature numeric"
    return "party" if column in partition else "dropped"
