"""What each check of a transcript is called where people read it; policies and files have its own name."""

TITLES = {
    "stated": "data on a sender's own rows in the clear",
    "stated-pooled": "data on rows of several parties together in the clear",
    "parts-not-hiding": "shares that tell of what they are shares",
    "masks-reused": "masks that were used twice",
    "coalition": "numbers of a client that others work out together",
    "plaintext-told": "what one table holds, told in the clear",
    "plaintext-relayed": "what one table holds, relayed in the clear",
    "codes-without-key": "codes that anybody can compute",
    "one-mask": "one mask over several columns",
    "lone-records": "records that are alone in a bin",
}


def check_title(check: str) -> str:
    """A check's name as a reader knows it; for one without a title, of a plugin, say, its own in words."""
    return TITLES.get(check, check.replace("-", " ").replace("_", " "))
