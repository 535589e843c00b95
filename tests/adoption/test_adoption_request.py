"""From Slurm's words to a request, without Slurm."""

from __future__ import annotations

import pytest

from tenure.adoption import asked, wishes
from tenure.adoption.accounts import budget_of
from tenure.adoption.adopter import throttled
from tenure.adoption.asked import Asked, read, spread
from tenure.core.model import HOUR, MINUTE
from tenure.core.reasons import Refusal
from tenure.executors.slurm import marks
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.marks import Mark
from tenure.executors.slurm.rows import Row

NOTHING = "N/A"
SAID = {
    **dict.fromkeys(asked._FIELDS, NOTHING),
    "JobID": "7",
    "Name": "gang a=b",
    "Command": "/data/ann/job.sh",
    "WorkDir": "/data/ann",
    "NumNodes": "2",
    "NumCPUs": "16",
    "NumTasks": "8",
    "MinMemory": "100M",
    "ntpernode": "0",
    "tres-alloc": "cpu=16,mem=1600M,node=1,billing=16",
    "TimeLimit": "1-02:00:00",
    "MinTime": "0:00",
    "Feature": "(null)",
    "ReqNodes": "",
    "exc_nodes": "",
    "Licenses": "(null)",
    "Reservation": "(null)",
    "oversubscribe": "OK",
}
PATHS = ("lab", "lab/language", "lab/vision", "lab/nlp/vision")


def said(**changed: str) -> Asked:
    return read({**SAID, **{name.replace("_", "-"): value for name, value in changed.items()}}, memory_counts=False)


def test_what_is_counted_for_all_nodes_is_divided_by_them() -> None:
    one = said(tres_per_job="gres:gpu:8")
    assert (one.cpus_in_all, one.memory_in_all, one.timeout, one.time_min) == (16, 1600, 26 * HOUR, None)
    assert (one.name, one.command, one.alone) == ("gang a=b", "/data/ann/job.sh", False)
    assert (spread(one, 8), spread(one, 4)) == ((1, 8), (2, 4))
    with pytest.raises(Refusal, match="gpus = 8: on 3 nodes each must get as many"):
        spread(one, 3)


def test_gpus_of_a_node_and_of_a_task() -> None:
    assert spread(said(tres_per_node="gres:gpu:a100:2", **{"tres-alloc": "cpu=2,mem=8G,node=2"}), 8) == (2, 2)
    assert said(tres_per_node="gres:gpu:a100:2").kind == "a100"
    assert spread(said(tres_per_task="gres:gpu:1", ntpernode="4"), 8) == (2, 4)
    assert said(tres_per_node="gres:gpu", MinTime="2:05:00").time_min == 125 * MINUTE


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("ReqNodes", "n1", "nodelist = n1"),
        ("exc_nodes", "n1", "exclude = n1"),
        ("HetJobID", "12", "heterogeneous job = 12"),
        ("Licenses", "matlab:1", "licenses = matlab:1"),
        ("Feature", "[a|b]", "only features joined by &"),
        ("tres-per-node", "gres:fpga:1", "ask for some"),
    ],
)
def test_what_cannot_be_kept_is_refused(field: str, value: str, why: str) -> None:
    with pytest.raises(Refusal) as refused:
        read({**SAID, "tres-per-node": "gres:gpu:1", field: value}, memory_counts=False)
    assert why in str(refused.value)


def test_a_comment_may_say_what_tenure_lines_say() -> None:
    assert wishes.read("tenure: min_runtime=2h --budget=lab/vision resumable priority=-3") == {
        "min_runtime": "2h",
        "budget": "lab/vision",
        "resumable": True,
        "priority": -3,
    }
    assert wishes.read("a comment about something else") == {}
    with pytest.raises(Refusal, match="after tenure: stand budget, grace"):
        wishes.read("tenure: minruntime=2h")


def test_accounts_are_budgets_by_their_name_or_by_the_table() -> None:
    assert budget_of("Language", {}, PATHS) == "lab/language"
    assert budget_of("vision", {"Vision": "lab/vision"}, PATHS) == "lab/vision"
    assert budget_of("", {"*": "lab"}, PATHS) == "lab"
    assert budget_of("language", {"*": "lab"}, PATHS) == "lab/language"
    with pytest.raises(Refusal, match="several budgets end so: lab/nlp/vision, lab/vision"):
        budget_of("vision", {}, PATHS)
    with pytest.raises(Refusal, match=r"account = \(none\): no budget has this name; accounts are: "):
        budget_of("", {}, PATHS)


def test_no_more_of_an_array_than_its_throttle_says() -> None:
    def task(number: int, mark: Mark, state: str = "PENDING", array: str = "5") -> tuple[Row, Mark]:
        times = {"submitted": 1, "start": 0, "eligible": 0, "ended": 0}
        row = Row(
            id=f"{array}_{number}", number=9, array=array, state=state, held=True, uid=1, user="ann", account="",
            reason="", restarts=0, exit=0, nodes="", dependency="", batch=True, comment="",
            mark=marks.write(mark), **times,
        )  # fmt: skip
        return row, mark

    plain, ours = Mark({"throttle": "2"}), Mark({"throttle": "2"}, job=3, server="ab")
    there = [task(0, ours, "COMPLETED"), task(1, ours, "RUNNING"), *(task(i, plain) for i in (10, 9, 2))]
    look = Look([row for row, _ in there], {}, {}, there)
    strangers = [pair for pair in there if not pair[1].job] + [task(1, Mark({}), array="6")]
    found = throttled(strangers, strangers, look)
    assert [row.id for row, _ in found] == ["5_2", "6_1"]
