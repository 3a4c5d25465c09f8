"""FedLLM-Align: encoders and ways to write a record as text, beside tables 2 and 3 of the paper.

Three clients who share 60 % of the features, otherwise as in `fedllm_f1`, with each format under each encoder:
`random`, which has learnt nothing, and MiniLM where its package is installed. The weights of the paper's encoders are
not at hand; `published` figures are those of DistilBERT beside every encoder.

`memory` is that of the encoder's parameters in float32. `ms per record` is processor time to embed the first party's
training records. `embedding variance`: the paper gives no formula; here embeddings of these records are scaled to
length one, and it is the sum of the variances of their coordinates, between 0, where all are the same, and 1.
"""

import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.fedllm_data import divided
from leakledger.audit.benchmarks.fedllm_f1 import QUICK, scores
from leakledger.audit.benchmarks.fedllm_methods import aligned
from leakledger.audit.benchmarks.fedllm_task import Task
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.pool import each
from leakledger.preprocess.alignment.fedllm_align import PUBLISHED, Alignment, embed
from leakledger.preprocess.alignment.serialise import FORMATS
from leakledger.preprocess.alignment.text_encoder import MINILM, open_encoder
from leakledger.preprocess.data.impute import fill, filling_of

CLIENTS, OVERLAP, RECORDS = 3, 0.6, 256  # records that are embedded once more, for their time and variance
PUBLISHED_FORMATS = {  # table 3, of DistilBERT; "f1" of the structured format is that of table 2, too
    "structured": {"f1": 0.84, "embedding variance": 0.12},
    "natural": {"f1": 0.82, "embedding variance": 0.18},
    "compact": {"f1": 0.79, "embedding variance": 0.25},
}
PUBLISHED_ENCODER = {"memory": 255.0, "ms per record": 45.0}  # table 2
UNITS = {"memory": "MB", "ms per record": "ms"}


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, encoder and format."""
    encoders = ["random", *(["minilm"] if find_spec(MINILM) and not options.quick else [])]
    for source in options.data or ("fair",):
        for encoder in encoders:
            for form in list(FORMATS)[: 1 if options.quick else None]:
                yield from measured(options, source, encoder, form)


def measured(options: Options, source: str, encoder: str, form: str) -> Iterator[Row]:
    """Every metric of one encoder and format over all seeds."""
    dataset, seeds = dataset_name(source), options.seeds or (1 if options.quick else 5)
    found = list(each(partial(one_seed, options, source, encoder, form), range(seeds), options.jobs))
    setting = {"encoder": encoder, "format": form, "clients": CLIENTS, "overlap": OVERLAP}
    known = {**PUBLISHED_FORMATS[form], **PUBLISHED_ENCODER} if dataset == "framingham" else {}
    for metric in found[0]:
        values = [f[metric] for f in found]
        yield figure("fedllm_text", dataset, setting, metric, values, known.get(metric), UNITS.get(metric, ""))


def one_seed(options: Options, source: str, encoder: str, form: str, seed: int) -> dict[str, float]:
    """What one division of the table gives."""
    parties = divided(options, source, CLIENTS, OVERLAP, seed)
    task = Task(parties, QUICK if options.quick else PUBLISHED, False, seed)
    found = scores(aligned(task, encoder, form))
    client, table = next(iter(parties.train.items()))
    some = fill(table, filling_of(table)).rows(np.arange(min(RECORDS, len(table))))
    start = time.process_time()
    rows = embed(some, parties.schemas[client], Alignment(encoder, form)).encoded.rows
    took = time.process_time() - start
    return {
        **found,
        "embedding variance": variance(rows),
        "memory": 4 * open_encoder(encoder).parameters / 1e6,
        "ms per record": 1000 * took / len(some),
    }


def variance(rows: NDArray[np.float32]) -> float:
    """The total variance of rows (n, width) that are scaled to length one."""
    directions = np.float64(rows) / np.linalg.norm(np.float64(rows), axis=1, keepdims=True)
    return float(directions.var(0).sum())
