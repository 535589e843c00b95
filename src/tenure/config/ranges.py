"""Host names by range, as in ``n[01-16,20]``: expand, and fold back for people."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tenure.units import UnitError

MAX_HOSTS = 4096
_RANGE = re.compile(r"([^\[\]]*)\[([0-9,\s-]+)\]([^\[\]]*)")
_PART = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.DOTALL)
_FIX = "write a range like n[01-16] or n[1-4,7], lower number first"


def expand(name: str) -> list[str]:
    """The names in ``n[01-16]``, zeros kept; a plain name is itself. Raises UnitError, also above MAX_HOSTS."""
    if "[" not in name and "]" not in name:
        return [name]
    match = _RANGE.fullmatch(name)
    if match is None:
        raise UnitError(name, _FIX)
    prefix, inner, suffix = match.groups()
    names: list[str] = []
    for part in inner.split(","):
        bounds = _PART.fullmatch(part)
        if bounds is None:
            raise UnitError(name, _FIX)
        first, last = bounds[1], bounds[2] or bounds[1]
        if int(last) < int(first):
            raise UnitError(name, _FIX)
        if int(last) - int(first) + len(names) >= MAX_HOSTS:
            raise UnitError(name, f"at most {MAX_HOSTS} hosts")
        names += [f"{prefix}{number:0{len(first)}d}{suffix}" for number in range(int(first), int(last) + 1)]
    return names


def fold(names: Iterable[str]) -> list[str]:
    """Runs of names that differ only in one rising number become one range. ``expand`` gives them back."""
    runs: list[tuple[str, str, str, int]] = []  # prefix, first number, suffix, how many
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, number, suffix = match.groups() if match else (name, "", "")
        if runs and number:
            before, first, after, count = runs[-1]
            if first and (before, after) == (prefix, suffix) and number == f"{int(first) + count:0{len(first)}d}":
                runs[-1] = (before, first, after, count + 1)
                continue
        runs.append((prefix, number, suffix, 1))
    return [_folded(*run) for run in runs]


def _folded(prefix: str, first: str, suffix: str, count: int) -> str:
    if count == 1:
        return f"{prefix}{first}{suffix}"
    return f"{prefix}[{first}-{int(first) + count - 1:0{len(first)}d}]{suffix}"
