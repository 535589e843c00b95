"""GPUs in Slurm's lists of trackable resources (TRES), as sacct, squeue and the accounting tables have them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ITEM = re.compile(r"gres/(gpu|shard)(?::([^=]*))?(?:=(.*))?", re.DOTALL)
_COUNT = re.compile(r"[0-9]{1,9}")
_SLICE = re.compile(r"(?:^|[^0-9a-z])[0-9]{1,2}g\.[0-9]{1,4}gb", re.IGNORECASE)
_NUMBERED = ("1001", "1002")
"""Numbers under which accounting tables keep the first generic resources of a site."""
_LONGEST_KNOWN = 1000
"""Characters of a text that is remembered."""
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Gpus:
    """``count``: GPUs, of which ``slices`` are parts of one (MIG) that Slurm counts like whole ones. ``shards``: of
    ``gres/shard``, which are in no count. ``unreadable``: the first entry whose number is none, cut; '' without one.
    """

    count: int = 0
    slices: int = 0
    shards: int = 0
    unreadable: str = ""


def read_gpus(text: str) -> Gpus:
    """The GPUs in a list of trackable resources; what cannot be read is said, not raised.

    ``gres/gpu=8`` counts all GPUs, ``gres/gpu:a100=4`` those of a type: the total where it is given, else the sum over
    types. Also the numbers 1001 and 1002 of accounting tables: the larger one, since one may be the total of the other.
    """
    return _known(text) if len(text) <= _LONGEST_KNOWN else _read(text)


def _read(text: str) -> Gpus:
    sums = {"gpu": [0, 0], "shard": [0, 0]}
    numbered, slices, unreadable = 0, 0, ""
    for item in map(str.strip, text.split(",")):
        match = _ITEM.fullmatch(item)
        name, _, value = item.partition("=") if match is None else ("", "", match[3] or "")
        if match is None and name not in _NUMBERED:
            continue
        if not _COUNT.fullmatch(value):
            unreadable = unreadable or item[:_SHOWN]
        elif match is None:
            numbered = max(numbered, int(value))
        else:
            sums[match[1]][match[2] is not None] += int(value)
            if match[1] == "gpu" and match[2] and _SLICE.search(match[2]):
                slices += int(value)
    (total, typed), (shards, of_type) = sums["gpu"], sums["shard"]
    return Gpus(total or typed or numbered, slices, shards or of_type, unreadable)


_known = lru_cache(4096)(_read)  # few texts, many rows
