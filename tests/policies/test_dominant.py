"""DRF over queues, flat and down the tree, as scenarios: 4 hosts of 8 GPUs and 64 CPUs."""

from __future__ import annotations

import pytest
from policy_kit import Under

from support.world import hosts
from tenure.core.model import DAY, HOUR, HostState
from tenure.core.reasons import Reason
from tenure.policies import by_name

BOTH = pytest.mark.parametrize("name", ["drf", "drf-tree"])
CPU = 1_000


def under(name: str, shares: dict[str, float], count: int = 4) -> Under:
    return Under(by_name(name), hosts(count), shares)


def _served(world: Under, queues: str, gpus: int = 8, **more: object) -> str:
    """Which queues are served in turn, when jobs of all these (last letters of paths, by id) come at once."""
    world.pause()
    leaves = {leaf[-1]: leaf for leaf in world.state.the_tree().leaves()}
    jobs = {world.submit(leaves[letter], gpus, **more): letter for letter in queues}
    world.resume()
    return "".join(jobs[job] for job in world.placed() if job in jobs)


@BOTH
def test_whoever_has_the_smallest_share_for_its_weight_is_next(name: str) -> None:
    world = under(name, {"lab/a": 0.5, "lab/b": 0.25, "lab/c": 0.25})
    assert _served(world, "bbbbaaaacccc") == "abca"
    assert world.victims() == []


@BOTH
@pytest.mark.parametrize(("cpus", "served"), [(64, "baa"), (1, "aab")])
def test_the_dominant_resource_counts_whichever_it_is(name: str, cpus: int, served: str) -> None:
    """a holds 2 GPUs of 32, b 8. With half the CPUs a has 1/2 and b 1/4; with few it has 1/16."""
    world = under(name, {"lab/a": 0.5, "lab/b": 0.5})
    for _ in range(2):
        world.submit("lab/a", 1, cpus=cpus * CPU)
    world.submit("lab/b", 8)
    assert _served(world, "aab", gpus=4) == served


@BOTH
def test_what_is_handed_out_stays_with_whoever_has_it(name: str) -> None:
    """The price of evicting nobody: a queue that comes late has its share only as fast as others end."""
    world = under(name, {"lab/a": 0.5, "lab/b": 0.5})
    early = [world.submit("lab/a", 8, min_runtime=HOUR) for _ in range(6)]
    late = [world.submit("lab/b", 8) for _ in range(3)]
    world.wait(2 * DAY)
    assert world.running() == set(early[:4]) and world.victims() == []
    assert {world.parked(job) for job in late} == {Reason.WAITING_CAPACITY}
    for job in early[:2]:
        world.finish(job)
    assert world.running() == {*early[2:4], *late[:2]}, "b has nothing, so it is served first"
    world.finish(early[2])
    assert late[2] not in world.running(), "a has a quarter then, and b a half"


@BOTH
def test_a_draining_host_waits_for_its_attempts_to_end(name: str) -> None:
    world = under(name, {"lab/a": 0.5, "lab/b": 0.5})
    job = world.submit("lab/a", 8)
    world.host(world.attempt(job).hosts()[0], HostState.DRAINING)
    world.wait(DAY)
    assert world.running() == {job}


@BOTH
def test_who_has_no_share_comes_last(name: str) -> None:
    world = under(name, {"lab/a": 0.5, "lab/b": 0.5, "lab/z": 0})
    assert _served(world, "zzzaabb", min_runtime=0) == "abab"


@pytest.mark.parametrize(("name", "served"), [("drf", (2, 4)), ("drf-tree", (3, 3))])
def test_flat_and_tree_differ_in_who_inherits_what_somebody_leaves(name: str, served: tuple[int, int]) -> None:
    """c has half, x the other, and of that x/a and x/b half each. b wants nothing: flat a has half of what c has."""
    shares = {"lab/x": 0.5, "lab/x/a": 0.5, "lab/x/b": 0.5, "lab/c": 0.5}
    turns = _served(under(name, shares, 6), "aaaaaacccccc")
    assert (turns.count("a"), turns.count("c")) == served


def test_a_child_is_not_starved_by_what_its_sibling_holds() -> None:
    """d's jobs take CPUs, 3/4 of them by now, p's take GPUs; p has nothing, and e has 1/4 of the GPUs.

    While both could get more their parent counts as its least served child, as nothing: so p goes before e. Then nobody
    in p waits any more, their parent counts with all that it has, and e goes before d.
    """
    world = under("drf-tree", {"lab/x": 0.5, "lab/x/d": 0.5, "lab/x/p": 0.5, "lab/e": 0.5})
    for _ in range(3):
        world.submit("lab/x/d", 1, cpus=63 * CPU)
    world.submit("lab/e", 8)
    world.pause()
    jobs = [world.submit("lab/x/d", 1, cpus=CPU), world.submit("lab/e", 4), world.submit("lab/x/p", 4)]
    world.resume()
    assert world.placed()[4:] == jobs[::-1]


@pytest.mark.parametrize(("more", "served"), [(True, "pe"), (False, "ep")])
def test_a_child_whose_jobs_do_not_fit_could_still_get_more(more: bool, served: str) -> None:
    """Of 5 hosts d holds 2 and e one; d and p have half of what their parent has, which has as much as e.

    If d wants 3 more hosts, of which 2 are free, it counts as little as p, which has nothing, and p goes first. If it
    wants nothing, its parent counts with all that it has, and e goes first.
    """
    world = under("drf-tree", {"lab/x": 0.5, "lab/x/d": 0.5, "lab/x/p": 0.5, "lab/e": 0.5}, count=5)
    for _ in range(2):
        world.submit("lab/x/d", 8)
    for _ in range(2):
        world.submit("lab/e", 4)
    if more:
        world.submit("lab/x/d", 8, replicas=3)
    assert _served(world, "ep", gpus=5) == served


def test_nobody_is_scaled_down_to_a_sibling_whose_jobs_do_not_fit() -> None:
    """p has nothing and wants more than there is free: else d could take everything in its name."""
    world = under("drf-tree", {"lab/x": 0.5, "lab/x/d": 0.5, "lab/x/p": 0.5, "lab/e": 0.5})
    world.submit("lab/x/d", 8)
    world.submit("lab/x/p", 8, replicas=4)
    assert _served(world, "dde") == "edd"
