"""A whole case as one protocol over plain inputs: preprocessing, training, evaluation."""

from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.views import FeatureLayout, ModelSpec, TrainingSpec
from tests.preprocess.example import SCHEMA


def whole_case(fed, inputs, params):
    """Every client ends with its encoded rows, the server with weights and metrics; all with the layout."""
    tables = {c: fed.local(c, Table.from_plain, inputs[c]) for c in fed.clients}
    encoder, scaler = ENCODERS[params["encoder"]](), SCALERS[params["scaler"]]()
    prepared = prepare(fed, SCHEMA, tables, tables, encoder, scaler)
    spec = ModelSpec(prepared.layout.value.width, 2, (6,), norm=params.get("norm", "none"))
    training = TrainingSpec(**params["training"])
    aggregation = AGGREGATIONS[params.get("aggregation", "plain")](**params.get("options", {}))
    algorithm = ALGORITHMS[training.algorithm]
    trained = train(fed, algorithm, spec, training, prepared.train, aggregation=aggregation)
    metrics = evaluate(fed, spec, trained.model, prepared.test)
    layout = fed.public(FeatureLayout.to_plain, prepared.layout)
    held = {c: fed.local(c, _held_by_client, prepared.train[c], layout, trained.model.get(c)) for c in fed.clients}
    both = fed.local(fed.server, _held_by_server, trained.model.get(fed.server), metrics, layout)
    return {**held, fed.server: both}


def _held_by_client(data, layout, weights):
    return {"rows": data.rows, "labels": data.labels, "layout": layout, "weights": weights}


def _held_by_server(weights, metrics, layout):
    return {"weights": weights, "metrics": metrics, "layout": layout}
