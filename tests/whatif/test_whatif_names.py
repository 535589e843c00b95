"""What budgets and jobs are called in a report: as in the changed tree, and as people call them."""

from __future__ import annotations

from pathlib import Path

from whatif_kit import course_of, other, setup_of, work

from support.world import budgets
from tenure.core.events import Submitted
from tenure.core.model import HOUR, MINUTE, SECOND, Array
from tenure.sim.setup import START
from tenure.whatif import report, runs
from tenure.whatif.change import Variant
from tenure.whatif.course import Course


def made(course: Course, *variants: Variant) -> report.Report:
    reruns = runs.begin(course, variants)
    assert runs.run(reruns, lambda _done, _total: True)
    return report.make(reruns)


def test_a_budget_is_compared_with_what_it_is_called_in_the_changed_tree(busy: Course) -> None:
    """Else one would seem to lose all that it has, and another one to gain that."""
    tree = budgets({"lab/one": 0.5, "lab/b": 0.5})
    found = made(busy, Variant("changed", wanted=other(busy, budgets=tree), moves={"lab/a": "lab/one"})).found
    assert [row["budget"] for row in found["budgets"]] == ["lab", "lab/b", "lab/one"]
    one = found["budgets"][2]["figures"]
    plain = made(busy, Variant("fifo", "fifo")).found["budgets"][1]
    assert plain["budget"] == "lab/a" and plain["figures"]["as it is"]["owed_gpu_hours"] > 100
    for name in ("jobs", "charged_gpu_hours", "net_gpu_hours", "evictions", "owed_gpu_hours", "m1"):
        assert one["as it is"][name] == plain["figures"]["as it is"][name], name
    assert one["changed"]["charged_gpu_hours"] > 100
    assert "lab/a is called lab/one in the changed tree, and so in what it has as it is." in found["notes"]


def test_what_a_budget_has_itself_is_compared_when_it_gets_others_below(busy: Course) -> None:
    tree = budgets({"lab/a": 0.5, "lab/a/new": 0.1, "lab/b": 0.5})
    found = made(busy, Variant("changed", wanted=other(busy, budgets=tree))).found
    rows = {row["budget"]: row["figures"]["as it is"] for row in found["budgets"]}
    assert rows["lab/a/self"] == rows["lab/a"] and rows["lab/a/new"]["jobs"] == 0


def test_a_job_of_an_array_is_called_as_people_call_it(tmp_path: Path) -> None:
    """The second of an array is evicted: nobody knows the number that it has inside."""
    free = work("lab/a", 8, 5 * HOUR, min_runtime=0, user="eve")
    large = work("lab/b", 8, HOUR, min_runtime=HOUR, user="bob")
    array = Submitted(START + MINUTE, 5, free.spec, array=Array((3, 7), 0, 4))
    setup = setup_of([(2 * MINUTE, work("lab/b", 8, 5 * HOUR)), (2 * HOUR, large)], gpus=24, duration=6 * HOUR)
    course, run = course_of(tmp_path, setup, 30 * SECOND, also=[array], works={5: free, 6: free})
    (evicted,) = run.evictions
    assert evicted.job_id in (5, 6)
    found = made(course, Variant("fifo", "fifo")).found
    (most,) = found["evicted"]["as it is"]["most_often"]
    assert most["job"] == {5: "5_3", 6: "5_7"}[evicted.job_id]
    assert any(f"job {most['job']} of eve (lab/a)" in line for line in found["said"]["fifo"])


def test_who_is_turned_away_has_not_waited_for_less_long(busy: Course) -> None:
    """Jobs that the change ends as they wait, since their budget is gone, are no short waits: they are left out."""
    alone = budgets({"lab/b": 1.0})
    found = made(busy, Variant("changed", wanted=other(busy, budgets=alone))).found
    refused = found["refused"]["changed"]
    (ended,) = (jobs for what, jobs in refused.items() if "ended" in what)
    (later,) = (jobs for what, jobs in refused.items() if "refused" in what)
    (row,) = [row for row in found["budgets"] if row["budget"] == "lab/a"]
    assert len(ended) > 3 and row["figures"]["as it is"]["compared"] == row["figures"]["changed"]["compared"] == 0
    assert row["figures"]["changed"]["p50_s"] is None
    state = busy.fresh()
    waited = sum(state.jobs[int(job)].attempt is None for job in ended)
    assert waited > 0 and found["missing"] == {"as it is": 0, "changed": waited + len(later)}
    assert any(
        line.startswith(f"{waited + len(later)} jobs are refused with the change") for line in found["said"]["changed"]
    )
