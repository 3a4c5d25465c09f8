"""Tables with one JSON object per line (.jsonl). An example."""

import json
from pathlib import Path

import pandas as pd


def read_json_lines(path: Path) -> pd.DataFrame:
    """Reads one JSON object per line, a row each."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except ValueError as error:
        raise ValueError(f"not one JSON object per line: {error}") from None
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line is no JSON object; write one per row")
    return pd.DataFrame(rows)
