"""Attacks: a view in, claims out. Nothing here can reach a federation, a data set, a defense or the truth."""

from attacks.base import Attack
from attacks.fedavg import TabLeakFedAvg
from attacks.linear_layer import LinearLayer
from attacks.membership import Membership
from attacks.plaintext import Plaintext
from attacks.portfolio import Portfolio
from attacks.random_baseline import RandomBaseline
from attacks.ring_size import RingSize
from attacks.sac_audit import SacAudit
from attacks.span import Span
from attacks.spear import Spear
from attacks.statistics import Statistics
from attacks.tableak import TabLeak
from attacks.vocabulary import Vocabulary

__all__ = ["ATTACKS", "Attack"]

ATTACKS: dict[str, type[Attack]] = {
    a.technique: a
    for a in (
        Plaintext,
        LinearLayer,
        Span,
        Spear,
        TabLeak,
        Portfolio,
        TabLeakFedAvg,
        RandomBaseline,
        RingSize,
        Vocabulary,
        Membership,
        Statistics,
        SacAudit,
    )
}
