"""The signs of what docs/findings.md states of every encoder and scaler, on fewer rows and one seed.

An encoder is played with the `local` scaler and a scaler with the `target` encoder: neither sends anything.
"""

from pathlib import Path

import pytest

from leakledger.audit.benchmarks.base import Options, kept
from leakledger.audit.benchmarks.base import markdown as as_markdown
from leakledger.audit.benchmarks.transcripts import methods, settings
from leakledger.audit.benchmarks.transcripts_claims import told_to_clients
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.leakage import leakage_table
from leakledger.audit.records import HELD_OUT
from leakledger.audit.run import run_case
from leakledger.audit.summary import scores
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.preprocess.registered import IN_THE_CLEAR

ROOT = Path(__file__).parents[2]
MOMENTS = {"count", "mean", "std"}
EXTREMES = {"minimum", "maximum"}
VALUES = {"vocabulary", "membership"}
INTERSECTIONS = {"dh-psi", "apsi", "otmp-psi"}
SAC = {  # scaler options -> what the server gets whole
    ("proportional", "relay"): MOMENTS,
    ("proportional", "sealed"): set(),
    ("proportional", "direct"): set(),
    ("ring", "relay"): MOMENTS,
    ("ring", "sealed"): set(),
    ("ring", "direct"): set(),
}
WHOLE = {  # what the server gets whole, of what it gets whole nothing else counts
    "pooled": {"vocabulary", "membership", "size"},
    "local": {"size"},
    "server-dictionary": {"vocabulary", "membership", "size"},
    "uhe": set(),
    "dh-psi": {"membership"},  # of parties whose requests are as long as all declared values: they hold each
    "apsi": {"membership"},
    "otmp-psi": set(),
    "bytes-norm": {"count"},
    "mod-norm": {"count", "size"},
    "rolling-hash": set(),
    "fasttext": set(),
    "target": set(),
}
WHOLE_SCALER = {
    "pooled": MOMENTS | EXTREMES,
    "local": set(),
    "federated-minmax": EXTREMES,
    "federated-zscore": MOMENTS,
    "federated-robust": EXTREMES | {"count"},
    "federated-yeo-johnson": MOMENTS | EXTREMES | {"quantile"},
}
SILENT = ("local", "target", "rolling-hash", "fasttext", "pooled", "server-dictionary", "bytes-norm")  # to clients


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    """Runs one method, once: the case's record, and (adversary, asset) -> the best score."""
    done = {}

    def run(**method):
        key = tuple(sorted(method.items()))
        if key not in done:
            config = settings(Options(quick=True), "fair", method)
            record = run_case(config, cases(config)[0], tmp_path_factory.mktemp("run"), PUBLIC_MASTER)
            done[key] = (
                record,
                {
                    (f.adversary, f.asset): f.score
                    for f in leakage_table([record], scores([record]))
                    if f.score and f.asset not in HELD_OUT  # what evaluation tells is no matter of a method
                },
            )
        return done[key]

    return run


def encoder(play, name, **options):
    return play(encoder=name, scaler="local", **options)


def scaler(play, name, **options):
    return play(encoder="target", scaler=name, **options)


def whole(table, adversary):
    """The assets that this kind of adversary gets whole of every party."""
    return {
        asset for (kind, asset), s in table.items() if kind == adversary and s.value == 1 and s.advantage in (1, None)
    }


def learnt(table, adversary):
    """The assets of which it gets anything."""
    return {asset for (kind, asset), s in table.items() if kind == adversary and (s.advantage or 0) > 0}


def shown(table, adversary):
    """The assets of which it gets anything that is no luck."""
    return {
        asset
        for (kind, asset), s in table.items()
        if kind == adversary and (s.value == 1 or (s.advantage_low is not None and s.advantage_low > 0))
    }


def values(record, attack, observers, metric):
    return [t.value for t in record.trials if (t.attack, t.observers, t.metric) == (attack, observers, metric)]


def sizes(record, *observers):
    """The parties of whose dictionaries all sizes are claimed exactly and rightly."""
    return {
        t.victim
        for t in record.trials
        if (t.attack, t.observers, t.metric, t.value) == ("ring_size", observers, "size", 1)
    }


def checks(record, *observers):
    return {f.check for f in record.findings if f.observers == observers}


def test_every_encoder_and_every_scaler_is_played_and_has_a_sign_here():
    played = list(methods())
    assert {m["encoder"] for m in played if m["scaler"] == "local"} == set(ENCODERS) == set(WHOLE)
    assert (
        {m["scaler"] for m in played if m["encoder"] == "target"} == set(IN_THE_CLEAR) == {*WHOLE_SCALER, "zscore-sac"}
    )
    assert {(m["sharing"], m["route"]) for m in played if m["scaler"] == "zscore-sac"} == set(SAC)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_an_encoder_tells_the_server_whole(play, name):
    _, table = encoder(play, name)
    assert whole(table, "server") == WHOLE[name]


@pytest.mark.parametrize("name", sorted(WHOLE_SCALER))
def test_what_a_scaler_tells_the_server_whole_and_no_client_anything(play, name):
    _, table = scaler(play, name)
    assert whole(table, "server") == WHOLE_SCALER[name]
    assert shown(table, "one client") == shown(table, "2 clients") == set()


@pytest.mark.parametrize(("sharing", "route"), sorted(SAC))
def test_secure_sums_tell_the_server_all_on_an_open_relay_however_they_are_shared_and_else_nothing(
    play, sharing, route
):
    record, table = scaler(play, "zscore-sac", sharing=sharing, route=route)
    assert whole(table, "server") == learnt(table, "server") == SAC[sharing, route]
    assert ("parts-not-hiding" in checks(record, "P1", "P2")) is (sharing == "proportional")


@pytest.mark.parametrize("route", ["relay", "sealed", "direct"])
def test_no_client_makes_a_claim_about_uniform_parts(play, route):
    _, table = scaler(play, "zscore-sac", sharing="ring", route=route)
    assert {kind for kind, _ in table} <= {"server"}


def told(**method):
    """What single clients' claims say beside the truth."""
    config = settings(Options(quick=True), "fair", method)
    return told_to_clients(config, cases(config)[0])


def test_a_proportional_part_tells_one_client_the_sign_and_the_size_within_a_factor():
    found = told(encoder="target", scaler="zscore-sac", route="sealed")
    assert len(found.ratios) == len(found.held) == 20  # five clients, four others
    assert max(found.ratios) < 20
    assert sum(found.held) >= 100 * 15
    assert found.signs
    assert all(found.signs)


def test_uniform_parts_leave_one_client_no_bounds():
    found = told(encoder="target", scaler="zscore-sac", sharing="ring", route="sealed")
    assert found.ratios == found.signs == []


def test_numbers_in_order_tell_a_client_of_an_intersection_who_holds_values_that_it_lacks():
    areas = told(encoder="dh-psi", scaler="local").lacked
    assert len(areas) >= 5
    assert sum(areas) / len(areas) > 0.6
    assert told(encoder="uhe", scaler="local").lacked == []


@pytest.mark.parametrize("name", SILENT)
def test_clients_learn_nothing_from_encoders_that_send_them_nothing_of_others(play, name):
    _, table = encoder(play, name)
    assert shown(table, "one client") == shown(table, "2 clients") == set()


@pytest.mark.parametrize("name", ["uhe", *sorted(INTERSECTIONS)])
def test_the_second_of_the_ring_knows_the_first_ones_sizes_and_neighbours_those_between_them(play, name):
    record, _ = encoder(play, name)
    assert "P1" in sizes(record, "P2")
    assert "P3" in sizes(record, "P2", "P4")
    if name == "uhe":
        assert "P3" not in sizes(record, "P5")


@pytest.mark.parametrize("name", sorted(INTERSECTIONS))
def test_an_intersection_tells_clients_who_holds_what_and_the_server_values_by_sizes_alone(play, name):
    _, table = encoder(play, name)
    assert learnt(table, "one client") >= VALUES
    assert learnt(table, "2 clients") >= VALUES
    # Of parties whose requests are as long as all declared values it knows these, and guesses at the rest of theirs.
    assert learnt(table, "server") & VALUES == ({"vocabulary"} if name != "otmp-psi" else set())


@pytest.mark.parametrize("name", sorted(INTERSECTIONS))
def test_two_clients_with_all_values_between_them_know_every_other_dictionary(play, name):
    record, _ = encoder(play, name)
    assert values(record, "membership", ("P1", "P5"), "auc") == [1.0] * 3


def test_counts_and_sizes_of_all_clients_are_in_the_sums_of_modulo_norm_on_an_open_relay(play):
    record, table = encoder(play, "mod-norm")
    assert values(record, "statistics", ("server",), "size") == [1.0] * 5
    assert "size" not in whole(table, "one client")


def test_a_shared_target_encoding_tells_the_server_all_and_clients_who_holds_what(play):
    _, table = encoder(play, "target", exchange="shared")
    assert whole(table, "server") >= {"vocabulary", "membership", "count", "target_rate"}
    assert learnt(table, "one client") >= {"membership"}
    assert encoder(play, "target")[1] == {}


def test_a_server_that_adds_up_plain_summaries_knows_them_all(play):
    for record, _ in (
        scaler(play, "federated-zscore"),
        scaler(play, "federated-minmax"),
        encoder(play, "server-dictionary"),
    ):
        assert "plaintext-told" in checks(record, "server")


BLURRED = {"bytes-norm": 0.1}  # values that differ in their last bytes have one code in float32; five clusters scatter


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in WHOLE if n != "rolling-hash"])
def test_a_gradient_gives_the_server_whole_records_whatever_the_encoder_tells_it(name, tmp_path):
    plain = settings(Options(seeds=1), "fair", {"encoder": name, "scaler": "local"}).in_force()
    plain["data"]["rows"], plain["training"][0]["batch_size"] = 500, 2
    plain["attacks"]["use"], plain["audit"]["observers"] = ["portfolio"], ["server"]
    config = Config.model_validate(plain)
    record = run_case(config, cases(config)[0], tmp_path, PUBLIC_MASTER)
    (records,) = (f.score for f in leakage_table([record], scores([record])) if f.asset == "records")
    assert records.low > 0
    assert records.advantage > BLURRED.get(name, 0.75)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks" / "results").glob("transcripts-*.json")), ids=lambda p: p.stem
)
def test_the_page_has_the_tables_that_the_command_prints_from_the_kept_rows(path):
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    tables = as_markdown("transcripts", kept(path, "transcripts")).split("\n\n")
    assert len(tables) == 4  # a line above each
    assert all(table in page for table in tables)
