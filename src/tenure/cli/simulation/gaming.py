"""``--trick``: a month in which some people game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tenure import units
from tenure.cli.errors import CliError

if TYPE_CHECKING:
    from tenure.sim.setup import Setup

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Game:
    """``share``: of the people, in parts per million."""

    trick: str
    share: int

    @classmethod
    def read(cls, trick: str | None, share: str, policies: Sequence[str]) -> Game | None:
        """None when nobody games. Raises CliError."""
        from tenure.policies.priority import PriorityCaps
        from tenure.sim.researchers import TRICKS

        try:
            part = units.parse_share(share)
        except units.UnitError as error:
            raise CliError(f"trick-share = {share}: {error.fix}") from error
        if trick is None:
            return None
        if trick not in TRICKS:
            raise CliError(f"trick = {trick}: there are {', '.join(TRICKS)}")
        if PriorityCaps.name in policies:
            why = f"under {PriorityCaps.name} people claim what they like anyway; leave it out of --policy"
            raise CliError(f"trick = {trick}: {why}")
        return cls(trick, part)

    def told(self) -> list[str]:
        """For titles."""
        return [f"trick={self.trick}", f"trick-share={units.format_share(self.share)}"]

    def played(self, base: Setup, seed: int) -> Setup:
        """``base`` with the trick, and a note that names who does it. Raises CliError where it cannot be done."""
        from tenure.sim.months import gamed, who_games

        share = self.share / _MILLION
        try:
            made = gamed(base, self.trick, share)
        except ValueError as error:
            raise CliError(f"trick = {self.trick}: {error}") from error
        return replace(made, notes=(*made.notes, who_games(base, self.trick, share, seed)))
