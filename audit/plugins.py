"""Methods of other packages, by entry points: an encoder of one's own is named in a configuration like any other.

A package states in its `pyproject.toml` what it has, under the name that configurations use:

    [project.entry-points."leakledger.encoders"]
    tally = "leakledger_tally.encoder:Tally"

Groups: `leakledger.encoders`, `.scalers`, `.attacks`, `.defenses`, and `.readers` of tables by suffix (".jsonl").
Whatever is installed is registered when this module is imported, which the configuration does. A plugin that cannot be
loaded or made, leaves out what it has to state, or takes a name that is taken, is left out and listed in `FAILED`: the
others work, and nobody is told that a method is unknown which is merely broken. A plugin is code that runs with the
audit's rights: install what you trust.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, get_annotations, signature
from pathlib import Path
from typing import Any

from leakledger.attacks import ATTACKS, Attack
from leakledger.attacks.base import ControlSpec
from leakledger.audit.guarded import guarded
from leakledger.defenses import DEFENSES, Defense
from leakledger.preprocess.data.readers import READERS
from leakledger.preprocess.data.schema_file import TABLE_SUFFIXES
from leakledger.preprocess.encoders import ENCODERS, Encoder
from leakledger.preprocess.messages.base import KINDS, Payload, check_kind
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import ALIASES, SCALERS, Scaler, canonical


@dataclass(frozen=True)
class Group:
    """A table that plugins add to: what they must be a subclass of (None: any callable), what names them there, and
    names that mean something else.
    """

    table: dict[str, Any]
    base: type | None
    named: Callable[[Any], str]
    reserved: Collection[str] = ()


GROUPS = {
    "leakledger.encoders": Group(ENCODERS, Encoder, lambda e: str(e.name)),
    "leakledger.scalers": Group(SCALERS, Scaler, lambda s: str(s.name), ALIASES),
    "leakledger.attacks": Group(ATTACKS, Attack, lambda a: str(a.technique)),
    "leakledger.defenses": Group(DEFENSES, Defense, lambda d: str(d.name), ["none"]),
    "leakledger.readers": Group(READERS, None, lambda r: "", [*TABLE_SUFFIXES, ".gz"]),
}
NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
STATED_ASSETS = ("records", "columns", "vocabulary", "membership", "statistics", "sizes", "findings")
"""What an attack may be about: where it is silent, of an asset by another name no verdict would hear of it."""

FAILED: dict[str, str] = {}
"""Name of a plugin that is installed and was left out -> why."""
DISTRIBUTIONS: dict[str, str] = {}
"""Distribution -> version, of every plugin that was registered: results depend on them."""

CODE: dict[str, str] = {}
"""Package of a plugin, among versions -> the digest of its code as it was registered."""
PACKAGES: dict[str, str] = {}
"""Top-level package of code that was registered -> its distribution, or where there is none the package."""

ATTACKS_OF: dict[str, str] = {}
"""Attack of a plugin -> its distribution: results depend on its version, and so does what they may be compared with."""


def register(points: Iterable[tuple[str, EntryPoint]]) -> None:
    """Adds the plugins behind (group, entry point) to their tables."""
    digest = cache(code_digest)  # of a package once, however many methods it has
    for group, point in points:
        try:
            with guarded():
                thing = _checked(GROUPS[group], point)
            _add(GROUPS[group], point, thing, digest)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a foreign package does wrong, sys.exit too, the others are to work
            FAILED[point.name] = f"{point.value}: {type(error).__name__}: {' '.join(str(error).split())}"


def failure(name: str) -> str:
    """What is to be said of `name` beside that it is unknown; empty where no plugin of that name is installed."""
    return f" (a plugin of that name is installed and cannot be used: {FAILED[name]})" if name in FAILED else ""


def _checked(group: Group, point: EntryPoint) -> Any:
    """What the entry point names. Raises what loading or making it does, and TypeError or ValueError for what cannot
    be used as a method of the group.
    """
    thing = point.load()
    if group.base is not None and not (isinstance(thing, type) and issubclass(thing, group.base)):
        raise TypeError(f"it is no subclass of {group.base.__name__}")
    if not callable(thing):
        raise TypeError("it cannot be called")
    if group.base is not None:
        _check_stated(thing, group.base)
        if group.base is Attack:
            _check_attack(thing)
        _check_made(thing)
    for kind in [k for k in KINDS.values() if _package(k) == _package(thing)]:
        check_kind(kind)
    if (own := group.named(thing) or point.name) != point.name:
        raise ValueError(f"it calls itself {own!r}; name the entry point so")
    if point.name in group.reserved:
        raise ValueError("the name has a meaning of its own; choose another")
    return thing


def _add(group: Group, point: EntryPoint, thing: Any, digest: Callable[[str], str]) -> None:
    known = group.table.setdefault(point.name, thing)
    if known is not thing:
        raise ValueError(f"the name is that of {known.__module__}.{known.__qualname__}; choose another")
    PACKAGES[_package(thing)] = _package(thing) if point.dist is None else point.dist.name
    if point.dist is not None:
        DISTRIBUTIONS[point.dist.name] = point.dist.version
        CODE[_code_of(_package(thing))] = digest(_package(thing))
        if group.base is Attack:
            ATTACKS_OF[point.name] = point.dist.name


def _check_stated(method: type, base: type) -> None:
    """Raises TypeError for a method that leaves out what its base has it state."""
    for name in get_annotations(base):
        if not hasattr(method, name) and name not in getattr(base, "__dataclass_fields__", {}):
            raise TypeError(f"it does not state `{name}`")


def _check_attack(attack: type[Attack]) -> None:
    """Raises TypeError unless an attack states assets, kinds of messages and at least one control, ValueError for an
    asset that is none, and what `_check_control` does for a control that cannot be played.
    """
    for name, kind in {"asset": str, "reads": type, "controls": ControlSpec, "checks": str}.items():
        stated = getattr(attack, name)
        if not isinstance(stated, tuple) or not all(isinstance(part, kind) for part in stated):
            raise TypeError(f"`{name}` is {stated!r}; it must be a tuple of what `{Attack.__name__}` says")
    if unknown := [a for a in attack.asset if a not in STATED_ASSETS]:
        raise ValueError(f"`asset` names {unknown[0]!r}; known are {', '.join(STATED_ASSETS)}")
    if not attack.controls:
        raise TypeError("it declares no control: `controls` must say where it succeeds, or nothing shows that it works")
    if strange := [k for k in attack.reads if not issubclass(k, Payload)]:
        raise TypeError(f"`reads` names {strange[0].__name__}, which is no kind of message")
    for spec in attack.controls:
        _check_control(spec)


def _check_control(spec: ControlSpec) -> None:
    """Raises ValueError where a control names an encoder or a scaler that there is not, and what making one raises that
    does not take its options. Those of plugins are registered before attacks are.
    """
    scaler, options = canonical(spec.scaler)
    if spec.encoder not in ENCODERS:
        raise ValueError(f"a control names the encoder {spec.encoder!r}, and there is none{failure(spec.encoder)}")
    if scaler not in SCALERS:
        raise ValueError(f"a control names the scaler {spec.scaler!r}, and there is none{failure(spec.scaler)}")
    ENCODERS[spec.encoder](**spec.encoder_options)
    SCALERS[scaler](**{**options, **spec.scaler_options})
    if spec.quiet is not None:
        _check_control(spec.quiet)


def _check_made(method: Any) -> None:
    """Raises what making the method with its options raises; TypeError where options are not all that it needs.

    A method that cannot be made would end every command that reads a configuration, not those that name it alone.
    """
    options, empty = options_of(method), Parameter.empty
    needed = [p.name for p in signature(method).parameters.values() if p.default is empty and p.kind in NAMED]
    if other := [name for name in needed if name not in options]:
        raise TypeError(f"it cannot be made without `{other[0]}`, which is no option")
    if not any(o.required for o in options.values()):
        method()


def _package(thing: Any) -> str:
    return str(thing.__module__).partition(".")[0]


def _installed() -> Iterable[tuple[str, EntryPoint]]:
    return [(group, point) for group in GROUPS for point in entry_points(group=group)]


def versions_of_plugins() -> dict[str, str]:
    """Distribution -> version of the plugins that are registered, and beside it the digests of their packages' code,
    which may change while the version stays.
    """
    return dict(sorted({**DISTRIBUTIONS, **CODE}.items()))


def versions_behind(attack: str, versions: Mapping[str, str]) -> dict[str, str | None]:
    """Those of `versions` of a run that are of the plugin which the attack is from; none of one that is ours."""
    if (distribution := ATTACKS_OF.get(attack)) is None:
        return {}
    codes = (_code_of(package) for package, of in PACKAGES.items() if of == distribution)
    return {name: versions.get(name) for name in (distribution, *codes)}


def _code_of(package: str) -> str:
    """What the code of a package is called among versions."""
    return f"{package} (code)"


def code_digest(package: str) -> str:
    """The first 12 digits of a SHA-256 over the names and contents of a package's Python files, or of a module's."""
    module, digest = sys.modules[package], sha256()
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    files = [(f, f.relative_to(folder)) for folder in folders for f in sorted(folder.rglob("*.py"))]
    alone = [] if folders or not module.__file__ else [(Path(module.__file__), Path(module.__file__).name)]
    for file, name in files or alone:
        digest.update(f"{name}\0{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


register(_installed())
