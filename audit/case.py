"""Cases: what a configuration asks for, spelled out, each with a stable name."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from audit.config import Config, DefenseChoice, Partition, Preprocessing, Training
from audit.records import Setting
from preprocess.encoders import ENCODERS, Encoder
from preprocess.scalers import SCALERS, Scaler

CANDIDATES = {"dictionary": "candidates"}  # the option of an encoder that a configuration sets under another name
PLAIN = ("style", "columns", "sharing")  # options whose values speak for themselves


@dataclass(frozen=True)
class Case:
    """One setting with one seed: the parts of the configuration that it uses."""

    setting: Setting
    seed: int
    partition: Partition
    preprocessing: Preprocessing
    training: Training
    defense: DefenseChoice

    @property
    def id(self) -> str:
        return f"{self.setting.id}-seed{self.seed}"


def cases(config: Config) -> list[Case]:
    """Every combination, seeds innermost. Raises ValueError when two of them are the same."""
    settings = list(_settings(config))
    if repeated := [name for name, n in Counter(parts[0].id for parts in settings).items() if n > 1]:
        raise ValueError(f"the configuration asks for {repeated[0]} more than once")
    if len(set(config.audit.seeds)) < len(config.audit.seeds):
        raise ValueError(f"audit.seeds repeats a seed: {config.audit.seeds}")
    return [
        Case(s, seed, part, pre, train, guard) for s, part, pre, train, guard in settings for seed in config.audit.seeds
    ]


def _settings(config: Config) -> Iterator[tuple[Setting, Partition, Preprocessing, Training, DefenseChoice]]:
    for partition in config.partition:
        for preprocessing in config.preprocessing:
            for defense in config.defense:
                for training in config.training:
                    setting = _describe(config, partition, preprocessing, training, defense)
                    yield setting, partition, preprocessing, training, defense


def _describe(
    config: Config, partition: Partition, preprocessing: Preprocessing, training: Training, defense: DefenseChoice
) -> Setting:
    pieces = [p.model_dump(mode="json") for p in (partition, preprocessing, training, defense)]
    digest = hashlib.sha256(json.dumps(pieces, sort_keys=True).encode()).hexdigest()[:6]
    names = [partition.kind, preprocessing.encoder, preprocessing.scaler, training.algorithm]
    return Setting(
        id="-".join([*(names if defense.name == "none" else [*names, defense.name]), digest]),
        data=source_name(config.data.source),
        partition=partition_name(partition),
        parties=len(config.data.source) if partition.kind == "files" else partition.parties,
        encoder=preprocessing.encoder + _options(preprocessing, ENCODERS[preprocessing.encoder]),
        scaler=preprocessing.scaler + _options(preprocessing, SCALERS[preprocessing.scaler]),
        defense=defense.name if defense.sigma is None else f"{defense.name} {defense.sigma:g}",
        training=_training_name(training),
        reference=not (ENCODERS[preprocessing.encoder].federated and SCALERS[preprocessing.scaler].federated),
        encoder_said=ENCODERS[preprocessing.encoder].said_to_share,
        scaler_said=SCALERS[preprocessing.scaler].said_to_share,
    )


def source_name(source: str | list[str]) -> str:
    return PurePath(source).name if isinstance(source, str) else f"{len(source)} files"


def partition_name(partition: Partition) -> str:
    detail = partition.column or (f"{partition.beta:g}" if partition.beta is not None else "")
    return f"{partition.kind} {detail}".strip()


def _training_name(t: Training) -> str:
    batch = "all rows" if t.batch_size is None else f"B={t.batch_size}"
    epochs = f", {t.local_epochs} local epochs" if t.local_epochs > 1 else ""
    return f"{t.algorithm} {batch}{epochs}, {t.rounds} round{'' if t.rounds == 1 else 's'}"


def _options(preprocessing: Preprocessing, method: type[Encoder] | type[Scaler]) -> str:
    """The options that the method has and that differ from their defaults, in parentheses; files without folder."""
    own = {CANDIDATES.get(name, name) for name in method.__dataclass_fields__}
    changed = [
        (name, getattr(preprocessing, name))
        for name, field in Preprocessing.model_fields.items()
        if name in own and getattr(preprocessing, name) != field.get_default(call_default_factory=True)
    ]
    return f" ({', '.join(_option(name, value) for name, value in changed)})" if changed else ""


def _option(name: str, value: Any) -> str:
    if name in PLAIN:
        return str(value)
    text = PurePath(value).name if name == "fasttext_model" else value
    return f"{name.replace('_', ' ')} {' '.join(text) if isinstance(text, tuple) else text}"
