"""What a run keeps of the code that it was made by, which continuations and gates ask for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakledger.audit import provenance

AROUND = (  # a case: what reads the configuration, hands cases out, and keeps, shows and ends them
    *("chain", "cluster", "config_file", "estimate", "frontier", "guarded", "input_files", "installed", "kept_code"),
    *("kept_settings", "limits", "options", "own_process", "plugin_errors", "plugins", "pool", "provenance"),
    *("run_files", "run_secret", "sections", "signature", "steps", "store", "terminal", "termination", "toml_value"),
    "unraised",
)


def imported(file: Path) -> Iterator[Path]:
    """The files of this package that one of them imports, wherever in it that is."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leakledger."):
            for name in ("", *(f".{alias.name}" for alias in node.names)):
                path = provenance.ROOT.joinpath(*f"{node.module}{name}".split(".")[1:])
                yield from (p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file())


def behind(file: Path) -> set[str]:
    found, left = {file}, [file]
    while left:
        new = set(imported(left.pop())) - found
        found |= new
        left += new
    return {str(p.relative_to(provenance.ROOT)) for p in found}


def test_all_code_that_a_case_comes_by_is_kept_with_the_run():
    kept = {*provenance._files(provenance.MEASURES), *provenance._files(provenance.PLAYS)}
    around = {f"audit/{name}.py" for name in AROUND}
    assert behind(provenance.ROOT / "audit/run.py") - kept == around
    assert {"audit/made_up.py", "audit/case_results.py"} <= set(provenance._files(provenance.MEASURES))
    assert not {n for n in kept if n.startswith(("reports/", "audit/command", "audit/cli"))}


def test_what_is_left_out_of_it_is_nothing_that_a_case_comes_by():
    assert set(provenance.PLAYS_NOT) <= set(provenance._files(provenance.PLAYS))
    case = behind(provenance.ROOT / "audit/case_kinds.py") | behind(provenance.ROOT / "audit/case_results.py")
    assert not case & set(provenance.PLAYS_NOT)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("preprocess/scalers/zscore_sac.py", {"code": {"preprocess/scalers"}, "instrument": False}),
        ("defenses/pruning.py", {"code": {"defenses"}, "instrument": False}),
        ("audit/made_up.py", {"code": set(), "instrument": True}),
        ("attacks/base.py", {"code": set(), "instrument": True}),
        ("audit/own_code.py", {"code": set(), "instrument": False}),
        ("preprocess/recorder.py", {"code": set(), "instrument": False}),
    ],
)
def test_another_content_of_a_file_is_told_by_its_folder(monkeypatch, file, told):
    code, instrument = provenance.code.__wrapped__, provenance.instrument.__wrapped__
    before, digest = (code(), instrument()), provenance.digest_of_file
    changed = provenance.ROOT / file
    monkeypatch.setattr(provenance, "digest_of_file", lambda path: "0" if path == changed else digest(path))
    assert {folder for folder, value in code().items() if value != before[0][folder]} == told["code"]
    assert (instrument() != before[1]) is told["instrument"]


@pytest.mark.parametrize("device", ["warp", "cuda:99"])
def test_a_device_that_cannot_be_used_is_named_without_what_torch_says_of_it(device):
    with pytest.raises(ValueError, match=rf"^--device: '{device}' cannot be used on this machine; write cpu") as said:
        provenance.device_name(device, "--device")
    assert not any(word in str(said.value) for word in ("privateuseone", "CUDA", "NVIDIA"))
