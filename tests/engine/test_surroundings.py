"""Hosts that another system rules as well: its drains, its failures and its jobs, and Tenure's drains told to it."""

from __future__ import annotations

import pytest
from engine_kit import HOUR, RUNNING, Rig

from tenure.core.events import PauseScope
from tenure.core.model import HostState
from tenure.core.reasons import Reason
from tenure.executors.base import Health, HostCondition, HostWish, Phase

BAD_DISK = HostCondition("h0", Health.DRAINING, "slurm:root", "bad disk")


def say(bench: Rig, *conditions: HostCondition) -> None:
    bench.executor.surroundings = list(conditions)
    bench.turn()


def host(bench: Rig, name: str = "h0") -> tuple[str, str, str]:
    with bench.engine.view() as state:
        record = state.clusters["main"].hosts[name]
        return record.state.value, record.by, record.why


def place(bench: Rig, job: int) -> list[str]:
    with bench.engine.view() as state:
        attempt = state.jobs[job].attempt
        assert attempt is not None
        return attempt.hosts()


def test_a_drain_elsewhere_is_one_here_and_so_is_its_end(bench: Rig) -> None:
    say(bench, BAD_DISK, HostCondition("h1"), HostCondition("not-ours", Health.FAILED, "slurm:root"))
    assert host(bench) == ("draining", "slurm:root", "bad disk")
    assert place(bench, bench.submit(gpus=4)) == ["h1"]
    waiting = bench.submit(gpus=4)
    assert bench.state_of(waiting) == "queued"
    say(bench, HostCondition("h0", Health.DRAINING, "slurm:eve", "worse"))
    assert host(bench) == ("draining", "slurm:eve", "worse")
    say(bench)  # nothing is known, so nothing changes
    assert host(bench)[0] == "draining"
    before = bench.engine.last_seq
    bench.turn()
    assert bench.engine.last_seq == before
    say(bench, HostCondition("h0"))
    assert host(bench) == ("healthy", "slurm:eve", "in service again")
    assert bench.state_of(waiting) == RUNNING
    bench.check_replay()


def test_a_host_that_a_person_drained_stays_drained(bench: Rig) -> None:
    bench.engine.set_host("main", "h0", HostState.DRAINING, "ada", "new fans")
    say(bench, BAD_DISK)
    assert host(bench) == ("draining", "ada", "new fans")
    say(bench, HostCondition("h0"))
    assert host(bench) == ("draining", "ada", "new fans")
    bench.engine.set_host("main", "h0", HostState.HEALTHY, "ada", "")
    assert host(bench)[0] == "healthy"


def test_a_person_cannot_bring_back_what_is_out_elsewhere(bench: Rig) -> None:
    bench.engine.set_host("main", "h0", HostState.DRAINING, "ada", "new fans")
    say(bench, BAD_DISK)
    bench.engine.set_host("main", "h0", HostState.HEALTHY, "ada", "")
    assert host(bench) == ("draining", "slurm:root", "bad disk")
    assert place(bench, bench.submit(gpus=4)) == ["h1"]


def test_a_host_that_fails_elsewhere_takes_its_attempts_with_it(bench: Rig) -> None:
    job = bench.submit(gpus=4, min_runtime=HOUR)
    (there,) = place(bench, job)
    bench.advance(HOUR // 2)
    bench.executor.enter(bench.attempt_of(job), Phase.LOST, quiet=True, message="Slurm: NODE_FAIL")
    say(bench, HostCondition(there, Health.FAILED, "slurm:root", "not responding"))
    assert host(bench, there)[0] == "failed"
    assert place(bench, job) != [there]  # at once, without backing off
    with bench.engine.view() as state:
        ledger = state.clusters["main"].ledger
        assert len(ledger.open) == 1
    (row, *_) = [row for row in bench.store.attempts_of(job) if row.number == 1]
    assert Reason.HOST_FAILED.value in row.reason


@pytest.mark.parametrize("resumable", [False, True])
def test_what_it_took_is_credited_though_something_else_was_done_since(bench: Rig, resumable: bool) -> None:
    job = bench.submit(gpus=4, min_runtime=HOUR, resumable=resumable, retries=1)
    (there,) = place(bench, job)
    bench.advance(HOUR // 2)
    bench.executor.enter(bench.attempt_of(job), Phase.LOST, quiet=True, message="Slurm: NODE_FAIL")
    bench.hands.advance(5)
    bench.engine.set_priority(job, 1, by="ann")  # a step, in which nobody has heard of it
    bench.hands.advance(5)
    say(bench, HostCondition(there, Health.FAILED, "slurm:root", "not responding"))
    assert bench.state_of(job) == ("running" if resumable else "failed")
    (row, *_) = bench.store.attempts_of(job)
    assert Reason.HOST_FAILED.value in row.reason
    kept = {span.kind: span.end - span.start for span in bench.store.spans()}
    assert kept == {"charged": HOUR // 2, "credit": HOUR // 2}
    bench.check_recovery()
    bench.check_replay()


def test_jobs_around_are_occupied_gpus(bench: Rig) -> None:
    say(bench, HostCondition("h0", gpus=3, cpus=2_000, mem=64, what="job 7 of eve"), HostCondition("h1"))
    with bench.engine.view() as state:
        assert state.clusters["main"].room.free_gpus == 5
    first, second = bench.submit(gpus=4), bench.submit(gpus=2)
    assert (place(bench, first), bench.state_of(second)) == (["h1"], "queued")
    bench.check_recovery()
    bench.restart()
    say(bench, HostCondition("h0"), HostCondition("h1"))
    assert place(bench, second) == ["h0"]
    bench.check_replay()


def test_what_tenure_was_not_given_is_theirs_first(bench: Rig) -> None:
    say(bench, HostCondition("h0", gpus=5, cpus=70_000, what="job 7 of eve", has=(8, 128_000, 512 * 1024)))
    with bench.engine.view() as state:
        found = state.clusters["main"].foreign["h0"]
    assert (found.gpus, found.cpus, found.mem) == (1, 6_000, 0)  # of 4 GPUs and 64 CPUs
    say(bench, HostCondition("h0", gpus=4, cpus=64_000, what="job 7 of eve", has=(8, 128_000, 512 * 1024)))
    with bench.engine.view() as state:
        assert state.clusters["main"].foreign == {}


def test_what_was_drained_while_the_server_was_down_is_found_before_anything_starts(bench: Rig) -> None:
    bench.engine.pause(PauseScope.STARTS, "ada")
    job = bench.submit(gpus=4)
    bench.engine.stop()
    bench.executor.surroundings = [BAD_DISK]
    bench.boot()
    bench.turn()
    assert host(bench)[0] == "draining"
    bench.engine.resume(PauseScope.STARTS, "ada")
    bench.turn()
    assert place(bench, job) == ["h1"]


def test_the_executor_is_told_which_hosts_a_person_has_taken_out(bench: Rig) -> None:
    bench.engine.set_host("main", "h1", HostState.DRAINING, "ada", "new fans")
    say(bench, BAD_DISK)
    with bench.engine.view() as state:
        since = state.clusters["main"].hosts["h1"].since
    assert bench.executor.wishes == [
        HostWish("main", "h0", False),
        HostWish("main", "h1", True, "ada", "new fans", since),
    ]
    bench.restart()
    assert [wish.out for wish in bench.executor.wishes] == [False, True]
    bench.engine.set_host("main", "h1", HostState.HEALTHY, "ada", "")
    bench.turn()
    assert [wish.out for wish in bench.executor.wishes] == [False, False]
