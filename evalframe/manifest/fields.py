"""The kinds of value that a manifest's fields hold, strict: ``"5"`` is no integer and ``1`` is no truth value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeGuard

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from evalframe.reprs import told


def wrong_kind(needed: str) -> PydanticCustomError:
    """The error of a value of the wrong kind; ``shape.faults_of`` turns it into a fault."""
    return PydanticCustomError("bad_type", "{needed}", {"needed": needed})


def is_text(value: Any) -> TypeGuard[str]:
    """Tell whether a raw value is a string."""
    return isinstance(value, str)


def is_number(value: Any) -> TypeGuard[float]:
    """Tell whether a raw value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> TypeGuard[int]:
    """Tell whether a raw value is an integer, or a float that equals one (``2.0``)."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def is_texts(value: Any) -> TypeGuard[Sequence[str]]:
    """Tell whether a raw value is a list of strings."""
    return isinstance(value, list | tuple) and all(map(is_text, value))


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _texts(value: Any) -> tuple[str, ...]:
    if is_text(value):
        return (value,)
    if is_texts(value):
        return tuple(value)
    raise wrong_kind("a string or a list of strings")


def _group(value: Any) -> int | str:
    value = _integral(value)
    if is_text(value) or (isinstance(value, int) and not isinstance(value, bool)):
        result: int | str = value
        return result
    raise wrong_kind("a group's number or name")


def _flag_or_text(value: Any) -> bool | str:
    if isinstance(value, bool | str):
        return value
    raise wrong_kind("true, false or a string")


def _text_or_object(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    raise wrong_kind("a string or an object")


def _files(value: Any) -> dict[str, tuple[str, ...]]:
    if isinstance(value, Mapping) and all(is_text(files) or is_texts(files) for files in value.values()):
        return {split: _texts(files) for split, files in value.items()}
    raise wrong_kind("a string, a list of strings, or an object of split to string or list")


_TEXT_OR_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, BeforeValidator(_integral), Strict()]
Real = Annotated[float, Strict()]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), WithJsonSchema(_TEXT_OR_TEXTS)]
Group = Annotated[
    int | str,
    BeforeValidator(_group),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
]
FlagOrText = Annotated[
    bool | str, BeforeValidator(_flag_or_text), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string"}]})
]
TextOrObject = Annotated[
    str | dict[str, Any],
    BeforeValidator(_text_or_object),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
]
Files = Annotated[
    dict[str, tuple[str, ...]],
    BeforeValidator(_files),
    WithJsonSchema({"anyOf": [*_TEXT_OR_TEXTS["anyOf"], {"type": "object", "additionalProperties": _TEXT_OR_TEXTS}]}),
]


class Record(BaseModel):
    """A frozen record of a manifest: unknown keys are errors, null is as good as absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    # keys that do not belong here, but that people write: key -> (rule, detail, remedy)
    foreign_keys: ClassVar[Mapping[str, tuple[str, str, str]]] = {}
    # values of closed vocabularies that are known and refused: (field, value) -> (rule, detail, remedy)
    foreign_values: ClassVar[Mapping[tuple[str, str], tuple[str, str, str]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        known = cls.known_keys()
        return cls._resolve({key: value for key, value in given.items() if value is not None or key not in known})

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Fill in what follows from the other fields; values of wrong types are left as they are."""
        return given

    def __repr__(self) -> str:
        fields = type(self).model_fields
        parts = ((name, getattr(self, name)) for name in fields)
        default = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
        return told(type(self).__name__, ((name, value) for name, value in parts if value != default[name]))

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def known_keys(cls) -> list[str]:
        """All keys that a manifest may write here."""
        return list(cls.model_fields)
