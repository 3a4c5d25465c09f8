"""What sections of a configuration are made of: keys that are known, and options of the methods that they name."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from leakledger.audit.options import Methods, checked


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MethodSection(Section):
    """A section that names methods and sets their options beside: those of the named ones and no others.

    `tables` has, for each key that names a method, all methods that it can name.
    """

    model_config = ConfigDict(extra="allow")
    tables: ClassVar[Mapping[str, Methods]]

    @property
    def options(self) -> Mapping[str, Any]:
        """Every option of the named methods, defaults included."""
        return self.__pydantic_extra__ or {}

    @classmethod
    def canonical(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is given, with names and options as results have them."""
        return values

    @model_validator(mode="before")
    @classmethod
    def _with_options(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        values = cls.canonical(values)
        own = {key: value for key, value in values.items() if key in cls.model_fields}
        names = {key: own.get(key, cls.model_fields[key].default) for key in cls.tables}
        if any(name not in list(cls.tables[key]) for key, name in names.items()):
            return own  # the name is refused, whatever its options
        given = {key: value for key, value in values.items() if key not in own}
        return own | checked(given, names, cls.tables, beside=cls.model_fields)
