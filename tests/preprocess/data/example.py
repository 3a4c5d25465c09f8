"""Small tables for the tests of data."""

from functools import cache

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import Declared

CSV = "city,age,dose,ill\nUlm,31,0.5,no\nBonn,42,1.5,yes\nUlm,55,2.5,yes\nKiel,60,0.25,no\n"


def frame(rows=60, seed=0, classes=2, cities=5):
    """Text, whole numbers, numbers, and a target `y` of whole numbers that depends on them; `ward` is no feature."""
    coins = np.random.default_rng(seed)
    city, age = coins.integers(0, cities, rows), coins.integers(18, 90, rows)
    y = (city + age // 20 + coins.integers(0, 2, rows)) % classes
    y[:classes] = range(classes)
    columns = {"city": [f"c{c}" for c in city], "pet": coins.choice(["cat", "dog", "eel"], rows), "age": age}
    return pd.DataFrame(
        {**columns, "dose": coins.normal(3, 2, rows), "ward": [f"w{c % 3}" for c in range(rows)], "y": y}
    )


def table(rows=60, seed=0, classes=2, cities=5, task=None, **declared):
    kinds = {"categorical": ("city", "pet"), "numeric": ("age", "dose")}
    return read_table(frame(rows, seed, classes, cities), Declared(target="y", task=task, **{**kinds, **declared}))


def tables():
    """Tables of every task; each is built once."""
    build, rows, seeds, cities = (
        cache(table),
        st.sampled_from([40, 61, 150]),
        st.integers(0, 3),
        st.sampled_from([1, 2, 8]),
    )
    classification = st.builds(build, rows, seeds, st.sampled_from([2, 3, 5]), cities)
    return classification | st.builds(build, rows, seeds, st.just(30), cities, st.just("regression"))
