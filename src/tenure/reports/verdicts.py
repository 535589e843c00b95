"""What makes a difference to somebody, and whether that is a gain, by the figures that ``sides`` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GAINS, LOSES, BOTH, NEITHER = "gains", "loses", "both", "neither"
_LEAST_PART, _LEAST_HOURS = 0.01, 1.0
"""GPU time differs from a hundredth and one GPU-hour on."""
_LEAST_WAIT, _LEAST_WAIT_PART = 60, 0.1
"""A wait differs from a minute and a tenth on."""


def verdict(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """``gains`` where something is better and nothing worse: net GPU time, the median wait, the wait of 90 %."""
    signs = [more_time(before, now), *(-longer(before[name], now[name]) for name in ("p50_s", "p90_s"))]
    better, worse = any(sign > 0 for sign in signs), any(sign < 0 for sign in signs)
    return BOTH if better and worse else GAINS if better else LOSES if worse else NEITHER


def more_time(before: Mapping[str, Any], now: Mapping[str, Any]) -> int:
    """1 where the second has more GPU time that was of use, -1 where it has less, 0 where that makes no difference."""
    change = now["net_gpu_hours"] - before["net_gpu_hours"]
    if abs(change) < max(_LEAST_HOURS, _LEAST_PART * abs(before["net_gpu_hours"])):
        return 0
    return 1 if change > 0 else -1


def longer(before: float | None, now: float | None) -> int:
    """1 where the second wait is longer, -1 where it is shorter, 0 where that makes no difference."""
    if before is None or now is None or abs(now - before) < max(_LEAST_WAIT, _LEAST_WAIT_PART * max(before, now)):
        return 0
    return 1 if now > before else -1
