"""The design's table of who may import whom, and that nothing imports in a circle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "preprocess": set(),
    "attacks": {"preprocess.views", "preprocess.models"},
    "defenses": {"preprocess.views", "preprocess.federation"},
    "audit": {"preprocess", "attacks", "defenses"},
    "reports": {"audit.records"},
}
EXCEPTIONS = {("audit.cli", "reports.html")}  # the command line writes the report


def modules():
    """Module name -> file, for every file of the five packages."""
    files = [p for package in ALLOWED for p in (ROOT / package).rglob("*.py")]
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in files}


def imports(path, known):
    """The project's modules that a file imports, the module behind each imported name included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in known:
                name = name.rpartition(".")[0]
            found |= {name} - {""}
    return found


def within(name, prefixes):
    return any(name == p or name.startswith(f"{p}.") for p in prefixes)


KNOWN = modules()
GRAPH = {name: imports(path, KNOWN) - {name} for name, path in KNOWN.items()}


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_the_design_allows(package):
    wrong = [
        (name, target)
        for name, targets in GRAPH.items()
        if within(name, [package])
        for target in targets
        if not within(target, [package, *ALLOWED[package]]) and (name, target) not in EXCEPTIONS
    ]
    assert wrong == []


def test_nothing_imports_in_a_circle():
    tuple(TopologicalSorter(GRAPH).static_order())


def test_no_attack_can_name_the_federation_the_data_or_the_truth():
    forbidden = (
        "preprocess.federation",
        "preprocess.data",
        "preprocess.transport",
        "preprocess.ledger",
        "audit",
        "defenses",
    )
    reach = {n for n in GRAPH if within(n, ["attacks"])}
    frontier = set(reach)
    while frontier:
        frontier = {t for n in frontier for t in GRAPH[n]} - reach
        reach |= frontier
    assert [n for n in reach if within(n, forbidden)] == []


def test_every_package_has_files_and_the_graph_has_edges():
    assert all(any(within(n, [p]) for n in GRAPH) for p in ALLOWED)
    assert "preprocess.views" in GRAPH["attacks.base"]
