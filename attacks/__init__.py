"""Attacks: a view in, claims out. Nothing here can reach a federation, a data set, a defense or the truth."""

from leakledger.attacks.base import Attack
from leakledger.attacks.gradient.atoms import Atoms
from leakledger.attacks.gradient.attribute_search import AttributeSearch
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.random_baseline import RandomBaseline
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.attacks.transcript.feature_exchange.feature_exchange import FeatureExchange
from leakledger.attacks.transcript.membership import Membership
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.attacks.transcript.ring_size import RingSize
from leakledger.attacks.transcript.sac_audit import SacAudit
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.attacks.transcript.vocabulary import Vocabulary

__all__ = ["ATTACKS", "Attack"]

ATTACKS: dict[str, type[Attack]] = {
    a.technique: a
    for a in (
        Plaintext,
        LinearLayer,
        Span,
        Spear,
        Atoms,
        TabLeak,
        Posterior,
        Portfolio,
        TabLeakFedAvg,
        RandomBaseline,
        RingSize,
        Vocabulary,
        Membership,
        Statistics,
        SacAudit,
        FeatureExchange,
        AttributeSearch,
    )
}
