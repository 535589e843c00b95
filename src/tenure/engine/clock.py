"""Engine time (rule 15): it never runs backwards and never jumps, whatever happens to the wall clock.

Time advances by a clock that nobody can step (``CLOCK_BOOTTIME``, which also counts suspended time) and slews
towards the wall clock by at most 500 ppm. A step of the wall clock over 2 s raises an alarm, during which evictions
stop; it has passed when the wall clock is back, or has kept its new offset for a minute.

After a restart within one boot, time goes on by the same unsteppable clock. After a reboot it is the later of wall
clock and last recorded time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STEP = 2_000
SETTLE = 60_000
SLEW_PPM = 500


def boottime_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class Anchor:
    """Engine time ``at`` was recorded when the boot's clock showed ``boottime`` ms."""

    at: int
    boot: str
    boottime: int


class Clock:
    """Engine time in ms. Not thread-safe: the engine's thread reads it; ``last`` and ``present`` may be read by any.

    ``alarm``: one that was on when ``anchor`` was recorded; a restart does not end it.
    """

    def __init__(
        self,
        anchor: Anchor | None,
        alarm: bool = False,
        *,
        wall: Callable[[], int] = wall_ms,
        steady: Callable[[], int] = boottime_ms,
        boot: str | None = None,
    ) -> None:
        self._wall, self._steady = wall, steady
        self.boot = boot_id() if boot is None else boot
        self._seen = steady()
        if anchor is None:
            self.last = wall()
        elif anchor.boot == self.boot and self._seen >= anchor.boottime:
            self.last = anchor.at + self._seen - anchor.boottime
        else:
            self.last = max(wall(), anchor.at)
        self._credit = 0  # slew that is due and less than a ms, in millionths of a ms
        self._offset = wall() - self.last
        self._stepped_at: int | None = self._seen if alarm else None
        self.alarm = alarm

    @property
    def offset(self) -> int:
        """Wall clock minus engine time, ms, at the last reading."""
        return self._offset

    def anchor(self) -> Anchor:
        """What to record so that a restart goes on from here."""
        return Anchor(self.last, self.boot, self._seen)

    def now(self) -> int:
        """Engine time. Also watches for steps of the wall clock and sets ``alarm``."""
        steady = self._steady()
        elapsed = max(0, steady - self._seen)
        self._seen = max(self._seen, steady)
        self.last += elapsed + self._slew(elapsed)
        offset = self._wall() - self.last
        if abs(offset - self._offset) > STEP:
            self._stepped_at = steady
            self.alarm = True
        self._offset = offset
        if self._stepped_at is not None and (abs(offset) <= STEP or steady - self._stepped_at >= SETTLE):
            self._stepped_at = None
            self.alarm = False
        return self.last

    def present(self) -> int:
        """Engine time since the last reading, to look at: any thread may ask, and the next reading is not before it."""
        last, seen = self.last, self._seen  # in this order: a reading in between makes it earlier, never later
        elapsed = max(0, self._steady() - seen)
        return last + max(0, elapsed - elapsed * SLEW_PPM // 1_000_000 - 1)

    def _slew(self, elapsed: int) -> int:
        """How much to add to ``elapsed`` ms to get closer to the wall clock: whole ms, at most 500 ppm."""
        # What is not needed is not saved up: it would let time jump after the next step of the wall clock.
        whole, self._credit = divmod(self._credit + elapsed * SLEW_PPM, 1_000_000)
        whole = min(whole, abs(self._offset))
        return whole if self._offset > 0 else -whole
