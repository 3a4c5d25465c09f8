"""Controls: trials whose answer is known beforehand, played in every case with the same attacks and the same scorer.

*Known-leaky*: something that surely leaks, which the attack must recover; otherwise its silence elsewhere proves
nothing. *Null*: messages that have nothing to do with the victim, scored against the victim; the attack must stay at
its baseline, otherwise the scorer rewards guessing. *Shuffled*, of attacks on transcripts: transcripts of other
federations than the ones they are scored against. *Power*, of attacks on updates: a batch like the audited one, which
takes more than luck. An attack that fails one of the first three shows nothing; one without power may still have found
what it claims, and its silence proves nothing.

An attack declares where it must succeed (`Attack.controls`); nothing here knows one attack from another. Of what it
declares, those controls are played that show it kinds of message which the audited view has too, since a message counts
as read only by an attack that is known to work on such messages (`audit.reading`).

An attack that reads times, on a view that has some, is shown those of made-up federations. Planted messages never
travelled and have none: there its silence proves nothing, and a control says so.
"""

from collections.abc import Collection, Iterator

import numpy as np

from leakledger.attacks.base import Attack, ControlSpec
from leakledger.audit.control_federations import played
from leakledger.audit.federation_controls import federation_controls, told_kinds
from leakledger.audit.field_controls import field_controls
from leakledger.audit.play import Play
from leakledger.audit.record_controls import record_controls
from leakledger.audit.records import UNTIMED, Control


def control_attack(play: Play, attacked: Collection[tuple[str, int]], coins: np.random.Generator) -> list[Control]:
    """The controls that fit the view; `attacked` are the batches of it that the attack inverted.

    Raises ValueError for an attack that declares none.
    """
    if not play.attack.controls:
        raise ValueError(f"{play.attack.technique} declares no control; state in `controls` where it must succeed")
    federations = [s for s in play.attack.controls if s.expects not in ("records", "fields")]
    # An attack that claims something without any message that a control of its own has plays the first of them.
    fitting = [s for s in federations if concerns(play, s)] or federations[:1]
    found = [c for spec in play.attack.controls for c in _of(play, spec, spec in fitting, attacked, coins)]
    planted = any(s.expects in ("records", "fields") for s in play.attack.controls)
    return [*found, _untimed(play.attack)] if play.timed and planted else found


def _of(
    play: Play, spec: ControlSpec, fits: bool, attacked: Collection[tuple[str, int]], coins: np.random.Generator
) -> Iterator[Control]:
    if spec.expects == "records":
        yield from record_controls(play, attacked, coins)
    elif spec.expects == "fields":
        yield from field_controls(play.attack, play.view)
    elif fits:
        yield from federation_controls(play.attack, spec, play.timed)


def _untimed(attack: Attack) -> Control:
    """That an attack which reads times was shown planted messages without any."""
    return Control(attack.technique, "power", 0.0, 0.0, 0.0, False, UNTIMED)


def concerns(play: Play, spec: ControlSpec) -> bool:
    """Whether the control shows the attack a kind of message that it reads in the view, too."""
    shown = shown_kinds(spec)
    return any(k.topic in shown and play.attack.accepts(k) for k in play.view.kinds)


def shown_kinds(spec: ControlSpec) -> frozenset[str]:
    """The topics that a control shows an attack. None of a method whose packages are not installed, which cannot be
    played: kinds that it alone shows stay unread.
    """
    try:
        return frozenset(told_kinds(played(spec).view(spec.observers)))
    except ModuleNotFoundError:
        return frozenset()
