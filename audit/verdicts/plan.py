"""What a verdict takes, said before anything runs."""

from collections.abc import Iterator, Sequence

from leakledger.attacks import ATTACKS
from leakledger.audit.adversaries import together
from leakledger.audit.case import Case
from leakledger.audit.clusters import SEEDS
from leakledger.audit.config import Config
from leakledger.audit.leakage import SERVER
from leakledger.audit.record_controls import AT_BASELINE
from leakledger.audit.records import plural
from leakledger.audit.verdicts.ceilings import fewest
from leakledger.audit.verdicts.evidence import is_calibrator
from leakledger.audit.verdicts.policy import Policy, policy_of
from leakledger.audit.verdicts.significance import FEWEST
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.training.base import participants_of


def verdicts_need(config: Config, todo: Sequence[Case]) -> Iterator[str]:
    """What the verdicts of these cases can and cannot say."""
    seeds = len(config.audit.seeds)
    policy = policy_of(config.in_force())
    yield from needs(policy, seeds, fewest_clusters(config, todo))
    trained = max((c.training.spec.rounds for c in todo if not c.features and not c.alignment), default=0)
    on_rows = [a for a in config.attacks.use if "records" in ATTACKS[a].asset]
    if on_rows and len(config.attacks.rounds) < trained:
        yield (
            f"attacks.rounds has {len(config.attacks.rounds)} of up to {trained} rounds, and that no row leaks takes "
            "every one; a leak may be found in any."
        )
    again = {c.setting.defense: None for c in todo if c.defense.parts and c.training.spec.rounds > 1}
    if on_rows and again and not any(c.features or c.alignment for c in todo):
        yield (
            f"Behind {' and '.join(again)} rows come again in several rounds, of which attacks read few together: that "
            "none leaks is not said of more than one round."
        )
    if seeds >= _least(policy):
        updates = any(not is_calibrator(a) for a in on_rows)
        yield from _out_of_reach(config, todo, updates, policy.ceiling)


def fewest_clusters(config: Config, todo: Sequence[Case]) -> int:
    """The clusters, over all seeds, of the question about the server that has fewest."""
    return min((n for c in todo for n in clusters_of_seed(config, c).values()), default=0) * len(config.audit.seeds)


def clusters_of_seed(config: Config, case: Case) -> dict[str, int]:
    """What the server's questions have under one seed, by the asset: of statistics, values and sizes one cluster for
    each party; of rows, in each attacked round, one for each party that takes part, or one where updates are added up
    before the server has them.
    """
    parties = case.setting.parties
    clusters = {asset: parties for a in config.attacks.use for asset in ATTACKS[a].asset}
    if "records" in clusters and not case.features and not case.alignment:
        apart = AGGREGATIONS[case.training.aggregation] is Plain
        batches = participants_of(case.training.spec, parties) if apart else 1
        clusters["records"] = batches * len(config.attacks.rounds)
    return clusters


def _out_of_reach(config: Config, todo: Sequence[Case], updates: bool, ceiling: float) -> Iterator[str]:
    """What keeps an audit of training, in which `updates` are attacked or not, from the verdict that nothing leaks,
    however many seeds it has.
    """
    training = [c for c in todo if not c.setting.reference and not c.features]
    if not training:
        return
    if not updates and any(not c.alignment for c in training):
        yield (
            "attacks.use has no attack on updates: what training tells counts as unread, and towards whoever is told "
            'it no question ends with "no leak".'
        )
    if updates and ceiling <= AT_BASELINE:
        yield (
            f"That an attack has power takes a gain of {AT_BASELINE:g} on rows planted under the audited defense: of "
            f'rows, "no leak above {ceiling:g}" is out of reach but for luck, and a setting either leaks or stays open.'
        )
    if any(SERVER in together(name) for name in config.audit.observers):
        yield (
            "Evaluation tells the server figures of each client's held-out rows in the clear: an audit with the server "
            'among its adversaries will not end with "no leak", though its other questions may.'
        )


def _least(policy: Policy) -> int:
    return max(fewest(policy.ceiling, policy.alpha), SEEDS)


def needs(policy: Policy, seeds: int, clusters: int) -> Iterator[str]:
    """What these many seeds, with so many clusters in all for each setting, can and cannot show, one sentence each."""
    least = _least(policy)
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
