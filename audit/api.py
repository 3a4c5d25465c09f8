"""Audits from Python: `run` one, `load` what one left, tables as DataFrames.

run = leakledger.run("audit.toml")
run.verdict                                        # "leaks", "no leak" or "inconclusive", and why
run.scores.sort_values("advantage").tail()
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from leakledger.audit import tables
from leakledger.audit.assemble import load_record
from leakledger.audit.config import Config
from leakledger.audit.config_file import config_of, load_config
from leakledger.audit.records import AuditRecord, results
from leakledger.audit.run import run_audit
from leakledger.audit.tables_html import html_table

SHOWN = ["setting", "attack", "observers", "asset", "metric", "value", "baseline", "advantage", "status"]


@dataclass(frozen=True)
class Run:
    """A finished or interrupted audit in `folder`. Each table is a new DataFrame, a row per entry of results.json."""

    folder: Path
    record: AuditRecord = field(repr=False)

    @cached_property
    def _results(self) -> Mapping[str, Any]:
        return results(self.record)

    @property
    def verdict(self) -> str:
        return self.record.verdict.status

    @property
    def scores(self) -> pd.DataFrame:
        """What each attack got of each asset, beside the prior: value, interval, baseline, advantage, status."""
        return pd.DataFrame(self._results["scores"])

    @property
    def rulings(self) -> pd.DataFrame:
        """The verdict on each setting, kind of adversary and asset."""
        return pd.DataFrame(self._results["rulings"])

    @property
    def findings(self) -> pd.DataFrame:
        """What protocol checks found."""
        return pd.DataFrame(self._results["findings"])

    @property
    def controls(self) -> pd.DataFrame:
        """The trials with known answers."""
        return pd.DataFrame(self._results["controls"])

    @property
    def utility(self) -> pd.DataFrame:
        """What the model is worth, and what it took."""
        return pd.DataFrame(self._results["utility"])

    @property
    def observations(self) -> pd.DataFrame:
        """What each party saw: topics, shapes, sizes, never values."""
        seen = [{"case": c.id, **asdict(o)} for c in self.record.cases for o in c.observations]
        return pd.DataFrame(seen)

    def _repr_html_(self) -> str:
        scores = self.scores
        shown = scores[[c for c in SHOWN if c in scores]] if len(scores) else scores
        return html_table(f"{self.verdict}: {self.record.verdict.leakage}", shown) + html_table("Utility", self.utility)


def run(
    config: str | Path | Mapping[str, Any] | Config | None = None,
    *,
    output: str | Path | None = None,
    overrides: Sequence[str] = (),
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Run:
    """Runs an audit, or the rest of one that was interrupted: `leakledger run`, without report.

    `config`: None for the defaults, a file, plain values ({"data": {"source": ...}}), or a `Config`; `overrides`:
    "section.key=value". `output`: the folder [default: runs/<name>-<hash>]. Cases run in processes of their own, also
    from a script without a main guard, unless `audit.jobs` is 1. Raises ValueError, one line, for what cannot be run.
    """
    path = Path(config) if isinstance(config, str | Path) else None
    if isinstance(config, Config):
        settings = config_of(config.in_force(), overrides) if overrides else config
    else:
        settings = config_of(dict(config), overrides) if isinstance(config, Mapping) else load_config(path, overrides)
    folder = Path(output) if output is not None else Path("runs") / tables.run_name(settings, path)
    named = config is None or path is not None
    command = tables.run_command(path, overrides) if named else "leakledger.run"
    return Run(folder, run_audit(settings, folder, command=command, progress=progress))


def load(folder: str | Path) -> Run:
    """The audit that a run left in `folder`. Raises ValueError where there is none, or its record was changed."""
    return Run(Path(folder), load_record(Path(folder)))
