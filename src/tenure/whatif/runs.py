"""Runs of one course side by side, all at the same moment: whenever they are broken off, they can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.core.model import MINUTE, SECOND
from tenure.sim.loop import QUIET
from tenure.whatif.change import Variant
from tenure.whatif.course import Course
from tenure.whatif.rerun import Rerun

SLICES = 200
"""Parts in which the time of a course passes; the shortest is a minute."""
AS_IT_IS = Variant("as it is")
LATER = Variant("as it is, later", later=30 * SECOND)
"""The same with everything that people did, and every start, a moment later: what comes of that is chance."""

Going = Callable[[int, int], bool]
"""Called with ms that are simulated and that there are; False breaks it off."""


@dataclass(frozen=True, slots=True)
class Reruns:
    """The run as it is, the same a moment later, and those with a change."""

    as_it_is: Rerun
    later: Rerun
    changed: tuple[Rerun, ...]

    @property
    def course(self) -> Course:
        return self.as_it_is.course

    @property
    def sides(self) -> tuple[Rerun, ...]:
        """Those that are compared."""
        return (self.as_it_is, *self.changed)


def begin(course: Course, variants: Sequence[Variant], quiet: int = QUIET) -> Reruns:
    """Runs that have not begun. ``quiet``: the longest time between two passes of the server, ms.

    Raises SettingError and ValueError for what cannot be tried.
    """
    as_it_is, later, *changed = (Rerun(course, one, quiet=quiet) for one in (AS_IT_IS, LATER, *variants))
    return Reruns(as_it_is, later, tuple(changed))


def run(reruns: Reruns, going: Going) -> bool:
    """Let all of them come to the end of their course. False when they were broken off; all are at one moment then."""
    course = reruns.course
    length = course.until - course.since
    step, at = max(MINUTE, length // SLICES), course.since
    while at < course.until:
        at = min(at + step, course.until)
        for one in (*reruns.sides, reruns.later):
            one.advance(at)
        if not going(at - course.since, length):
            break
    return at >= course.until


def rehearse(one: Rerun) -> list[str]:
    """What the run would refuse and cut, without running it: it must not be run afterwards."""
    one.rehearse()
    return one.lines()
