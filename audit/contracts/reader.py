"""The contract of a reader of table files."""

from pathlib import Path
from typing import ClassVar

import pandas as pd

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.readers import READERS

FRAME = pd.DataFrame({"age": [31.0, 42.5, 55.0], "ward": ["a", "b", "a"], "ill": ["no", "yes", "no"]})


class ReaderContract:
    """Tests of the reader of files that end with `suffix`; `write` writes such a file."""

    suffix: ClassVar[str]

    def write(self, frame: pd.DataFrame, path: Path) -> None:
        """Writes `frame` into a file that the reader reads."""
        raise NotImplementedError

    def test_it_is_installed_for_its_suffix(self) -> None:
        assert self.suffix in READERS, f"no installed entry point is called {self.suffix!r}"
        assert (READERS[self.suffix].__doc__ or "").strip(), "say in a docstring what it reads"

    def test_a_table_comes_out_as_it_went_in(self, tmp_path: Path) -> None:
        path = tmp_path / f"table{self.suffix}"
        self.write(FRAME, path)
        table = read_table(path, target="ill")
        assert (table.schema.numeric, table.schema.categorical) == (("age",), ("ward",))
        assert table.frame["age"].tolist() == FRAME["age"].tolist()
        assert table.frame["ward"].tolist() == FRAME["ward"].tolist()

    def test_a_file_of_another_kind_is_one_line(self, tmp_path: Path) -> None:
        path = tmp_path / f"table{self.suffix}"
        path.write_bytes(b"\x00no table\xff")
        problem = ""
        try:
            read_table(path, target="ill")
        except DataError as error:
            problem = str(error)
        assert problem, "a file that is no table was read"
        assert "\n" not in problem
