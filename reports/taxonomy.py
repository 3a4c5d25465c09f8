"""Where published taxonomies have a place for what an audit tests, and where they have none.

Names only: that a heading exists for something says nothing about whether a system satisfies anybody's rules.
"""

from dataclasses import dataclass

from leakledger.audit.records import COUNTED

NO_TECHNIQUE = "no direct technique"  # MITRE ATLAS has none for federated learning: AML.T0024.* is about inference APIs
COSAI = "riskFederatedDistributedTrainingPrivacy"


@dataclass(frozen=True)
class Places:
    """Headings for one kind of leakage. Empty: none fits."""

    linddun: tuple[str, ...]
    nist_ai_100_2: str
    cosai: str
    owasp_aisvs: str
    mitre_atlas: str = NO_TECHNIQUE

    @property
    def tags(self) -> list[str]:
        """As tags of a SARIF rule."""
        found = [f"LINDDUN/{name}" for name in self.linddun]
        found += [f"NIST-AI-100-2/{self.nist_ai_100_2}"] if self.nist_ai_100_2 else []
        found += [f"CoSAI/{self.cosai}"] if self.cosai else []
        return found + ([f"OWASP-AISVS/{self.owasp_aisvs}"] if self.owasp_aisvs else [])


RECORDS = Places(("Data disclosure", "Identifying"), "Data Reconstruction", COSAI, "11.2.4")
MEMBERSHIP = Places(("Linking", "Detecting"), "Membership Inference", "", "11.2.5")
PROPERTY = Places(("Data disclosure",), "Property Inference", "", "")
SIZES = Places(("Detecting",), "Property Inference", "", "")
PROTOCOL = Places(("Data disclosure",), "", "", "")


def places(asset: str, kind: str = "") -> Places:
    """The headings for an asset, or for a check of the protocol (`kind` is "finding")."""
    if asset in ("records", "columns"):
        return RECORDS
    if asset == "membership":
        return MEMBERSHIP
    if asset in (*COUNTED, "size"):
        return SIZES
    return PROTOCOL if kind == "finding" else PROPERTY


SP_800_226 = (
    "Privacy parameters",
    "Unit of privacy",
    "Threat models",
    "Mechanism implementation challenges",
    "Data security and access control",
    "Data collection exposure",
)
"""Headings of NIST SP 800-226 under which a claim of differential privacy is to be judged."""

EDPB_28_2024 = (
    "EDPB opinion 28/2024 asks how likely it is that personal data can be extracted, by means reasonably likely to be "
    "used. What was tested of that: the attacks and adversaries listed here, on the data and settings listed here."
)
