"""The policy of a gate: a TOML file, checked before anything is compared; one line for each problem."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from leakledger.attacks import ATTACKS
from leakledger.audit.records import ASSETS, metric_title
from leakledger.preprocess.data.suggest import closest, shown

UTILITIES = ("f1", "accuracy", "auroc", "r2", "mae")
SHARES = UTILITIES[:3]  # from 0 to 1
KINDS = re.compile(r"any|server|one client|\d+ clients|server and (one client|\d+ clients)")


class PolicyError(ValueError):
    """A policy that cannot be used; the text names file and key and says what to do."""


def _known(names: tuple[str, ...]) -> Any:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"{value!r} is unknown{closest(value, names)}; choose from {', '.join(names)}")
        return value

    return AfterValidator(check)


def _adversary(value: str) -> str:
    if not KINDS.fullmatch(value):
        raise ValueError(f'{value!r} is no kind of adversary; write "any", "server", "one client" or "2 clients"')
    return value


def _allowed(value: str) -> str:
    """A check of an installed attack, or an asset of which claims may be proven."""
    names = {name for attack in ATTACKS.values() for name in attack.checks}
    names |= {spec.check for attack in ATTACKS.values() for spec in attack.controls if spec.check}
    if value not in names | ASSETS.keys():
        near, checks = closest(value, names | ASSETS.keys()), ", ".join(sorted(names))
        raise ValueError(f"{value!r} is no check of an installed attack{near}; choose from {checks}, or an asset")
    return value


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Gate(Section):
    """What holds for every check."""

    alpha: float = Field(0.05, gt=0, lt=0.5, description="chance that a gate fails anywhere when nothing has changed")
    power: float = Field(0.8, gt=0, lt=1, description="for which needed clusters are stated")
    sd: float = Field(0.1, gt=0, description="scatter of a difference that planning assumes where no baseline shows it")


class LeakageGate(Section):
    """What no adversary of a kind may get, of some assets. The first entry that names a cell of the table judges it."""

    name: str = ""
    adversary: Annotated[str, AfterValidator(_adversary)] = "any"
    assets: list[Annotated[str, _known(tuple(ASSETS))]] = Field(default_factory=lambda: list(ASSETS), min_length=1)
    ceiling: float | None = Field(None, gt=0, lt=1)
    regression: bool | None = None  # unset: where there is a baseline
    floor: float = Field(0.01, ge=0, lt=1)
    margin: float = Field(0.05, gt=0, lt=1)

    @model_validator(mode="after")
    def _can_pass_and_fail(self) -> "LeakageGate":
        _check_order(self.floor, self.margin)
        return self

    def judges(self, kind: str, asset: str) -> bool:
        return self.adversary in ("any", kind) and asset in self.assets


class UtilityGate(Section):
    """What a change may cost: non-inferiority of one metric of the trained model."""

    metric: Annotated[str, _known(UTILITIES)]
    name: str = ""
    floor: float = Field(0.01, ge=0)
    margin: float = Field(0.05, gt=0)

    @model_validator(mode="after")
    def _can_pass_and_fail(self) -> "UtilityGate":
        _check_order(self.floor, self.margin)
        if self.metric in SHARES and self.margin >= 1:
            name = metric_title(self.metric)
            raise ValueError(f"margin {self.margin:g} is no less than all that {name} can lose; ask for less than 1")
        return self


class Findings(Section):
    """What needs no statistics: checks of the protocol that fired, and what attacks vouched for and had right."""

    forbid: Literal["new", "any", "none"] = "new"
    allow: list[Annotated[str, AfterValidator(_allowed)]] = []  # findings that are accepted for good


class Policy(Section):
    gate: Gate = Gate()
    leakage: list[LeakageGate] = Field(default_factory=lambda: [LeakageGate()])
    utility: list[UtilityGate] = []
    findings: Findings = Findings()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class _KeptFindings(Findings):
    allow: list[str] = []  # of a plugin's attack, say, that is not installed any more


class KeptPolicy(Policy):
    """A policy as a baseline keeps it, which decides nothing any more."""

    findings: _KeptFindings = _KeptFindings()


def _check_order(floor: float, margin: float) -> None:
    if floor >= margin:
        raise ValueError(f"floor {floor:g} must be below margin {margin:g}: what fails must not also pass")


def read_policy(path: Path) -> Policy:
    """The policy in a TOML file. Raises PolicyError, one line."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PolicyError(f"{path}: no such file; docs/gate.md has a policy to start from") from None
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, nested too deeply
        raise PolicyError(f"{path}: cannot be read as TOML: {error}") from None
    return policy_of(values, str(path))


def policy_of(values: Mapping[str, Any], where: str = "policy") -> Policy:
    """The policy that plain values say. Raises PolicyError."""
    try:
        return Policy.model_validate(dict(values))
    except ValidationError as error:
        raise PolicyError(f"{where}: {_first_problem(error)}") from None


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    location = problem["loc"]
    key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{shown(part)}" for part in location).lstrip(".")
    if problem["type"] == "extra_forbidden":
        sections: dict[str, type[BaseModel]] = {
            "gate": Gate,
            "leakage": LeakageGate,
            "utility": UtilityGate,
            "findings": Findings,
        }
        section = sections.get(str(location[0]), Policy) if len(location) > 1 else Policy
        known = list(section.model_fields)
        return f"{key}: unknown key{closest(str(location[-1]), known)}; known here: {', '.join(known)}"
    message = problem["msg"].removeprefix("Value error, ")
    value = problem.get("input")
    plain = isinstance(value, str | int | float | bool) and problem["type"] != "value_error"
    return f"{key}: {message}{f' (got {value!r})' if plain else ''}"
