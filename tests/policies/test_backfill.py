"""EASY backfilling, as tables of scenarios.

Every limit has the same allowance, so it cancels out where limits are compared.
"""

from __future__ import annotations

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, Cluster, HostState
from tenure.core.reasons import Reason
from tenure.policies.backfill import Backfill

SHARES = {"lab/a": 0.5, "lab/b": 0.5}


def under(count: int, **settings: int) -> Under:
    return Under(Backfill(**settings), hosts(count), SHARES)


def send(world: Under, gpus: int, limit: int | None, replicas: int = 1, **more: object) -> int:
    """A job that is killed at its limit."""
    return world.submit("lab/a", gpus, replicas=replicas, timeout=limit, grace=0, **more)


@pytest.mark.parametrize(
    ("head_hosts", "asks_hosts", "limit", "starts"),
    [
        # Of 4 hosts, 2 are taken until 4:00 and 1 until 2:00. The head fits at 4:00.
        (3, 1, 4 * HOUR, True),  # it has ended by then
        (3, 1, 4 * HOUR + 1, True),  # it has not, but one host is left over beside the head
        (3, 1, 400 * HOUR, True),
        (4, 1, 4 * HOUR, True),
        (4, 1, 4 * HOUR + 1, False),  # the head needs all of them: it would be delayed
        (3, 2, HOUR, False),  # it does not fit now
    ],
)
def test_a_job_starts_early_if_the_oldest_is_not_delayed(
    head_hosts: int, asks_hosts: int, limit: int, starts: bool
) -> None:
    world = under(4)
    there = {send(world, 8, 4 * HOUR, 2), send(world, 8, 2 * HOUR)}
    head = send(world, 8, 24 * HOUR, head_hosts)
    other = send(world, 8, limit, asks_hosts)
    assert world.running() == there | ({other} if starts else set())
    if not starts:
        fits = asks_hosts == 1
        assert world.parked(other) is (Reason.WAITING_RESERVED if fits else Reason.WAITING_CAPACITY)
        assert world.rules.withheld(world.state) == (8 if fits else 0)
    world.advance(4 * HOUR - 1)
    assert world.job_state(head) is JobState.QUEUED
    world.advance(1)
    assert world.job_state(head) is JobState.RUNNING, "at its shadow time, not later"


def test_backfilled_jobs_use_up_what_is_left_over() -> None:
    world = under(5)
    send(world, 8, 4 * HOUR, 2)
    head = send(world, 8, HOUR, 4)  # at 4:00, and 1 host is left over
    first, second, third = (send(world, 8, limit) for limit in (9 * HOUR, 9 * HOUR, 3 * HOUR))
    assert {first, third} <= world.running()
    assert world.parked(second) is Reason.WAITING_RESERVED
    world.advance(2 * HOUR)
    late = send(world, 8, 3 * HOUR)
    assert world.parked(late) is Reason.WAITING_RESERVED, "two hours ago it would have ended in time"
    assert send(world, 8, 2 * HOUR) in world.running()
    world.advance(2 * HOUR)
    assert world.job_state(head) is JobState.RUNNING


def test_jobs_of_one_pass_do_not_use_up_the_same_gpus_twice() -> None:
    world = under(5)
    send(world, 8, 4 * HOUR, 2)
    send(world, 8, HOUR, 4)  # at 4:00, and 1 host is left over
    line = [world.queue("lab/a", 8, timeout=limit * HOUR) for limit in (9, 10, 4, 5)]
    world.step(*line)
    assert [each.job_id in world.running() for each in line] == [True, False, True, False]


def test_the_shadow_time_is_when_whole_hosts_are_free_not_gpus() -> None:
    """Two jobs end after an hour and leave 8 GPUs in halves of two hosts; one host is whole after five."""
    world = under(2)
    halves = [send(world, 4, limit) for limit in (5 * HOUR, HOUR, 9 * HOUR, HOUR)]
    assert [world.attempt(job).hosts() for job in halves] == [["h0"], ["h0"], ["h1"], ["h1"]]
    head = world.submit("lab/b", 8)
    world.advance(HOUR)
    until_then, longer, too_long = (send(world, 4, limit) for limit in (4 * HOUR, 8 * HOUR, 4 * HOUR + 1))
    assert {until_then, longer} <= world.running(), "the head does not wait for h1"
    world.finish(until_then)
    assert world.parked(too_long) is Reason.WAITING_RESERVED
    world.advance(4 * HOUR - 1)
    assert world.job_state(head) is JobState.QUEUED
    world.advance(1)
    assert world.attempt(head).hosts() == ["h0"]


def test_a_long_job_goes_beside_what_is_reserved_even_where_it_fits_less_well() -> None:
    world = under(3)
    send(world, 3, 20 * HOUR)  # h0: 5 are free, and it is not whole in time
    first = send(world, 8, 4 * HOUR)  # h1
    send(world, 8, 4 * HOUR)  # h2
    fills = send(world, 5, 20 * HOUR)  # h0
    world.finish(first)
    send(world, 4, 4 * HOUR)  # h1: 4 are free
    world.finish(fills)
    head = send(world, 8, HOUR, 2)  # h1 and h2, at 4:00
    long = send(world, 4, 20 * HOUR)  # it would fit best on h1
    assert world.attempt(long).hosts() == ["h0"]
    world.advance(4 * HOUR)
    assert world.attempt(head).hosts() == ["h1", "h2"]


def test_a_reservation_makes_way_when_it_can_be_kept_elsewhere() -> None:
    world = under(3)
    first = send(world, 8, 4 * HOUR)
    send(world, 8, 4 * HOUR)
    send(world, 8, 4 * HOUR)
    head = send(world, 8, HOUR, 2)
    world.finish(first)  # h0 is free; at 4:00 any two of the three will do
    long = send(world, 8, 20 * HOUR)
    assert world.attempt(long).hosts() == ["h0"]
    world.advance(4 * HOUR)
    assert world.attempt(head).hosts() == ["h1", "h2"]


def test_left_over_gpus_in_pieces_are_no_other_place_for_a_reservation() -> None:
    world = under(4)
    send(world, 3, 20 * HOUR)  # h0: 5 free
    send(world, 5, 20 * HOUR)
    send(world, 3, 20 * HOUR)  # h1: 5 free
    send(world, 8, 4 * HOUR)  # h2
    world.finish(2)
    head = send(world, 8, HOUR, 2)  # h2 and h3, at 4:00; 10 GPUs are left over then
    long = send(world, 8, 20 * HOUR)
    assert world.parked(long) is Reason.WAITING_RESERVED
    world.advance(4 * HOUR)
    assert world.attempt(head).hosts() == ["h2", "h3"]


def test_without_a_limit_a_day_is_assumed_and_twice_that_once_it_is_over() -> None:
    world = under(2)
    endless = send(world, 8, None)
    head = send(world, 8, HOUR, 2)
    other = send(world, 8, 25 * HOUR)
    assert world.parked(other) is Reason.WAITING_RESERVED
    world.advance(24 * HOUR + 5 * MINUTE)
    assert world.running() == {endless}, "two days and the allowances are assumed now; 23:55 are left for the limit"
    fits, too_long = send(world, 8, 24 * HOUR), send(world, 8, 24 * HOUR)
    assert fits in world.running(), "its limit and its allowance are just what is left"
    assert world.parked(too_long) is Reason.WAITING_CAPACITY
    world.finish(fits)
    assert too_long in world.running() and world.job_state(other) is JobState.QUEUED
    world.finish(too_long)
    world.finish(endless)
    assert world.running() == {head}


def test_a_backfilled_job_that_overruns_moves_the_shadow_time() -> None:
    world = under(3, allowance=0, default_limit=2 * HOUR)
    send(world, 8, 6 * HOUR)
    head = send(world, 8, HOUR, 3)  # at 6:00
    overruns, other = send(world, 8, None), send(world, 8, 7 * HOUR)
    assert overruns in world.running() and world.parked(other) is Reason.WAITING_RESERVED
    world.advance(4 * HOUR)  # it is expected to end at 8:00 now
    last = send(world, 8, 4 * HOUR)
    assert last in world.running(), "by 8:00, though not by 6:00"
    assert world.parked(other) is Reason.WAITING_CAPACITY and world.job_state(head) is JobState.QUEUED


def test_an_overrun_is_noticed_without_anything_else_happening() -> None:
    world = under(2, allowance=0, default_limit=2 * HOUR)
    endless = send(world, 8, None, min_runtime=8 * HOUR)  # expected until 2:00, then until 4:00, then until 8:00
    send(world, 8, HOUR, 2)
    other = send(world, 8, 3 * HOUR)
    world.advance(4 * HOUR - 1)
    assert world.running() == {endless}
    world.advance(1)
    assert world.running() == {endless, other}


def test_the_overrun_of_a_job_that_was_backfilled_in_the_same_pass_is_noticed_too() -> None:
    world = under(5, allowance=0, default_limit=4 * HOUR)
    send(world, 8, 6 * HOUR, min_runtime=8 * HOUR)
    send(world, 8, 8 * HOUR, min_runtime=8 * HOUR)
    send(world, 8, HOUR, 4)  # at 6:00, with nothing left over
    overruns, other = (world.queue("lab/a", 8, timeout=limit, min_runtime=8 * HOUR) for limit in (None, 100 * HOUR))
    world.step(overruns, other)
    assert overruns.job_id in world.running() and world.parked(other.job_id) is Reason.WAITING_RESERVED
    world.advance(4 * HOUR)  # at 8:00 now, when all hosts are free and one is left over
    assert other.job_id in world.running()


def test_the_allowance_is_kept_free_before_the_oldest_is_expected() -> None:
    world = under(2, allowance=10 * MINUTE)
    send(world, 8, 4 * HOUR)
    send(world, 8, HOUR, 2)
    world.advance(5 * MINUTE)
    long = send(world, 8, 3 * HOUR + 55 * MINUTE + 1)
    assert world.parked(long) is Reason.WAITING_RESERVED
    assert send(world, 8, 3 * HOUR + 55 * MINUTE) in world.running()


def test_a_head_that_cannot_be_expected_keeps_nothing() -> None:
    world = under(4)
    send(world, 8, HOUR)
    world.host("h3", HostState.FAILED)
    gone = send(world, 8, HOUR, 4)
    other = send(world, 8, 100 * HOUR)
    assert other in world.running() and world.parked(gone) is Reason.WAITING_CAPACITY
    send(world, 8, HOUR, 2)  # the next in the line keeps something
    assert world.parked(send(world, 8, 100 * HOUR)) is Reason.WAITING_RESERVED


def test_who_was_held_is_backfilled_when_it_comes_back() -> None:
    world = under(2)
    send(world, 8, 4 * HOUR)
    held = send(world, 8, HOUR, hold="ann")
    send(world, 8, HOUR, 2)
    alike = send(world, 8, 5 * HOUR)
    assert len(world.running()) == 1 and world.parked(alike) is Reason.WAITING_RESERVED
    world.release(held)
    assert held in world.running()


def test_an_older_job_that_comes_back_takes_the_reservation_over() -> None:
    world = under(4)
    there = {send(world, 8, 4 * HOUR, 3)}
    older = send(world, 8, HOUR, 3, hold="ann")
    send(world, 8, HOUR, 4)  # at 4:00, with nothing left over
    other = send(world, 8, 5 * HOUR)
    assert world.running() == there
    world.release(older)  # at 4:00, too, and one host is left over
    assert world.running() == there | {other}
    world.advance(4 * HOUR)
    assert older in world.running()


def test_a_job_reserves_where_it_can_start_first() -> None:
    clusters = [Cluster("main", hosts(2)), Cluster("aux", hosts(2, prefix="x"))]
    world = Under(Backfill(), clusters, SHARES)
    send(world, 8, 6 * HOUR, clusters=("main",))
    send(world, 8, 3 * HOUR, clusters=("aux",))
    head = send(world, 8, HOUR, 2, clusters=("main", "aux"))
    kept = send(world, 8, 100 * HOUR, clusters=("aux",))
    free = send(world, 8, 100 * HOUR, clusters=("aux", "main"))
    assert world.parked(kept, "aux") is Reason.WAITING_RESERVED
    assert world.attempt(free).cluster == "main", "nothing is kept there"
    world.advance(3 * HOUR)
    assert world.attempt(head).cluster == "aux"


def test_a_full_cluster_takes_no_reservation_from_another() -> None:
    clusters = [Cluster("main", hosts(1)), Cluster("aux", hosts(2, prefix="x"))]
    world = Under(Backfill(), clusters, SHARES)
    send(world, 8, 6 * HOUR, clusters=("main",))
    send(world, 8, 3 * HOUR, clusters=("aux",))
    send(world, 8, HOUR, clusters=("main",))
    send(world, 8, HOUR, 2, clusters=("aux",))
    assert world.parked(send(world, 8, 100 * HOUR, clusters=("aux",)), "aux") is Reason.WAITING_RESERVED
    assert send(world, 8, 3 * HOUR, clusters=("aux",)) in world.running()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"default_limit": 0}, "default_limit = 0: must be more than 0"),
        ({"allowance": -1}, "allowance = -1: must be 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Backfill(**settings)
