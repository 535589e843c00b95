"""When people work and when projects are busy: calendars of people, seasons of budgets. Times ms UTC."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from random import Random

from tenure.core.model import DAY, HOUR
from tenure.sim.researchers.lab import Rhythm, Season
from tenure.sim.researchers.mix import Choice

EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday."""


class Calendar:
    """The working times of one person. Days are drawn one after another, whatever is asked when."""

    def __init__(self, rng: Random, rhythm: Rhythm, begin: int) -> None:
        self.rng = rng
        self.rhythm = rhythm
        self.zone = Choice(rhythm.zones).draw(rng) * HOUR
        shift = rng.gauss(0, rhythm.between_people)
        self.begins = rhythm.begins + shift
        self.ends = rhythm.ends + shift
        self.first_day = (begin + self.zone) // DAY
        self.days: list[tuple[tuple[int, int], ...]] = []

    def next(self, at: int) -> tuple[int, int]:
        """(from, to) of the working time that ``at`` lies in, or else of the next one."""
        day = max(self.first_day, (at + self.zone) // DAY - 1)  # yesterday's evening may not be over
        while True:
            for begin, end in self._day(day):
                if at < end:
                    return begin, end
            day += 1

    def _day(self, day: int) -> tuple[tuple[int, int], ...]:
        while len(self.days) <= day - self.first_day:
            self.days.append(self._draw(self.first_day + len(self.days)))
        return self.days[day - self.first_day]

    def _draw(self, day: int) -> tuple[tuple[int, int], ...]:
        rng, rhythm = self.rng, self.rhythm
        free = (day + EPOCH_WEEKDAY) % 7 >= 5
        worked = rng.random() < (rhythm.weekends if free else rhythm.weekdays)
        early, late = rng.gauss(0, rhythm.between_days), rng.gauss(0, rhythm.between_days)
        evening, bedtime = rng.random() < rhythm.evening, rhythm.evening_ends + rng.gauss(0, 2 * rhythm.between_days)
        if not worked:
            return ()
        midnight = day * DAY - self.zone
        begin = min(16.0, max(5.0, self.begins + early))
        end = min(23.9, max(begin + 2.0, self.ends + late))
        times = [(begin, end)]
        if evening and bedtime > max(end, rhythm.evening_begins):
            times.append((max(end, rhythm.evening_begins), min(bedtime, 28.0)))
        return tuple((midnight + int(a * HOUR), midnight + int(b * HOUR)) for a, b in times)


class Seasons:
    """The phases of one budget. They are drawn one after another, the first one having begun before ``begin``."""

    def __init__(self, rng: Random, seasons: Sequence[Season], begin: int) -> None:
        self.rng = rng
        self.choice = Choice(tuple((season, season.weight) for season in seasons))
        self.starts: list[int] = []
        self.levels: list[float] = []
        self.known_until = begin
        running = Choice(tuple((season, season.weight * season.length) for season in seasons))
        self._add(running.draw(rng), rng.random())

    def level(self, at: int) -> tuple[float, int]:
        """What the usual demand is multiplied by, and until when."""
        while self.known_until <= at:
            self._add(self.choice.draw(self.rng), 1.0)
        i = bisect_right(self.starts, at)
        return self.levels[max(0, i - 1)], self.starts[i] if i < len(self.starts) else self.known_until

    def _add(self, season: Season, left: float) -> None:
        self.starts.append(self.known_until)
        self.levels.append(season.level)
        self.known_until += max(1, int(season.length * self.rng.uniform(0.5, 1.5) * left))


class Year:
    """The seasons of all budgets. Together they always ask for the same: when some are quiet, the others use it."""

    def __init__(self, shares: Mapping[str, float], seasons: Sequence[Season], seed: int, begin: int) -> None:
        self.shares = dict(shares)
        self.seasons = {path: Seasons(Random(f"{seed}/season/{path}"), seasons, begin) for path in shares}
        self._levels: dict[str, float] = {}
        self._known = (0, 0)
        """From when until when the levels hold."""

    def level(self, path: str, at: int) -> float:
        """What the usual demand of a budget is multiplied by: 1 on average over all budgets, weighed by share."""
        if not self._known[0] <= at < self._known[1]:
            self._refresh(at)
        return self._levels[path]

    def _refresh(self, at: int) -> None:
        now = {path: seasons.level(at) for path, seasons in self.seasons.items()}
        total = sum(self.shares[path] * level for path, (level, _) in now.items())
        whole = sum(self.shares.values())
        self._levels = {path: level * whole / total if total > 0 else 1.0 for path, (level, _) in now.items()}
        self._known = (at, min(until for _, until in now.values()))
