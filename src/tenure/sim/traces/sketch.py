"""Figures over any number of jobs in memory that does not grow: distributions within 1 %, and names seen before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from math import log
from struct import Struct

from tenure.reports.traces.records import Bin, Distribution

_EXACT = 256
"""Values below that have a bin each."""
_LOG_WIDTH = log(1.015)
"""Other bins are at most 1.5 % wide, so that the middle of one, rounded, is within 1 % of whatever is in it."""
_HASHES = Struct("<6I")


class Sketch:
    """Values, each of one job with its GPU time, in bins that grow with the value: some 1,300 bins from a second to ten
    years in ms. A bin of one value gives it back exactly, others are within 1 %.

    ``edges``, ascending: values from one on are in other bins than those below it. They are where steps of a table
    begin: what many people ask for, to the second, would else be counted in the step beside its own.
    """

    __slots__ = ("_bins", "_edges")

    def __init__(self, edges: Sequence[int] = ()) -> None:
        self._bins: dict[tuple[int, int], list[int]] = {}
        self._edges = tuple(edges)

    def __len__(self) -> int:
        return len(self._bins)

    def add(self, value: int, gpu_ms: int) -> None:
        """A job with ``value``, 0 or more."""
        number = value if value < _EXACT else int(log(value) / _LOG_WIDTH)  # which begins at 372
        key = number, bisect_right(self._edges, value)
        found = self._bins.get(key)
        if found is None:
            self._bins[key] = [value, value, 1, gpu_ms]
            return
        found[2] += 1
        found[3] += gpu_ms
        if value < found[0]:
            found[0] = value
        elif value > found[1]:
            found[1] = value

    def distribution(self) -> Distribution:
        return Distribution(tuple(Bin(*self._bins[key]) for key in sorted(self._bins)))


class Seen:
    """Which names came before, in 2 ** ``bits`` bits whatever their number (a Bloom filter, six bits a name).

    It knows each name that came. A new one is taken for known in one of 10 billion cases after a million names in
    2 ** 28 bits (32 MiB), in one of 15,000 after ten million.
    """

    __slots__ = ("_field", "_mask")

    def __init__(self, bits: int = 28) -> None:
        self._field = bytearray(1 << (bits - 3))
        self._mask = (1 << bits) - 1

    def came(self, name: str) -> bool:
        """Whether ``name`` came before, as far as can be told. From now on it did."""
        field, mask, known = self._field, self._mask, True
        for place in _HASHES.unpack(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=24).digest()):
            byte, bit = (place & mask) >> 3, 1 << (place & 7)
            if not field[byte] & bit:
                known = False
                field[byte] |= bit
        return known
