"""The files that an audit reads, by what is in them: every case reads them anew, and all are to find the same."""

import os
from collections.abc import Mapping
from hashlib import file_digest
from pathlib import Path

from leakledger.audit.config import Config
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.schema_file import find_schema


def digests(config: Config) -> dict[str, str]:
    """SHA-256 of every input file, by path: tables, the schema given or beside one, and tables of aliases."""
    sources = [config.data.source] if isinstance(config.data.source, str) else config.data.source
    paths = [Path(s) for s in sources if s not in EMBEDDED]
    given = config.data.schema_file
    beside = (find_schema(p) for p in paths if given is None)
    schemas = [Path(given)] if isinstance(given, str) else [found for found in beside if found is not None]
    aliases = [Path(p.aliases) for p in config.partition if p.aliases]
    return {str(p): digest_of(p) for p in (*paths, *schemas, *aliases)}


def digest_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file in hexadecimal; "" where there is none."""
    try:
        with open(path, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def check_unchanged(config: Config, before: Mapping[str, str]) -> None:
    """Raises ValueError, naming the file, unless all input files have the digests that they had `before`."""
    now = digests(config)
    if changed := sorted(path for path in {*before, *now} if before.get(path) != now.get(path)):
        raise ValueError(
            f"{changed[0]}: was changed while the run read it; the same command goes on with the file as it was, and "
            "what is in it now needs another --output"
        )
