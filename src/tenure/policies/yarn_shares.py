"""Fair shares as Hadoop YARN's Fair Scheduler works them out: minima, maxima and weights. Exact, and without a clock.

After ``FairSharePolicy``, ``ComputeFairShares`` and (until 2.8) ``FairScheduler.resourceDeficit`` of Apache Hadoop.
What differs from the source:

- It looks for the ratio R by 25 steps of bisection in doubles, and cuts each share off to a whole MB; shares may add up
  to a little less or more than there is. Here R is found exactly, and shares are fractions.
- It compares ratios in doubles, so what is nearly the same can be a tie there. Here it is not.
- Of two needy queues with the same part of their minima, 2.x goes on to start times, 3.x to usage over weight first.
  Here it is as in 3.x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Amount = int | Fraction
"""Of one resource, in any unit that is the same for all: here thousandths of a GPU."""
Order = tuple[bool, bool, Fraction, bool, Fraction, int, str]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue (or an application: YARN calls both schedulable) among its siblings.

    ``demand``: what it uses and what it waits for. ``max_share``: None is no maximum; below ``min_share`` it holds.
    ``started``: of applications, ms UTC; queues have 0. No number is negative.
    """

    name: str
    weight: Amount = 1
    usage: Amount = 0
    demand: Amount = 0
    min_share: Amount = 0
    max_share: Amount | None = None
    started: int = 0

    @property
    def needy(self) -> bool:
        """Whether it uses less than its minimum share, or than it wants if that is less."""
        return self.usage < min(self.min_share, self.demand)


def order(queue: Queue) -> Order:
    """Sorts siblings: the smallest is offered resources first. Siblings of different names are never equal.

    Who wants something before who wants nothing; the needy before the others, by the part that they have of their
    minimum share (or of their demand if that is less); then usage over weight, a weight of 0 last; then who started
    first; then the name.
    """
    of_minimum = Fraction(0)
    if queue.needy:
        of_minimum = Fraction(queue.usage) / min(queue.min_share, queue.demand)
    of_weight = Fraction(queue.usage) / queue.weight if queue.weight else Fraction(queue.usage)
    return not queue.demand, not queue.needy, of_minimum, not queue.weight, of_weight, queue.started, queue.name


def fair_shares(siblings: Sequence[Queue], total: Amount) -> dict[str, Fraction]:
    """Name -> fair share of what their parent has: weight x R within the bounds of each, R so that all is given out.

    Usage and demand do not matter; who is inactive is to be left out, and has a share of 0. If the minima add up to
    more than ``total``, each has its minimum; if the maxima do not reach it, each has its maximum.
    """
    bounds = [_bounds(one) for one in siblings]
    ratio = _ratio(siblings, bounds, Fraction(total))
    return {
        one.name: _within(one.weight * ratio, least, most) for one, (least, most) in zip(siblings, bounds, strict=True)
    }


def _bounds(one: Queue) -> tuple[Fraction, Fraction | None]:
    if one.max_share is None:
        return Fraction(one.min_share), None
    return Fraction(min(one.min_share, one.max_share)), Fraction(one.max_share)


def _within(share: Amount, least: Fraction, most: Fraction | None) -> Fraction:
    share = max(Fraction(share), least)
    return share if most is None else min(share, most)


def _ratio(siblings: Sequence[Queue], bounds: Sequence[tuple[Fraction, Fraction | None]], total: Fraction) -> Fraction:
    """R: the weights' part of what is given out. Linear between the points where somebody leaves a bound."""
    points: list[tuple[Fraction, Amount]] = []
    for one, (least, most) in zip(siblings, bounds, strict=True):
        if one.weight and least != most:
            points.append((least / one.weight, one.weight))
            if most is not None:
                points.append((most / one.weight, -one.weight))
    points.sort()
    given, slope, ratio = sum((least for least, _ in bounds), Fraction(0)), Fraction(0), Fraction(0)
    for point, change in points:
        reached = given + slope * (point - ratio)
        if reached >= total:
            break
        given, ratio = reached, point
        slope += change
    return ratio + (total - given) / slope if slope and total > given else ratio


def starved(queue: Queue, share: Amount) -> bool:
    """Whether it has less than this share of it, or than it wants if that is less.

    Of the minimum share: whether it may preempt after one time-out; of a part of the fair share (half of it, mostly):
    after the other.
    """
    return queue.usage < min(share, queue.demand)


def deficit(queue: Queue, fair_share: Amount, *, of_minimum: bool, of_fair_share: bool) -> Amount:
    """What a queue may take from others by preemption. ``of_*``: whether it has been starved of that for long enough.

    As much as it lacks of its minimum share, or of its whole fair share (not of the part below which it counted as
    starved), and never more than it wants.
    """
    target: Amount = 0
    if of_minimum:
        target = min(queue.min_share, queue.demand)
    if of_fair_share:
        target = max(target, min(fair_share, queue.demand))
    return max(0, target - queue.usage)
