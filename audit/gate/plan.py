"""What a gate takes, said before anything runs: clusters, and whether it can fail at all."""

from collections.abc import Iterator, Sequence

from leakledger.audit.case import Case
from leakledger.audit.clusters import SEEDS
from leakledger.audit.config import Config
from leakledger.audit.gate.baseline import Baseline
from leakledger.audit.gate.differences import Sample, clusters_needed, enough_to_fail, smallest_p
from leakledger.audit.gate.levels import levels
from leakledger.audit.gate.parts import SHARE
from leakledger.audit.gate.policy import Policy, PolicyError
from leakledger.audit.records import metric_title, plural
from leakledger.audit.verdicts.ceilings import fewest
from leakledger.audit.verdicts.plan import clusters_of_seed
from leakledger.audit.verdicts.significance import FEWEST

MANY = 100  # comparisons: about what one entry is with four parties and three attacks


def units(config: Config, todo: Sequence[Case], policy: Policy) -> int:
    """The clusters that count as independent in each setting: seeds from five on, else those of the question that has
    most, of the assets that the policy names.
    """
    seeds, named = len(config.audit.seeds), {asset for g in policy.leakage for asset in g.assets}
    if seeds >= SEEDS:
        return seeds
    of_seed = [
        max((n for asset, n in clusters_of_seed(config, c).items() if asset in named), default=c.setting.parties)
        for c in todo
    ]
    return seeds * min(of_seed, default=0)


def gate_needs(policy: Policy, clusters: int, seeds: int, baseline: Baseline | None = None) -> Iterator[str]:
    """What the policy takes, one sentence each. Raises PolicyError for a gate that can never fail with so many
    clusters.
    """
    family = len(policy.leakage) + len(policy.utility)
    _can_fail(policy, clusters, family)
    yield _at_once(policy, clusters)
    scatter, whence = _scatter(policy, baseline)
    for k, g in enumerate(policy.leakage, 1):
        name = g.name or f"leakage[{k}]"
        if g.regression is not False:
            yield _planned(f"{name}: a pass below margin {g.margin:g}", scatter, g.margin, policy, clusters, whence)
            least = fewest(g.margin, policy.gate.alpha)
            few = f", this configuration has {seeds}" if seeds < least else ""
            yield f"{name}: beside a baseline of other seeds it takes {plural(least, 'seed')} or more{few}."
        if g.ceiling is not None:
            least = max(fewest(g.ceiling, policy.gate.alpha), SEEDS)
            short = f", this configuration has {plural(seeds, 'seed')}" if seeds < least else ""
            yield f"{name}: a pass below ceiling {g.ceiling:g} takes {plural(least, 'seed')} without any gain{short}."
    for u in policy.utility:
        words = f"{u.name or metric_title(u.metric)}: a pass below margin {u.margin:g}"
        yield _planned(words, policy.gate.sd, u.margin, policy, clusters, f"assumed scatter {policy.gate.sd:g}")


def _can_fail(policy: Policy, clusters: int, family: int) -> None:
    if clusters < FEWEST:
        raise PolicyError(
            f"the gate can never fail nor pass on {plural(clusters, 'cluster')} per setting; from {FEWEST} on it "
            "can: add seeds"
        )
    if family * smallest_p(clusters) > policy.gate.alpha:
        raise PolicyError(
            f"{plural(clusters, 'cluster')} can fail none of {plural(family, 'check')} at alpha {policy.gate.alpha:g}; "
            f"{enough_to_fail(family, policy.gate.alpha)} can: add seeds or join checks"
        )


def _at_once(policy: Policy, clusters: int) -> str:
    """How much so few clusters can decide."""
    alpha = policy.gate.alpha * (1 - SHARE)
    most = int(alpha / smallest_p(clusters))
    several = f"; {MANY} take {enough_to_fail(MANY, alpha)}" if most < MANY else ""
    return (
        f"{plural(clusters, 'cluster')} can fail {plural(most, 'comparison')} at once{several}. An entry of "
        "[[leakage]] is one for each setting, adversary, thing to learn and attack that claims anything of it, beside "
        "single parties and columns."
    )


def _planned(words: str, scatter: float, margin: float, policy: Policy, have: int, whence: str) -> str:
    needed = clusters_needed(scatter, margin, policy.gate.alpha, policy.gate.power)
    takes = "more clusters than any run has" if needed is None else plural(needed, "cluster")
    short = f", this configuration has {plural(have, 'cluster')}" if needed is None or have < needed else ""
    return f"{words} with power {policy.gate.power:.0%} takes {takes} ({whence}){short}."


def _scatter(policy: Policy, baseline: Baseline | None) -> tuple[float, str]:
    """The scatter of a difference: twice the variance of the baseline's own clusters, if both runs scatter alike and
    apart; the largest over its series.
    """
    if baseline is None:
        return policy.gate.sd, f"assumed scatter {policy.gate.sd:g}"
    found = [policy.gate.sd]
    for m in baseline.snapshot.measures:
        shares, _ = levels(m, m)
        sample = Sample.of(list(shares.values()), [seed for seed, _, _ in shares])
        if len(sample.units) >= FEWEST:
            found.append(2**0.5 * float(sample.units.values.std(ddof=1)))
    return max(found), f"scatter {max(found):.2f}, the largest of the baseline" if len(found) > 1 else "assumed scatter"
