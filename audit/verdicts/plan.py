"""What a verdict takes, said before anything runs."""

from collections.abc import Iterator, Sequence

from leakledger.attacks import ATTACKS
from leakledger.audit.case import Case
from leakledger.audit.clusters import SEEDS
from leakledger.audit.config import Config
from leakledger.audit.records import plural
from leakledger.audit.verdicts.ceilings import fewest
from leakledger.audit.verdicts.policy import Policy, policy_of
from leakledger.audit.verdicts.significance import FEWEST


def verdicts_need(config: Config, todo: Sequence[Case]) -> Iterator[str]:
    """What the verdicts of these cases can and cannot say."""
    seeds = len(config.audit.seeds)
    fewest_clusters = min((c.setting.parties for c in todo), default=0) * seeds
    yield from needs(policy_of(config.in_force()), seeds, fewest_clusters)
    trained = max((c.training.spec.rounds for c in todo if not c.features and not c.alignment), default=0)
    if any("records" in ATTACKS[a].asset for a in config.attacks.use) and len(config.attacks.rounds) < trained:
        yield (
            f"attacks.rounds has {len(config.attacks.rounds)} of up to {trained} rounds, and that no row leaks takes "
            "every one; a leak may be found in any."
        )


def needs(policy: Policy, seeds: int, clusters: int) -> Iterator[str]:
    """What these many seeds, with so many clusters in all for each setting, can and cannot show, one sentence each."""
    least = max(fewest(policy.ceiling, policy.alpha), SEEDS)
    if clusters < FEWEST:
        yield (
            f"{plural(clusters, 'cluster')} per setting cannot show a leak in the mean, only one that needs no "
            f"statistics; from {FEWEST} on they can."
        )
    if seeds < least:
        yield (
            f'"No leak above {policy.ceiling:g}" needs at least {least} seeds; audit.seeds has {seeds}, '
            "so where nothing leaks this audit will end inconclusive."
        )
