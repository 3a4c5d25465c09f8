"""The configuration of an audit: a TOML file, checked before anything runs, with every default stated here.

Precedence: command line (`--set section.key=value`) over environment (`LEAKLEDGER_SECTION__KEY=value`) over file over
defaults. An unknown key is an error with a suggestion.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from attacks import ATTACKS
from attacks.labels import RECOVERIES
from attacks.tableak.ensemble import POOLINGS
from attacks.tableak.finish import FINISHES
from attacks.tableak.losses import LOSSES
from attacks.tableak.members import MEMBERS
from attacks.tableak.optimiser import OPTIMISERS
from attacks.tableak.start import INITIALISATIONS
from attacks.tableak.temperature import schedule
from defenses import DEFENSES
from preprocess.crypto.secure_moments import Counts, Publish, Scheme
from preprocess.crypto.secure_sum import Route
from preprocess.crypto.sharing import Weights
from preprocess.data.partition import PARTITIONS
from preprocess.data.suggest import closest
from preprocess.encoders import ENCODERS
from preprocess.encoders.codebook import NormalForm
from preprocess.encoders.ring_psi import Directions, Unused
from preprocess.encoders.rolling_hash import MAX_BUCKETS, Others
from preprocess.encoders.target import Exchange, Likelihood
from preprocess.models import ACTIVATIONS
from preprocess.scalers import SCALERS
from preprocess.training import ALGORITHMS

ENVIRONMENT = "LEAKLEDGER_"


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names file and key and says what to do."""


def _one_of(known: Iterable[str]) -> Any:
    """A validator: the name of something registered, or an error that suggests one."""
    names = sorted(known)

    def check(value: Any) -> Any:
        if value not in names:
            raise ValueError(f"{value!r} is unknown{closest(str(value), names)}; choose one of {', '.join(names)}")
        return value

    return BeforeValidator(check)


def _many(value: Any) -> Any:
    """One table where a list of tables is expected stands for a list of one."""
    return [value] if isinstance(value, Mapping) else value


def _pooling(value: Any) -> Any:
    """True and false stand for the paper's pooling and for none."""
    return ("median" if value else "none") if isinstance(value, bool) else value


def _temperature(value: Any) -> str | tuple[float, float]:
    """The name of a schedule, or its first value and its factor."""
    if not isinstance(value, str) and not (
        isinstance(value, list | tuple) and len(value) == 2 and all(type(v) in (int, float) for v in value)
    ):
        raise ValueError('write "constant", "cool", "heat" or [first, factor]')
    temperature = value if isinstance(value, str) else (float(value[0]), float(value[1]))
    schedule(temperature)
    return temperature


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Data(Section):
    """Where the rows come from."""

    source: str | list[str] = "fair"  # an embedded table, a file, or one file per party
    schema_file: str | None = Field(None, alias="schema")
    target: str | None = None
    missing: Literal["error", "drop", "impute"] = "error"
    test_fraction: float = Field(0.2, gt=0, lt=1)
    rows: int | None = Field(None, ge=2)  # draw so many rows at random; none: all


class Partition(Section):
    """How one table becomes one table per party."""

    kind: Annotated[str, _one_of([*PARTITIONS, "files"])] = "iid"
    parties: int = Field(4, ge=2)
    minimum: int = Field(10, ge=1)
    beta: float | None = Field(None, gt=0)
    column: str | None = None


class Preprocessing(Section):
    """An encoder, a scaler, and their options."""

    encoder: Annotated[str, _one_of(ENCODERS)] = "server-dictionary"
    scaler: Annotated[str, _one_of(SCALERS)] = "server-zscore"
    style: Literal["one-hot", "label"] = "one-hot"
    unseen: Literal["ignore", "error"] = "ignore"
    columns: Literal["numeric", "all"] = "numeric"  # "all" scales one-hot columns too
    ddof: Literal[0, 1] = 0  # z-score scalers
    by: Literal["zscore", "minmax"] = "zscore"  # the local scaler
    # secure sums: zscore-sac, bytes-norm, mod-norm
    sharing: Scheme = "proportional"  # "ring": uniform parts, which say nothing of the number
    share_weights: Weights = "uniform"
    route: Route = "relay"
    counts: Counts = "once"
    passes: Literal[1, 2] = 2
    publish: Publish = "everyone"  # "parties": the server is not told mean and deviation
    # identifiers around a ring: uhe, dh-psi, apsi, otmp-psi
    ring: tuple[str, ...] = ()  # all parties in ring order; none: as they are
    ring_route: Route = "direct"
    pad_to: int = Field(1, ge=1)  # each party's numbers of a feature, rounded up to a multiple
    noise: int = Field(0, ge=0)  # and up to so many more that it does not use
    psi_route: Route | None = None  # none: relayed by the server, but direct for otmp-psi
    directions: Directions = "both"  # dh-psi, apsi: "upward" lets only the later party in the ring learn
    unused: Unused = "keep"  # "drop" tells everyone which numbers no party uses
    # encoders whose code follows from the text: rolling-hash, bytes-norm, mod-norm, fasttext
    normal_form: NormalForm = "as-is"
    candidates: Literal["private", "public"] = "private"  # "public": all values are in a list that everyone has
    buckets: int = Field(5000, ge=1, le=MAX_BUCKETS)  # rolling-hash
    others: Others = "zero"  # rolling-hash: what a digit, a space or another sign counts
    longest: int = Field(62, ge=1, le=127)  # bytes-norm: bytes of a value
    fasttext_model: str | None = None  # a .bin file; none: a seeded model without training
    # target
    smoothing: float = Field(10.0, ge=0)
    folds: int = Field(5, ge=1)  # 1: a row's own target is in its code, as published
    likelihood: Likelihood = "value-given-class"  # eq. 7 as printed
    exchange: Exchange = "local"


class Model(Section):
    """The network that all parties train."""

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (100, 100)
    activation: Annotated[str, _one_of(ACTIVATIONS)] = "relu"


class Training(Section):
    """How they train it."""

    algorithm: Annotated[str, _one_of(ALGORITHMS)] = "fedsgd"
    rounds: int = Field(100, ge=1)
    learning_rate: float = Field(0.1, gt=0)
    batch_size: int | None = Field(8, ge=1)  # 0 in a file means all rows
    local_epochs: int = Field(1, ge=1)
    participation: float = Field(1.0, gt=0, le=1)
    patience: int | None = Field(None, ge=1)
    validation: float = Field(0.1, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _zero_is_full_batch(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("batch_size") == 0:
            return {**values, "batch_size": None}
        return values


class DefenseChoice(Section):
    """What clients do to their updates."""

    name: Annotated[str, _one_of(["none", *DEFENSES])] = "none"
    sigma: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "DefenseChoice":
        if (self.name == "gaussian-noise") != (self.sigma is not None):
            raise ValueError("sigma goes with gaussian-noise, and gaussian-noise needs sigma")
        return self


class TabLeakOptions(Section):
    """Options of the TabLeak attack, alone or in the portfolio; the defaults are the published ones but for three."""

    restarts: int = Field(30, ge=1)
    iterations: int = Field(1500, ge=1)
    learning_rate: float = Field(0.06, gt=0)
    softmax: bool = True
    sigmoid: bool = True  # of numeric features, between their bounds; without it they are clipped in the end
    pooling: Annotated[str, _one_of(POOLINGS), BeforeValidator(_pooling)] = "median"  # true; false is "none"
    members: Annotated[str, _one_of(MEMBERS)] = "fitting"  # pooled restarts; "all" as published
    crossovers: int = Field(8, ge=0)  # of restarts on their way; 0 as published
    finish: Annotated[str, _one_of(FINISHES)] = "cool"  # of the iterations; "constant" as published
    loss: Annotated[str, _one_of(LOSSES)] = "cosine"
    initialisation: Annotated[str, _one_of(INITIALISATIONS)] = "uniform"
    optimiser: Annotated[str, _one_of(OPTIMISERS)] = "sign-adam"
    temperature: Annotated[str | tuple[float, float], BeforeValidator(_temperature)] = "constant"  # or [first, factor]
    max_rows: int = Field(512, ge=1)  # larger batches are left alone

    @model_validator(mode="after")
    def _fits_together(self) -> "TabLeakOptions":
        if not self.softmax and self.temperature != "constant":
            raise ValueError("temperature is that of the softmax, and softmax is off")
        return self


class TabLeakFedAvgOptions(Section):
    """Options of TabLeak on FedAvg, alone or in the portfolio; the defaults are the published ones but for the head
    start, and the prior's weight is chosen without the truth.
    """

    restarts: int = Field(15, ge=1)
    iterations: int = Field(1500, ge=1)
    surrogate: bool = True  # the iterations are a head start on one step in place of all; false as published
    refinement: int = Field(100, ge=1)  # iterations on the simulated training after a head start
    learning_rate: float = Field(0.06, gt=0)
    prior_weights: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)
    trials: int = Field(3, ge=1)  # restarts that choose among the weights
    tied: bool = False  # one copy of the rows for all epochs
    softmax: bool = True
    pooling: bool = True
    max_rows: int = Field(512, ge=1)  # over all epochs


class RandomBaselineOptions(Section):
    """Options of the random baseline."""

    per: Literal["row", "batch"] = "row"  # "batch": one number per numeric feature for a whole batch, as published


class Attacks(Section):
    """Which attacks are played, and what they are granted."""

    use: list[Annotated[str, _one_of(ATTACKS)]] = [
        "plaintext",
        "portfolio",
        "statistics",
        "ring_size",
        "vocabulary",
        "membership",
        "sac_audit",
    ]
    rounds: list[Annotated[int, Field(ge=0)]] = [0]  # training rounds whose updates are attacked
    labels: Literal["known", "recovered"] = "known"  # "known" grants the labels of an attacked batch
    label_recovery: Annotated[str, _one_of(RECOVERIES)] = "bias"  # how "recovered" labels come from a gradient
    bounds: Literal["known", "public"] = "public"  # "known" grants the global bounds of numeric features
    dictionaries: Literal["known", "none"] = "none"  # "known" grants every value that any party holds
    marginals: Literal["known", "none"] = "none"  # "known" grants the shares of values over all parties' rows
    dependencies: Literal["known", "none"] = "none"  # "known" grants what the values of one feature say of another's
    determined: dict[str, str] = {}  # which: feature = "the categorical feature that determines it"
    tableak: TabLeakOptions = TabLeakOptions()
    tableak_fedavg: TabLeakFedAvgOptions = TabLeakFedAvgOptions()
    random_baseline: RandomBaselineOptions = RandomBaselineOptions()

    @model_validator(mode="after")
    def _names_what_is_determined(self) -> "Attacks":
        if self.dependencies == "known" and not self.determined:
            raise ValueError('dependencies = "known" needs determined = { feature = "the feature that determines it" }')
        return self


class Audit(Section):
    """How the audit is run."""

    seeds: list[Annotated[int, Field(ge=0)]] = Field([0, 1], min_length=1)
    observers: list[str] = ["server", "clients"]  # as `audit.adversaries.observer_sets` reads them
    jobs: int | None = Field(None, ge=1)  # cases at a time; none: one per core
    device: str = "cpu"
    baseline_draws: int = Field(20, ge=1)


class Config(Section):
    """Everything that decides an audit's results. `path` is where it was read from."""

    data: Data = Data()
    partition: Annotated[list[Partition], BeforeValidator(_many), Field(min_length=1)] = [Partition()]
    preprocessing: Annotated[list[Preprocessing], BeforeValidator(_many), Field(min_length=1)] = [Preprocessing()]
    model: Model = Model()
    training: Annotated[list[Training], BeforeValidator(_many), Field(min_length=1)] = [Training()]
    defense: Annotated[list[DefenseChoice], BeforeValidator(_many), Field(min_length=1)] = [DefenseChoice()]
    attacks: Attacks = Attacks()
    audit: Audit = Audit()

    def in_force(self) -> dict[str, Any]:
        """Plain data of every value, defaults included, as results keep it."""
        return self.model_dump(mode="json", by_alias=True)


def load_config(
    path: Path | None, overrides: Iterable[str] = (), environment: Mapping[str, str] = os.environ
) -> Config:
    """The configuration in `path` (None: defaults) under `environment` and `overrides` ("section.key=value").

    Raises ConfigError, one line: a missing or broken file, an unknown key, a value out of range.
    """
    values = _read(path) if path else {}
    for item in [*environment_overrides(environment), *overrides]:
        key, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write section.key=value")
        _set(values, key.strip().split("."), text, f"--set {key}")
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_first_problem(error, path, values)) from None


def environment_overrides(environment: Mapping[str, str]) -> list[str]:
    """What `LEAKLEDGER_SECTION__KEY=value` variables say, as "section.key=value"."""
    found = [(n, text) for n, text in sorted(environment.items()) if n.startswith(ENVIRONMENT) and "__" in n]
    return [f"{n.removeprefix(ENVIRONMENT).lower().replace('__', '.')}={text}" for n, text in found]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `leakledger init {path}` writes one to start from") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML: {error}") from None


def _set(values: dict[str, Any], keys: list[str], text: str, where: str) -> None:
    """Sets a nested key from text in TOML notation; text that is no TOML value is a string.

    Where the section is a list of tables ([[training]]), the key is set in every one of them.
    """
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if len(keys) < 2:
        raise ConfigError(f"{where}: name a section and a key, like audit.seeds")
    section = values.setdefault(keys[0], {})
    for table in section if isinstance(section, list) else [section]:
        for key in keys[1:-1]:
            table = table.setdefault(key, {}) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {'.'.join(keys[:-1])} is not a table")
        table[keys[-1]] = value


def _first_problem(error: ValidationError, path: Path | None, values: Mapping[str, Any]) -> str:
    """The first problem in one line: file, key, what is wrong, what to do."""
    problem = error.errors(include_url=False)[0]
    location = [p for p in problem["loc"] if isinstance(p, str | int)]
    key = _dotted(location, values)
    prefix = f"{path}: {key}" if path else key
    if problem["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        return f"{prefix}: unknown key{closest(str(location[-1]), known)}; known here: {', '.join(known)}"
    message = problem["msg"].removeprefix("Value error, ")
    value = problem.get("input")
    given = f" (got {json.dumps(value)})" if isinstance(value, str | int | float | bool | list) else ""
    return f"{prefix}: {message}{given if 'is unknown' not in message else ''}"


def _dotted(location: list[str | int], values: Mapping[str, Any]) -> str:
    """`training.rounds`, or `training[2].rounds` where the configuration has several such tables."""
    key = ""
    for part in location:
        if isinstance(part, str):
            key += f".{part}" if key else part
        elif len(values.get(str(location[0]), ())) > 1:
            key += f"[{part + 1}]"
    return key


def _known_keys(location: list[str | int]) -> list[str]:
    """The keys that the section at `location` knows."""
    model: type[BaseModel] = Config
    for part in location:
        if isinstance(part, int):
            continue
        by_alias = {f.alias or n: f for n, f in model.model_fields.items()}
        model = _model_of(by_alias[part].annotation)
    return sorted(f.alias or n for n, f in model.model_fields.items())


def _model_of(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(_model_of(a) for a in annotation.__args__)
