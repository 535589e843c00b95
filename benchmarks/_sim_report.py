"""Samples of speed, their medians, and the tables that are printed, as Markdown; without rows they are empty."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

OURS = "tenure"
_RANGE_FROM = 3
"""With fewer repetitions a range says nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One process. ``wall_s`` and ``cpu_s``: the whole of it; ``inside_s``: what it says that simulating took.

    ``jobs`` were submitted and ``ended`` of them were over when it stopped. ``events``: None where they are not
    counted. ``adapted``: what had to be put in place for it to run.
    """

    case: str
    contender: str
    repetition: int
    jobs: int
    ended: int
    wall_s: float
    cpu_s: float
    inside_s: float
    peak_mib: int
    events: int | None = None
    adapted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Medians over the repetitions of one contender in one case. ``range_s``: the least and the most ``wall_s``.

    ``events_per_s``: of the whole process's time.
    """

    case: str
    contender: str
    jobs: int
    ended: int
    wall_s: float
    range_s: tuple[float, float]
    cpu_s: float
    inside_s: float
    peak_mib: float
    events: int | None
    events_per_s: float | None


def medians(samples: Iterable[Sample]) -> list[Row]:
    """In the order in which they first came."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.case, sample.contender), []).append(sample)
    return [_row(group) for group in groups.values()]


def _row(group: Sequence[Sample]) -> Row:
    def median(of: Callable[[Sample], float]) -> float:
        return statistics.median(map(of, group))

    first, walls = group[0], [sample.wall_s for sample in group]
    wall = median(lambda sample: sample.wall_s)
    return Row(
        first.case,
        first.contender,
        first.jobs,
        first.ended,
        wall,
        (min(walls), max(walls)),
        median(lambda sample: sample.cpu_s),
        median(lambda sample: sample.inside_s),
        median(lambda sample: sample.peak_mib),
        first.events,
        None if first.events is None else first.events / wall,
    )


def speed_table(rows: Iterable[Row], repetitions: int) -> str:
    head = ("case", "contender", "jobs (ended)", "whole s", "CPU s", "simulating s", "events", "events/s", "peak MiB")
    return _table(head, [_speed(row, repetitions) for row in rows])


def _speed(row: Row, repetitions: int) -> tuple[str, ...]:
    low, high = row.range_s
    spread = f" ({low:.1f} to {high:.1f})" if repetitions >= _RANGE_FROM else ""
    return (
        row.case,
        row.contender,
        f"{row.jobs:,} ({row.ended:,})",
        f"{row.wall_s:.1f}{spread}",
        f"{row.cpu_s:.1f}",
        f"{row.inside_s:.1f}",
        "-" if row.events is None else f"{row.events:,}",
        "-" if row.events_per_s is None else f"{row.events_per_s:,.0f}",
        f"{row.peak_mib:.0f}",
    )


def ratio_table(samples: Sequence[Sample]) -> str:
    """The others over ours, each pair from one repetition; above 1 they need more."""
    ours: dict[tuple[str, int], list[Sample]] = {}
    for sample in samples:
        if _is_ours(sample.contender):
            ours.setdefault((sample.case, sample.repetition), []).append(sample)
    pairs: dict[tuple[str, str, str], list[tuple[Sample, Sample]]] = {}
    for other in samples:
        if not _is_ours(other.contender):
            for mine in ours[other.case, other.repetition]:
                pairs.setdefault((other.case, other.contender, mine.contender), []).append((other, mine))
    head = ("case", "contender", "over", "whole time", "CPU time", "peak memory")
    return _table(head, [(*names, *_ratios(found)) for names, found in pairs.items()])


def _is_ours(contender: str) -> bool:
    return contender.partition(",")[0] == OURS


def _ratios(pairs: Sequence[tuple[Sample, Sample]]) -> tuple[str, ...]:
    return (
        _ratio([other.wall_s / mine.wall_s for other, mine in pairs]),
        _ratio([other.cpu_s / mine.cpu_s for other, mine in pairs]),
        _ratio([other.peak_mib / mine.peak_mib for other, mine in pairs]),
    )


def _ratio(found: Sequence[float]) -> str:
    spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) >= _RANGE_FROM else ""
    return f"{statistics.median(found):.2f}{spread}"


def growth_table(rows: Iterable[Row], bases: Mapping[str, str]) -> str:
    """``bases``: case -> the smaller one that it is told as a multiple of. Without reports."""
    plain = {row.case: row for row in rows if row.contender == OURS}
    head = ("case", "times", "jobs", "events", "whole time", "CPU time", "peak memory", "CPU ms per job")
    lines = [_growth(plain[case], plain[base], base) for case, base in bases.items() if case in plain and base in plain]
    return _table(head, lines)


def _growth(row: Row, base: Row, name: str) -> tuple[str, ...]:
    return (
        row.case,
        name,
        f"{row.jobs / base.jobs:.1f}",
        f"{(row.events or 0) / (base.events or 1):.1f}",
        f"{row.wall_s / base.wall_s:.1f}",
        f"{row.cpu_s / base.cpu_s:.1f}",
        f"{row.peak_mib / base.peak_mib:.1f}",
        f"{1000 * row.cpu_s / row.jobs:.2f}",
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
