"""Characters that are drawn as nothing, by which names that look alike are not the same."""

IGNORABLE = frozenset(
    code
    for first, last in (
        (0x00AD, 0x00AD),
        (0x034F, 0x034F),
        (0x061C, 0x061C),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x206F),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFEFF, 0xFEFF),
        (0xFFA0, 0xFFA0),
        (0xFFF0, 0xFFF8),
        (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A),
        (0xE0000, 0xE0FFF),
    )
    for code in range(first, last + 1)
)
"""The code points with the property Default_Ignorable_Code_Point (Unicode 16.0, DerivedCoreProperties.txt), which
`unicodedata` does not know: letters, marks and formats, and places kept for more of them.
"""
BLANK = frozenset({0x2800, 0x1D159})  # BRAILLE PATTERN BLANK, MUSICAL SYMBOL NULL NOTEHEAD: symbols without ink


def invisible(char: str) -> bool:
    """Whether a character that is no space is drawn as nothing."""
    return ord(char) in IGNORABLE or ord(char) in BLANK
