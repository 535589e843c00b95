"""Who gains and who loses: figures by hand, sentences, files."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from by_hand import TWO, eviction
from by_hand import job as job_row
from by_hand import row as budget_hour
from fake_runs import T0, empty_run, fake_run
from test_html import NASTY, dump, nasty_run

from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, SHARE_ONE, Budget
from tenure.reports import markdown
from tenure.reports.records import AttemptRow, JobRow, Run
from tenure.reports.sides import Side, compare_sides
from tenure.reports.sides_files import as_markdown, report, tables_of, write_sides
from tenure.reports.sides_words import _Pair, _people, sentences
from tenure.reports.sizes import SIZES, size_of
from tenure.reports.verdicts import BOTH, GAINS, LOSES, NEITHER, verdict
from tenure.shadow.sacct.truth import said, truth


def job(
    number: int,
    who: str,
    *,
    submitted: int = 0,
    started: int | None = None,
    ended: int | None = None,
    state: str = "succeeded",
    **more: Any,
) -> JobRow:
    """Times in hours from the start of the run; 8 GPUs."""
    at = {
        name: None if value is None else value * HOUR
        for name, value in (("submitted", submitted), ("started", started), ("ended", ended))
    }
    row = job_row(number, **at)  # type: ignore[arg-type]
    user, budget = who.split("@")
    state = state if ended is not None else "queued" if started is None else "running"
    return replace(row, user=user, budget=budget, state=state, **more)


def attempt(job: JobRow, started: int, ended: int | None, lost: int = 0) -> AttemptRow:
    end = None if ended is None else T0 + ended * HOUR
    amount = job.gpus * GPU
    slots = (("n001", tuple(range(8))),)
    return AttemptRow(
        f"{job.id}.1", job.id, job.user, job.budget, job.cluster, job.funded, amount, slots, T0 + started * HOUR,
        ended=end, lost=lost * amount * HOUR,
    )  # fmt: skip


def made(jobs: list[JobRow], attempts: list[AttemptRow], *, warmup: int = 0, length: int = 10) -> Run:
    """A run of 10 h with a row for each hour of budgets that ask for 4 GPUs of their 4 all the time."""
    run = empty_run(TWO, warmup=warmup * HOUR, length=length * HOUR)
    run.jobs, run.attempts = jobs, attempts
    return run


def before() -> Run:
    """Ann's long job runs first, Bob's waits 6 h for it, and his second never starts."""
    ann = job(1, "ann@lab/a", started=0, ended=6, runtime=6 * HOUR)
    bob = job(2, "bob@lab/b", started=6, ended=10, runtime=4 * HOUR)
    third = job(3, "bob@lab/b", submitted=1, runtime=HOUR)
    run = made([ann, bob, third], [attempt(ann, 0, 6), attempt(bob, 6, 10)])
    run.budget_hours = [budget_hour("lab/a", 0, 40, 48, 48), budget_hour("lab/b", 0, 40, 80, 32)]
    return run


def after() -> Run:
    """Bob's job comes first, and evicts nobody; Ann's is evicted once, and has an hour to do again."""
    ann = job(1, "ann@lab/a", started=4, runtime=6 * HOUR)
    bob = job(2, "bob@lab/b", started=0, ended=4, runtime=4 * HOUR)
    third = job(3, "bob@lab/b", submitted=1, started=8, ended=9, runtime=HOUR)
    parts = [
        attempt(bob, 0, 4),
        attempt(ann, 4, 8, lost=1),
        attempt(third, 8, 9),
        replace(attempt(ann, 9, None), id="1.2"),
    ]
    run = made([ann, bob, third], parts)
    run.evictions = [eviction(ann, 8 * HOUR)]
    run.budget_hours = [budget_hour("lab/a", 0, 40, 80, 40, 8), budget_hour("lab/b", 0, 40, 40, 40)]
    return run


def found() -> dict[str, Any]:
    return compare_sides([Side("as it was", before(), phrase="as it was"), Side("Tenure", after())])


def row(rows: list[dict[str, Any]], name: str, value: str) -> dict[str, Any]:
    (one,) = [one for one in rows if one[name] == value]
    return one


def test_every_node_of_the_tree_has_its_figures() -> None:
    budgets = found()["budgets"]
    assert [one["budget"] for one in budgets] == ["lab", "lab/a", "lab/b"]
    assert row(budgets, "budget", "lab/b")["figures"] == {
        "as it was": {
            "jobs": 2, "finished": 1, "charged_gpu_hours": 32.0, "unallocated_gpu_hours": 0.0, "lost_gpu_hours": 0.0,
            "net_gpu_hours": 32.0, "evictions": 0, "evictions_of_charged": 0, "compared": 2, "p50_s": 6 * 3600,
            "p50_at_least": False, "p90_s": 9 * 3600, "p90_at_least": True, "never_started": 1,
            "owed_gpu_hours": 40.0, "m1": 0.8,
        },
        "Tenure": {
            "jobs": 2, "finished": 2, "charged_gpu_hours": 40.0, "unallocated_gpu_hours": 0.0, "lost_gpu_hours": 0.0,
            "net_gpu_hours": 40.0, "evictions": 0, "evictions_of_charged": 0, "compared": 2, "p50_s": 0,
            "p50_at_least": False, "p90_s": 7 * 3600, "p90_at_least": False, "never_started": 0,
            "owed_gpu_hours": 40.0, "m1": 1.0,
        },
    }  # fmt: skip
    whole = row(budgets, "budget", "lab")
    for side in ("as it was", "Tenure"):
        for name in ("jobs", "finished", "charged_gpu_hours", "lost_gpu_hours", "evictions", "owed_gpu_hours"):
            assert whole["figures"][side][name] == sum(
                row(budgets, "budget", leaf)["figures"][side][name] for leaf in ("lab/a", "lab/b")
            )
    assert whole["changes"] == found()["all"]["changes"]


def test_changes_and_verdicts() -> None:
    budgets, people = found()["budgets"], found()["people"]
    assert row(budgets, "budget", "lab/b")["changes"]["Tenure"] == {
        "net_gpu_hours": 8.0, "net_gpu_hours_share": 0.25, "finished": 1, "evictions": 0, "p50_s": -6 * 3600,
        "p90_s": -2 * 3600, "sooner": 2, "later": 0, "same": 0, "neither": 0, "m1": 0.2, "verdict": GAINS,
    }  # fmt: skip
    ann = row(people, "user", "ann")
    assert ann["figures"]["Tenure"]["lost_gpu_hours"] == 8.0
    assert ann["figures"]["Tenure"]["net_gpu_hours"] == 32.0  # 4 h and 1 h on 8 GPUs, less the hour to do again
    assert ann["changes"]["Tenure"]["verdict"] == LOSES
    assert "m1" not in ann["changes"]["Tenure"]


def test_sentences_say_who() -> None:
    said = sentences(found(), "Tenure")
    assert said[0] == "Over 10.0 h budgets get 90.0 % of what they are owed as it was, and 100.0 % under Tenure."
    assert "Of 3 jobs, 2 start sooner under Tenure, 1 later, and 0 at the same time" in said[1]
    assert said[2] == (
        "1 eviction under Tenure, of a charged job: 1 job is hit, once: job 1 of ann (lab/a). Restarts and work done "
        "again cost 8.0 GPU-hours."
    )
    assert (
        "lab/b gets 8 GPU-hours more (+25 %); its median wait falls from 6.0 h to 0 s, and 90 % start within 7.0 h "
        "instead of at least 9.0 h." in said
    )
    assert "Of 2 people, 1 gains and 1 loses." in said
    assert "Of those who lose, ann waits longest: 90 % of 1 job start within 4.0 h, instead of 0 s as it was." in said
    assert "1 of the jobs never starts as it was and 0 under Tenure" in "\n".join(said)


def test_the_same_twice_is_no_gain_for_anybody() -> None:
    twice = compare_sides([Side("one", before()), Side("two", before())])
    for name in ("budgets", "people", "sizes"):
        assert {one["changes"]["two"]["verdict"] for one in twice[name]} == {NEITHER}
    assert twice["all"]["changes"]["two"]["same"] == 2 and twice["all"]["changes"]["two"]["neither"] == 1
    assert "Nothing is evicted." in sentences(twice, "two")
    assert "the waits are about the same" in sentences(twice, "two")[1]


def test_rows_of_one_key_are_one_job() -> None:
    """Submitted again after an end that was not its own: one wait, from before the run has it, and one end."""
    first = job(1, "ann@lab/a", started=1, ended=2)
    again = job(2, "ann@lab/a", submitted=2, started=4, ended=6)
    other = job(1, "ann@lab/a", started=3, ended=6)
    base = made([first, again], [attempt(first, 1, 2), attempt(again, 4, 6)])
    sides = [
        Side("a", base, {1: "x", 2: "x"}, {"x": T0 - HOUR}),
        Side("b", made([other], [attempt(other, 3, 6)]), {1: "x"}, {"x": T0 - HOUR}),
    ]
    figures = compare_sides(sides)["all"]["figures"]
    assert [figures[side]["p50_s"] for side in "ab"] == [2 * 3600, 4 * 3600]
    assert [figures[side]["finished"] for side in "ab"] == [1, 1]
    assert [figures[side]["charged_gpu_hours"] for side in "ab"] == [24.0, 24.0]


def test_what_was_over_before_measuring_began_does_not_count() -> None:
    def run(start: int) -> Run:
        early = job(1, "ann@lab/a", started=0, ended=2)
        late = job(2, "ann@lab/a", submitted=1, started=start, ended=start + 4)
        return made([early, late], [attempt(early, 0, 2), attempt(late, start, start + 4)], warmup=3)

    everything = compare_sides([Side("a", run(4)), Side("b", run(5))])["all"]
    assert everything["figures"]["a"]["jobs"] == 1
    assert everything["figures"]["a"]["charged_gpu_hours"] == 32.0
    assert everything["figures"]["a"]["p50_s"] == 3 * 3600  # since its submission
    assert everything["changes"]["b"]["later"] == 1
    started_before = compare_sides([Side("a", run(2)), Side("b", run(5))])["all"]
    assert started_before["figures"]["b"]["compared"] == 0  # on one side it waits no more
    assert started_before["figures"]["a"]["charged_gpu_hours"] == 24.0  # 3 h of its 4


def test_jobs_that_one_side_refuses() -> None:
    few = after()
    few.jobs.pop()
    few.attempts = [one for one in few.attempts if one.job_id != 3]
    told = compare_sides([Side("was", before()), Side("is", few)])
    assert told["missing"] == {"was": 0, "is": 1}
    assert told["all"]["figures"]["was"]["compared"] == 2
    assert "1 job is refused under is, and left out of the waits of all sides." in sentences(told, "is")


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="two or more"):
        compare_sides([Side("a", before())])
    with pytest.raises(ValueError, match="a label of its own"):
        compare_sides([Side("a", before()), Side("a", after())])
    short = after()
    short.until -= 1
    with pytest.raises(ValueError, match="not measured over the same time"):
        compare_sides([Side("a", before()), Side("b", short)])


def test_an_inner_budget_has_its_own_part() -> None:
    tree = (Budget("lab", SHARE_ONE), Budget("lab/a", SHARE_ONE // 2))

    def run(started: int) -> Run:
        one = job(1, "ann@lab", started=started, ended=started + 2)
        made_run = empty_run(tree, length=10 * HOUR)
        made_run.jobs, made_run.attempts = [one], [attempt(one, started, started + 2)]
        return made_run

    rows = compare_sides([Side("a", run(0)), Side("b", run(4))])["budgets"]
    assert [one["budget"] for one in rows] == ["lab", "lab/a", "lab/self"]
    assert row(rows, "budget", "lab/self")["changes"]["b"]["verdict"] == LOSES
    assert row(rows, "budget", "lab/a")["figures"]["a"]["jobs"] == 0


@pytest.mark.parametrize(
    ("hours", "p50", "p90", "expected"),
    [
        ((100.0, 100.5), (60, 60), (600, 600), NEITHER),  # less than a GPU-hour
        ((1000.0, 1009.0), (60, 60), (600, 600), NEITHER),  # less than a hundredth
        ((1000.0, 1010.0), (60, 60), (600, 600), GAINS),
        ((100.0, 100.0), (600, 570), (6000, 6000), NEITHER),  # half a minute
        ((100.0, 100.0), (600, 540), (6000, 6000), GAINS),
        ((100.0, 100.0), (600, 540), (6000, 7000), BOTH),
        ((100.0, 90.0), (600, 600), (6000, 6000), LOSES),
        ((100.0, 90.0), (None, None), (None, None), LOSES),
    ],
)
def test_what_makes_a_difference(
    hours: tuple[float, float], p50: tuple[int, int], p90: tuple[int, int], expected: str
) -> None:
    sides = [{"net_gpu_hours": hours[i], "p50_s": p50[i], "p90_s": p90[i]} for i in (0, 1)]
    assert verdict(*sides) == expected


def test_sizes() -> None:
    assert [size_of(8, 15 * MINUTE), size_of(8, 15 * MINUTE + SECOND), size_of(9, 1), size_of(128, 1)] == list(SIZES)
    assert size_of(1, None) == SIZES[1]
    assert [one["size"] for one in found()["sizes"]] == [SIZES[1]]


def three() -> dict[str, Any]:
    sides = [Side(name, fake_run(hosts=2, jobs=60, policy=name)) for name in ("was", "fifo", "budgets")]
    return report(sides, ["Something was assumed."], {"more": 1})


def test_files_of_three_sides(tmp_path: Path) -> None:
    told = three()
    files = write_sides(told, tmp_path, "Who gains", png=True)
    names = ["sides.json", "sides.md", "sides.html"]
    assert files[:3] == [tmp_path / name for name in names]
    assert [path.name for path in files[3:]] == ["gpu-time.png", "budget-waits.png", "people.png"]
    assert json.loads(files[0].read_text()) == told
    text = files[1].read_text()
    assert "## fifo against was" in text and "## budgets against was" in text
    assert "- Something was assumed." in text
    for table in tables_of(told):
        assert all(len(cells) == len(table.head) for cells in table.rows), table.title
        assert f"## {table.title}" in text and f"<h2>{table.title}</h2>" in files[2].read_text()
    first = {path.name: path.read_bytes() for path in files}
    assert {path.name: path.read_bytes() for path in write_sides(three(), tmp_path, "Who gains", png=True)} == first


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    told = report([Side(NASTY, nasty_run(1)), Side("b" + NASTY, nasty_run(1))], [NASTY])
    write_sides(told, tmp_path, NASTY)
    page = (tmp_path / "sides.html").read_text()
    assert "dataset.broken = 1</script>" not in page
    assert "<img" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "<script" not in as_markdown(told, NASTY) and "<img" not in as_markdown(told, NASTY)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_chart_without_a_network(tmp_path: Path) -> None:
    sides = [Side("was" + NASTY, nasty_run(1)), Side("b" + NASTY, nasty_run(1))]
    write_sides(report(sides), tmp_path, "Who gains")
    dom = dump(tmp_path / "sides.html")
    assert 'data-drawn="3"' in dom
    assert "could not be drawn" not in dom and "data-broken" not in dom


def test_a_run_in_which_nothing_happens() -> None:
    told = report([Side(name, empty_run(length=DAY)) for name in ("a", "b")])
    assert told["said"]["b"][0] == "Over 24.0 h no budget was owed anything: nobody asked for GPUs."
    assert told["people"] == [] and told["sizes"] == []


def test_a_job_has_the_size_that_the_first_side_knows_on_every_side() -> None:
    """What was given up before it began may take for ever on one side, and its limit of 10 min on another."""
    was = made([job(1, "ann@lab/a", ended=9, state="cancelled", runtime=9000 * HOUR)], [])
    then = made([job(1, "ann@lab/a", started=2, ended=3, runtime=10 * MINUTE)], [])
    (one,) = compare_sides([Side("was", was), Side("then", then)])["sizes"]
    assert one["size"] == SIZES[1]
    assert [one["figures"][label]["p50_s"] for label in ("was", "then")] == [9 * 3600, 2 * 3600]
    assert (one["changes"]["then"]["sooner"], one["changes"]["then"]["verdict"]) == (1, GAINS)
    # A side that knows more than its rows says so, and all of a job's rows are one job.
    (one,) = compare_sides([Side("was", was, lengths={"1": 10 * MINUTE}), Side("then", then)])["sizes"]
    assert one["size"] == SIZES[0]
    again = made([job(n, "ann@lab/a", started=n, ended=n + 1, runtime=10 * MINUTE) for n in (1, 2)], [])
    pair = [Side("was", again, keys={1: "x", 2: "x"}), Side("then", then, keys={1: "x"})]
    assert [one["size"] for one in compare_sides(pair)["sizes"]] == [SIZES[1]]


def test_work_of_before_the_measured_time_is_no_loss_in_it() -> None:
    """Evicted an hour after the warm-up, what cannot resume loses its 5 h, of which one hour counts here."""
    ann = job(1, "ann@lab/a", started=0, ended=5, state="preempted")
    run = made([ann], [attempt(ann, 0, 5, lost=5)], warmup=4)
    same = compare_sides([Side("one", run), Side("other", run)])
    assert same["all"]["figures"]["one"]["lost_gpu_hours"] == 8.0
    assert same["all"]["figures"]["one"]["net_gpu_hours"] == 0.0


def test_who_gains_most_is_told_by_what_makes_a_difference() -> None:
    """Ann's 900 GPU-hours less are not a hundredth of what she has, and weigh nothing beside Bob's 200 more."""

    def person(user: str, hours: float, more: float) -> dict[str, Any]:
        waits = {"p50_s": 0, "p50_at_least": False, "p90_s": 0, "p90_at_least": False, "compared": 9}
        was, now = ({**waits, "net_gpu_hours": each} for each in (hours, hours + more))
        change = {"net_gpu_hours": more, "net_gpu_hours_share": more / hours, "sooner": 0, "later": 0, "verdict": GAINS}
        return {"user": user, "figures": {"was": was, "then": now | {"p50_s": -600}}, "changes": {"then": change}}

    pair = _Pair("was", "then", "as it was", "then")
    said = list(_people([person("ann", 100_000, -900), person("bob", 1000, 200), person("eve", 2, 100)], pair))
    assert said[1] == "3 of those who gain or lose have fewer than 10 jobs: what becomes of so few may be chance."
    assert "bob gains most and gets 200 GPU-hours more (+20 %)" in said[2]
    alone = list(_people([person("eve", 2, 100)], pair))
    assert "eve gains most and gets 100 GPU-hours more;" in alone[2]


def test_names_of_others_move_no_cursor_and_make_no_markdown() -> None:
    assert markdown.plain("a\x1b[31m\x07~~b~~\u202e|") == "a \\[31m \\~\\~b\\~\\~ \\|"


def test_how_true_the_model_is_counts_those_that_start_on_one_side_only() -> None:
    """Half of four start when they did, one a day late, and one never."""
    was = [job(n, "ann@lab/a", started=1, ended=2) for n in range(1, 5)]
    model = [
        *(replace(one, started=T0 + HOUR) for one in was[:2]),
        replace(was[2], started=T0 + 25 * HOUR, ended=None),
        replace(was[3], started=None, ended=None),
    ]
    both = []
    for rows in (was, model):
        both.append(made(rows, [], length=48))
    found = truth(Side("was", both[0]), Side("model", both[1]))
    assert (found["jobs"], found["starts"], found["one_sided"], found["within_10_min"]) == (4, 4, 1, 0.5)
    assert "of 4 jobs 50 % start within 10 min of when they really did, and 1 starts in one of the two only; half of " \
        "the others are off by at most 0 s, 90 % by at most 24.0 h" in said(found)  # fmt: skip
    both[0].jobs = both[1].jobs = model[3:]
    assert said(truth(Side("was", both[0]), Side("model", both[1]))).endswith("no job ever started.")
