"""What sentences say where nobody starts, where little is there, and where waits are lower bounds."""

from __future__ import annotations

from test_sides import attempt, before, job, made

from tenure.reports.records import JobRow, Run
from tenure.reports.side_waits import Waits, cell, starts, told
from tenure.reports.sides import Side, compare_sides
from tenure.reports.sides_files import report, tables_of
from tenure.reports.sides_words import sentences
from tenure.shadow.words import said as shadow_said


def said(was: Run, now: Run) -> list[str]:
    return sentences(compare_sides([Side("was", was, phrase="as it was"), Side("now", now, phrase="now")]), "now")


def run(*starts: int | None, funded: bool = True) -> Run:
    """A job of Ann's for each, submitted at the beginning of 10 h and started then, if ever."""
    jobs = [job(n, "ann@lab/a", started=at, funded=funded) for n, at in enumerate(starts, 1)]
    return made(jobs, [attempt(one, at, None) for one, at in zip(jobs, starts, strict=True) if at is not None])


def test_what_starts_on_neither_side_does_not_start_at_the_same_time() -> None:
    found = compare_sides([Side("was", run(1, 2, 3, None, None)), Side("now", run(0, 2, None, None, None))])
    change = found["all"]["changes"]["now"]
    assert (change["sooner"], change["later"], change["same"], change["neither"]) == (1, 1, 1, 2)
    assert (
        "Of 5 jobs, 1 starts sooner now, 1 later or never, 1 at the same time, and 2 on neither side; "
        in said(run(1, 2, 3, None, None), run(0, 2, None, None, None))[1]
    )
    assert said(run(4), run(9))[1] == (
        "Of 1 job, 0 start sooner now, 1 later, and 0 at the same time; the median wait rises from 4.0 h to 9.0 h, and "
        "90 % start within 9.0 h instead of 4.0 h."
    )
    assert said(run(4), run(4))[1] == (
        "Of 1 job, 0 start sooner now, 0 later, and 1 at the same time; the wait is about the same."
    )


def waits(*pairs: tuple[int, bool]) -> Waits:
    """(hours, whether it started)."""
    found = Waits()
    for hours, started in pairs:
        found.add(hours * 3_600_000, started=started)
    return found


def test_waits_that_hang_on_jobs_that_never_started_are_lower_bounds() -> None:
    exact = waits((1, True), (2, True), (3, True), (10, False)).plain()
    assert (exact["p50_s"], exact["p50_at_least"], exact["never_started"]) == (2 * 3600, False, 1)
    assert (exact["p90_s"], exact["p90_at_least"]) == (10 * 3600, True)
    # What gave up after an hour might have waited for ten: then the median would be 3 h.
    early = waits((1, False), (2, True), (3, True), (4, True)).plain()
    assert (early["p50_s"], early["p50_at_least"]) == (2 * 3600, True)
    # And here it would make no difference: all others wait for as long, or nearly so.
    for third in (20, 21):
        near = waits((1, False), (20, True), (third, True), (50, True)).plain()
        assert (near["p50_s"], near["p50_at_least"]) == (20 * 3600, False)
    assert waits().plain() == {
        "p50_s": None, "p50_at_least": False, "p90_s": None, "p90_at_least": False, "never_started": 0
    }  # fmt: skip
    assert (told(exact, 50), told(exact, 90)) == ("2.0 h", "at least 10.0 h")
    assert (cell(exact, 50), cell(exact, 90), cell(waits().plain(), 90)) == ("2.0 h", "≥ 10.0 h", "-")
    assert starts(exact, "90 %") == "it takes at least 10.0 h until 90 % have started"


def test_nobody_is_said_to_start_within_a_wait_that_did_not_end() -> None:
    was, now = run(0, 0), run(0, None)
    lines = said(was, now)
    assert not any("start within 10.0 h" in line for line in lines)
    assert "it takes at least 10.0 h until 90 % have started instead of 0 s" in lines[1]
    assert (
        "Of those who lose, ann waits longest: it takes at least 10.0 h until 90 % of 2 jobs have started, instead of "
        "0 s as it was." in lines
    )
    tables = {table.title: table for table in tables_of(report([Side("was", was), Side("now", now)]))}
    for name in ("Waits", "Budgets", "People"):
        table = tables[name]
        assert "≥ 10.0 h" in table.rows[0] or "≥ 10.0 h" in table.rows[-1], name
        assert any("≥: at least so long" in line for line in table.about), name


def test_who_asks_for_what_is_left_over_has_asked_for_gpus() -> None:
    nobody = made([], [])
    assert said(nobody, nobody)[0] == "Over 10.0 h no budget was owed anything: nobody asked for GPUs."
    free = run(0, funded=False)
    assert said(free, free)[0] == "Over 10.0 h no budget was owed anything: no charged job ran, or was ready to."
    assert said(before(), free)[0] == (
        "Over 10.0 h budgets get 90.0 % of what they are owed as it was, and are owed nothing now."
    )
    assert said(free, before())[0] == (
        "Over 10.0 h budgets are owed nothing as it was, and get 90.0 % of what they are owed now."
    )
    figures = {"m1_delivered": {"slurm": None, "tenure": None}}
    found = {"all": figures, "from": 0, "until": 36_000_000, "sizes": [], "budgets": [], "evictions": {"count": 0}}
    assert shadow_said({**found, "people": []})[0].endswith("nobody asked for GPUs.")
    assert shadow_said({**found, "people": [{"user": "ann"}]})[0].endswith("no charged job ran, or was ready to.")


def test_one_gpu_hour_is_one() -> None:
    def one(gpus: int, hours: int) -> JobRow:
        return job(1, "ann@lab/a", started=0, ended=hours, gpus=gpus)

    was, now = (made([one(1, hours)], [attempt(one(1, hours), 0, hours)]) for hours in (1, 2))
    lines = said(was, now)
    assert "lab/a gets 1 GPU-hour more (+100 %)." in lines
    assert "lab/a gets 1 GPU-hour less (-50 %)." in said(now, was)


def test_one_that_never_starts_starts_never() -> None:
    assert any(line.startswith("1 of the jobs never starts as it was and 0 now: ") for line in said(run(None), run(0)))
