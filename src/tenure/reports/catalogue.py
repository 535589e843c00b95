"""The figures of a summary for people: names, units, which way is better, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.reports.metrics import Summary

SHARE, SECONDS, EACH, COUNT, GPU_HOURS = "share", "seconds", "each", "count", "gpu_hours"
HIGHER, LOWER, NEITHER = 1, -1, 0


@dataclass(frozen=True, slots=True)
class Figure:
    """``key``: in the summary, with a dot before a key of an inner object. ``better``: HIGHER, LOWER or NEITHER."""

    key: str
    label: str
    unit: str
    better: int = NEITHER

    def of(self, summary: Summary) -> float | None:
        found: float | Summary | None = summary
        for part in self.key.split("."):
            found = found[part] if isinstance(found, dict) else None
        return None if isinstance(found, dict) else found


def _waits(jobs: str, key: str, percents: tuple[int, ...], what: str = "wait") -> tuple[Figure, ...]:
    said = f"{jobs} wait" if what == "wait" else f"{jobs} wait to the decision"
    return tuple(Figure(f"{key}{what}_p{p}_s", f"{said}, p{p}", SECONDS, LOWER) for p in percents)


SECTIONS: dict[str, tuple[Figure, ...]] = {
    "What budgets were owed": (
        Figure("m1_delivered", "M1: delivered of what was owed", SHARE, HIGHER),
        Figure("m1_strict", "M1 strict: in the hour it was owed", SHARE, HIGHER),
        Figure("m1_net", "M1 net of lost work", SHARE, HIGHER),
        Figure("m1_worst", "M1 of the worst budget", SHARE, HIGHER),
        Figure("m1_worst_week", "M1 of the worst budget-week", SHARE, HIGHER),
        Figure("budgets_at_95", "budgets with M1 of 95 % or more", COUNT, HIGHER),
        Figure("m3_delivered", "M3: delivered of the water-filled share", SHARE, HIGHER),
        Figure("m3_strict", "M3 strict: in the hour it was due", SHARE, HIGHER),
        Figure("impact", "impact: delivered where budgets said", SHARE, HIGHER),
    ),
    "The cluster": (
        Figure("occupancy", "occupancy", SHARE, HIGHER),
        Figure("unallocated_share", "unallocated part of delivered time", SHARE),
        Figure("demand_over_supply", "demand over supply", EACH),
        Figure("availability", "availability", SHARE),
        Figure("fragmentation_share", "fragmentation: free, and no use to who waited", SHARE, LOWER),
        Figure("withheld_share", "withheld by a rule", SHARE, LOWER),
        Figure("gpu_hours.withheld", "GPU time withheld: what caps wasted", GPU_HOURS, LOWER),
        Figure("gpu_hours.surplus", "GPU time above the allocation: given back", GPU_HOURS),
    ),
    "Waits to the start": (
        *_waits("debug", "debug_", (50, 90, 99)),
        *_waits("mid-size", "mid_", (50, 90, 99)),
        *_waits("large", "large_", (50, 90)),
        *_waits("funded", "", (50, 90, 99)),
        *_waits("unfunded", "unfunded_", (90,)),
        *_waits("every job's", "every_", (90,)),
        Figure("funded_never_started", "funded jobs that never started", COUNT, LOWER),
    ),
    "Waits to the decision": (
        *_waits("debug", "debug_", (90,), "decision"),
        *_waits("mid-size", "mid_", (90,), "decision"),
        *_waits("large", "large_", (90,), "decision"),
        *_waits("funded", "", (90,), "decision"),
    ),
    "Evictions": (
        Figure("evictions_per_charged_job", "evictions for each funded job", EACH, LOWER),
        Figure("evictions_per_mid_job", "evictions for each mid-size job", EACH, LOWER),
        Figure("evictions_by_class.unfunded", "evictions of unfunded jobs", COUNT),
        Figure("lost_share", "lost to evictions and restarts", SHARE, LOWER),
        Figure("gpu_hours.lost", "GPU time lost to evictions and restarts", GPU_HOURS, LOWER),
    ),
}


def many(count: int, what: str) -> str:
    """``1 job``, ``2,401 jobs``."""
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def written(value: float | None, unit: str) -> str:
    """A value as people read it; ``-`` for None."""
    if value is None:
        return "-"
    if unit == SHARE:
        return f"{100 * value:.1f} %"
    if unit == SECONDS:
        return wait(value)
    if unit == GPU_HOURS:
        return f"{value:,.0f} GPU-h"
    return f"{value:,.0f}" if unit == COUNT else f"{value:.2f}"


def difference(value: float, unit: str) -> str:
    """A difference with its sign: ``+1.2 points``, ``-3.5 h``."""
    sign = "+" if value > 0 else "-" if value < 0 else ""
    if unit == SHARE:
        return f"{sign}{abs(100 * value):.1f} points"
    return sign + written(abs(value), unit)


_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def wait(seconds: float) -> str:
    """``12 s``, ``3.5 min``, ``2.8 h``, ``1.5 d``."""
    for length, name in _STEPS:
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {name}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
