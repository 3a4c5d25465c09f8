import re
import tomllib
from pathlib import Path

import pytest

from leakledger.audit.case import cases
from leakledger.audit.gate.plan import gate_needs, units
from leakledger.audit.gate.policy import PolicyError, policy_of, read_policy
from tests.audit.example import config
from tests.audit.gate.made import baseline, record


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gat]", "did you mean 'gate'"),
        ("[gate]\nalhpa = 0.1", "gate.alhpa: unknown key (did you mean 'alpha'?)"),
        ("[gate]\nalpha = 2", "gate.alpha"),
        ("[[leakage]]\nassets = ['record']", "did you mean 'records'"),
        ("[[leakage]]\nadversary = 'serverr'", "no kind of adversary"),
        ("[[leakage]]\nceiling = 1.0", "leakage[1].ceiling"),
        ("[[leakage]]\nfloor = 0.2\nmargin = 0.1", "floor 0.2 must be below margin 0.1"),
        ("[[utility]]\nmargin = 0.1", "utility[1].metric"),
        ("[[utility]]\nmetric = 'aurc'", "did you mean 'auroc'"),
        ("[[utility]]\nmetric = 'auroc'\nmargin = 1.0", "margin 1 is no less than all that AUROC can lose"),
        ("[findings]\nforbid = 'all'", "findings.forbid"),
        ("[findings]\nallow = ['stated', 'plaintxt-told']", "findings.allow[2]: 'plaintxt-told' is no check"),
        ("[findings]\nallow = ['Plaintext-Told']", "did you mean 'plaintext-told'"),
        ("[findings]\nallow = ['record']", "did you mean 'records'"),
        ("[[leakage]]\nmargin = nan", "leakage[1].margin"),
        ("leakage = 3", "leakage"),
        ("not toml", "cannot be read as TOML"),
        ("a = " + "[" * 100_000, "cannot be read as TOML"),
        (f"a = {'9' * 5000}", "cannot be read as TOML"),
    ],
)
def test_a_bad_policy_is_one_line_that_says_what_and_where(tmp_path, text, said):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(PolicyError) as refused:
        read_policy(path)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_an_error_may_have_any_margin():
    assert policy_of({"utility": [{"metric": "mae", "margin": 20.0}]}).utility[0].margin == 20


def test_every_check_of_an_attack_and_every_asset_can_be_allowed():
    names = ["masks-reused", "one-mask", "stated", "records"]
    assert policy_of({"findings": {"allow": names}}).findings.allow == names


def test_a_missing_policy_is_named(tmp_path):
    with pytest.raises(PolicyError, match="no such file"):
        read_policy(tmp_path / "none.toml")


@pytest.mark.parametrize(("clusters", "checks"), [(4, 1), (5, 30)])
def test_a_gate_that_can_never_fail_is_refused(clusters, checks):
    policy = policy_of({"leakage": [{"name": f"g{k}"} for k in range(checks)]})
    with pytest.raises(PolicyError, match="fail"):
        list(gate_needs(policy, clusters, clusters))


@pytest.mark.parametrize(
    ("use", "named", "clusters"),
    [
        (["span"], {}, 2),
        (["span", "plaintext"], {}, 6),
        (["span", "plaintext"], {"assets": ["records"]}, 2),
        (["span", "plaintext"], {"assets": ["records", "vocabulary"]}, 6),
    ],
)
def test_a_gate_of_rows_alone_has_one_cluster_to_a_seed_where_updates_are_added_up(use, named, clusters):
    """It was said to have one for each party, and was not refused, though none of its checks could have failed."""
    settings = config(
        attacks={"use": use, "rounds": [0]},
        training={"aggregation": "secure-aggregation"},
        audit={"seeds": [0, 1]},
        partition={"kind": "iid", "parties": 3},
    )
    assert units(settings, cases(settings), policy_of({"leakage": [named]})) == clusters


def test_a_newcomer_is_told_how_much_five_clusters_can_decide():
    policy = policy_of({"leakage": [{"margin": 0.3}]})
    assert "5 clusters can fail 10 comparisons at once; 100 take 7." in next(gate_needs(policy, 5, 5))


def test_the_clusters_that_a_pass_needs_are_printed_and_follow_the_baseline():
    policy = policy_of({"leakage": [{"margin": 0.05, "ceiling": 0.1}], "utility": [{"metric": "f1"}]})
    most, regression, others, ceiling, utility = gate_needs(policy, 12, 12)
    assert most.startswith("12 clusters can fail 687,708 comparisons at once.")
    assert "takes 27 clusters (assumed scatter 0.1), this configuration has 12" in regression
    assert "of other seeds it takes 59 seeds or more, this configuration has 12." in others
    assert "takes 29 seeds" in ceiling
    assert utility.startswith("F1: a pass below margin")
    wild = baseline(record([0.0, 0.9] * 6))
    assert "the largest of the baseline" in list(gate_needs(policy, 12, 12, wild))[1]


ROOT = Path(__file__).parents[3]


def examples():
    """(policies, configurations) that pages show."""
    texts = [page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]]
    blocks = [tomllib.loads(b) for text in texts for b in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)]
    return (
        [policy_of(b) for b in blocks if {"leakage", "findings"} & b.keys()],
        [b for b in blocks if "preprocessing" in b and "seeds" in b.get("audit", {})],
    )


def test_the_policy_to_start_from_guards_utility():
    policies, _ = examples()
    assert len(policies) == 2
    assert all(p.utility for p in policies)


def missing(policy, seeds):
    """What the plan says that so many seeds are too few for, beside a baseline of the same seeds."""
    told = gate_needs(policy, seeds, seeds)
    return [line for line in told if "this configuration has" in line and "of other seeds" not in line]


def test_the_policies_of_the_pages_and_of_the_example_can_pass_with_the_seeds_that_stand_beside_them():
    (start, keys), (configuration, *_) = examples()
    assert missing(start, len(configuration["audit"]["seeds"])) == []
    said = re.search(r"this one takes (\d+) seeds", (ROOT / "docs" / "gate.md").read_text(encoding="utf-8"))
    assert missing(keys, int(said[1])) == []
    assert missing(keys, int(said[1]) - 1)
    example = ROOT / "examples" / "regression"
    seeds = tomllib.loads((example / "audit.toml").read_text(encoding="utf-8"))["audit"]["seeds"]
    assert missing(read_policy(example / "policy.toml"), len(seeds)) == []
