"""What the attacks of one case leave behind, and which of their controls are played."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from leakledger.attacks.base import FindingClaim, NotApplicable, RecordsClaim, claims_in
from leakledger.audit.controls import control_attack
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.play import Play
from leakledger.audit.reading import Ran
from leakledger.audit.record_controls import ways_left
from leakledger.audit.records import Control, Finding, RecoveredRecord, Trial, Unread
from leakledger.audit.scorable import check_measured, check_scorable, naming_claims
from leakledger.audit.scoring import score
from leakledger.audit.streams import BASELINE_STREAM, CONTROL_STREAM, stream
from leakledger.audit.uncertainty import surest


@dataclass
class CaseResults:
    """What the attacks of one case have left so far."""

    trials: list[Trial] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    recovered: list[RecoveredRecord] = field(default_factory=list)

    def add(self, play: Play, attempted: Sequence[tuple[str, int]], draws: int, seed: int) -> Ran:
        """Runs the attack on what it reads, scores its claims and plays those of its controls that fit the view."""
        readable = play.view.restricted(play.attack.accepts, times=play.attack.reads_times)
        technique, outcome = play.attack.technique, outcome_of(play.attack, readable, play.knowledge)
        claims, coins = claims_in(outcome), stream(seed, BASELINE_STREAM)
        records = [c for c in claims if isinstance(c, RecordsClaim)]
        check_scorable(play.attack, claims, play.truth, readable)
        with naming_claims(play.attack):
            told = score(play.attack, play.observers, outcome, play.knowledge, play.truth, attempted, coins, draws)
            self.recovered += surest(technique, play.observers, records, play.truth)
        check_measured(play.attack, told)
        self.trials += told
        for c in claims:
            if isinstance(c, FindingClaim):
                self.findings.append(Finding(technique, play.observers, c.party, c.check, c.text, c.evidence))
        applicable = not isinstance(outcome, NotApplicable)
        if applicable:
            attacked = {(c.victim, c.round) for c in records}
            self._play_controls(play, attacked, seed)
        evidence = frozenset(n for c in claims if not isinstance(c, FindingClaim) for n in c.evidence)
        return Ran(play.attack, applicable, evidence)

    def _play_controls(self, play: Play, attacked: Collection[tuple[str, int]], seed: int) -> None:
        """Controls on updates once per attack and way in which these are observed, since they cost as much as an
        attack; others once each.
        """
        done = {(c.attack, c.kind, c.expected) for c in self.controls}
        if "records" in play.attack.asset and play.attack.technique in {attack for attack, _, _ in done}:
            attacked = ways_left(play, attacked, self.controls)
            if not attacked:
                return
        for control in control_attack(play, attacked, stream(seed, CONTROL_STREAM)):
            if (control.attack, control.kind, control.expected) not in done:
                self.controls.append(control)
