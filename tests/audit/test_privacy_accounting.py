"""What a case guarantees: one epsilon over everything that a client sends, or the steps that have none."""

import json
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.config import Config
from leakledger.audit.config_file import config_of
from leakledger.audit.federate import federate, party_tables, whole_table
from leakledger.audit.privacy_accounting import (
    check_declarations,
    planned_accounts,
    privacy_accounts,
    training_rows,
)
from leakledger.audit.privacy_words import NOTHING, privacy_lines, worst
from leakledger.audit.provenance import partitioned
from leakledger.audit.records import PrivacyAccount, PrivacyPart
from leakledger.audit.run import run_audit
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.preprocess.messages import GlobalModel, LocalExtremes, NoisedExtremes
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.noise.columns import noised_extremes
from leakledger.preprocess.options import option
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.scalers.base import shared_fit
from leakledger.preprocess.scalers.federated_minmax import FederatedMinMax, by_places, outermost
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.training.fedsgd import FedSGD
from leakledger.preprocess.views import ModelSpec, TrainingSpec

JOBS = ["student", "farming or unskilled", "white-collar", "skilled", "managerial", "professional"]
DATA = {
    "source": "fair",
    "rows": 400,
    "ranges": {"age": [15, 60], "yrs_married": [0, 30], "children": [0, 8]},
    "domains": {"occupation": JOBS, "occupation_husb": JOBS},
}
NOISED = {"encoder": "server-dictionary", "scaler": "federated-zscore", "encoder_epsilon": 1.0, "scaler_epsilon": 1.0}
DP_SGD = {"name": "example-clipping", "clip_norm": 1.0, "then": [{"name": "gaussian-noise", "sigma": 0.25}]}
CLIENTS = {"name": "client-clipping", "clip_norm": 1.0, "then": [{"name": "gaussian-noise", "sigma": 2.0}]}
POISSON = {"sampling": "poisson", "batch_size": 8, "rounds": 3}
ROWS = [80, 120, 120]


def config(data=DATA, preprocessing=NOISED, defense=DP_SGD, training=POISSON, **audit):
    return Config.model_validate(
        {
            "data": data,
            "partition": {"parties": 3},
            "preprocessing": preprocessing,
            "model": {"hidden": [6]},
            "training": training,
            "defense": defense,
            "attacks": {"use": ["statistics", "plaintext"]},
            "audit": {"seeds": [0], "jobs": 1, "baseline_draws": 2, **audit},
        }
    )


def account(*changes, rows=ROWS, negotiated=(), unit="record", **sections):
    settings = config(**sections)
    case, table = cases(settings)[0], whole_table(settings)
    found = {a.unit: a for a in privacy_accounts(settings, case, table.schema, rows, negotiated)}
    return found[unit]


def test_statistics_and_training_have_one_epsilon_between_the_larger_part_and_their_sum():
    found = account()
    assert found.relation == "add-remove"
    parts = {p.stage: p.epsilon for p in found.parts}
    assert max(parts.values()) < found.epsilon < sum(parts.values())
    assert parts["statistics"] <= 2.0  # two budgets of 1
    assert "per record: epsilon" in found.text
    assert "there or not (add-remove)" in found.text


def test_the_smallest_client_counts_since_its_rows_are_drawn_most_often():
    few, many = account(rows=[20, 500, 500]), account(rows=[500, 500, 500])
    alone = guarantee(GaussianMechanism(2.0, 3, "poisson", 8 / 20), 1e-5).epsilon
    assert few.epsilon > many.epsilon
    assert [p.epsilon for p in few.parts if p.stage == "training"] == [pytest.approx(alone, abs=2e-6)]


def test_a_smaller_delta_a_smaller_budget_and_more_noise_move_epsilon_the_right_way():
    usual = account().epsilon
    assert account(delta=1e-8).epsilon > usual
    assert account(preprocessing={**NOISED, "scaler_epsilon": 0.1}).epsilon < usual
    louder = {**DP_SGD, "then": [{"name": "gaussian-noise", "sigma": 2.5}]}
    assert account(defense=louder).epsilon < usual


@pytest.mark.parametrize(
    ("preprocessing", "sigma", "whose"),
    [
        ({"scaler_epsilon": 1_000.0, "scaler_delta": 1e-5}, 0.25, "statistics"),
        ({"scaler_delta": 1e-5}, 0.001, "statistics and training"),
    ],
)
def test_noise_too_little_for_any_accountant_is_no_epsilon_and_no_failure(preprocessing, sigma, whose):
    """The whole audit ended with an OverflowError."""
    little = {**DP_SGD, "then": [{"name": "gaussian-noise", "sigma": sigma}]}
    training = {"batch_size": 0, "rounds": 3}
    found = account(preprocessing={**NOISED, **preprocessing}, defense=little, training=training)
    assert found.epsilon is None
    (why,) = found.missing
    assert why.startswith(whose)
    assert why.endswith("so little noise that no epsilon can be computed")


def test_hashing_encoders_send_nothing_and_cost_nothing():
    hashed = {"encoder": "rolling-hash", "buckets": 60, "scaler": "federated-zscore", "scaler_epsilon": 1.0}
    assert account(preprocessing=hashed).epsilon < account().epsilon


WITHOUT = {
    "exact values": ({"preprocessing": {**NOISED, "encoder_epsilon": None}}, "server-dictionary adds no noise"),
    "exact moments": ({"preprocessing": {**NOISED, "scaler_epsilon": None}}, "scaler: federated-zscore adds no noise"),
    "own scaling": (
        {"preprocessing": {"encoder": "rolling-hash", "scaler": "local", "buckets": 60}},
        "one record changes how all others look",
    ),
    "own target rates": (
        {"preprocessing": {"encoder": "target", "scaler": "federated-zscore", "scaler_epsilon": 1.0}},
        "one record changes the others",
    ),
    "a list of all values": (
        {
            "preprocessing": {
                "encoder": "rolling-hash",
                "candidates": "public",
                "scaler": "federated-zscore",
                "scaler_epsilon": 1.0,
            }
        },
        "takes the list of all values that parties hold for known",
    ),
    "secure sums": (
        {"preprocessing": {"encoder": "rolling-hash", "scaler": "zscore-sac"}},
        "scaler: zscore-sac adds no noise",
    ),
    "early stopping": ({"training": {**POISSON, "patience": 2}}, "early stopping: train.validation"),
    "imputation": ({"data": {**DATA, "missing": "impute"}}, "imputation: missing values"),
    "noise without clipping": ({"defense": {"name": "gaussian-noise", "sigma": 1.0}}, "noise without clipping"),
    "clipping without noise": ({"defense": {"name": "example-clipping", "clip_norm": 1.0}}, "without noise"),
    "no defense": ({"defense": {"name": "none"}}, "training: nothing is done to updates"),
}  # fmt: skip


def exact_extremes(columns) -> LocalExtremes:
    return LocalExtremes(columns.min(0), columns.max(0))


@dataclass(frozen=True)
class Under(FederatedMinMax):
    """A plugin's scaler, made from one that adds noise."""

    name = "under"


@dataclass(frozen=True)
class Beside(Under):
    """The same, which tells the server the exact numbers beside those under noise."""

    name = "beside"

    def fit(self, fed, columns):
        fed.gather({c: fed.local(c, exact_extremes, x) for c, x in columns.items()}, to=fed.server)
        return super().fit(fed, columns)


def test_a_plugin_that_sends_exact_numbers_beside_noised_ones_has_no_epsilon(monkeypatch):
    """It says of itself, as what it is made from does, that nothing goes without noise."""
    for kind in (Under, Beside):
        monkeypatch.setitem(SCALERS, kind.name, kind)
    under, beside = (account(preprocessing={**NOISED, "scaler": name}) for name in ("under", "beside"))
    assert under.epsilon == account(preprocessing={**NOISED, "scaler": "federated-minmax"}).epsilon
    assert "that under adds the noise that it states: it is a plugin's" in under.outside
    assert beside.epsilon is None
    assert beside.missing == ("preprocessing: clients send minmax.local, which is of no kind that is under noise",)


class Known:
    """Bytes that anybody can draw again, where a party's own coins should be."""

    def __init__(self) -> None:
        self.drawn = np.random.default_rng(0)

    def bytes(self, count):
        return self.drawn.bytes(count)


def extremes_under_known_noise(columns, of) -> NoisedExtremes:
    return noised_extremes(columns, of.declared(), of.scaler_epsilon, of.level, Known())


@dataclass(frozen=True)
class Seeded(Under):
    """Its noise follows from its code, for every client or for the first one alone."""

    first_alone: bool = option(False, help="the others' follows from their coins")

    name = "seeded"

    def _fit_noised(self, fed, columns, ranges, epsilon):
        whose = list(columns)[: 1 if self.first_alone else None]
        told = {c: fed.local(c, partial(extremes_under_known_noise, of=self), columns[c]) for c in whose}
        told |= {
            c: fed.local(c, noised_extremes, columns[c], ranges, epsilon, self.level, fed.key_stream(c))
            for c in columns
            if c not in whose
        }
        received = fed.gather(told, to=fed.server, kind=NoisedExtremes)
        bounds = fed.broadcast(fed.local(fed.server, outermost, *received))
        return shared_fit(fed, columns, fed.public(partial(by_places, ranges), bounds))


@pytest.mark.parametrize("first_alone", [False, True])
def test_a_plugin_whose_noise_does_not_follow_from_a_clients_coins_has_no_epsilon(monkeypatch, first_alone):
    """Whoever has its code subtracts the noise; an epsilon of 2.09 stood there."""
    monkeypatch.setitem(SCALERS, Seeded.name, Seeded)
    found = account(preprocessing={**NOISED, "scaler": "seeded", "first_alone": first_alone})
    assert found.epsilon is None
    assert found.missing == ("preprocessing: the noise on minmax.noised is the same whatever a client's coins are",)


@pytest.mark.parametrize("name", WITHOUT)
def test_a_chain_with_a_step_that_has_no_guarantee_has_no_epsilon_and_says_which_step(name):
    sections, words = WITHOUT[name]
    found = account(**sections)
    assert found.epsilon is None
    assert any(words in step for step in found.missing), found.missing
    assert found.text.startswith("per record: no epsilon: ")


OWN = {
    "own scaling": ({"preprocessing": {"encoder": "rolling-hash", "scaler": "local"}}, "scaler local"),
    "own codes": ({"preprocessing": {"encoder": "local", "scaler": "pooled"}}, "encoder local"),
    "numbers of a ring": ({"preprocessing": {"encoder": "uhe", "scaler": "pooled"}}, "encoder uhe"),
    "own target rates": ({"preprocessing": {"encoder": "target", "scaler": "pooled"}}, "encoder target"),
    "imputation": ({"data": {**DATA, "missing": "impute"}}, "imputation"),
}


@pytest.mark.parametrize("name", OWN)
def test_clipping_row_by_row_bounds_nothing_where_one_record_changes_the_other_rows_of_its_client(name):
    sections, by = OWN[name]
    found = account(**sections)
    assert not [p for p in found.parts if p.stage == "training"]
    assert any(m.startswith("training: rows are clipped one by one") and f"({by})" in m for m in found.missing)
    whole = account(defense=CLIENTS, training={"batch_size": 8, "rounds": 3}, **sections)
    assert [
        p.stage for p in whole.parts if p.stage == "training"
    ]  # a clipped update moves no further, whoever is in it


@pytest.mark.parametrize("encoder", ["pooled", "server-dictionary", "rolling-hash"])
def test_rows_that_are_encoded_by_what_is_told_leave_training_its_epsilon(encoder):
    found = account(preprocessing={"encoder": encoder, "scaler": "federated-zscore"})
    assert [p for p in found.parts if p.stage == "training"]


def test_under_scaling_by_own_rows_one_record_moves_a_clipped_gradient_further_than_two_norms_over_the_rows():
    rows, norm = 100, 1.0
    own = np.random.default_rng(0).normal(50, 10, (rows, 1))
    targets = (own[:, 0] - 50) / 2
    spec = ModelSpec(1, 1, hidden=(), task="regression")
    weights = initial_weights(spec, np.random.default_rng(0))

    def sent(raw):
        scaled = ((raw - raw.mean(0)) / raw.std(0)).astype(np.float32)
        data, drawn = Encoded(scaled, targets), [np.arange(rows)]
        update = FedSGD().client(spec, TrainingSpec(batch_size=None), GlobalModel(weights), data, drawn, norm)
        return np.concatenate([g.ravel() for g in update.gradient.values()])

    other = own.copy()
    other[0] = 1e6
    assert np.linalg.norm(sent(own) - sent(other)) > 10 * 2 * norm / rows


def test_a_schema_that_parties_agree_on_by_messages_has_no_epsilon():
    found = account(negotiated=("kinds", "classes"))
    assert found.epsilon is None
    assert "schema.local" in found.missing[0]


def test_batches_of_a_fixed_size_are_accounted_for_with_another_record_in_place_of_one():
    found = account(training={"batch_size": 8, "rounds": 3})
    assert found.relation == "replace"
    assert found.epsilon > account().epsilon


def test_clipped_clients_have_an_epsilon_only_if_nothing_else_tells_of_all_their_rows():
    hashed = {"encoder": "rolling-hash", "buckets": 60, "scaler": "federated-zscore", "scaler_epsilon": 1.0}
    found = account(unit="client", defense=CLIENTS, preprocessing=hashed)
    assert "hides one record, not all rows of a client" in found.missing[0]
    told = account(unit="client", defense=CLIENTS, training={"algorithm": "fedavg", "rounds": 3}, preprocessing=hashed)
    assert any("train.weights tells how many rows" in m for m in told.missing)
    rows = account(unit="client", defense=CLIENTS, training={"batch_size": 0, "rounds": 3}, preprocessing=hashed)
    assert any("train.gradient tells how many rows" in m for m in rows.missing)
    rowwise = account(unit="client", defense=DP_SGD)
    assert any("not the whole update of a client" in m for m in rowwise.missing)


def test_what_hides_a_client_hides_each_of_its_records():
    found = account(defense=CLIENTS, training={"batch_size": 8, "rounds": 3})
    assert found.relation == "replace"
    assert found.epsilon is not None


def test_missing_bounds_are_one_line_before_anything_runs(tmp_path):
    for data in ({"source": "fair", "rows": 400}, {**DATA, "domains": {}}):
        settings = config(data=data)
        with pytest.raises(ValueError, match="never taken from rows") as error:
            check_declarations(cases(settings), whole_table(settings).schema)
        assert "\n" not in str(error.value)
        with pytest.raises(ValueError, match="never taken from rows"):
            run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("preprocessing.scaler_epsilon", "0", "scaler_epsilon"),
        ("preprocessing.encoder_epsilon", "-1", "encoder_epsilon"),
        ("preprocessing.scaler_delta", "1.0", "scaler_delta"),
        ("audit.delta", "0", "audit.delta"),
        ("audit.delta", "1", "audit.delta"),
        ("defense.clip_norm", "0", "clip_norm"),
    ],
)
def test_a_budget_out_of_range_is_one_line_that_names_the_key(key, value, words):
    with pytest.raises(ValueError, match=words) as error:
        config_of(config().in_force(), [f"{key}={value}"])
    assert "\n" not in str(error.value)


def test_a_run_keeps_the_account_and_the_public_facts_have_the_noise(tmp_path):
    settings = config()
    record = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    kept = {a.unit: a for a in record.cases[0].privacy}
    found = federate(settings, cases(settings)[0], PUBLIC_MASTER)
    assert kept["record"].epsilon == account(rows=[len(t) for t in found.tables.values()]).epsilon
    assert {m.parameters["topic"] for m in found.public.statistics} == {"dictionary.noised", "zscore.noised"}
    rows = json.loads((tmp_path / "run" / "results.json").read_text())["privacy"]
    assert [(r["unit"], r["epsilon"]) for r in rows] == [("record", kept["record"].epsilon), ("client", None)]
    noised = {"zscore.noised", "zscore.noised-total", "dictionary.noised", "dictionary.noised-total"}
    assert not [u for u in record.cases[0].unread if u.topic in noised]  # read, by attacks that passed a control
    assert not [f for f in record.cases[0].findings if "noised" in f.text]


def test_validate_states_the_epsilon_before_anything_runs(tmp_path):
    path = tmp_path / "audit.toml"
    ranges = "{ age = [15, 60], yrs_married = [0, 30], children = [0, 8] }"
    path.write_text(
        f'[data]\nsource = "fair"\nrows = 400\nranges = {ranges}\n[partition]\nparties = 3\n[preprocessing]\n'
        'encoder = "rolling-hash"\nscaler = "federated-zscore"\nscaler_epsilon = 1\n[training]\nsampling = "poisson"\n'
        'rounds = 3\n[defense]\nname = "example-clipping"\nclip_norm = 1.0\n'
        'then = [{ name = "gaussian-noise", sigma = 0.25 }]\n'
    )
    said = CliRunner().invoke(main, ["validate", str(path)])
    assert said.exit_code == 0
    assert "per record: epsilon" in " ".join(said.output.split())
    told = json.loads(CliRunner().invoke(main, ["validate", str(path), "--json"]).output)["privacy"]
    (accounts,) = told.values()
    assert accounts[0]["epsilon"] > 0
    assert accounts[0]["delta"] == 1e-5


def test_the_epsilon_before_a_run_is_that_of_the_seed_that_leaves_a_client_fewest_rows():
    uneven = {"kind": "dirichlet-quantity", "beta": 0.3, "parties": 3, "minimum": 10}
    settings = Config.model_validate({**config(seeds=[0, 1, 2]).in_force(), "partition": uneven})
    todo = cases(settings)
    by_seed = []
    for case in todo:
        parties = party_tables(settings, case)
        rows = [training_rows(settings, len(own)) for own in parties.values()]
        by_seed.append(privacy_accounts(settings, case, next(iter(parties.values())).schema, rows))
    ((planned, _),) = planned_accounts(settings, todo, partitioned(settings, todo)).values()
    assert len({a.epsilon for a, _ in by_seed}) > 1
    assert planned.epsilon == max(a.epsilon for a, _ in by_seed)


def test_rows_that_early_stopping_holds_back_are_drawn_by_no_batch():
    stopping = account(training={**POISSON, "patience": 2, "validation": 0.25}, rows=[80])
    assert stopping.epsilon is None
    fewer = account(rows=[60])
    assert [p for p in stopping.parts if p.stage == "training"] == [p for p in fewer.parts if p.stage == "training"]


def test_training_rows_are_those_that_a_split_leaves():
    settings = config()
    found = federate(settings, cases(settings)[0], PUBLIC_MASTER)
    whole = [len(found.tables[p]) + len(found.test[p]) for p in found.tables]
    assert [training_rows(settings, n) for n in whole] == [len(t) for t in found.tables.values()]


def test_lines_are_one_where_nothing_is_under_noise_and_the_worst_seed_speaks_for_a_setting():
    none = PrivacyAccount("record", "replace", 1e-5, None, missing=("training: nothing",))
    some = [PrivacyAccount("record", "replace", 1e-5, e, "composed") for e in (1.0, 2.0)]
    assert list(privacy_lines({"a": (none,), "b": (none,)})) == [NOTHING]
    assert worst([(a,) for a in some]) == (some[1],)
    assert worst([(some[0],), (none,)]) == (none,)


def test_a_figure_says_that_it_is_not_of_someone_with_several_rows():
    for unit in ("record", "client"):
        assert any("someone with k rows" in o for o in account(unit=unit).outside)


def test_a_delta_that_allows_to_publish_a_row_is_said_beside_the_epsilon():
    for delta in (0.5, 1 / 80, 1 / 120):  # the largest client has most rows to tell
        found = account(delta=delta, rows=[120, 80])
        said = [o for o in found.outside if o.startswith(f"what delta {delta:g} allows")]
        assert len(said) == 1
        assert "one of 120 rows" in said[0]
        assert said[0] in "\n".join(privacy_lines({"a": (found,)}))
    assert not any("allows" in o for o in account(delta=1 / 801, rows=[800, 400]).outside)
    everything = account(delta=0.01, rows=[2, 3], training={"algorithm": "fedavg"}, defense=CLIENTS, unit="client")
    assert any("delta 0.01 allows: telling all rows" in o for o in everything.outside)


def test_no_text_states_less_than_the_epsilon_that_was_found():
    parts = (PrivacyPart("statistics", "counts", 0.009029), PrivacyPart("training", "noise", 4.1e-5))
    stated = PrivacyAccount("record", "replace", 1e-5, 0.009029, "composed", parts)
    whole, *alone = list(privacy_lines({"a": (stated,)}))[1:]
    for line, epsilon in zip([whole, *alone], [0.009029, 0.009029, 4.1e-5], strict=True):
        assert float(line.split("epsilon ")[1].split()[0]) >= epsilon


def test_the_epsilon_of_one_stage_alone_stands_with_its_delta_and_with_what_it_does_not_speak_of():
    part = PrivacyPart("training", "Gaussian noise", 2.5)
    stated = PrivacyAccount("record", "replace", 1e-6, None, "", (part,), ("encoder: counts",), ("held-out rows",))
    *_, alone, outside = privacy_lines({"a": (stated,)})
    assert alone == "    training alone: epsilon 2.5000 at delta 1e-06: Gaussian noise"
    assert outside == "  not in the figures: held-out rows"
