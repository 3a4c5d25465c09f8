"""What the SARIF 2.1.0 standard (OASIS, 2020) demands of a log like ours, and what GitHub asks for beyond it.

Section numbers are the standard's. A rule that is broken is one sentence.
"""

from urllib.parse import urlsplit

KINDS = {"notApplicable", "pass", "fail", "review", "open", "informational"}
LEVELS = {"none", "note", "warning", "error"}
STATES = {"new", "unchanged", "updated", "absent"}
LOG, RUN = (
    {"$schema", "version", "runs"},
    {
        "tool",
        "columnKind",
        "automationDetails",
        "artifacts",
        "invocations",
        "results",
        "properties",
    },
)
RESULT = {
    "ruleId",
    "ruleIndex",
    "kind",
    "level",
    "message",
    "locations",
    "partialFingerprints",
    "baselineState",
    "codeFlows",
    "suppressions",
    "properties",
}


def broken(log, github=False):
    """Every rule that the log breaks."""
    found = []

    def demand(holds, text):
        if not holds:
            found.append(text)

    demand(log.get("version") == "2.1.0", "3.13.2: version is 2.1.0")
    demand(set(log) <= LOG, f"3.13: unknown properties {set(log) - LOG}")
    demand(isinstance(log.get("runs"), list), "3.13.4: runs is an array")
    for run in log["runs"]:
        demand(set(run) <= RUN, f"3.14: unknown properties {set(run) - RUN}")
        driver = run["tool"]["driver"]
        demand(bool(driver.get("name")), "3.19.8: a tool component has a name")
        demand(bool(urlsplit(driver["informationUri"]).scheme), "3.19.17: informationUri is absolute")
        rules = driver["rules"]
        ids = [r["id"] for r in rules]
        demand(len(set(ids)) == len(ids), "3.19.23: rules are unique")
        for rule in rules:
            demand(bool(rule["shortDescription"]["text"]), "3.49.9: a short description has a text")
            demand(rule["defaultConfiguration"]["level"] in LEVELS, "3.50.3: a level")
            severity = rule["properties"].get("security-severity")
            demand(
                severity is None or (isinstance(severity, str) and 0 <= float(severity) <= 10), "a text from 0 to 10"
            )
            demand(severity is None or "security" in rule["properties"]["tags"], "tagged as security")
            tags = rule["properties"]["tags"]
            demand(len(set(tags)) == len(tags), "3.8.2.1: tags are unique")
        for call in run["invocations"]:
            demand(isinstance(call["executionSuccessful"], bool), "3.20.14: an invocation says whether it succeeded")
            demand(isinstance(call.get("exitCode", 0), int), "3.20.9: a number")
            for note in call["toolConfigurationNotifications"]:
                demand(note["level"] in LEVELS and bool(note["message"]["text"]), "3.58: level and message")
        suppressed = ["suppressions" in r for r in run["results"]]
        demand(all(suppressed) or not any(suppressed), "3.27.23: suppressions on all results or on none")
        for result in run["results"]:
            _result(result, ids, run, demand, github)
    return found


def _result(result, ids, run, demand, github):
    demand(set(result) <= RESULT, f"3.27: unknown properties {set(result) - RESULT}")
    demand(ids[result["ruleIndex"]] == result["ruleId"], "3.27.6: ruleIndex is of ruleId")
    demand(result["kind"] in KINDS and result["level"] in LEVELS, "3.27.9 and 3.27.10: kind and level")
    demand(result["kind"] == "fail" or result["level"] == "none", "3.27.10: what is no failure has no level")
    demand(bool(result["message"]["text"]), "3.27.11: a result has a message")
    demand(result.get("baselineState") in {None, *STATES}, "3.27.24: baselineState")
    flows = [x["location"] for f in result.get("codeFlows", []) for t in f["threadFlows"] for x in t["locations"]]
    demand("codeFlows" not in result or bool(flows), "3.36.3: a flow has locations")
    demand(bool(result["locations"]), "a location for GitHub")
    for place in [*result["locations"], *flows]:
        physical = place.get("physicalLocation")
        demand(physical is not None, "a physical location for GitHub")
        uri = physical["artifactLocation"]["uri"]
        demand(uri.isascii() and not {" ", "\\", "<", '"'} & set(uri), f"3.4.3: {uri!r} is a URI reference")
        demand(run["artifacts"][physical["artifactLocation"]["index"]]["location"]["uri"] == uri, "3.4.5: index")
        demand(physical["region"]["startLine"] >= 1, "3.30.5: lines begin at 1")
    for s in result.get("suppressions", ()):
        demand(s["kind"] in ("inSource", "external") and s["status"] == "accepted", "3.35: kind and status")
    demand(all(isinstance(v, str) for v in result["partialFingerprints"].values()), "3.27.17: texts")
    if github:
        demand("suppressions" not in result and result["kind"] in ("fail", "open"), "nothing waived for GitHub")
