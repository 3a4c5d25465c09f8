"""What the driver of a projected run knows of its parties while it runs: who waits for whom, who is alive, who is done.

A run ends without a party's own error in two ways. A party that gives no sign of life (a beat of its process) is lost:
it was stopped, or hangs in native code. And where no party has got any further for as long as one waits for a message,
those that wait for nobody are lost: nobody else would say so of a party in its last step.
"""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from leakledger.preprocess.federation import FederationError, PartyLost
from leakledger.preprocess.transport.projected import Wait
from leakledger.preprocess.views import Abort

MARGIN_SECONDS = 5.0  # that a waiting party has for its own error, which says more

Report = dict[str, Any]


class Watch:
    """One run of `parties`: `timeout` is how long one of them waits for a message, `life` how long it may be silent.

    Both in seconds. Each report is to be noted as it arrives.
    """

    def __init__(self, parties: Sequence[str], timeout: float, life: float) -> None:
        self.done: dict[str, Report] = {}
        self.waits: dict[str, Wait] = {}
        self._timeout, self._life = timeout, life
        self._sent = dict.fromkeys(parties, 0)
        self._heard = dict.fromkeys(parties, monotonic())
        self._advanced = monotonic()

    @property
    def working(self) -> list[str]:
        """The parties without a result, the one that was heard from longest ago first."""
        return sorted((p for p in self._heard if p not in self.done), key=self._heard.__getitem__)

    def note(self, party: str, report: Report) -> None:
        """Takes in a sign of life, a wait or its end, or a result."""
        self._heard[party] = now = monotonic()
        if report["report"] == "alive":
            if report["sent"] == self._sent[party]:
                return
            self._sent[party] = report["sent"]
        elif report["report"] == "result":
            self.done[party] = report
        elif "hop" in report:
            self.waits[party] = Wait(report["hop"], report["what"])
        else:
            self.waits.pop(party, None)
        self._advanced = now

    def seconds_left(self) -> float:
        """Until `overdue` may have something to say; never negative."""
        dead = min(self._heard[p] for p in self.working) + self._life
        return max(0.0, min(dead, self._advanced + self._timeout + MARGIN_SECONDS) - monotonic())

    def overdue(self) -> PartyLost | None:
        """The error of a party that is lost by now, if there is one."""
        now, (oldest, *_) = monotonic(), self.working
        if now >= self._heard[oldest] + self._life:
            waiting = [f"; {p} waits for it ({w.what})" for p, w in self.waits.items() if w.hop == oldest]
            return lost(oldest, f"{oldest} is silent: no sign of life for {self._life:g} s{''.join(waiting[:1])}")
        if now >= self._advanced + self._timeout + MARGIN_SECONDS:
            silent = next((p for p in self.working if p not in self.waits), oldest)
            return lost(silent, f"{silent} is silent: no party has got any further for {self._timeout:g} s")
        return None

    def silence(self, reporter: str) -> FederationError:
        """Follows who waits for whom, from the party whose patience ended to the one that waits for nobody."""
        chain = [reporter]
        while (silent := self.waits[chain[-1]].hop) in self.waits and silent not in chain:
            chain.append(silent)
        wait = f"{chain[-1]} waited {self._timeout:g} s for it ({self.waits[chain[-1]].what})"
        if silent in chain:
            return FederationError(f"control flow differs: the parties wait for each other, {silent} too, where {wait}")
        if silent in self.done:
            return FederationError(f"control flow differs: {silent} has finished, where {wait}")
        return lost(silent, f"{silent} is silent: {wait}")

    def end(self, party: str, how: str) -> PartyLost:
        """The error of a party whose process has ended."""
        waiting = [f"while {p} waited for it ({w.what})" for p, w in self.waits.items() if w.hop == party]
        return lost(party, f"{party} ended ({how}) {waiting[0] if waiting else 'while no other party waited for it'}")

    def waited_for(self, party: str) -> bool:
        return any(w.hop == party for w in self.waits.values())


def failure(party: str, report: Mapping[str, Any]) -> FederationError:
    """The error that a party reports."""
    failed = FederationError(f"{party} failed {report['where']}: {report['kind']}: {report['text']}")
    failed.abort = Abort(**report["aborts"][-1]) if report["aborts"] else None
    return failed


def lost(party: str, text: str) -> PartyLost:
    """The error of a party that is gone. In which step it was, nobody can say."""
    error = PartyLost(text)
    error.abort = Abort(party, "", 0, PartyLost.__name__)
    return error
