"""Attacks that cannot apply to a case, by their own account, found before anything runs."""

from collections.abc import Iterator, Sequence

from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.granted import make_attack
from leakledger.preprocess.views import PublicFacts


def unfit_attacks(config: Config, known: Sequence[tuple[Case, PublicFacts]]) -> Iterator[str]:
    """A line for each attack in use, and each reason, for which it says nothing about some of the cases whose public
    facts are `known`. Where there is no line an attack may still not apply: what is sent decides too.
    """
    for name in config.attacks.use:
        why: dict[str, list[Case]] = {}
        for case, public in known:
            if reason := make_attack(name, config, case).unfit(public):
                why.setdefault(reason, []).append(case)
        for reason, unfit in why.items():
            where = (
                "all cases" if len(unfit) == len(known) else f"{len(unfit)} of {len(known)} cases, first {unfit[0].id}"
            )
            yield f"the attack {name} cannot be applied to updates of {where}: {reason}"
