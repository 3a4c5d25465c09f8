"""Tables that come with the libraries in use: available everywhere, never downloaded."""

from collections.abc import Callable, Mapping

import pandas as pd

from leakledger.preprocess.data.schema_file import Declared

OCCUPATIONS = {
    1: "student",
    2: "farming or unskilled",
    3: "white-collar",
    4: "skilled",
    5: "managerial",
    6: "professional",
}
FAIR_LABELS = {
    "rate_marriage": {1: "very poor", 2: "poor", 3: "fair", 4: "good", 5: "very good"},
    "religious": {1: "not", 2: "mildly", 3: "fairly", 4: "strongly"},
    "educ": {
        9: "grade school",
        12: "high school",
        14: "some college",
        16: "college graduate",
        17: "some graduate school",
        20: "advanced degree",
    },
    "occupation": OCCUPATIONS,
    "occupation_husb": OCCUPATIONS,
}
NO_YES = {0: "no", 1: "yes"}


def fair() -> tuple[pd.DataFrame, Declared]:
    """Fair (1978), a survey of 6,366 married women: has the respondent had an affair? Comes with statsmodels.

    Codes become the survey's labels. Two are shortened: occupation 2 (farming, agriculture, semi-skilled or unskilled
    work) and 4 (teacher, nurse, artist, writer, technician, other skilled work). Age, years of marriage and children
    stay the interval midpoints that the survey coded.
    """
    from statsmodels.datasets.fair import load_pandas  # imported late: takes a second that other tables need not wait

    raw = load_pandas().data
    frame = raw.drop(columns="affairs").assign(**{c: raw[c].map(labels) for c, labels in FAIR_LABELS.items()})
    frame["affair"] = (raw["affairs"] > 0).map({False: "no", True: "yes"})
    return frame, Declared(
        target="affair",
        positive_class="yes",
        classes=("no", "yes"),
        categorical=tuple(FAIR_LABELS),
        numeric=("age", "yrs_married", "children"),
        integer=(),
        sensitive=("rate_marriage", "religious", "age", "yrs_married", "children", "affair"),
        orders={c: tuple(FAIR_LABELS[c].values()) for c in ("rate_marriage", "religious", "educ")},
    )


def randhie() -> tuple[pd.DataFrame, Declared]:
    """RAND Health Insurance Experiment, 20,190 person-years: any visit to a doctor? Comes with statsmodels.

    The dummies of self-rated health become one ordinal feature. `physlm` is 0 or 1 but in 1,052 rows, which hold a
    fraction, an expected value in place of an answer: these are a third category, "unknown". A person has several rows,
    and the table does not say whose they are.
    """
    from statsmodels.datasets.randhie import load_pandas

    raw = load_pandas().data
    frame = raw[["lncoins", "lpi", "fmde", "disea"]].assign(
        idp=raw["idp"].map(NO_YES),
        physlm=raw["physlm"].map(NO_YES).fillna("unknown"),
        health=raw[["hlthp", "hlthf", "hlthg"]].idxmax(axis=1).map({"hlthp": "poor", "hlthf": "fair", "hlthg": "good"}),
        visit=(raw["mdvis"] > 0).map({False: "no", True: "yes"}),
    )
    frame.loc[raw[["hlthp", "hlthf", "hlthg"]].sum(axis=1) == 0, "health"] = "excellent"
    return frame, Declared(
        target="visit",
        positive_class="yes",
        classes=("no", "yes"),
        categorical=("idp", "physlm", "health"),
        numeric=("lncoins", "lpi", "fmde", "disea"),
        integer=(),
        sensitive=("physlm", "health", "disea", "visit"),
        orders={"health": ("poor", "fair", "good", "excellent")},
    )


def breast_cancer() -> tuple[pd.DataFrame, Declared]:
    """Wisconsin Diagnostic Breast Cancer, 569 cases of 30 measures: malignant or benign? Comes with scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    loaded = load_breast_cancer(as_frame=True)
    frame = loaded.data.assign(diagnosis=loaded.target.map(dict(enumerate(loaded.target_names))))
    return frame, Declared(
        target="diagnosis",
        positive_class="malignant",
        classes=("benign", "malignant"),
        categorical=(),
        numeric=tuple(loaded.data.columns),
        integer=(),
        sensitive=("diagnosis",),
    )


def digits() -> tuple[pd.DataFrame, Declared]:
    """Handwritten digits, 1,797 images of 8 x 8 greys from 0 to 16: which digit? Comes with scikit-learn."""
    from sklearn.datasets import load_digits

    loaded = load_digits(as_frame=True)
    return loaded.data.assign(digit=loaded.target.map("digit {}".format)), Declared(
        target="digit",
        classes=tuple(f"digit {d}" for d in range(10)),
        categorical=(),
        numeric=tuple(loaded.data.columns),
        integer=tuple(loaded.data.columns),
        sensitive=("digit",),
    )


EMBEDDED: Mapping[str, Callable[[], tuple[pd.DataFrame, Declared]]] = {
    "fair": fair,
    "randhie": randhie,
    "breast_cancer": breast_cancer,
    "digits": digits,
}
