"""The files that an audit reads, by what is in them: every case reads them anew, and all are to find the same."""

import os
from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path

from leakledger.audit.config import Config
from leakledger.preprocess.alignment.text_encoder import is_named
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.schema_file import find_schema


def input_files(config: Config) -> dict[str, Path]:
    """Every input file by the key that names it, a schema by that of its table: tables, the schema given or beside one,
    tables of aliases, models of words, and folders of encoders.
    """
    source = config.data.source
    named = (
        {"data.source": source} if isinstance(source, str) else {f"data.source.{i}": s for i, s in enumerate(source)}
    )
    tables = {key: Path(s) for key, s in named.items() if s not in EMBEDDED}
    given = config.data.schema_file
    if isinstance(given, str):
        schemas = {"data.schema": Path(given)}
    else:
        beside = {f"schema beside {key}": find_schema(path) for key, path in tables.items() if given is None}
        schemas = {key: found for key, found in beside.items() if found is not None}
    aliases = {f"partition.{i}.aliases": Path(p.aliases) for i, p in enumerate(config.partition) if p.aliases}
    words = {
        f"preprocessing.{i}.fasttext_model": p.options.get("fasttext_model") for i, p in enumerate(config.preprocessing)
    }
    encoders = {f"alignment.{i}.encoder": a.alignment.encoder for i, a in enumerate(config.alignment)}
    models = {key: Path(name) for key, name in {**words, **encoders}.items() if name and not is_named(name)}
    return {**tables, **schemas, **aliases, **models}


def digests(config: Config) -> dict[str, str]:
    """SHA-256 of every input file, by path."""
    return {str(path): digest_of(path) for path in input_files(config).values()}


def by_key(config: Config, read: Mapping[str, str]) -> dict[str, str]:
    """The digests `read`, by path, by the key that names each file: what is kept with a run."""
    return {key: read.get(str(path), "") for key, path in input_files(config).items()}


def digest_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 in hexadecimal of a file, or of the names and contents of those in the folder of an encoder; "" where
    there is neither: any other folder is refused when it is read, however much is in it, and so is a device or a pipe.
    """
    if os.path.isfile(os.path.join(path, "config.json")):
        files = sorted(p for p in Path(path).iterdir() if p.is_file())
        return sha256("".join(f"{p.name}\0{digest_of(p)}\n" for p in files).encode()).hexdigest()
    if not os.path.isfile(path):
        return ""
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
