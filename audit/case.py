"""Cases: what a configuration asks for, spelled out, each with a stable name."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from leakledger.audit.config import Config, DefenseChoice, DefensePart, PartitionChoice, Preprocessing, Training
from leakledger.audit.config_alignment import ALIGNMENTS, SCHEMAS, AlignmentChoice
from leakledger.audit.config_features import FEATURE_METHODS, VERTICAL, Features
from leakledger.audit.records import Setting
from leakledger.audit.sections import Section
from leakledger.defenses import DEFENSES
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.alignment.parties import published_overlap
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import SCALERS

PLAIN = ("style", "columns", "sharing")  # options whose values speak for themselves


@dataclass(frozen=True)
class Case:
    """One setting with one seed: the parts of the configuration that it uses."""

    setting: Setting
    seed: int
    partition: PartitionChoice
    preprocessing: Preprocessing
    training: Training
    defense: DefenseChoice
    features: Features | None = None  # where they are made, nothing is preprocessed or trained
    alignment: AlignmentChoice | None = None  # where schemas are aligned, it says what is trained

    @property
    def id(self) -> str:
        return f"{self.setting.id}-seed{self.seed}"


def cases(config: Config) -> list[Case]:
    """Every combination, seeds innermost. Raises ValueError when two of them are the same, and for attacks that are
    listed twice or on a round that is not trained.
    """
    asked_for = _engineered if config.features else _aligned if config.alignment else _settings
    settings = list(asked_for(config))
    if repeated := [name for name, n in Counter(s.id for s, *_ in settings).items() if n > 1]:
        raise ValueError(f"the configuration asks for {repeated[0]} more than once")
    if len(set(config.audit.seeds)) < len(config.audit.seeds):
        raise ValueError(f"audit.seeds repeats a seed: {config.audit.seeds}")
    all_cases = [
        Case(s, seed, part, pre, train, guard, made, aligned)
        for s, part, pre, train, guard, made, aligned in settings
        for seed in config.audit.seeds
    ]
    _check_attacks(config, all_cases)
    return all_cases


def _check_attacks(config: Config, all_cases: Sequence[Case]) -> None:
    # an entry twice would count its clusters twice, and a round that a training does not have is attacked nowhere in it
    for name, listed in (("use", config.attacks.use), ("rounds", config.attacks.rounds)):
        if len(set(listed)) < len(listed):
            raise ValueError(f"attacks.{name} repeats an entry: {listed}")
    trainings = [c.alignment or c.training for c in all_cases if not c.features]
    rounds = min((t.options["rounds"] for t in trainings), default=1)
    for late in (r for r in config.attacks.rounds if r >= rounds):
        raise ValueError(f"attacks.rounds has round {late}, but one training ends with {rounds - 1} (0 is the first)")


Parts = tuple[Setting, PartitionChoice, Preprocessing, Training, DefenseChoice, Features | None, AlignmentChoice | None]


def _settings(config: Config) -> Iterator[Parts]:
    for partition in config.partition:
        for preprocessing in config.preprocessing:
            for defense in config.defense:
                for training in config.training:
                    setting = _describe(config, partition, preprocessing, training, defense)
                    yield setting, partition, preprocessing, training, defense, None, None


def _engineered(config: Config) -> Iterator[Parts]:
    for partition in config.partition:
        for features in config.features:
            setting = _describe_features(config, partition, features)
            yield setting, partition, config.preprocessing[0], config.training[0], config.defense[0], features, None


def _aligned(config: Config) -> Iterator[Parts]:
    for partition in config.partition:
        for chosen in config.alignment:
            setting = _describe_alignment(config, partition, chosen)
            yield setting, partition, config.preprocessing[0], config.training[0], config.defense[0], None, chosen


def _describe_features(config: Config, partition: PartitionChoice, features: Features) -> Setting:
    kind = FEATURE_METHODS[features.method]
    learnt = features.judge_samples == Features.model_fields["judge_samples"].default
    beside = [f"{features.judges} judges"] if features.judges != "trained" else []
    beside += [] if beside or learnt else [f"judges of {features.judge_samples} samples"]
    method = features.method + _changed(features.options, kind, beside)
    return Setting(
        id=f"{partition.kind}-{features.method}-{_digest(partition, features)}",
        data=source_name(config.data.source),
        partition=partition_name(partition),
        parties=len(partition.columns) if partition.columns else partition.parties,
        encoder=method,
        scaler="",
        defense="none",
        training=f"{features.base}, {features.folds} folds",
        reference=False,
        encoder_said=kind.said_to_share,
    )


def _describe_alignment(config: Config, partition: PartitionChoice, chosen: AlignmentChoice) -> Setting:
    kind = ALIGNMENTS[chosen.method]
    return Setting(
        id=f"{partition.kind}-{chosen.method}-{chosen.algorithm}-{_digest(partition, chosen)}",
        data=source_name(config.data.source),
        partition=partition_name(partition),
        parties=partition.parties,
        encoder=chosen.method + _changed(chosen.options, kind),
        scaler="",
        defense="none",
        training=_rounds_name(chosen.algorithm, chosen.options),
        reference=False,
        encoder_said=kind.said_to_share,
    )


def _describe(
    config: Config, partition: PartitionChoice, preprocessing: Preprocessing, training: Training, defense: DefenseChoice
) -> Setting:
    digest = _digest(partition, preprocessing, training, defense)
    names = [partition.kind, preprocessing.encoder, preprocessing.scaler, training.algorithm]
    names += [] if AGGREGATIONS[training.aggregation] is Plain else [training.aggregation]
    return Setting(
        id="-".join([*names, *(part.name for part in defense.parts), digest]),
        data=source_name(config.data.source),
        partition=partition_name(partition),
        parties=len(config.data.source) if partition.kind == "files" else partition.parties,
        encoder=preprocessing.encoder + _changed(preprocessing.options, ENCODERS[preprocessing.encoder]),
        scaler=preprocessing.scaler + _changed(preprocessing.options, SCALERS[preprocessing.scaler]),
        defense=_defense_name(defense),
        training=_training_name(training),
        reference=not (ENCODERS[preprocessing.encoder].federated and SCALERS[preprocessing.scaler].federated),
        encoder_said=ENCODERS[preprocessing.encoder].said_to_share,
        scaler_said=SCALERS[preprocessing.scaler].said_to_share,
        steps=tuple(step for part in defense.parts for step in _numbers(part)),
    )


def _digest(partition: PartitionChoice, *sections: Section) -> str:
    """Six characters for the values of all sections."""
    parts = [partition.model_dump(mode="json", exclude=partition.unset)]
    pieces = parts + [s.model_dump(mode="json") for s in sections]
    return hashlib.sha256(json.dumps(pieces, sort_keys=True).encode()).hexdigest()[:6]


def source_name(source: str | list[str]) -> str:
    return PurePath(source).name if isinstance(source, str) else f"{len(source)} files"


def partition_name(partition: PartitionChoice) -> str:
    detail = partition.column or (f"{partition.beta:g}" if partition.beta is not None else "")
    if partition.kind == VERTICAL:
        held = " + ".join(str(len(own)) for own in (partition.columns or {}).values())
        detail = f"{f'{held} columns, ' if held else ''}labels at {partition.labels or 'the first'}"
    if partition.kind == SCHEMAS:
        detail = f"overlap {overlap_of(partition):g}"
        detail += f", aliases {PurePath(partition.aliases).name}" if partition.aliases else ""
    return f"{partition.kind} {detail}".strip()


def overlap_of(partition: PartitionChoice) -> float:
    """The share of the features that all parties of a partition with schemas see."""
    return published_overlap(partition.parties) if partition.overlap is None else partition.overlap


def _training_name(t: Training) -> str:
    kind = AGGREGATIONS[t.aggregation]
    protocol = "" if kind is Plain else f", {t.aggregation}{_changed(t.options, kind)}"
    return f"{_rounds_name(t.algorithm, t.options)}{protocol}"


def _rounds_name(algorithm: str, options: Mapping[str, Any]) -> str:
    """What clients compute on how many rows, how often."""
    size, epochs, rounds = options["batch_size"], options.get("local_epochs", 1), options["rounds"]
    batch = "all rows" if size is None else f"B={size}"
    batch += " in expectation (poisson)" if options.get("sampling") == "poisson" else ""
    passes = f", {epochs} local epochs" if epochs > 1 else ""
    return f"{algorithm} {batch}{passes}, {rounds} round{'' if rounds == 1 else 's'}"


def _defense_name(defense: DefenseChoice) -> str:
    return " then ".join(map(_part_name, defense.parts)) or "none"


def _part_name(part: DefenseChoice | DefensePart) -> str:
    """Its name, the values of what has no default, and the options that differ from theirs."""
    kind = DEFENSES[part.name]
    needed = [f"{part.options[o.name]:g}" for o in options_of(kind).values() if o.required]
    return " ".join([part.name, *needed]) + _changed(part.options, kind)


def _numbers(part: DefenseChoice | DefensePart) -> Iterator[tuple[str, float]]:
    """Its parameters that are numbers."""
    for name, value in part.options.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{part.name} {name}", float(value)


def _changed(options: Mapping[str, Any], method: type, beside: Sequence[str] = ()) -> str:
    """The method's options that differ from their defaults and what stands `beside` them, in parentheses; files without
    folder.
    """
    own = [o for o in options_of(method).values() if not o.required and options[o.name] != o.default]
    told = [*(_option(o.name, options[o.name]) for o in own), *beside]
    return f" ({', '.join(told)})" if told else ""


def _option(name: str, value: Any) -> str:
    if name in PLAIN:
        return str(value)
    text = PurePath(value).name if name in ("fasttext_model", "encoder") else value
    return f"{name.replace('_', ' ')} {' '.join(map(str, text)) if isinstance(text, tuple) else text}"
