"""Fair shares of the Hadoop Fair Scheduler of 2009: pools with minimum shares, and demands. Exact.

There were two schedulers of that name. The first (Hadoop 0.19 and 0.20, 2008) added up for each job how much less than
its fair share it had received, its *deficit*, and served the largest first. MAPREDUCE-551 (2009, HADOOP-4665 before)
brought preemption with two time-outs, and MAPREDUCE-706 (2009) did away with deficits, which were unfair when some jobs
have long tasks (MAPREDUCE-543 and 544). The scheduler with both is the one that its documentation and its design
document describe and that Hadoop 0.21 has. It is the one here.

What differs from the source is what ``yarn_shares`` says: it bisects and computes in doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tenure.policies import yarn_shares
from tenure.policies.yarn_shares import Amount, Queue


def order(pool: Queue) -> yarn_shares.Order:
    """Sorts pools, as in YARN. (Pools that want nothing have no rank of their own here; they are never offered any.)"""
    return yarn_shares.order(pool)


def fair_shares(pools: Sequence[Queue], total: Amount) -> dict[str, Fraction]:
    """Name -> fair share: min(demand, max(weight x R, minimum share)), R so that all is given out that is wanted.

    So unlike in YARN nobody's share is more than it wants, and others have what is left. Minima that add up to more
    than there is are scaled down in proportion, as the design document says.
    """
    minima = {pool.name: min(pool.min_share, pool.demand) for pool in pools}
    together = sum(minima.values())
    if together > total:
        return {name: Fraction(least) * total / together for name, least in minima.items()}
    bounded = [Queue(pool.name, pool.weight, 0, 0, minima[pool.name], pool.demand) for pool in pools]
    return yarn_shares.fair_shares(bounded, total)


def half_of(fair_share: Amount, unit: int) -> int:
    """A pool that has less than this, and than it wants, counts as starved: half of its fair share, in whole ``unit``s.

    A unit is a slot there. Less than a whole one is no reason to kill.
    """
    return _whole(Fraction(fair_share) / 2, unit)


def deficit(pool: Queue, fair_share: Amount, unit: int, *, of_minimum: bool, of_fair_share: bool) -> Amount:
    """What a pool may take by killing others' tasks, as ``yarn_shares.deficit``, in whole ``unit``s."""
    return yarn_shares.deficit(pool, _whole(fair_share, unit), of_minimum=of_minimum, of_fair_share=of_fair_share)


def _whole(amount: Amount, unit: int) -> int:
    return int(amount // unit) * unit
