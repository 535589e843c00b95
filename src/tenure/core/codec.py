"""Records to JSON and back, the same bytes for the same record: what the log, snapshots and replay stand on."""

from __future__ import annotations

import json
import types
import typing
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

from tenure.core import decisions, events
from tenure.core.reasons import Because, Number, Reason

T = TypeVar("T")

_EVENTS = {cls.__name__: cls for cls in get_args(events.Event)}
_DECISIONS = {cls.__name__: cls for cls in get_args(decisions.Decision)}


class CodecError(Exception):
    """Data that is not what the record's declaration says: the place and what is wrong."""


def dumps(plain: Any) -> str:
    """Canonical JSON: sorted keys, no spaces."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def plain(value: Any) -> Any:
    """A record as dicts, lists, strings and integers. Sets are sorted."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple | list | deque):
        return [plain(item) for item in value]
    return value


def tagged(record: Any) -> dict[str, Any]:
    """An event or decision with its type's name."""
    return {"type": type(record).__name__, **plain(record)}


def event(data: Mapping[str, Any]) -> events.Event:
    """The event of a ``tagged`` dict. Raises CodecError."""
    return typing.cast(events.Event, _untag(_EVENTS, data))


def decision(data: Mapping[str, Any]) -> decisions.Decision:
    """The decision of a ``tagged`` dict. Raises CodecError."""
    return typing.cast(decisions.Decision, _untag(_DECISIONS, data))


def record(cls: type[T], data: Any) -> T:
    """The record of type ``cls`` that ``plain`` made ``data`` of. Raises CodecError."""
    try:
        return typing.cast(T, _reader(typing.cast(Any, cls))(data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"this is no {cls.__name__}: {error!r}") from error


def _untag(known: Mapping[str, type], data: Mapping[str, Any]) -> Any:
    name = str(data.get("type"))
    if name not in known:
        raise CodecError(f"type = {name}: known are {', '.join(sorted(known))}")
    return record(known[name], {key: value for key, value in data.items() if key != "type"})


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """A function that turns plain data into a value of the type ``hint``."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass_reader(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return _tuple_reader(args)
    if origin in (Union, types.UnionType):
        return _optional_reader(args)
    if origin in (set, frozenset, deque, list):
        item = _reader(args[0])
        return lambda data: origin(item(x) for x in data)
    if origin is dict:
        value = _reader(args[1])
        return lambda data: {key: value(x) for key, x in data.items()}
    return lambda data: data


def _dataclass_reader(cls: type) -> Callable[[Any], Any]:
    if cls is Because:
        return lambda data: Because(Reason(data["reason"]), {k: _number(v) for k, v in data["numbers"].items()})
    hints = typing.get_type_hints(cls)
    readers = {f.name: _reader(hints[f.name]) for f in fields(cls)}
    required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}

    def read(data: Any) -> Any:
        missing = required - data.keys()
        unknown = data.keys() - readers.keys()
        if missing or unknown:
            raise KeyError(f"{cls.__name__}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        return cls(**{name: readers[name](value) for name, value in data.items()})

    return read


def _tuple_reader(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    if len(args) == 2 and args[1] is Ellipsis:
        item = _reader(args[0])
        return lambda data: tuple(item(x) for x in data)
    items = [_reader(arg) for arg in args]
    return lambda data: tuple(read(x) for read, x in zip(items, data, strict=True))


def _optional_reader(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    inner = [arg for arg in args if arg is not type(None)]
    if len(inner) != 1:
        return lambda data: data
    read = _reader(inner[0])
    return lambda data: None if data is None else read(data)


def _number(value: Any) -> Number:
    return tuple(_number(item) for item in value) if isinstance(value, list) else value
