"""Checks the stored transcripts of a run against themselves and against the heads that the record keeps."""

from pathlib import Path
from typing import Any

from leakledger.audit.store import Store
from leakledger.preprocess.transcript import verify_transcript


def verify_run(folder: Path) -> list[dict[str, Any]]:
    """One row per case, finished or aborted: `intact`, or what is wrong with its transcript."""
    store = Store.read(folder)
    rows = []
    for record in (*store.cases(), *store.aborted()):
        path = folder / "transcripts" / f"{record.id}.parquet"
        try:
            verify_transcript(path, bytes.fromhex(record.transcript_head))
            status = "intact"
        except (ValueError, OSError) as error:
            status = str(error)
        rows.append({"case": record.id, "head": record.transcript_head[:16], "status": status})
    store.close()
    return rows
