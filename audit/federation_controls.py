"""Controls on made-up federations: what an attack on preprocessing states in its `controls`, built and played.

*Leaky*: the attack must recover what it expects of draw 0. *Null*: the same claims, held against another party, must be
worth nothing; for checks, a federation in which none may fire. *Shuffled*: a number of federations of the same parties,
features and protocol are drawn, each party's tables independently of everything else; the attack gets the transcript of
one and its claims are held against the truth of another. Its advantage is then 0 up to chance, whatever an attack looks
at; one that reached the truth, or remembered it, would be as good as ever, and neither of the other two would tell. The
mean over the draws has a Student-t interval, at a level (`LEVEL`) that leaves a sound attack one false alarm in a
thousand. For checks the shares are exchanged for numbers of either sign: none may fire that speaks of them.

Transcripts have times, of one process; an attack that reads times is shown them where the audited view has some, too.

Draws are the same in every run, so an attack always passes or never does, and what was played once is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from leakledger.attacks.base import Attack, AuxiliaryKnowledge, Claim, ControlSpec, claims_in
from leakledger.audit.control_federations import played
from leakledger.audit.control_scores import WORDS, agreement, chance, recovered
from leakledger.audit.intervals import interval
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.records import Control
from leakledger.audit.scoring.metrics import advantage
from leakledger.preprocess.messages import Disclosure, SumPart
from leakledger.preprocess.method_errors import is_own
from leakledger.preprocess.told_failure import ToldFailure
from leakledger.preprocess.views import View
from leakledger.preprocess.wire import encode

RECOVERED = 0.8  # of what is expected: below it, silence elsewhere proves nothing
AT_BASELINE = 0.15  # what a null control may recover by coincidence
DRAWS, LEVEL = 16, 0.998  # two-sided: half of the rest lies above
PAIRS = tuple((draw % DRAWS + 1, draw) for draw in range(1, DRAWS + 1))
"""(transcript, truth): numbers of draws."""
# Draws from whose contents a plugin's attack must tell those of draw 0; one may be alike by chance.
EXCHANGED = 1, 2, 3


@dataclass(frozen=True)
class Shuffled:
    """Over the draws: the mean score, its expectation without the truth, and the advantage with its interval."""

    value: float
    baseline: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether the attack is not better than chance. One that claims less than it could may be worse."""
        return self.low <= 0


def federation_controls(attack: Attack, spec: ControlSpec, timed: bool = False) -> tuple[Control, ...]:
    """The controls of one specification; `timed`: with the times of messages."""
    key = type(attack), repr(attack), repr(spec), timed
    if key not in _PLAYED:
        _PLAYED[key] = tuple(_play(attack, spec, timed))
    return _PLAYED[key]


_PLAYED: dict[tuple[type[Attack], str, str, bool], tuple[Control, ...]] = {}


def _play(attack: Attack, spec: ControlSpec, timed: bool) -> Iterator[Control]:
    view = played(spec).view(spec.observers)
    claims, of = claims_of(attack, view, timed), f"{WORDS[spec.expects]} under {spec_name(spec)}"
    kinds = kinds_read(attack, spec, claims, view, timed)
    value = recovered(spec, claims)
    expected = f"{of}: at least {RECOVERED:.0%} recovered"
    yield outcome_control(attack, "leaky", value, value >= RECOVERED, expected, kinds)
    if spec.quiet is None:
        value, against = recovered(spec, claims, shift=1), f"another party: {of}"
    else:
        quiet = claims_of(attack, played(spec.quiet).view(spec.quiet.observers), timed)
        value, against = recovered(spec, quiet), f"{WORDS[spec.expects]} under {spec_name(spec.quiet)}"
    yield outcome_control(attack, "null", value, value <= AT_BASELINE, f"{against}: at most {AT_BASELINE:.3f}", kinds)
    if spec.shuffled:
        expected = f"transcripts of other federations: {of}: no better than chance"
        yield shuffled_control(attack, shuffled(attack, spec, timed), expected, kinds)


def shuffled(attack: Attack, spec: ControlSpec, timed: bool = False) -> Shuffled:
    """The claims on each drawn transcript, held against the truth of another draw."""
    scores = []
    for shown, truth in PAIRS:
        view = played(spec, shown).view(spec.observers)
        read = _noise(view) if spec.expects == "check" else view
        scores.append(agreement(spec, claims_of(attack, read, timed), truth))
    return over_draws(scores, chance(spec))


def over_draws(scores: Sequence[float], baseline: float) -> Shuffled:
    """The outcome of one score for each draw; of fewer than two, which have no interval, it does not pass."""
    low, high = interval((np.array(scores) - baseline) / (1 - baseline), LEVEL) or (np.nan, np.nan)
    return Shuffled(float(np.mean(scores)), baseline, low, high)


def claims_of(attack: Attack, view: View, timed: bool = False) -> list[Claim]:
    """The claims of an attack on what it reads of a view, without auxiliary knowledge; none where it says why."""
    return claims_in(outcome_of(attack, view.restricted(attack.accepts, times=timed), AuxiliaryKnowledge()))


def told_kinds(view: View) -> tuple[str, ...]:
    """The topics of what others told the observers and they can read."""
    return tuple(sorted({m.topic for m in view.messages if m.sender not in view.observers and m.content is not None}))


def kinds_behind(claims: Sequence[Claim], view: View) -> tuple[str, ...]:
    """The topics of what others told and claims rest on: only these has an attack shown that it can read."""
    evidence = {number for claim in claims for number in claim.evidence}
    told = (m for m in view.messages if m.sequence in evidence and m.sender not in view.observers)
    return tuple(sorted({m.topic for m in told}))


def kinds_read(
    attack: Attack, spec: ControlSpec, claims: Sequence[Claim], view: View, timed: bool = False
) -> tuple[str, ...]:
    """Of `kinds_behind`, those without whose contents the attack claims something else: one that it merely cites, or
    waits for, it may not have looked into. Of the attacks of this package the tests show it, so those are not run
    again.
    """
    kinds = kinds_behind(claims, view)
    if is_own(attack):
        return kinds
    return tuple(k for k in kinds if any(_tells(attack, claims, v, timed) for v in _others(spec, view, k)))


def _others(spec: ControlSpec, view: View, topic: str) -> Iterator[View]:
    """The view with contents of other draws in one kind of message. What a check says of a protocol is the same of
    every draw, so of one it is the view without the kind.
    """
    if spec.expects == "check":
        yield replace(view, messages=tuple(m for m in view.messages if m.topic != topic))
        return
    for draw in EXCHANGED:
        yield _exchanged(view, played(spec, draw).view(spec.observers), topic)


def _exchanged(view: View, other: View, topic: str) -> View:
    """The view, one kind's messages having the contents that `other` has in such, in their order."""
    contents = cycle([m for m in other.messages if m.topic == topic])
    pairs = [(m, next(contents, m) if m.topic == topic else m) for m in view.messages]
    return replace(view, messages=tuple(replace(m, body=o.body, content=o.content) for m, o in pairs))


def _tells(attack: Attack, claims: Sequence[Claim], other: View, timed: bool) -> bool:
    """Whether the attack claims something else on another view."""
    try:
        return _said(claims_of(attack, other, timed)) != _said(claims)
    except (ValueError, ToldFailure):  # what it found there it cannot go on with
        return True


def _said(claims: Sequence[Claim]) -> list[str]:
    """What claims say, whatever they rest on."""
    return [repr(replace(c, evidence=())) for c in claims]


def spec_name(spec: ControlSpec) -> str:
    """The federation in words."""
    if spec.features is not None:
        options = ", ".join(f"{k} {v}" for k, v in sorted(spec.features.items()))
        return f"engineered features ({options}), seen by {spec.observers}"
    parts = [
        name + (f" ({', '.join(f'{k} {v}' for k, v in sorted(options.items()))})" if options else "")
        for name, options in ((spec.encoder, spec.encoder_options), (spec.scaler, spec.scaler_options))
    ]
    task = f", a {spec.evaluation} model evaluated" if spec.evaluation else ""
    return f"{' + '.join(parts)}{task}, seen by {spec.observers}"


def outcome_control(
    attack: Attack, kind: str, value: float, passed: bool, expected: str, kinds: tuple[str, ...]
) -> Control:
    """A leaky or null control with a baseline of nothing."""
    gain = advantage("accuracy", value, 0.0) or 0.0
    return Control(attack.technique, kind, value, 0.0, gain, passed, expected, kinds=kinds)  # type: ignore[arg-type]


def shuffled_control(attack: Attack, found: Shuffled, expected: str, kinds: tuple[str, ...]) -> Control:
    gain = (found.value - found.baseline) / (1 - found.baseline)
    outcome = (found.value, found.baseline, gain, found.passed)
    return Control(attack.technique, "shuffled", *outcome, expected, found.low, found.high, kinds)


def _noise(view: View) -> View:
    """The view with every proportional part exchanged for numbers of either sign."""
    coins = np.random.default_rng(len(view.messages))
    messages = []
    for m in view.messages:
        if issubclass(m.kind, SumPart) and m.kind.discloses is Disclosure.AGGREGATE:
            body = encode(coins.normal(size=np.shape(m.payload.numbers)))
            m = replace(m, body=body, content=body)
        messages.append(m)
    return replace(view, messages=tuple(messages))
