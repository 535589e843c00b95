"""Why a job waits: a scenario for each reason, with the numbers it tells."""

from __future__ import annotations

import pytest

from scenarios import OLD, past
from support.world import World, hosts
from tenure.core.events import ClockAlarm, Paused, PauseScope
from tenure.core.explain import Explainer
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, Cluster, Host, HostState, Label, Policy, Role
from tenure.core.reasons import Because, Reason


def test_waiting_for_capacity_says_which_protected_attempts_hold_it_until_when() -> None:
    world = World(hosts(2))
    first = world.submit("lab/a", 8, min_runtime=2 * HOUR)
    second = world.submit("lab/b", 8, min_runtime=HOUR)
    start = world.now
    world.advance(MINUTE)
    waits = world.submit("lab/a", 4)
    assert world.why(waits) == Because(
        Reason.WAITING_CAPACITY,
        {
            "cluster": "main",
            "gpus": 4,
            "free_gpus": 0,
            "whole_free": 0,
            "whole_needed": 0,
            "protected": ((f"{second}.1", start + HOUR), (f"{first}.1", start + 2 * HOUR)),
        },
    )


def test_waiting_for_standing_names_the_sibling_and_both_ratios() -> None:
    world = World(hosts(1))
    past(world, ("lab/a", 100, OLD))
    runs = world.submit("lab/b", 8)
    world.advance(2 * HOUR)
    waits = world.submit("lab/a", 8)
    because = world.why(waits)
    assert because.reason is Reason.WAITING_STANDING
    assert because.numbers == {
        "cluster": "main",
        "gpus": 8,
        "attempt": f"{runs}.1",
        "first": "lab/b",
        "first_ratio_ppm": 16 * 10**6 // 672,
        "first_recent_ppm": 16 * 10**6 // 96,
        "second": "lab/a",
        "second_ratio_ppm": 100 * 10**6 // 672,
        "second_recent_ppm": 0,
        "rule": "order",
    }


def test_waiting_for_standing_in_ones_own_budget_names_both_priorities() -> None:
    world = World(hosts(1))
    runs = world.submit("lab/a", 8, priority=2)
    world.advance(2 * HOUR)
    waits = world.submit("lab/a", 8, priority=1)
    assert world.why(waits) == Because(
        Reason.WAITING_STANDING,
        {
            "cluster": "main",
            "gpus": 8,
            "attempt": f"{runs}.1",
            "first": "lab/a",
            "first_priority": 2,
            "priority": 1,
            "rule": "priority",
        },
    )


def test_an_unallocated_job_is_told_until_when_its_peer_has_its_hour() -> None:
    world = World(hosts(1))
    world.submit("lab/b", 8, min_runtime=0)
    start = world.now
    world.advance(10 * MINUTE)
    waits = world.submit("lab/a", 8, min_runtime=0)
    because = world.why(waits)
    assert because.reason is Reason.WAITING_STANDING
    assert because.numbers["turn_until"] == start + HOUR


def test_waiting_for_whole_hosts_while_enough_gpus_are_free_here_and_there() -> None:
    world = World(hosts(2))
    for _ in range(2):
        world.submit("lab/a", 5)
    start = world.now
    waits = world.submit("lab/b", 8)
    because = world.why(waits)
    assert because.reason is Reason.WAITING_CAPACITY  # 6 GPUs are free in all
    small = World(hosts(4))
    for _ in range(4):
        small.submit("lab/a", 5)
    waits = small.submit("lab/b", 8)
    because = small.why(waits)
    assert because.reason is Reason.WAITING_WHOLE_HOSTS
    numbers = dict(because.numbers)
    assert numbers.pop("protected") == tuple((f"{i}.1", start + HOUR) for i in (1, 2, 3))
    assert numbers == {"cluster": "main", "gpus": 8, "free_gpus": 12, "whole_free": 0, "whole_needed": 1}


def test_waiting_for_labels_while_other_hosts_would_do() -> None:
    world = World(hosts(8))  # racks r0 and r1
    rack = Label("rack", "r0", True)
    world.submit("lab/a", 8, replicas=4, labels=(rack,))
    waits = world.submit("lab/b", 8, labels=(rack,))
    because = world.why(waits)
    assert because.reason is Reason.WAITING_LABELS
    assert because.numbers["labels"] == ("rack=r0",) and because.numbers["free_gpus"] == 32
    same = world.submit("lab/a", 8, replicas=2, min_runtime=HOUR)
    assert world.job_state(same) is JobState.RUNNING
    gang = world.submit("lab/a", 2, replicas=9, labels=(Label("rack", None, True),))
    assert world.why(gang).reason is Reason.WAITING_CAPACITY  # not even without the label
    world.finish(same)
    world.submit("lab/b", 1, replicas=1)
    gang = world.submit("lab/a", 8, replicas=4, labels=(Label("rack", None, True),))
    assert world.why(gang).reason in (Reason.WAITING_CAPACITY, Reason.WAITING_WHOLE_HOSTS)


def test_waiting_for_a_host_state_names_hosts_that_are_out() -> None:
    world = World(hosts(3))
    for name in ("h0", "h2"):
        world.host(name, HostState.REPAIRING)
    waits = world.submit("lab/a", 8, replicas=2)
    assert world.why(waits) == Because(
        Reason.WAITING_HOST_STATE, {"cluster": "main", "closed": 2, "hosts": ("h0", "h2")}
    )


def test_waiting_for_cpus_or_memory_while_gpus_are_free() -> None:
    world = World((Host("h0", 8, 10_000, 100),))
    world.submit("lab/a", 1, cpus=8_000)
    waits = world.submit("lab/b", 1, cpus=4_000)
    because = world.why(waits)
    assert because.reason is Reason.WAITING_CPU_MEMORY
    assert because.numbers["free_gpus"] == 7 and because.numbers["hosts_short"] == 1
    memory = world.submit("lab/b", 1, mem=100)
    assert world.job_state(memory) is JobState.RUNNING
    assert world.why(world.submit("lab/a", 1, mem=1)).reason is Reason.WAITING_CPU_MEMORY


def test_waiting_for_the_eviction_cap() -> None:
    world = World(hosts(2), policy=Policy(evictions_per_minute=1))
    past(world, ("lab/b", 600, OLD))
    for _ in range(2):
        world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    world.submit("lab/a", 8)
    waits = world.submit("lab/a", 8)
    assert world.why(waits) == Because(Reason.WAITING_EVICTION_CAP, {"cluster": "main", "cap": 1, "recent": 1})


def test_waiting_for_a_claims_victims_says_which_and_until_when() -> None:
    world = World(hosts(1))
    past(world, ("lab/b", 600, OLD))
    victim = world.submit("lab/b", 8, min_runtime=5 * MINUTE)
    world.advance(HOUR)
    claims = world.submit("lab/a", 8)
    world.advance(2 * MINUTE)
    assert world.why(claims) == Because(
        Reason.WAITING_CLAIM, {"victims": (f"{victim}.1",), "kill_at": world.now + 3 * MINUTE}
    )


def test_held_by_a_person() -> None:
    world = World()
    event = world.queue("lab/a", 8, hold="mia")
    world.step(event)
    assert world.why(event.job_id) == Because(Reason.HELD_BY_PERSON, {"by": "mia"})


def test_held_because_the_budget_has_no_share_in_any_cluster_of_the_job() -> None:
    world = World((Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))), {"lab/a": 0, "lab/b": 1})
    waits = world.submit("lab/a", 8)
    assert world.why(waits) == Because(Reason.HELD_NO_SHARE, {"budget": "lab/a", "cluster": "main"})


def test_a_cluster_where_there_is_a_share_explains_before_one_where_there_is_none() -> None:
    clusters = (Cluster("aux", hosts(1, prefix="x")), Cluster("main", hosts(1)))
    world = World(clusters, {"lab/a": 0.5, "lab/b": 0.5})
    world.tree = tuple(type(b)(b.path, b.share, (("aux", 0),)) if b.path == "lab/a" else b for b in world.tree)
    world.configure()
    world.submit("lab/b", 8, clusters=("main",))
    waits = world.submit("lab/a", 8, clusters=("aux", "main"))
    assert world.why(waits).reason is Reason.WAITING_CAPACITY
    assert world.why(waits).numbers["cluster"] == "main"


def test_backing_off_says_until_when_and_after_what() -> None:
    world = World()
    job = world.submit("lab/a", 8, retries=3)
    for _ in range(2):
        world.finish(job, 1)
        wait = world.job(job).not_before - world.now
        assert world.why(job).numbers == {
            "until": world.now + wait,
            "failures": world.job(job).failures,
            "last": "failed",
        }
        world.advance(wait)
    assert wait == 20 * SECOND


def test_paused_starts_say_who_paused() -> None:
    world = World()
    world.pause()
    waits = world.submit("lab/a", 8)
    assert world.why(waits) == Because(Reason.PAUSED_STARTS, {"by": "op"})


@pytest.mark.parametrize("by", ["op", "clock alarm"])
def test_paused_evictions_say_who_paused_or_that_it_is_the_clock(by: str) -> None:
    world = World(hosts(1))
    world.submit("lab/b", 8, min_runtime=0)
    if by == "op":
        world.pause(PauseScope.EVICTIONS)
    else:
        world.step(ClockAlarm(world.now, True))
    waits = world.submit("lab/a", 8)
    assert world.why(waits) == Because(Reason.PAUSED_EVICTIONS, {"cluster": "main", "by": by})


def test_what_has_just_been_submitted_is_new_until_a_pass_has_looked() -> None:
    from tenure.core import scheduler

    world = World()
    event = world.queue("lab/a", 8)
    scheduler.absorb(world.state, (event,), world.now)
    assert world.why(event.job_id).reason is Reason.WAITING_NEW


def test_a_running_job_says_how_it_started() -> None:
    world = World()
    job = world.submit("lab/a", 8)
    assert world.why(job) == Because(Reason.STARTED_FREE, {"free_gpus": 16, "gpus": 8})


def test_jobs_that_are_alike_share_an_answer_and_others_do_not() -> None:
    world = World(hosts(1))
    world.submit("lab/a", 8)
    alike = [world.submit("lab/a", 8, user=user) for user in ("ann", "bob")]
    other = world.submit("lab/a", 4, roles=(Role("a", 2, 2, 0, 0),))
    explainer = Explainer(world.state)
    answers = [explainer.why(world.job(job)) for job in (*alike, other)]
    assert answers[0] is answers[1] and answers[2].numbers["gpus"] == 4


def test_an_eviction_cap_or_a_pause_is_the_reason_only_where_evicting_would_help() -> None:
    for policy in (Policy(evictions_per_minute=1), Policy()):
        world = World(hosts(3), policy=policy)
        for _ in range(2):
            world.submit("lab/a", 4, min_runtime=0)
        world.submit("lab/a", 4, min_runtime=8 * HOUR)
        for _ in range(3):
            world.submit("lab/a", 4, min_runtime=8 * HOUR)
        if policy.evictions_per_minute == 1:
            world.submit("lab/b", 4)  # spends the cap
            capped, hopeless = world.submit("lab/b", 4), world.submit("lab/b", 8, replicas=3)
            assert world.why(capped).reason is Reason.WAITING_EVICTION_CAP
        else:
            world.step(Paused(world.now, PauseScope.EVICTIONS, "op"))
            capped, hopeless = world.submit("lab/b", 4), world.submit("lab/b", 8, replicas=3)
            assert world.why(capped).reason is Reason.PAUSED_EVICTIONS
        assert world.why(hopeless).reason is Reason.WAITING_CAPACITY
