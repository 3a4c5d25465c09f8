"""All sources that tell which values a party holds, put together; each has a file of its own beside this one.

| what the view has | what it tells | module |
|---|---|---|
| columns of a party: means, extremes, gradients | values behind public codes and shared numbers | `codes` |
| an own request of `dh-psi` and its answers | own values that each other party holds; ranks of others | `pairwise` |
| an own request of `apsi` and its answers, decrypted | the same | `labelled` |
| shares, matches or numbers of `otmp-psi` | own values others hold; ranks; with the key, all | `positions` |
| own final numbers under `apsi`, `dh-psi`, `otmp-psi` | own values that an earlier party holds | `numbers` |
| shares of pseudonymous numbers | values of like frequency and order | `matching` |
| announced sums of byte casts | the multiset of everyone else's values | `digits` |
| counts sent for a shared target encoding | values and counts, in the clear | `tallies` |
| tables of noised counts, the number of rows | how likely each declared value is held | `noised` |
| dictionaries and pooled columns | values, in the clear, and that there are no others | `stated` |
| the dictionary of all parties | values that no observer holds are others', and what nobody holds | `merged` |
| exact sizes, whatever they follow from | all of the declared values, none beyond those known, chances | `sizes` |
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal
from weakref import ref

from leakledger.attacks.base import AuxiliaryKnowledge, ControlSpec, NotApplicable
from leakledger.attacks.observed.noised import FAINT, NOISED_TABLES, NOISED_TO
from leakledger.attacks.observed.updates import TOLD
from leakledger.attacks.observed.values import held_chances, possible_values, shares
from leakledger.attacks.transcript.holdings.codes import from_codes
from leakledger.attacks.transcript.holdings.digits import from_sums
from leakledger.attacks.transcript.holdings.finding import Finding, Key, together
from leakledger.attacks.transcript.holdings.intersections import LABELLED
from leakledger.attacks.transcript.holdings.labelled import from_labelled
from leakledger.attacks.transcript.holdings.matching import from_frequencies
from leakledger.attacks.transcript.holdings.merged import MERGED, from_merged
from leakledger.attacks.transcript.holdings.noised import COUNTING, from_noise
from leakledger.attacks.transcript.holdings.numbers import from_numbers
from leakledger.attacks.transcript.holdings.pairwise import from_pairs
from leakledger.attacks.transcript.holdings.positions import from_positions
from leakledger.attacks.transcript.holdings.sizes import SIZES, with_sizes
from leakledger.attacks.transcript.holdings.stated import STATED_VALUES, from_stated
from leakledger.attacks.transcript.holdings.tallies import from_tallies
from leakledger.preprocess.messages import (
    SECURE_SUMS,
    AllUnusedIds,
    BytesNormAnnounced,
    ClientGradient,
    ClientWeights,
    LocalExtremes,
    LocalMeans,
    PooledColumns,
    RingHighest,
    RingMaximum,
    TargetTally,
    TargetTotals,
)
from leakledger.preprocess.views import View

READS = (
    LocalMeans,
    LocalExtremes,
    PooledColumns,
    ClientGradient,
    ClientWeights,
    *TOLD,
    *LABELLED,
    RingHighest,
    RingMaximum,
    AllUnusedIds,
    *(SECURE_SUMS[f"bytes-norm.{stage}"].share_partial for stage in ("mean", "variance", "moments")),
    BytesNormAnnounced,
    TargetTally,
    TargetTotals,
    *NOISED_TABLES,
    *COUNTING,
    *STATED_VALUES,
    *MERGED,
    *SIZES,
)


def controls(expects: Literal["vocabulary", "membership"]) -> tuple[ControlSpec, ...]:
    """Where an attack that puts these sources together must succeed."""
    whole = {"columns": "all"}
    return (
        ControlSpec(expects, "dh-psi", observers="last"),
        ControlSpec(expects, "dh-psi", {"unused": "drop"}, observers="last"),
        ControlSpec(expects, "apsi", observers="last"),
        ControlSpec(expects, "otmp-psi", observers="last"),
        # Here another party reconstructs, so that the last one is told matches and sees nobody's shares.
        ControlSpec(expects, "otmp-psi", {"ring": ("P4", "P1", "P2", "P3")}, observers="last"),
        ControlSpec(expects, "bytes-norm", {"sharing": "ring"}, observers="all but first"),
        ControlSpec(expects, "target", {"exchange": "shared"}),
        ControlSpec(expects, "server-dictionary"),
        ControlSpec(expects, "pooled"),
        ControlSpec(expects, "target", {"exchange": "shared"}, observers="all but first"),
        *(
            ControlSpec(expects, encoder, {**options, "encoder_epsilon": FAINT}, observers=who)
            for encoder, options in (("server-dictionary", {}), ("target", {"exchange": "shared"}))
            for who in NOISED_TO
        ),
        ControlSpec(expects, "server-dictionary", scaler="federated-zscore", scaler_options=whole),
        ControlSpec(expects, "server-dictionary", scaler="federated-minmax", scaler_options=whole),
        ControlSpec(expects, "server-dictionary", scaler="pooled", scaler_options=whole),
    )


def refused(view: View, named: bool) -> NotApplicable | None:
    """Why nothing can be said of values here; `named`: whether any value comes into question by name."""
    if not view.has(*(kind for kind in READS if kind not in COUNTING)):
        return NotApplicable("no message of this view depends on which values a party holds")
    if not named:
        return NotApplicable("no candidate is known: grant a dictionary, or observe a party with rows of its own")
    return None


def findings(view: View, knowledge: AuxiliaryKnowledge) -> Mapping[Key, Finding]:
    """What all sources together say of each outside party and feature.

    The latest are kept for the next attack on the same view with the same knowledge: the very objects, not equal ones.
    """
    for its_view, its_knowledge, kept in _LATEST:
        if its_view() is view and its_knowledge() is knowledge:
            return kept
    found = MappingProxyType(_findings(view, knowledge))
    _LATEST[:] = [(ref(view), ref(knowledge), found)]
    return found


_LATEST: list[tuple[ref[View], ref[AuxiliaryKnowledge], Mapping[Key, Finding]]] = []  # none or one


def _findings(view: View, knowledge: AuxiliaryKnowledge) -> dict[Key, Finding]:
    candidates, marginals = possible_values(view, knowledge), shares(view, knowledge)
    prior = held_chances(view, knowledge, candidates)
    sources: tuple[Iterable[Finding], ...] = (
        from_tallies(view),
        from_noise(view),
        from_stated(view, candidates),
        from_merged(view, candidates),
        from_codes(view, knowledge),
        from_pairs(view, candidates),
        from_labelled(view, candidates),
        from_positions(view, candidates),
        from_numbers(view, prior),
        from_frequencies(view, marginals),
        from_sums(view, candidates),
    )
    found = together(f for source in sources for f in source if f.party not in view.observers)
    return with_sizes(view, knowledge, found, candidates, prior)
