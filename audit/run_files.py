"""`results.json` and `report.html` in the folder of a run: written whole, for their owner alone, and recorded."""

import os
from contextlib import closing
from pathlib import Path

from leakledger.audit.chain import digest_of
from leakledger.audit.store import REPORT, RESULTS, Store, StoreError
from leakledger.preprocess.atomic_file import PRIVATE, atomic_file, remove_leftovers


def keep_results(store: Store, content: bytes) -> None:
    """Writes `results.json`, then records it: whoever is killed in between does both again.

    Raises StoreError where the record has other results, as when the program was changed and not its version.
    """
    if store.complete and digest_of(content) not in store.digests(RESULTS):
        raise StoreError(
            f"{store.folder / RESULTS}: is lost or changed, and the cases give others now than the record has; run the "
            "audit again with another --output"
        )
    with atomic_file(store.folder / RESULTS, PRIVATE) as file:
        file.write(content)
    store.add_file(RESULTS, content)


def keep_report(folder: Path, page: bytes) -> Path:
    """Records a page and writes it as the run's report, unless it is there: so the folder may be read-only.

    Recorded first, it is never without an entry; whoever is killed in between leaves the page before, which has one.
    """
    with closing(Store.read(folder)) as store:
        path = folder / REPORT
        if store.holds(REPORT) and path.read_bytes() == page:
            return path
        if not os.access(folder, os.W_OK):
            raise StoreError(
                f"{folder}: cannot be written, and its report is another; use `leakledger report --output`"
            )
        remove_leftovers(folder, REPORT)
        store.add_file(REPORT, page)
        with atomic_file(path, PRIVATE) as file:
            file.write(page)
    return path
