"""Character n-grams of a word and the buckets that fastText hashes them to.

Source: Bojanowski et al. (2017), section 3.2, and the hash that fastText uses: FNV-1a with 32 bits, in which every byte
is sign-extended before it is mixed in. A word is wrapped in "<" and ">"; n counts characters, not bytes; the wrapping
marks alone are no 1-grams; the word "</s>", which ends a line, has no n-grams.
"""

from dataclasses import dataclass

OFFSET, PRIME, MASK = 2166136261, 16777619, 2**32 - 1
END_OF_LINE = "</s>"


@dataclass(frozen=True)
class Subwords:
    """n from `shortest` to `longest`, hashed to `buckets`. Raises ValueError for sizes that make no sense."""

    shortest: int = 3
    longest: int = 6
    buckets: int = 2_000_000

    def __post_init__(self) -> None:
        if not (0 <= self.shortest <= 100 and 0 <= self.longest <= 100):
            raise ValueError(f"n-grams of {self.shortest} to {self.longest} characters: expected 0 to 100")
        if not 0 <= self.buckets < 2**31:
            raise ValueError(f"{self.buckets} buckets: expected 0 to 2^31 - 1")

    def of(self, word: str) -> list[int]:
        """The bucket of each n-gram of `word`, in the order of fastText; repeated n-grams repeat."""
        if word == END_OF_LINE or not self.buckets:
            return []
        characters = [c.encode("utf-8", "surrogatepass") for c in f"<{word}>"]
        found = []
        for start in range(len(characters)):
            hashed = OFFSET
            for end in range(start, min(start + self.longest, len(characters))):
                hashed = fnv1a(characters[end], hashed)
                n = end - start + 1
                if n >= max(self.shortest, 1) and not (n == 1 and start in (0, len(characters) - 1)):
                    found.append(hashed % self.buckets)
        return found


def fnv1a(data: bytes, hashed: int = OFFSET) -> int:
    """The 32-bit hash of `data`, continued from that of what came before."""
    for byte in data:
        signed = byte | 0xFFFFFF00 if byte > 127 else byte
        hashed = (hashed ^ signed) * PRIME & MASK
    return hashed
