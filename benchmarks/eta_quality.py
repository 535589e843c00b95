"""Estimates of starts on simulated days: how many come true, and how wide they are.

``--collect`` simulates and keeps what was estimated and what happened; without it files of before are judged again.
The ranges are compared with those that past waits of the same size class give, with the same coverage.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from _eta_collect import NEW, Plan, collect

from tenure.core.model import DAY, HOUR
from tenure.forecast.ranges import Calibration, Judged, Range, base
from tenure.forecast.sorts import SIZE_CLASSES

RESULTS = Path(__file__).parent / "results" / "eta"


@dataclass(frozen=True)
class Case:
    """One estimate. ``start`` None: the job had not started at the end of the run, ``end``."""

    seed: int
    at: int
    size_class: str
    queued_at: int
    raw: Range
    start: int | None
    end: int

    @property
    def first(self) -> bool:
        return self.at - self.queued_at <= NEW


@dataclass(frozen=True)
class Run:
    cases: tuple[Case, ...]
    waits: dict[str, tuple[list[int], list[int]]]
    """Size class -> when waits ended, and how long they were, in the order of time."""
    given_up: int
    """Estimates of jobs that were cancelled before they started."""
    cpu_s: list[float]


def read(file: Path, scenarios: int = 10**6) -> Run:
    data = json.loads(file.read_text())
    starts: dict[int, list[int]] = {}
    waits: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in SIZE_CLASSES}
    for at, job_id, name, wait in data["waits"]:
        starts.setdefault(job_id, []).append(at)
        waits[name][0].append(at)
        waits[name][1].append(wait)
    gone, cases, given_up = dict(data["gone"]), [], 0
    for moment in data["moments"]:
        for job in moment["jobs"]:
            known = starts.get(job["id"], [])
            i = bisect_left(known, moment["at"])
            start = known[i] if i < len(known) else None
            if start is None and job["id"] in gone:
                given_up += 1
                continue
            raw = base(job["samples"][:scenarios], moment["until"], moment["at"])
            case = Case(data["plan"]["seed"], moment["at"], job["class"], job["queued_at"], raw, start, data["end"])
            cases.append(case)
    return Run(tuple(cases), waits, given_up, [moment["cpu_s"] for moment in data["moments"]])


Told = tuple[Case, Range]


def ours(run: Run) -> Iterator[Told]:
    """Each estimate as the product would have told it: widened by what was known then."""
    for at in sorted({case.at for case in run.cases}):
        known = [
            Judged(c.at, c.size_class, c.raw, c.start if c.start is not None and c.start <= at else None)
            for c in run.cases
            if c.at < at
        ]
        calibration = Calibration(known, at)
        for case in (c for c in run.cases if c.at == at):
            yield case, calibration.widened(case.raw, at, case.size_class)


def by_waits(run: Run, percent: float) -> Iterator[Told]:
    """The middle ``percent`` of the waits of the last week in the same size class that were as long as this one so far
    is."""
    edge = (100 - percent) / 200
    for case in run.cases:
        ends, lengths = run.waits[case.size_class]
        first, last = bisect_left(ends, case.at - 7 * DAY), bisect_left(ends, case.at)
        so_far = case.at - case.queued_at
        left = sorted(wait - so_far for wait in lengths[first:last] if wait > so_far)
        if not left:
            yield case, Range(case.at, None, None, case.end)
            continue
        low, mid, high = (left[min(len(left) - 1, int(part * len(left)))] for part in (edge, 0.5, 1 - edge))
        yield case, Range(case.at + low, case.at + mid, case.at + high, case.end)


@dataclass(frozen=True)
class Score:
    """``inside`` in percent of those that are settled; ``open``: not started at the end, inside unless known late."""

    count: int
    inside: float
    width_h: float
    error_h: float
    low_miss: float
    high_miss: float
    open: int


def score(told: Iterable[Told]) -> Score:
    inside, low, high, still_open, widths, errors = 0, 0, 0, 0, [], []
    for case, range_ in told:
        widths.append(inf if range_.high is None else range_.high - range_.low)
        start = case.start
        if start is None:
            still_open += 1
            start = case.end  # at the earliest
            if range_.high is None or range_.high > case.end:
                inside += 1  # nothing speaks against it
            else:
                high += 1
            continue
        errors.append(inf if range_.likely is None else abs(start - range_.likely))
        if range_.holds(start):
            inside += 1
        elif start < range_.low:
            low += 1
        else:
            high += 1
    count = len(widths)
    if not count:
        return Score(0, 0, 0, 0, 0, 0, 0)
    return Score(
        count,
        100 * inside / count,
        median(widths) / HOUR,
        median(errors) / HOUR if errors else inf,
        100 * low / count,
        100 * high / count,
        still_open,
    )


def same_coverage(runs: Sequence[Run], wanted: float, chosen: Callable[[Case], bool]) -> tuple[float, Score]:
    """The narrowest ranges by past waits that hold as many."""
    best = None
    for percent in [*range(40, 98, 2), 98, 99, 99.5, 100]:
        found = score(t for run in runs for t in by_waits(run, percent) if chosen(t[0]))
        best = percent, found
        if found.inside >= wanted:
            break
    assert best is not None
    return best


def show(name: str, s: Score) -> None:
    print(
        f"{name:<34}{s.count:>7}{s.inside:>8.1f}{s.width_h:>9.2f}{s.error_h:>9.2f}"
        f"{s.low_miss:>8.1f}{s.high_miss:>8.1f}{s.open:>6}"
    )


def report(runs: Sequence[Run], after: int) -> None:
    """``after``: estimates of the first so many ms are left out, in which nothing is known of past ones."""
    begins = [min(case.at for case in run.cases) + after for run in runs]
    told = [t for run, begin in zip(runs, begins, strict=True) for t in ours(run) if t[0].at >= begin]
    start_of = {run.cases[0].seed: begin for run, begin in zip(runs, begins, strict=True)}
    print(f"{'':<34}{'count':>7}{'inside%':>8}{'width h':>9}{'error h':>9}{'early%':>8}{'late%':>8}{'open':>6}")
    groups: dict[str, Callable[[Case], bool]] = {
        "all": lambda case: True,
        "first estimates": lambda case: case.first,
        "later estimates": lambda case: not case.first,
        "charged jobs": lambda case: not case.size_class.startswith("free"),
    }
    groups |= {name: partial(_of_class, name) for name in SIZE_CLASSES}
    for name, chosen in groups.items():
        within = [t for t in told if chosen(t[0])]
        if not within:
            continue
        mine = score(within)
        show(name, mine)

        def counted(case: Case, chosen: Callable[[Case], bool] = chosen) -> bool:
            return chosen(case) and case.at >= start_of[case.seed]

        show("  scenarios alone", score((c, c.raw) for c, _ in within))
        show("  past waits, middle 80 %", score(t for run in runs for t in by_waits(run, 80) if counted(t[0])))
        percent, same = same_coverage(runs, mine.inside, counted)
        show(f"  past waits, middle {percent:g} %", same)
    later = sum(range_.high is None for _, range_ in told)
    print(f"told as later than two days: {100 * later / len(told):.1f} %")
    print(f"given up before their start, not counted: {sum(run.given_up for run in runs)}")
    cpu = [s for run in runs for s in run.cpu_s]
    print(f"CPU for all estimates of a moment: median {median(cpu):.1f} s, longest {max(cpu):.1f} s")


def _of_class(name: str, case: Case) -> bool:
    return case.size_class == name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--seeds", default="11,12,13")
    parser.add_argument("--gpus", type=int, default=128)
    parser.add_argument("--mix", default="saturated")
    parser.add_argument("--between-h", type=float, default=3.0)
    parser.add_argument("--scenarios", type=int, default=8)
    parser.add_argument("--use", type=int, default=10**6, help="judge the first so many scenarios only")
    parser.add_argument("--days", default="8,14,18", help="first moment, last moment, end")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--after-h", type=float, default=24.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    seeds = [int(text) for text in given.seeds.split(",")]
    files = [given.out / f"{given.mix}-{given.gpus}-seed{seed}.json" for seed in seeds]
    if given.collect:
        given.out.mkdir(parents=True, exist_ok=True)
        first, last, end = (int(text) for text in given.days.split(","))
        between = int(given.between_h * HOUR)
        plans: list[Any] = [
            Plan(seed, given.gpus, given.mix, first, last, end, between, given.scenarios) for seed in seeds
        ]
        with ProcessPoolExecutor(given.workers) as pool:
            list(pool.map(partial(collect, folder=given.out), plans))
    report([read(file, given.use) for file in files], int(given.after_h * HOUR))


if __name__ == "__main__":
    main()
