"""Where a whole process spends its time, by cProfile. Its own cost makes many small calls look dearer than they are."""

from __future__ import annotations

import pstats
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _measured import measure

_TOP = 20
_PACKAGE = "tenure"


@dataclass(frozen=True, slots=True)
class Line:
    """A function or a part of the code. ``own_s``: without what it calls; ``calls``: of it."""

    name: str
    own_s: float
    calls: int


@dataclass(frozen=True, slots=True)
class Profile:
    """``total_s``: under the profiler. ``functions`` and ``parts`` have the most of their own time first."""

    total_s: float
    functions: list[Line]
    parts: list[Line]


def profile(arguments: Sequence[str], file: Path) -> Profile:
    """Run ``tenure`` under cProfile; ``file`` is where that writes. Raises measured.Failed."""
    measure([sys.executable, Path(__file__).with_name("_sim_profile_run.py"), file, *arguments])
    stats = pstats.Stats(str(file))
    functions, own, calls = [], Counter[str](), Counter[str]()
    for (path, line, name), (_, count, own_s, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        part = _part(path, name)
        functions.append(Line(f"{part}:{line} {name}" if line else name, own_s, count))
        own[part] += own_s
        calls[part] += count
    functions.sort(key=lambda line: line.own_s, reverse=True)
    parts = [Line(part, own_s, calls[part]) for part, own_s in own.most_common(_TOP)]
    return Profile(sum(own.values()), functions[:_TOP], parts)


def text(title: str, found: Profile) -> str:
    """Two tables: functions, then parts of the code."""
    lines = [f"Profile of {title}: {found.total_s:.1f} s under cProfile"]
    for head, rows in (("function", found.functions), ("part of the code", found.parts)):
        lines += ["", f"{'own s':>9} {'%':>5} {'calls':>12}  {head}"]
        lines += [f"{r.own_s:9.2f} {100 * r.own_s / found.total_s:5.1f} {r.calls:12,}  {r.name}" for r in rows]
    return "\n".join((*lines, ""))


def _part(path: str, name: str) -> str:
    """``tenure.core.cycle``, or which library, or what is built in."""
    parts = Path(path).parts
    if _PACKAGE in parts:
        at = len(parts) - 1 - parts[::-1].index(_PACKAGE)
        return ".".join(parts[at:]).removesuffix(".py")
    if "site-packages" in parts:
        return f"library {parts[parts.index('site-packages') + 1].removesuffix('.py')}"
    if not path.startswith(("~", "<")):
        return "standard library"
    module = name.removeprefix("<built-in method ").partition(".")[0]
    return f"library {module}" if name.startswith("<built-in method ") and _is_library(module) else "built in"


def _is_library(module: str) -> bool:
    return module.isidentifier() and module not in sys.stdlib_module_names
