"""Runs of one course side by side, all at the same moment: whenever they are broken off, they can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.core.events import Submitted
from tenure.core.model import MINUTE
from tenure.whatif.change import Variant
from tenure.whatif.course import Course
from tenure.whatif.rerun import Rerun

SLICES = 200
"""Parts in which the time of a course passes; the shortest is a minute."""
AS_IT_IS = Variant("as it is")

Going = Callable[[int, int], bool]
"""Called with ms that are simulated and that there are; False breaks it off."""


def begin(course: Course, variants: Sequence[Variant]) -> list[Rerun]:
    """The run as it is, and one for each variant. Raises SettingError and ValueError for what cannot be tried."""
    return [Rerun(course, variant) for variant in (AS_IT_IS, *variants)]


def run(reruns: Sequence[Rerun], going: Going) -> bool:
    """Let all of them come to the end of their course. False when they were broken off; all are at one moment then."""
    course = reruns[0].course
    length = course.until - course.since
    step, at = max(MINUTE, length // SLICES), course.since
    while at < course.until:
        at = min(at + step, course.until)
        for one in reruns:
            one.advance(at)
        if not going(at - course.since, length):
            break
    return at >= course.until


def rehearse(one: Rerun) -> list[str]:
    """What the run would refuse and cut, without running it: it must not be run afterwards."""
    for event in one.course.events:
        if isinstance(event, Submitted):
            one.submitted(event)
    return one.told.lines()
