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
_NONE = Fraction(0)
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
    needy, usage = queue.needy, queue.usage
    of_minimum = Fraction(usage, min(queue.min_share, queue.demand)) if needy else _NONE
    of_weight = Fraction(usage, queue.weight or 1)
    return not queue.demand, not needy, of_minimum, not queue.weight, of_weight, queue.started, queue.name


def fair_shares(siblings: Sequence[Queue], total: Amount) -> dict[str, Fraction]:
    """Name -> fair share of what their parent has: weight x R within the bounds of each, R so that all is given out.

    Usage and demand do not matter; who is inactive is to be left out, and has a share of 0. If the minima add up to
    more than ``total``, each has its minimum; if the maxima do not reach it, each has its maximum.
    """
    found = {one.name: Fraction(_least(one)) for one in siblings}
    left: Amount = total - sum(_least(one) for one in siblings if not one.weight)
    free = [one for one in siblings if one.weight]
    while free:
        # R = left / weights, if nobody else is at a bound. If more would go to those below theirs than come from those
        # above, the R that is looked for is smaller, so those below stay there; else it is larger.
        weights: Amount = sum(one.weight for one in free)
        below = [one for one in free if one.weight * left < _least(one) * weights]
        above = [one for one in free if one.max_share is not None and one.weight * left > one.max_share * weights]
        lack = sum(_least(one) * weights - one.weight * left for one in below)
        excess = sum(one.weight * left - (one.max_share or 0) * weights for one in above)
        fixed = {one.name: one.max_share or 0 for one in above} if excess >= lack else {}
        if lack >= excess:
            fixed.update({one.name: _least(one) for one in below})
        if not fixed:
            found.update({one.name: Fraction(one.weight * left, weights) for one in free})
            break
        found.update({name: Fraction(share) for name, share in fixed.items()})
        left -= sum(fixed.values())
        free = [one for one in free if one.name not in fixed]
    return found


def _least(one: Queue) -> Amount:
    return one.min_share if one.max_share is None else min(one.min_share, one.max_share)


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
