"""YARN's and the Hadoop Fair Scheduler as policies: whose turn it is, and who is stopped for whom, and when."""

from __future__ import annotations

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.decisions import Claim
from tenure.core.events import PauseScope
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, Host, HostState
from tenure.core.reasons import Reason
from tenure.policies import by_name
from tenure.policies.by_shares import in_need
from tenure.policies.hadoop import Hadoop
from tenure.policies.queue_tree import Queues
from tenure.policies.yarn import Yarn

EVEN = {"lab/a": 0.5, "lab/b": 0.5}
QUARTERS = {"lab/a": 0.25, "lab/b": 0.25, "lab/c": 0.25}


def greedy(name: str, shares: dict[str, float] = EVEN, count: int = 4, **settings: int) -> tuple[Under, list[int]]:
    """One host after the other goes to jobs of b, a second apart, and nothing is left."""
    world = Under(by_name(name, **settings), hosts(count), shares)
    jobs = []
    for _ in range(count):
        world.step(after=SECOND)
        jobs.append(world.submit("lab/b", 8))
    return world, jobs


def queues_of(world: Under) -> Queues:
    return Queues(world.state, world.state.clusters["main"])


# ---- whose turn it is


@pytest.mark.parametrize("name", ["yarn", "hadoop"])
@pytest.mark.parametrize("percent", [0, 100])
def test_who_has_the_least_for_its_weight_is_next(name: str, percent: int) -> None:
    world = Under(by_name(name, min_share_percent=percent), hosts(4), {"lab/a": 0.5, "lab/b": 0.25, "lab/c": 0.25})
    world.pause()
    jobs = [world.submit(f"lab/{queue}", 8) for queue in "bbbaaacc"]
    world.resume()
    assert world.placed() == [jobs[3], jobs[0], jobs[6], jobs[4]]


def test_yarn_shares_level_by_level_and_hadoop_among_all_pools() -> None:
    shares = {"lab/p": 0.5, "lab/p/x": 0.5, "lab/p/y": 0.5, "lab/q": 0.5}
    for name, expected in (("yarn", "xqyq"), ("hadoop", "xyqq")):
        world = Under(by_name(name, min_share_percent=0), hosts(4), shares)
        world.pause()
        queue = {world.submit(path, 8): path[-1] for path in ("lab/p/x", "lab/p/x", "lab/p/y", "lab/q", "lab/q")}
        world.resume()
        assert "".join(queue[job] for job in world.placed()) == expected, name


def test_shares_of_idle_queues_go_to_their_siblings_in_yarn() -> None:
    world = Under(Yarn(), hosts(4), {"lab/p": 0.5, "lab/p/x": 0.5, "lab/p/y": 0.5, "lab/q": 0.5})
    world.submit("lab/p/x", 8)
    world.submit("lab/q", 8)
    policy = world.rules
    assert isinstance(policy, Yarn)
    found = {path: int(share) for path, share in policy.fair_shares(queues_of(world)).items() if share}
    assert found == {"lab": 32_000, "lab/p": 16_000, "lab/q": 16_000, "lab/p/x": 16_000}


def test_shares_that_are_not_wanted_go_to_others_in_hadoop() -> None:
    world = Under(Hadoop(), hosts(4), EVEN)
    world.submit("lab/a", 4)
    for _ in range(4):
        world.submit("lab/b", 8)
    policy = world.rules
    assert isinstance(policy, Hadoop)
    shares = policy.fair_shares(queues_of(world))
    assert {path: int(share) for path, share in shares.items()} == {"lab/a": 4_000, "lab/b": 28_000, "lab/self": 0}


# ---- who is stopped, and when


def test_after_the_first_time_out_yarn_takes_up_to_the_minimum_share() -> None:
    # The example of docs/policies.md: two equal budgets on 4 hosts, all of which one of them has.
    world, jobs = greedy("yarn")
    first, second, third = (world.submit("lab/a", 8) for _ in range(3))
    world.advance(2 * MINUTE - 1, tick=MINUTE)
    assert world.victims() == []
    world.step(after=1)
    assert world.victims() == jobs[:1:-1], "who came last goes first, and b keeps its half"
    assert [claim.job_id for claim in world.made(Claim)] == [first, second]
    because = world.evictions()[0].because
    assert because.reason is Reason.EVICTED_STANDING
    assert because.numbers == {"first": "lab/a", "gainer": first, "second": "lab/b"}
    world.wait(HOUR)
    assert world.running() == {*jobs[:2], first, second}
    assert world.parked(third) is Reason.WAITING_CAPACITY


def test_without_minimum_shares_yarn_waits_for_the_second_time_out() -> None:
    world, jobs = greedy("yarn", min_share_percent=0)
    gainers = {world.submit("lab/a", 8) for _ in range(3)}
    world.advance(5 * MINUTE - 1, tick=MINUTE)
    assert world.victims() == []
    world.step(after=1)
    assert world.victims() == jobs[:1:-1], "less than half of its share was missing all of it"
    world.wait(HOUR)
    assert len(world.running() & gainers) == 2


@pytest.mark.parametrize(("percent", "taken"), [(50, 0), (51, 1), (100, 1)])
def test_less_than_a_part_of_the_fair_share_is_starving(percent: int, taken: int) -> None:
    world = Under(Yarn(min_share_percent=0, threshold_percent=percent), hosts(4), EVEN)
    world.submit("lab/a", 8)
    for _ in range(3):
        world.submit("lab/b", 8)
    world.submit("lab/a", 8)  # a has 8 of the 16 of its share
    world.wait(HOUR)
    assert len(world.victims()) == taken


@pytest.mark.parametrize("name", ["yarn", "hadoop"])
def test_a_gang_on_everything_ends_before_others_start(name: str) -> None:
    world = Under(by_name(name), hosts(4), EVEN)
    gang, waits = world.submit("lab/b", 8, replicas=4), world.submit("lab/a", 8)
    world.wait(HOUR)
    assert world.victims() == []
    world.finish(gang)
    assert waits in world.running()


@pytest.mark.parametrize("name", ["yarn", "hadoop"])
def test_no_queue_is_pushed_below_its_fair_share(name: str) -> None:
    world = Under(by_name(name), hosts(4), EVEN)
    gang = world.submit("lab/b", 8, replicas=3)
    small = world.submit("lab/b", 8)
    waits = world.submit("lab/a", 8)
    second = world.submit("lab/a", 8)
    world.wait(HOUR)
    assert world.victims() == [small], "without its gang b would have nothing"
    assert world.running() == {gang, waits}
    assert world.parked(second) is Reason.WAITING_CAPACITY


def test_the_time_out_runs_from_when_a_queue_last_had_its_share() -> None:
    world = Under(Yarn(min_share_timeout=DAY), hosts(4), {"lab/a": 0.25, "lab/b": 0.75})
    mine = world.submit("lab/a", 8)
    for _ in range(4):
        world.submit("lab/b", 8)
    gang = world.submit("lab/a", 8, replicas=2)

    def short(timeout: int) -> bool:
        queues = queues_of(world)
        return in_need(queues, Yarn().queue_of(queues, queues.nodes["lab/a"]), 8_000, timeout)

    world.wait(HOUR)
    assert not short(0)
    world.finish(mine)  # b gets the host: the gang is too large for it
    assert short(0) and not short(1)
    world.step(after=MINUTE)
    assert short(MINUTE) and not short(MINUTE + 1)
    world.cancel(gang)
    world.submit("lab/a", 8)
    assert short(0) and not short(1), "nobody waited before"


@pytest.mark.parametrize("name", ["yarn", "hadoop"])
def test_unallocated_jobs_wait_and_go(name: str) -> None:
    world, jobs = greedy(name)
    free = world.submit("lab/a", 8, min_runtime=0)
    world.wait(HOUR)
    assert world.victims() == [] and free not in world.running()
    world.finish(jobs[0])
    assert free in world.running(), "what is free is anybody's"
    world.submit("lab/a", 8)
    world.wait(HOUR)
    assert world.victims() == [jobs[3]]


def test_in_its_queue_unallocated_work_goes_first_in_yarn() -> None:
    world = Under(Yarn(), hosts(4), EVEN)
    free, *_ = (world.submit("lab/b", 8, min_runtime=0 if n == 0 else HOUR) for n in range(4))
    world.submit("lab/a", 8)
    world.wait(HOUR)
    assert world.victims() == [free]


def test_the_queue_that_is_most_over_goes_first_in_yarn_and_the_youngest_job_in_hadoop() -> None:
    for name, victim in (("yarn", "b"), ("hadoop", "c")):
        world = Under(by_name(name), hosts(8), QUARTERS)
        queue = {}
        for path in "bbbbbbbbbccccccc":  # b has 36 GPUs and c 28, later
            world.step(after=SECOND)
            queue[world.submit(f"lab/{path}", 4)] = path
        for _ in range(4):
            world.submit("lab/a", 4)
        world.wait(HOUR)
        assert queue[world.victims()[0]] == victim, name


def test_nobody_is_stopped_in_yarn_while_a_part_of_the_gpus_is_idle() -> None:
    for percent, taken in ((75, 1), (100, 0)):
        world = Under(Yarn(busy_percent=percent), hosts(4), EVEN)
        for _ in range(4):
            world.submit("lab/b", 7)
        world.submit("lab/a", 8)
        world.wait(HOUR)
        assert len(world.victims()) == taken


def test_nobody_is_protected_on_hosts_that_drain() -> None:
    for policy in (Yarn(), Hadoop()):
        world = Under(policy, hosts(2), EVEN)
        job = world.submit("lab/a", 8)
        world.host(world.attempt(job).hosts()[0], HostState.DRAINING)
        assert world.victims() == [job]


def test_nobody_is_stopped_while_evictions_are_paused() -> None:
    world, _ = greedy("hadoop")
    world.pause(PauseScope.EVICTIONS)
    world.submit("lab/a", 8)
    world.wait(HOUR)
    assert world.victims() == []
    world.resume(PauseScope.EVICTIONS)
    assert len(world.victims()) == 1


# ---- TestFairScheduler of src/contrib/fairscheduler: a slot is a GPU, a task a job with one


def slots(*names: str, settings: dict[str, int]) -> Under:
    return Under(by_name("hadoop", **settings), _trackers(4), {f"lab/{name}": 0.25 for name in names})


def _trackers(count: int) -> tuple[Host, ...]:
    return hosts(count, gpus=2, cpus=0, mem=0, prefix="tt")


def test_fair_share_preemption() -> None:
    """testFairSharePreemption: pool 1 has 6 of 8 slots, pool 2 has 2, pool 3 comes: it takes 2 after 60 s."""
    world = slots("pool1", "pool2", "pool3", settings={"min_share_percent": 0, "fair_share_timeout": MINUTE})
    first = []
    for _ in range(6):
        world.step(after=100)
        first.append(world.submit("lab/pool1", 1))
    world.step(after=100)
    for _ in range(10):
        world.submit("lab/pool2", 1)
    third = [world.submit("lab/pool3", 1) for _ in range(10)]
    world.advance(59 * SECOND, tick=SECOND)
    assert world.victims() == []
    world.advance(SECOND, tick=SECOND)
    assert world.victims() == first[:3:-1], "the latest launched of the pool that has too much"
    world.wait(10 * MINUTE)
    assert world.running() >= {*first[:4], *third[:2]} and third[2] not in world.running()


def test_min_share_preemption() -> None:
    """testMinSharePreemption: another pool has all 4 slots; pool A, with a minimum of 2, takes them after 60 s."""
    settings = {"min_share_timeout": MINUTE, "fair_share_timeout": HOUR}
    world = Under(by_name("hadoop", **settings), _trackers(2), {"lab/poolA": 0.5, "lab/default": 0.5})
    first = []
    for _ in range(10):
        world.step(after=100)
        first.append(world.submit("lab/default", 1))
    world.step(after=10 * SECOND)
    second = [world.submit("lab/poolA", 1) for _ in range(10)]
    world.advance(59 * SECOND, tick=SECOND)
    assert world.victims() == []
    world.advance(2 * SECOND, tick=SECOND)
    assert world.victims() == [first[3], first[2]]
    world.wait(10 * MINUTE)
    assert world.running() == {*first[:2], *second[:2]}


def test_a_pool_loses_slots_as_long_as_it_has_more_than_its_fair_share() -> None:
    """``preemptTasks``: of 4 slots two pools have 2 each, which is more than 4/3. A third takes its minimum of 1."""
    settings = {"min_share_timeout": MINUTE, "fair_share_timeout": HOUR}
    world = Under(by_name("hadoop", **settings), _trackers(2), {f"lab/pool{n}": 0.25 for n in (1, 2, 3)})
    first = []
    for n in (1, 2, 1, 2, 1, 2):
        world.step(after=100)
        first.append(world.submit(f"lab/pool{n}", 1))
    third = [world.submit("lab/pool3", 1) for _ in range(3)]
    world.wait(HOUR)
    assert world.victims() == [first[3]], "the latest launched; whoever has 1 keeps it"
    assert world.running() == {*first[:3], third[0]}


# ---- settings

PERCENTAGES = {"yarn": ("min_share", "threshold", "busy"), "hadoop": ("min_share",)}


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, f"{setting}_percent") for name, settings in PERCENTAGES.items() for setting in settings],
)
def test_a_percentage_is_between_0_and_100(name: str, setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting} = 101: must be between 0 and 100"):
        by_name(name, **{setting: 101})
