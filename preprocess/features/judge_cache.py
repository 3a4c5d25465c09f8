"""Trained judges in a file, under the hash of everything that they follow from: settings, corpus and program."""

import io
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import numpy as np

from leakledger.preprocess.atomic_file import atomic_file
from leakledger.preprocess.features import (
    judge_corpus,
    judge_training,
    judges,
    model_evaluation,
    sketch,
    transformations,
)
from leakledger.preprocess.features.judge_corpus import CorpusTable
from leakledger.preprocess.features.judge_training import JudgeTraining, Progress, train_judges
from leakledger.preprocess.features.judges import Judges, judges_from_plain, judges_to_plain
from leakledger.preprocess.wire import encode

PROGRAM = (judge_corpus, judge_training, judges, model_evaluation, sketch, transformations)


def trained_judges(
    settings: JudgeTraining, tables: Sequence[CorpusTable], folder: Path | None = None, progress: Progress | None = None
) -> Judges:
    """The judges of these settings and tables: from `folder`, where they are kept, or trained and kept there.

    Raises ValueError for a file there that holds no judges; nothing in a file is ever run.
    """
    path = folder and folder / f"judges-{content_hash(settings, tables)}.npz"
    if path is not None and path.is_file():
        return load(path)
    found, _ = train_judges(settings, tables, progress)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, found)
    return found


def content_hash(settings: JudgeTraining, tables: Sequence[CorpusTable]) -> str:
    """Of settings, tables and the code that makes judges of them."""
    content = [[t.name, t.columns, t.labels] for t in tables]
    code = [Path(m.__file__ or "").read_bytes() for m in PROGRAM]
    return sha256(encode([asdict(settings), content, code])).hexdigest()[:32]


def save(path: Path, found: Judges) -> None:
    buffer = io.BytesIO()
    plain = {f"{how}/{name}": w for how, weights in judges_to_plain(found).items() for name, w in weights.items()}
    np.savez(buffer, **plain)
    with atomic_file(path) as file:
        file.write(buffer.getvalue())


def load(path: Path) -> Judges:
    """The judges of a file that `save` wrote. Raises ValueError for any other."""
    plain: dict[str, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]] = {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for key in arrays.files:
                how, _, name = key.partition("/")
                plain.setdefault(how, {})[name] = np.asarray(arrays[key], np.float32)
        return judges_from_plain(plain)
    except Exception as error:
        raise ValueError(f"{path}: holds no judges ({error}); remove it, and they are trained again") from None
