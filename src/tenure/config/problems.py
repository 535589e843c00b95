"""What is wrong with a configuration: file, field, value and what would work, all problems at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from difflib import get_close_matches

_SHOWN = 80
_COMPARED = 500
"""Words looked at for a likely one: comparing is slow, and thousands of budgets may each be named wrong."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
MISSING = "(missing)"


@dataclass(frozen=True, slots=True)
class Names:
    """What the two files are called in problems."""

    clusters: str = "tenure.toml"
    budgets: str = "budgets.toml"


@dataclass(frozen=True, slots=True)
class Problem:
    """None of the four is ever empty. ``field`` is a dotted path such as ``clusters.h100.hosts[0].gpus``."""

    file: str
    field: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field} = {self.value}: {self.remedy}"


class ConfigError(Exception):
    """A configuration that cannot be applied, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def show(value: object) -> str:
    """A value as it would stand in the file, shortened."""
    text = _render(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _render(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value[: 2 * _SHOWN], ensure_ascii=False)
    if isinstance(value, int) and value.bit_length() > 256:
        return "(a number of more than 256 bits)"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, dict):
        inner = ", ".join(f"{key_text(str(k))} = {_render(v)}" for k, v in list(value.items())[:_SHOWN])
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_render(item) for item in value[:_SHOWN]) + "]"
    return str(value)


def key_text(key: str) -> str:
    """A key as it would stand in the file: quoted unless it is bare."""
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def dotted(path: Iterable[str | int]) -> str:
    """``("clusters", "h100", "hosts", 0)`` -> ``clusters.h100.hosts[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + key_text(part)
    return text or "(file)"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy for an unknown word: the closest known one, else the first few that there are."""
    words = sorted(known)
    close = get_close_matches(word[:_SHOWN], words[:_COMPARED], n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    listed = ", ".join(words[:20]) + (", ..." if len(words) > 20 else "")
    return f"known are: {listed}" if words else "there are none"
