"""What a run will take, roughly, before anything runs: time, memory and disk by the sizes that decide them.

The sizes are counted (rows, inputs of the network, its weights, messages); what they cost is a few rates, taken on two
shared cores on 2026-11-22. Time is meant within a factor of ten, memory and disk within a factor of three: enough to
see that a run does not fit a machine, or a day.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakledger.attacks.observed.repeats import models_of
from leakledger.audit.case import Case
from leakledger.audit.case_protocol import build_scaler
from leakledger.audit.config import Config
from leakledger.preprocess.alignment.text_encoder import open_encoder
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.codebook import TextEncoder
from leakledger.preprocess.encoders.target import Target
from leakledger.preprocess.features.transformations import BINARY, UNARY
from leakledger.preprocess.scalers import Scaler

MANY = 1000  # distinct values of a column from which on `validate` warns
CODE_COLUMNS = 8  # of a feature under an encoder with codes of its own

TIME_FACTOR, SIZE_FACTOR = 10, 3  # within which estimates are meant
LONGEST_SECONDS = 366 * 86_400.0  # of a run
PROCESS_BYTES = 450e6  # of a process with its libraries
CHECKED = 6  # executions of a protocol beside the audited one, which check that it hides
CASE_SECONDS = 5.0  # preprocessing, scores and controls of a small case
MESSAGE_SECONDS, BYTES_PER_SECOND = 2e-3, 1e8  # to compute, encode and hash one update
OPERATIONS_PER_SECOND = 2e9
STEP_SECONDS = 3e-4  # of one iteration of one restart of an optimising attack on a small network
PORTFOLIO_SHARE = 0.2
VISIT_SECONDS = 2e-4  # of one chain at one cell, with what its rows are sought by
JUDGE_SECONDS = 0.4  # for each labelled feature of the judges
LOOP_MESSAGES = 8
EXCHANGE_SECONDS, CIPHERTEXT_BYTES, PUBLIC_KEY_BYTES = 0.05, 393_400, 493_400  # of 4096 records that are encrypted
RECORDS_OF_CIPHERTEXT = 4096
ENCODER_SECONDS = 5e-9  # of a text, for each weight of its encoder
HEAD_STEP_SECONDS = 1e-3  # of one local step of a head on embeddings
SEARCHED_RECORDS, SEARCHES_OF_CONTROLS = 6_000, 4  # that are encoded for one gradient; gradients of made-up records
LANGUAGE_BYTES = 900e6  # of a process with the libraries of text encoders too

UNITS = (("GiB", 2**30), ("MiB", 2**20))
TIMES = (("days", 86_400), ("h", 3600), ("min", 60))


@dataclass(frozen=True)
class Estimate:
    """Of all cases together: `seconds` with `jobs` at a time, their peak `memory`, `disk` for transcripts, in bytes."""

    seconds: float
    memory: float
    disk: float
    jobs: int

    def in_words(self) -> str:
        return (
            f"Roughly (time within a factor of ten, the rest of three): {_in(self.seconds, TIMES, 's')}, "
            f"{_in(self.memory, UNITS, 'KiB', 1024)} of memory for {self.jobs} at a time, "
            f"{_in(self.disk, UNITS, 'KiB', 1024)} of transcripts."
        )


def estimate(config: Config, todo: Sequence[Case], parties: Mapping[str, Table]) -> Estimate:
    """Of the cases, with the rows of the parties of one of them (of a vertical partition, all have the same ones)."""
    jobs = min(config.audit.jobs or (os.cpu_count() or 1 if config.audit.device == "cpu" else 1), max(1, len(todo)))
    counts = distinct_values(parties)
    rows = sum(len(t) for t in parties.values())
    first = next(iter(parties.values()))
    each = [_estimated(config, c, counts, rows, first) for c in todo]
    return Estimate(
        seconds=sum(e.seconds for e in each) / jobs,
        memory=jobs * max((e.memory for e in each), default=0.0),
        disk=sum(e.disk for e in each),
        jobs=jobs,
    )


def check_fits(planned: Estimate, memory: float | None = None, folder: Path | None = None) -> None:
    """Raises ValueError for what surely does not fit this machine, by its `memory` in bytes (None: asked for), the disk
    that is to have the run's `folder` (None: no transcripts are kept), or a lifetime: where the estimate is beyond it
    even if it is wrong by as much as it says.
    """
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if memory is None else memory
    if planned.memory > SIZE_FACTOR * has:
        raise ValueError(
            f"this takes roughly {_in(planned.memory, UNITS, 'KiB', 1024)} of memory, and this machine has "
            f"{_in(has, UNITS, 'KiB', 1024)}; lower model.hidden, training.rounds, audit.jobs, or pad_to and noise of "
            "an encoder"
        )
    if folder is not None and planned.disk > SIZE_FACTOR * (free := _free(folder)):
        raise ValueError(
            f"this takes roughly {_in(planned.disk, UNITS, 'KiB', 1024)} of transcripts, and the disk of {folder} has "
            f"{_in(free, UNITS, 'KiB', 1024)} left; lower model.hidden, training.rounds or the number of audit.seeds, "
            "or run with --no-transcripts"
        )
    if planned.seconds > TIME_FACTOR * LONGEST_SECONDS:
        raise ValueError(
            f"this takes roughly {_in(planned.seconds, TIMES, 's')}; lower training.rounds, training.local_epochs, the "
            "restarts, iterations, chains or sweeps of attacks, or the number of audit.seeds"
        )


def _free(folder: Path) -> float:
    """Bytes left where a folder is, or will be made; infinite where that is no disk."""
    there = next(p for p in (folder, *folder.absolute().parents) if p.is_dir())
    disk = shutil.disk_usage(there)
    return disk.free if disk.total else inf


def _estimated(config: Config, case: Case, counts: Mapping[str, int], rows: int, table: Table) -> Estimate:
    if case.alignment is not None:
        return _aligned(config, case, rows)
    return _case(config, case, counts, rows, table) if case.features is None else _engineered(case, table)


def distinct_values(parties: Mapping[str, Table]) -> dict[str, int]:
    """How many distinct values each categorical feature has, over all parties."""
    schema = next(iter(parties.values())).schema
    own = {f: np.concatenate([t.frame[f].to_numpy(object) for t in parties.values()]) for f in schema.categorical}
    return {f: int(pd.notna(pd.unique(values)).sum()) for f, values in own.items()}


def many_values(todo: Sequence[Case], parties: Mapping[str, Table]) -> list[str]:
    """A line for each column that an encoder of the cases turns into very many inputs. No value is in it."""
    if not any(_one_hot(c) for c in todo):
        return []
    return [
        f"column {feature!r} has {count} distinct values, each an input of the network where it is one-hot: list it "
        "under drop in a schema where it names a row, or choose an encoder with codes, like rolling-hash"
        for feature, count in distinct_values(parties).items()
        if count >= MANY
    ]


def weights_of(config: Config, case: Case, counts: Mapping[str, int], table: Table) -> tuple[int, int]:
    """Inputs and weights of the network that a case trains."""
    kind = ENCODERS[case.preprocessing.encoder]
    if _one_hot(case):
        columns = sum(counts.values()) + case.setting.parties * len(counts) * _unused(case)
    else:
        columns = len(counts) * (CODE_COLUMNS if issubclass(kind, TextEncoder) else 1)
    inputs = columns + len(table.schema.numeric)
    widths = [inputs, *config.model.hidden, max(1, len(table.schema.classes))]
    return inputs, sum((a + 1) * b for a, b in pairwise(widths))


def _unused(case: Case) -> int:
    """Numbers that a party leaves unused of a feature, on average: what blurs how many values it has."""
    options = case.preprocessing.options
    return int(options.get("pad_to", 1) - 1 + options.get("noise", 0)) // 2


def _one_hot(case: Case) -> bool:
    kind = ENCODERS[case.preprocessing.encoder]
    return case.preprocessing.options.get("style") != "label" and not issubclass(kind, TextEncoder | Target)


def _case(config: Config, case: Case, counts: Mapping[str, int], rows: int, table: Table) -> Estimate:
    inputs, weights = weights_of(config, case, counts, table)
    options, parties = case.training.options, case.setting.parties
    features = len(counts) + len(table.schema.numeric)
    updates = options["rounds"] * max(1, round(options.get("participation", 1) * parties))
    sent = 4.0 * weights * (updates + options["rounds"])  # a model is told to many, and held once
    batch = min(options["batch_size"] or rows, rows / parties)
    trained = updates * (
        batch if case.training.algorithm == "fedsgd" else rows / parties * options.get("local_epochs", 1)
    )
    seconds, size = (parties * x for x in _effort(build_scaler(case.preprocessing)))
    training = updates * MESSAGE_SECONDS + sent / BYTES_PER_SECOND + 6.0 * trained * weights / OPERATIONS_PER_SECOND
    return Estimate(
        seconds=CASE_SECONDS + training + _attacks(config, case, weights, batch, features) + CHECKED * seconds,
        memory=PROCESS_BYTES + sent + 2.0 * size + 9.0 * rows * inputs,  # a byte and two floats for each cell
        disk=sent + size,
        jobs=1,
    )


def _effort(scaler: Scaler) -> tuple[float, float]:
    """What a scaler says that it takes. Raises ValueError where that is none: a plugin may say anything."""
    said: Any = scaler.effort
    numbers = said if isinstance(said, tuple) else ()
    if len(numbers) != 2 or not all(isinstance(x, int | float) and 0 <= x < inf for x in numbers):
        raise ValueError(
            f"the scaler {scaler.name} has an effort that is no pair of seconds and bytes, from 0; mend the plugin, or "
            "choose another scaler"
        )
    return numbers[0], numbers[1]


def _engineered(case: Case, table: Table) -> Estimate:
    """A case of features: each loop sends sketches, and columns where it is useful."""
    assert case.features is not None
    flfe, n, classes = case.features.flfe, len(table.schema.numeric), max(2, len(table.schema.classes))
    pairs = n * n // 2 - n * n // (2 * case.setting.parties)  # of columns of two parties
    found = n * sum(t in UNARY for t in flfe.tried) + pairs * sum(t in BINARY for t in flfe.tried)
    loops = min(found, flfe.max_loops or found)
    exchanged, took = 3 * 8.0 * len(table), 0.0
    if flfe.exchange != "masked":
        ciphertexts = -(-len(table) // RECORDS_OF_CIPHERTEXT)
        exchanged, took = 2 * ciphertexts * CIPHERTEXT_BYTES + 2 * PUBLIC_KEY_BYTES, ciphertexts * EXCHANGE_SECONDS
    sent = loops * (3 * 4.0 * classes * flfe.bins + exchanged)
    learning = 0.0 if case.features.judges == "open" else JUDGE_SECONDS * case.features.judge_samples
    training = loops * (LOOP_MESSAGES * MESSAGE_SECONDS + took) + sent / BYTES_PER_SECOND
    return Estimate(CASE_SECONDS + learning + training, PROCESS_BYTES + 3 * sent, sent, 1)


def _aligned(config: Config, case: Case, rows: int) -> Estimate:
    """A case of aligned schemas: encoding takes the time, of its rows once and of records that are made up."""
    assert case.alignment is not None
    alignment, training, parties = case.alignment.alignment, case.alignment.training, case.setting.parties
    encoder = open_encoder(alignment.encoder)
    weights = (encoder.width + 2) * sum(alignment.hidden)
    sent = 4.0 * weights * training.rounds * (parties + 1)
    steps = training.rounds * parties * MESSAGE_SECONDS
    if training.algorithm == "fedavg":
        steps += training.rounds * training.local_epochs * rows / (training.batch_size or rows) * HEAD_STEP_SECONDS
    victims = parties * len(config.attacks.rounds) if training.algorithm == "fedsgd" else 0
    tried = SEARCHED_RECORDS * (victims + (SEARCHES_OF_CONTROLS if victims else 0))
    encoding = (rows + tried) * ENCODER_SECONDS * encoder.parameters
    return Estimate(CASE_SECONDS + steps + encoding, LANGUAGE_BYTES + 4.0 * encoder.parameters + sent, sent, 1)


def _attacks(config: Config, case: Case, weights: int, batch: float, features: int) -> float:
    """Seconds of optimising and sampling attacks; others are in `CASE_SECONDS`.

    Controls count as much again. A portfolio optimises and samples where its exact attacks have not found the rows; it
    samples under every defense.
    """
    options, use = config.attacks.options, config.attacks.use
    victims = len(config.attacks.rounds) * case.setting.parties
    seconds = 0.0
    if found := options.get("tableak"):
        step = STEP_SECONDS + 12.0 * batch * weights / OPERATIONS_PER_SECOND
        share = 1.0 if "tableak" in use else PORTFOLIO_SHARE
        seconds += 2.0 * share * victims * found["iterations"] * found["restarts"] * step
    if (found := options.get("posterior")) and batch <= found["max_rows"]:
        share = 1.0 if "posterior" in use or case.defense.parts else PORTFOLIO_SHARE
        visits = found["chains"] * found["sweeps"] * batch * features
        seconds += share * (victims + _networks(case, batch, victims, found["together"])) * visits * VISIT_SECONDS
    return seconds


def _networks(case: Case, batch: float, victims: float, most: int) -> float:
    """How many networks are sampled through for so many attacked updates: of each client several at once, instead of
    one for each of them, where its rounds are read together.
    """
    spec = case.training.spec
    whole = spec.algorithm == "fedavg" or spec.batch_size is None
    if not (whole and case.defense.parts and most and spec.rounds > 1):
        return victims
    return case.setting.parties * models_of(spec.rounds, max(1, round(batch)), most)


def _in(amount: float, units: Sequence[tuple[str, int]], least: str, base: int = 1) -> str:
    """The amount with two digits, in the largest unit that it has at least one of."""
    for name, size in units:
        if amount >= size:
            return f"{_two_digits(amount / size)} {name}"
    return f"{_two_digits(amount / base)} {least}"


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):g}"
