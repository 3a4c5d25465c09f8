"""The names that parties may give a feature: table 1 of FedLLM-Align extended, or a user's own file.

A file is TOML, a list of names under each feature: `age = ["Age", "PatientAge"]`. A feature that no table has keeps its
own name at every party. One name for two features would make one column out of two, and is an error; so are two that
differ only in case or in signs that nobody sees, which uncased encoders read as one.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.invisible import invisible

OWN = Path(__file__).with_name("aliases.toml")
WORDY = re.compile(r"[^,;:=.\n]+")  # signs that end a name or a value in one of the formats
Aliases = Mapping[str, tuple[str, ...]]


def read_aliases(features: Sequence[str], path: str | Path | None = None) -> Aliases:
    """The names of each of `features`, from the file at `path` or from the project's own table.

    Raises DataError for a file that cannot be read, for a feature in it that the table lacks, for a name with a sign
    that the formats use, and for one name under two features. The project's own table has features of several tables:
    what `features` lack of it is no error.
    """
    listed = _read(OWN if path is None else Path(path))
    where = "the project's aliases" if path is None else str(path)
    if path is not None and (unknown := [f for f in listed if f not in features]):
        raise DataError(f"{where}: {unknown[0]!r} is no feature{closest(unknown[0], features)}; remove it")
    aliases = {f: listed.get(f, (f,)) for f in features}
    for feature, names in aliases.items():
        for name in names:
            if not WORDY.fullmatch(name) or name != name.strip():
                told = f"{name!r}, a name of {feature!r}, has a sign that separates names or values; choose another"
                raise DataError(f"{where if feature in listed else 'partition.aliases'}: {told}")
    check_collisions(aliases, where)
    return aliases


def check_collisions(aliases: Aliases, where: str) -> None:
    """Raises DataError for a name that two features have, case and signs that nobody sees aside."""
    owner: dict[str, tuple[str, str]] = {}
    for feature, names in aliases.items():
        for name in names:
            other, as_written = owner.setdefault(_seen(name).casefold(), (feature, name))
            if other != feature:
                alike = "" if as_written == name else f", where it is written {as_written!r},"
                raise DataError(
                    f"{where}: {name!r} is a name of {other!r}{alike} and of {feature!r}; remove it from one of them"
                )


def _seen(name: str) -> str:
    """What one sees of a name: without signs of control and format and what is drawn as nothing, one blank for any."""
    signs = unicodedata.normalize("NFC", name)
    visible = "".join(c for c in signs if unicodedata.category(c) not in ("Cc", "Cf") and not invisible(c))
    return " ".join(visible.split())


def _read(path: Path) -> dict[str, tuple[str, ...]]:
    if path.exists() and not path.is_file():  # a device may have no end
        raise DataError(f"{path}: is no file; name a table of aliases, or leave the key out")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # the last one: nested too deeply
        raise DataError(f"{path}: cannot be read as a table of aliases ({error})") from None
    for feature, names in content.items():
        if not isinstance(names, list) or not names or not all(isinstance(n, str) and n for n in names):
            raise DataError(f'{path}: {feature} must be a list of names, as in age = ["Age", "PatientAge"]')
        if len({_seen(n) for n in names}) < len(names):
            raise DataError(f"{path}: {feature} lists a name twice")
    return {feature: tuple(names) for feature, names in content.items()}
