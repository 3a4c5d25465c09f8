"""An error that comes out of a plugin is one line that names what was called, wherever that was."""

from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from leakledger.audit import plugins
from leakledger.audit.command import reports_problems
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.plugin_errors import naming_plugins, told_of_plugin
from leakledger.audit.run import CaseError, naming
from leakledger.audit.terminal import Commands
from leakledger.preprocess.frozen import freeze
from leakledger.preprocess.method_errors import MethodError
from leakledger.preprocess.told_failure import ToldFailure
from tests.preprocess.example import of_this_package

SOURCE = """
class Odd(BaseException):
    def __init__(self, one, two):  # cannot be made again from its text, as pickle would
        super().__init__(one)

class Strange:
    def mechanisms(self, error):
        inner(error)

    def calls(self, function, *values):
        return function(*values)

def inner(error):
    raise error
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The namespace of a module of the plugin `strange`."""
    monkeypatch.setitem(plugins.PACKAGES, "strange_code", "strange")
    monkeypatch.setitem(plugins.DISTRIBUTIONS, "strange", "0.1")
    monkeypatch.delenv("LEAKLEDGER_DEBUG", raising=False)
    (tmp_path / "methods.py").write_text(SOURCE)
    spec = spec_from_file_location("strange_code.methods", tmp_path / "methods.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError, 2), (OSError, 2), (KeyError, 1), (MemoryError, 1), (SystemExit, 1), (RecursionError, 1), ("Odd", 1)],
)
def test_it_names_the_function_that_was_called_and_the_kind_of_the_error_alone(plugin, error, code):
    raised = plugin["Odd"]("Smith, 42", 2) if error == "Odd" else error("Smith, 42")
    group = Commands()
    group.command("asks")(reports_problems(lambda: plugin["Strange"]().mechanisms(raised)))
    done = CliRunner().invoke(group, ["asks"])
    assert done.exit_code == code
    name = f"strange_code.methods.Strange.mechanisms, of the plugin strange 0.1, raised {type(raised).__name__};"
    assert done.stderr.startswith(f"leakledger: {name} LEAKLEDGER_DEBUG=1")
    assert done.stderr.count("\n") == 1
    assert "Smith" not in done.stderr


def test_what_this_package_says_of_input_what_was_told_and_an_interruption_stay_as_they_are(plugin):
    def raises(error):
        raise error

    strange = plugin["Strange"]()
    for error in (MethodError("told"), ToldFailure("told"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, naming_plugins():
            strange.calls(raises, error)
        assert caught.value is error
    with pytest.raises(ValueError, match="cannot be public") as own:
        strange.calls(freeze, object())
    assert told_of_plugin(own.value) is None
    with pytest.raises(TypeError, match="cannot be changed") as wrongly:
        strange.calls(freeze({}).update, {})
    assert isinstance(told_of_plugin(wrongly.value), ToldFailure)  # not about input: the plugin called it wrongly
    with pytest.raises(KeyError) as other:
        raises(KeyError("x"))
    assert told_of_plugin(other.value) is None


def test_an_attack_that_raises_what_is_no_exception_is_told_too(plugin):
    class Attack:
        technique = "strange"

        def run(self, view, knowledge):
            raise plugin["Odd"]("text", 2)

    with pytest.raises(ToldFailure, match=r"^the attack strange raised Odd in \S+; LEAKLEDGER_DEBUG=1 shows"):
        outcome_of(Attack(), None, None)


def test_an_error_of_a_library_within_this_package_is_told_of_a_case_without_the_value_that_it_quotes():
    line = r"^case one: ValueError; LEAKLEDGER_DEBUG=1 shows"
    with pytest.raises(CaseError, match=line) as told, naming(SimpleNamespace(id="one")):
        of_this_package(lambda: int("Smith, 42"))()
    assert "Smith" not in str(told.value)
