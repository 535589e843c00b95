"""Sizes of jobs by which reports on sides group them."""

from __future__ import annotations

from tenure.core.model import MINUTE

SHORT_GPUS, SHORT_RUN, LARGE_GPUS = 8, 15 * MINUTE, 128
SIZES = ("short: up to 8 GPUs and 15 min", "up to 8 GPUs", "9 to 127 GPUs", "128 GPUs and more")
"""By how long the work takes, not by what was signed for it."""


def size_of(gpus: int, runtime: int | None) -> str:
    """One of ``SIZES``. ``runtime``: ms that the work takes, None where nobody knows."""
    if gpus >= LARGE_GPUS:
        return SIZES[3]
    if gpus > SHORT_GPUS:
        return SIZES[2]
    return SIZES[0] if runtime and runtime <= SHORT_RUN else SIZES[1]
