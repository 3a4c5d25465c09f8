"""A gate's checks as JUnit XML: a suite per setting, a case per question, adversary and attack.

A failed check is a failure; an inconclusive one is a failure of that type, since a reader of JUnit has no third colour
and green would be wrong. So is a waiver that is expired or invalid, which ends a gate whatever passed. A waived check,
and an attack that does not apply, are skipped with the reason. What a reader must know beside the checks, waivers among
it, is the output of the suite of the gate itself.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from leakledger.audit.gate_records import Check, GateOutcome
from leakledger.audit.records import AuditRecord, Score
from leakledger.reports.text import visible
from leakledger.reports.wording import said, title
from leakledger.reports.words import asset_of, noun

GATE = "gate"  # the suite of checks that are of no setting


def junit(outcome: GateOutcome, record: AuditRecord) -> bytes:
    """The document in UTF-8."""
    suites: dict[str, list[Check]] = {}
    for c in outcome.checks:
        suites.setdefault(c.setting, []).append(c)
    silent: dict[str, list[Score]] = {}
    for s in record.scores:
        if s.status == "not_applicable":
            silent.setdefault(s.setting, []).append(s)
    root = Xml.Element("testsuites", {"name": "LeakLedger"})
    beside = [*outcome.notes, *(f"Waiver {w.id}, {w.words}" for w in outcome.waivers)]
    for setting in dict.fromkeys([*suites, *silent, *([""] if beside else [])]):
        suite = _suite(root, setting, suites.get(setting, []), silent.get(setting, []))
        if not setting:
            _say_void(suite, outcome)
        if beside and not setting:
            Xml.SubElement(suite, "system-out").text = "\n".join(map(_flat, beside))
    _total(root, root.iter("testcase"))
    Xml.indent(root)
    content: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def _suite(root: Xml.Element, setting: str, checks: Sequence[Check], silent: Sequence[Score]) -> Xml.Element:
    name = next((c.subject for c in checks if c.subject), "") or setting or GATE
    suite = Xml.SubElement(root, "testsuite", {"name": _flat(name)})
    for c in checks:
        who = "+".join(c.observers) or c.adversary or GATE
        name = f"{title(c)} ({c.attack})" if c.attack else title(c)
        case = Xml.SubElement(suite, "testcase", {"classname": _flat(f"{c.kind}.{who}"), "name": _flat(name)})
        _say(case, c)
    for s in silent:
        name = f"{s.attack} about {noun(asset_of(s))}"
        case = Xml.SubElement(suite, "testcase", {"classname": _flat("+".join(s.observers)), "name": _flat(name)})
        Xml.SubElement(case, "skipped", {"message": _flat(f"not applicable: {s.reason}")})
    _total(suite, suite.iter("testcase"))
    return suite


def _say(case: Xml.Element, check: Check) -> None:
    message = {"message": _flat(said(check))}
    if check.status in ("fail", "inconclusive"):
        kind = check.kind if check.status == "fail" else "inconclusive"
        Xml.SubElement(case, "failure", {**message, "type": kind}).text = check.fingerprint
    elif check.status == "waived":
        Xml.SubElement(case, "skipped", message)


def _say_void(suite: Xml.Element, outcome: GateOutcome) -> None:
    """A failure for each waiver that ends the gate: where all checks passed, nothing else would say that it did not."""
    for w in outcome.waivers:
        if w.void:
            case = Xml.SubElement(suite, "testcase", {"classname": f"waiver.{GATE}", "name": _flat(f"waiver {w.id}")})
            Xml.SubElement(case, "failure", {"message": _flat(w.words), "type": "waiver"})
    _total(suite, suite.iter("testcase"))


def _total(element: Xml.Element, cases: object) -> None:
    found = list(cases)  # type: ignore[call-overload]
    element.set("tests", str(len(found)))
    for name, tag in (("failures", "failure"), ("skipped", "skipped")):
        element.set(name, str(sum(c.find(tag) is not None for c in found)))
    element.set("errors", "0")  # where the tool itself fails there is no such file


def _flat(text: str) -> str:
    """One line without what XML cannot hold."""
    return visible(text).replace("\n", " ").replace("\t", " ")
