"""Evictions and drains from end to end: with real processes, and with the order of warnings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from engine_kit import CLUSTER, Rig, config_of, rig, spec
from real_kit import RealRig

from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, HostState

VICTIM = """
import subprocess
def warned(number, frame):
    alive = child.poll() is None
    checkpoints = os.environ["TENURE_CHECKPOINT_DIR"]
    open(os.path.join(checkpoints, "step"), "w").write("7")
    say("warned", me, signal.Signals(number).name, "child alive:", alive)
    child.terminate()
    sys.exit(3)
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"])
signal.signal(signal.SIGTERM, warned)
path = os.path.join(os.environ["TENURE_CHECKPOINT_DIR"], "step")
if os.path.exists(path):
    say("resumed", me, restarts, open(path).read())
    child.kill()
    sys.exit(0)
say("began", me, restarts)
while True:
    signal.pause()
"""
SHORT = """
say("gained", me)
"""
STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("began", me, restarts)
while True:
    signal.pause()
"""


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealRig]:
    made = RealRig(tmp_path, preemption_margin=0)
    yield made
    made.close()


def test_an_eviction_from_the_warning_to_the_resumed_run(real: RealRig) -> None:
    victims = [real.submit(VICTIM, "lab/a", min_runtime=0) for _ in range(2)]
    assert sorted(real.line.hear() for _ in victims) == ["began 1.1 0", "began 2.1 0"]
    gainer = real.submit(SHORT, "lab/b", min_runtime=HOUR)
    _, attempt, *rest = real.line.hear().split(maxsplit=2)
    assert rest == ["SIGTERM child alive: True"], "the warning goes to the first process, not to its children"
    assert real.line.hear() == f"gained {gainer}.1"
    victim = int(attempt.split(".")[0])
    assert real.line.hear() == f"resumed {victim}.2 1 7"
    real.until_state(victim, "succeeded")
    real.until_state(gainer, "succeeded")
    row = real.row(victim)
    assert (row.evictions, row.restarts) == (1, 1)
    (eviction,) = real.store.evictions()
    assert (eviction.job_id, eviction.gainer, eviction.reason) == (victim, gainer, "evicted_unallocated")
    first, second = real.store.attempts_of(victim)
    (gained,) = real.store.attempts_of(gainer)
    assert first.ended_at is not None and gained.started_at is not None and second.started_at is not None
    assert first.ended_at <= gained.started_at, "GPUs change hands when the last victim has released them"
    assert gained.planned_at < gained.started_at


def test_a_drain_waits_for_the_protection_and_moves_the_job(real: RealRig) -> None:
    job_id = real.submit(VICTIM, "lab/a", min_runtime=2 * SECOND)
    assert real.line.hear() == f"began {job_id}.1 0"
    real.until_state(job_id, "running")
    attempt = real.job(job_id).attempt
    assert attempt is not None
    (host,) = attempt.hosts()
    real.engine.set_host("main", host, HostState.DRAINING, "op", "fan is broken")
    assert real.line.hear() == f"warned {job_id}.1 SIGTERM child alive: True"
    assert real.line.hear() == f"resumed {job_id}.2 1 7"
    real.until_state(job_id, "succeeded")
    first, second = real.store.attempts_of(job_id)
    assert first.ended_at is not None and first.protected_until is not None
    (eviction,) = real.store.evictions()
    assert eviction.at >= first.protected_until and eviction.reason == "evicted_drain"
    assert host not in second.slots


def test_what_ignores_the_warning_is_killed_and_its_supervisor_too_may_be_killed(real: RealRig) -> None:
    job_id = real.submit(STUBBORN, "lab/a", min_runtime=0, grace=SECOND)
    assert real.line.hear() == f"began {job_id}.1 0"
    real.until_state(job_id, "running")
    real.engine.evict(job_id, "op", "to see")
    assert real.line.hear() == f"began {job_id}.2 1"
    codes = real.store.attempts_of(job_id)[0].exit_codes
    assert codes == "[-9]"


def test_an_eviction_goes_on_over_a_restart(real: RealRig) -> None:
    job_id = real.submit(VICTIM, "lab/a", min_runtime=0)
    assert real.line.hear() == f"began {job_id}.1 0"
    real.until_state(job_id, "running")
    real.engine.evict(job_id, "op", "to see")
    real.engine.stop()
    assert real.line.hear() == f"warned {job_id}.1 SIGTERM child alive: True"
    real.boot()
    assert real.line.hear() == f"resumed {job_id}.2 1 7"
    real.until_state(job_id, "succeeded")


def test_warnings_are_staggered_so_that_all_graces_end_together(tmp_path: Path) -> None:
    cluster = replace(CLUSTER, unallocated_grace=MINUTE)
    with rig(tmp_path, config_of(tmp_path, cluster=cluster)) as bench:
        quick = bench.submit("lab/a", 4, min_runtime=0, grace=5 * SECOND)
        slow = bench.submit("lab/a", 4, min_runtime=0, grace=20 * SECOND)
        gainer = bench.submit("lab/b", 4, replicas=2)
        assert [(o.attempt_id, o.grace) for o in bench.executor.stops] == [(f"{slow}.1", 20 * SECOND)]
        bench.advance(14 * SECOND)
        assert len(bench.executor.stops) == 1
        bench.advance(SECOND)
        assert [(o.attempt_id, o.grace) for o in bench.executor.stops][1:] == [(f"{quick}.1", 5 * SECOND)]
        bench.advance(5 * SECOND)
        bench.finish(quick, -9)
        assert bench.state_of(gainer) == JobState.CLAIMING.value
        bench.finish(slow, -9)
        assert bench.state_of(gainer) == JobState.RUNNING.value
        bench.check_recovery()
        bench.check_replay()


def test_a_victim_that_ends_by_itself_before_its_warning_has_not_been_evicted(bench: Rig) -> None:
    with_grace = replace(CLUSTER, unallocated_grace=MINUTE)
    bench.engine.apply((with_grace,), bench.config.policy, bench.config.budgets, (), by="test", dry_run=False)
    quick = bench.submit("lab/a", 4, min_runtime=0, grace=5 * SECOND)
    slow = bench.submit("lab/a", 4, min_runtime=0, grace=20 * SECOND)
    gainer = bench.submit("lab/b", 4, replicas=2)
    bench.advance(SECOND)
    bench.finish(quick, 0)
    assert bench.state_of(quick) == JobState.SUCCEEDED.value
    bench.finish(slow, 0)
    assert bench.state_of(slow) == JobState.QUEUED.value
    assert bench.state_of(gainer) == JobState.RUNNING.value


@pytest.mark.parametrize("between", [0, 1])
def test_an_end_heard_of_after_the_eviction_was_decided_counts_as_it_was(bench: Rig, between: int) -> None:
    quick = bench.submit("lab/a", 4, replicas=2, min_runtime=0)
    bench.hands.advance(SECOND)
    bench.executor.exit(bench.attempt_of(quick), 0, quiet=True)
    bench.hands.advance(5)
    gainer, _ = bench.engine.submit(spec("lab/b", replicas=2), by="ann")
    assert bench.state_of(quick) == JobState.STOPPING.value
    for _ in range(between):
        bench.hands.advance(5)
        bench.engine.submit(spec("lab/b", min_runtime=0), by="ann")
    bench.turn()
    assert bench.state_of(quick) == JobState.SUCCEEDED.value
    assert bench.state_of(gainer) == JobState.RUNNING.value
    bench.check_recovery()
    bench.check_replay()


def test_gpus_that_do_not_come_back_drain_their_host_and_the_plan_is_made_anew(bench: Rig) -> None:
    victims = {bench.submit("lab/a", 4, min_runtime=0) for _ in range(2)}
    gainer = bench.submit("lab/b", 4)
    stuck = next(i for i in victims if bench.state_of(i) == JobState.STOPPING.value)
    bench.advance(41 * SECOND)
    with bench.engine.view() as state:
        states = [record.state for record in state.clusters["main"].hosts.values()]
    assert sorted(states) == [HostState.DRAINING, HostState.HEALTHY]
    (other,) = victims - {stuck}
    assert bench.state_of(other) == JobState.STOPPING.value, "the other one makes room now"
    bench.finish(other, -15)
    assert bench.state_of(gainer) == JobState.RUNNING.value
    bench.finish(stuck, -9)
    bench.check_recovery()
    bench.check_replay()
