"""Rows of sacct as jobs that were seen: runs, waits, what never began, arrays, components."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sacct import BEGIN, HEADER, H, clock, row, text
from tenure.shadow.lives import Lives
from tenure.shadow.sacct.rows import COLUMNS, Rows
from tenure.shadow.seen import SOMEWHERE, Seen
from tenure.sim.traces.files import Source
from tenure.sim.traces.records import Reading, TraceError


def read(
    *rows: str, header: str = HEADER, hosts: tuple[str, ...] = ("n1", "n2"), cluster: str = ""
) -> tuple[list[Seen], Rows]:
    found = Rows(Reading(path="report.txt"), hosts, cluster)
    lines = text(rows, header).splitlines(keepends=True)
    seen = list(found.read([Source.of("report.txt", lines)]))
    assert found.reading.accounted == found.reading.rows
    return seen, found


def test_a_run() -> None:
    (job,), rows = read(row("7", submitted=60, started=H, ended=3 * H, qos="high"))
    assert job == Seen(
        "7", "ada", "language", "gpu", "COMPLETED", submitted=BEGIN + 60, eligible=BEGIN + 60, started=BEGIN + H,
        ended=BEGIN + 3 * H, limit=86_400, gpus=8, cpus=8, hosts="n1", qos="high",
    )  # fmt: skip
    assert (rows.first_end, rows.last, rows.eligible, rows.partitions) == (BEGIN + 3 * H, BEGIN + 3 * H, True, {"gpu"})


def test_what_is_asked_of_sacct_is_what_the_reader_reads() -> None:
    assert COLUMNS.replace(",", "|") == HEADER


def test_what_still_runs_and_what_waits() -> None:
    (runs, waits), rows = read(row("7", started=H, now=5 * H), row("8", submitted=2 * H))
    assert (runs.ended, runs.live, rows.last) == (0, True, BEGIN + 5 * H)
    assert (waits.started, waits.hosts, waits.waits, waits.gpus) == (0, "", True, 8)


@pytest.mark.parametrize("state", ["CANCELLED by 1000", "DEADLINE", "CANCELLED"])
def test_what_was_given_up_before_it_began(state: str) -> None:
    """sacct gives it its end as its start, or none."""
    for started in (None, 3 * H):
        (job,), _ = read(row("7", started=started, ended=3 * H, state=state))
        assert (job.started, job.hosts, job.ended) == (0, "", BEGIN + 3 * H)
        lives = Lives()
        lives.see(0, job)
        assert (lives.all[0].gave_up, lives.all[0].runs) == (BEGIN + 3 * H, [])


def test_a_run_of_no_time_is_one_where_it_ended_by_itself() -> None:
    (job,), _ = read(row("7", started=H, ended=H, state="FAILED"))
    assert (job.started, job.ended) == (BEGIN + H, BEGIN + H)


def test_runs_of_a_requeued_job() -> None:
    first = row("7", started=H, ended=2 * H, state="REQUEUED")
    lives = Lives()
    for job in read(first, row("7", submitted=2 * H, started=3 * H, ended=4 * H))[0]:
        lives.see(0, job)
    (life,) = lives.all
    assert [(run.started - BEGIN, run.ended - BEGIN) for run in life.runs] == [(H, 2 * H), (3 * H, 4 * H)]
    assert life.over
    assert life.submitted == BEGIN


def test_waiting_tasks_of_an_array_on_one_line() -> None:
    seen, rows = read(row("9_[1-3,7%2]"), row("9_0", started=H), row("8_[0-8:4]"), row("6_[1-2...]"))
    assert [job.id for job in seen] == ["9_1", "9_2", "9_3", "9_7", "9_0", "8_0", "8_4", "8_8"]
    assert rows.reading.oddities == {"an array whose waiting tasks sacct does not all name: those named count": 1}


def test_components_that_start_together_are_one_job() -> None:
    parts = [row(f"7+{n}", started=H, ended=2 * H + n, gpus=4 + n, hosts=f"n{n + 1}") for n in (0, 1)]
    (job,), rows = read(*parts)
    assert (job.id, job.gpus, job.nodes, job.hosts) == ("7", 9, 2, "n1,n2")
    assert job.ended == BEGIN + 2 * H + 1
    assert rows.reading.kept == 2


def test_hosts_that_are_not_known_here() -> None:
    assert read(row("7", started=H, hosts="n[1-2]"))[0][0].hosts == "n[1-2]"
    assert read(row("7", started=H, hosts="n[1-3]"))[0][0].hosts == SOMEWHERE
    assert read(row("7", started=H), hosts=())[0][0].hosts == SOMEWHERE


def test_gpus_are_those_given_else_those_asked_for() -> None:
    cells = dict(zip(HEADER.split("|"), row("7", started=H).split("|"), strict=True))
    more = "|".join((cells | {"AllocTRES": "gres/gpu=16"}).values())
    none = "|".join((cells | {"ReqTRES": "cpu=1"}).values())
    seen, rows = read(more, none)
    assert [job.gpus for job in seen] == [16, 8]
    assert rows.reading.oddities == {"no GPUs were asked for, but some allocated: taken as asked for": 1}


def test_slices_shards_and_numbers_of_gpus_that_are_none_are_told() -> None:
    words = ("gres/gpu=8", "gres/gpu:1g.10gb=2", "gres/shard=4", "gres/gpu=lots")
    lines = [row(str(n), started=H, ended=2 * H).replace("gres/gpu=8", word) for n, word in enumerate(words)]
    seen, rows = read(*lines)
    assert [job.gpus for job in seen] == [8, 2]
    assert rows.reading.oddities == {"MIG slices counted as whole GPUs": 1}
    assert rows.reading.left_out == {"on shards of GPUs (gres/shard), which are not counted": 1}
    assert rows.reading.bad == {"GPUs in TRES are not a number": 1}


def test_every_row_is_accounted_for() -> None:
    _, rows = read(
        row("7.batch", started=H), row("8", gpus=0), row("nonsense"), row("9", state="ODD"), "one|cell", row("10"),
        row("11", started=2 * H, ended=H),
    )  # fmt: skip
    reading = rows.reading
    assert reading.left_out == {"a step of a job": 1, "no GPUs": 1}
    assert reading.bad == {
        "JobID is unreadable": 1, "State is unknown": 1, "wrong number of fields": 1, "Elapsed is not a duration": 1
    }  # fmt: skip
    assert (reading.rows, reading.kept) == (7, 1)


def test_a_report_of_several_clusters() -> None:
    header = f"Cluster|{HEADER}"
    rows = [f"{name}|{row(id, started=H)}" for name, id in (("east", "1"), ("west", "1"), ("east", "2"))]
    with pytest.raises(TraceError, match=r"several clusters \(east, west\); choose one with --cluster"):
        read(*rows, header=header)
    seen, found = read(*rows, header=header, cluster="east")
    assert [job.id for job in seen] == ["1", "2"]
    assert found.reading.left_out == {"of another cluster": 1}


def test_a_report_without_starts_or_eligible() -> None:
    with pytest.raises(TraceError, match="no Start, no State; name it"):
        read("1|2026-06-01T00:00:00|01:00:00|gres/gpu=1", header="JobID|Submit|Elapsed|ReqTRES")
    short = "JobID|Submit|Start|Elapsed|ReqTRES|State"
    (job,), rows = read("1|2026-06-01T00:00:00|2026-06-01T01:00:00|01:00:00|gres/gpu=1|COMPLETED", header=short)
    assert not rows.eligible
    assert (job.eligible, job.started, job.user, job.nodes) == (BEGIN, BEGIN + H, "unknown", 1)


CELLS = st.sampled_from(
    ["", "1", "7_3", "9_[1-4]", "5+1", "2026-06-01T00:00:00", "Unknown", "1780272000", "01:00:00", "gres/gpu=4", "n1",
     "RUNNING", "COMPLETED", "PENDING", "CANCELLED by 0", "PREEMPTED", "n[1-9999999999]", "\x00", "é", "-1"]
)  # fmt: skip


@given(st.lists(st.lists(CELLS, min_size=1, max_size=17).map("|".join), max_size=8))
def test_whatever_is_in_it_every_row_is_accounted_for(lines: list[Any]) -> None:
    seen, _ = read(*lines)
    for job in seen:
        assert job.gpus > 0
        assert not job.ended or job.ended >= job.started


def test_a_run_over_the_hour_that_is_there_twice() -> None:
    """From 02:50 to 02:10 in 20 min, and what went an hour back in 4 h is wrong."""
    odd = row("7", started=H, ended=H + 1200).split("|")
    odd[9] = clock(H - 2400)
    wrong = row("8", started=9 * H, ended=13 * H).split("|")
    wrong[9] = clock(7 * H)
    (job,), rows = read("|".join(odd), "|".join(wrong))
    assert (job.started - BEGIN, job.ended - BEGIN) == (H, H + 1200)
    assert rows.reading.bad == {"End is before Start": 1}
    assert [count for why, count in rows.reading.oddities.items() if "clocks were put back" in why] == [1]


def test_an_array_without_end_is_cut_and_that_is_said() -> None:
    seen, rows = read(row("9_[0-999999999]"))
    assert len(seen) == 100_000
    assert list(rows.reading.oddities) == ["an array of more than 100,000 waiting tasks: the first count"]
