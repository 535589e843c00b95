"""What squeue and sacct print becomes jobs, whatever people have written into them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.shadow.seen import Seen, read_history, read_queue

_ROW = {
    "id": "12_3",
    "user": "ada",
    "account": "language",
    "partition": "gpu,long",
    "state": "PENDING",
    "reason": "Priority",
    "submit": "1796022384",
    "eligible": "1796022400",
    "start": "1796029999",
    "end": "N/A",
    "limit": "1-02:00:00",
    "least": "10:00",
    "nodes": "2",
    "tres": "cpu=4,mem=1.50T,node=2,billing=4,gres/gpu=16,gres/gpu:a100=16",
    "node": "gres:gpu:8",
    "job": "N/A",
    "requeue": "1",
    "restarts": "3",
    "hosts": "",
    "features": "a100|h100",
    "mark": "tenure:1 requeue=yes",
    "comment": "min_runtime=2h | see notes",
}


def row(**changed: str) -> str:
    return "".join(f"{value}\x1f" for value in {**_ROW, **changed}.values())


def one(**changed: str) -> Seen:
    (found,) = read_queue(row(**changed))
    return found


def test_a_waiting_job() -> None:
    job = one()
    assert (job.id, job.partition, job.reason, job.restarts) == ("12_3", "gpu,long", "Priority", 3)
    assert (job.submitted, job.eligible) == (1796022384, 1796022400)
    assert (job.started, job.ended) == (0, 0)  # when Slurm thinks that it might start is no start
    assert (job.limit, job.least) == (26 * 3600, 600)
    assert (job.nodes, job.gpus, job.cpus, job.mem) == (2, 16, 4, 1024 * 1024)
    assert job.features == "a100|h100"
    assert job.comment == "min_runtime=2h | see notes"
    assert job.waits
    assert not job.live


def test_a_running_job_has_no_end_yet() -> None:
    job = one(state="RUNNING", start="1796022500", end="1796099999", hosts="n[1-2]")
    assert (job.started, job.ended, job.hosts) == (1796022500, 0, "n[1-2]")
    assert job.live


def test_what_completes_has_ended() -> None:
    assert one(state="COMPLETING", start="1796022500", end="1796022600", hosts="n1").over


def test_gpus_where_slurm_does_not_account_for_them() -> None:
    assert one(tres="cpu=4,node=2").gpus == 16  # 8 on each of 2 nodes
    assert one(tres="cpu=4", node="N/A", job="gres:gpu:a100:12").gpus == 12
    assert one(tres="cpu=4", node="gres:nic:1", job="N/A").gpus == 0


def test_lines_that_are_no_jobs_are_left_out() -> None:
    text = "\n".join(("slurm_load_jobs error", row(), row(user="somebody else"), row(id="12; rm"), "13\x1fada"))
    assert [(job.id, job.user) for job in read_queue(text)] == [("12_3", "ada")]


def test_a_row_of_accounting() -> None:
    cells = (
        *("7", "ada", "language", "gpu", "CANCELLED by 1000", "None", "1796022384", "1796022384", "1796022400"),
        *("1796022500", "00:30:00", "cpu=8,gres/gpu=4,mem=64G,node=1", "cpu=1", "n1", "h100", "", "x"),
    )
    (job,) = read_history("\x1f".join(cells) + "\n")
    assert (job.state, job.started, job.ended, job.limit) == ("CANCELLED", 1796022400, 1796022500, 1800)
    assert (job.gpus, job.nodes, job.mem, job.hosts) == (4, 1, 65536, "n1")
    assert (job.requeue, job.features, job.comment) == (-1, "h100", "x")


def test_kept_and_read_again() -> None:
    assert Seen.of(one().plain()) == one()


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=12), min_size=22, max_size=22))
def test_nothing_that_is_printed_breaks_the_reader(cells: list[str]) -> None:
    for job in read_queue("\x1f".join(cells) + "\x1f"):
        assert job.id
    for job in read_history("\x1f".join(cells[:17])):
        assert job.id
