"""The configuration of an audit: a TOML file, checked before anything runs, with every default in force.

What concerns the audit itself is stated here. What is an option of a method is stated in the method's own class
(`preprocess.options`), and checked here against the methods that the configuration names.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model, model_validator

from leakledger.attacks import ATTACKS
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.observed.labels import RECOVERIES
from leakledger.audit.adversaries import GRAMMAR
from leakledger.audit.config_alignment import PLAYED as OF_ALIGNED
from leakledger.audit.config_alignment import SCHEMAS, AlignmentChoice, check_alignment
from leakledger.audit.config_features import PLAYED, VERTICAL, Features, check_features
from leakledger.audit.limits import check_limits
from leakledger.audit.options import Methods, checked, located_error, one_of
from leakledger.audit.sections import MethodSection, Section
from leakledger.defenses import DEFENSES, Defense, chain, defense_of
from leakledger.preprocess.activation_norms import check_norm
from leakledger.preprocess.aggregation import AGGREGATIONS, Aggregation
from leakledger.preprocess.data.partition import PARTITIONS
from leakledger.preprocess.data.schema_file import Declared, declared_of
from leakledger.preprocess.data.vertical import check_columns
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.models import ACTIVATIONS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import SCALERS, canonical
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import check_training, participants_of
from leakledger.preprocess.training.checks import check_model
from leakledger.preprocess.views import ModelSpec, Norm, RegressionLoss, TrainingSpec


def _many(value: Any) -> Any:
    """One table where a list of tables is expected stands for a list of one."""
    return [value] if isinstance(value, Mapping) else value


def _checked_schema(given: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if isinstance(given, dict):
        declared_of(given, "", strict=True)
    return given


class Data(Section):
    """Where the rows come from, and how a file of them is written. Paths are relative to the file that names them, on
    the command line to the current folder. What is left open here, a schema may say.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)

    source: str | list[str] = Field("fair", description="an embedded table, a file, or a list of files, one per party")
    schema_file: Annotated[str | dict[str, Any] | None, AfterValidator(_checked_schema)] = Field(
        None,
        alias="schema",
        description="a file, found by itself beside the table; or a table of its keys, [data.schema]",
    )
    target: str | None = Field(None, description="a column; needed where no schema names it")
    missing: Literal["error", "drop", "impute"] = Field("error", description="what a missing value leads to")
    ranges: dict[str, tuple[float, float]] = Field(
        {}, description="declared [low, high] of numeric features, beside the schema's: what noise is made for"
    )
    domains: dict[str, tuple[str, ...]] = Field(
        {},
        description="declared values of categorical features, beside the schema's, held by anybody or not: no row may "
        "hold another",
    )
    test_fraction: float = Field(0.2, gt=0, lt=1, description="share of each party's rows that is held out")
    rows: int | None = Field(None, ge=2, description="draw so many rows of one table at random; unset: all")
    separator: str | None = Field(None, min_length=1, max_length=1, description="of a CSV file; unset: a comma")
    encoding: str | None = Field(None, description="of a CSV file, such as cp1252; unset: utf-8")
    decimal: Literal[".", ","] | None = Field(None, description="what numbers of a CSV file are written with; unset: .")
    na_values: list[str] | None = Field(None, description="cells that mean missing, beside empty ones; unset: none")

    @property
    def schema_given(self) -> str | Declared | None:
        """The schema to read the table with: a file, or what [data.schema] declares; None: the one beside the table."""
        given = self.schema_file
        return declared_of(given, "", strict=True) if isinstance(given, dict) else given


class PartitionChoice(Section):
    """How one table becomes one table per party."""

    kind: Annotated[str, one_of([*PARTITIONS, "files", VERTICAL, SCHEMAS])] = Field(
        "iid",
        description='"files": one file per party; "vertical": other columns of the same rows; "schemas": equal shares '
        "of the rows, each under features and names of the party's own",
    )
    parties: int = Field(4, ge=2, description="how many; of files, as many as there are")
    minimum: int = Field(10, ge=1, description="rows that every party keeps")
    beta: float | None = Field(None, gt=0, description="of the Dirichlet and noise partitions")
    column: str | None = Field(None, description="whose values are the parties, by-column")
    columns: dict[str, tuple[str, ...]] | None = Field(
        None, description="numeric columns of each party, vertical; unset: dealt out in order, to as many as `parties`"
    )
    labels: str | None = Field(
        None, description='party that holds the labels, vertical, or "server"; unset: the first party'
    )
    overlap: float | None = Field(
        None, gt=0, le=1, description="share of the features that all parties see, schemas; unset: as published"
    )
    aliases: str | None = Field(
        None, description="TOML file of the names that parties may give a feature, schemas; unset: the project's own"
    )

    @model_validator(mode="after")
    def _says_what_the_kind_has(self) -> "PartitionChoice":
        """Of a vertical partition and of schemas; options of the others are checked with the table."""
        own = {VERTICAL: {"columns", "labels"}, SCHEMAS: {"overlap", "aliases"}}
        kept = own.get(self.kind, {"beta", "column"})
        for key in ("beta", "column", "columns", "labels", "overlap", "aliases"):
            if key not in kept and getattr(self, key) is not None:
                raise located_error(f"a partition of kind {self.kind} has no {key}: leave it out", None, key)
        if self.columns is not None:
            check_columns(self.columns, self.labels)
        return self

    @property
    def unset(self) -> set[str]:
        """The keys that only one kind of partition has, where it says nothing: other cases are named without them."""
        return {key for key in ("columns", "labels", "overlap", "aliases") if getattr(self, key) is None}


class Preprocessing(MethodSection):
    """An encoder, a scaler, and their options. An option that both have is set in both."""

    tables: ClassVar[Mapping[str, Methods]] = {"encoder": ENCODERS, "scaler": SCALERS}

    encoder: Annotated[str, one_of(ENCODERS)] = Field("server-dictionary", description="of categorical features")
    scaler: Annotated[str, one_of(SCALERS)] = Field("federated-zscore", description="of numeric features")

    @classmethod
    def canonical(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """An alias of a scaler is its name and the options that it stands for; one that says otherwise is refused."""
        given = values.get("scaler")
        name, options = canonical(given) if isinstance(given, str) else (given, {})
        for key, value in options.items():
            if values.get(key, value) != value:
                problem = f"{given} is {name} with {key} = {value!r}; leave {key} out, or name {name}"
                raise located_error(problem, values[key], key)
        return {**values, **options, "scaler": name} if name != given else values


class Model(Section):
    """The network that all parties train."""

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((100, 100), description="widths of the hidden layers")
    activation: Annotated[str, one_of(ACTIVATIONS)] = Field("relu", description="after each of them")
    norm: Norm = Field("none", description="between each of them and its activation; batch norm's state travels")
    norm_groups: int = Field(2, ge=1, description="of group norm: equal parts of each hidden layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="chance that a hidden unit is left out of a row in training")
    loss: RegressionLoss = Field("mse", description="of a regression; classifiers minimise cross-entropy")

    @property
    def agreed(self) -> dict[str, Any]:
        """Plain data that the parties agree on. Coins follow from it: those of earlier runs, without norms, stay."""
        later = {"norm", "norm_groups", "dropout", "loss"}
        return self.model_dump(
            mode="json", exclude={n for n in later if getattr(self, n) == type(self).model_fields[n].default}
        )

    @model_validator(mode="after")
    def _has_norms_that_fit(self) -> "Model":
        check_norm(ModelSpec(1, 1, self.hidden, norm=self.norm, norm_groups=self.norm_groups))
        return self


class Training(MethodSection):
    """How they train it: an algorithm, a protocol by which updates become their mean, and the options of both."""

    tables: ClassVar[Mapping[str, Methods]] = {
        "algorithm": dict.fromkeys(ALGORITHMS, TrainingSpec),
        "aggregation": AGGREGATIONS,
    }

    algorithm: Annotated[str, one_of(ALGORITHMS)] = Field("fedsgd", description="what clients compute")
    aggregation: Annotated[str, one_of(AGGREGATIONS)] = Field(
        "plain", description='"plain": the server reads every update'
    )

    @property
    def spec(self) -> TrainingSpec:
        own = {name: value for name, value in self.options.items() if name in options_of(TrainingSpec)}
        return TrainingSpec(self.algorithm, **own)  # type: ignore[arg-type]

    @property
    def protocol(self) -> Aggregation:
        """The aggregation with its options."""
        kind = AGGREGATIONS[self.aggregation]
        return kind(**{name: self.options[name] for name in options_of(kind)})

    @model_validator(mode="after")
    def _fits_together(self) -> "Training":
        check_training(self.spec)
        return self


class DefensePart(MethodSection):
    """A defense that follows another, and its options."""

    tables: ClassVar[Mapping[str, Methods]] = {"name": DEFENSES}

    name: Annotated[str, one_of(DEFENSES)] = Field(description="of the defense")


class DefenseChoice(MethodSection):
    """What clients do to their updates: a defense and its options; `then` others after it, in order:
    `then = [{ name = "gaussian-noise", sigma = 0.05 }]`.
    """

    tables: ClassVar[Mapping[str, Methods]] = {"name": {"none": object, **DEFENSES}}

    name: Annotated[str, one_of(DEFENSES, "none")] = Field("none", description="of the defense")
    then: tuple[DefensePart, ...] = Field((), description="defenses applied after it, each a table of name and options")

    @property
    def parts(self) -> tuple["DefenseChoice | DefensePart", ...]:
        """The defenses that it names, in order."""
        return () if self.name == "none" else (self, *self.then)

    @property
    def defense(self) -> Defense:
        return chain(*(DEFENSES[p.name](**p.options) for p in self.parts))

    @model_validator(mode="after")
    def _can_be_chained(self) -> "DefenseChoice":
        if self.name == "none" and self.then:
            raise ValueError(f"nothing can follow none: name {self.then[0].name} in its place")
        stated = self.defense.mechanisms()  # raises where the order is wrong
        if defense_of(stated) != self.defense:  # controls, attacks and accountants take it for what it states
            raise ValueError(f"it states what another defense does: {', '.join(m.kind for m in stated) or 'nothing'}")
        return self


def attack_options(name: str, given: Any) -> Any:
    """Every option of an attack, as `given` or by default."""
    return checked(given, {"attack": name}, {"attack": ATTACKS}) if isinstance(given, Mapping) else given


AttackTables = create_model(
    "AttackTables",
    __config__=ConfigDict(extra="forbid"),
    **{n: (Annotated[dict[str, Any], BeforeValidator(partial(attack_options, n))], {}) for n in ATTACKS},
)  # type: ignore[call-overload]


class Attacks(Section):
    """Which attacks are played, what they are granted, and a table of options for each attack that has any."""

    model_config = ConfigDict(extra="allow")

    use: list[Annotated[str, one_of(ATTACKS)]] = Field(
        ["plaintext", "portfolio", "statistics", "ring_size", "vocabulary", "membership", "sac_audit"],
        description="attacks that every adversary plays",
    )
    rounds: list[Annotated[int, Field(ge=0)]] = Field([0], description="training rounds whose updates are attacked")
    labels: Literal["known", "recovered"] = Field("known", description='"known" grants the labels of attacked batches')
    label_recovery: Annotated[str, one_of(RECOVERIES)] = Field(
        TabLeak.label_recovery, description='how "recovered" labels come from a gradient'
    )
    bounds: Literal["known", "public"] = Field("public", description='"known" grants the bounds of numeric features')
    dictionaries: Literal["known", "none"] = Field("none", description='"known" grants all values that parties hold')
    marginals: Literal["known", "none"] = Field("none", description='"known" grants the shares of values over all rows')
    rows: Literal["known", "none"] = Field(
        "known", description='"known" grants all rows but those of attacked batches, as the baseline knows them'
    )
    held_out: Literal["known", "none"] = Field(
        "known",
        description='"known" grants which share of its rows each party holds out: their number tells the others',
    )
    dependencies: Literal["known", "none"] = Field(
        "none", description='"known" grants which values of one feature go with which of another'
    )
    determined: dict[str, str] = Field({}, description='of which: feature = "the categorical one that determines it"')

    @property
    def options(self) -> Mapping[str, Mapping[str, Any]]:
        """The options of every attack in use, and of those that it plays itself; defaults included."""
        return self.__pydantic_extra__ or {}

    @model_validator(mode="before")
    @classmethod
    def _with_options(cls, values: Any) -> Any:
        """Tables of attacks that are not in use are checked too, but have no effect and are not kept."""
        if not isinstance(values, Mapping):
            return values
        own = {key: value for key, value in values.items() if key in cls.model_fields}
        played = with_parts(own.get("use", cls.model_fields["use"].default))
        given = {key: value for key, value in values.items() if key not in own}
        tables = AttackTables.model_validate({name: {} for name in played} | given)
        options = {name: getattr(tables, name) for name in played}
        return own | {name: table for name, table in options.items() if table}

    @model_validator(mode="after")
    def _names_what_is_determined(self) -> "Attacks":
        if self.dependencies == "known" and not self.determined:
            raise ValueError('dependencies = "known" needs determined = { feature = "the feature that determines it" }')
        return self


def with_parts(use: Any) -> list[str]:
    """The known attacks of a list, each followed by those that it plays itself."""
    known = [name for name in use if isinstance(name, str) and name in ATTACKS] if isinstance(use, list) else []
    return list(dict.fromkeys(n for name in known for n in (name, *ATTACKS[name].composed_of)))


class Audit(Section):
    """How the audit is run."""

    seeds: list[Annotated[int, Field(ge=0)]] = Field([0, 1], min_length=1, description="every case runs once per seed")
    observers: list[str] = Field(
        ["server", "clients"], min_length=1, description=f"each an adversary of its own: {GRAMMAR}"
    )
    mode: Literal["simulated", "projected"] = Field(
        "simulated", description='"projected": one process per party; the results are the same'
    )
    times: bool = Field(
        False, description="note when messages passed; simulated times are one process's and say nothing of a network"
    )
    jobs: int | None = Field(None, ge=1, description="cases at a time; unset: one per core")
    device: str = Field("cpu", description="where tensors live")
    baseline_draws: int = Field(20, ge=1, le=100_000, description="draws from the prior that a score is compared with")
    floor: float = Field(0.01, ge=0, lt=1, description="the advantage over the prior from which on something leaks")
    ceiling: float = Field(0.1, gt=0, lt=1, description='"no leak" means: bounded below this advantage, with 1 - alpha')
    delta: float = Field(1e-5, gt=0, lt=1, description="at which the epsilon of everything that is sent is stated")
    alpha: float = Field(0.05, gt=0, lt=0.5, description="the chance of a wrong verdict that is accepted")

    @model_validator(mode="after")
    def _what_leaks_is_not_let_pass(self) -> "Audit":
        if self.floor >= self.ceiling:
            raise ValueError(f"floor {self.floor:g} must be below ceiling {self.ceiling:g}: between them nothing leaks")
        return self


class Config(Section):
    """Everything that decides an audit's results. `path` is where it was read from."""

    data: Data = Data()
    partition: Annotated[list[PartitionChoice], BeforeValidator(_many)] = Field([PartitionChoice()], min_length=1)
    features: Annotated[list[Features], BeforeValidator(_many)] = Field([])
    alignment: Annotated[list[AlignmentChoice], BeforeValidator(_many)] = Field([])
    preprocessing: Annotated[list[Preprocessing], BeforeValidator(_many)] = Field([Preprocessing()], min_length=1)
    model: Model = Model()
    training: Annotated[list[Training], BeforeValidator(_many)] = Field([Training()], min_length=1)
    defense: Annotated[list[DefenseChoice], BeforeValidator(_many)] = Field([DefenseChoice()], min_length=1)
    attacks: Attacks = Attacks()
    audit: Audit = Audit()

    @model_validator(mode="before")
    @classmethod
    def _attacks_read_what_is_sent(cls, values: Any) -> Any:
        """Which attacks are played where features are made, or schemas aligned, and none is named."""
        if not isinstance(values, Mapping):
            return values
        featured, aligned = (_many(values.get(name)) for name in ("features", "alignment"))  # [features] may be empty
        if not (featured or aligned):
            return values
        attacks = values.get("attacks", {})
        named = not isinstance(attacks, Mapping) or "use" in attacks
        played = PLAYED if featured else OF_ALIGNED
        return values if named else {**values, "attacks": {**attacks, "use": list(played)}}

    @model_validator(mode="before")  # the last of these comes first
    @classmethod
    def _keeps_limits(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            check_limits(values)
        return values

    @model_validator(mode="after")
    def _sections_go_with_their_partition(self) -> "Config":
        check_features(self)
        check_alignment(self)
        return self

    @model_validator(mode="after")
    def _rows_are_clipped_where_a_gradient_is_sent(self) -> "Config":
        """Every defense meets every training."""
        for i, defense in enumerate(self.defense):
            for training in self.training:
                try:
                    check_training(training.spec, defense.defense.row_clip_norm)
                except ValueError as error:
                    raise located_error(f"{defense.name}: {error}", None, "defense", i) from None
        return self

    @model_validator(mode="after")
    def _model_goes_with_defenses_and_trainings(self) -> "Config":
        """All of them."""
        for defense in self.defense:
            guard = defense.defense.row_clip_norm, bool(defense.parts)
            for training in self.training:
                try:
                    check_model(self.model.norm, self.model.dropout, training.spec, *guard, training.protocol)
                except ValueError as error:
                    raise located_error(str(error), None, "model") from None
        return self

    @model_validator(mode="after")
    def _enough_clients_take_part(self) -> "Config":
        """Every training meets every partition."""
        for partition in self.partition:
            files = partition.kind == "files" and isinstance(self.data.source, list)
            clients = len(self.data.source) if files else partition.parties
            for i, training in enumerate(self.training):
                try:
                    training.protocol.check(participants_of(training.spec, clients))
                except ValueError as error:
                    raise located_error(f"{training.aggregation}: {error}", None, "training", i) from None
        return self

    @property
    def known_share(self) -> float | None:
        """Which share of its rows each party holds out, where that is granted."""
        return self.data.test_fraction if self.attacks.held_out == "known" else None

    def in_force(self) -> dict[str, Any]:
        """Plain data of every value, defaults included, as results keep it; where no features are made and no schemas
        aligned, without what only such a run has.
        """
        unused: dict[str, Any] = {"partition": {i: p.unset for i, p in enumerate(self.partition) if p.unset}}
        absent = {name: True for name in ("features", "alignment") if not getattr(self, name)}
        return self.model_dump(mode="json", by_alias=True, exclude={**unused, **absent})
