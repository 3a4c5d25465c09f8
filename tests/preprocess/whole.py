"""A whole case as one protocol over plain inputs: preprocessing, training, evaluation."""

from preprocess.data.table import Table
from preprocess.encoders import ENCODERS
from preprocess.pipeline import prepare
from preprocess.scalers import SCALERS
from preprocess.training import ALGORITHMS
from preprocess.training.base import train
from preprocess.training.evaluation import evaluate
from preprocess.views import ModelSpec, TrainingSpec
from tests.preprocess.example import SCHEMA


def whole_case(fed, inputs, params):
    """Every client ends with its encoded rows, the server with weights and metrics; all with the layout."""
    tables = {c: fed.local(c, Table.from_plain, inputs[c]) for c in fed.clients}
    encoder, scaler = ENCODERS[params["encoder"]](), SCALERS[params["scaler"]]()
    prepared = prepare(fed, SCHEMA, tables, tables, encoder, scaler)
    spec = ModelSpec(prepared.layout.value.width, 2, (6,))
    training = TrainingSpec(**params["training"])
    trained = train(fed, ALGORITHMS[training.algorithm], spec, training, prepared.train)
    metrics = evaluate(fed, spec, trained.weights, prepared.test)
    layout = prepared.layout.value.to_plain()
    held = {
        c: fed.local(c, lambda d: {"rows": d.rows, "labels": d.labels, "layout": layout}, prepared.train[c])
        for c in fed.clients
    }
    both = fed.local(fed.server, lambda w, m: {"weights": w, "metrics": m, "layout": layout}, trained.weights, metrics)
    return {**held, fed.server: both}
