"""An encoder or scaler that fails is named, and what its error quotes is not told."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from leakledger.preprocess.encoders.base import EncoderFit
from leakledger.preprocess.encoders.server_dictionary import ServerDictionary
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.frozen import freeze
from leakledger.preprocess.method_errors import MethodError, may_be_told, naming_method
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.scalers.federated_zscore import FederatedZScore
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure
from tests.preprocess.example import SCHEMA, of_this_package, simulated, table

TABLES = {"P1": table(30, 1), "P2": table(30, 2)}
SECRET = "Smith, 42"
ENCODER, SCALER = ServerDictionary(), SCALERS["federated-zscore"]()


def preparing(encoder, scaler):
    fed, located = simulated(TABLES)
    prepare(fed, SCHEMA, located, located, encoder, scaler)


def failing(fit, base=ServerDictionary):
    """A method of somebody else whose protocol is `fit(fed, tables, what base would leave)`."""

    @dataclass(frozen=True)
    class Foreign(base):
        name = "foreign"

        def fit(self, fed, *rest):
            return fit(fed, rest[-1], lambda: base.fit(self, fed, *rest))

    return Foreign()


def raises(error):
    def fail(*_):
        raise error

    return fail


def at_a_party(error):
    fail = raises(error)
    return lambda fed, tables, fitted: [fed.local(c, lambda t: fail(t), t) for c, t in tables.items()]


def leaving(transform):
    """A fit whose encodings transform tables so."""

    class Encoding:
        def transform(self, table):
            return transform(table)

        def candidates(self, table, block):
            return np.zeros(len(table), np.int64)

    def fit(fed, tables, fitted):
        return replace(fitted(), encodings={c: fed.local(c, lambda t: Encoding(), t) for c, t in tables.items()})

    return fit


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError, MethodError), (OSError, MethodError), (KeyError, ToldFailure), (MemoryError, ToldFailure)],
)
@pytest.mark.parametrize("where", [raises, at_a_party, lambda error: leaving(raises(error))])
def test_an_error_of_a_foreign_method_is_told_by_its_name_and_kind_alone(where, error, kind):
    with pytest.raises(kind, match=rf"^the encoder foreign raised {error.__name__}; LEAKLEDGER_DEBUG=1") as caught:
        preparing(failing(where(error(SECRET))), SCALER)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("where", [raises, at_a_party])
def test_a_scaler_is_named_too_and_so_is_what_would_end_the_process(where):
    with pytest.raises(ToldFailure, match=r"^the scaler foreign raised RuntimeError;"):
        preparing(ENCODER, failing(where(RuntimeError(SECRET)), FederatedZScore))
    with pytest.raises(ToldFailure, match=r"^the scaler foreign called sys.exit"):
        preparing(ENCODER, failing(where(SystemExit(SECRET)), FederatedZScore))


NO_FIT = {
    "nothing": (lambda fed, tables, fitted: None, "its fit returns a value of type NoneType, not EncoderFit"),
    "one client's": (
        lambda fed, tables, fitted: EncoderFit({"P1": fitted().encodings["P1"]}, fitted().blocks),
        "encodings of its fit are not a value at each of P1, P2",
    ),
    "bare values": (
        lambda fed, tables, fitted: EncoderFit(dict.fromkeys(TABLES), fitted().blocks),
        "encodings of its fit are not a value at each of P1, P2",
    ),
    "secret blocks": (
        lambda fed, tables, fitted: EncoderFit(fitted().encodings, ()),
        "blocks of its fit is of type tuple, not Public",
    ),
    "other columns": (
        leaving(lambda table: np.zeros((len(table), 1))),
        r"an encoding gives columns of shape \(30, 1\), its public blocks say \(30, ",
    ),
    "no columns": (leaving(lambda table: None), r"an encoding gives columns of shape \(\), its public blocks say"),
}


@pytest.mark.parametrize("what", NO_FIT)
def test_what_is_no_fit_is_one_line_that_names_the_method(what):
    fit, problem = NO_FIT[what]
    with pytest.raises(MethodError, match=f"^the encoder foreign cannot be used: {problem}"):
        preparing(failing(fit), SCALER)


def test_what_the_packages_own_methods_say_of_the_data_and_broken_rules_are_told_as_they_are():
    rule = FederationError("rule")
    with pytest.raises(FederationError) as caught, naming_method("encoder", failing(raises(None))):
        raise rule
    assert caught.value is rule
    with pytest.raises(ValueError, match=r"^object cannot be public"), naming_method("encoder", ENCODER):
        freeze(object())
    told = pytest.raises(ToldFailure, match=r"^the encoder server-dictionary raised KeyError;")
    with told, naming_method("encoder", ENCODER):
        raise KeyError(SECRET)


def refusing():
    raise ValueError("3 rows")


def opening():
    with open("/no/such/file"):
        pass


@pytest.mark.parametrize(
    "fails",
    [
        lambda: int(SECRET),
        lambda: np.asarray([SECRET], float),
        lambda: [float(x) for x in [SECRET]],
        lambda: np.ones(42) + np.ones(3),
    ],
)
def test_what_a_library_says_within_a_method_of_this_package_is_not_told(fails):
    """Compiled code has no frame: 'invalid literal for int()' and the value seemed to be said by whoever called it."""
    with pytest.raises(ValueError, match="42") as said:
        of_this_package(fails)()
    assert may_be_told(said.value) == ON_REQUEST
    line = r"^the encoder server-dictionary raised ValueError; "
    with pytest.raises(MethodError, match=line) as told, naming_method("encoder", ENCODER):
        of_this_package(fails)()
    assert "42" not in str(told.value)


@pytest.mark.parametrize("fails", [refusing, opening])
def test_what_a_method_of_this_package_says_itself_is_told_and_so_is_a_file_that_cannot_be_opened(fails):
    with pytest.raises((ValueError, OSError)) as said, naming_method("encoder", ENCODER):
        of_this_package(fails)()
    assert may_be_told(said.value) == str(said.value)
