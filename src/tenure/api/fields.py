"""Types of JSON fields: how units look at the edge and what is accepted.

Outside, times are RFC 3339 strings, durations are whole milliseconds in fields that end in ``_ms``, memory is MiB,
shares and ratios are plain numbers. Inside the models times are integer milliseconds, as everywhere.
"""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tenure import units
from tenure.units import UnitError

MAX_INT = 2**63 - 1
"""What a database holds in one integer."""
MAX_REPLICAS = 10_000
MAX_TEXT = 4096


def _time(value: object) -> object:
    return units.parse_time(value) if isinstance(value, str) else value


Time = Annotated[
    int,
    BeforeValidator(_time),
    PlainSerializer(units.format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Milliseconds since the epoch inside, RFC 3339 outside."""


def _time_text(value: object) -> int:
    if not isinstance(value, str):
        raise UnitError(str(value), "write it as text, like 2026-10-09T12:00:00Z")
    return units.parse_time(value)


TimeText = Annotated[
    int,
    BeforeValidator(_time_text),
    PlainSerializer(units.format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A ``Time`` in a request, where a bare number could mean seconds."""

Ms = Annotated[int, Field(ge=0, le=units.MAX_DURATION)]


def _unit(parse: object, example: str) -> BeforeValidator:
    def convert(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str):
            raise UnitError(str(value), f"write it as text, like {example}")
        parse(value)  # type: ignore[operator]
        return value

    return BeforeValidator(convert)


DurationText = Annotated[str, _unit(units.parse_duration, '"2h30m"'), Field(max_length=64, examples=["2h30m"])]
ArrayText = Annotated[str, _unit(units.parse_array, '"0-15%4"'), Field(max_length=4096, examples=["0-15%4"])]
IndicesText = Annotated[str, _unit(units.parse_indices, '"0-3,7"'), Field(max_length=4096, examples=["0-3,7"])]


def _job(value: object) -> object:
    """A job as text; a number alone will do. Raises UnitError."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise UnitError(str(value), 'write a job\'s number, like 12 or "12_3"')
    units.parse_job(text)
    return text


JobText = Annotated[
    str,
    BeforeValidator(_job),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}], "examples": [12, "12_3"]}),
]
MemoryText = Annotated[str, _unit(units.parse_memory, '"64G"'), Field(max_length=64, examples=["64G"])]


_UNSEEN = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""What makes a line read otherwise than it is written."""


def printable(value: str) -> str:
    """What files, databases, process tables and terminals all accept. Raises UnitError."""
    if not value.isprintable():
        for character in value:
            if character in _DIRECTIONS or unicodedata.category(character) in _UNSEEN:
                raise UnitError(value, f"no control characters: there is {character!a} in it")
    return value


def _argument(value: str) -> str:
    """A command's argument or a variable's value: anything that a process can be given. Raises UnitError."""
    for character in value:
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise UnitError(value, f"no process can be given {character!r}")
    return value


Text = Annotated[str, AfterValidator(printable), Field(max_length=MAX_TEXT)]
Name = Annotated[str, AfterValidator(printable), Field(min_length=1, max_length=200)]
Path = Annotated[str, AfterValidator(printable), Field(min_length=1, max_length=1000)]
Argument = Annotated[str, AfterValidator(_argument), Field(max_length=131_071)]
"""Linux takes 128 KiB in one argument."""


def _cpus(value: object) -> object:
    """As given, when it is a number with at most 3 decimals. Raises UnitError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnitError(str(value), "write CPUs as a number, like 4 or 0.5")
    units.parse_cpus(str(value))
    return value


Cpus = Annotated[
    int | float | str,
    BeforeValidator(_cpus),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}], "examples": [4, 0.5]}),
]
