"""Reads word vectors from a fastText model file (`.bin`), without fastText, without loading it, and without trust.

The format is the one that fastText writes (versions 11 and 12), all numbers little-endian:

    int32    magic 793712314, version
    int32    dim, ws, epoch, minCount, neg, wordNgrams, loss, model, bucket, minn, maxn, lrUpdateRate;  float64 t
    int32    size, nwords, nlabels;  int64 ntokens, pruneidx_size
    entries  size times: text ending in NUL, int64 count, int8 type (0 word, 1 label)
    int8     quantised;  int64 rows, columns;  float32 matrix: nwords words, then the buckets
    int8     quantised;  int64 rows, columns;  float32 output matrix (not used)

Every size is checked against the sizes before it and against the length of the file before anything is read or
allocated by it; a file that is shorter or longer than it says is refused. Quantised (`.ftz`) and pruned models are
refused too. The matrix stays in the file: only the rows of the words that are asked for are read.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.encoders.subword.hashing import Subwords

MAGIC, VERSIONS = 793712314, (11, 12)
SUPERVISED = 3
MAX_DIMENSION = 10_000
ARGUMENTS = ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "rate")
SMALLEST_ENTRY = 1 + 8 + 1


class ModelFileError(ValueError):
    """A file that is no fastText model that can be read; the text names the file and what is wrong with it."""


@dataclass(frozen=True)
class FastTextModel:
    """An open model: `words` maps a word's UTF-8 to its row, the rows of `subwords`' buckets follow the words'."""

    dimension: int
    subwords: Subwords
    words: Mapping[bytes, int] = field(repr=False)
    matrix: NDArray[np.float32] = field(repr=False)

    @property
    def bounds(self) -> tuple[None, None]:
        """Nothing is known of the entries without reading them all."""
        return None, None

    def vector(self, word: str) -> NDArray[np.float64]:
        """(dimension,) the mean of the word's own row, if it has one, and those of its n-grams; zeros without either.

        Raises ModelFileError for a row with numbers that are not finite.
        """
        own = self.words.get(word.encode("utf-8", "surrogatepass"))
        rows = [*([] if own is None else [own]), *(len(self.words) + b for b in self.subwords.of(word))]
        if not rows:
            return np.zeros(self.dimension)
        read = self.matrix[rows].astype(np.float64)
        if not np.isfinite(read).all():
            raise ModelFileError("the fastText model holds numbers that are not finite; use another file")
        mean: NDArray[np.float64] = read.mean(axis=0)
        return mean


def open_model(path: Path | str) -> FastTextModel:
    """The model in a file. Raises ModelFileError, in one line, for a file that is not one."""
    try:
        with Path(path).open("rb") as file:
            if not file.seek(0, 2):
                raise ModelFileError("it is empty")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _Reader(data).model()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except ModelFileError as error:
        raise ModelFileError(f"{path}: not a usable fastText model: {error}") from None


class _Reader:
    """Reads a file from front to back. Raises ModelFileError as soon as something cannot be."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def model(self) -> FastTextModel:
        if self.take("<i") != (MAGIC,):
            raise ModelFileError("it does not start with fastText's magic number")
        (version,) = self.take("<i")
        if version not in VERSIONS:
            raise ModelFileError(f"its format has version {version}, known are 11 and 12")
        dimension, subwords = self.arguments(version)
        words = self.dictionary()
        matrix = self.matrix(dimension, len(words) + subwords.buckets)
        self.matrix(dimension, None)
        if self.left():
            raise ModelFileError(f"{self.left()} bytes follow its end")
        return FastTextModel(dimension, subwords, words, matrix)

    def arguments(self, version: int) -> tuple[int, Subwords]:
        found = dict(zip(ARGUMENTS, self.take("<12i"), strict=True))
        self.take("<d")
        if not 1 <= found["dim"] <= MAX_DIMENSION:
            raise ModelFileError(f"its vectors have {found['dim']} numbers, expected 1 to {MAX_DIMENSION}")
        if found["model"] not in (1, 2, SUPERVISED) or found["loss"] not in (1, 2, 3, 4):
            raise ModelFileError("its kind of model or loss is unknown")
        longest = 0 if version == 11 and found["model"] == SUPERVISED else found["maxn"]
        try:
            return found["dim"], Subwords(found["minn"], longest, found["bucket"])
        except ValueError as error:
            raise ModelFileError(str(error)) from None

    def dictionary(self) -> dict[bytes, int]:
        size, words, labels, _, pruned = self.take("<3i2q")
        if min(words, labels) < 0 or words + labels != size:
            raise ModelFileError(f"{words} words and {labels} labels do not make {size} entries")
        if pruned > 0:
            raise ModelFileError("it is pruned; use the full model")
        if pruned < -1:
            raise ModelFileError(f"its size of pruned entries is {pruned}")
        if size * SMALLEST_ENTRY > self.left():
            raise ModelFileError(
                f"{size} entries do not fit into the {self.left()} bytes that are left; is it cut off?"
            )
        found: dict[bytes, int] = {}
        for number in range(size):
            text, kind = self.entry()
            if kind != (number >= words):
                raise ModelFileError(f"entry {number + 1} is of kind {kind}, words come first and labels after")
            if number < words:
                found[text] = number
        if len(found) < words:
            raise ModelFileError("a word has two entries")
        return found

    def entry(self) -> tuple[bytes, int]:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise ModelFileError("it ends within its dictionary; is it cut off?")
        text = self.data[self.at : end]
        self.at = end + 1
        _, kind = self.take("<qb")
        return text, kind

    def matrix(self, dimension: int, expected: int | None) -> NDArray[np.float32]:
        quantised, rows, columns = self.take("<b2q")
        if quantised:
            raise ModelFileError("it is quantised (.ftz); use the full model")
        if columns != dimension or rows < 0 or expected not in (None, rows):
            wanted = "" if expected is None else f"{expected} "
            raise ModelFileError(f"a matrix of {rows} x {columns} where {wanted}rows of {dimension} were expected")
        if 4 * rows * columns > self.left():
            raise ModelFileError(f"a matrix of {rows} x {columns} does not fit into the file; is it cut off?")
        values = np.frombuffer(self.data, "<f4", rows * columns, self.at) if rows else np.empty(0, "<f4")
        self.at += 4 * rows * columns
        return values.reshape(rows, columns)

    def take(self, layout: str) -> tuple[Any, ...]:
        if struct.calcsize(layout) > self.left():
            raise ModelFileError("it ends too early; is it cut off?")
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def left(self) -> int:
        return len(self.data) - self.at
