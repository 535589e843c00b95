"""GPUs per host as one integer, 16 bits a host: counts of many attempts add up in one addition, a gang is a popcount.

Field i is host i of a room. A count stays below 2 ** 15, the bit that a comparison needs. ``ones`` has a 1 in the
field of every host.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

WIDTH = 16
FIELD = (1 << WIDTH) - 1
_SETS_KEPT = 1024
"""How many sets of hosts are remembered as full fields: those that are held or kept change rarely."""


@lru_cache(maxsize=_SETS_KEPT)
def spread(hosts: int) -> int:
    """A set of hosts (bit i: host i) as full fields."""
    fields = 0
    for i in bits(hosts):
        fields |= FIELD << WIDTH * i
    return fields


def bits(hosts: int) -> Iterator[int]:
    """The indices of the hosts of a set."""
    while hosts:
        low = hosts & -hosts
        hosts ^= low
        yield low.bit_length() - 1


def total(counts: int, hosts: int) -> int:
    """The sum of the counts on ``hosts``."""
    return sum(counts >> WIDTH * i & FIELD for i in bits(hosts))


def largest(counts: int, hosts: int) -> int:
    """The largest count on one of ``hosts``; 0 when there are none."""
    return max([counts >> WIDTH * i & FIELD for i in bits(hosts)], default=0)


def holds(counts: int, replicas: int, gpus: int, ones: int) -> bool:
    """Whether hosts with these counts have the GPUs for so many replicas, none of which spans hosts."""
    high, least = ones << WIDTH - 1, 0
    while gpus and replicas > 0:  # hosts with the GPUs for one replica, then those with the GPUs for another, ...
        least += gpus
        more = ((counts | high) - least * ones & high).bit_count()
        if not more:
            return False
        replicas -= more
    return True
