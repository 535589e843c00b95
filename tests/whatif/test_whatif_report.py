"""What a re-run is worth, by hand, and what the report says of one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from whatif_kit import START, THREE_QUARTERS, other

from tenure.core.model import GPU, HOUR, MINUTE, SECOND
from tenure.reports.records import AttemptRow, JobRow, Run
from tenure.whatif import report, runs
from tenure.whatif.change import Variant
from tenure.whatif.course import Course
from tenure.whatif.honesty import WITHIN, honesty

PAGE = Path(__file__).parents[2] / "docs" / "what-if.md"


def table(*jobs: tuple[int, str, int | None, int | None], until: int = 10 * HOUR) -> Run:
    """(id, budget, started, ended) of jobs on 2 GPUs, ms after the start."""
    made = Run("test", 0, "", {}, (), {"main": (("main-0", 8),)}, START, START + until, START + until, 0)
    for job_id, budget, started, ended in jobs:
        begun, over = (None if at is None else START + at for at in (started, ended))
        made.jobs.append(
            JobRow(job_id, "ann", budget, "main", "", 2, HOUR, True, True, 0, True, 0, START, started=begun, ended=over)
        )
        if begun is not None:
            slots = (("main-0", (0, 1)),)
            made.attempts.append(
                AttemptRow(f"{job_id}.1", job_id, "ann", budget, "main", True, 2 * GPU, slots, begun, ended=over)
            )
    return made


def test_starts_and_gpu_time_are_compared_by_hand() -> None:
    real = table(
        (1, "lab/a", -HOUR, HOUR),  # ran before: no start of this time, and one hour counts
        (2, "lab/a", HOUR, 2 * HOUR),
        (3, "lab/b", HOUR, 3 * HOUR),
        (4, "lab/b", 2 * HOUR, 3 * HOUR),
        (5, "lab/b", None, None),
    )
    again = table(
        (1, "lab/a", -HOUR, HOUR),
        (2, "lab/a", HOUR, 2 * HOUR),
        (3, "lab/b", HOUR + 4 * MINUTE, 3 * HOUR + 4 * MINUTE),
        (4, "lab/b", None, None),
        (5, "lab/b", None, None),
    )
    found = honesty(real, again)
    assert found.jobs == 3 and [found.within[limit] for limit in WITHIN] == [1, 1, 2, 2, 2]
    assert found.real == {"lab/a": 4 * GPU * HOUR, "lab/b": 6 * GPU * HOUR}
    assert found.rerun == {"lab/a": 4 * GPU * HOUR, "lab/b": 4 * GPU * HOUR}
    assert found.off == 2 * GPU * HOUR and found.worst == ("lab/b", -2 * GPU * HOUR) and not found.close
    assert found.line() == (
        "Run again as it is, 67 % of 3 jobs start within 5 min of when they really did, and 20.0 % of the GPU time is "
        "in another budget than it was (lab/b: -2.0 GPU-hours). That is not close: take what follows as a hint and not "
        "as a figure."
    )


def test_time_that_goes_from_one_budget_to_another_is_in_another_once() -> None:
    real = table((1, "lab/a", 0, 4 * HOUR), (2, "lab/b", 0, 4 * HOUR))
    again = table((1, "lab/a", 0, 2 * HOUR), (2, "lab/b", 0, 6 * HOUR))
    found = honesty(real, again)
    assert found.off == 4 * GPU * HOUR  # 2 h on 2 GPUs, of 16 GPU-hours
    assert "25.0 % of the GPU time is in another budget than it was (lab/a: -4.0 GPU-hours)" in found.line()


def test_of_nothing_there_are_no_parts() -> None:
    nothing, something = table((1, "lab/a", None, None)), table((1, "lab/a", HOUR, 9 * HOUR))
    assert honesty(nothing, nothing).line() == (
        "Run again as it is, there is no start to compare, and every budget gets exactly the GPU time that it really "
        "got. Differences that are no larger say nothing."
    )
    assert (
        ", and budgets get 16.0 GPU-hours, and really got none (lab/a: +16.0 GPU-hours). "
        in honesty(nothing, something).line()
    )


def test_what_comes_after_the_end_of_the_run_does_not_count() -> None:
    real = table((1, "lab/a", HOUR, 3 * HOUR), (2, "lab/a", 5 * HOUR, 6 * HOUR))
    again = table((1, "lab/a", HOUR + SECOND, None), (2, "lab/a", None, None), until=2 * HOUR)
    found = honesty(real, again)
    assert found.jobs == 1 and found.within[0] == 0 and found.within[MINUTE] == 1
    assert found.off == 2 * GPU * SECOND and found.close
    assert found.line().endswith("Differences that are no larger say nothing.")


def test_what_starts_in_one_of_them_just_before_the_end_says_nothing() -> None:
    real = table((1, "lab/a", 0, HOUR), (2, "lab/a", 10 * HOUR - MINUTE, None), (3, "lab/a", 9 * HOUR, None))
    again = table((1, "lab/a", 0, HOUR), (2, "lab/a", None, None), (3, "lab/a", None, None))
    for found in (honesty(real, again), honesty(again, real)):
        assert found.jobs == 2 and found.starts == 0.5


def test_single_starts_may_be_far_off_where_sums_are_not() -> None:
    real = table((1, "lab/a", 0, HOUR), (2, "lab/a", HOUR, 2 * HOUR))
    again = table((1, "lab/a", HOUR, 2 * HOUR), (2, "lab/a", 0, HOUR))
    found = honesty(real, again)
    assert found.off == 0 and not found.close and found.worst is None
    assert "what budgets get can be believed, and when a single job starts cannot" in found.line()


def test_of_next_to_nothing_nobody_says_how_close_it_is() -> None:
    """Less than a GPU-minute in another budget is no -0.0 GPU-hours, and so little work proves nothing."""
    real = table((1, "lab/a", 0, MINUTE), (2, "lab/b", 0, MINUTE))
    again = table((1, "lab/a", 0, MINUTE), (2, "lab/b", 0, 40 * SECOND))
    line = honesty(real, again).line()
    assert "(lab/b: -40 GPU-seconds)" in line and "-0.0" not in line
    assert line.endswith("All jobs together used 4 GPU-minutes: too little to tell how close that is.")
    assert "no budget gets over 40 GPU-seconds more or less" in honesty(real, again).chance({})[0]


def test_what_is_lost_can_be_left_out() -> None:
    real, again = table((1, "lab/a", 0, HOUR)), table((1, "lab/a", 0, HOUR))
    again.attempts[0].lost = GPU * HOUR
    assert honesty(real, again).off == 0
    assert honesty(real, again, net=True).off == GPU * HOUR


def test_only_what_is_beyond_chance_is_named() -> None:
    found = honesty(table((1, "lab/a", 0, HOUR)), table((1, "lab/a", 0, 2 * HOUR)))
    first, beyond = found.chance({"lab/a": 1.9, "lab/b": -2.5, "lab/c": 7.2})
    assert "no budget gets over 2.0 GPU-hours more or less" in first
    assert beyond == "Beyond chance, in GPU-hours: lab/c +7, lab/b -2."
    assert "nobody over 2.0 GPU-hours. Changes" in first
    off = honesty(table((1, "lab/a", 0, HOUR)), table((1, "lab/a", 0, 3 * HOUR)))
    first, beyond = found.chance({"lab/a": 1.9, "lab/b": -2.5, "lab/c": 7.2}, off)
    assert first.endswith("So are those of budgets up to 4.0 GPU-hours, by which the run as it is is off.")
    assert beyond == "Beyond chance, in GPU-hours: lab/c +7."
    assert found.chance({"lab/a": 1.9})[1] == "No budget gains or loses more GPU time than that."


@pytest.fixture(scope="module")
def made(busy: Course) -> report.Report:
    reruns = runs.begin(busy, [Variant("changed", wanted=other(busy, budgets=THREE_QUARTERS))])
    assert runs.run(reruns, lambda _done, _total: True)
    return report.make(reruns)


def test_the_example_of_the_page_is_what_the_report_says(made: report.Report) -> None:
    text = PAGE.read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    lines = [" ".join(point.split()) for point in f"\n{text}".split("\n- ")[1:]]
    assert len(lines) > 8
    said = made.found["said"]["changed"]
    assert lines == [line for line in said if line in lines]


def test_the_report_has_everything_and_the_files_are_there(made: report.Report, tmp_path: Path) -> None:
    files = report.write(made, tmp_path, "What if")
    assert [path.name for path in files] == ["sides.json", "sides.md", "sides.html"]
    found = json.loads(files[0].read_text())
    assert found == json.loads(json.dumps(made.found))
    assert found["sides"] == ["as it is", "changed"] and found["base"] == "as it is"
    assert found["changes"]["changed"][0].startswith("budget lab/a: share 50% -> 75%")
    assert found["honesty"]["jobs_started"] > 20 and found["chance"]["jobs_started"] > 20
    for name in ("as-it-is", "changed"):
        assert (tmp_path / name / "report.html").is_file() and (tmp_path / name / "jobs.csv").is_file()
    assert (tmp_path / "comparison.html").is_file()
    assert made.found["said"]["changed"][0] in files[1].read_text().replace("\\", "")


def test_a_run_that_was_broken_off_is_compared_up_to_there(busy: Course) -> None:
    reruns = runs.begin(busy, [Variant("fifo", "fifo")])
    assert not runs.run(reruns, lambda done, total: done < total // 3)
    assert {one.reached for one in (*reruns.sides, reruns.later)} == {reruns.as_it_is.reached}
    found = report.make(reruns, whole=False).found
    assert found["until"] == reruns.as_it_is.reached < busy.until
    assert found["notes"][0].startswith("The run was broken off")
    assert "policy: budgets -> fifo" in found["changes"]["fifo"] and len(found["changes"]["fifo"]) == 1
    assert any("under other policies" in note.lower() for note in found["notes"])


def test_a_rehearsal_says_what_a_run_would_refuse(busy: Course) -> None:
    alone = tuple(replace(budget, share=1_000_000) for budget in THREE_QUARTERS[::2])
    variant = Variant("changed", wanted=other(busy, budgets=alone))
    said = runs.rehearse(runs.begin(busy, [variant]).changed[0])
    ran = runs.begin(busy, [variant])
    assert runs.run(ran, lambda _done, _total: True)
    assert sorted(said) == sorted(ran.changed[0].lines()) and len(said) == 2
