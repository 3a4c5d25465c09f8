"""README and docs: links and paths lead somewhere, and figures that were kept are quoted as they are."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.audit import catalogue
from leakledger.audit.records import at_least, at_most
from leakledger.defenses import DEFENSES
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import SCALERS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page):
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page):
    for path, anchor in re.findall(r"\]\((?!http)([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        there = (page.parent / path) if path else page
        assert there.exists(), path
        assert not anchor or anchor in anchors(there), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_is_named_is_there(page):
    folders = "tests|audit|attacks|preprocess|defenses|reports|benchmarks|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./*-]+)`", page.read_text()):
        assert list(ROOT.glob(path)), path


def kept(name):
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text())["rows"]


def cells(page, columns):
    """The cells of all lines of tables with so many columns."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return [row for row in rows if len(row) == columns]


def rounded(said, number):
    """Whether a number is what is said of it, to the digits that are said."""
    return abs(float(said) - number) <= 0.5 * 10.0 ** -len(said.partition(".")[2]) + 1e-9


def quoted(said, row):
    """Whether "mean (low to high)", or a mean alone, is that of a row, the interval rounded outwards."""
    mean, *ends = re.findall(r"-?[\d.]+", said)
    places = [len(end.partition(".")[2]) for end in ends]
    return rounded(mean, row["measured"]) and ends == [
        outwards(row[name], digits)
        for name, outwards, digits in zip(("low", "high"), (at_least, at_most), places, strict=False)
    ]


def test_the_table_of_the_adversary_who_knows_the_noise_is_what_was_measured():
    columns = [("posterior", "accuracy"), ("tableak", "accuracy"), ("prior only", "accuracy")]
    columns += [("from the truth", "accuracy"), ("posterior", "exact_rows")]
    lines = [row for row in cells("defended-updates.md", 9) if row[0] in ("Adult", "German")]
    assert len(lines) >= 25
    for table, batch, sigma, *said, _ in lines:
        of = {"B": int(batch), "sigma": float(sigma), "labels": "known"}
        rows = [r for r in kept(f"defended-{table.lower()}.json") if of.items() <= r["setting"].items()]
        for (attack, metric), cell in zip(columns, said, strict=True):
            fit = [r for r in rows if r["setting"]["attack"] == attack and r["metric"] == metric]
            assert cell == "–" or any(quoted(cell, r) for r in fit), (table, batch, sigma, attack, metric)


def test_what_preparing_the_data_adds_is_what_was_measured():
    rows = [r for r in kept("without-update.json") if r["metric"] == "accuracy"]
    lines = [row for row in cells("defended-updates.md", 4) if row[0] in ("Adult", "German")]
    assert len(lines) == len(rows) / 2 == 6
    for table, batch, *said in lines:
        for attack, cell in zip(("without the update", "prior only"), said, strict=True):
            of = {"B": int(batch), "attack": attack}
            (row,) = (r for r in rows if r["dataset"] == table.lower() and of.items() <= r["setting"].items())
            assert quoted(cell, row), (table, batch, attack)


def all_said(kind, tenth):
    """Of all cells of that kind which the posterior says to be right with so many tenths: what it says on average, how
    many are right, half of the 95 % interval, and how many they are. Lines are independent, and no surer than their
    cells would be if these were.
    """
    lines = []
    for row in (r for table in ("adult", "german") for r in kept(f"defended-{table}.json")):
        if row["metric"] == f"{kind} said 0.{tenth}" and "device" not in row["setting"]:
            cells, said = re.match(r"([\d,]+) cells? of \d+ batch(?:es)?, said ([\d.]+) %", row["note"]).groups()
            cells, said = int(cells.replace(",", "")), float(said)
            error = 0 if row["low"] is None else (row["high"] - row["low"]) / 3.92
            lines.append((cells, said, row["measured"], max(error, (said * (100 - said) / cells) ** 0.5)))
    cells, said, right, error = np.array(lines).T
    share = cells / cells.sum()
    return share @ said, share @ right, 1.96 * np.sqrt(share**2 @ error**2), cells.sum()


def test_how_sure_the_adversary_who_knows_the_noise_is_and_how_often_right_is_what_was_measured():
    lines = [row for row in cells("defended-updates.md", 3) if re.fullmatch(r"\d+ to \d+", row[0])]
    assert len(lines) == 10
    for tenth, (_, *said) in enumerate(lines):
        for kind, cell in zip(("categories", "numbers"), said, strict=True):
            numbers = re.findall(r"[\d.]+", cell.replace(",", ""))
            assert all(rounded(s, n) for s, n in zip(numbers, all_said(kind, tenth), strict=True)), (kind, tenth)


def test_what_comes_back_behind_norms_is_what_was_measured():
    lines = [row for row in cells("networks.md", 7) if row[0].startswith("`")]
    assert len(lines) == 5
    settings = [(table, size) for table in ("adult", "german") for size in (8, 16, 32)]
    for name, *said in lines:
        norm = re.match("`(.*)`", name)[1]
        for (table, size), cell in zip(settings, said, strict=True):
            rows = [r for r in kept(f"exact-norms-{table}.json") if r["metric"] == "identical_rows"]
            of = size, norm
            (row,) = (r for r in rows if (r["setting"]["B"], r["setting"].get("norm", "none")) == of)
            assert quoted(cell, row), (norm, table, size)
    tables = ("adult", "german", "bank_churn", "framingham")
    every = [r for table in tables for r in kept(f"exact-norms-{table}.json")]
    shares = [r["measured"] * r["n"] * r["setting"]["B"] / 100 for r in every if r["metric"] == "verified_rows"]
    text = " ".join((ROOT / "docs" / "networks.md").read_text().split())
    assert f"None of the {round(sum(shares)):,} rows" in text
    assert all(r["measured"] == 0 for r in every if r["metric"] == "false_verified")
    few = [
        r for r in every if r["dataset"] in tables[2:] and r["metric"] == "identical_rows" and "norm" in r["setting"]
    ]
    assert {r["measured"] for r in few if r["setting"]["B"] > 8} == {0}
    small = [(r["setting"]["norm"] == "batch", round(r["measured"])) for r in few if r["setting"]["B"] == 8]
    assert sorted(m for batch, m in small if batch) == [0, 20]
    said = re.search(r"8 rows come back in (\d+) to (\d+) % behind layer", text)
    rest = [m for batch, m in small if not batch]
    assert [int(n) for n in said.groups()] == [min(rest), max(rest)]


def test_what_audits_of_noise_on_statistics_and_updates_show_is_what_was_measured():
    rows = kept("statistics-dp.json")
    together, column = "count, sum, sum of squares, table; ", "the three numbers of a column together, "
    of = {
        "DP-SGD, one round, Gaussian": "DP-SGD, Gaussian",
        "client-level, one update, Gaussian": "client-level DP, Gaussian",
    }
    lines = [row for row in cells("statistics-dp.md", 4) if re.search("Laplace|Gaussian|exponential", row[0])]
    measured = set()
    for name, claimed, *shown in lines:
        noise = name.rsplit(None, 1)[-1]
        names = [of.get(name, name.replace(column, "whole message, "))]
        if name.startswith(together):
            names = [f"{n}, discrete {noise}" for n in ("count", "sum", "sum of squares", "table")]
        for mechanism, strength, cell in (
            (m, *s) for m in names for s in zip(("as stated", "half"), shown, strict=True)
        ):
            setting = {"mechanism": mechanism, "noise": strength}
            found = {r["metric"]: r for r in rows if setting.items() <= r["setting"].items()}
            assert rounded(claimed, found["epsilon claimed"]["measured"]), name
            seen = found["epsilon shown, median and range"]
            numbers = re.findall(r"[\d.]+", cell)
            assert all(rounded(s, seen[k]) for s, k in zip(numbers, ("measured", "low", "high"), strict=True)), name
            assert found["refuted"]["measured"] == (0 if strength == "as stated" else 100)
            measured.add(mechanism)
    assert measured == {r["setting"]["mechanism"] for r in rows}


def posteriors(attack):
    rows = [r for r in kept("posteriors.json") if r["setting"]["attack"] == attack and "statistic" in r["setting"]]
    keys = ("federation", "parties", "spread", "outlying", "observers", "statistic")
    return {(*(r["setting"][k] for k in keys), r["metric"]): r for r in rows}


def test_how_often_intervals_of_sizes_hold_is_what_was_measured():
    rows = posteriors("ring_size")
    lines = [row for row in cells("transcripts.md", 6) if re.match(r"(uhe|mod-norm|dh-psi), ", row[0])]
    assert len(lines) >= 43
    for name, parties, spread, _, after, who in lines:
        federation, _, apart = name.partition(" and ")
        observer = "server" if "server" in name else "P1" if parties == "3" else "P3"
        of = federation, int(parties), float(spread), bool(apart), observer, "size"
        coverage, width = re.fullmatch(r"(.*?)(?:, ([\d.]+))?", after).groups()
        assert quoted(coverage, rows[*of, "coverage"]), name
        assert width is None or rounded(width, rows[*of, "width"]["measured"]), name
        assert who == "–" or rounded(who, rows[*of, "who knows the cell"]["measured"]), name


def test_how_often_intervals_of_statistics_hold_is_what_was_measured():
    rows = posteriors("statistics")
    lines = [row for row in cells("transcripts.md", 7) if re.match(r"(sealed|relay), ", row[0])]
    assert len(lines) >= 43
    for name, parties, spread, *said in lines:
        federation, _, apart = name.removesuffix(", two observers").partition(" and ")
        observer = "P1+P2" if "two" in name else "P5" if apart == "the observer outlying" else "P1"
        for statistic, cell in zip(("count", "mean", "std", "quantile"), said, strict=True):
            of = federation, int(parties), float(spread), bool(apart), observer, statistic
            after = re.findall(r"→ ([\d.]+)", cell)
            for number, metric in zip(after, ("coverage", "width"), strict=False):
                assert rounded(number, rows[*of, metric]["measured"]), (name, statistic)


def test_what_recording_costs_is_what_was_measured():
    text = " ".join((ROOT / "docs" / "concepts.md").read_text().split())
    said = re.search(r"Recording adds (\S+ % \([^)]*\)) .* (\S+ % \([^)]*\)) to the training alone", text)
    added = {r["setting"]["run"]: r for r in kept("recording-adult.json") if r["metric"] == "time added"}
    assert quoted(said[1], added["case"])
    assert quoted(said[2], added["training"])


@pytest.mark.parametrize("names", [ENCODERS, SCALERS, ATTACKS, DEFENSES, AGGREGATIONS])
def test_the_readme_names_everything_that_there_is(names):
    listed = (ROOT / "README.md").read_text().split("## What there is")[1].split("\n## ")[0]
    assert {name for name in names if f"`{name}`" not in listed} == set()


def test_the_page_on_extending_names_the_table_of_everything_that_a_configuration_can_name():
    told = (ROOT / "docs" / "extending.md").read_text().split("\n## ")[0]
    tables = {name for name, t in vars(catalogue).items() if any(t is known for known in catalogue.TABLES.values())}
    assert len(tables) == len(catalogue.TABLES)
    assert {name for name in tables if f"`{name}`" not in told} == set()
