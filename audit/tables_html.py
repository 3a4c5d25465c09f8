"""Frames as HTML for notebooks: escaped, since names and values come from whoever made the data."""

from html import escape

import pandas as pd

from leakledger.audit.records import plural

MOST_ROWS = 50


def html_table(title: str, frame: pd.DataFrame) -> str:
    """A heading and the first rows."""
    more = f"<p>{plural(len(frame) - MOST_ROWS, 'more row')}</p>" if len(frame) > MOST_ROWS else ""
    table = frame.head(MOST_ROWS).to_html(index=False, border=0, float_format="{:.4g}".format) if len(frame) else ""
    return f"<p><b>{escape(title)}</b></p>{table}{more}"
