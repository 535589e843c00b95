"""From the jobs of a trace to those that are replayed: cut, thin, scale, round, add. Each step is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random

from tenure.core.model import DAY, HOUR, SECOND, SHARE_ONE
from tenure.reports.traces.records import Supply
from tenure.sim.traces.options import TraceOptions, Window
from tenure.sim.traces.records import TraceError, TraceJob

OTHER_TEAMS, OUTSIDE, THINNED = "of other teams", "outside the window", "thinned out"
_DEBUG_BEFORE = HOUR
_DEBUG_RUNTIMES = ((10, 60), (60, 180), (180, 600))
"""Synthetic debug jobs: seconds from and below, each pair as likely as the others."""
_DEBUG_SINGLE = 750_000
"""The part of them that takes one GPU; the others take as many as the job they prepare, on one host."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is replayed, in the order of submission. ``zero``: where the trace's own time starts now, ms; ``span``: how
    long it is, ms. ``gpus``: of the cluster. ``counts``: what was changed or left out, and how often.
    """

    jobs: tuple[TraceJob, ...]
    zero: int
    span: int
    gpus: int
    counts: dict[str, int]


class Sieve:
    """Leaves jobs out as they come, before it is known where the trace starts, so that they need not be kept: those
    that ``select`` would leave out, for the same reasons. ``first``, ``last``: submissions of all jobs.
    """

    def __init__(self, options: TraceOptions) -> None:
        self.first: int | None = None
        self.last = 0
        self.counts: Counter[str] = Counter()
        self._options = options
        self._teams = frozenset(options.teams_only)

    def keeps(self, job: TraceJob, dated: bool) -> bool:
        """False for what is left out whatever follows. ``dated``: whether the trace's times are dates."""
        at, options = job.submitted, self._options
        self.first = at if self.first is None else min(self.first, at)
        self.last = max(self.last, at)
        if self._teams and job.team not in self._teams:
            self.counts[OTHER_TEAMS] += 1
            return False
        window = options.window
        sure = window is None or window.dated == dated
        if window is not None and (sure or dated):
            zero = 0 if sure else self.first // DAY * DAY  # which later jobs may only make earlier
            early = sure and window.start is not None and at < window.start
            if early or (window.end is not None and at >= zero + window.end):
                self.counts[OUTSIDE] += 1
                return False
        if sure and options.thin < SHARE_ONE and options.draw("thin", job.id) >= options.thin:
            self.counts[THINNED] += 1
            return False
        return True


def select(
    jobs: Iterable[TraceJob], options: TraceOptions, origin: int | None, sieve: Sieve | None = None
) -> Selection:
    """``jobs`` in any order, with times from the trace's zero, or in ms UTC where that is ``origin``. ``sieve``: what
    they came through. Raises TraceError when nothing is left, or the window has dates and the trace has none.
    """
    counts: Counter[str] = Counter() if sieve is None else Counter(sieve.counts)
    jobs = list(jobs)
    zero = origin or 0
    last = max((job.submitted for job in jobs), default=zero) if sieve is None else max(sieve.last, zero)
    start, end = bounds(options.window, origin, last - zero)
    chosen = _chosen(jobs, options, zero + start, zero + end, counts)
    kept = [_sized(job, options, counts) for job in chosen]
    if not kept:
        why = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        raise TraceError(f"no job is left to replay{f' ({why})' if why else ': the trace has none with GPUs'}")
    if options.add_debug:
        debug = [extra for job in kept for extra in _debug(job, options)]
        counts["synthetic debug jobs added"] = len(debug)
        kept += debug
    asked = Supply(sum(job.gpu_ms for job in kept), end - start)
    gpus = options.gpus or asked.gpus_for(options.demand, options.gpus_per_host)
    fitting = [fit for job in kept if (fit := _fitted(job, gpus, options.cap, counts)) is not None]
    fitting.sort(key=lambda job: (job.submitted, job.id))
    if not fitting:
        raise TraceError(f"no job is left to replay: each is larger than the {gpus} GPUs of the cluster")
    return Selection(tuple(fitting), start, end - start, gpus, {what: count for what, count in counts.items() if count})


def bounds(window: Window | None, origin: int | None, last: int) -> tuple[int, int]:
    """From and to, ms from the trace's zero; not beyond the day of the ``last`` submission.

    Raises TraceError for a window with dates where ``origin`` is None.
    """
    close = (last // DAY + 1) * DAY
    if window is None:
        return 0, close
    if window.dated and origin is None:
        raise TraceError("the window has dates and the trace has none: give durations from its start, as in 10d..20d")
    shift = origin if window.dated and origin is not None else 0
    end = close if window.end is None else min(close, window.end - shift)
    return 0 if window.start is None else max(0, window.start - shift), end


def _chosen(
    jobs: Iterable[TraceJob], options: TraceOptions, start: int, end: int, counts: Counter[str]
) -> Iterator[TraceJob]:
    teams = frozenset(options.teams_only)
    for job in jobs:
        if teams and job.team not in teams:
            counts[OTHER_TEAMS] += 1
        elif not start <= job.submitted < end:
            counts[OUTSIDE] += 1
        elif options.thin < SHARE_ONE and options.draw("thin", job.id) >= options.thin:
            counts[THINNED] += 1
        else:
            yield job.sooner(start) if start else job


def _sized(job: TraceJob, options: TraceOptions, counts: Counter[str]) -> TraceJob:
    """Durations scaled, GPUs rounded."""
    per_host, gpus = options.gpus_per_host, job.gpus
    if gpus > per_host:
        gpus = -(-gpus // per_host) * per_host
    elif options.round_up:
        gpus = min(per_host, 1 << (gpus - 1).bit_length())
    if gpus != job.gpus:
        counts["rounded up to more GPUs"] += 1
        job = replace(job, gpus=gpus)
    if options.durations != SHARE_ONE:
        limit = None if job.timeout is None else _scaled(job.timeout, options.durations)
        job = replace(job, runtime=_scaled(job.runtime, options.durations), timeout=limit)
    return job


def _scaled(duration: int, factor: int) -> int:
    """In whole seconds, at least one."""
    return max(SECOND, -(-duration * factor // (SHARE_ONE * SECOND)) * SECOND)


def _fitted(job: TraceJob, gpus: int, cap: bool, counts: Counter[str]) -> TraceJob | None:
    if job.gpus <= gpus:
        return job
    counts["larger than the cluster, capped" if cap else "larger than the cluster, left out"] += 1
    return replace(job, gpus=gpus) if cap else None


def _debug(job: TraceJob, options: TraceOptions) -> Iterator[TraceJob]:
    """Debug jobs of the hour before a job: people try things out before they launch, so these follow a team's arrivals.

    Nothing in a trace says how many, how long, or how large: they are made up, and marked as that.
    """
    whole, part = divmod(options.add_debug, SHARE_ONE)
    for i in range(whole + (options.draw("debug", job.id) < part)):
        random = Random(f"{options.seed}:debug:{i}:{job.id}")
        least, below = random.choice(_DEBUG_RUNTIMES)
        single = random.randrange(SHARE_ONE) < _DEBUG_SINGLE
        yield TraceJob(
            f"{job.id}+debug{i}",
            max(0, job.submitted - random.randrange(SECOND, _DEBUG_BEFORE, SECOND)),
            random.randrange(least, below) * SECOND,
            1 if single else min(job.gpus, options.gpus_per_host),
            job.team,
            job.user,
            synthetic=True,
        )
