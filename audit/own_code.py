"""An attack on a gradient of one's own: rows that a server reads out of it, and whether to believe them.

found = leakledger.attack(gradient=net, model_state=net, layout=columns, labels=labels)
found.rows       # a DataFrame, one row per recovered record
found.controls   # whether the attack was able to find rows in such a network at all
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import nn

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, NotApplicable, Outcome, RecordsClaim
from leakledger.audit.config_alignment import PLAYED as OF_ALIGNED
from leakledger.audit.kept_code import code_kept
from leakledger.audit.kept_settings import settings_kept
from leakledger.audit.options import checked
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.own_update import CLIENT, Column, Tensors, layout_of, on_trust, training_of, view_of_update
from leakledger.audit.planted_batches import FEWEST, PlantedBatches, advantage_on_planted
from leakledger.audit.planted_controls import POPULATION, planted_controls
from leakledger.audit.plugins import failure
from leakledger.audit.record_controls import AT_BASELINE
from leakledger.audit.records import POWER, Control, plural
from leakledger.audit.tables_html import html_table
from leakledger.audit.told_control import Told, rows_held, told_control
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Mechanism, NumericBlock, Task, TrainingSpec

CONTROL_SEED, PLANTED_SEED, TOLD_SEED = 2_005, 2_006, 2_007
MOST_ROWS = 1_000_000
ASK_FOR_BATCHES = (
    "attack(..., planted_batches=32) and assert_low_advantage() decide; if not, more planted batches or a larger margin"
)


@dataclass(frozen=True)
class AttackResult:
    """What one attack found. `rows` has a column per feature and `verified`: whether the gradient proves the row.

    `reason` says why nothing is claimed, where nothing is. `trials` are the controls (`planted_controls`). `planted`:
    the advantage over guessing on planted batches, where some were asked for. `on_trust`: stated defenses that the
    update would not show to be missing; planted rows have them. `told`: whether the update is what was told of network,
    training and defenses, where the rows that it was taken on were given.
    """

    technique: str
    rows: pd.DataFrame = field(repr=False)
    reason: str
    trials: tuple[Control, ...] = field(repr=False)
    planted: PlantedBatches | None = None
    on_trust: tuple[str, ...] = ()
    told: Told | None = None

    @property
    def controls(self) -> pd.DataFrame:
        """A row per control: what it was, what the attack got, what was expected, whether it passed. Of `told`, which
        tries what was said of the update and no attack: how far off the update is, and repetitions are.
        """
        columns = ["kind", "value", "baseline", "passed", "expected"]
        told = [] if self.told is None else [asdict(self.told) | {"expected": self.told.expected}]
        return pd.DataFrame([*(asdict(t) for t in self.trials), *told], columns=columns)

    @property
    def proven(self) -> int:
        """How many rows the update proves."""
        return int(self.rows["verified"].sum()) if len(self.rows) else 0

    def assert_few_proven(self, at_most: int = 0) -> None:
        """The gate of a test: raises AssertionError, with one line, where the update proves more than `at_most` rows.

        So it does where more rows than that are claimed and planted rows are recovered behind such an update: a claim
        without a proof may well be right. And where nothing can be said: the attack claimed nothing, or it was not
        shown to be able to. What a strong defense reaches is `assert_low_advantage`.
        """
        if _whole("at_most", at_most) < 0:
            raise ValueError(f"at_most is {at_most}: a number of rows, from 0")
        if self.proven > at_most:
            raise AssertionError(f"{self.summary} At most {at_most} may be.")
        if not self.trials or not len(self.rows) or self._failed:
            raise AssertionError(f"inconclusive: {self.summary}{self._what_decides}")
        if len(self.rows) > at_most:
            raise AssertionError(f"{self._unproven}. At most {plural(at_most, 'row')} may be claimed where that is so.")
        self._say_what_is_trusted()

    def assert_low_advantage(self, at_most: float = AT_BASELINE) -> None:
        """The gate of a test for a strong defense: raises AssertionError, with one line, unless the attack is shown to
        get hardly more than guessing of planted rows behind such an update.

        `at_most`: how far of the way from guessing to all cells; the interval of `planted` must lie below it. Without
        the defense it must lie above: otherwise it is not the defense that is in the way of the attack. It speaks of
        this attack and of rows that were drawn, not of every attack.
        """
        if not (isinstance(at_most, Real) and 0 < at_most < 1):
            raise ValueError(f"at_most is {at_most}: an advantage between 0 (guessing) and 1 (every cell)")
        if self.proven:
            raise AssertionError(self.summary)
        if self.planted is None:
            raise AssertionError(f"inconclusive: no batches were planted; {ASK_FOR_BATCHES}")
        behind, without = self.planted.defended, self.planted.undefended
        if behind.proven:
            raise AssertionError(f"{self.technique} proves {behind.proven} planted rows behind such an update")
        if behind.low > at_most:
            raise AssertionError(f"{self.planted}: at most {at_most:g} may be")
        if doubt := self._doubt(at_most):
            raise AssertionError(f"inconclusive: {doubt}")
        assert without is not None  # `_doubt`
        if behind.high > at_most:
            raise AssertionError(
                f"inconclusive: {self.planted}: the interval behind the defense must end at {at_most:g} or below; "
                "more planted batches would decide, or a larger margin (at_most=)"
            )
        self._say_what_is_trusted()

    def _say_what_is_trusted(self) -> None:
        if self.on_trust:
            warnings.warn(f"this passes where {self._trusted}", stacklevel=3)

    @property
    def _trusted(self) -> str:
        return f"the update was protected as stated, which it does not show of {'; '.join(self.on_trust)}"

    def _doubt(self, at_most: float) -> str:
        """Why planted batches tell nothing of the defense, in one sentence; empty where they do."""
        assert self.planted is not None
        behind, without = self.planted.defended, self.planted.undefended
        if self._untold:
            return self._untold
        if failed := [kind for kind in self._failed if kind != POWER]:
            return f"controls failed: {', '.join(failed)}; try another technique"
        if not self.trials:
            return "no control was played; leave out controls=False"
        if not len(self.rows):
            return self.summary
        if behind.partial:
            return (
                f"of {behind.partial} of {behind.batches} planted batches {self.technique} left cells out: what is not "
                "claimed is no evidence; choose a technique that claims every cell"
            )
        if without is None:
            return "no defense is stated, so nothing tells its effect from an attack that is weak; give mechanisms="
        if without.low <= at_most:
            return (
                f"without the defense this attack gets {without}: it must be above {at_most:g}, or a low advantage is "
                "its own doing; more planted batches would decide, a larger network or a stronger technique"
            )
        return ""

    @property
    def _failed(self) -> list[str]:
        """The controls that failed, by kind."""
        failed: list[str] = [t.kind for t in self.trials if not t.passed]
        return failed if self.told is None or self.told.passed else [*failed, self.told.kind]

    @property
    def _untold(self) -> str:
        """Why nothing follows from planted rows, in a sentence; empty where the update is what was told, or nobody
        knows.
        """
        if self.told is None or self.told.passed:
            return ""
        return (
            "the update is not what the stated network, training and defenses make of these rows (the loss is their "
            f"mean, in float32): it is {self.told.value:.2g} of its length off, and {self.told.baseline:.2g} by chance"
        )

    @property
    def _power(self) -> Control | None:
        """The control that shows this attack to work on planted rows behind such an update; None where none does."""
        return next((t for t in self.trials if t.kind == POWER and not self._failed), None)

    @property
    def _unproven(self) -> str:
        power, claimed, proven = self._power, len(self.rows), self.proven
        assert power is not None
        count = f"{claimed} rows are claimed" if claimed > 1 else "1 row is claimed"
        shown = "none is proven" if not proven else f"{proven} {'is' if proven == 1 else 'are'} proven"
        return (
            f"{count} and {shown}, but on planted rows behind such an update this attack gets {power.value:.0%} of the "
            f"cells where guessing gets {power.baseline:.0%}: unproven is not protected"
        )

    @property
    def _what_decides(self) -> str:
        """What a user can do about power that is lacking; empty where it is not what is lacking, or not alone."""
        if self._failed != [POWER]:
            return ""
        return f" That one planted batch is not recovered shows no protection; {ASK_FOR_BATCHES}."

    @property
    def summary(self) -> str:
        """One sentence, never more reassuring than the controls allow."""
        verified, failed = self.proven, self._failed
        doubt = "" if self.trials else " No control was played."
        doubt += f" Controls failed: {', '.join(failed)}." if failed else ""
        doubt += f" {self._untold[0].upper()}{self._untold[1:]}." if self._untold else ""
        doubt += f" Controls tell of this update only if {self._trusted}." if self.on_trust else ""
        if verified:
            of = f"{verified} of {plural(len(self.rows), 'claimed row')}"
            return f"{self.technique} proved {of}: this update gives them away.{doubt}"
        if len(self.rows) and self._power is not None:
            return f"{self.technique}: {self._unproven}.{doubt}"
        if len(self.rows):
            return f"{self.technique} claims {plural(len(self.rows), 'row')} and proves none of them.{doubt}"
        return f"{self.technique} claims nothing: {self.reason}. That is no evidence that nothing leaks.{doubt}"

    def __str__(self) -> str:
        return "\n".join([self.summary, self.rows.to_string(max_rows=20)]) if len(self.rows) else self.summary

    def _repr_html_(self) -> str:
        return html_table(self.summary, self.rows) + html_table("Controls", self.controls)


def attack(
    *,
    model_state: Tensors,
    gradient: Tensors | None = None,
    after: Tensors | None = None,
    layout: FeatureLayout | Mapping[str, Column],
    labels: Any = None,
    rows: int | None = None,
    activation: str | None = None,
    task: Task | None = None,
    training: TrainingSpec | None = None,
    mechanisms: Iterable[Mechanism] = (),
    technique: str = "portfolio",
    options: Mapping[str, Any] | None = None,
    controls: bool = True,
    planted_batches: int = 0,
    trained_on: tuple[Any, Any] | None = None,
    seed: int = 0,
) -> AttackResult:
    """Attacks one client's update as the server that received it would, and tries the attack on planted rows.

    `model_state`: the network that the gradient was taken at: a `torch.nn.Sequential` of linear layers and one
    activation, its `state_dict()`, or weights and biases in order; `activation` says what is between these where
    neither it nor the update is a module.
    `gradient`: of the mean loss over a batch (cross-entropy, or binary cross-entropy on one logit): tensors in the same
    order, or the module after `backward()`. Or `after`: the weights after local training, whose `training` is known
    (`TrainingSpec("fedavg", learning_rate=..., batch_size=..., local_epochs=...)`).

    `layout`: feature -> its values, (mean, deviation) of a standardised number, or None for a number as it is, in the
    order of the columns (`layout_of`). `labels` (rows,): granted to the adversary; without them `rows` says how many
    there are, and labels are recovered. Local training of several epochs takes `rows` and the labels of every epoch, in
    the order of its steps. Of a regression they are its targets, and only counted. `mechanisms`: the
    defenses applied, which the adversary knows. `options` are those of the technique: of one that plays others theirs
    too, under the name of each; and the `device`. `planted_batches`: on how many drawn batches, behind the defenses and
    without them, the advantage over guessing is measured, as `AttackResult.assert_low_advantage` needs it; each takes
    an attack or two. `trained_on`: the rows (rows, inputs) as the network takes them, and their labels or targets
    (rows,). No attack sees these: they tell whether the update is what was told (`AttackResult.told`).

    Raises ValueError, one line, for tensors that are no such network, a layout that does not fit, unknown names.
    """
    seed, planted_batches = _whole("seed", seed), _whole("planted_batches", planted_batches)
    rows = None if rows is None else _whole("rows", rows)
    if seed < 0:
        raise ValueError(f"seed is {seed}: a whole number from 0 is needed")
    if (gradient is None) == (after is None):
        raise ValueError("attack: give gradient=, or after= for the weights after local training; one of them")
    steps = training_of(training, trained=after is not None)
    epochs = 1 if after is None else steps.local_epochs
    told = None if labels is None else _one_for_each_row(labels, rows, epochs, whole=task != "regression")
    known, count = None if task == "regression" else told, rows if told is None else len(told) // epochs
    if count is None or count < 1:
        raise ValueError("attack: say how many rows the batch has: labels=, or rows= where they are not known")
    if count > MOST_ROWS:
        raise ValueError(f"rows: a batch of {count} rows is stated; attacks take up to {MOST_ROWS}")
    if (controls or planted_batches) and count > POPULATION:
        raise ValueError(
            f"rows: a batch of {count} rows is stated; controls plant up to {POPULATION}: give controls=False and no "
            "planted_batches, and nothing shows then that the attack works"
        )
    if planted_batches and planted_batches < FEWEST:
        raise ValueError(f"planted_batches is {planted_batches}: an interval needs {FEWEST} or more; 32 is a start")
    if planted_batches and task == "regression":
        raise ValueError("planted_batches: rows are planted behind classifications only; leave it out")
    columns = layout if isinstance(layout, FeatureLayout) else layout_of(layout)
    view = view_of_update(
        model_state,
        _gradients(gradient) if after is None else after,
        trained=after is not None,
        layout=columns,
        rows=count,
        task=task,
        activation=activation,
        training=steps,
        mechanisms=mechanisms,
    )
    spec = view.public.model
    assert spec is not None  # `view_of_update` made it
    if known is not None and not np.isin(known, np.arange(spec.classes)).all():
        raise ValueError(f"labels: a class number is outside 0 to {spec.classes - 1}, the classes of this network")
    held = None if trained_on is None else rows_held(trained_on, spec, count, steps, known)
    with settings_kept(), code_kept():
        played = _made(technique, options or {}, known is None, seed)
    knowledge = AuxiliaryKnowledge(labels={} if known is None else {(CLIENT, 0): known})
    outcome = outcome_of(played, view.restricted(played.accepts), knowledge)
    trials = planted_controls(played, view, knowledge, np.random.default_rng([seed, CONTROL_SEED])) if controls else ()
    coins = np.random.default_rng([seed, PLANTED_SEED])
    planted = advantage_on_planted(played, view, knowledge, planted_batches, coins) if planted_batches else None
    told_as = None if held is None else told_control(view, *held, np.random.default_rng([seed, TOLD_SEED]))
    found = claimed_rows(outcome, columns)
    return AttackResult(technique, found, _reason(outcome), trials, planted, on_trust(view), told_as)


def _whole(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise ValueError(f"{name} is of type {type(given).__name__}: a whole number is needed")
    return int(given)


def _one_for_each_row(labels: Any, rows: int | None, epochs: int, whole: bool) -> NDArray[np.int64]:
    """The labels (epochs * rows,), `whole` class numbers or targets of a regression. Raises ValueError otherwise."""
    given = np.asarray(labels.detach().cpu() if isinstance(labels, torch.Tensor) else labels)
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    what = "class number" if whole else "target"
    if given.ndim != 1 or given.dtype.kind not in "biuf" or (whole and (given != np.rint(given)).any()):
        raise ValueError(f"labels have shape {given.shape} and type {given.dtype}; give one {what} for each row")
    if epochs > 1 and (rows is None or len(given) != rows * epochs):  # an epoch may have an order of its own
        raise ValueError(
            f"there are {len(given)} labels; of {epochs} local epochs give rows= and {epochs} labels for each, in the "
            "order of the training, or rows= alone"
        )
    if rows is not None and rows * epochs != len(given):
        raise ValueError(f"there are {len(given)} labels, and rows= says {rows}")
    return given.astype(np.int64) if whole else np.zeros(len(given), np.int64)


def claimed_rows(outcome: Outcome, layout: FeatureLayout) -> pd.DataFrame:
    """The claimed records as a table: a value where the layout names it, else its number."""
    claims = [] if isinstance(outcome, NotApplicable | Abstained) else outcome
    tables = [_table(c, c.layout or layout) for c in claims if isinstance(c, RecordsClaim)]
    empty = pd.DataFrame(columns=[*(b.feature for b in layout.blocks), "verified"])
    return pd.concat(tables, ignore_index=True) if tables else empty


def _table(claim: RecordsClaim, layout: FeatureLayout) -> pd.DataFrame:
    categorical, numeric = iter(claim.categories.T), iter(claim.numbers.T)
    columns: dict[str, Any] = {}
    for block in layout.blocks:
        if isinstance(block, NumericBlock):
            columns[block.feature] = next(numeric)
        else:
            columns[block.feature] = [_named(block, int(k)) for k in next(categorical)]
    verified = np.zeros(len(claim.numbers), bool) if claim.verified is None else claim.verified
    return pd.DataFrame({**columns, "verified": verified})


def _named(block: CategoricalBlock, candidate: int) -> str | int | None:
    if candidate < 0:
        return None
    return candidate if block.values is None else block.values[candidate]


def _gradients(given: Tensors | None) -> Any:
    return [p.grad for p in given.parameters()] if isinstance(given, nn.Module) else given


def _made(technique: str, options: Mapping[str, Any], recover: bool, seed: int) -> Any:
    """The attack with those settings that it has. Raises ValueError for an unknown one."""
    kind = _technique(technique)
    known = getattr(kind, "__dataclass_fields__", {})
    shared = {key: value for key, value in {"seed": seed, "recover_labels": recover}.items() if key in known}
    given = _named_options(technique, options)
    parts = {part: _options(part, given.pop(part)) for part in kind.composed_of if part in given}
    device = {"device": str(given.pop("device"))} if "device" in known and "device" in given else {}
    return kind(**shared, **device, **_options(technique, given, (*kind.composed_of, *device)), **parts)


def _technique(name: str) -> type[Attack]:
    """The attack on single updates of that name. Raises ValueError for another one."""
    of_records = {n: kind for n, kind in ATTACKS.items() if "records" in kind.asset}
    attacks = {n: kind for n, kind in of_records.items() if n not in OF_ALIGNED}
    if not isinstance(name, str) or name not in attacks:
        known = name in list(of_records)
        unknown = f"is unknown{failure(str(name)) or closest(str(name), attacks)}"
        why = "reads embeddings of texts, and their encoder is not given here" if known else unknown
        raise ValueError(f"technique {name!r} {why}; choose one of {', '.join(attacks)}")
    return attacks[name]


def _named_options(method: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{method}: options are of type {type(given).__name__}; give a dictionary of them")
    return {str(key): value for key, value in given.items()}


def _options(method: str, given: Any, beside: Iterable[str] = ()) -> dict[str, Any]:
    """The options of one attack, as it takes them. `beside`: what else may be set where these are."""
    stated = _named_options(method, given)
    try:
        values = checked(stated, {"attacks": method}, {"attacks": ATTACKS}, beside)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        value = f"option {key} is {stated.get(key)!r}: " if key else ""
        raise ValueError(f"{method}: {value}{first['msg']}") from None
    return {key: values[key] for key in stated}


def _reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, NotApplicable | Abstained) else ""
