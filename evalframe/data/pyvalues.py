"""Python values of records in memory as plain JSON values, none changed: what JSON can not hold is refused."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

import polars as pl

from evalframe.data.jsoncolumns import rendered
from evalframe.jsontext import Number

_AS_THEY_ARE = frozenset({str, bool, type(None), Number})
_LARGE = 10**600  # no float or id; Python refuses to write integers of over 4,300 digits
_MOST_ZEROS = 400  # of a decimal that is written without an exponent
_FINITE = "use null where the value is missing, or give a number"


class NoValueError(ValueError):
    """A value is none that JSON can hold: what it is, and what to do."""

    def __init__(self, detail: str, remedy: str, rule: str = "no_json") -> None:
        super().__init__(detail)
        self.detail, self.remedy, self.rule = detail, remedy, rule


def plain(value: Any, *, nan_is_null: bool = False) -> Any:
    """Give a value as JSON has it: as the columns of a frame with this value are written.

    Args:
        value: Text, numbers of Python, numpy or ``decimal``, times (ISO 8601), enums (their values), and dicts,
            lists, tuples and arrays of these.
        nan_is_null: NaN, NaT and NA are missing values, as in pandas; else they are refused.

    Raises:
        NoValueError: Says what can not be kept.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_LARGE < value < _LARGE else Number(str(Decimal(value)))
    if kind is float:
        return _finite(value, nan_is_null)
    try:
        if kind is dict or isinstance(value, Mapping):
            return {_key(key): plain(one, nan_is_null=nan_is_null) for key, one in value.items()}
        if kind is list or kind is tuple:
            return [plain(one, nan_is_null=nan_is_null) for one in value]
        return _rare(value, nan_is_null)
    except RecursionError:
        raise NoValueError("is nested too deeply", "flatten it", "too_deep") from None


def _rare(value: Any, nan_is_null: bool) -> Any:
    if type(value).__name__ in ("NAType", "NaTType"):
        return _finite(math.nan, nan_is_null)
    if isinstance(value, Enum):
        return plain(value.value, nan_is_null=nan_is_null)
    if isinstance(value, Number):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return plain(int(value))
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # numpy
        return _array(value, nan_is_null)
    if isinstance(value, float):
        return _finite(float(value), nan_is_null)
    if isinstance(value, Decimal):
        return _decimal(value, nan_is_null)
    if isinstance(value, dt.date | dt.time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return rendered(pl.Series([value], dtype=pl.Duration("us")))[0]
    if isinstance(value, pl.Series):
        return [plain(one, nan_is_null=nan_is_null) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        raise NoValueError("holds bytes", "drop the column, or write the bytes as text (base64)")
    if isinstance(value, Sequence):
        return [plain(one, nan_is_null=nan_is_null) for one in value]
    raise NoValueError(f"a {type(value).__name__} is no JSON value", "write it as text, a number, a list or a dict")


def _array(value: Any, nan_is_null: bool) -> Any:
    kind = getattr(value.dtype, "kind", "")
    if kind in ("m", "M"):  # times: numpy would give bare integers for some units
        texts = rendered(pl.Series(value.reshape(-1))).to_list()
        return plain(texts if value.ndim else texts[0], nan_is_null=nan_is_null)
    if kind == "f" and value.dtype.itemsize < 8:  # by its own shortest digits, not those of 64 bits
        value = value.astype(str).astype(float)
    return plain(value.tolist(), nan_is_null=nan_is_null)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NoValueError(f"the key {key!r} is no text", f"write {str(key)!r}", "bad_key")
    return str(key)


def _finite(value: float, nan_is_null: bool) -> float | None:
    if math.isfinite(value):
        return value
    if nan_is_null and value != value:
        return None
    raise NoValueError(f"{value} is no JSON", _FINITE, "not_finite")


def _decimal(value: Decimal, nan_is_null: bool) -> Any:
    if not value.is_finite():
        return _finite(float("nan") if value.is_nan() else math.inf, nan_is_null)
    return Number(format(value, "f") if abs(value.adjusted()) < _MOST_ZEROS else str(value))
