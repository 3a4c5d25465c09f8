"""The one error for data that cannot be used."""


class DataError(ValueError):
    """Data, a schema or a partition that cannot be used.

    The text is one line: the file, the row, the column or the key, and what to do. It never repeats a record's value.
    Rows are counted from 1, without the header.
    """
