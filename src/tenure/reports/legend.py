"""What the figures of a report mean, in a few words each: pages open where the documentation cannot be reached."""

from __future__ import annotations

LEGEND: tuple[tuple[str, str], ...] = (
    ("Funded", "jobs that somebody pays for: their min_runtime is above 0. The others are unfunded."),
    (
        "Debug, mid-size, large",
        "debug are funded jobs of at most 8 GPUs and 15 min of min_runtime, large those of 128 GPUs and more, mid-size "
        "all other funded ones.",
    ),
    (
        "Owed",
        "in each hour the smaller of a budget's allocation and its demand: the GPUs of its funded jobs that ran or "
        "waited.",
    ),
    (
        "M1",
        "the part of what budgets were owed that they got, over the whole time; what one got beyond does not make up "
        "for another. Strict: only what came in the hour in which it was owed. Net: less the work that was lost.",
    ),
    (
        "M3, water-filled",
        "the same, but owed is a share of all healthy GPUs: what a budget does not want goes to its siblings first, "
        "until all is handed out. M1 forgives GPUs that are idle while somebody above the allocation waits; M3 does "
        "not.",
    ),
    ("Impact", "of all GPU time that was delivered, the part that was within what budgets were owed."),
    ("Occupancy", "the occupied part of the healthy GPU time."),
    ("Unallocated", "of what was delivered, the part that went to unfunded jobs."),
    ("Availability", "the healthy part of the declared GPU time: the rest was broken, or in repair."),
    ("Fragmentation", "free GPUs, while somebody waited, that nobody who waited could use: too few in one place."),
    ("Withheld", "free GPUs that a rule, such as a cap, kept from jobs that would have fitted."),
    ("p50, p90, p99", "so many percent of the jobs waited at most so long. Those that never started count, too."),
)
"""Word -> what it is. The exact definitions are in docs/metrics.md."""
