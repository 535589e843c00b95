"""A report of sacct as a stream: jobs come while it is read, memory does not grow, and nothing is lost unsaid."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.model import HOUR, MINUTE
from tenure.sim.traces import Describer, End, Reading, TraceJob
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import LONGEST_NAME
from tenure.sim.traces.sacct import TOO_FAR, WINDOW, read_sacct
from tenure.sim.traces.trace import named
from tenure.units import parse_time

HEADER = "JobID|User|Account|State|Submit|Start|End|Elapsed|ReqTRES\n"
AGAIN = "another run or record of the same job"


def row(job: str, state: str = "COMPLETED", hour: int = 9, elapsed: str = "00:10:00", user: str = "ada") -> str:
    times = f"2026-01-05T{hour - 1:02}:00:00|2026-01-05T{hour:02}:00:00|2026-01-05T{hour:02}:10:00"
    return f"{job}|{user}|vision|{state}|{times}|{elapsed}|gres/gpu=8\n"


def read(lines: list[str], window: int = WINDOW) -> tuple[list[TraceJob], Reading]:
    reading = Reading()
    jobs = list(read_sacct([Source.of("report.txt", [HEADER, *lines])], reading, window))
    assert reading.accounted == reading.rows == len(lines)
    assert reading.kept == len(jobs)
    return jobs, reading


def test_jobs_come_while_the_report_is_read() -> None:
    taken = []

    def lines() -> Iterator[str]:
        yield HEADER
        for number in range(100):
            taken.append(number)
            yield row(str(number))

    jobs = read_sacct([Source.of("report.txt", lines())], Reading(), window=10)
    assert next(jobs).id == "0"
    assert taken == list(range(11))
    assert [job.id for job in jobs] == [str(number) for number in range(1, 100)]


def test_each_cluster_counts_its_own_jobs() -> None:
    """A report of all clusters (``sacct --allclusters``) has job 1 of ada's more than once."""
    header = HEADER.replace("JobID|", "JobID|Cluster|")
    lines = [row("1").replace("1|", f"1|{cluster}|", 1) for cluster in ("east", "west", "east")]
    reading = Reading()
    jobs = list(read_sacct([Source.of("report.txt", [header, *lines])], reading))
    assert [job.id for job in jobs] == ["1", "1"] and reading.left_out == {AGAIN: 1}


def test_names_of_any_length_cost_nothing() -> None:
    """Whoever writes the file decides how long they are; a line may have a million characters."""
    long = 100_000

    def lines() -> Iterator[str]:
        yield HEADER
        for number in range(200):
            yield row(str(number), user="a" * long).replace("gres", f"cpu={'0' * long}{number},gres")

    reading = Reading()
    tracemalloc.start()
    try:
        jobs = list(named(read_sacct([Source.of("report.txt", lines())], reading), reading))
        peak = tracemalloc.get_traced_memory()[1] - 2**25  # of the bits that know which jobs came
    finally:
        tracemalloc.stop()
    assert len(jobs) == 200 and {len(job.user) for job in jobs} == {LONGEST_NAME}
    assert reading.oddities == {f"a name of more than {LONGEST_NAME} characters: cut there": 200}
    assert peak < 30 * long


def test_rows_within_the_window_are_one_job_and_those_beyond_are_counted() -> None:
    between = [row(str(number)) for number in range(5)]
    first, last = row("77", "NODE_FAIL"), row("77", hour=15, elapsed="00:10:00")
    near, account = read([first, *between, last], window=6)
    assert [(job.id, job.end) for job in near if job.id == "77"] == [("77", End.COMPLETED)]
    assert account.left_out == {AGAIN: 1}
    far, account = read([first, *between, last], window=3)
    assert [(job.id, job.end) for job in far if job.id == "77"] == [("77", End.HOST_FAILED)]
    assert account.left_out == {TOO_FAR: 1}


def test_what_still_runs_is_waited_for_to_the_end_of_all_reports() -> None:
    between = [row(str(number)) for number in range(20)]
    jobs, account = read([row("77", "RUNNING", elapsed="00:05:00"), *between, row("77")], window=3)
    assert [(job.end, job.runtime) for job in jobs if job.id == "77"] == [(End.COMPLETED, 10 * MINUTE)]
    assert account.left_out == {AGAIN: 1}
    assert not account.oddities
    jobs, account = read([row("77", "RUNNING"), *between], window=3)
    assert jobs[-4].id == "77"  # what still runs comes before what is still in the window
    assert account.oddities == {"still running when the report was made: taken as ended then": 1}


def test_the_wait_is_from_the_first_submission_to_the_first_start() -> None:
    again = row("77", hour=15)
    for lines in ([row("77", "NODE_FAIL", hour=9), again], [again, row("77", "NODE_FAIL", hour=9)]):
        jobs, _ = read(lines)
        assert [(job.submitted, job.waited) for job in jobs] == [(parse_time("2026-01-05T08:00:00Z"), HOUR)]
    (job,), _ = read([row("78").replace("|2026-01-05T09:00:00", "|2026-01-05T07:00:00")])
    assert job.waited == -HOUR
    (job,), _ = read([row("79").replace("|2026-01-05T09:00:00", "|Unknown")])
    assert job.waited is None


def test_a_length_that_is_not_what_lies_between_start_and_end_is_told() -> None:
    odd = (
        "Elapsed is not what lies between Start and End: suspended meanwhile, or a clock moved, as for daylight saving"
    )
    _, account = read(
        [row("1"), row("2", elapsed="00:10:02"), row("3", elapsed="00:04:00"), row("4", elapsed="1:10:00")]
    )
    assert account.oddities == {odd: 2}
    _, account = read([row("5").replace("09:10:00", "25:10:00")])
    assert not account.bad


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_a_report_whose_rows_are_near_each_other_is_read_as_if_all_were_kept(seed: int, spread: int) -> None:
    """Each row is within ``spread`` rows of where it belongs: a window of twice as many jobs is enough."""
    rng = random.Random(seed)
    rows = []
    for number in range(60):
        name = f"{number}_1" if rng.random() < 0.2 else str(number)
        names = (
            [f"{number}+{part}" for part in range(3)] if rng.random() < 0.1 else [name] * rng.choice((1, 1, 1, 2, 3))
        )
        rows += [row(name, rng.choice(("COMPLETED", "NODE_FAIL", "RUNNING")), rng.randrange(9, 20)) for name in names]
    rows = [line for _, line in sorted((place + rng.uniform(0, spread), line) for place, line in enumerate(rows))]
    streamed, account = read(rows, window=2 * spread + 4)
    kept, whole = read(rows, window=10**9)
    assert sorted(streamed, key=lambda job: job.id) == sorted(kept, key=lambda job: job.id)
    assert (account.left_out, account.oddities, account.rows) == (whole.left_out, whole.oddities, whole.rows)


def peak(rows: int, window: int) -> int:
    """The most bytes that reading and describing so many rows took."""

    def lines() -> Iterator[str]:
        yield HEADER
        for number in range(rows // 2):
            yield row(
                f"{number}", "RUNNING" if number % 100 == 0 else "COMPLETED", 9 + number % 10, user=f"u{number % 500}"
            )
            yield f"{number}.batch||vision|COMPLETED|||||gres/gpu=8\n"

    tracemalloc.start()
    try:
        describer = Describer()
        for job in read_sacct([Source.of("report.txt", lines())], Reading(), window):
            describer.add(job)
        assert describer.jobs == rows // 2
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_report() -> None:
    short = peak(5_000, window=200)
    assert abs(peak(50_000, window=200) - short) < 300_000
    assert peak(5_000, window=10**9) > short + 1_500_000  # so it would be seen


@pytest.mark.parametrize("window", [1, WINDOW])
def test_parts_of_a_heterogeneous_job_are_counted_together(window: int) -> None:
    jobs, account = read([row("200+0"), row("200+1"), row("200+2"), row("201")], window)
    assert [(job.id, job.gpus) for job in jobs] == [("200", 24), ("201", 8)]
    assert account.left_out == {"a further part of a heterogeneous job, added to its first": 2}
