"""The design's table of who may import whom, and that nothing imports in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from leakledger.attacks import ATTACKS

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "preprocess": set(),
    "attacks": {
        "preprocess.views",
        "preprocess.messages",
        "preprocess.models",
        "preprocess.options",
        "preprocess.secret",
    },
    "defenses": {"preprocess.views", "preprocess.messages", "preprocess.federation", "preprocess.options"},
    "audit": {"preprocess", "attacks", "defenses"},
    "reports": {"audit.records", "audit.gate_records", "preprocess.atomic_file"},
}
EXCEPTIONS = {  # the command line writes reports and exports
    ("audit.command_report", "reports.html"),
    ("audit.command_benchmark", "reports.html"),
    *(("audit.command_gate", f"reports.{name}") for name in ("cyclonedx", "dpia", "junit", "pull_request", "sarif")),
}


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
            assert name.partition(".")[0] not in ALLOWED, f"{path}: {name} is leakledger.{name}"
            name = name.removeprefix("leakledger.")
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


def room(name):
    """The folder of a file; a file at the top of a package is a room of its own."""
    path = KNOWN[name]
    folder = path.parent.relative_to(ROOT)
    return ".".join(folder.parts) if len(folder.parts) > 1 else name


def folders(graph=GRAPH):
    """Which folder imports from which others."""
    rooms = {room(name): set() for name in graph}
    for name, targets in graph.items():
        rooms[room(name)] |= {room(t) for t in targets} - {room(name)}
    return rooms


def test_no_folder_imports_another_in_a_circle():
    tuple(TopologicalSorter(folders()).static_order())


def test_a_circle_of_folders_is_noticed():
    graph = {**GRAPH, "attacks.candidates.codes": {"attacks.gradient.span.span"}}
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(folders(graph)).static_order())


def technique(name):
    """The attack that a file belongs to; none for what attacks share."""
    parts = name.split(".")
    own = len(parts) > 2 and parts[:2] in (["attacks", "gradient"], ["attacks", "transcript"])
    return parts[2] if own and parts[2] in ATTACKS else None


def test_no_attack_imports_another_but_the_portfolio():
    braid = {
        (one, other)
        for name, targets in GRAPH.items()
        for target in targets
        if (one := technique(name)) and (other := technique(target)) and one not in (other, "portfolio")
    }
    assert braid == set()
    assert {technique(n) for n in GRAPH} - {None} == set(ATTACKS)


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
