"""Where an option was written, and what is said when it does not work."""

from __future__ import annotations

from dataclasses import dataclass

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a script; line 0 of '' is the command line."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file} line {self.line}" if self.line else self.file or "command line"


COMMAND_LINE = Place()


class ScriptError(ValueError):
    """A script or an option of sbatch that does not work: the line, the option, its value, and the fix."""

    def __init__(self, place: Place, option: str, value: str | None, fix: str) -> None:
        self.place, self.option, self.value, self.fix = place, option, value, fix
        where = f"{place}: " if place != COMMAND_LINE else ""
        what = option if value is None else f"{option} = {shown(value)}"
        super().__init__(f"{where}{what}: {fix}")


def shown(value: str) -> str:
    """A value on one line, shortened, never empty."""
    text = value if value.isprintable() else repr(value)
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return text or "''"


@dataclass(frozen=True, slots=True)
class Given:
    """An option as it was given: its full name without dashes, and its value if it has one."""

    name: str
    value: str | None
    place: Place

    @property
    def text(self) -> str:
        """As it is called in messages: ``--time=2:00:00``."""
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"

    def error(self, fix: str) -> ScriptError:
        return ScriptError(self.place, f"--{self.name}", self.value, fix)
