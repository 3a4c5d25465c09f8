"""The example's page, rendered once for all tests."""

import pytest

from leakledger.reports.html import render
from tests.reports.example import example
from tests.reports.page import parse


@pytest.fixture(scope="session")
def record():
    return example()


@pytest.fixture(scope="session")
def html(record):
    return render(record)


@pytest.fixture(scope="session")
def page(html):
    return parse(html)
