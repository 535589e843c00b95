"""The report of records written by hand: what was is shown as it was, and what would have been follows its rules."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from shadow_kit import BEGIN, ended, recorded, runs, terms, waits

from tenure.core.model import GPU, HOUR, SECOND
from tenure.shadow.journal import Record, RecordError
from tenure.shadow.now import decide
from tenure.shadow.replay import Side
from tenure.shadow.report import Report, make, markdown, write
from tenure.shadow.seen import Seen

_H = 3600
_ALL = "n[1-4]"
_SILENT = {"comment": "min_runtime=15m resumable"}


def busy(until: int = 4 * _H) -> Record:
    """Language has all hosts for 3 h; vision's small job, 10 min later, waits for that under Slurm."""
    return recorded(
        (1, [runs("1", 0, 0, _ALL, 32, **_SILENT)]),
        (600, [waits("2", 600, account="vision", user="grace", limit=_H)]),
        (3 * _H + 1, [ended("1", 0, 0, 3 * _H, _ALL, 32, **_SILENT)]),
        (3 * _H + 2, [runs("2", 600, 3 * _H, "n1", account="vision", user="grace", limit=_H)]),
        (3 * _H + 601, [ended("2", 600, 3 * _H, 3 * _H + 600, "n1", account="vision", user="grace", limit=_H)]),
        until=until,
    )


def times(side: Side) -> dict[str, list[tuple[int, int]]]:
    """Job -> its runs on this side, seconds after BEGIN; -1: goes on."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in side.tables.attempts:
        key = side.jobs[row.job_id].life.key
        end = -1 if row.ended is None else row.ended // SECOND - BEGIN
        found.setdefault(key, []).append((row.started // SECOND - BEGIN, end))
    return found


def budget(report: Report, path: str) -> dict[str, Any]:
    (found,) = [row for row in report.found["budgets"] if row["budget"] == path]
    return dict(found)


def test_what_was_is_shown_as_it_was() -> None:
    report = make(busy(), terms())
    assert times(report.slurm) == {"1": [(0, 3 * _H)], "2": [(3 * _H, 3 * _H + 600)]}
    people = {row["user"]: row for row in report.found["people"]}
    assert people["ada"]["slurm_gpu_hours"] == 96.0
    assert people["grace"]["slurm"] == {
        "p50_s": 10_200, "p50_at_least": False, "p90_s": 10_200, "p90_at_least": False, "never_started": 0
    }  # fmt: skip


def test_what_would_have_been() -> None:
    report = make(busy(), terms())
    small = times(report.tenure)["2"]
    # The other one is exposed after 15 min, and outranked once it is ahead by the margin: 8 GPUs x 1 h on both sides,
    # after 30 min on 32. A pass comes within 5 min, and it has its grace.
    assert 1800 < small[0][0] <= 1800 + 300 + 300
    assert small[0][1] - small[0][0] == 600
    large = times(report.tenure)["1"]
    assert large[0][0] == 0
    assert len(large) == 2
    assert report.found["evictions"]["count"] == 1
    assert report.found["evictions"]["ended_for_good"] == 0
    (eviction,) = report.found["evictions"]["each"]
    assert (eviction["job"], eviction["for"], eviction["because"]) == ("1", "2", "evicted_standing")
    vision = budget(report, "lab/vision")
    assert vision["tenure"]["delivered_of_owed"] > vision["slurm"]["delivered_of_owed"]
    assert any(line.startswith("lab/vision would have got") for line in report.found["said"])


def test_what_cannot_resume_ends_for_good_and_that_is_said() -> None:
    record = recorded(
        (1, [runs("1", 0, 0, _ALL, 32)]),
        (600, [waits("2", 600, account="vision", user="grace")]),
        (
            3 * _H + 1,
            [ended("1", 0, 0, 3 * _H, _ALL, 32), runs("2", 600, 3 * _H, "n1", account="vision", user="grace")],
        ),
        until=4 * _H,
    )
    found = make(record, terms()).found
    assert found["evictions"]["ended_for_good"] == 1
    assert found["evictions"]["lost_gpu_hours"] > 7.9
    assert "1 of the jobs cannot resume" in found["said"][1]
    assert make(record, terms(min_runtime=8 * HOUR)).found["evictions"]["count"] == 0


def test_both_have_the_same_past() -> None:
    """Tenure takes over in the middle: until then everything is as Slurm had it."""
    takeover = (BEGIN + 1800) * SECOND
    report = make(busy(), terms(), takeover)
    assert times(report.tenure)["1"][0][0] == 0
    assert 1800 < times(report.tenure)["2"][0][0] <= 1800 + 300 + 300
    assert report.found["from"] == takeover
    # Both had waited for 20 min by then.
    assert budget(report, "lab/vision")["slurm"]["p50_s"] == 10_200
    with pytest.raises(RecordError, match="the record reaches from"):
        make(busy(), terms(), (BEGIN - 1) * SECOND)


def test_runs_that_were_requeued_are_asked_of_tenure_in_one() -> None:
    record = recorded(
        (1, [runs("1", 0, 0, "n1")]),
        (601, [waits("1", 600, restarts=1)]),
        (1201, [runs("1", 600, 1200, "n2", restarts=1)]),
        (1801, [ended("1", 600, 1200, 1800, "n2", restarts=1)]),
        until=_H,
    )
    report = make(record, terms())
    assert times(report.slurm) == {"1": [(0, 600), (1200, 1800)]}
    assert times(report.tenure) == {"1": [(0, 1200)]}  # as long, in one
    assert [row["jobs"] for row in report.found["people"]] == [1]


def test_lengths_that_nobody_knows() -> None:
    free = {"account": "vision", "comment": "min_runtime=0"}  # so that Tenure has room for the others
    record = recorded(
        (1, [runs("1", 0, 0, _ALL, 32, **free), waits("2", 0, limit=1200), waits("3", 0, limit=600)]),
        (1801, [waits("3", 0, limit=600, state="CANCELLED", started=BEGIN + 1800, ended=BEGIN + 1800)]),
        (_H + 1, [ended("1", 0, 0, _H, _ALL, 32, **free), runs("2", 0, _H, "n1", limit=1200)]),
        until=_H + 600,
    )
    report = make(record, terms())
    tenure = times(report.tenure)
    began = tenure["2"][0][0]
    assert tenure["2"] == [(began, began + 1200)]  # it runs on until its time limit, not for the 600 s seen so far
    assert report.found["unknown"] == {"jobs": 2, "gpu_hours": pytest.approx((600 + 600) * 8 / 3600, abs=0.1)}


def test_who_gave_up_gives_up_at_the_same_time() -> None:
    gone = waits("2", 60, state="CANCELLED", started=BEGIN + 900, ended=BEGIN + 900)
    record = recorded((1, [runs("1", 0, 0, _ALL, 32)]), (60, [waits("2", 60)]), (901, [gone]), until=_H)
    report = make(record, terms(min_runtime=2 * HOUR))
    for side in (report.slurm, report.tenure):
        (row,) = [row for row, piece in side.rows() if piece.life.key == "2"]
        assert (row.state, row.ended) == ("cancelled", (BEGIN + 900) * SECOND)
    assert report.found["all"]["slurm"] == {
        "p50_s": 0, "p50_at_least": False, "p90_s": 840, "p90_at_least": True, "never_started": 1
    }  # fmt: skip


def test_what_is_left_out_and_what_is_missing_is_said() -> None:
    record = recorded(
        (1, [runs("1", 0, 0, "n1"), waits("2", 0, eligible=0), runs("3", 0, 0, "n2", partition="other")]),
        until=_H,
    )
    record.take({"at": BEGIN + 3 * _H, "jobs": [], "look": True})
    record.take({"at": BEGIN + 3 * _H, "gone": ["1"]})
    found = make(record, terms()).found
    assert found["left_out"] == {
        "that were held, or waited for other jobs, all the time": 1,
        "of other partitions, or on other hosts": 1,
    }
    assert found["other_partitions_gpu_hours"] == 24.0
    said = "\n".join(found["uncertain"])
    for what in ("took 24.0 GPU-hours", "Nobody looked for 2.0 h", "Of 1 run nobody saw the end", "less than a day"):
        assert what in said


def test_jobs_that_tenure_would_refuse_are_named() -> None:
    budgets = "[lab]\n[lab.language]\nshare = 0\n[lab.vision]\nshare = 1.0\n"
    found = make(busy(), terms(budgets=budgets), (BEGIN) * SECOND).found
    assert [one["job"] for one in found["refused"]] == ["1"]
    assert any("Tenure would have refused 1 job; 1: " in line for line in found["uncertain"])
    assert found["people"][0]["slurm_gpu_hours"] == 96.0  # and under Slurm it ran as it did


def test_hosts_that_are_drained_take_nothing_under_tenure() -> None:
    record = recorded((600, [waits("1", 600)]), until=_H)
    record.hosts = [(BEGIN + 1, f"n{number}", "drained") for number in (1, 2, 3)]
    record.hosts.append((BEGIN + 1, "n4", "down"))
    record.hosts.append((BEGIN + 1800, "n2", "up"))
    report = make(record, terms())
    assert times(report.tenure)["1"][0][0] == 1800
    assert report.found["all"]["occupancy"]["tenure"] > 0.99  # of what could be used


def queue_of(seed: int) -> tuple[Record, dict[str, tuple[int, int]]]:
    """A random queue as a first-come-first-served Slurm would run it on 4 hosts, and the runs."""
    draw = random.Random(seed)
    free = {f"n{number}": 0 for number in range(1, 5)}  # whole hosts: free from then on
    jobs, expected, at, last = [], {}, 0, 0
    for number in range(1, 41):
        at += draw.randrange(0, 900)
        hosts = sorted(free, key=lambda host: (free[host], host))[: draw.choice((1, 1, 1, 2, 4))]
        start = last = max(at, last, *(free[host] for host in hosts))
        end = start + draw.randrange(30, 2 * _H)
        free |= dict.fromkeys(hosts, end)
        who = draw.choice((("language", "ada"), ("vision", "grace")))
        job = ended(str(number), at, start, end, ",".join(hosts), 8 * len(hosts), account=who[0], user=who[1])
        jobs.append((end, [job]))
        expected[str(number)] = (start, end)
    jobs.sort(key=lambda one: one[0])
    return recorded(*jobs, until=jobs[-1][0] + 60), expected


@pytest.mark.parametrize("seed", range(5))
def test_slurms_side_is_exact_whatever_the_queue(seed: int) -> None:
    record, expected = queue_of(seed)
    report = make(record, terms(), BEGIN * SECOND)
    assert times(report.slurm) == {key: [run] for key, run in expected.items()}
    assert report.found["late"] == {"starts": 40, "late": 0}
    brute = sum(
        (end - start) * piece.spec.gpus * GPU * SECOND
        for _, piece in report.slurm.rows()
        for start, end in [expected[piece.life.key]]
    )
    assert sum(row.funded for row in report.slurm.tables.hours) == brute


@pytest.mark.parametrize("seed", range(3))
def test_the_same_record_gives_the_same_report_to_the_byte(seed: int, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(make(queue_of(seed)[0], terms()), tmp_path / name)
    for path in sorted((tmp_path / "one").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes(), path.name
    assert json.loads((tmp_path / "one" / "report.json").read_text())["said"]
    assert (tmp_path / "one" / "comparison.html").is_file()


def test_names_cannot_break_the_page() -> None:
    nasty = "<script>|`x`"
    record = recorded((1, [runs("1", 0, 0, "n1", user=nasty)]), until=_H)
    text = markdown(make(record, terms()).found)
    assert "<script>" not in text
    assert "&lt;script&gt;\\|\\`x\\`" in text


def test_what_tenure_would_do_now() -> None:
    record = recorded(
        (1, [runs("1", 0, 0, _ALL, 32, comment="min_runtime=0")]),
        (600, [waits("2", 600, account="vision", user="grace", reason="Resources")]),
        until=660,
    )
    jobs: dict[str, Seen] = {"2": waits("2", 600, account="vision", user="grace", reason="Resources")}
    now = decide(record, terms(), jobs)
    assert (now.waiting, now.running, now.busy, now.gpus) == (1, 1, 32, 32)
    assert [(one.what, one.job, one.gainer) for one in now.would] == [("start", "2", ""), ("evict", "1", "2")]
    first, second = (one.line() for one in now.would)
    assert first.startswith("would start 2 (grace, lab/vision, 8 GPUs) on n1: ")
    assert first.endswith("Slurm says: Resources.")
    assert " on n1, n2, n3, n4 for 2: " in second
    assert decide(record, terms(), jobs) == now


def test_nothing_to_do_now() -> None:
    record = recorded((1, [runs("1", 0, 0, "n1")]), until=660)
    assert decide(record, terms(), {}).would == ()


def test_a_long_record_fills_the_ledger_first() -> None:
    day = 86_400
    record = recorded((1, [runs("1", 0, 0, "n1")]), until=9 * day)
    report = make(record, terms())
    assert report.found["from"] == (BEGIN + 2 * day) * SECOND
    assert report.found["hours"] == 7 * 24
    assert report.slurm.tables.warmup % HOUR == 0
