"""What `validate` tells of a configuration and its table, as data: columns, likely slips, cases, cost, verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.dry_run import rehearse
from leakledger.audit.estimate import Estimate, check_fits, estimate, many_values
from leakledger.audit.faint_columns import faint_columns
from leakledger.audit.input_files import by_key, digests
from leakledger.audit.installed import check_extras
from leakledger.audit.privacy_accounting import planned_accounts
from leakledger.audit.privacy_words import privacy_lines
from leakledger.audit.provenance import partitioned, run_facts
from leakledger.audit.records import DataFacts, PrivacyAccount, plural
from leakledger.audit.store import FILE, Store
from leakledger.audit.table_account import TableAccount, table_account
from leakledger.audit.tables import setting_name
from leakledger.audit.unfit import unfit_attacks
from leakledger.audit.verdicts.plan import fewest_clusters, verdicts_need


@dataclass(frozen=True)
class Account:
    """`clusters` are those of the question about the server that has fewest: what each verdict on it rests on.
    `privacy` is by the setting's name.
    """

    data: DataFacts
    table: TableAccount
    cases: tuple[Case, ...]
    clusters: int
    verdicts: tuple[str, ...]
    privacy: Mapping[str, Sequence[PrivacyAccount]]
    estimate: Estimate
    warnings: tuple[str, ...]

    def column_rows(self) -> list[dict[str, Any]]:
        """A row of the printed table per column."""
        return self.table.rows_to_print()

    def sentences(self) -> Iterator[str]:
        """Everything else in words, most urgent first."""
        yield from (f"Warning: {line}." for line in (*self.table.warnings(), *self.warnings))
        if self.data.negotiated:
            yield (
                f"Not declared, so parties agree by messages: {', '.join(self.data.negotiated)}. A schema that lists "
                "categorical, numeric, integer and classes (or task = regression) spares them."
            )
        rests = f"each verdict rests on {plural(self.clusters, 'cluster')} (parties, or batches, x seeds) at least"
        rests += " where claims are made about all; what clients learn, who may see sums alone, on fewer"
        yield f"{plural(len(self.cases), 'case')}; {rests}."
        yield from self.verdicts
        yield from privacy_lines(self.privacy)
        yield self.estimate.in_words()

    def to_plain(self) -> dict[str, Any]:
        names = [
            {"case": c.id, "method": c.setting.method, "defense": c.setting.defense, "training": c.setting.training}
            for c in self.cases
        ]
        return {
            "data": asdict(self.data),
            "table": self.table.to_plain(),
            "cases": names,
            "clusters": self.clusters,
            "verdicts": list(self.verdicts),
            "privacy": {name: [asdict(a) for a in accounts] for name, accounts in self.privacy.items()},
            "estimate": asdict(self.estimate),
            "warnings": [*self.table.warnings(), *self.warnings],
        }


def account_of(
    config: Config, name: str, command: str, output: Path | None = None, transcripts: bool = True
) -> Account:
    """Reads, divides and prepares the data of every case. Raises ValueError, one line, for what `run` would refuse; so
    for an `output` (None: one below runs/) that holds another run, and, where `transcripts` are kept, for those that
    its disk has no room for.
    """
    todo = cases(config)
    read = partitioned(config, todo)
    facts = run_facts(config, todo, name, command, read)
    if output is not None and (output / FILE).is_file():
        with closing(Store.read(output)) as store:
            inputs = by_key(config, digests(config))
            store.must_match(replace(facts, transcripts=transcripts, inputs=inputs))
    check_extras(config)
    parties = next(iter(read.values()))
    planned = estimate(config, todo, parties)
    if not transcripts:
        planned = replace(planned, disk=0.0)
    check_fits(planned, folder=output or Path("runs"))
    known = rehearse(config, todo)
    return Account(
        data=facts.data,
        table=table_account(config, next(iter(parties.values())).schema, facts.data.rows),
        cases=tuple(todo),
        clusters=fewest_clusters(config, todo),
        verdicts=tuple(verdicts_need(config, todo)),
        privacy={setting_name(s): accounts for s, accounts in planned_accounts(config, todo, read).items()},
        estimate=planned,
        warnings=(*many_values(todo, parties), *faint_columns(todo, read), *unfit_attacks(config, known)),
    )
