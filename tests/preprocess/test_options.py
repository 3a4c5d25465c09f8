import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from leakledger.preprocess.options import check_options, in_toml, option, options_of
from leakledger.preprocess.views import none_for_zero


@dataclass(frozen=True)
class Base:
    style: Literal["a", "b"] = option("a", help="a style")
    size: int = option(3, at_least=1, help="a size")


@dataclass(frozen=True)
class Method(Base):
    style: Literal["a", "b"] = "a"
    share: float = option(0.5, above=0, below=1, help="a share")
    weights: tuple[float, ...] = option((0.0,), at_least=0, at_most=2, help="weights")
    limit: int | None = option(None, at_least=1, help="a limit")
    kind: str = option("x", choices=("x", "y"), help="a kind")
    epochs: int = option(1, help="passes", only=("second",))
    seed: int = 0


@dataclass(frozen=True)
class Needy:
    sigma: float = option(above=0, help="needed")


def test_options_are_the_declared_fields_with_type_and_default_bases_included():
    assert list(options_of(Base)) == ["style", "size"]
    assert list(options_of(Method)) == ["size", "share", "weights", "limit", "kind", "epochs"]
    assert (options_of(Method)["share"].default, options_of(Method)["share"].type) == (0.5, float)
    assert options_of(Base)["style"].choices == ("a", "b")
    assert options_of(object) == {}


def test_an_option_of_some_methods_is_that_of_no_other():
    assert "epochs" in options_of(Method, "second")
    assert "epochs" not in options_of(Method, "first")


def test_an_option_without_default_is_needed():
    assert options_of(Needy)["sigma"].required
    assert not options_of(Base)["size"].required
    with pytest.raises(TypeError):
        Needy()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 0}, "size is 0; it must be at least 1"),
        ({"size": np.int64(0)}, "size is 0; it must be at least 1"),
        ({"share": 0}, "share is 0; it must be above 0"),
        ({"share": 1.0}, "share is 1.0; it must be below 1"),
        ({"share": float("nan")}, "share is nan; it must be finite"),
        ({"share": float("inf")}, "share is inf; it must be finite"),
        ({"weights": (1.0, -0.5)}, "weights is (1.0, -0.5); it must be at least 0"),
        ({"weights": (1.0, 3.0)}, "weights is (1.0, 3.0); it must be at most 2"),
        ({"limit": 0}, "limit is 0; it must be at least 1"),
        ({"kind": "z"}, "kind 'z' is unknown; choose one of x, y"),
    ],
)
def test_a_value_out_of_range_is_refused_with_name_and_value(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options(Method(**wrong))


def test_defaults_none_and_values_in_range_pass():
    check_options(Method())
    check_options(Method(size=10**400, share=0.999, weights=(0, 2), limit=None, kind="y"))
    check_options(Needy(0.1))


def test_values_are_written_as_toml():
    assert in_toml(("a", 1, 0.5, True)) == '["a", 1, 0.5, true]'
    assert in_toml('say "x"') == '"say \\"x\\""'
    assert in_toml({"a b": "c"}) == '{ "a b" = "c" }'
    assert (in_toml({}), in_toml(None), in_toml(False)) == ("{}", "none", "false")


def refuses_zero(value):
    if value == 0:
        raise ValueError("0 is no number of rows")
    return value


@pytest.mark.parametrize(
    ("read", "none"), [(None, "none"), (none_for_zero, "0"), (refuses_zero, "none"), (int, "none")]
)
def test_none_is_said_to_be_0_where_a_configuration_writes_it_so(read, none):
    @dataclass(frozen=True)
    class Sized:
        rows: int | None = option(8, at_least=1, read=read, help="rows")

    assert options_of(Sized)["rows"].range == f"a whole number from 1, or {none}"
