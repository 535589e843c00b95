"""``--behave``: a month in which some people do not say what they need, or in which people learn what pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tenure import units
from tenure.cli.errors import CliError
from tenure.cli.simulation.options import duration

if TYPE_CHECKING:
    from tenure.sim.behaviour import Behaviour
    from tenure.sim.setup import Setup

_MILLION = 1_000_000
ADAPTIVE = "adaptive"
SHARE = "10%"
"""Of the people, where none is said."""
LOOK_EVERY = "7d"


@dataclass(frozen=True, slots=True)
class Behaving:
    """``shares``: trick -> its part of the people, in parts per million. ``reap_idle``, ``look_every``: ms."""

    shares: Mapping[str, int]
    adaptive: bool
    reap_idle: int
    look_every: int

    @classmethod
    def read(cls, behave: str | None, reap_idle: str, look_every: str) -> Behaving | None:
        """None when everybody is honest. Raises CliError."""
        reap, look = duration("reap-idle", reap_idle), look_ms(look_every)
        shares = _shares(behave or "")
        adaptive = shares.pop(ADAPTIVE, None) is not None
        if not adaptive and look_every != LOOK_EVERY:
            raise CliError(f"look-every = {look_every}: only adaptive people look; add --behave {ADAPTIVE}")
        return cls(shares, adaptive, reap, look) if shares or adaptive or reap else None

    def told(self) -> list[str]:
        """For titles."""
        said = [f"{name}={units.format_share(share)}" for name, share in self.shares.items()]
        said += [ADAPTIVE] if self.adaptive else []
        told = [f"behave={'+'.join(said)}"] if said else []
        if self.adaptive and self.look_every != units.parse_duration(LOOK_EVERY):
            told.append(f"look-every={units.format_duration(self.look_every)}")
        return [*told, f"reap-idle={units.format_duration(self.reap_idle)}"] if self.reap_idle else told

    def behaviour(self) -> Behaviour:
        from tenure.sim.behaviour import Behaviour
        from tenure.sim.researchers.adapting import Learning

        learning = Learning(look_every=self.look_every) if self.adaptive else None
        shares = {name: share / _MILLION for name, share in self.shares.items()}
        return Behaviour(shares, learning, self.reap_idle, settled=self.adaptive)

    def played(self, base: Setup, seed: int) -> Setup:
        """``base`` with these people, and notes that name them. Raises CliError where it cannot be done."""
        from tenure.sim.months import behaving, who_does_what

        behaviour = self.behaviour()
        try:
            made = behaving(base, behaviour)
        except ValueError as error:
            raise CliError(f"behave = {', '.join(self.shares)}: {error}") from error
        return replace(made, notes=(*made.notes, *who_does_what(base, behaviour, seed)))


def _shares(text: str) -> dict[str, int]:
    """``squat=10%,high=20%``. Raises CliError."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, share = (one.strip() for one in part.partition("="))
        if name != ADAPTIVE:
            check_name(name)
        elif equals:
            raise CliError(f"behave = {part}: everybody learns, or nobody; write {ADAPTIVE} alone")
        if name in found:
            raise CliError(f"behave = {text}: name {name} once")
        found[name] = parse_part("behave", share if equals else SHARE)
    if sum(share for name, share in found.items() if name != ADAPTIVE) > _MILLION:
        raise CliError(f"behave = {text}: that is more than all people")
    return found


def look_ms(text: str) -> int:
    """Milliseconds between two looks of somebody. Raises CliError."""
    found = duration("look-every", text)
    if found < 3_600_000:
        raise CliError(f"look-every = {text}: it takes at least 1h")
    return found


def parse_part(option: str, text: str) -> int:
    """A part of the people, in parts per million. Raises CliError."""
    try:
        return units.parse_share(text)
    except units.UnitError as error:
        raise CliError(f"{option} = {text}: {error.fix}") from error


def check_name(name: str) -> None:
    """Raises CliError unless there is such a trick."""
    from tenure.sim.researchers import TRICKS

    if name not in TRICKS:
        raise CliError(f"behave = {name}: there are {', '.join(TRICKS)} and {ADAPTIVE}")
