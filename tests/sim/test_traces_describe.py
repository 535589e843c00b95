"""A trace in figures, by hand: demand, people, arrivals, waits, limits, oddities; windows; reading broken off."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, MINUTE, SECOND, SHARE_ONE
from tenure.reports.traces.data import as_data, duration_steps, size_steps, squeezed
from tenure.reports.traces.records import Arrivals, Holder, Source, TraceFigures, earlier_told
from tenure.sim.traces import (
    End,
    Gauge,
    Reading,
    TraceError,
    TraceJob,
    TraceOptions,
    Window,
    describe_file,
    describe_jobs,
    open_trace,
    tallies,
)
from tenure.sim.traces.describe import source_of
from tenure.sim.traces.select import Sieve, select
from tenure.units import parse_time

JOB = TraceJob("j", 0, HOUR, 8, "vision", "ada")
SOURCE = source_of(Reading(path="x", format="itp"))
HEADER = "JobID|User|Account|State|Submit|Start|End|Elapsed|Timelimit|ReqTRES"


def sacct(number: int, submit: str, elapsed: str = "01:00:00", gpus: int = 1, user: str = "ada") -> str:
    return f"{number}|{user}|vision|COMPLETED|{submit}|||{elapsed}|2:00:00|gres/gpu={gpus}"


def written(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def figures(jobs: list[TraceJob], *, dated: bool = False, gpus: int | None = None) -> TraceFigures:
    return describe_jobs(jobs, SOURCE, dated, gpus)


def arrivals(times: list[int], *, dated: bool = False) -> Arrivals:
    return figures([replace(JOB, submitted=at) for at in times], dated=dated).arrivals


def test_demand_and_distributions() -> None:
    jobs = [
        replace(JOB, runtime=10 * HOUR),
        replace(JOB, user="bob", runtime=6 * HOUR, gpus=2, end=End.FAILED),
        replace(JOB, team="speech", user="eve", submitted=DAY + HOUR, runtime=5 * MINUTE, gpus=1, synthetic=True),
        replace(JOB, team="speech", user="eve", submitted=DAY, gpus=1, end=End.FAILED),
    ]
    found = figures(jobs, gpus=16)
    asked = 80 * HOUR + 12 * HOUR + 5 * MINUTE + HOUR
    assert (found.jobs, found.synthetic, found.start, found.span, found.first, found.last) == (
        4, 1, 0, 2 * DAY, 0, DAY + HOUR,
    )  # fmt: skip
    assert found.supply.asked == asked
    assert found.gpu_hours == pytest.approx(93 + 1 / 12)
    assert found.demand_over_supply == pytest.approx((93 + 1 / 12) / 48 / 16)
    assert found.gpus_for_supply == {"1": 8, "2.5": 8}
    assert figures([replace(JOB, gpus=64, runtime=10 * DAY)]).gpus_for_supply == {"1": 640, "2.5": 256}
    assert (found.runtimes.percentile(50), found.runtimes.most, found.largest, found.short) == (
        HOUR,
        10 * HOUR,
        8,
        0.25,
    )
    assert found.ends == {"failed": (2, 13 * HOUR), "unknown": (2, 80 * HOUR + 5 * MINUTE)}
    assert found.teams.largest == (Holder("vision", 2, 92 * HOUR), Holder("speech", 2, HOUR + 5 * MINUTE))
    assert found.people.count == 3
    assert [(one.name, round(one.jobs, 2)) for one in duration_steps(found.runtimes) if one.jobs] == [
        ("1 to 10 min", 0.25), ("1 to 6 h", 0.25), ("6 to 24 h", 0.5),
    ]  # fmt: skip
    assert [(one.name, one.jobs) for one in size_steps(found.sizes)] == [
        ("1", 0.5), ("2", 0.25), ("3 to 4", 0), ("5 to 8", 0.25),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no jobs"):
        figures([])


def test_jobs_are_in_the_step_that_is_theirs_however_near_its_end() -> None:
    """Most who run into a limit run for an hour or a day to the second, and most sizes are powers of two."""
    ends = (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY)
    near = [replace(JOB, runtime=end + step * SECOND) for end in ends for step in (-3, -2, -1, 0, 1)]
    found = figures(near)
    steps = [round(one.jobs * len(near)) for one in duration_steps(found.runtimes)]
    assert steps == [3, 5, 5, 5, 5, 5, 2] and sum(steps[:2]) == round(found.short * len(near))
    sizes = [replace(JOB, gpus=gpus, runtime=HOUR) for gpus in (256, 257, 512, 513, 520, 1024, 1025, 4096, 4097)]
    counted = {one.name: round(one.jobs * len(sizes)) for one in size_steps(figures(sizes).sizes) if one.jobs}
    assert counted == {
        "129 to 256": 1, "257 to 512": 2, "513 to 1,024": 3, "1,025 to 2,048": 1, "2,049 to 4,096": 1,
        "4,097 to 8,192": 1,
    }  # fmt: skip


def test_how_concentrated_it_is() -> None:
    jobs = [replace(JOB, user=f"u{number:03}", runtime=HOUR if number else 100 * HOUR) for number in range(101)]
    people = figures(jobs).people
    assert people.count == 101
    assert people.top[1] == pytest.approx(101 / 200)  # 1 % of 101 people are two
    assert people.top[5] == pytest.approx(105 / 200)
    assert people.largest[0] == Holder("u000", 1, 800 * HOUR)
    assert people.curve[0] == (0, 0) and people.curve[-1] == (1, 1)
    assert list(people.curve) == sorted(people.curve)


def test_names_and_hours_beyond_the_bound_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_NAMES", 2)
    monkeypatch.setattr(tallies, "MOST_HOURS", 3)
    found = figures([replace(JOB, user=f"u{number}", submitted=number * HOUR) for number in (0, 1, 2, 3, 1, 2)])
    assert (found.people.count, found.people.uncounted_jobs, found.teams.uncounted_jobs) == (2, 3, 0)
    assert found.jobs == 6
    assert sum(found.arrivals.by_hour) == 5
    assert found.oddities["submitted in an hour beyond the 300,000 told apart: not among the arrivals"] == 1


def test_the_fano_factor_by_hand() -> None:
    even = arrivals([hour * HOUR for hour in range(48)])
    assert (even.fano, even.peak_to_trough, even.mean, even.silence) == (0, 1, 1, 0)
    bursts = arrivals([hour * HOUR for hour in (0, 0, 0, 0, 3)])  # hours of 4, 0, 0 and 1 jobs
    assert bursts.mean == 1.25
    assert bursts.fano == pytest.approx((2.75**2 + 2 * 1.25**2 + 0.25**2) / 4 / 1.25)
    assert (bursts.busiest, bursts.busiest_at, bursts.silence, bursts.silence_at) == (4, 0, 2 * HOUR, HOUR)
    assert arrivals([5]).fano is None


def test_hours_of_the_day_and_days_of_the_week() -> None:
    monday = parse_time("2026-01-05T00:00:00Z")
    week = [monday + hour * HOUR for hour in range(7 * 24)]
    found = arrivals(week + [at for at in week if at - monday < 5 * DAY], dated=True)
    assert found.by_day == (48, 48, 48, 48, 48, 24, 24)
    assert found.weekend == pytest.approx(0.5)
    assert found.peak_to_trough == 1
    double = arrivals([monday + DAY * day + 14 * HOUR for day in range(7)] + week, dated=True)
    assert double.by_hour[14] == 14 and double.peak_to_trough == 2
    assert [(at - monday) // DAY for at, _, _ in found.steps][::24] == list(range(7))
    assert arrivals(week, dated=False).weekend is None
    assert arrivals([monday + hour * HOUR for hour in range(5 * 24)], dated=True).weekend is None


def test_steps_of_many_days() -> None:
    found = figures([replace(JOB, submitted=day * DAY) for day in (0, 1, 2, 3, 4)])
    assert squeezed(found, 3) == (2 * DAY, [(2, 16 * HOUR), (2, 16 * HOUR), (1, 8 * HOUR)])
    assert squeezed(found, 5) == (DAY, [(1, 8 * HOUR)] * 5)
    assert squeezed(found, 99) == (2 * HOUR, [*([(1, 8 * HOUR), *[(0, 0)] * 11] * 5)])


@pytest.mark.parametrize(("days", "hours"), [(1, 1), (3, 1), (7, 3), (14, 6), (15, 24), (100, 24)])
def test_short_spans_are_shown_in_finer_steps(days: int, hours: int) -> None:
    found = figures([replace(JOB, submitted=at) for at in (0, 90 * MINUTE, days * DAY - 1000)])
    length, steps = squeezed(found, 800)
    assert (length, len(steps)) == (hours * HOUR, days * 24 // hours)
    assert [jobs for jobs, _ in steps if jobs] == ([1, 1, 1] if hours == 1 else [2, 1])
    assert steps[-1] == (1, 8 * HOUR)


def test_a_window_that_begins_within_an_hour_keeps_its_first_job_first() -> None:
    jobs = [replace(JOB, submitted=at * MINUTE) for at in (95, 170)]
    found = describe_jobs(jobs, SOURCE, False, None, (90 * MINUTE, 3 * HOUR))
    assert squeezed(found, 60) == (HOUR, [(2, 16 * HOUR), (0, 0)])


def test_what_earlier_runs_held_is_told_and_not_in_the_demand() -> None:
    found = figures([JOB, replace(JOB, id="b", earlier=12 * HOUR), replace(JOB, id="c", earlier=HOUR)])
    assert (found.supply.asked, found.earlier_jobs, found.earlier) == (24 * HOUR, 2, 13 * HOUR)
    told = earlier_told(found.earlier_jobs, found.earlier)
    assert told.startswith("not in this: 13.0 GPU-hours that earlier runs of 2 requeued or resized jobs held")
    assert as_data(found)["demand"]["not_in_it"] == {"jobs_that_ran_before": 2, "gpu_hours_of_earlier_runs": 13}
    assert earlier_told(0, 0) == ""


def test_waits_and_limits_and_what_is_odd() -> None:
    jobs = [
        replace(JOB, id="1", submitted=DAY, waited=0, timeout=10 * HOUR),
        replace(JOB, id="2", submitted=DAY, waited=MINUTE, gpus=1, timeout=HOUR),
        replace(JOB, id="2", waited=-HOUR, timeout=HOUR - 2 * MINUTE),
        replace(JOB, id="4", submitted=DAY, runtime=SECOND, end=End.RUNNING),
    ]
    found = figures(jobs)
    assert (found.waits.jobs, found.waits.most) == (2, MINUTE)
    assert {name: waited.percentile(50) for name, waited in found.waits_by_size.items()} == {
        "1 GPU": MINUTE,
        "2 to 8": 0,
    }
    limits = found.limits
    assert (limits.jobs, limits.past, limits.steps[2], limits.steps[-2], limits.steps[-1]) == (3, 1, 1, 1, 1)
    assert (limits.part_used(10), limits.part_used(50)) == (0, pytest.approx(1 / 3))
    assert limits.used == pytest.approx(17 * HOUR / (80 * HOUR + HOUR + 8 * (HOUR - 2 * MINUTE)))
    assert found.oddities == {
        "an id that an earlier job has": 1,
        "ran for a second or less": 1,
        "ran more than a minute past its limit": 1,
        "started before it was submitted: a clock was moved, or Submit is that of a later run": 1,
        "submitted before the job above it": 1,
    }


def test_a_file_and_its_account(tmp_path: Path) -> None:
    path = written(
        tmp_path / "report.txt",
        sacct(1, "2026-01-05T08:00:00"),
        sacct(2, "2026-01-07T08:00:00", gpus=8),
        sacct(3, "2026-01-06T08:00:00", gpus=0),
        "4|broken",
    )
    found = describe_file(path, gpus=8)
    assert found.source == Source(
        name="report.txt", format="sacct", complete=True, cut=None, rows=4, kept=2, outside=0,
        left_out={"no GPUs": 1}, bad={"wrong number of fields": 1}, oddities={}, skipped_files={},
        examples=(
            "report.txt line 5: wrong number of fields: 2, not 10; is there a | in a job's name?: '4|broken'",
        ),
    )  # fmt: skip
    assert (found.start, found.span) == (parse_time("2026-01-05T00:00:00Z"), 3 * DAY)
    assert found.demand_over_supply == pytest.approx(9 / (72 * 8))
    data = as_data(found)
    assert (data["jobs"], data["start"], data["limits"]["jobs"]) == (2, "2026-01-05T00:00:00Z", 2)
    assert data["gpus"]["by_job"] == {"p10": 1, "p50": 1, "p90": 8, "p99": 8}


@pytest.mark.parametrize(
    ("cut", "jobs", "start", "days"),
    [
        ("2026-01-06..2026-01-07", 2, "2026-01-06T00:00:00Z", 2.0),
        ("2026-01-06..", 3, "2026-01-06T00:00:00Z", 3.0),
        ("1d..2d", 1, "2026-01-06T00:00:00Z", 1.0),
        ("..32h", 1, "2026-01-05T00:00:00Z", 32 / 24),
    ],
)
def test_a_window_is_that_of_a_replay(tmp_path: Path, cut: str, jobs: int, start: str, days: float) -> None:
    rows = [sacct(number, f"2026-01-{day:02}T08:00:00") for number, day in enumerate((7, 5, 6, 8))]
    path = written(tmp_path / "report.txt", *rows)
    found = describe_file(path, cut=cut)
    assert (found.jobs, found.source.outside, found.start, found.days) == (jobs, 4 - jobs, parse_time(start), days)
    replayed = open_trace(path, options=TraceOptions(window=Window.parse(cut))).figures
    for name in ("jobs", "start", "span", "first", "last", "supply", "runtimes", "arrivals", "people"):
        assert getattr(found, name) == getattr(replayed, name)


def test_what_cannot_be_described_says_why(tmp_path: Path) -> None:
    path = written(tmp_path / "report.txt", sacct(1, "2026-01-05T08:00:00"), sacct(2, "2026-01-05T08:00:00", gpus=0))
    with pytest.raises(
        TraceError, match=r"no job was submitted in the window 2025-01-01\.\.2025-02-01, and 1 job outside of it"
    ):
        describe_file(path, cut="2025-01-01..2025-02-01")
    with pytest.raises(ValueError, match=r"write FROM\.\.TO"):
        describe_file(path, cut="yesterday")
    with pytest.raises(TraceError, match=r"no job with GPUs in its 1 row \(1 x no GPUs\)"):
        describe_file(written(tmp_path / "none.txt", sacct(2, "2026-01-05T08:00:00", gpus=0)))
    itp = tmp_path / "itp.csv"
    itp.write_text("job_id,submission_time,duration,num_gpu\na,60,7200,8\n")
    with pytest.raises(TraceError, match="the window has dates and the trace has none"):
        describe_file(itp, cut="2026-01-01..")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="give dates"):
        describe_file(tmp_path / "pipe", cut="1d..2d")


def test_reading_can_be_broken_off_and_tells_how_far_it_is(tmp_path: Path) -> None:
    rows = [sacct(number, "2026-01-05T08:00:00") for number in range(20_000)]
    path = written(tmp_path / "report.txt", *rows)
    heard: list[tuple[int, int]] = []
    whole = describe_file(path, gauge=Gauge(lambda done, there: heard.append((done, there))))
    size = path.stat().st_size
    assert (whole.jobs, whole.source.complete, heard[-1]) == (20_000, True, (size, size))
    assert heard == sorted(heard) and len(heard) > 3

    gauge = Gauge(lambda done, there: gauge.stop() if done > there // 2 else None)
    half = describe_file(path, gauge=gauge)
    assert not half.source.complete
    assert 5_000 < half.jobs < 20_000
    assert half.source.rows == half.source.kept == half.jobs

    never = Gauge()
    never.stop()
    with pytest.raises(TraceError, match="broken off before its first line"):
        describe_file(path, gauge=never)

    early = Gauge(lambda done, there: early.stop())
    with pytest.raises(TraceError, match=r"broken off before"):
        describe_file(path, gauge=early)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "\n".join([HEADER, *(sacct(number, "2026-01-05T08:00:00") for number in range(1000))]) + "\n"
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert describe_file(pipe).jobs == 1000
    writer.join()


TIMES = st.integers(0, 20).map(lambda half_days: half_days * DAY // 2 + HOUR)
SIDES = st.one_of(st.none(), st.integers(1, 10))


@given(
    st.lists(TIMES, min_size=1, max_size=12), SIDES, SIDES, st.booleans(), st.booleans(), st.booleans(), st.booleans()
)
def test_what_is_left_out_while_reading_is_what_would_be_left_out_later(
    times: list[int], start: int | None, end: int | None, by_date: bool, dated: bool, thinned: bool, one_team: bool
) -> None:
    zero = parse_time("2026-01-05T00:00:00Z") if dated else 0
    shift = zero if by_date else 0
    jobs = [
        replace(JOB, id=str(number), submitted=zero + at, team="vision" if number % 3 else "speech")
        for number, at in enumerate(times)
    ]
    sides = [None if side is None else shift + side * DAY for side in (start, end)]
    try:
        window = Window(*sides, dated=by_date and dated)
    except ValueError:
        return
    options = TraceOptions(
        window=window, thin=SHARE_ONE // 2 if thinned else SHARE_ONE, teams_only=("vision",) if one_team else ()
    )
    origin = min(job.submitted for job in jobs) // DAY * DAY if dated else None
    sieve = Sieve(options)
    kept = [job for job in jobs if sieve.keeps(job, dated)]
    assert outcome(lambda: select(kept, options, origin, sieve)) == outcome(lambda: select(jobs, options, origin))


def outcome(attempt: Callable[[], object]) -> object:
    try:
        return attempt()
    except TraceError as error:
        return sorted(str(error).removesuffix(")").partition("(")[2].split(", "))


def test_what_is_cut_away_is_not_kept() -> None:
    options = TraceOptions(window=Window.parse("2026-01-05..2026-01-06"))
    sieve = Sieve(options)

    def days() -> Iterator[TraceJob]:
        for day in range(1, 32):
            yield replace(JOB, submitted=parse_time(f"2026-01-{day:02}T08:00:00Z"))

    assert sum(sieve.keeps(job, dated=True) for job in days()) == 2
    assert sieve.counts == {"outside the window": 29}
