"""All of it in one record: a budget's statement."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.balance.facts import Facts
from tenure.balance.outlook import Day, Outlook, Point


@dataclass(frozen=True, slots=True)
class Statement:
    """A budget's balance in one cluster. Amounts in thousandths of a GPU x ms, times in ms.

    ``entitled`` is E of rule 4, rounded down; ``accrued`` is what the window holds, which is less where the floor of
    ``policy.entitlement_floor`` counts. ``left``: E less what was used and is promised; negative: over.
    ``back_at``: when nothing is missing any more, if what runs stops at the end of its protection, and if it goes on;
    None when nothing is missing, or not within a lookback from now. ``lapses``: what the oldest day of the window will
    take with it, unused, by ``lapses_by``.
    """

    facts: Facts
    entitled: int
    accrued: int
    left: int
    left_last_day: int
    back_at: int | None
    back_at_going_on: int | None
    lapses: int
    lapses_by: int
    days: tuple[Day, ...]
    points: tuple[Point, ...]

    @property
    def over(self) -> bool:
        return self.left < 0


def statement(facts: Facts) -> Statement:
    """The statement of a node, as of the moment at which the facts were gathered."""
    outlook, figures = Outlook(facts), facts.figures
    entitled = figures.entitled // figures.denominator
    left = entitled - facts.parts.total
    days = tuple(outlook.days())
    over = left < 0
    return Statement(
        facts=facts,
        entitled=entitled,
        accrued=sum(day.entitled for day in days),
        left=left,
        left_last_day=figures.entitled_recent // figures.denominator - figures.used_recent,
        back_at=outlook.back_at() if over else None,
        back_at_going_on=outlook.back_at(going_on=True) if over else None,
        lapses=lapses(days[0], left),
        lapses_by=days[0].leaves_by,
        days=days,
        points=tuple(outlook.points()),
    )


def lapses(oldest: Day, left: int) -> int:
    """What the oldest day takes with it, unused: its unused part, but no more than what is left of the whole window.

    What later days used beyond what they were owed was paid for by earlier ones: that part is not unused.
    """
    return max(0, min(oldest.unused, left))
